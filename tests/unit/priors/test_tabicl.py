"""TabICL's prior: reproducible, in bounds, and of the shape that the recipe promises."""

import random

import numpy as np
import pytest
import torch

from priorline.batches import BatchSpec
from priorline.config_io import apply_overrides, build
from priorline.errors import ConfigError, ShardError
from priorline.priors import PRIORS, build_prior
from priorline.priors.base import Prior
from priorline.priors.hyperparams import ScmConfig, TruncatedNormal
from priorline.priors.tabicl import TabICLPrior, TabICLPriorConfig
from priorline.priors.targets import TableConfig


def spec(seed=0, datasets=8, rows=96, train=60, group=4) -> BatchSpec:
    return BatchSpec(seed=seed, num_datasets=datasets, group_size=group, rows=rows, train_size=train)


def config(**changes) -> TabICLPriorConfig:
    return TabICLPriorConfig(max_columns=12, **changes)


@pytest.fixture(scope="module")
def batches():
    prior = TabICLPrior(config())
    return [prior.sample(spec(seed)) for seed in range(25)]


@pytest.mark.parametrize("kind", sorted(PRIORS))
def test_every_prior_config_survives_a_round_trip(kind):
    default = PRIORS[kind].config_class()
    assert build(PRIORS[kind].config_class, default.model_dump(mode="json")) == default
    assert build_prior(default).config == default
    assert isinstance(build_prior(default), Prior)


def test_a_smoke_config_can_lower_every_size():
    small = apply_overrides(
        TabICLPriorConfig(),
        {
            "max_columns": 5,
            "table.max_classes": 3,
            "scm.hidden_dim.high_mean": 8,
            "scm.num_layers.high_mean": 1,
            "scm.tree_max_bins": 16,
            "scm.activations.num_frequencies": 32,
        },
    )
    batch = TabICLPrior(small).sample(spec())
    assert batch.x_BRC.shape[2] <= 5
    assert batch.y_BR.max() <= 2
    with pytest.raises(ConfigError, match="did you mean 'max_columns'"):
        apply_overrides(small, {"max_colums": 5})


@pytest.mark.parametrize("mlp_prob", [0.0, 1.0])
def test_same_spec_same_bytes_whatever_came_before_and_however_many_threads(mlp_prob):
    prior = TabICLPrior(config(mlp_prob=mlp_prob))
    first = prior.sample(spec(3))
    prior.sample(spec(4))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        again = TabICLPrior(config(mlp_prob=mlp_prob)).sample(spec(3))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    for name, tensor in first.tensors().items():
        assert torch.equal(tensor, again.tensors()[name]), name
    assert not torch.equal(first.y_BR, prior.sample(spec(4)).y_BR)


def test_a_batch_begins_with_the_groups_of_a_shorter_one():
    prior = TabICLPrior(config(mlp_prob=1.0))
    short, long = prior.sample(spec(datasets=4)), prior.sample(spec(datasets=8))
    assert torch.equal(short.y_BR, long.y_BR[:4])


def test_global_random_state_is_left_alone():
    states = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()
    TabICLPrior(config()).sample(spec())
    assert random.getstate() == states[0]
    assert (np.random.get_state()[1] == states[1]).all()
    assert torch.equal(torch.get_rng_state(), states[2])


def test_both_kinds_of_model_and_both_causal_modes_are_drawn():
    prior = TabICLPrior(TabICLPriorConfig())
    draws = [prior._draw_group(spec(seed), 0, 0) for seed in range(400)]
    assert 0.62 < np.mean([draw.is_mlp for draw in draws]) < 0.78
    assert 0.4 < np.mean([draw.hyper.is_causal for draw in draws]) < 0.6
    columns = np.array([draw.num_columns for draw in draws])
    assert columns.min() >= 2
    assert columns.max() <= 100
    assert abs(columns.mean() - 51) < 5


def test_tables_are_finite_bounded_and_padded_with_zeros(batches):
    for batch in batches:
        assert batch.x_BRC.dtype == torch.float32
        assert torch.isfinite(batch.x_BRC).all()
        assert batch.x_BRC.abs().max() <= 100
        for x_RC, columns in zip(batch.x_BRC, batch.num_columns_B.tolist(), strict=True):
            assert 1 <= columns <= 12
            assert not x_RC[:, columns:].any()
            valid_RC = x_RC[:, :columns]
            assert (valid_RC.amax(0) > valid_RC.amin(0)).all(), "no constant column"
            torch.testing.assert_close(valid_RC.mean(0), torch.zeros(columns), atol=1e-3, rtol=0)


def test_train_and_test_rows_hold_the_same_classes_without_gaps(batches):
    for batch in batches:
        for y_R in batch.y_BR:
            classes = int(y_R.max()) + 1
            assert 2 <= classes <= 10
            assert set(y_R[: batch.train_size].tolist()) == set(range(classes))
            assert set(y_R[batch.train_size :].tolist()) == set(range(classes))


def test_half_of_the_tables_are_binary_and_all_class_counts_occur(batches):
    counts = np.array([int(y_R.max()) + 1 for batch in batches for y_R in batch.y_BR])
    # 50 % asked for, 1/9 of the other half, and cuts that leave a class empty.
    assert 0.5 < (counts == 2).mean() < 0.75
    assert set(range(2, 11)) <= set(counts.tolist())


def test_a_group_shares_its_width_before_constant_columns_go(batches):
    for batch in batches:
        widths = batch.num_columns_B.reshape(-1, 4)
        assert (widths.float().std(dim=1) < 4).all()
    assert len({int(batch.num_columns_B.max()) for batch in batches}) > 3


def test_datasets_of_a_group_differ(batches):
    for batch in batches:
        assert not torch.equal(batch.x_BRC[0], batch.x_BRC[1])


@pytest.mark.parametrize("train", [1, 39])
def test_a_split_too_small_for_two_classes_is_refused_with_a_remedy(train):
    with pytest.raises(ShardError, match="train_fraction"):
        TabICLPrior(config()).sample(spec(rows=40, train=train))


def test_a_prior_that_can_give_no_table_says_so_after_a_bounded_number_of_tries():
    dead = ScmConfig(
        init_std=TruncatedNormal(low_mean=1e-30, high_mean=1e-30),
        noise_std=TruncatedNormal(low_mean=1e-30, high_mean=1e-30),
    )
    prior = TabICLPrior(config(scm=dead, mlp_prob=1.0, max_draws=2, tries_per_draw=3))
    with pytest.raises(ShardError, match="6 times in a row"):
        prior.sample(spec(datasets=1, group=1))


def test_many_classes_on_few_rows_still_come_out_even():
    prior = TabICLPrior(config(table=TableConfig(binary_prob=0.0, max_classes=5), mlp_prob=1.0))
    counts = [int(y_R.max()) + 1 for seed in range(12) for y_R in prior.sample(spec(seed, rows=60, train=30)).y_BR]
    assert np.mean(np.array(counts) >= 4) > 0.3, "rejection must not leave the easy counts alone"


@pytest.mark.parametrize(("rows", "cap"), [(1024, 100), (15_000, 80), (40_000, 40), (60_000, 20), (70_000, 10)])
def test_long_tables_are_narrow(rows, cap):
    assert TabICLPriorConfig().column_range(rows) == (2, cap)


def test_paper_defaults():
    default = TabICLPriorConfig()
    assert (default.mlp_prob, default.min_columns, default.max_columns) == (0.7, 2, 100)
    assert (default.table.max_classes, default.table.binary_prob, default.table.categorical_prob) == (10, 0.5, 0.2)
    assert default.scm.is_causal is None
