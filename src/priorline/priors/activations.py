"""Random non-linear functions on the edges of a structural causal model: 19 families.

Shapes: B tables, U units, R rows. A layer applies one function to all units of a table, after
standardising each unit over the rows and one random rescale of all.

Source: TabICL section 4.1: the four of TabPFN (identity, tanh, leaky ReLU, ELU) and fifteen more.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from priorline.config_io import Config
from priorline.priors.base import Interval

GRID_TOLERANCE = 0.002
"""Error of a random function's grid, as a share of the function's deviation (see `RandomFunctions`)."""

SIMPLE: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "identity": lambda x: x,
    "selu": F.selu,
    "silu": F.silu,
    "relu": F.relu,
    "softplus": F.softplus,
    "relu6": F.relu6,
    "hardtanh": F.hardtanh,
    "sign": lambda x: torch.where(x >= 0, 1.0, -1.0),
    "rbf": lambda x: torch.exp(-x.square()),
    "exp": torch.exp,
    "sqrt_abs": lambda x: x.abs().sqrt(),
    "unit_indicator": lambda x: (x.abs() <= 1).to(x.dtype),
    "sine": torch.sin,
    "square": torch.square,
    "abs": torch.abs,
}
"""Eighteen fixed families; `RandomFunctions` is the nineteenth."""

RANDOM_FUNCTION = "random_function"


class ActivationConfig(Config):
    """Which functions the layers of an MLP model apply; defaults are TabICL v1's."""

    random_function_weight: int = Field(default=10, ge=0)
    """Entries of the random function beside one of each of the 18 fixed families; 0 leaves it out."""
    logits: Interval = (-5.0, 6.0)
    """Range of the uniform logits, per group, of the softmax over entries; the first entry's logit is 1."""
    log_scale_std: float = Field(default=2.0, ge=0)
    """Standard deviation of the log of a layer's random rescale."""
    shift_std: float = Field(default=1.0, ge=0)
    """Standard deviation of a layer's random shift, in standard deviations of its units."""
    num_frequencies: int = Field(default=256, ge=1)
    """Sines of a random function; also its largest angular frequency."""
    decay_exponent: Interval = (0.7, 3.0)
    """Log-uniform range of the exponent by which a sine's amplitude falls with its frequency.

    Differs: log-uniform as in the released code; the paper's text says exp(u), u ~ U(0.7, 3)."""

    @property
    def entries(self) -> tuple[str, ...]:
        """Families by weight: each fixed one once, the random function several times."""
        return (*SIMPLE, *([RANDOM_FUNCTION] * self.random_function_weight))

    @property
    def num_entries(self) -> int:
        """Entries that a group weighs: each by itself, and as many times "any, uniformly"."""
        return 2 * len(self.entries)


def activate(
    x_BUR: Tensor, cumulative_probs: np.ndarray, config: ActivationConfig, generator: np.random.Generator
) -> Tensor:
    """Return each table's units, standardised and rescaled, through a function drawn for that table.

    Parameters
    ----------
    cumulative_probs : ndarray
        (config.num_entries,) running sum of a group's weights; the second half of the entries stand
        for a uniform choice. (In the released code such an entry may lead to another of its kind;
        the outcome is uniform over the families all the same.)
    """
    num_tables = len(x_BUR)
    families = _draw_families(num_tables, cumulative_probs, config, generator)
    scale_B = np.exp(config.log_scale_std * generator.standard_normal(num_tables))
    shift_B = config.shift_std * generator.standard_normal(num_tables) * scale_B
    random = [table for table in range(num_tables) if families[table] == RANDOM_FUNCTION]
    # A random function standardises again, which would undo its rescale: leave it out.
    scale_B[random], shift_B[random] = 1.0, 0.0
    scale_B11, shift_B11 = (torch.from_numpy(part.astype(np.float32))[:, None, None] for part in (scale_B, shift_B))
    x_BUR = torch.addcmul(shift_B11, standardize(x_BUR), scale_B11)
    if random:
        x_BUR[random] = RandomFunctions(len(random), config, generator)(x_BUR[random])
    for table, family in enumerate(families):
        if family != RANDOM_FUNCTION:
            x_BUR[table] = SIMPLE[family](x_BUR[table])
    return x_BUR


def _draw_families(
    count: int, cumulative_probs: np.ndarray, config: ActivationConfig, generator: np.random.Generator
) -> list[str]:
    families = config.entries
    entries = np.searchsorted(cumulative_probs, generator.random(count), side="right")
    any_family = generator.integers(len(families), size=count)
    return [families[entry if entry < len(families) else any_family[place]] for place, entry in enumerate(entries)]


