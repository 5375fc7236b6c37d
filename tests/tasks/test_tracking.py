"""Runs in a real MLflow store: found again by their key, metrics that wait for a store that is away."""

import math
import threading

import pytest
from mlflow.exceptions import MlflowException

from priorline.configs import get_config
from priorline.errors import PriorlineError
from tasks import tracking
from tasks.tracking import EXPERIMENT, RunWriter, connect, flatten, open_run


def opened(key: str = "key", **changes):
    options = {"run_key": key, "run_name": "tiny", "params": {"a": {"b": 1}}, "tags": {"dvc.data_md5": "1.dir"}}
    return open_run(**{**options, **changes})


@pytest.fixture
def in_git(store, run_git):
    (store.root / ".gitignore").write_text("/.priorline/\n")
    (store.root / "data.dvc").write_text("outs: []\n")
    run_git(store.root, "init", "-q")
    run_git(store.root, "add", "-A")
    run_git(store.root, "commit", "-qm", "start")


def test_a_run_holds_params_metrics_tags_and_its_dataset(store, in_git, run_git):
    digest = "f8f61a44e72def2b21d627cc77c95f7b.dir"
    with opened(dataset_dir=store.root, dataset_digest=digest) as writer:
        for step in range(3):
            writer.log_metrics({"loss": 1.0 / (step + 1)}, step)
    client = connect()
    run = client.get_run(writer.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.params == {"a.b": "1"}
    assert run.data.tags["git.commit"] == run_git(store.root, "rev-parse", "HEAD").strip()
    assert run.data.tags["git.dirty"] == "false"
    assert run.data.tags["dvc.data_md5"] == "1.dir"
    assert run.inputs.dataset_inputs[0].dataset.digest == digest
    assert [metric.step for metric in client.get_metric_history(writer.run_id, "loss")] == [0, 1, 2]
    assert run.info.artifact_uri.startswith(f"file://{store.artifact_root}")


def test_changed_code_makes_a_run_dirty_and_a_new_data_version_does_not(store, in_git):
    (store.root / "data.dvc").write_text("outs: [1]\n")
    assert tracking.source_tags(store.root)["git.dirty"] == "false"
    (store.root / "mlflow" / "pyfunc_model.py").write_text("changed = True\n")
    assert tracking.source_tags(store.root)["git.dirty"] == "true"


def test_outside_git_a_run_has_no_commit(tmp_path):
    assert "git.commit" not in tracking.source_tags(tmp_path)


def test_the_same_key_is_the_same_run_and_another_key_another(store):
    with opened() as first:
        first.log_metrics({"loss": 1.0}, 0)
    with opened() as second:
        second.log_metrics({"loss": 0.5}, 1)
    with opened("other") as other:
        pass
    assert second.run_id == first.run_id != other.run_id
    history = connect().get_metric_history(first.run_id, "loss")
    assert [(metric.step, metric.value) for metric in history] == [(0, 1.0), (1, 0.5)]


def test_an_error_ends_the_run_as_failed_and_the_next_call_takes_it_up(store):
    with pytest.raises(KeyboardInterrupt), opened() as first:
        raise KeyboardInterrupt
    client = connect()
    assert client.get_run(first.run_id).info.status == "FAILED"
    with opened() as second:
        assert client.get_run(first.run_id).info.status == "RUNNING"
    assert second.run_id == first.run_id
    assert client.get_run(first.run_id).info.status == "FINISHED"


def test_a_run_killed_before_it_was_described_is_completed(store):
    client = connect()
    place = tracking.experiment_id(client, store.artifact_root)
    killed = client.create_run(place, tags={tracking.RUN_KEY: "key"}).info.run_id
    client.log_param(killed, "a.b", "1")
    with opened(params={"a": {"b": 1, "c": 2}}, dataset_dir=store.root, dataset_digest="x") as writer:
        pass
    run = client.get_run(killed)
    assert writer.run_id == killed
    assert run.data.params == {"a.b": "1", "a.c": "2"}
    assert len(run.inputs.dataset_inputs) == 1


@pytest.mark.parametrize("name", ["tabicl-smoke", "tabicl-v1"])
def test_every_value_of_a_configuration_becomes_a_param(store, name):
    config = get_config(name, {}).model_dump(mode="json")
    with opened(params=config) as writer:
        pass
    assert connect().get_run(writer.run_id).data.params == flatten(config)


def test_flatten_names_nested_values_and_cuts_long_ones():
    flat = flatten({"a": {"b": [1, 2]}, "c": [{"d": None}], "e": "x" * 9000})
    assert flat["a.b"] == "[1, 2]"
    assert flat["c.0.d"] == "None"
    assert len(flat["e"]) == tracking.MAX_VALUE_LENGTH


def test_a_loss_that_is_no_number_does_not_stop_the_run(store):
    with opened() as writer:
        writer.log_metrics({"loss": math.nan}, 0)
        writer.log_metrics({"loss": 2.0}, 1)
    assert [metric.step for metric in connect().get_metric_history(writer.run_id, "loss")] == [0, 1]


def test_a_deleted_experiment_says_how_to_bring_it_back(store):
    with opened():
        pass
    client = connect()
    client.delete_experiment(client.get_experiment_by_name(EXPERIMENT).experiment_id)
    with pytest.raises(PriorlineError, match="mlflow experiments restore"), opened():
        pass


class AwayStore:
    """Stands for an MLflow server: takes batches, and fails at the calls named in ``failing``."""

    def __init__(self, failing: set[int]) -> None:
        self.failing = failing
        self.calls = 0
        self.taken: list[int] = []

    def log_batch(self, run_id: str, metrics: list) -> None:
        assert len(metrics) <= tracking.MAX_METRICS_PER_REQUEST
        self.calls += 1
        if self.calls in self.failing:
            raise MlflowException("connection refused")
        self.taken += [metric.step for metric in metrics]


def test_metrics_of_a_store_that_comes_back_arrive_once_and_in_order(store, monkeypatch):
    monkeypatch.setattr(tracking.time, "sleep", lambda seconds: None)
    away = AwayStore(failing={2, 3})
    writer = RunWriter(away, "run")  # type: ignore[arg-type]
    for step in range(2500):
        writer.log_metrics({"loss": 0.0}, step)
    assert writer.flush() is False
    writer.close()
    assert away.taken == list(range(2500))


def test_a_store_that_stays_away_loses_metrics_and_not_the_training(store, monkeypatch, caplog):
    monkeypatch.setattr(tracking.time, "sleep", lambda seconds: None)
    writer = RunWriter(AwayStore(failing=set(range(100))), "run")  # type: ignore[arg-type]
    writer.log_metrics({"loss": 0.0}, 0)
    writer.close()
    assert "1 metrics of run run are lost" in caplog.text


def test_training_does_not_wait_for_a_store_that_hangs(store, monkeypatch):
    monkeypatch.setattr(tracking, "FLUSH_INTERVAL_S", 0.01)
    asked, answer = threading.Event(), threading.Event()

    class HangingStore:
        def log_batch(self, run_id: str, metrics: list) -> None:
            asked.set()
            answer.wait()

    writer = RunWriter(HangingStore(), "run")  # type: ignore[arg-type]
    writer.log_metrics({"loss": 0.0}, 0)
    assert asked.wait(30)
    writer.log_metrics({"loss": 0.0}, 1)  # would hang here if it were not the thread's request
    answer.set()
    writer.close()
    assert not writer._buffer
