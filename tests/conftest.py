"""Shared fixtures: one Prefect server per session, a scratch project with real git, DVC and MLflow."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: small tensors, two cores

DEBUG = {
    "model.embed_dim": 8,
    "model.col_num_inds": 4,
    "model.row_num_heads": 2,
    "model.col_num_heads": 2,
    "model.icl_num_heads": 2,
    "model.icl_num_blocks": 1,
    "prior.max_columns": 5,
    "training.stages.0.steps": 6,
    "training.stages.0.datasets_per_step": 4,
    "training.stages.0.micro_batch_size": 2,
    "training.stages.0.group_size": 2,
    "training.stages.0.rows.0.low": 32,
    "training.stages.0.rows.0.high": 32,
    "training.stages.1.steps": 2,
    "training.stages.1.rows.0.low": 32,
    "training.stages.1.rows.0.high": 48,
    "training.stages.2.steps": 2,
    "training.stages.2.rows.0.low": 48,
    "training.stages.2.rows.0.high": 64,
    "training.validation_batches": 2,
    "training.checkpoint_every_steps": 2,
    "training.validation_every_steps": 5,
    "evaluation.num_splits": 1,
    "evaluation.max_train_rows": 60,
    "evaluation.max_test_rows": 60,
    "evaluation.num_members": 1,
}
"""Overrides of ``tabicl-smoke`` that finish in seconds; every stage and mechanism still runs."""


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
