"""Scikit-learn estimators over LimiX for a labelled target: classes and values.

Shapes: N train rows, M query rows, C columns, K classes, Q quantile levels.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from priorline.errors import InputError
from priorline.inference.class_tree import build_class_tree
from priorline.inference.ensemble import View, probabilities
from priorline.inference.labels import encode_labels, encode_values
from priorline.inference.limix_base import LimiXEstimator
from priorline.inference.masked_reader import MaskedReader

_FOLDS = 5
_LEAST_CHANCE = 1e-7


class LimiXClassifier(ClassifierMixin, LimiXEstimator):
    """Classifies the rows of a table by showing a pre-trained LimiX its labelled rows; no training.

    Takes DataFrames of mixed types and arrays; missing cells stay missing; any number of classes.

    Parameters
    ----------
    weights : str or Path
        Folder of weights, as written by `priorline pretrain`; loaded once per process.
    num_members : int, default 4
        Views of the table that are averaged; cost grows with it.
    normalizations : tuple of str, default ("none", "quantile")
        Taken in turn by the members: ``none``, ``power``, ``quantile``, ``robust``.
    feature_shuffle : str, default "latin"
        Column orders of the members: ``latin``, ``random``, ``none``.
    class_shift : bool, default True
        Whether members see the classes in shifted order.
    softmax_temperature : float, default 0.9
        Divides the logits; below 1 probabilities are sharper.
    average_logits : bool, default False
        Average the members' logits; False: their probabilities.
    outlier_threshold : float, default 12.0
        Standard deviations beyond which values are softly clipped.
    retrieval : str, default "auto"
        Two-pass inference: ``none`` reads the whole context; ``rows``, ``columns``, ``rows and columns`` read
        what attention of a first pass picks; ``auto`` uses what wins on held-out context rows, see `retrieval_`.
    memory_budget_mb : float, optional
        MiB that activations may take, roughly; less is slower. None: half of what machine and container
        have left, between 64 and 4096.
    device : str, default "cpu"
        ``cpu``, ``cuda`` or ``cuda:0`` ...
    random_state : int, RandomState or None, default 0
        Fixes column orders and class shifts.
    categorical_features : sequence of str or int, optional
        Names or positions of number columns to read as categories.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Labels in the dtype given to `fit`; columns of `predict_proba`.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only when `fit` got a DataFrame with text names.
    weights_hash_ : str
        Identifies the weights; `predict_proba` refuses others.

    Source: LimiX (arXiv 2509.03505).
    """

    _problem_type = "classification"

    def __init__(
        self,
        weights: str | Path | None = None,
        *,
        num_members: int = 4,
        normalizations: tuple[str, ...] = ("none", "quantile"),
        feature_shuffle: str = "latin",
        class_shift: bool = True,
        softmax_temperature: float = 0.9,
        average_logits: bool = False,
        outlier_threshold: float = 12.0,
        retrieval: str = "auto",
        memory_budget_mb: float | None = None,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = 0,
        categorical_features: Sequence[str | int] | None = None,
    ) -> None:
        self.weights = weights
        self.num_members = num_members
        self.normalizations = normalizations
        self.feature_shuffle = feature_shuffle
        self.class_shift = class_shift
        self.softmax_temperature = softmax_temperature
        self.average_logits = average_logits
        self.outlier_threshold = outlier_threshold
        self.retrieval = retrieval
        self.memory_budget_mb = memory_budget_mb
        self.device = device
        self.random_state = random_state
        self.categorical_features = categorical_features

    def fit(self, X: Any, y: Any) -> Self:
        """Keep the labelled rows as context and learn how to read the columns.

        Parameters
        ----------
        X : array-like or DataFrame of shape (N, C)
        y : array-like of shape (N,)

        Raises
        ------
        InputError
            If labels are missing, shapes do not fit, a parameter is out of range or weights is None.
        CheckpointError
            If the weights are missing or corrupt.
        """
        self._check_params()
        self.weights_hash_ = self._load().content_hash
        self.classes_, self.codes_ = encode_labels(y)
        self._fit_columns(X, self.codes_, num_classes=len(self.classes_), class_shift=self.class_shift)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return (M, K) float64 probabilities, columns as in ``classes_``; each row sums to 1.

        A row's probabilities do not depend on what the other rows of ``X`` hold.
        """
        query = self._preprocess(X)
        if len(self.classes_) == 1:
            return np.ones((len(next(iter(query.values()))), 1))
        return self._answers(query)

    def predict(self, X: Any) -> np.ndarray:
        """Return the (M,) most probable labels, in the dtype given to `fit`."""
        best_M = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best_M]

    def _answer(
        self,
        reader: MaskedReader,
        train: dict[str, np.ndarray],
        labels_N: np.ndarray,
        query: dict[str, np.ndarray],
        views: list[View],
    ) -> np.ndarray:
        # Some classes may have no row here; their chance is then 0.
        present, codes_N = np.unique(labels_N, return_inverse=True)
        proba_MK = np.zeros((len(next(iter(query.values()))), len(self.classes_)))
        if len(present) == 1:
            proba_MK[:, present] = 1.0
            return proba_MK
        scores_MK, count = reader.class_scores(
            train,
            codes_N,
            query,
            views,
            num_classes=len(present),
            temperature=self.softmax_temperature,
            average_logits=self.average_logits,
        )
        proba_MK[:, present] = probabilities(scores_MK, count, self.average_logits)
        return proba_MK

    def _losses(self, answers: np.ndarray, labels_M: np.ndarray) -> np.ndarray:
        chances_M: np.ndarray = np.take_along_axis(answers, labels_M[:, None], axis=1)[:, 0]
        return -np.log(np.maximum(chances_M, _LEAST_CHANCE))

    def _labels(self) -> np.ndarray:
        return self.codes_

    def _shown(self, labels_N: np.ndarray) -> tuple[np.ndarray, bool]:
        if len(self.classes_) < 2:
            return labels_N, True
        # More classes than one pass takes: the first groups of the class tree.
        most = self._load(self.weights_hash_).module.config.max_classes
        tree = build_class_tree(range(len(self.classes_)), most)
        starts = np.array([group.start for group in tree.groups])
        return np.searchsorted(starts, labels_N, side="right") - 1, True


