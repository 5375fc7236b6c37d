"""The curriculum as pure functions of (config, seed): which batch, which stage, which rate at which step.

Nothing here holds state, so a run resumed at step *s* reads the very batches an unbroken one would.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, overload

import numpy as np

from priorline.batches import BatchSpec
from priorline.seeding import derive_seed, numpy_generator
from priorline.training.config import RowRange, StageConfig, TrainConfig
from priorline.training.schedule import learning_rate

_SHAPE_FIELDS = (
    "name",
    "datasets_per_step",
    "micro_batch_size",
    "group_size",
    "rows",
    "train_fraction",
    "split_per",
)
"""Fields of a stage that, with its steps and the seed, fix its batches."""


class Curriculum:
    """A train config and a seed, seen as one long list of micro-batches.

    Stages run in order; the list ends after ``config.total_steps`` updates.
    """

    def __init__(self, config: TrainConfig, seed: int) -> None:
        self.config = config
        self.seed = seed
        # Start of each stage in steps, and in micro-batches; one more entry for the end.
        self._first_steps = [0, *accumulate(stage.steps for stage in config.stages)]
        self._first_batches = [0, *accumulate(s.steps * micro_batches_per_step(s) for s in config.stages)]

    @property
    def train_specs(self) -> "SpecSequence":
        """All micro-batches in order of (step, micro-batch), made on access."""
        return SpecSequence(self, range(self.first_batch(self.config.total_steps)))

    @property
    def validation_specs(self) -> list[BatchSpec]:
        """Micro-batches shaped as the first stage, from seeds that training never uses."""
        stage = self.config.stages[0]
        specs = []
        for index in range(self.config.validation_batches):
            rng = numpy_generator(self.seed, "validation shape", index)
            rows = _draw_rows(stage.rows, rng)
            train_size = _train_size(rng.uniform(*stage.train_fraction), rows)
            specs.append(_spec(stage, derive_seed(self.seed, "validation", index), rows, train_size))
        return specs

    def locate(self, step: int) -> tuple[int, int]:
        """Return (index of the stage, step within it) of the update number ``step``, from 0."""
        if not 0 <= step < self._first_steps[-1]:
            raise IndexError(f"step={step} must lie in 0..{self._first_steps[-1] - 1}")
        stage_index = bisect_right(self._first_steps, step) - 1
        return stage_index, step - self._first_steps[stage_index]

    def first_batch(self, step: int) -> int:
        """Return the index in `train_specs` of the first micro-batch of update ``step``."""
        if step == self._first_steps[-1]:
            return self._first_batches[-1]
        stage_index, step_in_stage = self.locate(step)
        in_stage = step_in_stage * micro_batches_per_step(self.config.stages[stage_index])
        return self._first_batches[stage_index] + in_stage

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of update ``step``."""
        stage_index, step_in_stage = self.locate(step)
        return learning_rate(self.config.stages[stage_index], step_in_stage)

    def train_spec(self, index: int) -> BatchSpec:
        """Return micro-batch ``index`` of the whole curriculum, in constant time."""
        stage_index = bisect_right(self._first_batches, index) - 1
        stage = self.config.stages[stage_index]
        in_stage = index - self._first_batches[stage_index]
        step, micro = divmod(in_stage, micro_batches_per_step(stage))
        # The stage's index is part of the path, so that two stages of one name stay apart.
        path = (stage_index, stage.name, step)
        rng = numpy_generator(self.seed, "shape", *path, micro)
        rows = _draw_rows(stage.rows, rng)
        if stage.split_per == "step":
            rng = numpy_generator(self.seed, "split", *path)
        train_size = _train_size(rng.uniform(*stage.train_fraction), rows)
        return _spec(stage, derive_seed(self.seed, "train", *path, micro), rows, train_size)

    def fingerprint(self) -> dict[str, Any]:
        """Return all that fixes the batches, JSON-ready: shapes and seed, no learning rates."""
        shape = set(_SHAPE_FIELDS)
        total = self.config.total_steps
        stages = []
        for first_step, stage in zip(self._first_steps, self.config.stages, strict=False):
            steps = min(stage.steps, max(0, total - first_step))
            stages.append({**stage.model_dump(mode="json", include=shape), "steps": steps})
        return {
            "seed": self.seed,
            "stages": stages,
            "validation_batches": self.config.validation_batches,
        }


class SpecSequence(Sequence[BatchSpec]):
    """A read-only list of specs that computes each on access; a slice is lazy too."""

    def __init__(self, curriculum: Curriculum, indices: range) -> None:
        self._curriculum = curriculum
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, key: int) -> BatchSpec: ...
    @overload
    def __getitem__(self, key: slice) -> "SpecSequence": ...
    def __getitem__(self, key: int | slice) -> "BatchSpec | SpecSequence":
        if isinstance(key, slice):
            return SpecSequence(self._curriculum, self._indices[key])
        return self._curriculum.train_spec(self._indices[key])


def micro_batches_per_step(stage: StageConfig) -> int:
    """Return how many forward passes one update of ``stage`` averages."""
    return stage.datasets_per_step // stage.micro_batch_size


def _spec(stage: StageConfig, seed: int, rows: int, train_size: int) -> BatchSpec:
    return BatchSpec(
        seed=seed,
        num_datasets=stage.micro_batch_size,
        group_size=stage.group_size,
        rows=rows,
        train_size=train_size,
    )


def _draw_rows(ranges: tuple[RowRange, ...], rng: np.random.Generator) -> int:
    total = sum(entry.share for entry in ranges)
    chosen = rng.choice(len(ranges), p=[entry.share / total for entry in ranges])
    entry = ranges[chosen]
    if entry.scale == "uniform":
        return int(rng.integers(entry.low, entry.high, endpoint=True))
    rows = round(math.exp(rng.uniform(math.log(entry.low), math.log(entry.high))))
    return min(max(rows, entry.low), entry.high)


def _train_size(fraction: float, rows: int) -> int:
    return min(max(round(fraction * rows), 1), rows - 1)
