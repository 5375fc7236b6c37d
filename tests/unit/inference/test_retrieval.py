"""Two-pass inference: what is kept, who is asked, when it is used, and that rows stay independent."""

import numpy as np
import pytest

from priorline.errors import InputError
from priorline.inference.limix_estimators import LimiXClassifier, LimiXRegressor
from priorline.inference.retrieval import (
    CANDIDATES,
    LEAST_CONTEXT,
    LEAST_ROWS,
    ROWS_PER_CLASS,
    choose,
    draw_plan,
)


@pytest.fixture
def table() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(320, 5))
    return x, (x[:, 0] > 0).astype(int)


def scores(num_rows: int) -> np.ndarray:
    """Rows of one half attend to their own half alone."""
    half = np.arange(num_rows) % 2
    return np.where(half[:, None] == half, 1.0, 0.01) / num_rows


def test_groups_keep_the_rows_they_attend_to_and_some_of_each_class():
    codes = np.zeros(400, dtype=int)
    codes[[1, 3, 5, 7, 9, 11, 13]] = 1  # all in the odd half
    plan = draw_plan("rows", scores(400), np.full(4, 0.25), codes)
    assert plan.columns.tolist() == [0, 1, 2, 3]
    assert len(plan.rows_G) > 1
    for center_N, rows in zip(plan.centers_GN, plan.rows_G, strict=True):
        assert len(rows) >= LEAST_ROWS
        parity = int(center_N[1::2].sum() > center_N[::2].sum())
        assert (rows % 2 == parity).mean() > 0.9
        assert (codes[rows] == 1).sum() >= ROWS_PER_CLASS
    assigned = plan.assign(scores(400)[:10])
    for row, group in enumerate(assigned):
        assert np.bincount(plan.rows_G[group] % 2).argmax() == row % 2


def test_columns_are_kept_until_they_hold_most_of_the_attention():
    plan = draw_plan("columns", scores(50), np.array([0.05, 0.5, 0.03, 0.42]), None)
    assert plan.columns.tolist() == [1, 3]
    assert [len(rows) for rows in plan.rows_G] == [50]


def test_regression_keeps_many_rows():
    for num_rows in (LEAST_CONTEXT, 1000):
        plan = draw_plan("rows", np.random.default_rng(0).random((num_rows, num_rows)), np.ones(3) / 3, None)
        assert all(len(rows) >= max(LEAST_ROWS, num_rows // 2) for rows in plan.rows_G)


@pytest.mark.parametrize("gain", [0.5, 0.0, -0.5])
def test_it_is_used_only_where_it_wins(gain):
    def losses(kind, rest, held):
        assert not set(rest) & set(held)
        noise = np.random.default_rng(0).normal(size=len(held)) * 0.1
        return 1.0 + noise - (gain if kind == "rows" else -0.2 if kind in CANDIDATES else 0.0)

    choice = choose(losses, 400, "auto")
    assert choice.used == ("rows" if gain > 0 else "none")
    assert set(choice.losses) == {"none", *CANDIDATES}
    assert "held-out rows" in choice.reason
    assert choose(losses, LEAST_CONTEXT - 1, "auto").used == "none"
    assert choose(losses, 10, "columns").used == "columns"


@pytest.mark.parametrize("retrieval", ["auto", *CANDIDATES])
@pytest.mark.parametrize("kind", [LimiXClassifier, LimiXRegressor])
def test_rows_are_answered_alone_whatever_is_retrieved(random_limix, table, kind, retrieval):
    x, y = table
    model = kind(random_limix, num_members=2, retrieval=retrieval).fit(x[:300], y[:300])
    answer = model.predict_proba if kind is LimiXClassifier else model.predict
    whole = answer(x[300:])
    np.testing.assert_allclose(answer(x[305:306]), whole[5:6], atol=1e-5)
    assert model.retrieval_.used in ("none", *CANDIDATES)
    if kind is LimiXClassifier:
        np.testing.assert_allclose(whole.sum(axis=1), 1)
    if retrieval == "auto":
        assert set(model.retrieval_.losses) == {"none", *CANDIDATES}


def test_a_changed_parameter_counts_at_the_next_prediction(random_limix, table):
    x, y = table
    model = LimiXClassifier(random_limix, num_members=1, retrieval="none").fit(x[:300], y[:300])
    before = model.predict_proba(x[300:])
    model.set_params(retrieval="rows and columns")
    assert not np.allclose(before, model.predict_proba(x[300:]))
    with pytest.raises(InputError, match="did you mean 'columns'"):
        LimiXClassifier(random_limix, retrieval="colums").fit(x, y)
