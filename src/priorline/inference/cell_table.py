"""Columns of any type to standardised numbers and back: what filling and generating cells need.

Shapes: N context rows, M query rows, C numbers of a row, K categories.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from priorline.config_io import nearest_name
from priorline.errors import InputError
from priorline.inference.table_encoder import TableEncoder

_US_PER_DAY = 86_400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CellColumn:
    """One column of the table: where its numbers stand, and what its cells look like."""

    place: int
    """Position in the table."""
    numbers: tuple[int, ...]
    """Positions of its numbers; the first stands for the cell. None: constant or empty in the context."""
    num_categories: int
    """Codes 0..K-1 of its categories; 0: a number."""
    known: np.ndarray
    """Object, the cells of the context that are known."""
    known_z: np.ndarray
    """Their first number, standardised; empty where there is none."""
    is_whole: bool
    """Whether all known cells are whole numbers, so that new ones should be."""


class CellTable:
    """A context of unlabelled rows, its columns known by name, type and spread."""

    def __init__(self, frame: pd.DataFrame, categorical_features: Sequence[str | int] | None = None) -> None:
        self.frame = frame
        self.encoder = TableEncoder(categorical_features, keep_missing=True)
        numbers_NC = self.encoder.fit_transform(frame)
        is_known_NC = np.isfinite(numbers_NC)
        count_C = np.maximum(is_known_NC.sum(axis=0), 1)
        self.center_C = (np.where(is_known_NC, numbers_NC, 0.0) / count_C).sum(axis=0)
        spread_NC = np.where(is_known_NC, numbers_NC - self.center_C, 0.0)
        unit_C = np.maximum(np.abs(spread_NC).max(axis=0), np.finfo(float).tiny)
        self.scale_C = unit_C * np.sqrt(((spread_NC / unit_C) ** 2 / count_C).sum(axis=0))
        self.scale_C[self.scale_C == 0] = 1.0
        self.z_NC = self._standard(numbers_NC)
        self.columns = [self._column(place) for place in range(frame.shape[1])]

    def encode(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (M, C) float32 standardised numbers, NaN where missing."""
        return self._standard(self.encoder.transform(frame))

    def cells(self, column: CellColumn, z_M: np.ndarray) -> list[Any]:
        """Return cells as they stand in the table, for standardised numbers; within what the context holds.

        Numbers, dates and durations are computed where the column's type holds them (whole numbers stay
        whole); elsewhere, such as in text, the context's closest cell is taken. A constant column gives its
        one value.
        """
        if not column.numbers:
            return [column.known[0] if len(column.known) else None] * len(z_M)
        z_M = np.clip(z_M, column.known_z.min(), column.known_z.max())
        values_M = z_M * self.scale_C[column.numbers[0]] + self.center_C[column.numbers[0]]
        dtype = self.frame.dtypes.iloc[column.place]
        kind = self.encoder.columns[column.place].kind
        if kind == "numeric" and types.is_numeric_dtype(dtype) and not types.is_bool_dtype(dtype):
            if types.is_integer_dtype(dtype):
                return list(np.rint(values_M).astype(np.int64))
            return list(np.rint(values_M) if column.is_whole else values_M)
        if isinstance(dtype, np.dtype | pd.DatetimeTZDtype) and types.is_datetime64_any_dtype(dtype):
            stamps = pd.to_datetime(np.rint(values_M * _US_PER_DAY).astype(np.int64), unit="us")
            return list(stamps.tz_localize(getattr(dtype, "tz", None)))
        if isinstance(dtype, np.dtype) and types.is_timedelta64_dtype(dtype):
            return list(pd.to_timedelta(values_M, unit="s"))
        return [column.known[place] for place in np.abs(z_M[:, None] - column.known_z).argmin(axis=1)]

    def codes(self, column: CellColumn, z_M: np.ndarray) -> np.ndarray:
        """Return the category codes behind standardised numbers."""
        place = column.numbers[0]
        return np.rint(z_M * self.scale_C[place] + self.center_C[place]).astype(np.int64)

    def code_z(self, column: CellColumn, codes_M: np.ndarray) -> np.ndarray:
        """Return the standardised numbers of category codes."""
        place = column.numbers[0]
        z_M: np.ndarray = (codes_M - self.center_C[place]) / self.scale_C[place]
        return z_M

    def _standard(self, numbers_RC: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            z_RC: np.ndarray = ((numbers_RC - self.center_C) / self.scale_C).astype(np.float32)
        return z_RC

    def _column(self, place: int) -> CellColumn:
        kept = [column.is_kept for column in self.encoder.columns]
        first = int(sum(int(flags.sum()) for flags in kept[:place]))
        numbers = tuple(range(first, first + int(kept[place].sum())))
        encoded = self.encoder.columns[place]
        series = self.frame.iloc[:, place]
        is_known_N = series.notna().to_numpy()
        if numbers:
            is_known_N = is_known_N & np.isfinite(self.z_NC[:, numbers[0]])
        if numbers and not is_known_N.any():
            numbers = ()
        num_categories = {"categorical": len(encoded.categories), "boolean": 2}.get(encoded.kind, 0)
        return CellColumn(
            place=place,
            numbers=numbers,
            num_categories=num_categories,
            known=series[is_known_N].astype(object).to_numpy(),
            known_z=self.z_NC[is_known_N, numbers[0]].astype(np.float64) if numbers else np.empty(0),
            is_whole=types.is_numeric_dtype(series.dtype)
            and not types.is_bool_dtype(series.dtype)
            and bool((series[is_known_N].to_numpy(dtype=np.float64) % 1 == 0).all()),
        )


def fill_column(series: pd.Series, is_missing: np.ndarray, cells: list[Any]) -> pd.Series:
    """Return ``series`` with ``cells`` where ``is_missing``; every other cell is the very same."""
    if isinstance(series.dtype, np.dtype) and series.dtype.kind == "f":
        values = series.to_numpy(copy=True)
        values[is_missing] = cells
        return pd.Series(values, index=series.index, name=series.name)
    mixed = series.astype(object).to_numpy(copy=True)
    for place, cell in zip(np.flatnonzero(is_missing), cells, strict=True):
        mixed[place] = cell
    return pd.Series(mixed, index=series.index, name=series.name, dtype=object).astype(series.dtype)


def typed_conditions(frame: pd.DataFrame, conditions: Mapping[str, str]) -> dict[str, Any]:
    """Return values typed on a command line as cells of their columns.

    Raises
    ------
    InputError
        If a column is unknown, or takes numbers and the text is none.
    """
    typed: dict[str, Any] = {}
    for name, text in conditions.items():
        if name not in frame.columns:
            raise InputError(
                f"condition names {name!r}, which is no column{nearest_name(name, map(str, frame.columns))}"
            )
        typed[name] = text
        if types.is_bool_dtype(frame[name].dtype):
            typed[name] = text.strip().lower() in ("true", "yes", "1")
        elif types.is_numeric_dtype(frame[name].dtype):
            try:
                typed[name] = float(text)
            except ValueError as fault:
                raise InputError(f"condition {name}={text!r}: the column takes numbers") from fault
    return typed
