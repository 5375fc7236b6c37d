"""Configuration of pretraining: curriculum stages, optimiser, bookkeeping."""

from typing import Literal, Self

from pydantic import Field, model_validator

from priorline.config_io import Config


class RowRange(Config):
    """How many rows a dataset has, train and test together."""

    low: int = Field(ge=4)
    """Fewest rows (inclusive)."""
    high: int = Field(ge=4)
    """Most rows (inclusive); equal to ``low`` for a fixed size."""
    scale: Literal["uniform", "log_uniform"] = "uniform"
    """Distribution between the two."""
    share: float = Field(default=1.0, gt=0)
    """Weight of this range among a stage's ranges."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.high < self.low:
            raise ValueError(f"high={self.high} must be at least low={self.low}")
        return self


class StageConfig(Config):
    """One curriculum stage: batch shape, learning rate and what trains."""

    name: str
    """Shown in logs, part of every batch's seed."""
    steps: int = Field(ge=0)
    """Optimiser updates."""
    datasets_per_step: int = Field(default=512, ge=1)
    """Datasets whose gradients are averaged in one update; a multiple of ``micro_batch_size``."""
    micro_batch_size: int = Field(default=4, ge=1)
    """Datasets in one forward pass (the document's N_B); they share rows and split."""
    group_size: int = Field(default=4, ge=1)
    """Datasets that share the prior's hyper-parameters."""
    rows: tuple[RowRange, ...]
    """Row ranges, mixed by ``share``; drawn per micro-batch."""
    train_fraction: tuple[float, float] = (0.1, 0.9)
    """Share of rows before the split, uniform between the two."""
    split_per: Literal["step", "micro_batch"] = "step"
    """Whether one split serves a whole step (as in TabICL's stage 1) or each micro-batch draws its own."""
    learning_rate: float = Field(gt=0)
    """Peak learning rate of the stage."""
    final_learning_rate: float = Field(default=0.0, ge=0)
    """Learning rate that the schedule ends on."""
    schedule: Literal["cosine", "polynomial", "constant"] = "cosine"
    """Shape of the decay after the warm-up."""
    polynomial_power: float = Field(default=2.0, gt=0)
    """Exponent of the polynomial schedule."""
    warmup_fraction: float = Field(default=0.0, ge=0, lt=1)
    """Share of the stage's steps with a linear warm-up from zero."""
    trainable_parts: tuple[str, ...] = ()
    """Prefixes of parameter names that train; empty: all of the model."""

    @model_validator(mode="after")
    def _divisible(self) -> Self:
        if self.datasets_per_step % self.micro_batch_size:
            raise ValueError(
                f"datasets_per_step={self.datasets_per_step} must be a multiple of "
                f"micro_batch_size={self.micro_batch_size}"
            )
        low, high = self.train_fraction
        if not 0 < low <= high < 1:
            raise ValueError(f"train_fraction={self.train_fraction} must satisfy 0 < low <= high < 1")
        return self


class OptimConfig(Config):
    """The optimiser, one for all stages."""

    name: Literal["adamw", "muon"] = "adamw"
    """``muon``: Muon for hidden matrices, AdamW for all other parameters."""
    betas: tuple[float, float] = (0.9, 0.999)
    """AdamW's moment decays."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Decoupled weight decay of matrices."""
    muon_momentum: float = Field(default=0.95, ge=0, lt=1)
    """Momentum of Muon."""
    muon_learning_rate_scale: float = Field(default=1.0, gt=0)
    """Muon's learning rate as a multiple of the stage's; at 1 its updates are as large as AdamW's."""
    clip_norm: float | None = Field(default=1.0, gt=0)
    """Largest global gradient norm; None: no clipping."""


class TrainConfig(Config):
    """Pretraining from the first to the last stage."""

    stages: tuple[StageConfig, ...] = Field(min_length=1)
    """Run in order; weights carry over, optimiser state and schedule start anew in each stage."""
    optim: OptimConfig = OptimConfig()
    """The optimiser of every stage."""
    max_steps: int | None = Field(default=None, ge=1)
    """Stop after this many updates over all stages; None: run all. Schedules keep their full length."""
    validation_every_steps: int = Field(default=100, ge=1)
    """Updates between two validations on synthetic tables that never train; one more at the end."""
    validation_batches: int = Field(default=16, ge=1)
    """Micro-batches of the validation set, shaped as the first stage."""
    checkpoint_every_steps: int = Field(default=100, ge=1)
    """Updates between two checkpoints; one is always written at the end."""
    keep_checkpoints: int = Field(default=2, ge=1)
    """Most recent checkpoints that stay on disk."""
    log_every_steps: int = Field(default=10, ge=1)
    """Updates between two log records."""
    max_nonfinite_share: float = Field(default=0.1, ge=0, le=1)
    """Share of the last 100 micro-batches that may have a non-finite loss before training stops.

    The same share holds for the last 100 updates, skipped for a non-finite gradient."""
    amp: Literal["off", "bfloat16"] = "off"
    """Autocast; ``bfloat16`` is refused on a CPU without native support (measured 100 times slower)."""
    tf32: bool = False
    """Let a GPU multiply float32 matrices in TF32, as TabICL's scripts do; no effect on a CPU."""
    activation_recompute: bool = False
    """Recompute block activations in the backward pass: less memory, about a third more time."""

    @model_validator(mode="after")
    def _trains(self) -> Self:
        if not any(stage.steps for stage in self.stages):
            raise ValueError("stages have no steps at all; give at least one stage steps >= 1")
        return self

    @property
    def total_steps(self) -> int:
        """Updates over all stages, cut by ``max_steps``."""
        steps = sum(stage.steps for stage in self.stages)
        return steps if self.max_steps is None else min(steps, self.max_steps)
