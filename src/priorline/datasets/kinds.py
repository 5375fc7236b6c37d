"""What a column holds, and its cells read as that kind."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from pandas.api import types

from priorline.datasets.number_text import parse_numbers

ColumnKind = Literal["numeric", "categorical", "boolean", "datetime", "text"]

TEXT_DTYPE = pd.Series(["a"]).dtype
"""What pandas itself makes of strings: ``str`` from version 3 on, object before."""

MOSTLY = 0.8
"""Share of present cells that must read as numbers or dates for a text column to be of that kind."""

_TEXT_DISTINCT = 50
_TEXT_SHARE = 0.2
_SAMPLE_CELLS = 1000

_BOOLEAN_WORDS = {"true": True, "false": False}

_ISO_DATE = (
    r"\s*\d{4}[-/.]\d{1,2}[-/.]\d{1,2}"
    r"(?:[T ]\s*\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?\s*(?P<zone>Z|[+-]\d{2}(?::?\d{2})?)?)?\s*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CastColumn:
    """One column read as a kind; no cell is in more than one of the two masks."""

    values: pd.Series
    """float64 (numeric), datetime64 without zone, in UTC where one was given (datetime), else object:
    bool (boolean) or str; missing where unreadable or infinite."""
    unreadable: np.ndarray
    """bool, True where a cell is present and not of the kind."""
    infinite: np.ndarray
    """bool, True where a number is infinite."""


def infer_column_kinds(frame: pd.DataFrame) -> dict[str, ColumnKind]:
    """Return the kind of every column, in order.

    Text is ``numeric`` or ``datetime`` (year first, as in ISO 8601) when at least 80% of its cells
    are, so that a few stray cells can be told from the rest; ``text`` when it has more than
    max(50, 20% of the rows) distinct values; else ``categorical``. The categorical dtype and words
    like yes and no are ``categorical``, the numbers 0 and 1 ``numeric``.
    """
    return {str(name): infer_kind(frame.iloc[:, place]) for place, name in enumerate(frame.columns)}


def infer_kind(column: pd.Series) -> ColumnKind:
    """Return the kind of one column; see `infer_column_kinds`."""
    if types.is_bool_dtype(column.dtype):
        return "boolean"
    if types.is_numeric_dtype(column.dtype):
        return "numeric"
    if isinstance(column.dtype, pd.CategoricalDtype):
        return "categorical"
    if types.is_datetime64_any_dtype(column.dtype):
        return "datetime"
    present = column.dropna()
    if present.empty:
        return "categorical"
    if types.is_object_dtype(column.dtype) and all(isinstance(cell, bool | np.bool_) for cell in present):
        return "boolean"
    cells = pd.Series(present.astype(str).unique())
    if set(cells.str.strip().str.lower()) <= set(_BOOLEAN_WORDS):
        return "boolean"
    for kind in ("numeric", "datetime"):
        if _is_mostly(present, cells, kind):
            return kind
    return "text" if len(cells) > max(_TEXT_DISTINCT, _TEXT_SHARE * len(column)) else "categorical"


def cast_column(column: pd.Series, kind: ColumnKind) -> CastColumn:
    """Return the cells of ``column`` read as ``kind``, with masks of those that cannot be."""
    missing = column.isna().to_numpy()
    infinite = np.zeros(len(column), dtype=bool)
    if kind == "numeric":
        numbers, unreadable = _as_numbers(column)
        infinite = np.isinf(numbers)
        values = pd.Series(np.where(infinite, np.nan, numbers), index=column.index)
    elif kind == "datetime":
        values = _as_datetimes(column)
        unreadable = values.isna().to_numpy() & ~missing
    elif kind == "boolean":
        values = _as_booleans(column)
        unreadable = values.isna().to_numpy() & ~missing
    else:
        values, unreadable = as_text(column), np.zeros(len(column), dtype=bool)
    return CastColumn(values=values, unreadable=unreadable, infinite=infinite)


def as_text(column: pd.Series) -> pd.Series:
    """Return the cells as str objects, None where missing; 1.0 and 1 are both "1".

    A missing value turns a column of integers into floats: the two must give the same categories.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype if not column.isna().any() else object)
    missing = column.isna().to_numpy()
    if types.is_float_dtype(column.dtype) or column.dtype == object:
        text = column.astype(object).map(_cell_text)
    else:
        text = column.astype(str)
    return text.astype(object).where(~missing, None)


def _cell_text(cell: object) -> str:
    if isinstance(cell, float | np.floating) and np.isfinite(cell) and float(cell).is_integer():
        return str(int(cell))
    return str(cell)


def _is_mostly(present: pd.Series, distinct: pd.Series, kind: ColumnKind) -> bool:
    sample = distinct.iloc[:_SAMPLE_CELLS]
    if cast_column(sample, kind).unreadable.mean() > 0.5:
        return False
    unreadable = cast_column(present, kind).unreadable
    if not unreadable.any():
        return True
    if unreadable.mean() > 1 - MOSTLY:
        return False
    # "0", "1", "2", "3+" are categories: few distinct numbers beside a word mean codes.
    num_distinct = present[~unreadable].nunique()
    return bool(num_distinct >= min(20, 0.5 * len(present)))


def _as_numbers(column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype if not column.isna().any() else object)
    if types.is_bool_dtype(column.dtype) or types.is_numeric_dtype(column.dtype):
        numbers = column.astype("Float64").to_numpy(dtype=float, na_value=np.nan)
        return numbers, np.zeros(len(column), dtype=bool)
    if types.is_datetime64_any_dtype(column.dtype):
        return np.full(len(column), np.nan), column.notna().to_numpy()
    cells = parse_numbers(_strings(column))
    return cells.values, cells.unreadable


def _as_booleans(column: pd.Series) -> pd.Series:
    if types.is_bool_dtype(column.dtype):
        return column.astype(object).where(column.notna(), None)
    if types.is_numeric_dtype(column.dtype):
        return column.astype(object).map({0: False, 1: True}).astype(object)
    words = _strings(column).str.strip().str.lower()
    return words.map({**_BOOLEAN_WORDS, "0": False, "1": True, "0.0": False, "1.0": True}).astype(object)


def _as_datetimes(column: pd.Series) -> pd.Series:
    if types.is_datetime64_any_dtype(column.dtype):
        stamps = column
    elif types.is_numeric_dtype(column.dtype):
        return pd.Series(pd.NaT, index=column.index)
    else:
        text = _strings(column)
        looks_iso = text.str.fullmatch(_ISO_DATE).fillna(False).astype(bool)
        iso = text.where(looks_iso).str.strip()
        stamps = pd.to_datetime(iso, format="ISO8601", errors="coerce", utc=True)
        rest = stamps.isna() & looks_iso
        if rest.any():
            stamps[rest] = pd.to_datetime(iso[rest], format="mixed", errors="coerce", utc=True)
    if stamps.dt.tz is not None:
        stamps = stamps.dt.tz_convert("UTC").dt.tz_localize(None)
    return stamps


def _strings(column: pd.Series) -> pd.Series:
    """Return the cells as pandas strings; missing stays missing."""
    text = column.astype(object).where(column.notna(), None)
    return text.map(str, na_action="ignore").astype(TEXT_DTYPE)
