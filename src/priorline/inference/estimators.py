"""Scikit-learn estimators over TabICL: one context, many members, one answer.

Shapes: N train rows, M query rows, C columns, K classes, Q quantile levels.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from priorline.errors import InputError
from priorline.inference.base_estimator import TabICLEstimator
from priorline.inference.ensemble import probabilities
from priorline.inference.labels import encode_labels, encode_values


class TabICLClassifier(ClassifierMixin, TabICLEstimator):
    """Classifies the rows of a table by showing a pre-trained TabICL its labelled rows; no training.

    Takes DataFrames of mixed types and arrays, with missing values; any number of classes.

    Parameters
    ----------
    weights : str or Path
        Folder of weights, as written by `priorline pretrain`; loaded once per process.
    num_members : int, default 8
        Views of the table that are averaged; cost grows with it.
    normalizations : tuple of str, default ("none", "power")
        Taken in turn by the members: ``none``, ``power``, ``quantile``, ``robust``.
    feature_shuffle : str, default "latin"
        Column orders of the members: ``latin``, ``random``, ``none``.
    class_shift : bool, default True
        Whether members see the classes in shifted order.
    softmax_temperature : float, default 0.9
        Divides the logits; below 1 probabilities are sharper.
    average_logits : bool, default True
        Average the members' logits; False: their probabilities.
    outlier_threshold : float, default 4.0
        Standard deviations beyond which values are softly clipped.
    memory_budget_mb : float, optional
        MiB that a prediction may take on top of the data and the model, roughly; less is slower.
        None: half of what machine and container have left, between 64 and 4096.
    cache : str, optional
        What is kept after the first prediction so that the next costs less: ``repr`` (columns and row
        embeddings of the context), ``kv`` (keys and values too: the next costs its own rows only).
    cache_mb : float, default 1024
        Most MiB of the cache; see `cache_info`.
    offload : str, default "none"
        Where row embeddings wait: ``none`` (on the device), ``cpu``, ``disk``.
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

    Source: TabICL (arXiv 2502.05564).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> classifier = TabICLClassifier(weights="experiments/run/weights")  # doctest: +SKIP
    >>> classifier.fit(X[::2], y[::2]).predict_proba(X[1::2])  # doctest: +SKIP
    """

    _problem_type = "classification"

    def __init__(
        self,
        weights: str | Path | None = None,
        *,
        num_members: int = 8,
        normalizations: tuple[str, ...] = ("none", "power"),
        feature_shuffle: str = "latin",
        class_shift: bool = True,
        softmax_temperature: float = 0.9,
        average_logits: bool = True,
        outlier_threshold: float = 4.0,
        memory_budget_mb: float | None = None,
        cache: str | None = None,
        cache_mb: float = 1024,
        offload: str = "none",
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
        self.memory_budget_mb = memory_budget_mb
        self.cache = cache
        self.cache_mb = cache_mb
        self.offload = offload
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
        reader = self._context()
        return probabilities(reader.sum_outputs(query), reader.num_members, self.average_logits)

    def predict(self, X: Any) -> np.ndarray:
        """Return the (M,) most probable labels, in the dtype given to `fit`."""
        best_M = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best_M]

    def _targets(self) -> np.ndarray:
        return self.codes_

    def _reader_settings(self) -> dict[str, Any]:
        return super()._reader_settings() | {
            "num_classes": len(self.classes_),
            "temperature": self.softmax_temperature,
            "average_logits": self.average_logits,
        }


class TabICLRegressor(RegressorMixin, TabICLEstimator):
    """Predicts numbers by showing a pre-trained TabICL regressor the rows with known targets; no training.

    The target is shown as z-score by the context's mean and standard deviation and scaled back. The model
    predicts quantiles at levels i / (num_quantiles + 1); members' quantiles are averaged and sorted, so that
    they never cross. `predict` is their mean: the mean of the predicted distribution.

    Parameters
    ----------
    weights, num_members, normalizations, feature_shuffle, outlier_threshold, memory_budget_mb, cache, cache_mb, \
offload, device, random_state, categorical_features
        As of `TabICLClassifier`; the weights are a regressor's.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only when `fit` got a DataFrame with text names.
    weights_hash_ : str
        Identifies the weights; `predict` refuses others.

    Source: TabICLv2 (arXiv 2602.11139).
    """

    _problem_type = "regression"

    def __init__(
        self,
        weights: str | Path | None = None,
        *,
        num_members: int = 8,
        normalizations: tuple[str, ...] = ("none", "power"),
        feature_shuffle: str = "latin",
        outlier_threshold: float = 4.0,
        memory_budget_mb: float | None = None,
        cache: str | None = None,
        cache_mb: float = 1024,
        offload: str = "none",
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = 0,
        categorical_features: Sequence[str | int] | None = None,
    ) -> None:
        self.weights = weights
        self.num_members = num_members
        self.normalizations = normalizations
        self.feature_shuffle = feature_shuffle
        self.outlier_threshold = outlier_threshold
        self.memory_budget_mb = memory_budget_mb
        self.cache = cache
        self.cache_mb = cache_mb
        self.offload = offload
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
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the (M,) float64 means of the predicted distributions."""
        means_M: np.ndarray = self._quantiles(X).mean(axis=1)
        return means_M

    def predict_quantiles(self, X: Any, levels: Sequence[float] = (0.1, 0.5, 0.9)) -> np.ndarray:
        """Return (M, Q) float64 quantiles at ``levels``, between 0 and 1, not falling along a row of rising levels.

        Between the model's own levels they are interpolated; beyond its outermost they stay there.
        """
        wanted = np.atleast_1d(np.asarray(levels, dtype=np.float64))
        if wanted.ndim != 1 or not ((wanted > 0) & (wanted < 1)).all():
            raise InputError(f"levels={levels!r} must be numbers between 0 and 1, for example (0.1, 0.5, 0.9)")
        known_MQ = self._quantiles(X)
        own = np.arange(1, known_MQ.shape[1] + 1) / (known_MQ.shape[1] + 1)
        return np.stack([np.interp(wanted, own, known_Q) for known_Q in known_MQ]).reshape(len(known_MQ), len(wanted))

    def _quantiles(self, X: Any) -> np.ndarray:
        query = self._preprocess(X)
        reader = self._context()
        mean_MQ = reader.sum_outputs(query) / reader.num_members
        sorted_MQ: np.ndarray = mean_MQ.sort(dim=-1).values.cpu().numpy()
        return self.y_mean_ + self.y_scale_ * sorted_MQ

    def _targets(self) -> np.ndarray:
        return self.y_

    def _reader_settings(self) -> dict[str, Any]:
        return super()._reader_settings() | {"num_classes": None}
