"""Class labels in, codes 0..K-1 out; labels that cannot be used are named by row."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from priorline.errors import InputError

_ROWS_NAMED = 10


def encode_labels(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes, in the labels' own dtype, and the code of each row.

    Parameters
    ----------
    y : array-like of shape (N,)
        Text, whole numbers or booleans, nullable and categorical dtypes included.

    Returns
    -------
    classes : ndarray of shape (K,)
    codes : int64 ndarray of shape (N,)

    Raises
    ------
    InputError
        If labels are missing, infinite, continuous or of types that cannot be sorted together.
    """
    if y is None:
        raise InputError("This classifier requires y to be passed, but the target y is None; give the labels")
    labels = _plain_array(y)
    _refuse_missing(labels)
    try:
        check_classification_targets(labels)
        classes, codes = np.unique(labels, return_inverse=True)
    except ValueError as fault:
        raise InputError(f"{fault}; class labels are text, booleans or whole numbers") from fault
    except TypeError as fault:
        found = sorted({type(label).__name__ for label in labels})
        raise InputError(f"Unknown label type: labels mix {', '.join(found)}; make them one type") from fault
    return classes, codes.astype(np.int64)


def _plain_array(y: Any) -> np.ndarray:
    if isinstance(y, pd.DataFrame) and y.shape[1] == 1:
        warnings.warn("A column-vector y was passed when a 1d array was expected", DataConversionWarning, stacklevel=4)
        y = y.iloc[:, 0]
    if not isinstance(y, pd.Series | pd.Index | pd.api.extensions.ExtensionArray):
        if hasattr(y, "dtype") or hasattr(y, "__array__"):
            labels = column_or_1d(np.asarray(y), warn=True)
        else:
            # np.asarray would turn [1, "a"] and ["a", None] into text.
            cells = list(y)
            labels = np.asarray(cells)
            if labels.dtype.kind in "US" and not all(isinstance(cell, str) for cell in cells):
                labels = np.asarray(cells, dtype=object)
            labels = column_or_1d(labels, warn=True)
        if labels.dtype != object:
            return labels
        y = labels
    # A list of True or of 1 held as objects is as good as a boolean or integer array.
    series = pd.Series(y).infer_objects().reset_index(drop=True)
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(object).infer_objects()
    if series.isna().any():
        return series.astype(object).to_numpy()
    if isinstance(series.dtype, np.dtype):
        return series.to_numpy()
    # Nullable and Arrow dtypes without a missing value: back to plain booleans, numbers or text.
    if types.is_bool_dtype(series.dtype) or types.is_numeric_dtype(series.dtype):
        return np.asarray(series.tolist())
    return series.astype(object).to_numpy()


def _refuse_missing(labels: np.ndarray) -> None:
    missing = pd.isna(labels)
    if missing.any():
        raise InputError(
            f"Input y contains NaN: {missing.sum()} of {len(labels)} labels are missing, "
            f"{_name_rows(missing)}; drop these rows before fit"
        )
    if labels.dtype.kind == "f" and np.isinf(labels).any():
        raise InputError(f"Input y contains infinity, {_name_rows(np.isinf(labels))}; drop these rows")


def _name_rows(mask: np.ndarray) -> str:
    rows = np.flatnonzero(mask)
    named = ", ".join(map(str, rows[:_ROWS_NAMED]))
    more = f" and {len(rows) - _ROWS_NAMED} more" if len(rows) > _ROWS_NAMED else ""
    return f"row {named}{more} (counted from 0)"


def encode_values(y: Any) -> np.ndarray:
    """Return regression targets as finite (N,) float64.

    Raises
    ------
    InputError
        If targets are missing, infinite, complex or no numbers.
    """
    if y is None:
        raise InputError("This regressor requires y to be passed, but the target y is None; give the targets")
    targets = _plain_array(y)
    _refuse_missing(targets)
    try:
        values = targets.astype(np.float64)
    except (TypeError, ValueError) as fault:
        raise InputError(f"targets must be numbers: {fault}; text targets are for a classifier") from fault
    if not np.isfinite(values).all():
        raise InputError(f"Input y contains infinity, {_name_rows(~np.isfinite(values))}; drop these rows")
    return values
