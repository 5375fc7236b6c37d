"""Shared fixtures: one Prefect server per session, a scratch project with real git, DVC and MLflow."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: small tensors, two cores

DEBUG = {
    "tabicl.model.embed_dim": 16,
    "tabicl.model.col_num_inds": 8,
    "tabicl.prior.mlp_prob": 1.0,
    "tabicl.prior.max_columns": 5,
    "tabicl.prior.table.max_classes": 2,
    "tabicl.training.stages.0.learning_rate": 0.01,
    "tabicl.training.stages.0.steps": 150,
    "tabicl.training.stages.0.datasets_per_step": 8,
    "tabicl.training.stages.0.micro_batch_size": 8,
    "tabicl.training.stages.2.steps": 2,
    "tabicl.training.stages.2.rows.0.low": 48,
    "tabicl.training.stages.2.rows.0.high": 64,
    "limix.model.embed_dim": 16,
    "limix.model.num_blocks": 1,
    "limix.prior.columns.0": 3,
    "limix.prior.columns.1": 4,
    "limix.training.stages.0.steps": 20,
    "limix.training.stages.0.datasets_per_step": 4,
    "limix.training.stages.0.micro_batch_size": 4,
    "training.stages.0.rows.0.low": 48,
    "training.stages.0.rows.0.high": 48,
    "training.stages.1.steps": 2,
    "training.stages.1.rows.0.low": 32,
    "training.stages.1.rows.0.high": 48,
    "training.validation_batches": 2,
    "training.checkpoint_every_steps": 50,
    "training.validation_every_steps": 50,
    "evaluation.num_splits": 1,
    "evaluation.max_train_rows": 60,
    "evaluation.max_test_rows": 60,
    "evaluation.num_members": 2,
}
"""Overrides of the chain ``smoke``: every stage runs, and TabICL learns in half a minute to beat the majority."""


@pytest.fixture(scope="session")
def debug_overrides() -> dict:
    return dict(DEBUG)


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    """A real, temporary Prefect server for the whole session."""
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=180):
        yield


def git(root: Path, *arguments: str) -> str:
    """Run git in ``root`` with a throw-away identity and return its output."""
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="session")
def run_git():
    return git


@pytest.fixture(scope="session")
def make_weights(tmp_path_factory):
    """Return a function: seed and preset in, folder of a tiny TabICL's random weights out; made once each.

    For tests of everything but accuracy.
    """
    import torch

    from priorline.checkpoints import save_weights
    from priorline.models import MODELS

    spec = MODELS["tabicl"]
    sizes = {"embed_dim": 16, "col_num_blocks": 1, "col_num_inds": 16, "row_num_blocks": 1, "row_num_heads": 4}
    made: dict[tuple[int, str], Path] = {}

    def make(seed: int, preset: str = "smoke") -> Path:
        if (seed, preset) not in made:
            folder = tmp_path_factory.mktemp("weights") / "weights"
            config = spec.presets[preset]().model_copy(update=sizes | {"icl_num_blocks": 3, "zero_init": False})
            torch.manual_seed(seed)
            model_config = config.model_dump(mode="json")
            save_weights(folder, spec.build(config), kind="tabicl", model_config=model_config, metadata={})
            made[seed, preset] = folder
        return made[seed, preset]

    return make


@pytest.fixture(scope="session")
def random_weights(make_weights) -> Path:
    """Weights of a tiny classifier that knows nothing."""
    return make_weights(0)


@pytest.fixture(scope="session")
def random_regressor(make_weights) -> Path:
    """Weights of a tiny regressor that knows nothing."""
    return make_weights(0, "tabicl-v2-regressor")


@pytest.fixture(scope="session")
def random_limix(tmp_path_factory) -> Path:
    """Weights of a tiny LimiX that knows nothing."""
    import torch

    from priorline.checkpoints import save_weights
    from priorline.models import MODELS

    spec = MODELS["limix"]
    config = spec.presets["smoke"]().model_copy(update={"embed_dim": 16, "num_blocks": 2, "ff_dim": 16})
    folder = tmp_path_factory.mktemp("weights") / "weights"
    torch.manual_seed(0)
    save_weights(folder, spec.build(config), kind="limix", model_config=config.model_dump(mode="json"), metadata={})
    return folder
