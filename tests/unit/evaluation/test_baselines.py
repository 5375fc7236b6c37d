"""Baselines take a raw table as it is, and give the same answer every time."""

import warnings

import numpy as np
import pandas as pd
import pytest

from priorline.evaluation.baselines import BASELINES

NAMES = list(BASELINES["classification"])


def awkward_table(rows: int = 90) -> tuple[pd.DataFrame, pd.Series]:
    generator = np.random.default_rng(0)
    number = generator.normal(size=rows)
    columns = {
        "a[0]": number,
        "b<c": np.where(generator.random(rows) < 0.2, np.nan, generator.normal(size=rows)),
        "d, e": pd.Series(generator.choice(["red", "green", "blue"], rows)).mask(generator.random(rows) < 0.2),
        "with inf": np.where(generator.random(rows) < 0.1, np.inf, 1.0),
        "flag": generator.random(rows) < 0.5,
        "maybe": pd.Series(generator.random(rows) < 0.5, dtype="boolean").mask(generator.random(rows) < 0.1),
        "when": pd.Timestamp("2026-01-01") + pd.to_timedelta(generator.integers(0, 400, rows), unit="D"),
        "kind": pd.Categorical(generator.choice(["x", "y"], rows)),
        "empty": np.full(rows, np.nan),
        "mixed": pd.Series([1, "one", None] * (rows // 3), dtype=object),
        7: np.ones(rows),
    }
    frame = pd.DataFrame(columns)
    labels = np.where(number + generator.normal(scale=0.3, size=rows) > 0, "yes, [a]", "no")
    return pd.concat([frame, frame[["a[0]"]]], axis=1), pd.Series(labels, name="y")


@pytest.mark.parametrize("name", NAMES)
def test_a_raw_table_needs_no_preparation(name: str) -> None:
    X, y = awkward_table()
    model = BASELINES["classification"][name].build(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X[:60], y[:60])
        proba = model.predict_proba(X[60:])
    assert model.classes_.tolist() == ["no", "yes, [a]"]
    assert proba.shape == (30, 2)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-6)
    right = (model.predict(X[60:]) == y[60:].to_numpy()).mean()
    assert right > (0.4 if name == "majority" else 0.7)


@pytest.mark.parametrize("name", NAMES)
def test_unseen_text_and_missing_cells_at_prediction_are_no_error(name: str) -> None:
    X, y = awkward_table()
    model = BASELINES["classification"][name].build(0).fit(X[:60], y[:60])
    query = X[60:].copy()
    query["d, e"] = "violet"
    query["flag"] = np.nan
    assert np.isfinite(model.predict_proba(query)).all()


@pytest.mark.parametrize("name", NAMES)
def test_equal_seeds_give_equal_probabilities(name: str) -> None:
    X, y = awkward_table()
    first, second = (
        BASELINES["classification"][name].build(3).fit(X[:60], y[:60]).predict_proba(X[60:]) for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("name", NAMES)
def test_labels_may_have_gaps_or_a_single_value(name: str) -> None:
    X, _ = awkward_table()
    y = pd.Series(np.arange(len(X)) % 3 * 10)
    model = BASELINES["classification"][name].build(0).fit(X, y)
    assert model.classes_.tolist() == [0, 10, 20]
    assert set(model.predict(X)) <= {0, 10, 20}
    lonely = BASELINES["classification"][name].build(0).fit(X, pd.Series(["only"] * len(X)))
    assert lonely.predict_proba(X[:4]).tolist() == [[1.0]] * 4


@pytest.mark.parametrize("name", NAMES)
def test_tables_of_only_text_or_only_numbers_work(name: str) -> None:
    X, y = awkward_table()
    for columns in (["d, e", "kind"], ["b<c", "flag"]):
        model = BASELINES["classification"][name].build(0).fit(X[columns], y)
        assert model.predict_proba(X[columns]).shape == (len(X), 2)


def test_every_baseline_states_its_settings() -> None:
    assert NAMES == ["xgboost", "random_forest", "linear", "majority"]
    assert all(baseline.settings for baseline in BASELINES["classification"].values())
