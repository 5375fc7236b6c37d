"""Typed configuration: the base class, dotted overrides with near-miss hints, and stable hashes."""

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from priorline.errors import ConfigError


class Config(BaseModel):
    """Base of every configuration section: frozen, typed, no unknown keys.

    The docstring under a field becomes its description (shown by ``priorline config show``).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, protected_namespaces=())


C = TypeVar("C", bound=Config)


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Turn ``["training.max_steps=10"]`` into ``{"training.max_steps": 10}`` (values are YAML)."""
    overrides: dict[str, Any] = {}
    for text in assignments:
        path, equals, value = text.partition("=")
        if not equals or not path.strip():
            raise ConfigError(f"--set got {text!r}, wants PATH=VALUE, for example training.max_steps=10")
        overrides[path.strip()] = yaml.safe_load(value)
    return overrides


def load_params(path: Path) -> tuple[str, dict[str, Any]]:
    """Read the pair ``config: NAME`` and ``set: {dotted.path: value}`` from a YAML file.

    Nested mappings under ``set`` are flattened, so that ``dvc exp run -S set.training.max_steps=5``
    and a literal dotted key mean the same.
    """
    content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    unknown = sorted(set(content) - {"config", "set"})
    if unknown or not isinstance(content.get("config"), str):
        raise ConfigError(f"{path} must hold `config: NAME` and `set: {{...}}`; got keys {sorted(content)}")
    return content["config"], dict(_flatten(content.get("set") or {}))


def apply_overrides(config: C, overrides: Mapping[str, Any]) -> C:
    """Return ``config`` with each dotted path replaced by its value, validated as a whole.

    A list index is a path segment (``training.stages.0.steps``). An unknown key raises
    `ConfigError` and names the nearest one.
    """
    tree: Any = config.model_dump(mode="json")
    for path, value in overrides.items():
        node, walked = tree, ""
        segments = path.split(".")
        for depth, segment in enumerate(segments):
            key: Any = _existing_key(node, segment, walked, path)
            if depth == len(segments) - 1:
                node[key] = value
            else:
                node, walked = node[key], f"{walked}{segment}."
    return build(type(config), tree)


def build(config_class: type[C], values: Mapping[str, Any]) -> C:
    """Validate ``values`` into ``config_class``; every fault is one line of a `ConfigError`."""
    try:
        return config_class.model_validate(values)
    except ValidationError as fault:
        lines = []
        for item in fault.errors():
            where = ".".join(str(part) for part in item["loc"]) or config_class.__name__
            hint = ""
            if item["type"] == "extra_forbidden":
                hint = _nearest(str(item["loc"][-1]), list(config_class.model_fields))
            lines.append(f"{where}: {item['msg']}, got {item['input']!r}{hint}")
        raise ConfigError("; ".join(lines)) from fault


def config_hash(*parts: Any) -> str:
    """Return 16 hex digits that identify the content of configs, dicts, lists and scalars."""
    plain = [part.model_dump(mode="json") if isinstance(part, BaseModel) else part for part in parts]
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` or the list of known names, for error messages."""
    return _nearest(name, sorted(known))


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _existing_key(node: Any, segment: str, walked: str, path: str) -> Any:
    if isinstance(node, list):
        if segment.isdigit() and int(segment) < len(node):
            return int(segment)
        raise ConfigError(f"--set {path}: {walked[:-1]} has {len(node)} entries, got index {segment!r}")
    if isinstance(node, dict) and segment in node:
        return segment
    known = list(node) if isinstance(node, dict) else []
    raise ConfigError(f"--set {path}: unknown key {walked}{segment}{_nearest(segment, known)}")


def _nearest(name: str, known: list[str]) -> str:
    matches = difflib.get_close_matches(name, known, n=1)
    if matches:
        return f"; did you mean {matches[0]!r}?"
    return f"; known: {', '.join(known)}" if known else ""
