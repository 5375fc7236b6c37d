"""Models loaded once per process and shared by all estimators over the same weights."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import nn

from priorline.checkpoints import load_weights, read_model_config, weights_hash
from priorline.errors import InputError

_MODELS_KEPT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A shared model; whoever gets it must not change it."""

    module: nn.Module
    """In evaluation mode, without gradients."""
    kind: str
    content_hash: str
    """Identifies architecture and weights."""


def load_model(weights: str | Path | None, kind: str, device: str, wanted_hash: str | None = None) -> LoadedModel:
    """Return the model in the folder ``weights``, on ``device``.

    Raises
    ------
    InputError
        If no weights are named, if they are of another kind, or, given ``wanted_hash``, if the
        folder no longer holds the weights of that hash.
    CheckpointError
        If the folder is missing or corrupt.
    """
    path, found_hash = _locate(weights)
    if wanted_hash is not None and found_hash != wanted_hash:
        raise InputError(f"weights in {path} changed since fit: hash {found_hash}, was {wanted_hash}; fit again")
    try:
        place = torch.device(device)
    except (RuntimeError, TypeError) as fault:
        raise InputError(f"device={device!r} is unknown; use cpu, cuda or cuda:0") from fault
    if place.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device={device!r}, but this machine has no usable CUDA device; use device='cpu'")
    model = _load(path, found_hash, str(place))
    if model.kind != kind:
        raise InputError(
            f"weights in {path} hold a {model.kind} model, wanted {kind}; "
            "priorline.inference.predictor.load_estimator picks the estimator that fits"
        )
    return model


def weights_purpose(weights: str | Path | None) -> tuple[str, tuple[str, ...]]:
    """Return model kind and problem types of the folder ``weights``; the weights are not read."""
    path, _ = _locate(weights)
    config = read_model_config(path)
    return config.kind, config.problem_types


def _locate(weights: str | Path | None) -> tuple[Path, str]:
    if weights is None:
        raise InputError(
            "weights=None: no weights come with Priorline yet; train some with `priorline run` and give "
            "their folder (it holds model.safetensors and config.json) as weights=..."
        )
    path = Path(weights).resolve()
    return path, weights_hash(path)


@lru_cache(maxsize=_MODELS_KEPT)
def _load(path: Path, content_hash: str, device: str) -> LoadedModel:
    module, content = load_weights(path)
    module.to(device).eval().requires_grad_(False)
    return LoadedModel(module=module, kind=content["kind"], content_hash=content_hash)
