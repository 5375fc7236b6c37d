"""`RunConfig`: everything that fixes what one model's run computes."""

from typing import Any, Literal, Self

from pydantic import Field, SerializeAsAny, field_validator, model_validator

from priorline.config_io import Config, build, nearest_name
from priorline.errors import ConfigError
from priorline.evaluation.config import EvaluationConfig, PromotionConfig
from priorline.models import MODELS
from priorline.models.spec import ModelConfig
from priorline.priors import PRIORS
from priorline.priors.base import PriorConfig
from priorline.training.config import TrainConfig


class DataConfig(Config):
    """How much of the prior is written to shards, and whether training reads them."""

    source: Literal["shards", "stream"] = "shards"
    """``shards``: train from versioned files; ``stream``: sample while training (endless data).

    Both give the same bytes: shard entry *i* is the *i*-th micro-batch of the stream."""
    batches_per_shard: int = Field(default=100, ge=1)
    """Micro-batches per shard file."""
    max_batches: int | None = Field(default=None, ge=1)
    """Micro-batches written at most; None: as many as the curriculum trains on.

    With ``source="stream"`` the shards are a versioned sample of the stream."""


class RunConfig(Config):
    """One model from prior to promotion; saved in every checkpoint and MLflow run."""

    name: str
    """Name of the recipe in `priorline.configs`."""
    seed: int = Field(default=0, ge=0)
    """The one seed of priors, initial weights, training and evaluation views."""
    model: SerializeAsAny[ModelConfig]
    """Architecture; its ``kind`` picks the row of `MODELS`."""
    prior: SerializeAsAny[PriorConfig]
    """Synthetic data; its ``kind`` picks the row of `PRIORS`."""
    data: DataConfig = DataConfig()
    """Shards or stream."""
    training: TrainConfig
    """Curriculum, optimiser, bookkeeping."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """Held-out tables and baselines."""
    promotion: PromotionConfig = PromotionConfig()
    """When the result becomes champion."""

    @model_validator(mode="after")
    def _classes_fit(self) -> Self:
        drawn, told_apart = self.prior.most_classes, self.model.most_classes
        if drawn is not None and told_apart is None:
            raise ValueError("the prior draws classes and the model predicts none; choose a classifier's preset")
        if drawn is not None and told_apart is not None and drawn > told_apart:
            raise ValueError(
                f"the prior draws up to {drawn} classes, the model tells {told_apart} apart; lower the prior's "
                "max_classes or raise the model's"
            )
        return self

    @field_validator("model", mode="before")
    @classmethod
    def _model_by_kind(cls, value: Any) -> Any:
        return _by_kind(value, {kind: spec.config_class for kind, spec in MODELS.items()}, "model")

    @field_validator("prior", mode="before")
    @classmethod
    def _prior_by_kind(cls, value: Any) -> Any:
        return _by_kind(value, {kind: row.config_class for kind, row in PRIORS.items()}, "prior")


def _by_kind(value: Any, classes: dict[str, Any], section: str) -> Any:
    if not isinstance(value, dict):
        return value
    kind = str(value.get("kind"))
    if kind not in classes:
        raise ConfigError(f"{section}.kind={kind!r} is unknown{nearest_name(kind, classes)}")
    return build(classes[kind], value)
