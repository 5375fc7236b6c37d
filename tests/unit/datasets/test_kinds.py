import datetime as dt

import numpy as np
import pandas as pd
import pytest

from priorline.datasets.kinds import cast_column
from priorline.datasets.tabular import infer_column_kinds


def kind_of(values, dtype=None):
    return infer_column_kinds(pd.DataFrame({"x": pd.Series(values, dtype=dtype)}))["x"]


@pytest.mark.parametrize(
    ("values", "dtype", "kind"),
    [
        ([1, 2, 3], None, "numeric"),
        ([0, 1, 0, 1], None, "numeric"),
        ([1.5, np.inf, None], None, "numeric"),
        ([1, None], "Int64", "numeric"),
        ([None, None], float, "numeric"),
        (["1", "2.5", "$ 3,000"], None, "numeric"),
        (["yes", "no"], None, "categorical"),
        (["0", "1", "2", "3+"] * 20, None, "categorical"),
        ([1, 2, 1], "category", "categorical"),
        ([None, None], object, "categorical"),
        ([f"word {i}" for i in range(50)], None, "categorical"),
        ([f"word {i}" for i in range(51)], None, "text"),
        ([f"word {i}" for i in range(60)] * 5, None, "categorical"),
        ([True, False], None, "boolean"),
        ([True, None], "boolean", "boolean"),
        ([True, None, False], object, "boolean"),
        (["true", "False", None], None, "boolean"),
        (["2024-01-01", "2024-1-5 13:00", "2024/12/31", None], None, "datetime"),
        (["2024-01-01T00:00:00Z", "2024-06-01T12:30:00.5+02:00"], None, "datetime"),
        ([dt.date(2024, 1, 1), None], object, "datetime"),
        (["2024", "2025"], None, "numeric"),
        (["2024-13-45"] * 3, None, "categorical"),
        ([str(10**20 + i) for i in range(9)], None, "categorical"),
    ],
)
def test_a_column_is_of_the_kind_a_person_would_say(values, dtype, kind):
    assert kind_of(values, dtype) == kind


def test_stray_words_do_not_turn_a_numeric_column_into_categories():
    assert kind_of([*map(str, np.arange(40) / 7), "?", "unknown"]) == "numeric"
    assert kind_of([*[f"2024-01-{day:02}" for day in range(1, 29)], "yesterday"]) == "datetime"


def test_casting_marks_the_cells_that_are_not_of_the_kind():
    numbers = cast_column(pd.Series(["1.5", "abc", None, "inf", "2,000"]), "numeric")
    assert numbers.unreadable.tolist() == [False, True, False, False, False]
    assert numbers.infinite.tolist() == [False, False, False, True, False]
    assert numbers.values.isna().tolist() == [False, True, True, True, False]
    flags = cast_column(pd.Series(["true", "FALSE", "1", "maybe", None]), "boolean")
    assert flags.values.tolist()[:3] == [True, False, True]
    assert flags.unreadable.tolist() == [False, False, False, True, False]
    assert cast_column(pd.Series([1.5]), "datetime").unreadable.tolist() == [True]
    assert cast_column(pd.Series([pd.Timestamp("2024-01-01")]), "numeric").unreadable.tolist() == [True]


def test_dates_with_zones_become_utc_without_zone():
    stamps = cast_column(pd.Series(["2024-06-01T12:00+02:00", "2024-06-01", None]), "datetime").values
    assert stamps.tolist()[:2] == [pd.Timestamp("2024-06-01 10:00"), pd.Timestamp("2024-06-01")]
    aware = pd.Series(pd.to_datetime(["2024-06-01T12:00"])).dt.tz_localize("Europe/Berlin")
    assert cast_column(aware, "datetime").values[0] == pd.Timestamp("2024-06-01 10:00")


def test_whole_floats_and_integers_are_the_same_category():
    wanted = ["1", "2", None]
    assert cast_column(pd.Series([1.0, 2.0, None]), "categorical").values.tolist() == wanted
    assert cast_column(pd.Series([1, 2, None], dtype="Int64"), "categorical").values.tolist() == wanted
    assert cast_column(pd.Series([1, 2, None], dtype="category"), "categorical").values.tolist() == wanted
    assert cast_column(pd.Series(["1", "2", None]), "categorical").values.tolist() == wanted
