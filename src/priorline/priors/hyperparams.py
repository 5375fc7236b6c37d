"""Distributions over the hyper-parameters of a structural causal model, and one draw of them all.

Source: TabPFN (arXiv 2207.01848), appendix C.1, with the ranges of TabICL's released recipe.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from pydantic import Field

from priorline.config_io import Config
from priorline.priors.activations import NUM_ENTRIES

T = TypeVar("T")
CauseSampling = Literal["normal", "mixed", "uniform"]
ClassCut = Literal["rank", "value"]
CAUSE_SAMPLINGS: tuple[CauseSampling, ...] = ("normal", "mixed", "uniform")
CLASS_CUTS: tuple[ClassCut, ...] = ("value", "rank")


class TruncatedNormal(Config):
    """A normal distribution cut at zero whose mean and spread are drawn anew for each group.

    Mean is log-uniform in [``low_mean``, ``high_mean``], the standard deviation a log-uniform
    share of it in [0.01, 1]; the value is ``floor`` plus the draw.
    """

    low_mean: float = Field(gt=0)
    """Smallest mean."""
    high_mean: float = Field(gt=0)
    """Largest mean."""
    floor: float = 0.0
    """Added to the draw."""

    def draw(self, generator: np.random.Generator) -> float:
        """Return one value."""
        mean = float(np.exp(generator.uniform(np.log(self.low_mean), np.log(self.high_mean))))
        spread = mean * float(np.exp(generator.uniform(np.log(0.01), 0.0)))
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
    """Layers of the MLP."""
    hidden_dim: TruncatedNormal = TruncatedNormal(low_mean=5, high_mean=130, floor=4)
    """Units per layer; a causal MLP gets at least 1 + 2 * columns."""
    init_std: TruncatedNormal = TruncatedNormal(low_mean=0.01, high_mean=10)
    """Standard deviation of weights."""
    noise_std: TruncatedNormal = TruncatedNormal(low_mean=1e-4, high_mean=0.3)
    """Standard deviation of the noise on every unit."""
    max_dropout_prob: float = Field(default=0.9, ge=0, lt=1)
    """Scale of the Beta distribution of the share of weights that are zero."""
    is_causal: bool | None = None
    """None: drawn per group, as in v1. Differs: the authors' package 2.2 fixes it to False."""
    max_trees: int = Field(default=4, ge=1)
    """Boosting rounds of a tree layer at most; 1 + a draw of an exponential with mean 2."""
    max_tree_depth: int = Field(default=4, ge=1)
    """Depth of a tree at most; 2 + a draw of an exponential with mean 2."""
    tree_num_layers: tuple[int, int] = (1, 2)
    """Hidden layers of a tree model, both ends included."""
    tree_hidden_dim: tuple[int, int] = (3, 9)
    """Units per hidden layer of a tree model."""


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
    """Probability of each entry of `priorline.priors.activations`."""
    num_trees: int
    tree_depth: int


def draw_hyperparams(config: ScmConfig, generator: np.random.Generator) -> ScmHyperparams:
    """Return one draw from ``config``; consumes a fixed order of random numbers."""

    def coin() -> bool:
        return bool(_weighted(generator, (True, False)))

    alpha, beta = generator.uniform(0.1, 5.0, size=2)
    causal = coin()
    logits = generator.uniform(-5.0, 6.0, size=NUM_ENTRIES)
    return ScmHyperparams(
        num_causes=config.num_causes.draw_integer(generator),
        num_layers=max(2, config.num_layers.draw_integer(generator)),
        hidden_dim=config.hidden_dim.draw_integer(generator),
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
        cause_sampling=_weighted(generator, CAUSE_SAMPLINGS),
        class_cut=_weighted(generator, CLASS_CUTS),
        activation_probs=_softmax(logits),
        num_trees=min(config.max_trees, 1 + int(generator.exponential(2.0))),
        tree_depth=min(config.max_tree_depth, 2 + int(generator.exponential(2.0))),
    )


def _weighted(generator: np.random.Generator, options: Sequence[T]) -> T:
    """Return one option, by softmax weights of random logits: 1 for the first, U(-3, 5) for the others."""
    logits = np.concatenate(([1.0], generator.uniform(-3.0, 5.0, size=len(options) - 1)))
    return options[int(generator.choice(len(options), p=_softmax(logits)))]


def _softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()
