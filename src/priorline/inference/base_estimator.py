"""What estimators share: reading tables, members, weights; and what those over TabICL share beside.

Shapes: N train rows, M query rows, C columns, E embedding.
"""

from collections.abc import Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from priorline.config_io import nearest_name
from priorline.errors import InputError
from priorline.inference.ensemble import plan_views
from priorline.inference.in_context import CACHES, ContextReader
from priorline.inference.memory import OFFLOADS
from priorline.inference.preprocessing import Preprocessor
from priorline.inference.table_encoder import TableEncoder, as_frame, with_unique_names
from priorline.inference.weights_cache import load_model, weights_purpose
from priorline.seeding import numpy_generator


class InContextEstimator(BaseEstimator):
    """Reads tables and plans members for any model that predicts from a context of labelled rows."""

    _kind: str
    """Key in `priorline.models.MODELS`."""
    _problem_type: str
    _keeps_missing = False
    """Whether the model takes missing cells as they are; else they become the train mean."""
    weights: str | Path | None
    num_members: int
    normalizations: tuple[str, ...]
    feature_shuffle: str
    outlier_threshold: float
    memory_budget_mb: float | None
    device: str
    random_state: int | np.random.RandomState | None
    categorical_features: Sequence[str | int] | None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _fit_columns(self, X: Any, targets: np.ndarray, *, num_classes: int, class_shift: bool) -> None:
        frame = as_frame(X)
        if len(frame) != len(targets):
            raise InputError(
                f"Found input variables with inconsistent numbers of samples: X has {len(frame)} rows, "
                f"y has {len(targets)}; give one label per row"
            )
        validate_data(self, with_unique_names(X), skip_check_array=True)
        self.encoder_ = TableEncoder(self.categorical_features, keep_missing=self._keeps_missing)
        x_NC = self.encoder_.fit_transform(frame)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.views_ = plan_views(
            self.num_members,
            num_columns=x_NC.shape[1],
            num_classes=num_classes,
            normalizations=self._normalizations(),
            feature_shuffle=self.feature_shuffle,
            class_shift=class_shift,
            generator=numpy_generator(seed, "ensemble"),
        )
        used = dict.fromkeys(view.normalization for view in self.views_)
        self.preprocessors_ = {norm: Preprocessor(norm, self.outlier_threshold) for norm in used}
        filled_NC = self._fill(x_NC, reset=True)
        self.train_ = {
            norm: _with_gaps(step.fit_transform(filled_NC), x_NC) for norm, step in self.preprocessors_.items()
        }

    def _load(self, wanted_hash: str | None = None) -> Any:
        loaded = load_model(self.weights, self._kind, self.device, wanted_hash)
        _, served = weights_purpose(self.weights)
        if self._problem_type not in served:
            raise InputError(
                f"weights in {self.weights} are for {', '.join(served)}, wanted {self._problem_type}; "
                "priorline.inference.predictor.load_estimator picks the estimator that fits"
            )
        return loaded

    def _preprocess(self, x: Any) -> dict[str, np.ndarray]:
        check_is_fitted(self)
        frame = as_frame(x)
        validate_data(self, with_unique_names(x), reset=False, skip_check_array=True)
        x_MC = self.encoder_.transform(frame)
        filled_MC = self._fill(x_MC)
        return {norm: _with_gaps(step.transform(filled_MC), x_MC) for norm, step in self.preprocessors_.items()}

    def _fill(self, x_RC: np.ndarray, *, reset: bool = False) -> np.ndarray:
        """Return cells with the train mean where they are missing; statistics must not see gaps."""
        if not self._keeps_missing:
            return x_RC
        is_known_RC = np.isfinite(x_RC)
        if reset:
            shares_RC = np.where(is_known_RC, x_RC, 0.0) / np.maximum(is_known_RC.sum(axis=0), 1)
            self.fill_: np.ndarray = shares_RC.sum(axis=0)
        return np.where(is_known_RC, x_RC, self.fill_)

    def _normalizations(self) -> tuple[str, ...]:
        if isinstance(self.normalizations, str):
            return (self.normalizations,)
        return tuple(self.normalizations)

    def _check_params(self) -> None:
        if not isinstance(self.num_members, Integral) or self.num_members < 1:
            raise InputError(f"num_members={self.num_members!r} must be a whole number of at least 1")
        for name in ("softmax_temperature", "outlier_threshold", "memory_budget_mb", "cache_mb"):
            value = getattr(self, name, 1.0)
            if name == "memory_budget_mb" and value is None:
                continue
            if not isinstance(value, Real) or not 0 < value < float("inf"):
                raise InputError(f"{name}={value!r} must be a number above 0")
        if not self._normalizations():
            raise InputError('normalizations is empty; give at least one, for example ("none",)')


