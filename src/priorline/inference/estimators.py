"""Scikit-learn estimators over in-context models."""

from collections.abc import Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from priorline.errors import InputError
from priorline.inference.ensemble import plan_views, probabilities
from priorline.inference.in_context import embed_query_rows, sum_member_scores
from priorline.inference.labels import encode_labels
from priorline.inference.preprocessing import Preprocessor
from priorline.inference.table_encoder import TableEncoder, as_frame, with_unique_names
from priorline.inference.weights_cache import load_model
from priorline.seeding import numpy_generator


class TabICLClassifier(ClassifierMixin, BaseEstimator):
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
    memory_budget_mb : float, default 1024
        MiB that a prediction may take on top of the data and the model, roughly; less is slower.
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
        memory_budget_mb: float = 1024,
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
        self.device = device
        self.random_state = random_state
        self.categorical_features = categorical_features

    def fit(self, X: Any, y: Any) -> "TabICLClassifier":
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
        self.weights_hash_ = load_model(self.weights, "tabicl", self.device).content_hash
        frame = as_frame(X)
        self.classes_, self.codes_ = encode_labels(y)
        if len(frame) != len(self.codes_):
            raise InputError(
                f"Found input variables with inconsistent numbers of samples: X has {len(frame)} rows, "
                f"y {len(self.codes_)} labels; give one label per row"
            )
        validate_data(self, with_unique_names(X), skip_check_array=True)
        self.encoder_ = TableEncoder(self.categorical_features)
        x_NC = self.encoder_.fit_transform(frame)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.views_ = plan_views(
            self.num_members,
            num_columns=x_NC.shape[1],
            num_classes=len(self.classes_),
            normalizations=self._normalizations(),
            feature_shuffle=self.feature_shuffle,
            class_shift=self.class_shift,
            generator=numpy_generator(seed, "ensemble"),
        )
        used = dict.fromkeys(view.normalization for view in self.views_)
        self.preprocessors_ = {norm: Preprocessor(norm, self.outlier_threshold) for norm in used}
        self.train_ = {norm: step.fit_transform(x_NC) for norm, step in self.preprocessors_.items()}
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return (M, K) float64 probabilities, columns as in ``classes_``; each row sums to 1.

        A row's probabilities do not depend on what the other rows of ``X`` hold.
        """
        query = self._preprocess(X)
        num_query = len(next(iter(query.values())))
        if len(self.classes_) == 1:
            return np.ones((num_query, 1))
        model = load_model(self.weights, "tabicl", self.device, self.weights_hash_).module
        scores_MK = sum_member_scores(
            model,
            self.train_,
            self.codes_,
            query,
            self.views_,
            num_classes=len(self.classes_),
            temperature=self.softmax_temperature,
            average_logits=self.average_logits,
            budget_mb=self.memory_budget_mb,
        )
        num_members = sum(len(view.class_shifts) for view in self.views_)
        return probabilities(scores_MK, num_members, self.average_logits)

    def predict(self, X: Any) -> np.ndarray:
        """Return the (M,) most probable labels, in the dtype given to `fit`."""
        best_M = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best_M]

    def embed_rows(self, X: Any) -> np.ndarray:
        """Return the (M, E) float32 embeddings of rows as the in-context learner gets them.

        Taken from the first member, which sees the columns in the given order.
        """
        query = self._preprocess(X)
        model = load_model(self.weights, "tabicl", self.device, self.weights_hash_).module
        return embed_query_rows(model, self.train_, query, self.views_[0], self.memory_budget_mb)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _preprocess(self, x: Any) -> dict[str, np.ndarray]:
        check_is_fitted(self)
        frame = as_frame(x)
        validate_data(self, with_unique_names(x), reset=False, skip_check_array=True)
        x_MC = self.encoder_.transform(frame)
        return {norm: step.transform(x_MC) for norm, step in self.preprocessors_.items()}

    def _normalizations(self) -> tuple[str, ...]:
        if isinstance(self.normalizations, str):
            return (self.normalizations,)
        return tuple(self.normalizations)

    def _check_params(self) -> None:
        if not isinstance(self.num_members, Integral) or self.num_members < 1:
            raise InputError(f"num_members={self.num_members!r} must be a whole number of at least 1")
        for name in ("softmax_temperature", "outlier_threshold", "memory_budget_mb"):
            value = getattr(self, name)
            if not isinstance(value, Real) or not 0 < value < float("inf"):
                raise InputError(f"{name}={value!r} must be a number above 0")
        if not self._normalizations():
            raise InputError('normalizations is empty; give at least one, for example ("none",)')
