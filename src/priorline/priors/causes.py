"""Root variables of a structural causal model.

Shapes: B tables, U causes, R rows.
"""

from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from priorline.config_io import Config
from priorline.priors.base import IntegerInterval, Interval

CauseSampling = Literal["normal", "mixed", "uniform"]


class CauseConfig(Config):
    """Distributions of mixed root variables; defaults are TabICL v1's."""

    max_switch_prob: float = Field(default=0.66, ge=0, le=1)
    """A column is normal unless switched to categorical, that unless to Zipf, that unless to uniform.

    Each of the three probabilities is uniform between 0 and this, per dataset."""
    num_categories: IntegerInterval = (2, 20)
    """Categories of a categorical cause, both ends included; their shares are uniform draws."""
    zipf_exponent: Interval = (2.0, 4.0)
    """Range of the exponent of a Zipf cause."""
    max_zipf: int = Field(default=10, ge=2)
    """Larger Zipf counts are cut to this."""


def torch_generator_from(generator: np.random.Generator) -> torch.Generator:
    """Return a torch generator seeded by ``generator``, for bulk draws (twice as fast as NumPy's)."""
    return torch.Generator().manual_seed(int(generator.integers(2**63 - 1)))


def draw_causes(
    num_tables: int,
    num_causes: int,
    num_rows: int,
    sampling: CauseSampling,
    has_own_stats: bool,
    config: CauseConfig,
    generator: np.random.Generator,
) -> Tensor:
    """Return (B, U, R) float32 root variables: normal, uniform, or a mix of kinds by cause.

    Parameters
    ----------
    has_own_stats : bool
        Normal causes get a mean ~ N(0, 1) and a standard deviation ~ |N(0, 1) * mean| of their own.
    """
    bulk = torch_generator_from(generator)
    causes_BUR = torch.empty(num_tables, num_causes, num_rows)
    if sampling == "uniform":
        return causes_BUR.uniform_(generator=bulk)
    causes_BUR.normal_(generator=bulk)
    if has_own_stats:
        mean, spread = generator.standard_normal((2, num_tables, num_causes, 1), dtype=np.float32)
        spread = np.abs(spread * mean)
        causes_BUR = torch.addcmul(torch.from_numpy(mean), causes_BUR, torch.from_numpy(spread))
    if sampling == "mixed":
        for causes_UR in causes_BUR:
            _mix(causes_UR, config, generator)
    return causes_BUR


def _mix(causes_UR: Tensor, config: CauseConfig, generator: np.random.Generator) -> None:
    """Replace some of the normal causes, in place, by causes of other kinds."""
    switch_probs = config.max_switch_prob * generator.random(3)
    num_causes, num_rows = causes_UR.shape
    is_kept = generator.random((num_causes, 3)) >= switch_probs
    for cause in np.flatnonzero(~is_kept[:, 0]).tolist():
        if is_kept[cause, 1]:
            low, high = config.num_categories
            shares = generator.random(int(generator.integers(low, high + 1))).cumsum()
            codes = np.searchsorted(shares, shares[-1] * generator.random(num_rows), side="right")
            values = (codes - codes.mean()) / max(float(codes.std(ddof=1)), 1e-6)
        elif is_kept[cause, 2]:
            counts = np.minimum(generator.zipf(generator.uniform(*config.zipf_exponent), num_rows), config.max_zipf)
            values = counts - counts.mean()
        else:
            values = generator.random(num_rows)
        causes_UR[cause] = torch.from_numpy(values)
