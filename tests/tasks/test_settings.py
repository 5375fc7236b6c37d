"""Where things are: defaults, the environment, and what the tools are told before they are imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from priorline.errors import ConfigError
from tasks.settings import configure_environment, load_settings

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch, tmp_path):
    """Nothing of the outer environment; what a test sets is taken back."""
    for name in [*os.environ]:
        if name.startswith(("PRIORLINE_", "MLFLOW_", "PREFECT_", "DVC_", "GX_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_defaults_lie_below_the_nearest_folder_with_a_pointer(tmp_path, monkeypatch):
    (tmp_path / "data.dvc").write_text("outs: []\n")
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    settings = load_settings()
    assert settings.root == tmp_path
    assert settings.data_dir == tmp_path / "data"
    assert settings.tracking_uri == f"sqlite:///{tmp_path}/.priorline/mlflow.db"
    assert settings.artifact_root == f"{tmp_path}/.priorline/mlartifacts"
    assert settings.dvc_remote == f"{tmp_path}/.priorline/dvc-remote"
    assert settings.outputs_dir == tmp_path / "outputs"


def test_without_a_pointer_the_current_folder_is_the_root(tmp_path):
    assert load_settings().root == tmp_path


def test_the_environment_moves_each_place(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIORLINE_HOME", "state")
    monkeypatch.setenv("PRIORLINE_DVC_REMOTE", "s3://bucket/data")
    monkeypatch.setenv("PRIORLINE_ARTIFACT_ROOT", "s3://bucket/artifacts")
    monkeypatch.setenv("PRIORLINE_OUTPUTS", "results")
    settings = load_settings()
    assert settings.home == tmp_path / "state"
    assert settings.tracking_uri == f"sqlite:///{tmp_path}/state/mlflow.db"
    assert (settings.dvc_remote, settings.artifact_root) == ("s3://bucket/data", "s3://bucket/artifacts")
    assert settings.outputs_dir == tmp_path / "results"


def test_a_tracking_server_decides_where_artifacts_go(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    assert load_settings().artifact_root is None
    monkeypatch.setenv("PRIORLINE_ARTIFACT_ROOT", "s3://bucket/artifacts")
    assert load_settings().artifact_root == "s3://bucket/artifacts"


@pytest.mark.parametrize(
    ("name", "value"),
    [("PRIORLINE_NUM_WORKERS", "0"), ("PRIORLINE_NUM_WORKERS", "many"), ("PRIORLINE_DEVICE", "gpu")],
)
def test_what_cannot_be_read_is_refused_by_name(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"{name}='{value}'"):
        load_settings()


def test_a_variable_of_the_user_wins(monkeypatch):
    before = dict(os.environ)
    monkeypatch.setattr(os, "environ", {**before, "PREFECT_HOME": "/mine", "MLFLOW_DISABLE_TELEMETRY": "false"})
    configure_environment(load_settings())
    assert os.environ["PREFECT_HOME"] == "/mine"
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "false"
    assert os.environ["MLFLOW_ALLOW_PICKLE_DESERIALIZATION"] == "false"


NAMES = """
import os
before = set(os.environ)
from tasks.settings import configure_environment, load_settings
configure_environment(load_settings())
added = set(os.environ) - before
from mlflow import environment_variables as mlflow_variables
from prefect.settings import get_current_settings
settings = get_current_settings()
assert str(settings.home) == os.environ["PREFECT_HOME"]
assert settings.server.ephemeral.startup_timeout_seconds == 180
assert settings.server.analytics_enabled is False
assert settings.cloud.enable_orchestration_telemetry is False
assert settings.results.default_serializer == "json"
for name in added:
    if name.startswith("MLFLOW_") and name != "MLFLOW_DISABLE_TELEMETRY":
        variable = getattr(mlflow_variables, name)
        assert str(variable.get()).lower() == os.environ[name].lower(), name
from mlflow.telemetry.utils import is_telemetry_disabled
assert is_telemetry_disabled()
from dvc.analytics import is_enabled
assert not is_enabled()
print("all known")
"""


def test_prefect_mlflow_and_dvc_know_every_variable_that_is_set(tmp_path):
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", NAMES],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip().endswith("all known"), done.stderr


def test_settings_are_light_to_import():
    heavy = "{'mlflow', 'prefect', 'dvc', 'torch', 'pandas', 'great_expectations'}"
    code = f"import sys, tasks.settings; print(sorted({heavy} & set(sys.modules)))"
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True)
    assert done.stdout.decode().strip() == "[]"
