"""Configuration of held-out evaluation and of the promotion rule."""

from typing import Literal

from pydantic import Field

from priorline.config_io import Config


class EvaluationConfig(Config):
    """Which real tables, how they are split, and what stands beside the candidate."""

    suite: str | None = None
    """Name in `priorline.evaluation.suites.SUITES`; ``smoke``: the problem type's small suite; None: its whole one."""
    num_splits: int = Field(default=5, ge=1)
    """Train/test splits per table, stratified where there are classes, seeds ``seed .. seed + num_splits - 1``."""
    max_train_rows: int = Field(default=1000, ge=10)
    """Training rows at most, the same for every contender."""
    max_test_rows: int = Field(default=1000, ge=10)
    """Test rows at most."""
    seed: int = 0
    """First split seed."""
    num_members: int = Field(default=8, ge=1)
    """Ensemble members of an in-context model."""
    baselines: tuple[str, ...] | None = None
    """Names in `priorline.evaluation.baselines.BASELINES`; None: all of the problem type."""


class PromotionConfig(Config):
    """When a candidate becomes champion; see `priorline.evaluation.promotion`."""

    metric: str | None = None
    """Metric that decides; None: the problem type's main one (``roc_auc``, ``r2``)."""
    floor: str | None = None
    """Baseline that the candidate must beat with its whole interval; None: the problem type's that knows
    nothing but the training targets (``majority``, ``mean``)."""
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    """Confidence of the paired bootstrap interval."""
    num_bootstrap: int = Field(default=2000, ge=100)
    """Bootstrap resamples over tables."""
    rule: Literal["interval_above_zero", "mean_above_zero"] = "mean_above_zero"
    """What the difference to the champion must show: its interval, or only its mean, above zero."""