def _with_gaps(x_RC: np.ndarray, source_RC: np.ndarray) -> np.ndarray:
    """Return ``x_RC`` with NaN where ``source_RC`` has it."""
    gaps_RC = np.isnan(source_RC)
    return np.where(gaps_RC, np.float32(np.nan), x_RC) if gaps_RC.any() else x_RC


class TabICLEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, InContextEstimator):
    """What classifier and regressor over TabICL share: embeddings, the context and its cache."""

    _kind = "tabicl"
    cache: str | None
    cache_mb: float
    offload: str

    def transform(self, X: Any) -> np.ndarray:
        """Return the (M, E) float32 embeddings of rows as the in-context learner gets them.

        Taken from the first member, which sees the columns in the given order.
        Source: TabICL (arXiv 2502.05564), section 3.3.
        """
        query = self._preprocess(X)
        return self._context().embed_rows(query)

    @property
    def _n_features_out(self) -> int:
        config = self._context().model.config
        return int(config.embed_dim * config.row_num_cls)

    def embed_columns(self) -> np.ndarray:
        """Return the (C, E) float32 embeddings of the context's columns, by their distribution.

        What the last inducing points of the column stage read, summed; first member.
        Source: TabICL (arXiv 2502.05564), section 5.
        """
        check_is_fitted(self)
        return self._context().embed_columns()

    def cache_info(self) -> dict[str, Any]:
        """Return ``kind`` and ``size_mib`` of the cache in use; kind None: nothing is kept between predictions."""
        check_is_fitted(self)
        reader = self._context()
        return {"kind": reader.cache, "size_mib": round(reader.cache_mib(reader.cache), 3)}

    def __getstate__(self) -> dict[str, Any]:
        # The cache is made again from the context when needed; a saved estimator stays small.
        return super().__getstate__() | ({"_reader": {}} if hasattr(self, "_reader") else {})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def _fit_columns(self, X: Any, targets: np.ndarray, *, num_classes: int, class_shift: bool) -> None:
        super()._fit_columns(X, targets, num_classes=num_classes, class_shift=class_shift)
        self._reader: dict[str, Any] = {}

    def _context(self) -> ContextReader:
        """Return the reader of the fitted context, kept while nothing that it depends on changes."""
        model = self._load(self.weights_hash_).module
        settings = self._reader_settings()
        made_for = {"model": model, **settings}
        if self._reader.get("made_for") != made_for:
            reader = ContextReader(model, self.train_, self._targets(), self.views_, **settings)
            self._reader.update(made_for=made_for, reader=reader)
        found: ContextReader = self._reader["reader"]
        return found

    def _reader_settings(self) -> dict[str, Any]:
        return {
            "memory_budget_mb": self.memory_budget_mb,
            "cache": self.cache,
            "cache_mb": self.cache_mb,
            "offload": self.offload,
        }

    def _targets(self) -> np.ndarray:
        raise NotImplementedError

    def _check_params(self) -> None:
        super()._check_params()
        for name, known in (("cache", CACHES), ("offload", OFFLOADS)):
            value = getattr(self, name)
            if value not in known:
                hint = nearest_name(str(value), [str(choice) for choice in known])
                raise InputError(f"{name}={value!r} is unknown{hint}")
