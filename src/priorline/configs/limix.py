"""Named LimiX runs: the released sizes, a size for an evening, a size for minutes.

Steps, batches and rates of the authors are not published; these are ours.
"""

from collections.abc import Callable

from priorline.configs.evening import evening_training
from priorline.configs.run import DataConfig, RunConfig
from priorline.evaluation.config import EvaluationConfig
from priorline.models.limix.config import PRESETS
from priorline.priors.causal_graph import GraphConfig
from priorline.priors.limix import LimiXPriorConfig
from priorline.training.config import OptimConfig, RowRange, StageConfig, TrainConfig


def _full_size(name: str) -> RunConfig:
    stages = (
        StageConfig(
            name="short",
            steps=100_000,
            datasets_per_step=256,
            rows=(RowRange(low=256, high=1024),),
            learning_rate=1e-4,
            warmup_fraction=0.02,
        ),
        StageConfig(
            name="long",
            steps=4_000,
            datasets_per_step=256,
            micro_batch_size=1,
            group_size=1,
            rows=(RowRange(low=1_000, high=20_000, scale="log_uniform"),),
            train_fraction=(0.5, 0.9),
            split_per="micro_batch",
            learning_rate=2e-5,
            final_learning_rate=2e-6,
            schedule="polynomial",
        ),
    )
    return RunConfig(
        name=name,
        model=PRESETS[name](),
        prior=LimiXPriorConfig(columns=(2, 100)),
        data=DataConfig(source="stream", max_batches=400),
        training=TrainConfig(stages=stages, checkpoint_every_steps=500, validation_every_steps=500),
    )


def limix_16m() -> RunConfig:
    """The released 16M architecture on our prior: 104,000 steps of 256 datasets, for GPUs."""
    return _full_size("limix-16m")


def limix_2m() -> RunConfig:
    """The released 2M architecture on our prior: 104,000 steps of 256 datasets, for GPUs."""
    return _full_size("limix-2m")


def limix_small() -> RunConfig:
    """0.5 M parameters for some hours on two cores: wide tables, Muon, then longer tables."""
    return RunConfig(
        name="limix-small",
        model=PRESETS["small"](),
        prior=LimiXPriorConfig(),
        data=DataConfig(source="stream", max_batches=400),
        training=evening_training(),
    )


def limix_smoke() -> RunConfig:
    """0.05 M parameters in some minutes on two cores; every term of the objective at work."""
    stages = (
        StageConfig(
            name="short",
            steps=500,
            datasets_per_step=16,
            micro_batch_size=8,
            group_size=8,
            rows=(RowRange(low=128, high=128),),
            train_fraction=(0.4, 0.8),
            learning_rate=6e-3,
            warmup_fraction=0.05,
        ),
        StageConfig(
            name="medium",
            steps=30,
            datasets_per_step=8,
            micro_batch_size=4,
            group_size=4,
            rows=(RowRange(low=128, high=512, scale="log_uniform"),),
            train_fraction=(0.5, 0.9),
            split_per="micro_batch",
            learning_rate=3e-4,
            final_learning_rate=5e-5,
            schedule="polynomial",
        ),
    )
    easy = GraphConfig(distractor_share=(0.0, 0.3))
    return RunConfig(
        name="limix-smoke",
        model=PRESETS["smoke"](),
        prior=LimiXPriorConfig(columns=(3, 10), state_width=(1, 2), graph=easy, max_tries=4),
        training=TrainConfig(
            stages=stages,
            optim=OptimConfig(name="muon"),
            validation_every_steps=50,
            validation_batches=16,
            checkpoint_every_steps=50,
        ),
        evaluation=EvaluationConfig(suite="smoke", num_splits=2, max_train_rows=300, max_test_rows=500, num_members=4),
    )


RUNS: dict[str, Callable[[], RunConfig]] = {
    "limix-16m": limix_16m,
    "limix-2m": limix_2m,
    "limix-small": limix_small,
    "limix-smoke": limix_smoke,
}
