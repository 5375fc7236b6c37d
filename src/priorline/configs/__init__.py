"""Named runs and chains: ``get_config(name, overrides)`` and ``get_chain(name, overrides)``.

A run is a function that returns a `RunConfig`; a chain is a tuple of run names that one pipeline
takes through priors, pretraining, evaluation and registration together.
"""

from collections.abc import Callable, Mapping
from typing import Any

from priorline.config_io import apply_overrides, nearest_name
from priorline.configs import limix, tabicl
from priorline.configs.run import DataConfig, RunConfig
from priorline.errors import ConfigError
from priorline.models import MODELS

RUNS: dict[str, Callable[[], RunConfig]] = {**tabicl.RUNS, **limix.RUNS}

CHAINS: dict[str, tuple[str, ...]] = {
    "smoke": ("tabicl-smoke", "limix-smoke"),
    "small": ("tabicl-small", "limix-small"),
}


def list_configs() -> dict[str, str]:
    """Return each name of a run or chain with the first line of what it is."""
    runs = {name: (function.__doc__ or "").strip().splitlines()[0] for name, function in RUNS.items()}
    chains = {name: f"Chain of {', '.join(members)}." for name, members in CHAINS.items()}
    return {**chains, **runs}


def get_config(name: str, overrides: Mapping[str, Any] | None = None) -> RunConfig:
    """Return the run ``name`` with ``overrides`` (dotted path to value) applied.

    A chain of one run may be named too. Raises `ConfigError` for unknown names and keys.
    """
    chain = get_chain(name, overrides)
    if len(chain) != 1:
        raise ConfigError(f"{name!r} is a chain of {len(chain)} runs; name one: {', '.join(CHAINS[name])}")
    return chain[0]


def get_chain(name: str, overrides: Mapping[str, Any] | None = None) -> list[RunConfig]:
    """Return the runs of chain ``name`` with ``overrides`` applied.

    An override whose first segment is a model's kind (``tabicl.training.max_steps``) goes to that
    model's runs alone; any other goes to all runs.
    """
    if name in CHAINS:
        members = CHAINS[name]
    elif name in RUNS:
        members = (name,)
    else:
        raise ConfigError(f"--config {name!r} is unknown{nearest_name(name, [*CHAINS, *RUNS])}")
    runs = [RUNS[member]() for member in members]
    return [apply_overrides(run, _overrides_of(run.model.kind, overrides or {})) for run in runs]


def _overrides_of(kind: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    for path, value in overrides.items():
        first, _, rest = path.partition(".")
        if first not in MODELS:
            chosen[path] = value
        elif first == kind:
            chosen[rest] = value
    return chosen


__all__ = ["CHAINS", "RUNS", "DataConfig", "RunConfig", "get_chain", "get_config", "list_configs"]
