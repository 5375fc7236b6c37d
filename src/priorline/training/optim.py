"""Optimisers: which parameters train, AdamW and Muon over them, their state as named tensors."""

import math
from collections.abc import Callable, Collection, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from priorline.config_io import nearest_name
from priorline.errors import ConfigError
from priorline.training.config import OptimConfig

_MIN_HIDDEN_DIM = 16
"""A matrix with a shorter side touches raw input or output (a cell, a class): not a hidden layer."""

_NEWTON_SCHULZ_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_NEWTON_SCHULZ_STEPS = 5


def train_only(model: nn.Module, names: Collection[str], parts: tuple[str, ...]) -> None:
    """Let the parameters ``names`` below the prefixes ``parts`` train, freeze all others.

    Parameters
    ----------
    names : collection of str
        Parameters that may train at all (a model may hold constants as parameters).
    parts : tuple of str
        Prefixes of parameter names; empty: every one of ``names``.

    Raises
    ------
    ConfigError
        If a prefix matches no parameter.
    """
    for part in parts:
        if not any(_is_below(name, part) for name in names):
            hint = nearest_name(part, {name.split(".")[0] for name in names})
            raise ConfigError(f"trainable_parts: {part!r} matches no trainable parameter{hint}")
    for name, parameter in model.named_parameters():
        chosen = name in names and (not parts or any(_is_below(name, part) for part in parts))
        parameter.requires_grad_(chosen)
        parameter.grad = None


def build_optimizer(model: nn.Module, config: OptimConfig, trainable_parts: tuple[str, ...] = ()) -> list[Optimizer]:
    """Return fresh optimisers that together own each trainable parameter of ``model`` once.

    Weight decay acts on matrices only. With ``muon``, hidden matrices go to `Muon`; biases, norms,
    embeddings, and first and last layers go to AdamW.

    Parameters
    ----------
    trainable_parts : tuple of str
        Prefixes of parameter names; empty: all that require a gradient.
    """
    hidden: list[nn.Parameter] = []
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    owners = dict(model.named_modules())
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad or not _is_chosen(name, trainable_parts):
            continue
        owner = owners[name.rpartition(".")[0]]
        if config.name == "muon" and _is_hidden_matrix(name, parameter, owner):
            hidden.append(parameter)
        else:
            (matrices if parameter.ndim >= 2 else others).append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    optimizers: list[Optimizer] = []
    if groups:
        optimizers.append(AdamW(groups, betas=config.betas))
    if hidden:
        optimizers.append(
            Muon(
                hidden,
                momentum=config.muon_momentum,
                weight_decay=config.weight_decay,
                lr_scale=config.muon_learning_rate_scale,
            )
        )
    if not optimizers:
        raise ConfigError(f"trainable_parts={trainable_parts} leaves no parameter to train")
    return optimizers


def set_learning_rate(optimizers: Iterable[Optimizer], learning_rate: float) -> None:
    """Set the rate of the next update; Muon's groups multiply it by their ``lr_scale``."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * group.get("lr_scale", 1.0)


def optimizer_tensors(model: nn.Module, optimizers: list[Optimizer]) -> dict[str, Tensor]:
    """Return the optimisers' state as ``{"<parameter name>/<key>": tensor}``."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    return {
        f"{names[parameter]}/{key}": value
        for optimizer in optimizers
        for parameter, values in optimizer.state.items()
        for key, value in values.items()
    }


def load_optimizer_tensors(model: nn.Module, optimizers: list[Optimizer], tensors: dict[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` returned, into fresh optimisers over the same parameters."""
    owner = {
        parameter: optimizer
        for optimizer in optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    parameters = dict(model.named_parameters())
    for path, tensor in tensors.items():
        name, _, key = path.rpartition("/")
        parameter = parameters[name]
        # AdamW keeps its step counts on the CPU, moments live beside their parameter.
        value = tensor if key == "step" else tensor.to(parameter.device)
        owner[parameter].state[parameter][key] = value


class Muon(Optimizer):
    """Momentum whose matrix updates are orthogonalised, scaled to the size of AdamW's updates.

    Parameters
    ----------
    params : iterable of Parameter
        Matrices only.
    momentum : float
        Decay of the gradient's running mean; Nesterov's form.
    weight_decay : float
        Decoupled.
    lr_scale : float
        Factor over the learning rate that `set_learning_rate` is given.

    Source: Jordan et al., "Muon" (2024), coefficients and five Newton-Schulz steps; Liu et al.
    (arXiv 2502.16982), the factor 0.2 sqrt(max(rows, columns)). Same rule as
    ``torch.optim.Muon(adjust_lr_fn="match_rms_adamw")``.
    Differs: on a CPU the iteration runs in float32, not bfloat16: 60 times faster at 512 x 512 where
    bfloat16 is emulated (AMD EPYC with AVX2, one thread, December 2026).
    """

    def __init__(
        self, params: Any, *, momentum: float = 0.95, weight_decay: float = 0.0, lr_scale: float = 1.0
    ) -> None:
        defaults = {
            "lr": 0.0, "momentum": momentum, "weight_decay": weight_decay, "lr_scale": lr_scale
        }  # fmt: skip
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update each matrix that has a gradient."""
        assert closure is None, "Muon takes no closure"
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)

    def _update(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        mean = state["momentum"].lerp_(gradient, 1 - group["momentum"])
        direction = orthogonalize(gradient.lerp(mean, group["momentum"]))
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        scale = 0.2 * math.sqrt(max(parameter.shape))
        parameter.add_(direction, alpha=-group["lr"] * scale)


def orthogonalize(matrix: Tensor) -> Tensor:
    """Return a matrix of the same singular vectors with all singular values near 1."""
    a, b, c = _NEWTON_SCHULZ_COEFFICIENTS
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.float() if matrix.device.type == "cpu" else matrix.bfloat16()
    x = x.T if is_tall else x
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(_NEWTON_SCHULZ_STEPS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.T if is_tall else x).to(matrix.dtype)


def _is_below(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


def _is_chosen(name: str, parts: tuple[str, ...]) -> bool:
    return not parts or any(_is_below(name, part) for part in parts)


def _is_hidden_matrix(name: str, parameter: Tensor, owner: nn.Module) -> bool:
    return (
        parameter.ndim == 2
        and name.endswith("weight")  # learned tokens and inducing points are embeddings
        and not isinstance(owner, nn.Embedding)
        and min(parameter.shape) >= _MIN_HIDDEN_DIM
    )
