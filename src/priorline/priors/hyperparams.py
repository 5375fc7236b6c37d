"""Distributions over the hyper-parameters of a structural causal model, and one draw of them all.

Source: TabPFN (arXiv 2207.01848), appendix C.1, with the ranges of TabICL's released recipe.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self, TypeVar

import numpy as np
from pydantic import Field, model_validator

from priorline.config_io import Config
from priorline.priors.activations import ActivationConfig
from priorline.priors.base import IntegerInterval, Interval
from priorline.priors.causes import CauseConfig, CauseSampling

T = TypeVar("T")
ClassCut = Literal["rank", "value"]
CAUSE_SAMPLINGS: tuple[CauseSampling, ...] = ("normal", "mixed", "uniform")
CLASS_CUTS: tuple[ClassCut, ...] = ("value", "rank")


class TruncatedNormal(Config):
    """A normal distribution cut at zero whose mean and spread are drawn anew for each group.

    The mean is log-uniform in [``low_mean``, ``high_mean``], the standard deviation a log-uniform
    share of it in [``low_spread``, ``high_spread``]; the value is ``floor`` plus the draw.
    """

    low_mean: float = Field(gt=0)
    """Smallest mean."""
    high_mean: float = Field(gt=0)
    """Largest mean."""
    low_spread: float = Field(default=0.01, gt=0)
    """Smallest standard deviation, as a share of the mean."""
    high_spread: float = Field(default=1.0, gt=0)
    """Largest standard deviation, as a share of the mean."""
    floor: float = 0.0
    """Added to the draw."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for low, high in (("low_mean", "high_mean"), ("low_spread", "high_spread")):
            if getattr(self, high) < getattr(self, low):
                raise ValueError(f"{high}={getattr(self, high)} must be at least {low}={getattr(self, low)}")
        return self

    def draw(self, generator: np.random.Generator) -> float:
        """Return one value."""
        mean = _log_uniform(generator, self.low_mean, self.high_mean)
        spread = mean * _log_uniform(generator, self.low_spread, self.high_spread)
        value = -1.0
        while value < 0:  # the mean is positive, so at least every second draw is
            value = float(generator.normal(mean, spread))
        return self.floor + value

    def draw_integer(self, generator: np.random.Generator) -> int:
        """Return one value, rounded."""
        return round(self.draw(generator))


class ScmConfig(Config):
    """Distributions of the structural causal models; defaults are TabICL v1's."""

    num_causes: TruncatedNormal = TruncatedNormal(low_mean=1, high_mean=12, floor=1)
    """Root variables of a causal MLP."""
    num_layers: TruncatedNormal = TruncatedNormal(low_mean=1, high_mean=6, floor=2)
    """Layers of the MLP, at least 2; a model that is not causal has an output layer more."""
    hidden_dim: TruncatedNormal = TruncatedNormal(low_mean=5, high_mean=130, floor=4)
    """Units per layer; a causal MLP gets at least 1 + 2 * columns."""
    init_std: TruncatedNormal = TruncatedNormal(low_mean=0.01, high_mean=10)
    """Standard deviation of weights."""
    noise_std: TruncatedNormal = TruncatedNormal(low_mean=1e-4, high_mean=0.3)
    """Standard deviation of the noise on every unit."""
    max_dropout_prob: float = Field(default=0.9, ge=0, lt=1)
    """Scale of the Beta distribution of the share of weights that are zero."""
    dropout_beta: Interval = (0.1, 5.0)
    """Range of the two uniform parameters of that Beta distribution."""
    choice_logits: Interval = (-3.0, 5.0)
    """Range of the uniform logits, per group, by which options are weighed; the first option's is 1."""
    is_causal: bool | None = None
    """None: drawn per group, as in v1. Differs: the authors' package 2.2 fixes it to False."""
    causes: CauseConfig = CauseConfig()
    """Root variables."""
    activations: ActivationConfig = ActivationConfig()
    """Functions between the layers of an MLP model."""
    tree_num_layers: IntegerInterval = (1, 2)
    """Hidden layers of a tree model, both ends included; an output layer follows."""
    tree_hidden_dim: IntegerInterval = (3, 9)
    """Units per hidden layer of a tree model, both ends included."""
    max_trees: int = Field(default=4, ge=1)
    """Boosting rounds of a tree layer at most; 1 + an exponential draw of ``mean_extra_trees``."""
    mean_extra_trees: float = Field(default=2.0, gt=0)
    """Mean of the boosting rounds beyond the first, before the cut."""
    max_tree_depth: int = Field(default=4, ge=1)
    """Depth of a tree at most; 2 + an exponential draw of ``mean_extra_depth``."""
    mean_extra_depth: float = Field(default=2.0, gt=0)
    """Mean of the depth beyond 2, before the cut."""
    tree_max_bins: int = Field(default=256, ge=2)
    """Thresholds per column that a tree may split at; 64 takes 0.4 of the time at 1024 rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScmHyperparams:
    """One draw for a group of datasets."""

    num_causes: int
    num_layers: int
    hidden_dim: int
    init_std: float
    noise_std: float
    dropout_prob: float
    block_wise_dropout: bool
    is_causal: bool
    y_is_effect: bool
    in_clique: bool
    sort_features: bool
    pre_sample_cause_stats: bool
    pre_sample_noise_std: bool
    cause_sampling: CauseSampling
    class_cut: ClassCut
    activation_probs: np.ndarray
    """Probability of each of ``ActivationConfig.num_entries`` entries."""


def draw_hyperparams(config: ScmConfig, generator: np.random.Generator) -> ScmHyperparams:
    """Return one draw from ``config``."""

    def pick(options: Sequence[T]) -> T:
        probs = _softmax_of_uniform(len(options), config.choice_logits, generator)
        return options[min(int(np.searchsorted(probs.cumsum(), generator.random())), len(options) - 1)]

    def coin() -> bool:
        return pick((True, False))

    alpha, beta = generator.uniform(*config.dropout_beta, size=2)
    causal = coin()
    return ScmHyperparams(
        num_causes=max(1, config.num_causes.draw_integer(generator)),
        num_layers=max(2, config.num_layers.draw_integer(generator)),
        hidden_dim=max(1, config.hidden_dim.draw_integer(generator)),
        init_std=config.init_std.draw(generator),
        noise_std=config.noise_std.draw(generator),
        dropout_prob=config.max_dropout_prob * float(generator.beta(alpha, beta)),
        block_wise_dropout=coin(),
        is_causal=causal if config.is_causal is None else config.is_causal,
        y_is_effect=coin(),
        in_clique=coin(),
        sort_features=coin(),
        pre_sample_cause_stats=coin(),
        pre_sample_noise_std=coin(),
        cause_sampling=pick(CAUSE_SAMPLINGS),
        class_cut=pick(CLASS_CUTS),
        activation_probs=_softmax_of_uniform(config.activations.num_entries, config.activations.logits, generator),
    )


def _softmax_of_uniform(options: int, logits: tuple[float, float], generator: np.random.Generator) -> np.ndarray:
    """Return probabilities: softmax of a logit of 1 for the first option and uniform ones for the others."""
    weights = np.exp(np.concatenate(([1.0], generator.uniform(*logits, size=options - 1))))
    return weights / weights.sum()


def _log_uniform(generator: np.random.Generator, low: float, high: float) -> float:
    return math.exp(generator.uniform(math.log(low), math.log(high)))
