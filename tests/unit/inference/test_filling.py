"""Missing cells filled, rows drawn and judged, for columns of any type."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import check_estimator

from priorline.errors import InputError
from priorline.inference.cell_table import typed_conditions
from priorline.inference.filling import LimiXGenerator, LimiXImputer


@pytest.fixture
def table() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    rows = 60
    frame = pd.DataFrame(
        {
            "float": generator.normal(size=rows) * 1e3,
            "whole": generator.integers(0, 9, rows).astype(float),
            "nullable": pd.array(generator.integers(0, 5, rows), dtype="Int64"),
            "word": generator.choice(["red", "green", "blue"], rows),
            "ordered": pd.Categorical(generator.choice(["low", "high"], rows), ["low", "high"], ordered=True),
            "flag": pd.array(generator.random(rows) < 0.5, dtype="boolean"),
            "yes": generator.choice([True, False], rows).astype(object),
            "day": pd.Timestamp("2024-03-01") + pd.to_timedelta(generator.integers(0, 90, rows), unit="D"),
            "zoned": pd.Timestamp("2024-03-01", tz="Europe/Paris")
            + pd.to_timedelta(generator.integers(0, 90, rows), unit="D"),
            "span": pd.to_timedelta(generator.integers(1, 90, rows), unit="h"),
            "price": [f"{value:.2f} %" for value in generator.uniform(1, 9, rows)],
            "many": [f"town {number % 13}" for number in range(rows)],
            "same": ["only"] * rows,
        }
    )
    for place, name in enumerate(frame.columns):
        frame.loc[[place, place + 20], name] = None if frame[name].dtype == object else pd.NA
    return frame


def test_scikit_learn_checks_pass(random_limix):
    for kind in (LimiXImputer(random_limix, num_members=2), LimiXGenerator(random_limix)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = check_estimator(kind, on_fail=None)
        failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
        assert not failed


@pytest.mark.parametrize("method", ["columns", "cells"])
def test_gaps_of_every_type_are_filled_and_known_cells_stay(random_limix, table, method):
    filled = LimiXImputer(random_limix, method=method).fit(table).transform(table)
    assert filled.dtypes.equals(table.dtypes)
    assert filled.index.equals(table.index)
    assert not filled.isna().any(axis=None)
    for name in table:
        known = table[name].notna()
        pd.testing.assert_series_equal(filled.loc[known, name], table.loc[known, name], check_exact=True)
        new = filled.loc[~known, name]
        if name in ("word", "ordered", "flag", "yes", "price", "many", "same"):
            assert set(new) <= set(table[name].dropna()), name
        elif name in ("whole", "nullable"):
            assert (new % 1 == 0).all()
            assert new.between(table[name].min(), table[name].max()).all()
        else:
            assert new.between(table[name].min(), table[name].max()).all(), name


def test_arrays_duplicate_names_and_new_rows_are_filled(random_limix, table):
    x = np.random.default_rng(0).normal(size=(40, 3))
    x[::7, 1] = np.nan
    filled = LimiXImputer(random_limix).fit_transform(x)
    assert isinstance(filled, np.ndarray)
    assert np.array_equal(filled[~np.isnan(x)], x[~np.isnan(x)])
    assert np.isfinite(filled).all()
    twice = table[["float", "word", "float"]].set_axis(["a", "b", "a"], axis=1)
    assert not LimiXImputer(random_limix).fit_transform(twice).isna().any(axis=None)
    imputer = LimiXImputer(random_limix).fit(table[:50])
    whole = imputer.transform(table)
    pd.testing.assert_frame_equal(imputer.transform(table[20:22]), whole[20:22], rtol=1e-4)


def test_an_empty_column_stays_empty_and_is_named(random_limix, table):
    hollow = table.assign(hollow=np.nan)
    with pytest.warns(UserWarning, match="columns hollow are empty in the context"):
        filled = LimiXImputer(random_limix).fit_transform(hollow)
    assert filled["hollow"].isna().all()
    assert not filled.drop(columns="hollow").isna().any(axis=None)


def test_drawn_rows_have_the_tables_types_and_conditions(random_limix, table):
    generator = LimiXGenerator(random_limix).fit(table)
    drawn = generator.sample(30, conditions={"word": "red", "whole": 3.0})
    assert drawn.dtypes.equals(table.dtypes)
    assert len(drawn) == 30
    assert not drawn.isna().any(axis=None)
    assert (drawn["word"] == "red").all()
    assert (drawn["whole"] == 3.0).all()
    for name in ("float", "many", "ordered", "day"):
        assert set(drawn[name]) <= set(table[name].dropna())
    pd.testing.assert_frame_equal(drawn, generator.sample(30, conditions={"word": "red", "whole": 3.0}))
    other = LimiXGenerator(random_limix, random_state=1).fit(table).sample(30, conditions={"word": "red"})
    assert not drawn["float"].equals(other["float"])


def test_temperature_widens_the_choice(random_limix):
    frame = pd.DataFrame({"x": np.random.default_rng(0).choice(list("abcd"), 200)})
    generator = LimiXGenerator(random_limix).fit(frame)
    cold, hot = (generator.sample(300, temperature=temperature)["x"].nunique() for temperature in (1e-4, 1e4))
    assert (cold, hot) == (1, 4)


def test_density_falls_where_nothing_lies_and_rows_are_judged_alone(random_limix, table):
    generator = LimiXGenerator(random_limix).fit(table)
    usual = generator.score_samples(table)
    assert usual.shape == (len(table),)
    assert np.isfinite(usual).all()
    odd = table[:2].copy()
    odd["float"] = [1e6, -1e6]
    assert (generator.score_samples(odd) < usual.min()).all()
    np.testing.assert_allclose(generator.score_samples(table[5:6]), usual[5:6], rtol=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.sample(0), "n_samples=0"),
        (lambda model: model.sample(1, temperature=0), "temperature=0"),
        (lambda model: model.sample(1, conditions={"wrod": "red"}), "did you mean 'word'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(random_limix, table, call, message):
    with pytest.raises(InputError, match=message):
        call(LimiXGenerator(random_limix).fit(table))


def test_conditions_typed_on_a_command_line_get_the_columns_type():
    frame = pd.DataFrame({"age": [1.0, 2.0], "sex": ["a", "b"], "is": [True, False]})
    assert typed_conditions(frame, {"age": "30", "sex": "b", "is": "yes"}) == {"age": 30.0, "sex": "b", "is": True}
    with pytest.raises(InputError, match="the column takes numbers"):
        typed_conditions(frame, {"age": "old"})
    with pytest.raises(InputError, match="did you mean 'age'"):
        typed_conditions(frame, {"aeg": "3"})
