"""The chain end to end at debug size, on real git, DVC, MLflow and Prefect."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import mlflow
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def project(tmp_path_factory, run_git):
    """A scratch copy of the repository's DVC state, as a fresh clone has it."""
    root = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / ".dvc", root / ".dvc", ignore=shutil.ignore_patterns("cache", "tmp", "config.local"))
    for name in [".dvcignore", ".gitignore", "data.dvc"]:
        shutil.copy(ROOT / name, root / name)
    shutil.copytree(ROOT / "mlflow", root / "mlflow", ignore=shutil.ignore_patterns("__pycache__"))
    run_git(root, "init", "-q")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "start")
    return root


@pytest.fixture(scope="module")
def chain(project, prefect_server, debug_overrides):
    """Environment of the project; returns a function that runs the pipeline in it."""
    patch = pytest.MonkeyPatch()
    patch.setenv("PRIORLINE_ROOT", str(project))
    patch.setenv("PRIORLINE_HOME", str(project / ".priorline"))
    for name in ["MLFLOW_TRACKING_URI", "PRIORLINE_DVC_REMOTE", "PRIORLINE_ARTIFACT_ROOT"]:
        patch.delenv(name, raising=False)
    from tasks.settings import configure_environment, load_settings

    configure_environment(load_settings())
    mlflow.set_tracking_uri(load_settings().tracking_uri)
    from flows.pipeline import pipeline

    yield lambda **extra: pipeline("smoke", {**debug_overrides, **extra}, "titanic")
    patch.undo()


@pytest.fixture(scope="module")
def first(chain):
    return chain()


def test_first_run_registers_or_says_why_not_and_predicts(first, project):
    assert [model["config"] for model in first["trained"]] == ["tabicl-smoke", "limix-smoke"]
    judged = {outcome["problem_type"]: outcome for outcome in first["judged"]}
    assert list(judged) == ["classification", "regression", "imputation"]
    for problem_type, baseline in (("regression", "mean"), ("imputation", "missforest")):
        rows = pd.read_parquet(judged[problem_type]["evaluation"]["rows"])
        assert {"limix-smoke", baseline} <= set(rows["contender"])
        assert not rows["error"].any()
        assert judged[problem_type]["decision"]["reason"]
    judged = judged["classification"]
    assert Path(judged["evaluation"]["report"]).exists()
    rows = pd.read_parquet(judged["evaluation"]["rows"])
    assert {"tabicl-smoke", "limix-smoke", "xgboost", "random_forest", "linear", "majority"} <= set(rows["contender"])
    assert judged["decision"]["reason"]
    assert first["trained"][0]["data_md5"].endswith(".dir")


def test_git_sees_only_data_dvc_changed_and_dvc_is_clean(first, project, run_git):
    assert run_git(project, "status", "--porcelain").split() == ["M", "data.dvc"]
    status = subprocess.run(
        [sys.executable, "-m", "dvc", "status"], cwd=project, capture_output=True, text=True, check=True
    )
    assert "up to date" in status.stdout


def test_an_unchanged_second_run_reuses_all(first, chain):
    second = chain()
    assert [model["reused"] for model in second["trained"]] == [True, True]
    assert second["trained"][0]["weights_hash"] == first["trained"][0]["weights_hash"]
    assert second["trained"][0]["mlflow_run_id"] == first["trained"][0]["mlflow_run_id"]
    assert second["judged"][0]["evaluation"]["reused"] is True
    assert second["judged"][0]["decision"]["champion_version"] == first["judged"][0]["decision"]["champion_version"]


def test_another_seed_is_another_run(first, chain):
    other = chain(seed=1)
    assert other["trained"][0]["weights_hash"] != first["trained"][0]["weights_hash"]
    assert other["trained"][0]["data_hash"] != first["trained"][0]["data_hash"]
    json.dumps(other)


def test_lineage_leads_back_to_data_code_config_run_and_evaluation(first):
    from tasks.registry import show

    lineage = show("classifier")
    assert "champion" in lineage["aliases"]
    tags = lineage["versions"][-1]["lineage"]
    trained = {model["config"]: model for model in first["trained"]}[tags["priorline.config"]]
    assert tags["dvc.data_md5"] == trained["data_md5"]
    assert tags["priorline.evaluation_rows"].startswith("runs:/")
    assert len(tags["git.commit"]) == 40
    assert tags["prefect.flow_run_id"]
    rows = mlflow.artifacts.download_artifacts(tags["priorline.evaluation_rows"])
    assert "tabicl-smoke" in set(pd.read_parquet(rows)["contender"])


def test_the_champion_serves_through_mlflow_and_holds_no_rows(first):
    from priorline.evaluation.suites import load_example

    context, query, target = load_example("titanic")
    frame = pd.concat([context.head(120), query.head(5)], ignore_index=True)
    model = mlflow.pyfunc.load_model("models:/priorline-classifier@champion")
    answer = model.predict(frame, params={"target": target})
    assert answer["row"].tolist() == list(range(120, 125))
    assert set(answer["prediction"]) <= set(context[target])
    folder = Path(mlflow.artifacts.download_artifacts("models:/priorline-classifier@champion"))
    files = {path.name for path in folder.rglob("*") if path.is_file()}
    assert "model.safetensors" in files
    assert not [name for name in files if name.endswith((".pkl", ".parquet", ".csv"))]
    with pytest.raises(Exception, match="is not a column"):
        model.predict(frame, params={"target": "nothing"})


def test_a_second_model_moves_the_aliases_and_rollback_moves_them_back(first):
    from mlflow import MlflowClient

    from tasks import registry

    client, name = MlflowClient(), "priorline-classifier"
    before = registry.show(name)["aliases"]["champion"]
    source = client.get_model_version(name, before)
    other = client.create_model_version(name, source.source, run_id=source.run_id, tags=source.tags).version
    other = str(other)
    registry.promote(name, other, "a test says so")
    aliases = registry.show(name)["aliases"]
    assert (aliases["champion"], aliases["previous"]) == (other, before)
    assert client.get_model_version(name, other).tags["priorline.promotion_reason"] == "a test says so"
    assert registry.rollback("classifier")["champion_version"] == before
    assert registry.show(name)["aliases"]["champion"] == before
