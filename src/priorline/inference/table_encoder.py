"""Columns of any type to numbers: what each column holds is learnt on the train rows, then fixed.

Every cell is read on its own by the fitted rules, so what stands in one query row never changes
how another one is read.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api import types
from scipy.sparse import issparse

from priorline.config_io import nearest_name
from priorline.datasets.kinds import as_text, cast_column, infer_kind
from priorline.datasets.number_text import decisive_marks, parse_numbers
from priorline.errors import InputError

Kind = Literal["numeric", "boolean", "datetime", "timedelta", "categorical"]

MISSING_CODE = -1.0
"""Code of a missing or unseen category; present ones are 0, 1, 2 ..."""

_US_PER_DAY = 86_400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedColumn:
    """What the train rows said about one column."""

    label: str
    """The column's name, or its position when it has none, for messages."""
    kind: Kind
    categories: dict[str, int]
    """Category text to code (categorical)."""
    decimal_mark: str
    """Decimal mark of numbers written as text."""
    is_percent: bool
    """Whether numbers written as text all end in a percent sign."""
    fill: np.ndarray
    """float64, mean of the train rows for each number that the column becomes."""
    is_kept: np.ndarray
    """bool, False for numbers that are the same in all train rows."""


def as_frame(x: Any) -> pd.DataFrame:
    """Return a two-dimensional table as a DataFrame, columns as given.

    Raises
    ------
    InputError
        If ``x`` is sparse, complex, empty or not two-dimensional.
    """
    if issparse(x):
        raise InputError("sparse input is not supported; give a dense table, for example x.toarray()")
    if not isinstance(x, pd.DataFrame):
        if hasattr(x, "__array__"):
            array = np.asarray(x)
        else:
            # np.asarray would turn [[1, "a"]] into text.
            array = np.asarray(x)
            array = np.asarray(x, dtype=object) if array.dtype.kind in "US" else array
        if array.ndim != 2:
            raise InputError(
                f"Expected 2D array, got {array.ndim}D array instead, shape {array.shape}. "
                "Reshape your data: array.reshape(-1, 1) for one column, array.reshape(1, -1) for one row"
            )
        x = pd.DataFrame(array)
    for what, count in (("sample", len(x)), ("feature", x.shape[1])):
        if count == 0:
            raise InputError(f"Found array with 0 {what}(s) (shape={x.shape}) while a minimum of 1 is required.")
    if any(types.is_complex_dtype(dtype) for dtype in x.dtypes):
        raise InputError("Complex data not supported; give real numbers")
    return x


def with_unique_names(x: Any) -> Any:
    """Return ``x``; where a DataFrame repeats a column name, with `` (2)``, `` (3)`` ... added to it.

    Scikit-learn compares columns by name and refuses repeated ones.
    """
    if not isinstance(x, pd.DataFrame) or x.columns.is_unique:
        return x
    names: dict[Any, None] = {}
    for name in x.columns:
        unique, number = name, 1
        while unique in names or (number > 1 and unique in x.columns):
            number += 1
            unique = f"{name} ({number})"
        names[unique] = None
    return x.set_axis(list(names), axis=1)


class TableEncoder:
    """Turns a table into a float64 matrix, fitted on train rows.

    Numbers stay numbers and booleans become 0 and 1, missing and infinite ones the train mean;
    dates become days since 1970, day of the year, day of the week and hour; durations seconds;
    categories codes in their own or alphabetical order. Constant and empty columns are left out.

    Parameters
    ----------
    categorical_features : sequence of str or int, optional
        Names or positions of columns to read as categories, whatever their type.
    keep_missing : bool
        Leave missing, infinite and unseen cells NaN.
    """

    def __init__(self, categorical_features: Sequence[str | int] | None = None, *, keep_missing: bool = False) -> None:
        self._categorical_features = categorical_features
        self._keep_missing = keep_missing
        self.columns: list[EncodedColumn] = []

    def names(self, frame: pd.DataFrame) -> list[str]:
        """Return what each number of the matrix is: a column's name, with a place where it becomes several."""
        return [
            str(name) if len(column.is_kept) == 1 else f"{name}.{place}"
            for name, column in zip(frame.columns, self.columns, strict=True)
            for place in np.flatnonzero(column.is_kept)
        ]

    def fit_transform(self, frame: pd.DataFrame) -> np.ndarray:
        """Learn from the train rows and return them as an (N, C) float64 matrix."""
        forced = _chosen_places(self._categorical_features, frame)
        warner = _CellWarner("fit")
        self.columns, parts, texts = [], [], []
        for place, label in enumerate(_labels(frame)):
            series = _column(frame, place)
            kind, is_text = _kind(series)
            if place in forced:
                kind, is_text = "categorical", False
            if is_text:
                texts.append(f"{label} ({series.nunique()} distinct)")
            column, numbers = _fit_column(series, label, kind, warner)
            self.columns.append(column)
            parts.append(_finish(column, numbers, self._keep_missing))
        warner.warn()
        if texts:
            warnings.warn(
                f"free text or identifiers in {', '.join(texts)}: each value becomes a category code in "
                "alphabetical order, which says little; drop these columns or derive features from them",
                stacklevel=5,
            )
        return _stack(parts, len(frame))

    def transform(self, frame: pd.DataFrame) -> np.ndarray:
        """Return query rows as an (M, C) float64 matrix, each row read on its own."""
        warner = _CellWarner("predict")
        parts = []
        for place, column in enumerate(self.columns):
            if column.is_kept.any():
                numbers = _read(_column(frame, place), column, warner)
                parts.append(_finish(column, numbers, self._keep_missing))
        warner.warn()
        return _stack(parts, len(frame))


