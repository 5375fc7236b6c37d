"""Hidden cells, and how well they are filled: patterns, what metrics take, the errors.

Shapes: `H` hidden cells of all patterns together.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from priorline.errors import InputError
from priorline.evaluation.raw_tables import is_text as is_text_column
from priorline.evaluation.raw_tables import number_cells, text_cells
from priorline.evaluation.suites import Split
from priorline.seeding import numpy_generator

PATTERNS = ("mcar_10", "mcar_30", "mcar_50", "mar_30")
"""Kind and percent of cells that are hidden, in training and test rows alike: completely at random; or at
random given another column: cells beside its large values are hidden up to twice as often."""
WORST_ERROR = 10.0
"""Errors have no upper bound: ten standard deviations of the training cells are as bad as it gets."""
_PATTERN, _COLUMN, _IS_TEXT, _VALUE = range(4)


def hide_cells(frame: pd.DataFrame, pattern: str, generator: np.random.Generator) -> np.ndarray:
    """Return which known cells of ``frame`` to hide, (R, C) bool."""
    kind, _, percent = pattern.partition("_")
    share, (rows, columns) = float(percent) / 100, frame.shape
    chance_RC = np.full((rows, columns), share)
    if kind == "mar" and columns > 1:
        for column in range(columns):
            other = frame.iloc[:, (column + 1) % columns]
            order_R = (text_cells(other) if is_text_column(other) else number_cells(other)).argsort(kind="stable")
            chance_RC[order_R, column] = 2 * share * np.linspace(0.0, 1.0, rows)
    hidden_RC: np.ndarray = (generator.random((rows, columns)) < chance_RC) & frame.notna().to_numpy()
    return hidden_RC


def filled_cells(estimator: Any, split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Return hidden cells of the test rows, (H, 4), and what the estimator fills in, (H,).

    For every pattern the estimator is fitted anew on training rows with cells hidden as in the test rows.
    Truth has the columns pattern, column, whether it is text, value. Numbers are in deviations of the
    training cells; texts are codes, and -1 in a prediction is a text that no training row has.

    Raises
    ------
    InputError
        If a hidden cell stays empty or has no number, or a cell that was known is another one.
    """
    truths, predictions = [], []
    for number, pattern in enumerate(PATTERNS):
        generator = numpy_generator(split.seed, "hidden cells", split.table, pattern)
        hidden = [hide_cells(part, pattern, generator) for part in (split.X_train, split.X_test)]
        train, test = (part.mask(cells) for part, cells in zip((split.X_train, split.X_test), hidden, strict=True))
        filled = estimator.fit(train).transform(test)
        for place in range(test.shape[1]):
            is_hidden_M = hidden[1][:, place]
            before, after = split.X_test.iloc[:, place], filled.iloc[:, place]
            known = before[~is_hidden_M]
            if not known.equals(after[~is_hidden_M].astype(known.dtype)) and known.notna().all():
                raise InputError(f"column {before.name!r}: cells that were known came back changed")
            truth, prediction = _compared(split.X_train.iloc[:, place], before[is_hidden_M], after[is_hidden_M])
            text = np.full(len(truth), float(is_text_column(before)))
            truths.append(np.column_stack([np.full(len(truth), number), np.full(len(truth), place), text, truth]))
            predictions.append(prediction)
    return np.concatenate(truths), np.concatenate(predictions)


def imputation_error(pattern: str | None) -> Callable[[np.ndarray, np.ndarray], float]:
    """Return a metric: the mean over columns of RMSE (numbers) or share of wrong cells (text); None: all patterns."""

    def error(truth_H4: np.ndarray, prediction_H: np.ndarray) -> float:
        chosen = range(len(PATTERNS)) if pattern is None else [PATTERNS.index(pattern)]
        errors = []
        for number in chosen:
            for column in np.unique(truth_H4[truth_H4[:, _PATTERN] == number, _COLUMN]):
                here = (truth_H4[:, _PATTERN] == number) & (truth_H4[:, _COLUMN] == column)
                truth, prediction = truth_H4[here], prediction_H[here]
                if truth[0, _IS_TEXT]:
                    errors.append(float((truth[:, _VALUE] != prediction).mean()))
                else:
                    errors.append(min(WORST_ERROR, float(np.sqrt(((truth[:, _VALUE] - prediction) ** 2).mean()))))
        return float(np.mean(errors))

    return error


def _compared(train: pd.Series, truth: pd.Series, filled: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    if filled.isna().any():
        raise InputError(f"column {truth.name!r}: {int(filled.isna().sum())} hidden cells stayed empty")
    if is_text_column(train):
        codes = {text: float(code) for code, text in enumerate(dict.fromkeys([*text_cells(train), *text_cells(truth)]))}
        return (
            np.array([codes[text] for text in text_cells(truth)]),
            np.array([codes.get(text, -1.0) for text in text_cells(filled)]),
        )
    known = number_cells(train)
    center, scale = np.nanmean(known), np.nanstd(known) or 1.0
    values = number_cells(filled)
    if not np.isfinite(values).all():
        raise InputError(f"column {truth.name!r}: a hidden cell was filled with no finite number")
    return (number_cells(truth) - center) / scale, (values - center) / scale
