"""Scores of predicted numbers, in standard deviations of the training targets.

Shapes: `M` test rows, `Q` quantile levels. Truth and predictions come standardised by mean and standard
deviation of the training targets, so that errors on prices and on school marks can be averaged. A
prediction is (M, 1 + Q): the value to be judged by, then the quantiles at `QUANTILE_LEVELS`; a contender
that gives no quantiles repeats its value, which is a distribution of width zero.
"""

import numpy as np

QUANTILE_LEVELS = tuple(round(0.05 * number, 2) for number in range(1, 20))
"""Levels of the quantiles in a prediction: 0.05, 0.10 .. 0.95."""
INTERVAL = (0.1, 0.9)
"""Levels whose quantiles bound the interval that coverage is measured on."""
WORST_R2 = -1.0
"""R2 has no lower bound: what is further below the mean than a perfect model is above it counts as this."""
WORST_ERROR = 10.0
"""Errors have no upper bound: ten standard deviations of the training targets are as bad as it gets."""


def r2(truth_M: np.ndarray, prediction_MP: np.ndarray) -> float:
    """Return one less the squared error over that of the test rows' own mean, `WORST_R2` at least.

    NaN when all test rows have the same value.
    """
    spread = float(((truth_M - truth_M.mean()) ** 2).sum())
    if spread == 0:
        return float("nan")
    return max(WORST_R2, 1 - float(((truth_M - prediction_MP[:, 0]) ** 2).sum()) / spread)


def rmse(truth_M: np.ndarray, prediction_MP: np.ndarray) -> float:
    """Return the root of the mean squared error, `WORST_ERROR` at most."""
    return min(WORST_ERROR, float(np.sqrt(((truth_M - prediction_MP[:, 0]) ** 2).mean())))


def mae(truth_M: np.ndarray, prediction_MP: np.ndarray) -> float:
    """Return the mean absolute error, `WORST_ERROR` at most."""
    return min(WORST_ERROR, float(np.abs(truth_M - prediction_MP[:, 0]).mean()))


def crps(truth_M: np.ndarray, prediction_MP: np.ndarray) -> float:
    """Return twice the mean pinball loss over `QUANTILE_LEVELS`, `WORST_ERROR` at most.

    The continuous ranked probability score (about 5 % above it, for the levels leave out the tails); it
    equals `mae` for a prediction of width zero, so that contenders with and without quantiles stand in
    one column.

    Source: Gneiting and Raftery 2007, "Strictly Proper Scoring Rules", section 4.2 and 6.
    """
    gap_MQ = truth_M[:, None] - prediction_MP[:, 1:]
    levels_Q = np.array(QUANTILE_LEVELS)
    return min(WORST_ERROR, 2 * float(np.maximum(levels_Q * gap_MQ, (levels_Q - 1) * gap_MQ).mean()))


def coverage_gap(truth_M: np.ndarray, prediction_MP: np.ndarray) -> float:
    """Return by how much the share of truths inside the quantiles of `INTERVAL` misses what it should be.

    A prediction of width zero covers next to nothing: its gap is about 0.8.
    """
    low, high = (1 + QUANTILE_LEVELS.index(level) for level in INTERVAL)
    covered = float(((prediction_MP[:, low] <= truth_M) & (truth_M <= prediction_MP[:, high])).mean())
    return abs(covered - (INTERVAL[1] - INTERVAL[0]))
