"""TabICL's prior: reproducible, in bounds, and of the shape that the recipe promises."""

import random

import numpy as np
import pytest
import torch

from priorline.batches import BatchSpec
from priorline.config_io import build
from priorline.errors import ShardError
from priorline.priors import PRIORS, build_prior
from priorline.priors.activations import (
    ENTRIES,
    NUM_ENTRIES,
    NUM_FREQUENCIES,
    SIMPLE,
    RandomFunction,
    draw_activation,
)
from priorline.priors.causes import draw_causes
from priorline.priors.hyperparams import ScmConfig, TruncatedNormal, draw_hyperparams
from priorline.priors.mlp_scm import draw_mlp_table
from priorline.priors.tabicl import TabICLPrior, TabICLPriorConfig
from priorline.priors.targets import TableConfig, finish_table
from priorline.priors.tree_scm import draw_tree_table


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


@pytest.mark.parametrize("mlp_prob", [0.0, 1.0])
def test_same_spec_same_bytes_whatever_came_before_and_however_many_threads(mlp_prob):
    prior = TabICLPrior(config(mlp_prob=mlp_prob))
    first = prior.sample(spec(3))
    prior.sample(spec(4))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    again = TabICLPrior(config(mlp_prob=mlp_prob)).sample(spec(3))
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)
    for name, tensor in first.tensors().items():
        assert torch.equal(tensor, again.tensors()[name]), name
    assert not torch.equal(first.y_BR, prior.sample(spec(4)).y_BR)


def test_global_random_state_is_left_alone():
    states = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()
    TabICLPrior(config()).sample(spec())
    assert random.getstate() == states[0]
    assert (np.random.get_state()[1] == states[1]).all()
    assert torch.equal(torch.get_rng_state(), states[2])


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
    # 50 % asked for, 1/9 of the other half, and cuts that leave a class empty: 56 % to 75 %.
    assert 0.5 < (counts == 2).mean() < 0.8
    assert {2, 3, 4, 5, 6} <= set(counts.tolist())


def test_a_group_shares_its_width_before_constant_columns_go(batches):
    for batch in batches:
        widths = batch.num_columns_B.reshape(-1, 4)
        assert (widths.float().std(dim=1) < 4).all()
    assert len({int(batch.num_columns_B.max()) for batch in batches}) > 3


def test_a_split_too_small_for_two_classes_is_refused_with_a_remedy():
    with pytest.raises(ShardError, match="train_fraction"):
        TabICLPrior(config()).sample(spec(rows=40, train=1))


@pytest.mark.parametrize(("rows", "cap"), [(1024, 100), (15_000, 80), (40_000, 40), (60_000, 20), (70_000, 10)])
def test_long_tables_are_narrow(rows, cap):
    assert TabICLPriorConfig().column_range(rows) == (2, cap)


def test_paper_defaults():
    default = TabICLPriorConfig()
    assert (default.mlp_prob, default.min_columns, default.max_columns) == (0.7, 2, 100)
    assert default.table.max_classes == 10
    assert default.scm.is_causal is None


def test_nineteen_families_and_the_random_function_ten_times():
    assert len(SIMPLE) + 1 == 19
    assert (len(ENTRIES), NUM_ENTRIES) == (28, 56)


@pytest.mark.parametrize("entry", range(0, NUM_ENTRIES, 3))
def test_every_activation_keeps_the_shape(entry):
    probs = np.zeros(NUM_ENTRIES)
    probs[entry] = 1.0
    x_RU = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    assert draw_activation(probs, np.random.default_rng(entry))(x_RU).shape == (50, 4)


def test_interpolated_random_function_stays_within_its_bound():
    generator = np.random.default_rng(0)
    for _ in range(5):
        function = RandomFunction(generator)
        x_RU = torch.randn(4096, 20, generator=torch.Generator().manual_seed(1))
        table = function(x_RU)
        scaled = (x_RU - x_RU.mean(0)) / (x_RU.std(0, correction=0) + 1e-6)
        exact = function.exact(scaled[:500].flatten()).view(500, 20)
        # Linear interpolation errs by at most (step * frequency)^2 / 8 of each sine's amplitude.
        step = float(scaled.max() - scaled.min()) / (
            int(float(scaled.max() - scaled.min()) * NUM_FREQUENCIES * 3.2) + 1
        )
        bound = ((step * function._frequency) ** 2 / 8 * function._weight.abs()).sum()
        # fp32 arguments of up to 256 * 5 radians add rounding of their own.
        assert (table[:500] - exact).abs().max() <= bound + 1e-3
        assert (table[:500] - exact).abs().max() < 0.05 * exact.std()


