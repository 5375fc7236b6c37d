"""The command line as a machine sees it: JSON alone on standard output, exit codes, help."""

import json
import subprocess
import sys

import pytest

from flows.cli import app
from priorline.cli import run_app

MAIN = "from flows.cli import main; main()"


def call(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", MAIN, *arguments], capture_output=True, text=True, timeout=300, check=False, **options
    )


def test_help_names_every_verb_and_the_exit_codes():
    answer = call("--help")
    assert answer.returncode == 0
    for verb in ("run", "predict", "registry", "config", "priors", "pretrain", "evaluate", "3 rejected"):
        assert verb in answer.stdout


def test_config_list_and_show_are_json():
    names = json.loads(call("config", "list", "--json").stdout)
    assert {"smoke", "tabicl-v1", "tabicl-small"} <= set(names)
    runs = json.loads(call("config", "show", "smoke", "--set", "seed=7", "--json").stdout)
    assert runs[0]["seed"] == 7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["config", "show", "smok"], "did you mean"),
        (["config", "show", "smoke", "--set", "training.max_step=1"], "did you mean 'max_steps'"),
        (["pretrain"], "no configuration given"),
        (["pretrain", "--params", "params.yaml"], "'nowhere'"),
        (["evaluate", "nonsense", "--config", "smoke"], "NAME=DIR"),
    ],
)
def test_usage_faults_exit_with_two_and_say_what_to_do(arguments, message, tmp_path, monkeypatch, capsys):
    (tmp_path / "params.yaml").write_text("config: nowhere\nset: {seed: 1}\n")
    monkeypatch.chdir(tmp_path)
    assert run_app(app, [*arguments, "--json"]) == 2
    printed = capsys.readouterr()
    assert message in json.loads(printed.out)["error"]["message"]
    assert message in " ".join(printed.err.split())


def test_an_unknown_option_is_a_usage_fault():
    assert call("run", "--nonsense").returncode == 2


def test_an_empty_registry_says_so(tmp_path):
    environment = {"PRIORLINE_ROOT": str(tmp_path), "PATH": "/usr/bin:/bin"}
    listed = call("registry", "list", "--json", env=environment, cwd=tmp_path)
    assert json.loads(listed.stdout) == []
    shown = call("registry", "show", "classifier", "--json", env=environment, cwd=tmp_path)
    assert shown.returncode == 1
    assert "priorline run" in json.loads(shown.stdout)["error"]["message"]
