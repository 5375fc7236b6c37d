"""Bytes of training checkpoints and of finished weights: atomic, checksummed, safetensors and JSON only.

A training checkpoint is a folder ``step-00000050/`` of ``model.safetensors``, ``trainer.safetensors``
(optimiser state), ``state.json`` (everything else) and ``checkpoint.json`` (sha256 of the other three).
Weights for users are a folder of ``model.safetensors`` and ``config.json``. Both are written beside
their place under a hidden name, flushed to disk and renamed, so a killed process or a full disk leaves
what was there before. Nothing here can run code of a foreign file: no pickle is read or written.
"""

import fcntl
import glob
import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from priorline.config_io import build, config_hash, nearest_name
from priorline.errors import CheckpointError, ConfigError
from priorline.models import MODELS
from priorline.models.spec import ModelConfig

CHECKPOINT_FORMAT = "priorline-checkpoint"
WEIGHTS_FORMAT = "priorline-weights"
FORMAT_VERSION = 1

MODEL_FILE = "model.safetensors"
TRAINER_FILE = "trainer.safetensors"
STATE_FILE = "state.json"
CHECKPOINT_FILE = "checkpoint.json"
CONFIG_FILE = "config.json"

_STEP_PREFIX = "step-"
_NEW_PREFIX = ".new-"
_OLD_PREFIX = ".old-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One intact training checkpoint; tensors are read on demand."""

    path: Path
    """Its folder."""
    step: int
    """Optimiser updates done when it was written."""
    state: dict[str, Any]
    """Content of ``state.json``."""

    def model_state(self) -> dict[str, Tensor]:
        """Return the model's parameters and buffers by name, on the CPU."""
        return load_file(self.path / MODEL_FILE)

    def trainer_tensors(self) -> dict[str, Tensor]:
        """Return the tensors of the optimisers by name, on the CPU."""
        return load_file(self.path / TRAINER_FILE)


def save_checkpoint(
    directory: Path,
    *,
    step: int,
    model_state: Mapping[str, Tensor],
    trainer_tensors: Mapping[str, Tensor],
    state: Mapping[str, Any],
    keep: int = 2,
) -> Path:
    """Write the checkpoint of ``step`` below ``directory`` and return its folder.

    Only when it is safely on disk, older ones than the ``keep`` newest go, and so do those of later
    steps: they are corrupt, or of a run that was started anew.

    Raises
    ------
    CheckpointError
        If it cannot be written, for example on a full disk; earlier checkpoints stay as they were.
    """

    def write(folder: Path) -> None:
        _write_tensors(folder / MODEL_FILE, model_state)
        _write_tensors(folder / TRAINER_FILE, trainer_tensors)
        _write_json(folder / STATE_FILE, state)
        names = (MODEL_FILE, TRAINER_FILE, STATE_FILE)
        head = {"format": CHECKPOINT_FORMAT, "format_version": FORMAT_VERSION, "step": step}
        sums = {name: _sha256(folder / name) for name in names}
        _write_json(folder / CHECKPOINT_FILE, {**head, "sha256": sums})

    path = directory / f"{_STEP_PREFIX}{step:08d}"
    _replace_folder(path, write, what=f"the checkpoint of step {step}")
    older = [number for number, _ in _numbered(directory) if number <= step]
    for number, folder in _numbered(directory):
        if number > step or number not in older[-keep:]:
            shutil.rmtree(folder)
    return path


def latest_checkpoint(directory: Path) -> Checkpoint | None:
    """Return the newest intact checkpoint below ``directory``; None if there is none at all.

    A corrupt one is named in a warning and passed over. Leftovers of a killed process are removed,
    so only the process that trains in ``directory`` may call this.

    Raises
    ------
    CheckpointError
        If there are checkpoints and every one is corrupt.
    """
    _clear_leftovers(directory)
    faults = []
    for _, folder in reversed(_numbered(directory)):
        try:
            return _read_checkpoint(folder)
        except CheckpointError as fault:
            faults.append(str(fault))
            warnings.warn(f"{fault}; trying the checkpoint before it", stacklevel=2)
    if faults:
        raise CheckpointError(
            f"no intact checkpoint in {directory}: {'; '.join(faults)}; "
            "delete that folder, or train with resume off, to start anew"
        )
    return None


