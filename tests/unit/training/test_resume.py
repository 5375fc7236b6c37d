"""A run killed by SIGKILL and called again ends as an unbroken one, bit for bit."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import toy_training
from torch import nn
from toy_training import CASES, new_model, run, toy_config

from priorline.errors import CheckpointError


@pytest.fixture(autouse=True)
def _one_thread():
    """Sums in another order are other bits: all runs of this file use one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def assert_same_weights(model: nn.Module, other: nn.Module) -> None:
    state = other.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def kill(work_dir: Path, case: str, at: int) -> None:
    work_dir.mkdir(exist_ok=True)
    command = [sys.executable, toy_training.__file__, str(work_dir), case, str(at)]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == -signal.SIGKILL, finished.stderr


@pytest.mark.parametrize(
    ("case", "killed_at", "resumed_from"),
    [
        ("adamw", 5, 3),  # within a stage: step 4 was logged and is trained again
        ("muon", 7, 6),  # between the stages: the last checkpoint lies in the first
        ("muon, max_steps", 10, 9),  # within the second stage, on Muon's and AdamW's state, to a cut end
    ],
)
def test_killed_and_resumed_run_equals_an_unbroken_one(tmp_path: Path, case: str, killed_at: int, resumed_from: int):
    kill(tmp_path / "killed", case, killed_at)
    logged = [int(line) for line in (tmp_path / "killed" / "steps.txt").read_text().split()]
    resumed, unbroken = new_model(), new_model()
    result = run(resumed, CASES[case], tmp_path / "killed", log_metrics=lambda metrics, step: logged.append(step))
    wanted = run(unbroken, CASES[case], tmp_path / "unbroken")

    assert result.resumed_from == resumed_from
    assert_same_weights(resumed, unbroken)
    assert result.curve == wanted.curve
    assert (result.final_loss, result.validation_loss) == (wanted.final_loss, wanted.validation_loss)
    assert logged == [record["step"] for record in wanted.curve], "no step is logged twice or left out"


def test_every_stop_and_resume_together_equal_an_unbroken_run(tmp_path: Path):
    unbroken = new_model()
    run(unbroken, toy_config(), tmp_path / "unbroken")
    for call in range(12):
        resumed = new_model()
        result = run(resumed, toy_config(), tmp_path / "stopped", should_stop=lambda: True)
        assert result.steps == call + 1
        assert result.stopped_early == (call < 11), "the last step ends the run, it does not stop it"
    assert_same_weights(resumed, unbroken)


def test_corrupt_newest_checkpoint_falls_back_and_still_ends_the_same(tmp_path: Path):
    unbroken, resumed = new_model(), new_model()
    run(unbroken, toy_config(), tmp_path)
    newest = tmp_path / "checkpoints" / "step-00000012" / "trainer.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.warns(UserWarning, match=r"step-00000012/trainer\.safetensors is corrupt"):
        result = run(resumed, toy_config(), tmp_path)
    assert result.resumed_from == 9
    assert_same_weights(resumed, unbroken)


def test_complete_run_returns_at_once_with_its_weights(tmp_path: Path):
    first, second = new_model(), new_model(seed=1)
    wanted = run(first, toy_config(), tmp_path)

    def no_batches(start: int):
        raise AssertionError("nothing is left to train")

    result = run(second, toy_config(), tmp_path, batches=no_batches)
    assert_same_weights(second, first)
    assert result.resumed_from == result.steps == 12
    assert (result.curve, result.validation_loss) == (wanted.curve, wanted.validation_loss)


def test_resume_off_starts_anew(tmp_path: Path):
    first, second = new_model(), new_model()
    run(first, toy_config(), tmp_path)
    result = run(second, toy_config(), tmp_path, resume=False)
    assert result.resumed_from is None
    assert_same_weights(second, first)


def test_checkpoint_of_another_identity_is_refused_by_the_changed_key(tmp_path: Path):
    run(new_model(), toy_config(max_steps=3), tmp_path, identity={"data": "a", "seed": 1})
    with pytest.raises(CheckpointError, match="data changed"):
        run(new_model(), toy_config(max_steps=3), tmp_path, identity={"data": "b", "seed": 1})


def test_checkpoint_beyond_max_steps_is_refused(tmp_path: Path):
    run(new_model(), toy_config(max_steps=6), tmp_path)
    with pytest.raises(CheckpointError, match="step 6 of now 4"):
        run(new_model(), toy_config(max_steps=4), tmp_path)


def test_raising_max_steps_goes_on_to_the_weights_of_the_longer_run(tmp_path: Path):
    extended, unbroken = new_model(), new_model()
    run(new_model(), toy_config(max_steps=5), tmp_path / "extended")
    run(extended, toy_config(), tmp_path / "extended")
    run(unbroken, toy_config(), tmp_path / "unbroken")
    assert_same_weights(extended, unbroken)
