"""Scores per problem type, each with its direction and range.

Shapes: `M` test rows, `K` classes of the table in sorted order, `P` columns of a predicted number.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from priorline.evaluation import imputation
from priorline.evaluation import regression_scores as regression

MIN_PROB = 1e-7
"""Log loss never takes a probability for less; about the smallest step of a 32-bit float near one."""
NUM_CALIBRATION_BINS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One score: ``function(truth, prediction)`` to a float."""

    name: str
    title: str
    """Name in reports."""
    function: Callable[[np.ndarray, np.ndarray], float]
    """Classification: class codes (M,) and probabilities (M, K). Regression: numbers (M,) and
    predictions (M, P) as in `priorline.evaluation.regression_scores`. Imputation: hidden cells (H, 4)
    and fillings (H,) as in `priorline.evaluation.imputation`. Generation: nothing, and the scores."""
    higher_is_better: bool
    low: float
    """Smallest possible value."""
    high: float
    """Largest possible value."""
    note: str = ""
    """What a reader of a report must know of it."""

    @property
    def worst(self) -> float:
        """What a failed contender counts as in comparisons: the bad end of the range."""
        return self.low if self.higher_is_better else self.high


def roc_auc(codes_M: np.ndarray, proba_MK: np.ndarray) -> float:
    """Return the chance that a row of a class scores above a row of the others (ties count half).

    Two classes: area under the ROC curve of the second. More: one class against the rest, plain
    mean over the classes that test rows have. NaN when test rows hold a single class.
    """
    num_classes = proba_MK.shape[1]
    present = [1] if num_classes == 2 else np.unique(codes_M).tolist()
    return float(np.mean([_binary_auc(codes_M == code, proba_MK[:, code]) for code in present]))


def accuracy(codes_M: np.ndarray, proba_MK: np.ndarray) -> float:
    """Return the share of rows whose likeliest class is right (ties go to the first class)."""
    return float(np.mean(np.argmax(proba_MK, axis=1) == codes_M))


def log_loss(codes_M: np.ndarray, proba_MK: np.ndarray) -> float:
    """Return the mean negative natural logarithm of the true class's probability.

    Rows are scaled to sum to one, clipped below at `MIN_PROB`, and scaled again.
    """
    proba = np.clip(_normalised(proba_MK), MIN_PROB, None)
    proba = proba / proba.sum(axis=1, keepdims=True)
    return float(-np.log(proba[np.arange(len(codes_M)), codes_M]).mean())


def calibration_error(codes_M: np.ndarray, proba_MK: np.ndarray) -> float:
    """Return the expected gap between the top probability and the share of right answers.

    Ten bins of equal width over the top probability, each weighed by its rows.

    Source: Guo et al. 2017, "On Calibration of Modern Neural Networks", equation 5.
    """
    top_M = _normalised(proba_MK).max(axis=1)
    right_M = np.argmax(proba_MK, axis=1) == codes_M
    bins_M = np.minimum((top_M * NUM_CALIBRATION_BINS).astype(int), NUM_CALIBRATION_BINS - 1)
    gaps = [
        abs(right_M[bins_M == number].sum() - top_M[bins_M == number].sum()) for number in range(NUM_CALIBRATION_BINS)
    ]
    return float(sum(gaps) / len(codes_M))


def _given(place: int) -> Callable[[np.ndarray, np.ndarray], float]:
    """Return a metric that was computed before: a place of the prediction."""
    return lambda _, scores: float(scores[place])


METRICS: dict[str, dict[str, Metric]] = {
    "classification": {
        metric.name: metric
        for metric in (
            Metric(
                name="roc_auc",
                title="ROC AUC",
                function=roc_auc,
                higher_is_better=True,
                low=0.0,
                high=1.0,
            ),
            Metric(
                name="accuracy",
                title="Accuracy",
                function=accuracy,
                higher_is_better=True,
                low=0.0,
                high=1.0,
            ),
            Metric(
                name="log_loss",
                title="Log loss",
                function=log_loss,
                higher_is_better=False,
                low=0.0,
                high=float(-np.log(MIN_PROB)),
            ),
            Metric(
                name="calibration_error",
                title="Calibration error",
                function=calibration_error,
                higher_is_better=False,
                low=0.0,
                high=1.0,
            ),
        )
    },
    "regression": {
        metric.name: metric
        for metric in (
            Metric(
                name="r2",
                title="R2",
                function=regression.r2,
                higher_is_better=True,
                low=regression.WORST_R2,
                high=1.0,
            ),
            Metric(
                name="rmse",
                title="RMSE / std",
                function=regression.rmse,
                higher_is_better=False,
                low=0.0,
                high=regression.WORST_ERROR,
            ),
            Metric(
                name="mae",
                title="MAE / std",
                function=regression.mae,
                higher_is_better=False,
                low=0.0,
                high=regression.WORST_ERROR,
            ),
            Metric(
                name="crps",
                title="CRPS / std",
                function=regression.crps,
                higher_is_better=False,
                low=0.0,
                high=regression.WORST_ERROR,
            ),
            Metric(
                name="coverage_gap",
                title="80 % coverage gap",
                function=regression.coverage_gap,
                higher_is_better=False,
                low=0.0,
                high=regression.INTERVAL[1] - regression.INTERVAL[0],
                note="A contender without quantiles stands for an interval of width zero: its CRPS is its MAE, "
                "its coverage gap 0.8.",
            ),
        )
    },
    "imputation": {
        metric.name: metric
        for metric in (
            Metric(
                name="imputation_error" if pattern is None else f"error_{pattern}",
                title="Imputation error" if pattern is None else f"Error {pattern.replace('_', ' ').upper()} %",
                function=imputation.imputation_error(pattern),
                higher_is_better=False,
                low=0.0,
                high=imputation.WORST_ERROR,
                note=""
                if pattern
                else "Mean over columns of the error in standard deviations (numbers), or of the share of wrong cells "
                "(text).",
            )
            for pattern in (None, *imputation.PATTERNS)
        )
    },
    "generation": {
        metric.name: metric
        for metric in (
            Metric(
                name="two_sample_auc",
                title="Two-sample AUC",
                function=_given(0),
                higher_is_better=False,
                low=0.5,
                high=1.0,
                note="How well a random forest tells drawn rows from test rows; 0.5: not at all.",
            ),
            Metric(
                name="utility_gap",
                title="Utility gap",
                function=_given(1),
                higher_is_better=False,
                low=-1.0,
                high=1.0,
                note="ROC AUC on test rows of a forest trained on real rows, less that of one trained on drawn rows.",
            ),
        )
    },
}
"""Problem type to metric name to metric; the first is the main one."""


def _binary_auc(positive_M: np.ndarray, score_M: np.ndarray) -> float:
    """Mann-Whitney statistic from average ranks; NaN without rows of both kinds."""
    num_positive = int(positive_M.sum())
    num_negative = len(positive_M) - num_positive
    if not num_positive or not num_negative:
        return float("nan")
    rank_sum = rankdata(score_M)[positive_M].sum()
    return float((rank_sum - num_positive * (num_positive + 1) / 2) / (num_positive * num_negative))


def _normalised(proba_MK: np.ndarray) -> np.ndarray:
    proba: np.ndarray = proba_MK / proba_MK.sum(axis=1, keepdims=True)
    return proba
