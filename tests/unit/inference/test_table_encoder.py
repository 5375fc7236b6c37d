import datetime
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from priorline.errors import InputError
from priorline.inference.table_encoder import TableEncoder, as_frame


def encode(train, query=None, **params):
    encoder = TableEncoder(**params)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        matrix = encoder.fit_transform(as_frame(train))
        return matrix if query is None else encoder.transform(as_frame(query))


def test_missing_numbers_become_the_train_mean():
    train = pd.DataFrame({"a": [1.0, np.nan, 3.0]})
    assert encode(train).ravel().tolist() == [1, 2, 3]
    assert encode(train, pd.DataFrame({"a": [np.nan, 9.0]})).ravel().tolist() == [2, 9]


def test_every_missing_value_of_every_nullable_dtype_is_read():
    train = pd.DataFrame(
        {
            "integer": pd.array([1, pd.NA, 3, 4], dtype="Int64"),
            "flag": pd.array([True, False, pd.NA, True], dtype="boolean"),
            "text": pd.array(["b", pd.NA, "a", "a"], dtype="string"),
            "objects": np.array(["x", None, pd.NA, "y"], dtype=object),
            "category": pd.Categorical(["low", "high", None, "low"], categories=["low", "mid", "high"]),
        }
    )
    matrix = encode(train)
    assert np.isfinite(matrix).all()
    assert matrix[:, 1].tolist() == pytest.approx([1, 0, 2 / 3, 1])
    assert matrix[:, 2].tolist() == [1, -1, 0, 0]
    assert matrix[:, 3].tolist() == [0, -1, -1, 1]
    assert matrix[:, 4].tolist() == [0, 1, -1, 0]


def test_unseen_categories_get_the_code_of_missing_ones():
    query = encode(pd.DataFrame({"c": ["a", "b"]}), pd.DataFrame({"c": ["b", "new", None]}))
    assert query.ravel().tolist() == [1, -1, -1]


def test_dates_become_epoch_and_calendar_parts():
    stamps = ["2024-01-01 06:00", "2024-03-01 18:00", "2024-03-02 18:00"]
    for column in (pd.to_datetime(stamps), stamps, pd.to_datetime(stamps).tz_localize("UTC")):
        matrix = encode(pd.DataFrame({"when": column}))
        assert matrix[:, 0] == pytest.approx([19723.25, 19783.75, 19784.75])
        assert matrix[:, 1].tolist() == [1, 61, 62]
        assert matrix[:, 2].tolist() == [0, 4, 5]
        assert matrix[:, 3].tolist() == [6, 18, 18]
    days = pd.DataFrame({"day": [datetime.date(2024, 1, 1), datetime.date(2024, 2, 1)]})
    assert encode(days).shape == (2, 3), "the hour is constant and left out"
    assert encode(days.astype("date32[pyarrow]")).shape == (2, 3)
    missing = encode(pd.DataFrame({"when": stamps}), pd.DataFrame({"when": [pd.NaT]}))
    assert np.isfinite(missing).all()


def test_durations_periods_and_decimals_are_numbers():
    spans = pd.to_timedelta(["1 days", "12 hours", None])
    for column in (spans, [*spans.to_pytimedelta()[:2], None]):
        matrix = encode(pd.DataFrame({"span": column}))
        assert matrix.ravel().tolist() == [86400, 43200, 64800]
    arrow = pd.Series(spans[:2]).astype("duration[us][pyarrow]")
    assert encode(pd.DataFrame({"span": arrow})).ravel().tolist() == [86400, 43200]
    assert encode(pd.DataFrame({"p": pd.period_range("2024-01", periods=3, freq="M")})).shape[0] == 3
    assert encode(pd.DataFrame({"d": [Decimal("1.5"), Decimal("2")]})).ravel().tolist() == [1.5, 2]


def test_numbers_written_as_text_are_numbers():
    assert encode(pd.DataFrame({"n": ["265,000", "1,234.50"]})).ravel().tolist() == [265000, 1234.5]
    assert encode(np.array([["1.5", "a"], ["2", "b"]])).tolist() == [[1.5, 0], [2, 1]]
    assert encode([[1, "a"], [2.5, "b"]]).tolist() == [[1, 0], [2.5, 1]]


def test_the_decimal_mark_of_query_text_is_that_of_the_train_rows():
    train = pd.DataFrame({"n": ["1,5", "2,25", "3"]})
    alone = encode(train, pd.DataFrame({"n": ["1,234"]}))
    among = encode(train, pd.DataFrame({"n": ["1,234", "2,25"]}))
    assert alone[0, 0] == among[0, 0] == 1.234


def test_infinite_and_unreadable_cells_are_named_and_missing():
    encoder = TableEncoder()
    train = pd.DataFrame({"ratio": [1.0, np.inf, 3.0, -np.inf], "size": [1, 2, 3, 4]})
    with pytest.warns(UserWarning, match=r"infinite values treated as missing in fit: 2 in column 'ratio'"):
        assert encoder.fit_transform(train)[:, 0].tolist() == [1, 2, 3, 2]
    with pytest.warns(UserWarning, match=r"unreadable .* in predict: 1 in column 'size'"):
        encoder.transform(pd.DataFrame({"ratio": [1.0, 2.0], "size": ["big", "3"]}))


def test_constant_and_empty_columns_are_left_out():
    train = pd.DataFrame(
        {"empty": [np.nan] * 3, "none": [None] * 3, "constant": [5, 5, 5], "same": ["a"] * 3, "a": [1, 2, 3]}
    )
    assert encode(train).ravel().tolist() == [1, 2, 3]
    query = pd.DataFrame({"empty": [1.0], "none": ["x"], "constant": [9], "same": ["b"], "a": [7]})
    assert encode(train, query).ravel().tolist() == [7]
    assert encode(train[["empty", "same"]]).ravel().tolist() == [0, 0, 0], "one column must be left"


def test_duplicate_names_are_told_apart_by_position():
    train = pd.DataFrame([[1, "a"], [2, "b"]], columns=["x", "x"])
    assert encode(train).tolist() == [[1, 0], [2, 1]]


def test_categorical_features_turn_numbers_into_codes():
    train = pd.DataFrame({"zip": [30, 4, 100], "size": [1.0, 2.0, 3.5]})
    for chosen in (["zip"], [0]):
        assert encode(train, categorical_features=chosen)[:, 0].tolist() == [1, 0, 2]
    float_query = encode(train, pd.DataFrame({"zip": [4.0, np.nan], "size": [1, 1]}), categorical_features=[0])
    assert float_query[:, 0].tolist() == [0, -1]
    with pytest.raises(InputError, match="did you mean 'zip'"):
        encode(train, categorical_features=["zipp"])
    with pytest.raises(InputError, match="position 7"):
        encode(train, categorical_features=[7])


def test_free_text_is_named():
    train = pd.DataFrame({"note": [f"text {number} of a person" for number in range(80)]})
    with pytest.warns(UserWarning, match=r"'note' \(80 distinct\)"):
        TableEncoder().fit_transform(train)


def test_extreme_numbers_stay_finite():
    matrix = encode(pd.DataFrame({"a": [1.7e308, 1.7e308, np.nan, -1e308]}))
    assert np.isfinite(matrix).all()


def test_bad_shapes_say_what_to_do():
    with pytest.raises(InputError, match="Reshape your data"):
        as_frame(np.zeros(3))
    with pytest.raises(InputError, match="0 feature"):
        as_frame(np.zeros((3, 0)))
    with pytest.raises(InputError, match="Complex data not supported"):
        as_frame(np.zeros((3, 1), dtype=complex))
