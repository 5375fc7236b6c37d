"""What metrics take, per problem type: truth and prediction of a split's test rows, checked.

Shapes: `M` test rows, `K` classes of the table in sorted order, `Q` quantile levels.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from priorline.errors import InputError
from priorline.evaluation.generation import judge_drawn
from priorline.evaluation.imputation import filled_cells
from priorline.evaluation.regression_scores import QUANTILE_LEVELS
from priorline.evaluation.suites import Split


def class_probabilities(estimator: Any, split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Return class codes (M,) and probabilities (M, K) over all classes of the table.

    A class that the training rows lack gets probability zero.

    Raises
    ------
    InputError
        If ``predict_proba`` gives another shape or values that are no probabilities.
    """
    position = {label: number for number, label in enumerate(split.classes or ())}
    proba = np.asarray(estimator.predict_proba(split.X_test), dtype=np.float64)
    known = [position[label] for label in np.asarray(estimator.classes_).tolist()]
    wanted = (len(split.X_test), len(known))
    if proba.shape != wanted:
        raise InputError(f"predict_proba gave shape {proba.shape}, wanted {wanted} (rows, classes_)")
    if not np.isfinite(proba).all() or (proba < 0).any() or (proba.sum(axis=1) <= 0).any():
        raise InputError("predict_proba gave values that are no probabilities: negative, not finite or all zero")
    whole = np.zeros((len(proba), len(position)))
    whole[:, known] = proba
    codes = np.array([position[label] for label in split.y_test.tolist()], dtype=np.int64)
    return codes, whole


def standardised_values(estimator: Any, split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Return targets (M,) and predictions (M, 1 + Q), both by mean and deviation of the training targets.

    The quantiles are those of ``predict_quantiles``; an estimator without it gets its prediction
    repeated.

    Raises
    ------
    InputError
        If a prediction has another shape or is not finite.
    """
    values = np.asarray(estimator.predict(split.X_test), dtype=np.float64)[:, None]
    quantiles = np.repeat(values, len(QUANTILE_LEVELS), axis=1)
    if hasattr(estimator, "predict_quantiles"):
        quantiles = np.asarray(estimator.predict_quantiles(split.X_test, QUANTILE_LEVELS), dtype=np.float64)
    wanted = (len(split.X_test), len(QUANTILE_LEVELS))
    if values.shape != (wanted[0], 1) or quantiles.shape != wanted:
        raise InputError(
            f"predictions have shapes {values.shape[:1]} and {quantiles.shape}, wanted {wanted[:1]}, {wanted}"
        )
    whole = np.concatenate([values, quantiles], axis=1)
    if not np.isfinite(whole).all():
        raise InputError("predictions are not finite in all rows")
    train = split.y_train.to_numpy(dtype=np.float64)
    scale = train.std() or 1.0
    return (split.y_test.to_numpy(dtype=np.float64) - train.mean()) / scale, (whole - train.mean()) / scale


PREDICT: dict[str, Callable[[Any, Split], tuple[np.ndarray, np.ndarray]]] = {
    "classification": class_probabilities,
    "regression": standardised_values,
    "imputation": filled_cells,
    "generation": judge_drawn,
}
"""Problem type to what its metrics take."""

FITS_ITSELF = ("imputation", "generation")
"""Problem types whose entry of `PREDICT` fits the estimator itself."""