def standardize(x_BUR: Tensor) -> Tensor:
    """Return units with mean 0 and standard deviation 1 over the rows; constant units stay constant.

    Not `layer_norm`: it is as fast, but multiplies before it subtracts, and its rounding then gives the
    last rows of a constant unit other values than the first.
    """
    centered_BUR = x_BUR - x_BUR.mean(dim=-1, keepdim=True)
    norm_BU1 = torch.linalg.vector_norm(centered_BUR, dim=-1, keepdim=True)
    return centered_BUR.div_(norm_BU1 / math.sqrt(max(x_BUR.shape[-1] - 1, 1)) + 1e-6)


class RandomFunctions:
    """Draws of smooth-to-rough random scalar functions, one for all units of a table.

    f(x) = sum_j w_j z_j sin(a_j x + b_j) with F = 256 terms, a ~ U(0, F), b ~ U(0, 2 pi), z ~ N(0, 1),
    w_j = a_j^-e of unit norm, e log-uniform; x is standardised.

    Differs: f is read off a grid over the range of x with linear interpolation, which costs 2 reads
    instead of 256 sines a value. With step h, the error is below h^2 / 8 * |f''| everywhere; h is such
    that this is `GRID_TOLERANCE` of f's deviation at the root mean square of f'', sum_j (w_j z_j a_j^2)^2 / 2.
    """

    def __init__(self, count: int, config: ActivationConfig, generator: np.random.Generator) -> None:
        shape = (count, config.num_frequencies)
        frequency = config.num_frequencies * (1.0 - generator.random(shape))  # never 0
        low, high = np.log(config.decay_exponent)
        amplitude = frequency ** -np.exp(generator.uniform(low, high, size=(count, 1)))
        amplitude *= generator.standard_normal(shape) / np.linalg.norm(amplitude, axis=1, keepdims=True)
        phase = generator.uniform(0.0, 2.0 * math.pi, shape)
        self.frequency_BF = torch.from_numpy(frequency.astype(np.float32))
        self.phase_BF = torch.from_numpy(phase.astype(np.float32))
        self.amplitude_BF = torch.from_numpy(amplitude.astype(np.float32))
        curvature = np.linalg.norm(amplitude * frequency**2, axis=1) / np.linalg.norm(amplitude, axis=1)
        self.largest_step_B = torch.from_numpy(np.sqrt(8.0 * GRID_TOLERANCE / curvature).astype(np.float32))

    def __call__(self, x_BUR: Tensor) -> Tensor:
        """Return f of every value; not-a-number for all of a table that holds a value that is not finite."""
        low_B, high_B = x_BUR.flatten(1).aminmax(dim=1)
        is_bad_B = ~torch.isfinite(high_B - low_B)
        if bool(is_bad_B.any()):
            x_BUR = x_BUR.masked_fill(is_bad_B[:, None, None], 0.0)
            low_B, high_B = low_B.masked_fill(is_bad_B, 0.0), high_B.masked_fill(is_bad_B, 0.0)
        num_steps = 1 + math.ceil(float(((high_B - low_B) / self.largest_step_B).max()))
        step_B = (high_B - low_B).clamp_(min=1e-6) / num_steps
        values_BG = self._tabulate(low_B, step_B, num_steps + 2)
        place_BUR = (x_BUR - low_B[:, None, None]).div_(step_B[:, None, None]).clamp_(0, num_steps)
        index_BUR = place_BUR.int()
        fraction_BUR = place_BUR.sub_(index_BUR)
        first_B = torch.arange(len(x_BUR), dtype=torch.int32) * values_BG.shape[1]
        flat = index_BUR.add_(first_B[:, None, None]).flatten()
        left_BUR = values_BG.flatten().index_select(0, flat).view_as(x_BUR)
        right_BUR = values_BG.flatten().index_select(0, flat.add_(1)).view_as(x_BUR)
        result_BUR = torch.lerp(left_BUR, right_BUR, fraction_BUR)
        return result_BUR.masked_fill_(is_bad_B[:, None, None], math.nan) if bool(is_bad_B.any()) else result_BUR

    def _tabulate(self, low_B: Tensor, step_B: Tensor, num_points: int) -> Tensor:
        """Return f at ``low + i * step`` for i = 0.. and at least ``num_points`` of them, (B, G).

        With i = j * K + k, sin(a (low + j K step) + b + a k step) is a sum of two products, one factor
        of j and one of k: the sines of two short lists and a matrix product stand for all sines.
        """
        side = math.ceil(math.sqrt(num_points))
        counts_K = torch.arange(side, dtype=torch.float32)
        start_BK = low_B[:, None] + counts_K * (side * step_B)[:, None]
        coarse_BKF = start_BK[:, :, None] * self.frequency_BF[:, None, :] + self.phase_BF[:, None, :]
        fine_BFK = self.frequency_BF[:, :, None] * (counts_K * step_B[:, None])[:, None, :]
        amplitude_B1F = self.amplitude_BF[:, None, :]
        table_BKK = torch.bmm(coarse_BKF.sin().mul_(amplitude_B1F), fine_BFK.cos())
        return table_BKK.baddbmm_(coarse_BKF.cos_().mul_(amplitude_B1F), fine_BFK.sin_()).flatten(1)