class _CellWarner:
    """Collects cells that are read as missing, for one warning with columns and counts."""

    def __init__(self, moment: str) -> None:
        self._moment = moment
        self._found: dict[str, list[str]] = {"infinite": [], "unreadable": []}

    def add(self, what: str, label: str, cells: np.ndarray) -> None:
        if cells.any():
            self._found[what].append(f"{int(cells.sum())} in column {label}")

    def warn(self) -> None:
        for what, places in self._found.items():
            if places:
                warnings.warn(f"{what} values treated as missing in {self._moment}: {', '.join(places)}", stacklevel=6)


def _column(frame: pd.DataFrame, place: int) -> pd.Series:
    series = frame.iloc[:, place]
    is_arrow = isinstance(series.dtype, pd.ArrowDtype)
    if is_arrow and series.dtype.kind not in "iufb" and not str(series.dtype).startswith("timestamp"):
        # Arrow dates, durations and decimals lack methods that their Python objects have.
        return series.astype(object)
    return series


def _kind(series: pd.Series) -> tuple[Kind, bool]:
    """Return the kind, and whether it is free text that only passes for categories."""
    if types.is_timedelta64_dtype(series.dtype):
        return "timedelta", False
    if isinstance(series.dtype, pd.PeriodDtype):
        return "datetime", False
    if series.dtype == object and types.infer_dtype(series, skipna=True).startswith("timedelta"):
        return "timedelta", False
    kind = infer_kind(series)
    return ("categorical", True) if kind == "text" else (kind, False)


def _fit_column(series: pd.Series, label: str, kind: Kind, warner: _CellWarner) -> tuple[EncodedColumn, np.ndarray]:
    mark, is_percent = _number_format(series) if kind == "numeric" else (".", False)
    column = EncodedColumn(
        label=label,
        kind=kind,
        categories=_categories(series) if kind == "categorical" else {},
        decimal_mark=mark,
        is_percent=is_percent,
        fill=np.array([MISSING_CODE]),
        is_kept=np.array([True]),
    )
    numbers = _read(series, column, warner)
    if kind == "categorical":
        codes = _finish(column, numbers)
        return replace(column, is_kept=codes.min(axis=0) < codes.max(axis=0)), numbers
    is_present = ~np.isnan(numbers)
    lowest = np.where(is_present, numbers, np.inf).min(axis=0)
    highest = np.where(is_present, numbers, -np.inf).max(axis=0)
    # Divided before they are summed: numbers near 1e308 would overflow.
    shares = np.where(is_present, numbers, 0.0) / np.maximum(is_present.sum(axis=0), 1)
    return replace(column, fill=shares.sum(axis=0), is_kept=lowest < highest), numbers


def _read(series: pd.Series, column: EncodedColumn, warner: _CellWarner) -> np.ndarray:
    """Return the cells as an (R, outputs of the column) float64 array, NaN where missing."""
    if column.kind == "categorical":
        codes = as_text(series).map(column.categories)
        return codes.to_numpy(dtype=float, na_value=np.nan)[:, None]
    if column.kind == "datetime":
        return _read_datetimes(series, column, warner)
    if column.kind == "timedelta":
        spans = pd.to_timedelta(series.astype(object), errors="coerce")
        warner.add("unreadable", column.label, (spans.isna() & series.notna()).to_numpy())
        return spans.dt.total_seconds().to_numpy(dtype=float)[:, None]
    if column.kind == "boolean":
        cast = cast_column(series, "boolean")
        warner.add("unreadable", column.label, cast.unreadable)
        return cast.values.to_numpy(dtype=float, na_value=np.nan)[:, None]
    numbers = _read_numbers(series, column, warner)
    infinite = np.isinf(numbers)
    warner.add("infinite", column.label, infinite)
    return np.where(infinite, np.nan, numbers)[:, None]


