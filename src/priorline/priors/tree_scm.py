"""A structural causal model whose mechanisms are gradient-boosted trees fitted to noise.

Shapes: B tables, U units, R rows, C columns.
Source: TabICL section 4.1, "tree-based generation".
"""

import numpy as np
import torch
import xgboost
from torch import Tensor

from priorline.priors.causes import draw_causes
from priorline.priors.hyperparams import ScmConfig, ScmHyperparams

_BOOSTER = {
    "tree_method": "hist",
    "multi_strategy": "multi_output_tree",
    "nthread": 1,  # tiny fits; and one thread gives the same bytes everywhere
    "seed": 0,  # nothing is subsampled, so that no random number is drawn; stated all the same
    "verbosity": 0,
    "learning_rate": 0.3,
    # Differs: the released code lets XGBoost start from the targets' mean, near 0 for noise; a start
    # at 0 moves each unit by a constant, which no later split sees, and saves a pass.
    "base_score": 0.0,
}


def draw_tree_tables(
    num_tables: int,
    num_rows: int,
    num_columns: int,
    config: ScmConfig,
    hyper: ScmHyperparams,
    generator: np.random.Generator,
) -> tuple[Tensor, Tensor]:
    """Return features (B, C, R), the root variables, and continuous targets (B, R), both float32.

    Each layer is an XGBoost regressor fitted on the layer's input with independent N(0, 1) targets;
    its predictions for the same rows are the layer's output. Number and depth of trees are drawn per
    layer. Never causal: trees on the many units of a causal model would be slow.
    """
    causes_BCR = draw_causes(
        num_tables,
        num_columns,
        num_rows,
        hyper.cause_sampling,
        hyper.pre_sample_cause_stats,
        config.causes,
        generator,
    )
    low, high = config.tree_num_layers
    narrow, wide = config.tree_hidden_dim
    y_BR = torch.empty(num_tables, num_rows)
    for table in range(num_tables):
        num_hidden, hidden_dim = int(generator.integers(low, high + 1)), int(generator.integers(narrow, wide + 1))
        layer_RU = np.ascontiguousarray(causes_BCR[table].numpy().T)
        for depth, width in enumerate([hidden_dim] * num_hidden + [1]):
            layer_RU = _fit_predict(layer_RU, width, config, generator)
            if depth > 0:
                layer_RU = layer_RU + _noise(layer_RU.shape, hyper, generator)
        y_BR[table] = torch.from_numpy(layer_RU[:, 0])
    return causes_BCR, y_BR


def _fit_predict(x_RU: np.ndarray, width: int, config: ScmConfig, generator: np.random.Generator) -> np.ndarray:
    num_trees = min(config.max_trees, 1 + int(generator.exponential(config.mean_extra_trees)))
    depth = min(config.max_tree_depth, 2 + int(generator.exponential(config.mean_extra_depth)))
    targets = generator.standard_normal((len(x_RU), width), dtype=np.float32)
    # The low-level calls: `xgboost.train` doubles the time of a fit this small, and a QuantileDMatrix
    # takes 4 times as long to build as it saves.
    matrix = xgboost.DMatrix(x_RU, targets, nthread=1)
    booster = xgboost.Booster({**_BOOSTER, "max_depth": depth, "max_bin": config.tree_max_bins}, [matrix])
    for round_index in range(num_trees):
        booster.update(matrix, round_index)
    return booster.predict(matrix).reshape(len(x_RU), width)


def _noise(shape: tuple[int, ...], hyper: ScmHyperparams, generator: np.random.Generator) -> np.ndarray:
    noise = generator.standard_normal(shape, dtype=np.float32)
    if hyper.pre_sample_noise_std:
        return noise * np.abs(generator.normal(0.0, hyper.noise_std, size=shape[1])).astype(np.float32)
    return noise * np.float32(hyper.noise_std)
