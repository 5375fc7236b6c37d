"""Hyper-parameters: within their ranges, and every option occurs."""

import numpy as np
import pytest

from priorline.config_io import build
from priorline.errors import ConfigError
from priorline.priors.hyperparams import ScmConfig, TruncatedNormal, draw_hyperparams


def test_hyperparameters_cover_their_ranges():
    generator = np.random.default_rng(0)
    draws = [draw_hyperparams(ScmConfig(), generator) for _ in range(600)]
    for flag in ("is_causal", "y_is_effect", "in_clique", "sort_features", "block_wise_dropout"):
        # The mean of sigmoid(1 - U(-3, 5)) is 0.5.
        assert 0.42 < np.mean([getattr(draw, flag) for draw in draws]) < 0.58, flag
    assert {draw.cause_sampling for draw in draws} == {"normal", "mixed", "uniform"}
    assert {draw.class_cut for draw in draws} == {"rank", "value"}
    assert all(draw.num_layers >= 2 and draw.num_causes >= 1 and draw.hidden_dim >= 4 for draw in draws)
    assert all(0 <= draw.dropout_prob <= 0.9 for draw in draws)
    assert all(draw.init_std >= 0 and draw.noise_std >= 0 for draw in draws)
    assert all(abs(draw.activation_probs.sum() - 1) < 1e-9 for draw in draws)


@pytest.mark.parametrize("is_causal", [True, False])
def test_is_causal_can_be_fixed(is_causal):
    generator = np.random.default_rng(0)
    config = ScmConfig(is_causal=is_causal)
    assert {draw_hyperparams(config, generator).is_causal for _ in range(20)} == {is_causal}


def test_truncated_normal_stays_above_its_floor():
    generator = np.random.default_rng(0)
    values = [TruncatedNormal(low_mean=1, high_mean=6, floor=2).draw_integer(generator) for _ in range(500)]
    assert min(values) >= 2
    assert 3 < np.mean(values) < 7


def test_a_mean_range_the_wrong_way_round_is_refused():
    with pytest.raises(ConfigError, match="high_mean"):
        build(TruncatedNormal, {"low_mean": 2, "high_mean": 1})
