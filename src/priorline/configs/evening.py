"""The curriculum that all ``small`` runs share: some hours on two cores."""

from priorline.training.config import OptimConfig, RowRange, StageConfig, TrainConfig


def evening_training() -> TrainConfig:
    """Return many short tables, then some longer ones, with Muon."""
    stages = (
        StageConfig(
            name="short",
            steps=6_000,
            datasets_per_step=32,
            micro_batch_size=8,
            rows=(RowRange(low=128, high=256),),
            learning_rate=3e-3,
            warmup_fraction=0.05,
        ),
        StageConfig(
            name="medium",
            steps=300,
            datasets_per_step=16,
            micro_batch_size=1,
            group_size=1,
            rows=(RowRange(low=256, high=2_048, scale="log_uniform"),),
            train_fraction=(0.5, 0.9),
            split_per="micro_batch",
            learning_rate=3e-4,
            final_learning_rate=3e-5,
            schedule="polynomial",
        ),
    )
    return TrainConfig(stages=stages, optim=OptimConfig(name="muon"), checkpoint_every_steps=200)