@contextmanager
def sole_writer(directory: Path) -> Iterator[None]:
    """Hold ``directory`` for this caller; the system frees it when the process ends, however it ends.

    Raises
    ------
    CheckpointError
        If another process or thread holds it, or it cannot be written to.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = (directory / ".lock").open("w")
    except OSError as fault:
        raise CheckpointError(f"cannot write to {directory}: {fault}; choose another folder") from fault
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as fault:
            raise CheckpointError(
                f"another process trains in {directory}; wait for it, stop it, or use another folder"
            ) from fault
        yield


def save_weights(
    directory: Path, model: nn.Module, *, kind: str, model_config: dict[str, Any], metadata: dict[str, Any]
) -> None:
    """Write ``model`` as finished weights into the folder ``directory``, replacing what is there.

    Parameters
    ----------
    kind : str
        Row of `priorline.models.MODELS` that builds the module again.
    model_config : dict
        The architecture's configuration, JSON-ready.
    metadata : dict
        How the weights came about (run config, hashes, losses), JSON-ready.

    Raises
    ------
    CheckpointError
        If they cannot be written; what was in ``directory`` stays as it was.
    """

    def write(folder: Path) -> None:
        _write_tensors(folder / MODEL_FILE, model.state_dict())
        content = {
            "format": WEIGHTS_FORMAT,
            "format_version": FORMAT_VERSION,
            "kind": kind,
            "model": model_config,
            "metadata": metadata,
            "sha256": _sha256(folder / MODEL_FILE),
        }
        _write_json(folder / CONFIG_FILE, content)

    _replace_folder(directory, write, what="the weights")


def load_weights(directory: Path) -> tuple[nn.Module, dict[str, Any]]:
    """Return the module in ``directory``, on the CPU in evaluation mode, and its ``config.json``.

    Raises
    ------
    CheckpointError
        If files are missing or corrupt, of a newer format, or do not fit the architecture.
    """
    content = _read_weights_config(directory)
    _verify(directory / MODEL_FILE, content["sha256"])
    config = _model_config(directory, content)
    spec = MODELS[content["kind"]]
    # Initial weights are overwritten at once: loading must not move the caller's random stream.
    with torch.random.fork_rng(devices=[]):
        model = spec.build(config)
    try:
        model.load_state_dict(load_file(directory / MODEL_FILE))
    except (RuntimeError, SafetensorError) as fault:
        raise CheckpointError(f"{directory / MODEL_FILE} does not fit its {CONFIG_FILE}: {fault}") from fault
    return model.eval(), content


def read_model_config(directory: Path) -> ModelConfig:
    """Return the architecture of the weights in ``directory``; the weights themselves are not read.

    Raises
    ------
    CheckpointError
        If its ``config.json`` is missing, corrupt, of a newer format, or names an unknown kind.
    """
    return _model_config(directory, _read_weights_config(directory))


def weights_hash(directory: Path) -> str:
    """Return 16 hex digits that identify the architecture and every weight in ``directory``."""
    content = _read_weights_config(directory)
    return config_hash(content["kind"], content["model"], content["sha256"])


def _read_checkpoint(folder: Path) -> Checkpoint:
    head = _read_json(folder / CHECKPOINT_FILE, CHECKPOINT_FORMAT, keys={"step": int, "sha256": dict})
    for name in (MODEL_FILE, TRAINER_FILE, STATE_FILE):
        _verify(folder / name, head["sha256"].get(name))
    state = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
    return Checkpoint(path=folder, step=head["step"], state=state)


def _read_weights_config(directory: Path) -> dict[str, Any]:
    if not directory.is_dir():
        raise CheckpointError(f"no weights at {directory}: it must be a folder of {MODEL_FILE}, {CONFIG_FILE}")
    keys: dict[str, type] = {"kind": str, "model": dict, "metadata": dict, "sha256": str}
    return _read_json(directory / CONFIG_FILE, WEIGHTS_FORMAT, keys=keys)


def _model_config(directory: Path, content: dict[str, Any]) -> ModelConfig:
    if content["kind"] not in MODELS:
        hint = nearest_name(content["kind"], MODELS)
        raise CheckpointError(f"{directory}: model kind {content['kind']!r} is unknown{hint}")
    try:
        return build(MODELS[content["kind"]].config_class, content["model"])
    except ConfigError as fault:
        raise CheckpointError(f"{directory / CONFIG_FILE}: {fault}") from fault


def _read_json(path: Path, wanted_format: str, *, keys: Mapping[str, type]) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as fault:
        raise CheckpointError(f"{path} is missing") from fault
    except (OSError, ValueError) as fault:
        raise CheckpointError(f"{path} is unreadable: {fault}") from fault
    if not isinstance(content, dict) or content.get("format") != wanted_format:
        raise CheckpointError(f"{path} is not a {wanted_format} file")
    if content.get("format_version") != FORMAT_VERSION:
        raise CheckpointError(
            f"{path} has format_version {content.get('format_version')!r}, this Priorline reads "
            f"{FORMAT_VERSION}; read it with the version that wrote it"
        )
    lacking = sorted(key for key, wanted in keys.items() if not isinstance(content.get(key), wanted))
    if lacking:
        raise CheckpointError(f"{path} lacks {', '.join(lacking)}")
    return content


def _verify(path: Path, wanted: str | None) -> None:
    try:
        got = _sha256(path)
    except OSError as fault:
        raise CheckpointError(f"{path} is missing or unreadable: {fault}") from fault
    if got != wanted:
        raise CheckpointError(f"{path} is corrupt: sha256 {got[:12]}..., recorded {str(wanted)[:12]}...")


def _numbered(directory: Path) -> list[tuple[int, Path]]:
    folders = directory.glob(f"{_STEP_PREFIX}*")
    named = [(folder.name.removeprefix(_STEP_PREFIX), folder) for folder in folders]
    return sorted((int(number), folder) for number, folder in named if number.isdecimal())


def _replace_folder(path: Path, write: Callable[[Path], None], *, what: str) -> None:
    """Fill a hidden folder by ``write``, flush it and put it in the place of ``path``."""
    new, old = path.with_name(_NEW_PREFIX + path.name), path.with_name(_OLD_PREFIX + path.name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear_leftovers(path.parent, glob.escape(path.name))
        new.mkdir()
        write(new)
        _fsync(new)
        if path.exists():
            path.rename(old)
        new.rename(path)
        _fsync(path.parent)
    except (OSError, SafetensorError) as fault:
        raise CheckpointError(
            f"cannot write {what} to {path}: {fault}; free some space or check its permissions, "
            "then run again: all that was written before is untouched"
        ) from fault
    finally:
        _clear_leftovers(path.parent, glob.escape(path.name))


def _clear_leftovers(directory: Path, name: str = f"{_STEP_PREFIX}*") -> None:
    for old in directory.glob(_OLD_PREFIX + name):
        place = old.with_name(old.name.removeprefix(_OLD_PREFIX))
        if place.exists():
            shutil.rmtree(old)
        else:  # killed between the two renames: the old one is still the valid one
            old.rename(place)
    for new in directory.glob(_NEW_PREFIX + name):
        shutil.rmtree(new)


def _write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    seen: set[int] = set()
    plain = {}
    for name, tensor in tensors.items():
        value = tensor.detach().cpu().contiguous()
        storage = value.untyped_storage().data_ptr()
        # safetensors refuses tensors that share memory, and a view would drag its whole base along.
        shared = storage in seen or value.untyped_storage().nbytes() != value.nbytes
        seen.add(storage)
        plain[name] = value.clone() if shared else value
    save_file(plain, path)
    _fsync(path)


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    with path.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=1, sort_keys=True, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
