"""The seam: results under keys, reuse, resume after a real kill, the same bytes for shards and stream."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from priorline import api
from priorline.configs import get_config
from priorline.errors import CheckpointError, ShardError


@pytest.fixture(scope="module")
def quick(debug_overrides):
    """Overrides of a run of 12 steps."""
    changes = {
        "training.stages.0.steps": 8,
        "training.stages.0.datasets_per_step": 4,
        "training.stages.0.micro_batch_size": 2,
        "training.stages.0.group_size": 2,
        "training.stages.1.datasets_per_step": 4,
        "training.checkpoint_every_steps": 2,
        "training.validation_every_steps": 4,
    }
    return {**debug_overrides, **changes}


@pytest.fixture(scope="module")
def shards(quick, tmp_path_factory):
    config = get_config("tabicl-smoke", quick)
    folder = tmp_path_factory.mktemp("priors") / api.data_name(config)
    return config, api.generate(config, folder)


def train(config, data, work_dir, **options):
    return api.pretrain(
        config, work_dir=work_dir, priors_dir=data.directory, log_metrics=lambda metrics, step: None, **options
    )


def test_generating_twice_does_nothing_the_second_time(shards):
    config, data = shards
    assert not data.reused
    again = api.generate(config, data.directory)
    assert again.reused
    assert again.data_hash == data.data_hash


def test_only_what_fixes_the_bytes_names_the_folder(quick):
    name = api.data_name(get_config("tabicl-smoke", quick))
    same = {"training.stages.0.learning_rate": 1e-4, "evaluation.num_splits": 3, "model.embed_dim": 32}
    for path, value in same.items():
        assert api.data_name(get_config("tabicl-smoke", {**quick, path: value})) == name, path
    other = {"seed": 1, "prior.max_columns": 6, "training.stages.0.rows.0.high": 50, "data.batches_per_shard": 7}
    for path, value in other.items():
        assert api.data_name(get_config("tabicl-smoke", {**quick, path: value})) != name, path


def test_finished_weights_are_reused_and_evaluation_does_not_change_them(shards, quick, tmp_path):
    config, data = shards
    first = train(config, data, tmp_path)
    assert not first.reused
    assert train(config, data, tmp_path).reused
    judged = get_config("tabicl-smoke", {**quick, "evaluation.num_members": 7})
    assert api.pretrain_name(judged, data.data_hash) == api.pretrain_name(config, data.data_hash)


def test_shards_and_stream_train_the_same_weights(shards, quick, tmp_path):
    config, data = shards
    from_shards = train(config, data, tmp_path / "shards")
    streaming = get_config("tabicl-smoke", {**quick, "data.source": "stream"})
    from_stream = train(streaming, data, tmp_path / "stream", num_workers=1)
    assert from_shards.weights_hash == from_stream.weights_hash


def test_should_stop_ends_early_and_the_next_call_finishes_the_same(shards, tmp_path):
    config, data = shards
    whole = train(config, data, tmp_path / "whole")
    stopped = train(config, data, tmp_path / "parts", should_stop=lambda: True)
    assert stopped.stopped_early
    assert not stopped.weights.exists()
    rest = train(config, data, tmp_path / "parts")
    assert rest.resumed_from == 1
    assert rest.weights_hash == whole.weights_hash


def test_another_data_set_does_not_resume(shards, quick, tmp_path):
    config, data = shards
    train(config, data, tmp_path, should_stop=lambda: True)
    other = get_config("tabicl-smoke", {**quick, "training.stages.0.learning_rate": 1e-3})
    with pytest.raises(CheckpointError, match="training changed"):
        train(other, data, tmp_path)


def test_missing_shards_say_what_to_do(quick, tmp_path):
    with pytest.raises(ShardError, match="priors generate"):
        api.read_data_hash(tmp_path)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from flows.cli import main; main()", *arguments]


def test_kill_nine_then_the_same_command_ends_on_the_weights_of_an_unbroken_run(quick, tmp_path):
    """The command line, killed by the system while it trains, and run again."""
    sets = [part for path, value in quick.items() for part in ("--set", f"{path}={json.dumps(value)}")]
    sets += ["--set", "training.stages.0.steps=60"]
    common = ["--config", "tabicl-smoke", *sets, "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    priors = ["--out", str(tmp_path / "priors")]
    subprocess.run(command("priors", "generate", *common, *priors), check=True, env=environment, capture_output=True)

    def pretrain(folder: str) -> list[str]:
        return command("pretrain", *common, "--priors", str(tmp_path / "priors"), "--out", str(tmp_path / folder))

    whole = subprocess.run(pretrain("whole"), check=True, env=environment, capture_output=True, text=True)
    victim = subprocess.Popen(pretrain("killed"), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list((tmp_path / "killed").glob("*/checkpoints/step-*")):
        assert time.monotonic() < deadline, "no checkpoint was written"
        assert victim.poll() is None, "training ended before it could be killed"
        time.sleep(0.02)
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    assert not list((tmp_path / "killed").glob("*/weights"))
    rest = subprocess.run(pretrain("killed"), check=True, env=environment, capture_output=True, text=True)
    resumed, unbroken = json.loads(rest.stdout), json.loads(whole.stdout)
    assert resumed["resumed_from"] >= 2
    assert resumed["weights_hash"] == unbroken["weights_hash"]
    weights = [Path(answer["weights"]) / "model.safetensors" for answer in (resumed, unbroken)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
