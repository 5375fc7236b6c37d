"""Checkpoints of other packages become weights of ours: read safely, checked whole, written whole."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from priorline.checkpoints import load_weights, read_model_config, save_weights, weights_hash
from priorline.config_io import nearest_name
from priorline.errors import CheckpointError, InputError
from priorline.models import MODELS
from priorline.models.common.foreign_files import read_foreign_file


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """Where imported weights lie and which file they come from."""

    weights: Path
    weights_hash: str
    kind: str
    problem_types: tuple[str, ...]
    source_file: str
    """Name of the file, without its folder."""
    source_sha256: str
    note: str
    """Origin and licence of such files, in words."""
    reused: bool
    """True when the weights were there already."""


def import_checkpoint(kind: str, file: Path, directory: Path) -> ImportResult:
    """Turn a checkpoint of another package into our weights in ``directory``; found there, it is left as it is.

    Parameters
    ----------
    kind : str
        Row of `MODELS`, such as ``tabicl``.
    file : Path
        The checkpoint as its authors publish it.
    directory : Path
        Folder of the new weights; it must not hold anything else.

    Raises
    ------
    InputError
        If the kind is unknown or has no importer.
    CheckpointError
        If the file is missing, corrupt, hostile or of another model, or ``directory`` holds other
        things; nothing is written then.
    """
    importers = {name: spec for name, spec in MODELS.items() if spec.read_official}
    if kind not in importers:
        raise InputError(f"no checkpoints of kind {kind!r} can be imported{nearest_name(kind, importers)}")
    spec = importers[kind]
    source = describe_source(file)
    found = _imported_before(directory, kind, source)
    if not found:
        assert spec.read_official is not None
        config, state = spec.read_official(file)
        with torch.device("meta"):
            model = spec.build(config)
        model.load_state_dict(state, assign=True)
        metadata = {"source": source | {"config": _plain_config(file), "note": spec.official_note}}
        save_weights(directory, model, kind=kind, model_config=config.model_dump(mode="json"), metadata=metadata)
    return ImportResult(
        weights=directory,
        weights_hash=weights_hash(directory),
        kind=kind,
        problem_types=read_model_config(directory).problem_types,
        source_file=source["file"],
        source_sha256=source["sha256"],
        note=spec.official_note,
        reused=found,
    )


def describe_source(file: Path) -> dict[str, Any]:
    """Return name, sha256 and size of a foreign file; raises `CheckpointError` if it cannot be read."""
    try:
        with file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as fault:
        raise CheckpointError(f"{file} cannot be read: {fault}; name the checkpoint that you downloaded") from fault
    return {"file": file.name, "sha256": digest, "size_bytes": file.stat().st_size}


def _imported_before(directory: Path, kind: str, source: Mapping[str, Any]) -> bool:
    """Return whether ``directory`` holds the weights of ``source``; raises if it holds anything else."""
    if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        return False
    _, content = load_weights(directory)
    held = content["metadata"].get("source", {})
    if content["kind"] == kind and held.get("sha256") == source["sha256"]:
        return True
    raise CheckpointError(f"{directory} holds other weights ({held.get('file', 'not imported')}); choose another name")


def _plain_config(file: Path) -> dict[str, Any]:
    """Return the configuration in a foreign file, JSON-ready, as its authors wrote it."""
    config: dict[str, Any] = json.loads(json.dumps(read_foreign_file(file, {"config": dict})["config"], default=str))
    return config
