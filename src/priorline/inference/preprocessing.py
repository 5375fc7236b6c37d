"""Encoded tables to model input: z-score, an optional normalisation, and a soft clip of outliers.

All statistics come from the train rows; a query row is transformed on its own.

Shapes: N train rows, R rows, C columns.
"""

from typing import Literal, Protocol

import numpy as np
from sklearn.preprocessing import PowerTransformer, QuantileTransformer, RobustScaler

from priorline.config_io import nearest_name
from priorline.errors import InputError

Normalization = Literal["none", "power", "quantile", "robust"]

NORMALIZATIONS: tuple[Normalization, ...] = ("none", "power", "quantile", "robust")

Z_LIMIT = 100.0
"""Largest input of the model, in standard deviations; also the prior's limit."""

_SMALLEST_STD = 1e-6
_MAX_QUANTILES = 1000


class _Transformer(Protocol):
    def fit_transform(self, x: np.ndarray) -> np.ndarray: ...

    def transform(self, x: np.ndarray) -> np.ndarray: ...


class Preprocessor:
    """z-score, one of `NORMALIZATIONS`, soft clip, in this order.

    Parameters
    ----------
    normalization : str
        ``power`` is Yeo-Johnson to zero mean and unit variance, ``quantile`` maps the train rows'
        quantiles to a normal distribution, ``robust`` scales by the interquartile range.
    outlier_threshold : float
        Standard deviations beyond which values grow only logarithmically.

    Source: TabICL (arXiv 2502.05564), appendix on pre-processing; names of its package.
    Differs: extreme query values end at `Z_LIMIT` after every step, so none is ever infinite and
    no row's result depends on what other rows hold.
    """

    def __init__(self, normalization: str = "none", outlier_threshold: float = 4.0) -> None:
        if normalization not in NORMALIZATIONS:
            hint = nearest_name(str(normalization), NORMALIZATIONS)
            raise InputError(f"normalizations holds {normalization!r}{hint}")
        self.normalization = normalization
        self.outlier_threshold = outlier_threshold
        self._normalizer: _Transformer | None = None

    def fit_transform(self, x_NC: np.ndarray) -> np.ndarray:
        """Learn from finite float64 train rows and return them as (N, C) float32."""
        # Dividing first keeps the squares of values near 1e308 finite.
        self._unit_C = np.maximum(np.abs(x_NC).max(axis=0), np.finfo(float).tiny)
        scaled_NC = x_NC / self._unit_C
        self._mean_C, std_C = scaled_NC.mean(axis=0), scaled_NC.std(axis=0)
        self._std_C = np.where(std_C > 0, std_C, 1.0)
        z_NC = self._standardize(x_NC)
        self._normalizer = _build_normalizer(self.normalization, len(x_NC))
        if self._normalizer is not None:
            with np.errstate(over="ignore"):
                z_NC = _limit(self._normalizer.fit_transform(z_NC))
        self._low_C, self._high_C = _outlier_bounds(z_NC, self.outlier_threshold)
        return self._soft_clip(z_NC)

    def transform(self, x_RC: np.ndarray) -> np.ndarray:
        """Return finite float64 query rows as (R, C) float32."""
        z_RC = self._standardize(x_RC)
        if self._normalizer is not None:
            with np.errstate(over="ignore"):
                z_RC = _limit(self._normalizer.transform(z_RC))
        return self._soft_clip(z_RC)

    def _standardize(self, x_RC: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return _limit((x_RC / self._unit_C - self._mean_C) / self._std_C)

    def _soft_clip(self, z_RC: np.ndarray) -> np.ndarray:
        slack_RC = np.log1p(np.abs(z_RC))
        z_RC = np.maximum(z_RC, self._low_C - slack_RC)
        z_RC = np.minimum(z_RC, self._high_C + slack_RC)
        return z_RC.astype(np.float32)


def _limit(z_RC: np.ndarray) -> np.ndarray:
    return np.clip(z_RC, -Z_LIMIT, Z_LIMIT)


def _build_normalizer(name: str, num_rows: int) -> _Transformer | None:
    if name == "power":
        return PowerTransformer(method="yeo-johnson", standardize=True)
    if name == "quantile":
        return QuantileTransformer(
            output_distribution="normal", n_quantiles=min(_MAX_QUANTILES, num_rows), subsample=None
        )
    if name == "robust":
        return RobustScaler(unit_variance=True)
    return None


def _outlier_bounds(z_NC: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """Return low and high bounds per column: outliers of a first pass do not count in the second."""
    is_inlier_NC = np.ones(z_NC.shape, dtype=bool)
    for _ in range(2):
        count_C = is_inlier_NC.sum(axis=0)
        mean_C = np.where(is_inlier_NC, z_NC, 0.0).sum(axis=0) / count_C
        square_C = np.where(is_inlier_NC, (z_NC - mean_C) ** 2, 0.0).sum(axis=0)
        std_C = np.maximum(np.sqrt(square_C / np.maximum(count_C - 1, 1)), _SMALLEST_STD)
        low_C, high_C = mean_C - threshold * std_C, mean_C + threshold * std_C
        is_inlier_NC = (z_NC >= low_C) & (z_NC <= high_C)
    return low_C, high_C