def _read_numbers(series: pd.Series, column: EncodedColumn, warner: _CellWarner) -> np.ndarray:
    if types.is_numeric_dtype(series.dtype) or types.is_bool_dtype(series.dtype):
        return series.to_numpy(dtype=float, na_value=np.nan)
    text = _strings(series)
    # A lone "12%" among plain numbers has another unit; whether it is lone was settled in fit.
    text = text.where(text.str.rstrip().str.endswith("%").eq(column.is_percent) | text.isna())
    numbers = parse_numbers(text, column.decimal_mark).values.astype(float)
    warner.add("unreadable", column.label, np.isnan(numbers) & series.notna().to_numpy())
    return numbers


def _read_datetimes(series: pd.Series, column: EncodedColumn, warner: _CellWarner) -> np.ndarray:
    if isinstance(series.dtype, pd.PeriodDtype):
        series = series.dt.to_timestamp()
    stamps = cast_column(series, "datetime").values
    warner.add("unreadable", column.label, (stamps.isna() & series.notna()).to_numpy())
    missing = stamps.isna().to_numpy()
    microseconds = stamps.to_numpy().astype("datetime64[us]").astype(np.int64)
    parts = np.column_stack(
        [
            microseconds / _US_PER_DAY,
            stamps.dt.day_of_year.to_numpy(dtype=float, na_value=np.nan),
            stamps.dt.day_of_week.to_numpy(dtype=float, na_value=np.nan),
            microseconds % _US_PER_DAY / (_US_PER_DAY / 24),
        ]
    )
    return np.where(missing[:, None], np.nan, parts)


def _finish(column: EncodedColumn, numbers: np.ndarray, keep_missing: bool = False) -> np.ndarray:
    if keep_missing:
        return numbers[:, column.is_kept]
    fill = np.array([MISSING_CODE]) if column.kind == "categorical" else column.fill
    return np.where(np.isnan(numbers), fill, numbers)[:, column.is_kept]


def _stack(parts: list[np.ndarray], num_rows: int) -> np.ndarray:
    matrix = np.concatenate(parts, axis=1) if parts else np.empty((num_rows, 0))
    # With nothing to tell rows apart the model still answers with the classes' frequencies.
    return matrix if matrix.shape[1] else np.zeros((num_rows, 1))


def _categories(series: pd.Series) -> dict[str, int]:
    text = as_text(series)
    if isinstance(series.dtype, pd.CategoricalDtype):
        found = set(text.dropna().unique())
        order = as_text(pd.Series(series.cat.categories))
        return {name: code for code, name in enumerate(name for name in order if name in found)}
    names = text.dropna().unique()
    if types.is_numeric_dtype(series.dtype) and not types.is_bool_dtype(series.dtype):
        return {name: code for code, name in enumerate(sorted(names, key=float))}
    return {name: code for code, name in enumerate(sorted(names))}


def _number_format(series: pd.Series) -> tuple[str, bool]:
    """Return the decimal mark of numbers held as text, and whether all are percentages."""
    if types.is_numeric_dtype(series.dtype) or types.is_bool_dtype(series.dtype):
        return ".", False
    cells = _strings(series).dropna().unique()
    marks = decisive_marks(cells)
    is_percent = len(cells) > 0 and all(cell.rstrip().endswith("%") for cell in cells)
    return ("," if marks[","] > marks["."] else "."), is_percent


def _strings(series: pd.Series) -> pd.Series:
    return series.astype(object).map(str, na_action="ignore").astype(object)


def _labels(frame: pd.DataFrame) -> list[str]:
    if isinstance(frame.columns, pd.RangeIndex):
        return [str(place) for place in range(frame.shape[1])]
    return [repr(name) for name in frame.columns]


def _chosen_places(chosen: Sequence[str | int] | None, frame: pd.DataFrame) -> set[int]:
    places: set[int] = set()
    names = list(frame.columns)
    for item in chosen if chosen is not None else ():
        if isinstance(item, str):
            found = {place for place, name in enumerate(names) if name == item}
            if not found:
                hint = nearest_name(item, map(str, names))
                raise InputError(f"categorical_features names {item!r}, which is no column{hint}")
            places |= found
        elif 0 <= item < len(names):
            places.add(int(item))
        else:
            raise InputError(f"categorical_features holds position {item}, the table has {len(names)} columns")
    return places
