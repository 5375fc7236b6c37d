"""An official checkpoint becomes a candidate like any trained model: judged, registered, traced, served."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from tests.tiny_tabicl import write_official


@pytest.fixture
def official(tmp_path) -> Path:
    return write_official(tmp_path / "tabicl-classifier-v1.ckpt")


@pytest.fixture
def command(prefect_server, tmp_path, monkeypatch, capsys):
    """Return a function: arguments of ``priorline import-checkpoint`` in, (exit code, JSON answer) out."""
    root = tmp_path / "project"
    shutil.copytree(Path(__file__).parents[2] / "mlflow", root / "mlflow")
    monkeypatch.setenv("PRIORLINE_ROOT", str(root))
    monkeypatch.setenv("PRIORLINE_HOME", str(root / ".priorline"))
    for name in ["MLFLOW_TRACKING_URI", "PRIORLINE_ARTIFACT_ROOT"]:
        monkeypatch.delenv(name, raising=False)
    from flows.cli import app
    from priorline.cli import run_app

    def call(*arguments: str):
        capsys.readouterr()
        code = run_app(app, ["import-checkpoint", *map(str, arguments), "--json"])
        return code, json.loads(capsys.readouterr().out)

    return call


SMALL = [
    "evaluation.suite=classification-smoke",
    "evaluation.num_splits=1",
    "evaluation.max_train_rows=60",
    "evaluation.max_test_rows=60",
    "evaluation.num_members=1",
]


def test_an_imported_checkpoint_is_judged_and_traced_like_a_trained_one(official, command):
    arguments = ["tabicl", official, "--name", "official-v1", *(part for item in SMALL for part in ("--set", item))]
    code, answer = command(*arguments)
    assert code == 0, answer
    imported, (judged,) = answer["imported"], answer["judged"]
    assert imported["source_sha256"] == hashlib.sha256(official.read_bytes()).hexdigest()
    assert judged["problem_type"] == "classification"
    assert judged["decision"]["reason"]
    assert judged["evaluation"]["contenders"] == {"official-v1": imported["weights_hash"]}
    from tasks.tracking import connect

    tags = connect().get_run(imported["mlflow_run_id"]).data.tags
    assert tags["priorline.source_file"] == official.name
    assert tags["priorline.source_sha256"] == imported["source_sha256"]
    assert "BSD 3-Clause" in tags["priorline.source_note"]
    # The same file again: found, not made, the same decision.
    code, again = command(*arguments)
    assert (code, again["imported"]["reused"], again["judged"][0]["evaluation"]["reused"]) == (0, True, True)


def test_a_file_that_is_no_checkpoint_leaves_nothing_behind(command, tmp_path):
    hostile = tmp_path / "hostile.ckpt"
    torch.save({"config": {}, "state_dict": os.getcwd}, hostile)
    code, answer = command("tabicl", hostile)
    assert code == 1
    assert "refused, nothing of it was run" in answer["error"]["message"]
    assert not list((tmp_path / "project" / ".priorline").glob("runs/*"))
    code, answer = command("tabicl", tmp_path / "absent.ckpt")
    assert "cannot be read" in answer["error"]["message"]
    code, answer = command("tabpfn", hostile)
    assert "no checkpoints of kind 'tabpfn' can be imported" in answer["error"]["message"]


def test_weights_alone_need_no_registry(official, command, tmp_path):
    code, _ = command("tabicl", official, "--out", tmp_path / "weights")
    assert code == 0
    assert (tmp_path / "weights" / "model.safetensors").exists()
    assert not (tmp_path / "project" / ".priorline").exists()
