"""Scikit-learn pipelines over raw tables: numbers and text side by side, missing cells, any names.

Columns are renamed by position, for XGBoost refuses names with ``[``, ``]`` or ``<``; numbers become
floats with infinities missing, dates become days, everything else text. One thread each.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import OneHotEncoder
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

Columns = list[str]
Build = Callable[[Columns, Columns], Any]
"""Called with the numeric and the text columns; returns an unfitted pipeline."""
MISSING_TEXT = "<missing>"


class TableClassifier:
    """A pipeline that classifies; labels become 0 .. K-1.

    With a single class in the training rows nothing is fitted.
    """

    def __init__(self, build: Build) -> None:
        self.build = build

    def fit(self, X: pd.DataFrame, y: pd.Series) -> "TableClassifier":
        """Fit on the rows of ``X`` with labels ``y``; return self."""
        self.classes_, codes = np.unique(np.asarray(y), return_inverse=True)
        self.columns_ = _PlainColumns(X)
        self.model_ = None
        if len(self.classes_) > 1:
            with threadpool_limits(limits=1):
                self.model_ = self.build(*self.columns_.names()).fit(self.columns_.of(X), codes)
        return self

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        """Return probabilities (M, K); columns in the order of ``classes_``."""
        if self.model_ is None:
            return np.ones((len(X), 1))
        with threadpool_limits(limits=1):
            return np.asarray(self.model_.predict_proba(self.columns_.of(X)), dtype=np.float64)

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        """Return the likeliest label of each row."""
        labels: np.ndarray = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels


class TableRegressor:
    """A pipeline that predicts numbers."""

    def __init__(self, build: Build) -> None:
        self.build = build

    def fit(self, X: pd.DataFrame, y: pd.Series) -> "TableRegressor":
        """Fit on the rows of ``X`` with targets ``y``; return self."""
        self.columns_ = _PlainColumns(X)
        with threadpool_limits(limits=1):
            self.model_ = self.build(*self.columns_.names())
            self.model_.fit(self.columns_.of(X), np.asarray(y, dtype=np.float64))
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        """Return the (M,) predicted numbers."""
        with threadpool_limits(limits=1):
            return np.asarray(self.model_.predict(self.columns_.of(X)), dtype=np.float64)


def by_kind(numbers: Columns, texts: Columns, number_step: Any, text_step: Any) -> ColumnTransformer:
    """Return a step that takes numbers through ``number_step`` and text through ``text_step``."""
    steps = [("numbers", number_step, numbers), ("texts", text_step, texts)]
    return ColumnTransformer([step for step in steps if step[2]], sparse_threshold=0)


def one_hot() -> OneHotEncoder:
    """Return an encoder of at most 50 columns per text column; unseen and rare text share the last."""
    return OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=50, sparse_output=False)


class TableImputer:
    """Fills cells by an imputer of numbers: scaled numbers, and a 0/1 number for each text of a column.

    A hidden text becomes the one with the largest number; known cells stay.
    """

    def __init__(self, build: Callable[[], Any]) -> None:
        self.build = build

    def fit(self, X: pd.DataFrame, y: Any = None) -> "TableImputer":
        """Fit on the rows of ``X``; return self."""
        self.texts_ = {place: _known_texts(column) for place, column in _by_place(X) if is_text(column)}
        self.center_, self.scale_ = {}, {}
        for place, column in _by_place(X):
            if place not in self.texts_:
                known = number_cells(column)[np.isfinite(number_cells(column))]
                self.center_[place] = float(known.mean()) if len(known) else 0.0
                self.scale_[place] = float(known.std()) or 1.0 if len(known) else 1.0
        with threadpool_limits(limits=1), warnings.catch_warnings():
            # The number of rounds is a setting that every report prints.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model_ = self.build().fit(np.concatenate(list(self._numbers(X).values()), axis=1))
        return self

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return ``X`` with its missing cells filled."""
        blocks = self._numbers(X)
        with threadpool_limits(limits=1):
            filled = np.asarray(self.model_.transform(np.concatenate(list(blocks.values()), axis=1)))
        columns, start = [], 0
        for place, column in _by_place(X):
            width = blocks[place].shape[1]
            part, missing = filled[:, start : start + width], column.isna().to_numpy()
            start += width
            if place in self.texts_:
                found = np.array(self.texts_[place] or [MISSING_TEXT], dtype=object)[part.argmax(axis=1)]
                columns.append(column.astype(object).where(~missing, pd.Series(found, index=column.index)))
            else:
                values = column.to_numpy(dtype=np.float64, na_value=np.nan)
                columns.append(
                    pd.Series(
                        np.where(missing, part[:, 0] * self.scale_[place] + self.center_[place], values),
                        index=column.index,
                    )
                )
        return pd.concat(columns, axis=1).set_axis(X.columns, axis=1)

    def _numbers(self, X: pd.DataFrame) -> dict[int, np.ndarray]:
        blocks = {}
        for place, column in _by_place(X):
            if place in self.texts_:
                texts = text_cells(column)
                known = self.texts_[place] or [MISSING_TEXT]
                block = (texts[:, None] == np.array(known, dtype=object)).astype(np.float64)
                block[~block.any(axis=1)] = np.nan
            else:
                block = ((number_cells(column) - self.center_[place]) / self.scale_[place])[:, None]
            blocks[place] = block
        return blocks


def _by_place(X: pd.DataFrame) -> list[tuple[int, pd.Series]]:
    return [(place, X.iloc[:, place]) for place in range(X.shape[1])]


def _known_texts(column: pd.Series) -> list[str]:
    return sorted(set(text_cells(column)) - {MISSING_TEXT})


class _PlainColumns:
    """Which columns of the training rows are text, and any rows with those columns made plain."""

    def __init__(self, X: pd.DataFrame) -> None:
        self._is_text = [is_text(column) for _, column in X.items()]

    def names(self) -> tuple[Columns, Columns]:
        named = [(f"column_{number}", text) for number, text in enumerate(self._is_text)]
        return [name for name, text in named if not text], [name for name, text in named if text]

    def of(self, X: pd.DataFrame) -> pd.DataFrame:
        columns = {}
        for number, ((_, column), text) in enumerate(zip(X.items(), self._is_text, strict=True)):
            columns[f"column_{number}"] = text_cells(column) if text else number_cells(column)
        return pd.DataFrame(columns, index=X.index)


def is_text(column: pd.Series) -> bool:
    """Return whether a column is read as text: neither numbers nor dates."""
    dtype = column.dtype
    return not (pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_datetime64_any_dtype(dtype))


def number_cells(column: pd.Series) -> np.ndarray:
    """Return cells as float64, NaN where missing or infinite; dates as days."""
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        days = (column - pd.Timestamp(0, tz=column.dt.tz)) / pd.Timedelta(days=1)
        return days.to_numpy(dtype=np.float64)
    values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(values), values, np.nan)


def text_cells(column: pd.Series) -> np.ndarray:
    """Return cells as text, `MISSING_TEXT` where missing."""
    missing = column.isna().to_numpy()
    texts = np.array([str(cell) for cell in column], dtype=object)
    texts[missing] = MISSING_TEXT
    return texts
