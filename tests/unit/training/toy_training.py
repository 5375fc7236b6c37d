"""A model, data and curriculum that train in milliseconds; as a script, a run that kills itself.

``python toy_training.py WORK_DIR CASE KILL_AT`` trains ``CASE`` and gets SIGKILL when it asks for the
first micro-batch of update ``KILL_AT``.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from priorline.batches import BatchSpec, TabularBatch
from priorline.seeding import derive_seed, torch_generator
from priorline.training.config import OptimConfig, RowRange, StageConfig, TrainConfig
from priorline.training.curriculum import Curriculum
from priorline.training.loop import TrainResult, train

SEED = 3
NUM_COLUMNS = 3


class ToyModel(nn.Module):
    """Attention from test rows to train rows, with dropout, a buffer, a constant and two parts."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(NUM_COLUMNS, width), nn.Tanh(), nn.Linear(width, width))
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 2))
        self.temperature = nn.Parameter(torch.tensor(0.5), requires_grad=False)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x_BRC: Tensor, y_BN: Tensor, num_columns_B: Tensor | None = None) -> Tensor:
        if self.training:
            self.calls += 1
        train_size = y_BN.shape[1]
        rows_BRE = self.encoder(x_BRC)
        sign_BN1 = (2.0 * y_BN - 1.0)[..., None]
        scores_BMN = rows_BRE[:, train_size:] @ rows_BRE[:, :train_size].mT * self.temperature
        votes_BM1 = torch.softmax(scores_BMN, -1) @ sign_BN1
        return self.head(rows_BRE[:, train_size:] * votes_BM1)


def new_model(seed: int = 0) -> ToyModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ToyModel()


def sample(spec: BatchSpec) -> TabularBatch:
    """Two classes apart along one random direction."""
    rng = torch_generator(spec.seed, "toy")
    y_BR = torch.randint(0, 2, (spec.num_datasets, spec.rows), generator=rng)
    x_BRC = torch.randn(spec.num_datasets, spec.rows, NUM_COLUMNS, generator=rng)
    direction_B1C = torch.randn(spec.num_datasets, 1, NUM_COLUMNS, generator=rng)
    return TabularBatch(
        x_BRC=x_BRC + direction_B1C * (2.0 * y_BR[..., None] - 1.0),
        y_BR=y_BR,
        num_columns_B=torch.full((spec.num_datasets,), NUM_COLUMNS),
        train_size=spec.train_size,
    )


def toy_stage(name: str, steps: int, **changes: Any) -> StageConfig:
    values: dict[str, Any] = {
        "name": name,
        "steps": steps,
        "datasets_per_step": 4,
        "micro_batch_size": 2,
        "rows": (RowRange(low=12, high=24),),
        "train_fraction": (0.3, 0.7),
        "learning_rate": 1e-2,
        "warmup_fraction": 0.2,
    }
    return StageConfig(**{**values, **changes})


def toy_config(**changes: Any) -> TrainConfig:
    stages = (toy_stage("one", 7), toy_stage("two", 5, trainable_parts=("head",), schedule="constant"))
    values: dict[str, Any] = {
        "stages": stages,
        "validation_every_steps": 4,
        "validation_batches": 2,
        "checkpoint_every_steps": 3,
        "log_every_steps": 2,
    }
    return TrainConfig(**{**values, **changes})


CASES: dict[str, TrainConfig] = {
    "adamw": toy_config(),
    "muon": toy_config(optim=OptimConfig(name="muon", weight_decay=0.01)),
    "muon, max_steps": toy_config(optim=OptimConfig(name="muon", weight_decay=0.01), max_steps=11),
}


def stream(config: TrainConfig) -> Callable[[int], Iterator[TabularBatch]]:
    specs = Curriculum(config, SEED).train_specs
    return lambda start: (sample(spec) for spec in specs[start:])


def run(model: nn.Module, config: TrainConfig, work_dir: Path, **changes: Any) -> TrainResult:
    """Call `train` on toy data; ``changes`` replace its arguments."""
    arguments: dict[str, Any] = {
        "objective": "in_context_classification",
        "batches": stream(config),
        "validation": lambda: map(sample, Curriculum(config, SEED).validation_specs),
        "config": config,
        "seed": SEED,
        "work_dir": work_dir,
        "identity": {"config": derive_seed(0, "any")},
        "log_metrics": lambda metrics, step: None,
    }
    return train(model, **{**arguments, **changes})


def main(work_dir: Path, case: str, kill_at: int) -> None:
    config = CASES[case]
    deadly = Curriculum(config, SEED).first_batch(kill_at)

    def batches(start: int) -> Iterator[TabularBatch]:
        for index, batch in enumerate(stream(config)(start), start):
            if index == deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    def log_metrics(metrics: dict[str, float], step: int) -> None:
        with (work_dir / "steps.txt").open("a", encoding="utf-8") as file:
            file.write(f"{step}\n")

    run(new_model(), config, work_dir, batches=batches, log_metrics=log_metrics)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
