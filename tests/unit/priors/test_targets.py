"""From a causal model's output to a table: scaling, categories, classes, rejection."""

import numpy as np
import pytest
import torch

from priorline.priors.targets import (
    TableConfig,
    categorize,
    cut_classes,
    draw_num_classes,
    finish_tables,
    scale,
    split_rows,
)


def finish(x_RC, y_R, train_size, classes=2, cut="rank", seed=0, **config):
    table_config = TableConfig(**config)
    return finish_tables(
        x_RC.T[None].clone(), y_R[None].clone(), train_size, [classes], table_config, cut, np.random.default_rng(seed)
    )[0]


def test_class_counts_are_half_binary_and_otherwise_uniform():
    generator = np.random.default_rng(0)
    counts = np.bincount([draw_num_classes(TableConfig(), 100, generator) for _ in range(9000)], minlength=11) / 9000
    assert abs(counts[2] - (0.5 + 0.5 / 9)) < 0.03
    assert np.abs(counts[3:11] - 0.5 / 9).max() < 0.015
    assert {draw_num_classes(TableConfig(), 3, generator) for _ in range(50)} == {2, 3}


@pytest.mark.parametrize("cut", ["rank", "value"])
def test_classes_have_no_gaps_and_follow_the_values(cut):
    generator = np.random.default_rng(1)
    values_R = generator.standard_normal(400).astype(np.float32)
    shares = []
    for _ in range(100):
        codes_R = cut_classes(values_R, 5, cut, generator)
        assert set(codes_R.tolist()) == set(range(codes_R.max() + 1))
        runs = np.flatnonzero(np.diff(codes_R[np.argsort(values_R)]))
        assert len(runs) == codes_R.max(), "each class is an interval of values"
        shares.append(np.bincount(codes_R).min() / 400)
    assert min(shares) < 0.02 < max(shares), "classes are unbalanced, more or less so"


def test_class_numbers_tell_nothing_of_the_order():
    generator = np.random.default_rng(2)
    values_R = np.linspace(-2, 2, 100, dtype=np.float32)
    first = {int(cut_classes(values_R, 3, "value", generator)[0]) for _ in range(60)}
    assert first == {0, 1, 2}


def test_scaled_columns_are_standard_and_outliers_are_clamped_in_two_passes():
    generator = torch.Generator().manual_seed(0)
    x_CR = torch.randn(3, 1000, generator=generator) * torch.tensor([[1.0], [50.0], [1e-3]]) + 7
    x_CR[1, 5] = 1e6
    out = scale(x_CR, 4.0, 100.0)
    torch.testing.assert_close(out.mean(1), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(out.std(1), torch.ones(3), atol=1e-3, rtol=0)
    assert 3.5 < out[1, 5] < 4.5, "4 deviations of the other rows, not of all"
    assert scale(x_CR, None, 100.0)[1, 5] > 30


def test_columns_without_outliers_are_scaled_as_if_alone():
    x_CR = torch.randn(4, 200, generator=torch.Generator().manual_seed(1))
    x_CR[2, 0] = 99.0
    together = scale(x_CR, 4.0, 100.0)
    for column in range(4):
        torch.testing.assert_close(together[column], scale(x_CR[column : column + 1], 4.0, 100.0)[0])


def test_categorical_columns_take_few_values_and_keep_which_rows_belong_together():
    config = TableConfig(mean_categories=3)
    x_CR = torch.randn(8, 300, generator=torch.Generator().manual_seed(2))
    generator = np.random.default_rng(3)
    seen = 0
    for _ in range(20):
        out = categorize(x_CR, config, generator)
        for before, after in zip(x_CR, out, strict=True):
            if torch.equal(before, after):
                continue
            seen += 1
            runs = int((after[before.argsort()].diff() != 0).sum())
            assert runs == len(after.unique()) - 1, "each category is an interval of values"
            assert torch.equal(after, after.round())
            assert after.min() >= 0
    assert 40 < seen < 120


@pytest.mark.parametrize("ordered", [0.0, 1.0])
def test_category_order_is_kept_or_shuffled(ordered):
    config = TableConfig(mean_categories=30, ordered_category_prob=ordered, reversed_category_prob=0.0)
    x_CR = torch.linspace(0, 1, 500).expand(20, 500)
    out = categorize(x_CR, config, np.random.default_rng(0))
    monotone = [bool((column.diff() >= 0).all()) for column in out]
    assert all(monotone) if ordered else not all(monotone)


def test_a_split_keeps_the_rows_order_if_it_can_and_gives_both_sides_every_class():
    generator = np.random.default_rng(4)
    fine = np.arange(40) % 4
    assert split_rows(fine, 20, 10, generator).tolist() == list(range(40))
    sorted_codes = np.sort(fine)
    order = split_rows(sorted_codes, 20, 10, generator)
    assert set(sorted_codes[order[:20]]) == set(sorted_codes[order[20:]]) == {0, 1, 2, 3}
    assert sorted(order.tolist()) == list(range(40))
    assert split_rows(sorted_codes, 20, 0, generator) is None
    assert split_rows(np.repeat([0, 1], [39, 1]), 20, 10, generator) is None, "one row cannot be on both sides"
    assert split_rows(np.zeros(40, dtype=np.int64), 20, 10, generator) is None


def test_constant_columns_go():
    x_RC = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    x_RC[:, 2] = 3.1
    table = finish(x_RC, x_RC[:, 0], 30, categorical_prob=0.0)
    assert table is not None
    assert table.x_RC.shape == (60, 3)


@pytest.mark.parametrize("fault", ["nan", "inf", "constant", "one_class"])
def test_unusable_tables_are_rejected(fault):
    x_RC = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    y_R = torch.randn(60, generator=torch.Generator().manual_seed(1))
    assert finish(x_RC, y_R, 30) is not None
    if fault == "nan":
        x_RC[3, 1] = torch.nan
    elif fault == "inf":
        y_R[5] = torch.inf
    elif fault == "constant":
        x_RC[:] = 1.0
    else:
        y_R[:] = 1.0
    assert finish(x_RC, y_R, 30) is None
