"""Root variables: every kind occurs, in the shares of the recipe."""

import numpy as np
import pytest
import torch

from priorline.priors.causes import CauseConfig, draw_causes


def draw(sampling, own_stats=False, seed=0, tables=6, causes=40, rows=200, **config):
    return draw_causes(tables, causes, rows, sampling, own_stats, CauseConfig(**config), np.random.default_rng(seed))


@pytest.mark.parametrize("sampling", ["normal", "uniform", "mixed"])
@pytest.mark.parametrize("own_stats", [False, True])
def test_causes_are_finite_and_repeat(sampling, own_stats):
    causes = draw(sampling, own_stats)
    assert causes.shape == (6, 40, 200)
    assert causes.dtype == torch.float32
    assert torch.isfinite(causes).all()
    assert torch.equal(causes, draw(sampling, own_stats))


def test_own_stats_give_each_cause_its_mean():
    assert draw("normal").mean(-1).abs().max() < 0.4
    assert draw("normal", own_stats=True).mean(-1).abs().max() > 1.0


def test_two_thirds_of_mixed_causes_are_normal_and_every_kind_occurs():
    causes = draw("mixed", tables=60).flatten(0, 1)
    distinct = np.array([len(cause.unique()) for cause in causes])
    is_uniform = (distinct > 20) & ((causes.amin(1) >= 0) & (causes.amax(1) <= 1)).numpy()
    is_normal = (distinct > 20) & ~is_uniform
    # 1 - 0.33, and 0.33 ** 3 for uniform.
    assert 0.57 < is_normal.mean() < 0.77
    assert 0.01 < is_uniform.mean() < 0.08
    assert (distinct <= 10).any()
    assert ((distinct > 10) & (distinct <= 20)).any()


def test_no_switch_leaves_mixed_causes_normal():
    assert torch.equal(draw("mixed", max_switch_prob=0.0), draw("normal"))
