"""The registry in a real MLflow store: versions, lineage, and aliases that never leave readers alone."""

import getpass
import threading
from pathlib import Path

import mlflow
import pandas as pd
import pytest
from mlflow import MlflowClient

from priorline.errors import ConfigError, RegistryError
from tasks import registry
from tasks.registry import champion_contender, fetch_champion, list_models, rollback, show

NAME = "priorline-classifier"


def aliases() -> dict[str, str]:
    return show("classifier")["aliases"]


def tags(version: str) -> dict[str, str]:
    return next(found["lineage"] for found in show(NAME)["versions"] if found["version"] == version)


def test_the_first_decision_names_champion_and_challenger(candidate, decide):
    result = decide("m0", "m1", [candidate(0), candidate(1)], "first")
    assert (result["champion_version"], result["challenger_version"]) == ("1", "2")
    assert result["previous_version"] is None
    assert aliases() == {"champion": "1", "challenger": "2"}
    assert [found["aliases"] for found in show(NAME)["versions"]] == [["challenger"], ["champion"]]
    assert list_models() == [{"name": NAME, "versions": 2, "aliases": aliases()}]


def test_lineage_names_data_config_run_evaluation_and_reason(candidate, decide):
    model = candidate(0)
    decide("m0", None, [model], "first")
    lineage = tags("1")
    assert lineage["priorline.weights_hash"] == model["weights_hash"]
    assert lineage["dvc.data_md5"] == "1.dir"
    assert lineage["priorline.data_hash"] == "data-0"
    assert (lineage["priorline.config"], lineage["priorline.config_hash"]) == ("m0", "config-0")
    assert lineage["mlflow.run_id"] == model["mlflow_run_id"]
    assert lineage["priorline.promotion_reason"] == lineage["priorline.decision"] == "because of first"
    assert lineage["priorline.promoted_by"] == getpass.getuser()
    assert lineage["priorline.promoted_at"]
    rows = pd.read_parquet(mlflow.artifacts.download_artifacts(lineage["priorline.evaluation_rows"]))
    assert rows["evaluation"].tolist() == ["first"]


def test_the_same_decision_twice_changes_nothing(candidate, decide):
    models = [candidate(0), candidate(1)]
    decide("m0", None, models, "first")
    decide("m1", None, models, "second")
    before = show(NAME)
    decide("m1", None, models, "second")
    assert show(NAME) == before
    assert aliases() == {"champion": "2", "previous": "1"}


def test_a_challenger_that_wins_later_points_at_the_evaluation_it_won(candidate, decide):
    models = [candidate(0), candidate(1)]
    decide("m0", "m1", models, "first")
    decide("m1", None, [models[1]], "second")
    assert aliases() == {"champion": "2", "previous": "1"}
    rows = pd.read_parquet(mlflow.artifacts.download_artifacts(tags("2")["priorline.evaluation_rows"]))
    assert rows["evaluation"].tolist() == ["second"]
    assert tags("2")["priorline.decision"] == "because of second"
    assert tags("1")["priorline.decision"] == "because of first"


def test_a_decision_for_nobody_registers_nothing(candidate, decide):
    result = decide(None, None, [candidate(0)], "first")
    assert result["champion_version"] is None
    assert list_models() == []


def test_rollback_changes_places_and_is_written_down(candidate, decide):
    models = [candidate(0), candidate(1)]
    decide("m0", None, models, "first")
    decide("m1", None, models, "second")
    result = rollback("classifier")
    assert (result["champion_version"], result["previous_version"]) == ("1", "2")
    assert aliases() == {"champion": "1", "previous": "2"}
    assert tags("2")["priorline.rolled_back_by"] == getpass.getuser()


def test_what_was_rolled_back_is_not_promoted_by_a_later_run_until_rolled_forward(candidate, decide):
    models = [candidate(0), candidate(1)]
    decide("m0", None, models, "first")
    decide("m1", None, models, "second")
    rollback("classifier")
    again = decide("m1", None, models, "third")
    assert aliases()["champion"] == "1"
    assert not again["promoted"]
    assert "version 2 was rolled back" in again["reason"]
    assert rollback("classifier")["champion_version"] == "2"
    assert "priorline.rolled_back_at" not in tags("2")


def test_rollback_without_a_previous_champion_is_refused(candidate, decide):
    decide("m0", None, [candidate(0)], "first")
    with pytest.raises(RegistryError, match="no previous champion"):
        rollback("classifier")
    assert aliases() == {"champion": "1"}


def test_a_reader_finds_a_champion_at_every_moment(candidate, decide):
    models = [candidate(0), candidate(1)]
    decide("m0", None, models, "first")
    decide("m1", None, models, "second")
    reader, done, missed, looks = MlflowClient(), threading.Event(), [], []

    def look() -> None:
        while not done.is_set():
            try:
                looks.append(reader.get_model_version_by_alias(NAME, "champion").version)
            except mlflow.exceptions.MlflowException as fault:
                missed.append(fault)

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(4):
        rollback("classifier")
    done.set()
    thread.join()
    assert looks
    assert missed == []


def test_without_a_champion_predicting_says_what_to_do(store):
    assert champion_contender.fn("classification", str(store.home)) is None
    with pytest.raises(RegistryError, match="priorline run"):
        fetch_champion.fn("classification", None, str(store.home))


def test_the_champions_weights_come_from_the_store_once(candidate, decide, store):
    model = candidate(0)
    decide("m0", None, [model], "first")
    found = fetch_champion.fn("classification", None, str(store.home))
    assert (found["name"], found["version"]) == (f"{NAME}-v1", "1")
    assert found["weights_hash"] == model["weights_hash"]
    weights = Path(found["weights"]) / "model.safetensors"
    assert weights.read_bytes() == (Path(model["weights"]) / "model.safetensors").read_bytes()
    made = weights.stat().st_mtime_ns
    assert fetch_champion.fn("classification", None, str(store.home)) == found
    assert weights.stat().st_mtime_ns == made


def test_a_killed_download_is_made_anew(candidate, decide, store):
    decide("m0", None, [candidate(0)], "first")
    folder = Path(fetch_champion.fn("classification", None, str(store.home))["weights"])
    (folder / "config.json").unlink()
    assert Path(fetch_champion.fn("classification", None, str(store.home))["weights"]) == folder
    assert (folder / "config.json").exists()
    assert [path.name for path in folder.parent.iterdir()] == ["weights"]


def test_named_weights_go_before_the_champion(candidate, store):
    model = candidate(0)
    found = fetch_champion.fn("classification", model["weights"], str(store.home))
    assert (found["weights"], found["version"]) == (model["weights"], None)


def test_an_unknown_model_is_named_with_the_known_ones(candidate, decide):
    decide("m0", None, [candidate(0)], "first")
    with pytest.raises(RegistryError, match="registered: priorline-classifier"):
        show("classifer")


def test_outside_a_checkout_registering_says_what_is_missing(candidate, decide, store):
    (store.root / "mlflow" / "pyfunc_model.py").unlink()
    with pytest.raises(ConfigError, match="PRIORLINE_ROOT"):
        decide("m0", None, [candidate(0)], "first")


def test_every_problem_type_has_a_registered_name():
    assert set(registry.MODEL_NAMES) == {"classification", "regression", "imputation", "forecasting"}
