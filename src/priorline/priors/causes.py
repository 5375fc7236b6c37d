"""Root variables of a structural causal model.

Shapes: R rows, U causes.
"""

import numpy as np
import torch
from torch import Tensor

from priorline.priors.hyperparams import ScmHyperparams


def draw_causes(num_rows: int, num_causes: int, hyper: ScmHyperparams, generator: np.random.Generator) -> Tensor:
    """Return (R, U) float32 root variables: normal, uniform, or a mix of kinds by column."""
    if hyper.cause_sampling == "uniform":
        causes = generator.random((num_rows, num_causes), dtype=np.float32)
    elif hyper.cause_sampling == "normal":
        causes = _normal(num_rows, num_causes, hyper.pre_sample_cause_stats, generator)
    else:
        causes = _mixed(num_rows, num_causes, hyper.pre_sample_cause_stats, generator)
    return torch.from_numpy(causes)


def _normal(rows: int, columns: int, own_stats: bool, generator: np.random.Generator) -> np.ndarray:
    values = generator.standard_normal((rows, columns), dtype=np.float32)
    if own_stats:
        mean = generator.normal(size=columns)
        spread = np.abs(generator.normal(size=columns) * mean)
        values = values * spread.astype(np.float32) + mean.astype(np.float32)
    return values


def _mixed(rows: int, columns: int, own_stats: bool, generator: np.random.Generator) -> np.ndarray:
    """Draw each column's kind from shares that are themselves random."""
    values = _normal(rows, columns, own_stats, generator)
    normal_below, categories_below, zipf_below = np.sort(generator.uniform(0, 0.66, size=3))
    for column, share in enumerate(generator.random(columns)):
        if share < normal_below:
            continue
        if share < categories_below:
            probs = generator.random(int(generator.integers(2, 21)))
            codes = generator.choice(len(probs), size=rows, p=probs / probs.sum())
            values[:, column] = (codes - codes.mean()) / (codes.std() + 1e-6)
        elif share < zipf_below:
            exponent = 2.0 + 2.0 * generator.random()
            counts = np.minimum(generator.zipf(exponent, size=rows), 10).astype(np.float32)
            values[:, column] = counts - counts.mean()
        else:
            values[:, column] = generator.random(rows, dtype=np.float32)
    return values
