"""Random non-linear functions on the edges of a structural causal model: 19 families.

Shapes: R rows, U units. A layer applies one function to all of its units, after standardising each
unit over the rows and one random rescale of all.

Source: TabICL section 4.1: the four of TabPFN (identity, tanh, leaky ReLU, ELU) and fifteen more.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

NUM_FREQUENCIES = 256
"""Sines of a random function; also its largest frequency."""
RANDOM_FUNCTION_WEIGHT = 10
"""Entries of the random function beside one of each other family."""
POINTS_PER_RADIAN = 3.2
"""Grid points per radian of the fastest sine; bounds the interpolation error (see `RandomFunction`)."""

SIMPLE: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda x: x,
    "tanh": torch.tanh,
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "relu": F.relu,
    "relu6": F.relu6,
    "selu": F.selu,
    "silu": F.silu,
    "softplus": F.softplus,
    "hardtanh": F.hardtanh,
    "sign": torch.sign,
    "sine": torch.sin,
    "rbf": lambda x: torch.exp(-x.square()),
    "exp": torch.exp,
    "sqrt_abs": lambda x: x.abs().sqrt(),
    "unit_indicator": lambda x: (x.abs() <= 1).to(x.dtype),
    "square": torch.square,
    "abs": torch.abs,
}
"""Eighteen fixed families; `RandomFunction` is the nineteenth."""

RANDOM_FUNCTION = "random_function"
ENTRIES: tuple[str, ...] = (*SIMPLE, *([RANDOM_FUNCTION] * RANDOM_FUNCTION_WEIGHT))
NUM_ENTRIES = 2 * len(ENTRIES)
"""Entries that a group weighs: each family by itself, and as many times "any, uniformly"."""


def draw_activation(probs: np.ndarray, generator: np.random.Generator) -> Callable[[Tensor], Tensor]:
    """Return one layer's function, (R, U) to (R, U), standardising and rescaling included.

    Parameters
    ----------
    probs : ndarray
        (NUM_ENTRIES,) weights of a group; the second half of the entries stand for a uniform choice.
    """
    entry = int(generator.choice(NUM_ENTRIES, p=probs))
    if entry >= len(ENTRIES):
        entry = int(generator.integers(len(ENTRIES)))
    family = ENTRIES[entry]
    log_scale, shift = generator.normal(size=2)
    function = RandomFunction(generator) if family == RANDOM_FUNCTION else SIMPLE[family]

    def apply(x_RU: Tensor) -> Tensor:
        return function((standardize(x_RU) + shift) * math.exp(2.0 * log_scale))

    return apply


def standardize(x_RU: Tensor) -> Tensor:
    """Return units with mean 0 and standard deviation 1 over the rows; constant units become 0."""
    std_U, mean_U = torch.std_mean(x_RU, dim=0, correction=0)
    return (x_RU - mean_U) / (std_U + 1e-6)


class RandomFunction:
    """A draw of a smooth-to-rough random scalar function, shared by all units of a layer.

    f(x) = sum_j w_j z_j sin(a_j s(x) + b_j) with 256 terms, a ~ U(0, 256), b ~ U(0, 2 pi), z ~ N(0, 1),
    w_j = a_j^-e of unit norm, e log-uniform in [0.7, 3]; s standardises over the rows.

    Differs: e is log-uniform as in the released code; the paper's text says exp(u), u ~ U(0.7, 3).
    Differs: large tables read f off a grid with linear interpolation, exact at the grid's points, with
    an error below (step * 256)^2 / 8 of a sine's amplitude: 1.2 %, and far less where f is smooth.
    """

    def __init__(self, generator: np.random.Generator) -> None:
        frequency = generator.uniform(1e-3, NUM_FREQUENCIES, size=NUM_FREQUENCIES)
        exponent = math.exp(generator.uniform(math.log(0.7), math.log(3.0)))
        weight = frequency**-exponent
        weight *= generator.normal(size=NUM_FREQUENCIES) / np.linalg.norm(weight)
        self._frequency = torch.from_numpy(frequency.astype(np.float32))
        self._phase = torch.from_numpy(generator.uniform(0, 2 * math.pi, NUM_FREQUENCIES).astype(np.float32))
        self._weight = torch.from_numpy(weight.astype(np.float32))

    def __call__(self, x_RU: Tensor) -> Tensor:
        """Return f of every unit, (R, U)."""
        scaled = standardize(x_RU)
        low, high = float(scaled.min()), float(scaled.max())
        if not math.isfinite(low) or not math.isfinite(high):
            return torch.full_like(x_RU, math.nan)
        num_points = 2 + int((high - low) * NUM_FREQUENCIES * POINTS_PER_RADIAN)
        if num_points >= scaled.numel():
            return self.exact(scaled.flatten()).view_as(x_RU)
        grid = torch.linspace(low, high, num_points, dtype=torch.float32)
        values = self.exact(grid)
        place = (scaled - low) * ((num_points - 1) / max(high - low, 1e-12))
        left = place.long().clamp_(0, num_points - 2)
        return torch.lerp(values[left], values[left + 1], place - left)

    def exact(self, points: Tensor) -> Tensor:
        """Return f at one-dimensional, already standardised ``points``."""
        return torch.sin(torch.outer(points, self._frequency) + self._phase) @ self._weight
