import math

import pandas as pd
import pytest

from priorline.datasets.number_text import decisive_marks, parse_number, parse_numbers


@pytest.mark.parametrize(
    ("text", "with_dot", "with_comma"),
    [
        ("5", 5, 5),
        ("-5", -5, -5),
        ("+5", 5, 5),
        ("\u22125", -5, -5),
        ("0.5", 0.5, None),
        ("0,5", None, 0.5),
        (".5", 0.5, None),
        ("5.", 5.0, None),
        ("1.234", 1.234, 1234),
        ("265,000", 265000, 265.0),
        ("0,123", None, 0.123),
        ("1,234,567.8", 1234567.8, None),
        ("1.234.567,8", None, 1234567.8),
        ("12,34,567", 1234567, None),
        ("1 234,5", None, 1234.5),
        ("1\u202f234\u202f567", 1234567, 1234567),
        ("1'234.5", 1234.5, None),
        ("$ 1,234.50", 1234.5, None),
        ("-$7", -7, -7),
        ("$-7", -7, -7),
        ("R$ 1.234,50", None, 1234.5),
        ("\u20ac5", 5, 5),
        ("12 USD", 12, 12),
        ("(12)", -12, -12),
        ("10.5%", 10.5, None),
        ("1.5e3", 1500.0, None),
        ("inf", math.inf, math.inf),
        ("-Infinity", -math.inf, -math.inf),
    ],
)
def test_a_number_reads_by_its_decimal_mark(text, with_dot, with_comma):
    assert parse_number(text, ".") == with_dot
    assert parse_number(text, ",") == with_comma


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "-",
        "abc",
        "1-2",
        "1/2",
        "2024-01-01",
        "1.2.3.4",
        "12,34",
        "3+",
        "(5",
        "5)",
        "--5",
        "$",
        "%",
        "1,2,3",
        "ABC 12",
        "1..2",
        "nan",
        "0x10",
        "1_000",
        "5 kg",
    ],
)
def test_words_codes_and_dates_are_no_numbers(text):
    assert parse_number(text, ".") is None


def test_a_column_decides_by_its_decisive_cells():
    assert decisive_marks(["1,69", "2,345", "7"]) == {",": 1}
    cells = parse_numbers(pd.Series(["1,69", "2,345", None, "7", "x"]))
    assert cells.values[[0, 1, 3]].tolist() == [1.69, 2.345, 7.0]
    assert cells.unreadable.tolist() == [False, False, False, False, True]


def test_percent_beside_plain_numbers_is_left_to_the_person():
    assert parse_numbers(pd.Series(["12%", "0.12"])).unreadable.tolist() == [True, False]
    assert parse_numbers(pd.Series(["12%", None, "13%"])).values[[0, 2]].tolist() == [12, 13]
