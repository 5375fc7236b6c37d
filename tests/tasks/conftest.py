"""MLflow for real: an SQLite store and artifacts in a temporary folder, a fresh copy for each test."""

import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def migrated_store(tmp_path_factory) -> Path:
    """An MLflow database with all tables and nothing in them; making one takes seconds."""
    from mlflow import MlflowClient

    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


def set_up(root: Path, migrated: Path, patch: pytest.MonkeyPatch) -> Any:
    """Make ``root`` a project with an empty MLflow store, point the environment at it, return its settings."""
    home = root / ".priorline"
    home.mkdir(parents=True)
    shutil.copy(migrated, home / "mlflow.db")
    shutil.copytree(ROOT / "mlflow", root / "mlflow", ignore=shutil.ignore_patterns("__pycache__"))
    patch.setenv("PRIORLINE_ROOT", str(root))
    patch.setenv("PRIORLINE_HOME", str(home))
    patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
    patch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    patch.delenv("PRIORLINE_ARTIFACT_ROOT", raising=False)
    from tasks.settings import load_settings

    return load_settings()


def pretrained(seed: int, weights: Path) -> dict[str, Any]:
    """Return what `tasks.training.pretrain_model` returns for the model in ``weights``, its run opened."""
    from priorline.checkpoints import weights_hash
    from tasks.tracking import open_run

    tags = {"dvc.data_md5": "1.dir"}
    with open_run(run_key=str(seed), run_name=f"m{seed}", params={"seed": seed}, tags=tags) as run:
        pass
    return {
        "config": f"m{seed}",
        "config_hash": f"config-{seed}",
        "data_hash": f"data-{seed}",
        "weights": str(weights),
        "weights_hash": weights_hash(weights),
        "mlflow_run_id": run.run_id,
    }


def judged(key: str, folder: Path) -> dict[str, Any]:
    """Return what `tasks.evaluation.evaluate_contenders` returns, its files written."""
    import pandas as pd

    folder.mkdir(parents=True, exist_ok=True)
    pd.DataFrame({"evaluation": [key]}).to_parquet(folder / "rows.parquet")
    (folder / "report.html").write_text("<html></html>")
    (folder / "decision.json").write_text("{}")
    rows = str(folder / "rows.parquet")
    return {"evaluation_key": key, "rows": rows, "suite": "smoke", "suite_hash": "suite-1"}


def carry_out(winner: str | None, challenger: str | None, models: list[dict], evaluation: dict) -> dict[str, Any]:
    """Carry out a decision as the flow `register` does."""
    from tasks.registry import apply_decision

    reason = f"because of {evaluation['evaluation_key']}"
    decision = {"promote": winner is not None, "winner": winner, "challenger": challenger, "reason": reason}
    return apply_decision.fn("classification", decision, models, evaluation)


@pytest.fixture
def store(tmp_path, migrated_store, monkeypatch):
    """Settings of a project with an empty MLflow store."""
    return set_up(tmp_path / "project", migrated_store, monkeypatch)


@pytest.fixture
def candidate(store, make_weights):
    """Return a function: seed in, a pretrained model out."""
    return lambda seed: pretrained(seed, make_weights(seed))


@pytest.fixture
def decide(tmp_path):
    """Return a function that carries out a decision: winner, challenger, the models, name of the evaluation."""
    return lambda winner, challenger, models, key: carry_out(
        winner, challenger, models, judged(key, tmp_path / "evaluations" / key)
    )


@pytest.fixture(scope="module")
def served(tmp_path_factory, migrated_store, make_weights):
    """The champion as MLflow loads it, and the folder of its version's files."""
    import mlflow

    uri = "models:/priorline-classifier@champion"
    folder = tmp_path_factory.mktemp("served")
    with pytest.MonkeyPatch.context() as patch:
        set_up(folder / "project", migrated_store, patch)
        carry_out("m0", None, [pretrained(0, make_weights(0))], judged("first", folder / "evaluation"))
        yield mlflow.pyfunc.load_model(uri), Path(mlflow.artifacts.download_artifacts(uri))