def test_hyperparameters_cover_their_ranges():
    generator = np.random.default_rng(0)
    draws = [draw_hyperparams(ScmConfig(), generator) for _ in range(400)]
    for flag in ("is_causal", "y_is_effect", "in_clique", "sort_features", "block_wise_dropout"):
        assert 0.05 < np.mean([getattr(draw, flag) for draw in draws]) < 0.95, flag
    assert {draw.cause_sampling for draw in draws} == {"normal", "mixed", "uniform"}
    assert {draw.class_cut for draw in draws} == {"rank", "value"}
    assert all(draw.num_layers >= 2 and draw.num_causes >= 1 and draw.hidden_dim >= 4 for draw in draws)
    assert all(1 <= draw.num_trees <= 4 and 2 <= draw.tree_depth <= 4 for draw in draws)
    assert all(0 <= draw.dropout_prob <= 0.9 for draw in draws)
    assert all(abs(draw.activation_probs.sum() - 1) < 1e-9 for draw in draws)
    assert {draw_hyperparams(ScmConfig(is_causal=True), generator).is_causal for _ in range(20)} == {True}


def test_truncated_normal_stays_above_its_floor():
    generator = np.random.default_rng(0)
    values = [TruncatedNormal(low_mean=1, high_mean=6, floor=2).draw_integer(generator) for _ in range(500)]
    assert min(values) >= 2
    assert 3 < np.mean(values) < 7


@pytest.mark.parametrize("flags", [{}, {"is_causal": True}, {"is_causal": False}])
def test_causal_features_are_units_of_the_network_and_roots_otherwise(flags):
    generator = np.random.default_rng(1)
    for _ in range(20):
        hyper = draw_hyperparams(ScmConfig(**flags), generator)
        x_RC, y_R = draw_mlp_table(64, 5, hyper, generator)
        assert x_RC.shape == (64, 5)
        assert y_R.shape == (64,)
        for column in range(5):
            # The target is never among its features.
            assert not torch.equal(x_RC[:, column], y_R) or not y_R.any()


def test_causes_of_every_kind_are_finite():
    generator = np.random.default_rng(2)
    for _ in range(50):
        hyper = draw_hyperparams(ScmConfig(), generator)
        causes = draw_causes(100, 6, hyper, generator)
        assert causes.shape == (100, 6)
        assert torch.isfinite(causes).all()


def test_trees_fit_noise_and_repeat_to_the_byte():
    hyper = draw_hyperparams(ScmConfig(), np.random.default_rng(3))
    tables = [draw_tree_table(200, 4, ScmConfig(), hyper, np.random.default_rng(4)) for _ in range(2)]
    assert torch.equal(tables[0][0], tables[1][0])
    assert torch.equal(tables[0][1], tables[1][1])
    assert len(tables[0][1].unique()) > 2


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_categorical_columns_have_few_values(share):
    table_config = TableConfig(categorical_prob=share, mean_categories=3)
    generator = np.random.default_rng(5)
    few = []
    for _ in range(40):
        x_RC = torch.randn(300, 6)
        table = finish_table(x_RC, x_RC[:, 0] + x_RC[:, 1], 150, table_config, "rank", generator)
        if table is not None:
            few += [len(column.unique()) < 40 for column in table.x_RC.T]
    assert (np.mean(few) > 0.3) if share else (np.mean(few) == 0)


@pytest.mark.parametrize("fault", ["nan", "inf", "constant", "one_class"])
def test_unusable_tables_are_rejected(fault):
    x_RC = torch.randn(60, 3)
    y_R = torch.randn(60)
    if fault == "nan":
        x_RC[3, 1] = float("nan")
    elif fault == "inf":
        y_R[5] = float("inf")
    elif fault == "constant":
        x_RC[:] = 1.0
    else:
        y_R[:] = 1.0
    assert finish_table(x_RC, y_R, 30, TableConfig(), "rank", np.random.default_rng(0)) is None
