"""Scikit-learn pipelines over raw tables: numbers and text side by side, missing cells, any names.

Columns are renamed by position, for XGBoost refuses names with ``[``, ``]`` or ``<``; numbers become
floats with infinities missing, dates become days, everything else text. One thread each.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
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


class _PlainColumns:
    """Which columns of the training rows are text, and any rows with those columns made plain."""

    def __init__(self, X: pd.DataFrame) -> None:
        self._is_text = [_is_text(column) for _, column in X.items()]

    def names(self) -> tuple[Columns, Columns]:
        named = [(f"column_{number}", text) for number, text in enumerate(self._is_text)]
        return [name for name, text in named if not text], [name for name, text in named if text]

    def of(self, X: pd.DataFrame) -> pd.DataFrame:
        columns = {}
        for number, ((_, column), text) in enumerate(zip(X.items(), self._is_text, strict=True)):
            columns[f"column_{number}"] = _texts(column) if text else _numbers(column)
        return pd.DataFrame(columns, index=X.index)


def _is_text(column: pd.Series) -> bool:
    dtype = column.dtype
    return not (pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_datetime64_any_dtype(dtype))


def _numbers(column: pd.Series) -> np.ndarray:
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        days = (column - pd.Timestamp(0, tz=column.dt.tz)) / pd.Timedelta(days=1)
        return days.to_numpy(dtype=np.float64)
    values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(values), values, np.nan)


def _texts(column: pd.Series) -> np.ndarray:
    missing = column.isna().to_numpy()
    texts = np.array([str(cell) for cell in column], dtype=object)
    texts[missing] = MISSING_TEXT
    return texts
