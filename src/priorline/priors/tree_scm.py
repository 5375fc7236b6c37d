"""A structural causal model whose mechanisms are gradient-boosted trees fitted to noise.

Shapes: R rows, C columns, U units.
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
    "verbosity": 0,
    "learning_rate": 0.3,
    "base_score": 0.0,
}


def draw_tree_table(
    num_rows: int, num_columns: int, config: ScmConfig, hyper: ScmHyperparams, generator: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Return features (R, C), the root variables, and a continuous target (R,), both float32.

    Each layer is an XGBoost regressor fitted on the layer's input with independent N(0, 1) targets;
    its predictions for the same rows are the layer's output.
    """
    low, high = config.tree_num_layers
    narrow, wide = config.tree_hidden_dim
    widths = [
        *generator.integers(narrow, wide + 1, size=int(generator.integers(low, high + 1))).tolist(),
        1,
    ]
    causes = draw_causes(num_rows, num_columns, hyper, generator)
    layer = causes.numpy()
    for depth, width in enumerate(widths):
        layer = _fit_predict(layer, width, hyper, generator)
        if depth > 0:
            layer = layer + _noise(layer.shape, hyper, generator)
    return causes, torch.from_numpy(np.ascontiguousarray(layer[:, 0], dtype=np.float32))


def _fit_predict(x_RU: np.ndarray, width: int, hyper: ScmHyperparams, generator: np.random.Generator) -> np.ndarray:
    targets = generator.standard_normal((len(x_RU), width), dtype=np.float32)
    # The low-level calls: `xgboost.train` doubles the time of a fit this small.
    matrix = xgboost.DMatrix(x_RU, targets, nthread=1)
    booster = xgboost.Booster({**_BOOSTER, "max_depth": hyper.tree_depth}, [matrix])
    for round_index in range(hyper.num_trees):
        booster.update(matrix, round_index)
    return booster.predict(matrix).reshape(len(x_RU), width)


def _noise(shape: tuple[int, ...], hyper: ScmHyperparams, generator: np.random.Generator) -> np.ndarray:
    noise = generator.standard_normal(shape, dtype=np.float32)
    if hyper.pre_sample_noise_std:
        return noise * np.abs(generator.normal(0.0, hyper.noise_std, size=shape[1])).astype(np.float32)
    return noise * np.float32(hyper.noise_std)
