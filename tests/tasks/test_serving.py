"""The served model: what `mlflow.pyfunc` loads from the registry and answers, through real MLflow."""

import mlflow
import numpy as np
import pandas as pd
import pytest
from tests.tasks.conftest import judged, pretrained

from tasks.registry import apply_decision


@pytest.fixture
def model(served):
    return served[0]


def table(labels: list) -> pd.DataFrame:
    """Two columns of mixed type and ``y``; the last two labels are missing."""
    count = len(labels) + 2
    return pd.DataFrame(
        {
            "size": np.linspace(0.0, 1.0, count),
            "shade": ["light", "dark"] * (count // 2),
            "y": [*labels, None, None],
        }
    )


def test_rows_without_a_target_are_predicted_from_the_others(model):
    answer = model.predict(table(["no", "yes"] * 5), params={"target": "y"})
    assert list(answer.columns) == ["row", "prediction", "probability_no", "probability_yes"]
    assert answer["row"].tolist() == [10, 11]
    assert set(answer["prediction"]) <= {"no", "yes"}
    np.testing.assert_allclose(answer[["probability_no", "probability_yes"]].sum(axis=1), 1.0, atol=1e-6)


def test_rows_are_counted_by_position_whatever_the_index(model):
    frame = table(["no", "yes"] * 5)
    shuffled = frame.iloc[[11, 0, 1, 2, 3, 4, 10, 5, 6, 7, 8, 9]]
    assert model.predict(shuffled, params={"target": "y"})["row"].tolist() == [0, 6]
    frame.index = [7] * len(frame)
    assert model.predict(frame, params={"target": "y"})["row"].tolist() == [10, 11]


def test_the_default_target_is_called_target(model):
    frame = table(["no", "yes"] * 5)
    expected = model.predict(frame, params={"target": "y"})
    pd.testing.assert_frame_equal(model.predict(frame.rename(columns={"y": "target"})), expected)


def test_the_estimator_itself_gives_the_same_probabilities(model, make_weights):
    from priorline import TabICLClassifier

    frame = table(["no", "yes"] * 5)
    known, asked = frame.iloc[:10], frame.iloc[10:]
    estimator = TabICLClassifier(weights=make_weights(0)).fit(known.drop(columns="y"), known["y"])
    expected = estimator.predict_proba(asked.drop(columns="y"))
    answer = model.predict(frame, params={"target": "y"})
    np.testing.assert_array_equal(answer[["probability_no", "probability_yes"]].to_numpy(), expected)


@pytest.mark.parametrize(
    ("labels", "kind"),
    [([0, 1] * 5, int), ([True, False] * 5, bool), (["0", "1"] * 5, str), (["n/a ", "ok"] * 5, str)],
)
def test_labels_keep_their_type_although_some_are_missing(model, labels, kind):
    answer = model.predict(table(labels), params={"target": "y"})
    assert all(isinstance(label, kind) for label in answer["prediction"].tolist())
    assert {f"probability_{label}" for label in labels} < set(answer.columns)


def test_blank_text_counts_as_missing(model):
    frame = table(["no", "yes"] * 5)
    expected = model.predict(frame, params={"target": "y"})
    frame.loc[10, "y"], frame.loc[11, "y"] = "", "  "
    pd.testing.assert_frame_equal(model.predict(frame, params={"target": "y"}), expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop(columns="y"), "is not a column"),
        (lambda frame: frame.assign(y="no"), "it is empty in 0 of 12"),
        (lambda frame: frame.assign(y=None), "it is empty in 12 of 12"),
        (lambda frame: frame.iloc[:0], "it is empty in 0 of 0"),
        (lambda frame: pd.concat([frame, frame[["y"]]], axis=1), "not just one"),
        (lambda frame: frame.to_numpy(), "table with named columns"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_with_the_reason(model, change, message):
    # MLflow loads the stored script as a module of its own, whose InputError is still the library's.
    from priorline.errors import InputError

    with pytest.raises(InputError, match=message):
        model.predict(change(table(["no", "yes"] * 5)), params={"target": "y"})


def test_a_version_holds_weights_and_code_and_nothing_that_is_unpickled(served):
    folder = served[1]
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    environment = {"MLmodel", "conda.yaml", "python_env.yaml", "requirements.txt", "registered_model_meta"}
    weights = {"artifacts/weights/config.json", "artifacts/weights/model.safetensors"}
    assert files - environment == weights | {"pyfunc_model.py"}
    assert "priorline==" in (folder / "requirements.txt").read_text()


def test_an_imputer_fills_the_table_that_it_is_given(store, random_limix, tmp_path):
    decision = {"promote": True, "winner": "m0", "challenger": None, "reason": "a test says so"}
    apply_decision.fn("imputation", decision, [pretrained(0, random_limix)], judged("first", tmp_path / "evaluation"))
    model = mlflow.pyfunc.load_model("models:/priorline-imputer@champion")
    frame = pd.DataFrame(
        {"size": [*np.linspace(0.0, 1.0, 19), np.nan], "shade": [None, *(["light"] * 9), *["dark"] * 10]}
    )
    filled = model.predict(frame)
    assert not filled.isna().any(axis=None)
    for name in frame:
        known = frame[name].notna()
        pd.testing.assert_series_equal(filled.loc[known, name], frame.loc[known, name])
