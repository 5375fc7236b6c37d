"""Tree causal models: real XGBoost fits of noise, the same bytes each time."""

import numpy as np
import torch

from priorline.priors.hyperparams import ScmConfig, draw_hyperparams
from priorline.priors.tree_scm import draw_tree_tables


def test_trees_fit_noise_and_repeat_to_the_byte():
    hyper = draw_hyperparams(ScmConfig(), np.random.default_rng(3))
    first, again = (draw_tree_tables(2, 200, 4, ScmConfig(), hyper, np.random.default_rng(4)) for _ in range(2))
    assert first[0].shape == (2, 4, 200)
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    assert all(len(y_R.unique()) > 2 for y_R in first[1])
    assert not torch.equal(first[1][0], first[1][1])


def test_without_noise_the_target_is_a_step_function_of_the_features():
    config = ScmConfig(tree_num_layers=(1, 1), max_trees=1, max_tree_depth=2)
    hyper = draw_hyperparams(
        config.model_copy(
            update={"noise_std": config.noise_std.model_copy(update={"low_mean": 1e-9, "high_mean": 1e-9})}
        ),
        np.random.default_rng(0),
    )
    _, y_BR = draw_tree_tables(1, 300, 3, config, hyper, np.random.default_rng(0))
    assert len(torch.round(y_BR[0], decimals=6).unique()) <= 4, "one tree of depth 2 has 4 leaves"
