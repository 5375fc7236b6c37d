"""Checkpoints of other packages: read without running their code, and held to the module they are for."""

import pickle
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from priorline.errors import CheckpointError

_NAMED = 5
"""Names listed in one message at most."""

_READ_FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
)
"""What `torch.load` raises on files that are not what they seem."""


def read_foreign_file(path: Path, keys: Mapping[str, type]) -> dict[str, Any]:
    """Return the dictionary in a file written by `torch.save`, its tensors on the CPU.

    Only tensors and plain values are read; a file that asks for anything else is refused before any
    of it runs.

    Parameters
    ----------
    keys : mapping
        Keys that must be there, each with the type of its value.

    Raises
    ------
    CheckpointError
        If the file is missing, corrupt, holds code, or lacks a key.
    """
    if not path.is_file():
        raise CheckpointError(f"{path} is not a file; name the checkpoint that you downloaded")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as fault:
        reason = str(fault).strip().splitlines()[0] if str(fault).strip() else "it cannot be unpickled"
        raise CheckpointError(
            f"{path} is refused, nothing of it was run: it is no torch checkpoint of tensors and plain values "
            f"alone ({reason}); get the file again from its authors"
        ) from fault
    except _READ_FAULTS as fault:
        reason = f"{type(fault).__name__}: {' '.join(str(fault).split())[:200]}"
        raise CheckpointError(f"{path} cannot be read as a torch checkpoint ({reason}); download it again") from fault
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} holds a {type(content).__name__}, wanted a dictionary with {', '.join(keys)}")
    lacking = [f"{key} ({kind.__name__})" for key, kind in keys.items() if not isinstance(content.get(key), kind)]
    if lacking:
        found = ", ".join(map(str, list(content)[:_NAMED])) or "nothing"
        raise CheckpointError(
            f"{path} lacks {', '.join(lacking)}; it holds {found}: it is another package's file, or not a whole one"
        )
    return content


def fitting_tensors(path: Path, state: Mapping[Any, Any], build: Callable[[], nn.Module]) -> dict[str, Tensor]:
    """Return ``state`` as float32 tensors after checking that it is the state of what ``build`` builds.

    Parameters
    ----------
    path : Path
        The file it came from, for messages.
    build : callable
        Returns the module; called on the meta device, so it costs no memory and no random numbers.

    Raises
    ------
    CheckpointError
        If a tensor is missing, unknown, of another shape, of another dtype than floats, or not finite.
    """
    with torch.device("meta"):
        wanted = build().state_dict()
    strange = [str(name) for name, value in state.items() if not isinstance(value, Tensor)]
    missing = [name for name in wanted if name not in state]
    unknown = [str(name) for name in state if name not in wanted]
    shapes = [
        f"{name} {tuple(state[name].shape)}, wanted {tuple(tensor.shape)}"
        for name, tensor in wanted.items()
        if isinstance(state.get(name), Tensor) and state[name].shape != tensor.shape
    ]
    faults = [("no tensors", strange), ("missing", missing), ("unknown", unknown), ("of another shape", shapes)]
    told = "; ".join(f"{len(names)} {what}: {_few(names)}" for what, names in faults if names)
    if told:
        raise CheckpointError(f"{path}: state_dict does not fit its config: {told}; it is not an official checkpoint")
    broken = [name for name, tensor in state.items() if not tensor.is_floating_point() or not tensor.isfinite().all()]
    if broken:
        raise CheckpointError(f"{path}: weights are not finite floats: {_few(broken)}; download it again")
    return {name: tensor.to(torch.float32) for name, tensor in state.items()}


def _few(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
