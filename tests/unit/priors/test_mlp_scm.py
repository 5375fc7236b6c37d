"""MLP causal models: features are hidden units if causal, roots otherwise, and never the target."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from priorline.priors.hyperparams import ScmConfig, draw_hyperparams
from priorline.priors.mlp_scm import draw_mlp_tables, pick_units


@pytest.mark.parametrize("is_causal", [True, False])
def test_tables_have_their_shape_and_repeat_to_the_byte(is_causal):
    config = ScmConfig(is_causal=is_causal)
    for seed in range(15):
        hyper = draw_hyperparams(config, np.random.default_rng(seed))
        x_BCR, y_BR = draw_mlp_tables(3, 64, 5, config, hyper, np.random.default_rng(seed))
        assert x_BCR.shape == (3, 5, 64)
        assert y_BR.shape == (3, 64)
        again = draw_mlp_tables(3, 64, 5, config, hyper, np.random.default_rng(seed))
        assert torch.equal(x_BCR.nan_to_num(), again[0].nan_to_num())
        assert torch.equal(y_BR.nan_to_num(), again[1].nan_to_num())


@pytest.mark.parametrize("flags", range(8))
def test_the_target_is_never_among_its_features(flags):
    hyper = replace(
        draw_hyperparams(ScmConfig(), np.random.default_rng(0)),
        in_clique=bool(flags & 1),
        y_is_effect=bool(flags & 2),
        sort_features=bool(flags & 4),
    )
    generator = np.random.default_rng(1)
    for _ in range(200):
        *features, target = pick_units(11, 5, hyper, generator).tolist()
        assert len({*features, target}) == 6
        assert 0 <= min(*features, target) <= max(*features, target) < 11
        assert target == 10 or not hyper.y_is_effect
        assert features == sorted(features) or not hyper.sort_features
        assert not hyper.in_clique or max(features) - min(features) <= 5


def test_a_causal_model_hands_out_units_of_every_layer_and_a_direct_one_its_roots():
    base = draw_hyperparams(ScmConfig(), np.random.default_rng(0))
    common = {"noise_std": 0.0, "cause_sampling": "uniform", "num_layers": 4, "hidden_dim": 4, "init_std": 1.0}
    direct = replace(base, is_causal=False, **common)
    x_BCR, _ = draw_mlp_tables(2, 50, 3, ScmConfig(), direct, np.random.default_rng(2))
    assert 0 <= x_BCR.min() < x_BCR.max() <= 1
    causal = replace(base, is_causal=True, y_is_effect=False, in_clique=False, **common)
    x_BCR, _ = draw_mlp_tables(2, 50, 3, ScmConfig(), causal, np.random.default_rng(2))
    assert x_BCR.min() < 0 or x_BCR.max() > 1


def test_causal_and_direct_models_both_occur():
    generator = np.random.default_rng(0)
    assert {draw_hyperparams(ScmConfig(), generator).is_causal for _ in range(40)} == {True, False}