class LimiXRegressor(RegressorMixin, LimiXEstimator):
    """Predicts numbers by showing a pre-trained LimiX the rows with known targets; no training.

    The target is shown as z-score by the context's mean and standard deviation and scaled back. The model
    predicts one value; quantiles are that value plus the quantiles of the errors that it makes on context
    rows which it is not shown (five folds, one member). They are thus equally wide for every row.

    Parameters
    ----------
    weights, num_members, normalizations, feature_shuffle, outlier_threshold, retrieval, memory_budget_mb, \
device, random_state, categorical_features
        As of `LimiXClassifier`.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only when `fit` got a DataFrame with text names.
    weights_hash_ : str
        Identifies the weights; `predict` refuses others.

    Source: LimiX (arXiv 2509.03505); quantiles as of split conformal prediction.
    """

    _problem_type = "regression"

    def __init__(
        self,
        weights: str | Path | None = None,
        *,
        num_members: int = 4,
        normalizations: tuple[str, ...] = ("none", "quantile"),
        feature_shuffle: str = "latin",
        outlier_threshold: float = 12.0,
        retrieval: str = "auto",
        memory_budget_mb: float | None = None,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = 0,
        categorical_features: Sequence[str | int] | None = None,
    ) -> None:
        self.weights = weights
        self.num_members = num_members
        self.normalizations = normalizations
        self.feature_shuffle = feature_shuffle
        self.outlier_threshold = outlier_threshold
        self.retrieval = retrieval
        self.memory_budget_mb = memory_budget_mb
        self.device = device
        self.random_state = random_state
        self.categorical_features = categorical_features

    def fit(self, X: Any, y: Any) -> Self:
        """Keep the rows with known targets as context and learn how to read the columns.

        Parameters
        ----------
        X : array-like or DataFrame of shape (N, C)
        y : array-like of shape (N,)
            Finite numbers.

        Raises
        ------
        InputError
            If targets are missing or no numbers, shapes do not fit, a parameter is out of range or weights is None.
        CheckpointError
            If the weights are missing or corrupt.
        """
        self._check_params()
        self.weights_hash_ = self._load().content_hash
        values_N = encode_values(y)
        self.y_mean_, self.y_scale_ = float(values_N.mean()), float(values_N.std()) or 1.0
        self.y_ = ((values_N - self.y_mean_) / self.y_scale_).astype(np.float32)
        self._fit_columns(X, self.y_, num_classes=1, class_shift=False)
        self._errors: np.ndarray | None = None
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the (M,) float64 values."""
        query = self._preprocess(X)
        return self.y_mean_ + self.y_scale_ * self._answers(query)

    def predict_quantiles(self, X: Any, levels: Sequence[float] = (0.1, 0.5, 0.9)) -> np.ndarray:
        """Return (M, Q) float64 quantiles at ``levels``, between 0 and 1, not falling along a row of rising levels."""
        wanted = np.atleast_1d(np.asarray(levels, dtype=np.float64))
        if wanted.ndim != 1 or not ((wanted > 0) & (wanted < 1)).all():
            raise InputError(f"levels={levels!r} must be numbers between 0 and 1, for example (0.1, 0.5, 0.9)")
        values_M = self.predict(X)
        quantiles: np.ndarray = values_M[:, None] + self.y_scale_ * np.quantile(self._context_errors(), wanted)
        return quantiles

    def _context_errors(self) -> np.ndarray:
        """Return target less prediction, standardised, for every context row, predicted from the other folds."""
        if self._errors is None:
            reader, first = self._reader(), self.views_[:1]
            folds_N = np.random.default_rng(0).permutation(len(self.y_)) % min(_FOLDS, len(self.y_))
            errors_N = np.zeros(len(self.y_))
            for fold in range(folds_N.max() + 1 if len(self.y_) > 1 else 0):
                inside = folds_N == fold
                train = {norm: x_NC[~inside] for norm, x_NC in self.train_.items()}
                query = {norm: x_NC[inside] for norm, x_NC in self.train_.items()}
                errors_N[inside] = self.y_[inside] - reader.values(train, self.y_[~inside], query, first)
            self._errors = errors_N
        return self._errors

    def _answer(
        self,
        reader: MaskedReader,
        train: dict[str, np.ndarray],
        labels_N: np.ndarray,
        query: dict[str, np.ndarray],
        views: list[View],
    ) -> np.ndarray:
        return reader.values(train, labels_N, query, views)

    def _losses(self, answers: np.ndarray, labels_M: np.ndarray) -> np.ndarray:
        losses_M: np.ndarray = (answers - labels_M) ** 2
        return losses_M

    def _labels(self) -> np.ndarray:
        return self.y_

    def _shown(self, labels_N: np.ndarray) -> tuple[np.ndarray, bool]:
        return labels_N, False
