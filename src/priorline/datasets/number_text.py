"""Numbers as people write them: "265,000", "$ 1,234.50", "1.234,5", "1 234", "(12)", "10.5%"."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

EXACT_LIMIT = 2**53
"""From here on a float no longer holds every integer; longer identifiers stay text."""

_CURRENCY = (
    r"(?:[$\u00a2-\u00a5\u20a0-\u20bf]|[A-Z]{1,3}\$|USD|EUR|GBP|JPY|CHF|CNY|CAD|AUD|NZD|INR|RUB|SEK|NOK|DKK|"
    r"PLN|CZK|HUF|TRY|BRL|MXN|ZAR|KRW|SGD|HKD|Kr\.?|kr\.?|Rs\.?|Fr\.|z\u0142)"
)
_SHAPE = re.compile(
    rf"(?P<open>\(?)\s*(?P<sign1>[+\-\u2212]?)\s*(?:{_CURRENCY})?\s*(?P<sign2>[+\-\u2212]?)\s*"
    r"(?P<body>[0-9.,][0-9.,'\u2019 \u00a0\u202f\u2009]*?)(?P<exponent>[eE][+\-]?\d{1,3})?\s*"
    rf"(?P<after>%|{_CURRENCY})?\s*(?P<close>\)?)"
)


def _body_pattern(mark: str, group: str) -> re.Pattern[str]:
    spaces = r"'\u2019 \u00a0\u202f\u2009"
    whole = (
        rf"\d+|[1-9]\d{{0,2}}(?P<group>[{group}{spaces}])\d{{3}}(?:(?P=group)\d{{3}})*"
        # Indian grouping: 12,34,567.
        rf"|[1-9]\d?(?:[{group}]\d{{2}})+[{group}]\d{{3}}"
    )
    return re.compile(rf"(?P<whole>{whole})?(?:{mark}(?P<fraction>\d*))?")


_BODIES = {".": _body_pattern(r"\.", ","), ",": _body_pattern(",", r"\.")}


def parse_number(text: str, mark: str) -> int | float | None:
    """Return the number that ``text`` shows with ``mark`` as its decimal mark, else None.

    An int when no fraction is written. A percentage is the number shown: "12%" is 12.
    """
    shape = _SHAPE.fullmatch(text.strip())
    if shape is None:
        return _infinity(text)
    if bool(shape["open"]) != bool(shape["close"]) or (shape["sign1"] and shape["sign2"]):
        return None
    body = _BODIES[mark].fullmatch(shape["body"])
    if body is None or not (body["whole"] or body["fraction"]):
        return None
    digits = re.sub(r"\D", "", body["whole"] or "0")
    exponent = shape["exponent"] or ""
    negative = "-" if (shape["sign1"] or shape["sign2"]) in ("-", "\u2212") or shape["open"] else ""
    if body["fraction"] is None and not exponent:
        # Digits alone that no float holds exactly are an identifier.
        return None if body["group"] is None and int(digits) >= EXACT_LIMIT else int(negative + digits)
    return float(f"{negative}{digits}.{body['fraction'] or '0'}{exponent}")


def is_number_text(text: str) -> bool:
    """Tell whether ``text`` is a number under either decimal mark."""
    return parse_number(text, ".") is not None or parse_number(text, ",") is not None


def _infinity(text: str) -> float | None:
    return float(text) if text.strip().lower().lstrip("+-") in ("inf", "infinity") else None


def decisive_marks(cells: Iterable[str]) -> Counter[str]:
    """Count the cells that can be read with one decimal mark only ("1,69", "0.5", "1,234.50")."""
    marks: Counter[str] = Counter()
    for cell in cells:
        with_dot, with_comma = parse_number(cell, ".") is not None, parse_number(cell, ",") is not None
        if with_dot != with_comma:
            marks["." if with_dot else ","] += 1
    return marks


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberCells:
    """A text column read as numbers."""

    values: np.ndarray
    """float64, NaN where missing or unreadable."""
    unreadable: np.ndarray
    """bool, True where a cell is present and no number."""
    whole: bool
    """True when every cell is present and a whole number, so that int64 holds them."""


def parse_plain(text: pd.Series) -> pd.Series | None:
    """Return the column as int64 or float64 when all cells are plain numbers ("1.5"), else None."""
    try:
        numbers = pd.to_numeric(text)
    except (ValueError, TypeError):
        return None
    if numbers.dtype == object:
        return None
    if numbers.dtype.kind == "f" and (numbers.abs() >= EXACT_LIMIT).any():
        digits_only = text.dropna().str.fullmatch(r"\s*[+-]?\d+\s*").all()
        return None if digits_only else numbers
    return numbers


def parse_numbers(text: pd.Series, mark: str | None = None) -> NumberCells:
    """Return the numbers of a text column, cell by cell.

    Parameters
    ----------
    text : Series
        Strings, missing values allowed.
    mark : "." or ",", optional
        Decimal mark; None: the one that more cells decide for, "." when none does.
    """
    missing = text.isna().to_numpy()
    plain = pd.to_numeric(text, errors="coerce").to_numpy(dtype=float, na_value=np.nan, copy=True)
    # What no float holds exactly is looked at again: "1e300" is a number, twenty digits are a name.
    plain[np.isfinite(plain) & (np.abs(plain) >= EXACT_LIMIT)] = np.nan
    rest = ~missing & np.isnan(plain)
    if not rest.any() and mark != ",":
        return _cells(plain, np.zeros(len(text), dtype=bool), text)
    if mark is None:
        marks = decisive_marks(text[rest].unique())
        mark = "," if marks[","] > marks["."] else "."
    todo = ~missing if mark == "," else rest
    cells = text[todo].astype(object)
    numbers = {cell: parse_number(cell, mark) for cell in cells.unique()}
    shown = cells.map(numbers)
    percent = cells.str.rstrip().str.endswith("%").to_numpy(dtype=bool)
    if percent.any() and percent.sum() < (~missing).sum():
        # "12%" beside "0.12": nobody can tell which unit the column has.
        shown[percent] = None
    values = plain.copy()
    values[todo] = shown.to_numpy(dtype=float, na_value=np.nan)
    unreadable = np.zeros(len(text), dtype=bool)
    unreadable[todo] = shown.isna().to_numpy()
    return _cells(values, unreadable, text)


def _cells(values: np.ndarray, unreadable: np.ndarray, text: pd.Series) -> NumberCells:
    whole = bool(np.isfinite(values).all() and (values == np.rint(values)).all())
    if whole and len(values):
        # "12.0" and "1e3" are whole, yet written as fractions: the column then stays float.
        whole = abs(values).max() < EXACT_LIMIT and not text.str.contains(r"[.,]\d{1,2}\D*$|[eE]").any()
    return NumberCells(values=values, unreadable=unreadable, whole=whole)
