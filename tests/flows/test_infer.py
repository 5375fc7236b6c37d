"""What a data scientist's table goes through: gate, quarantine, predictions, exit codes."""

import json
from pathlib import Path

import pandas as pd
import pytest

from priorline.evaluation.suites import load_example

COLUMNS = ["row", "prediction", "probability_died", "probability_survived"]


@pytest.fixture(scope="module")
def titanic():
    return load_example("titanic")


@pytest.fixture
def tables(titanic, tmp_path):
    """Write context and query; returns a function that calls the command line on them."""
    context, query = titanic.context.head(150).copy(), titanic.query.head(20).copy()
    context.to_csv(tmp_path / "context.csv", index=False)
    return context, query


@pytest.fixture
def predict(random_weights, tmp_path, prefect_server, monkeypatch, capsys):
    """Return a function: query file in, (exit code, JSON answer, folder) out."""
    monkeypatch.setenv("PRIORLINE_ROOT", str(tmp_path / "project"))
    monkeypatch.setenv("PRIORLINE_HOME", str(tmp_path / "home"))
    from flows.cli import app
    from priorline.cli import run_app

    def call(
        query: Path,
        context: Path | None = None,
        target: str = "survived",
        out: str = "out.csv",
        weights: Path | None = random_weights,
        problem: str | None = None,
    ):
        arguments = ["predict", "--context", str(context or tmp_path / "context.csv"), "--target", target]
        arguments += ["--query", str(query), "--out", str(tmp_path / out), "--json"]
        arguments += ["--weights", str(weights)] if weights else []
        arguments += ["--problem-type", problem] if problem else []
        capsys.readouterr()
        code = run_app(app, arguments)
        return code, json.loads(capsys.readouterr().out)

    return call


def written(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_file()} - {"context.csv", "query.csv"}


def test_predictions_keep_the_order_of_the_query(tables, predict, tmp_path):
    _, query = tables
    query.to_csv(tmp_path / "query.csv", index=False)
    code, answer = predict(tmp_path / "query.csv")
    assert code == 0
    predictions = pd.read_csv(tmp_path / "out.csv")
    assert predictions["row"].tolist() == list(range(20))
    assert list(predictions.columns) == COLUMNS
    assert set(predictions["prediction"]) <= {"died", "survived"}
    assert (predictions.filter(like="probability").sum(axis=1) - 1).abs().max() < 1e-6
    assert answer["rows"] == 20
    assert Path(answer["gate_report"]).exists()
    assert written(tmp_path) == {"out.csv"}


def test_parquet_in_and_out(tables, predict, tmp_path):
    context, query = tables
    context.to_parquet(tmp_path / "context.parquet")
    query.to_parquet(tmp_path / "query.parquet")
    code, _ = predict(tmp_path / "query.parquet", tmp_path / "context.parquet", out="out.parquet")
    assert code == 0
    assert len(pd.read_parquet(tmp_path / "out.parquet")) == 20


def test_unseen_category_and_a_text_age_go_to_quarantine_with_reasons(tables, predict, tmp_path):
    _, query = tables
    query["sex"] = query["sex"].astype(object)
    query["age"] = query["age"].astype(object)
    query.loc[query.index[3], "sex"] = "femal"
    query.loc[query.index[5], "age"] = "twenty"
    query.to_csv(tmp_path / "query.csv", index=False)
    code, answer = predict(tmp_path / "query.csv")
    assert code == 0
    assert pd.read_csv(tmp_path / "out.csv")["row"].tolist() == [row for row in range(20) if row not in (3, 5)]
    held = pd.read_csv(answer["quarantined"]["query"]["file"])
    assert held["row"].tolist() == [3, 5]
    assert "did you mean 'female'" in held["reasons"][0]
    assert "twenty" in held["reasons"][1]


def test_a_renamed_column_rejects_the_batch_and_predicts_nothing(tables, predict, tmp_path):
    _, query = tables
    query.rename(columns={"age": "Age"}).to_csv(tmp_path / "query.csv", index=False)
    code, answer = predict(tmp_path / "query.csv")
    assert code == 3
    assert "renamed to 'Age'" in answer["error"]["message"]
    assert "out.csv" not in written(tmp_path)


def test_a_column_of_text_ages_rejects_the_batch(tables, predict, tmp_path):
    _, query = tables
    query["age"] = "unknown age"
    query.to_csv(tmp_path / "query.csv", index=False)
    code, answer = predict(tmp_path / "query.csv")
    assert code == 3
    assert "'age' is numeric in the context" in answer["error"]["message"]
    assert "out.csv" not in written(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "empty"), (b"\x00\x01\x02\xff" * 50, "query.csv"), (b"a,b\n1\n1,2,3\n", "query.csv")],
)
def test_a_file_that_is_no_table_is_bad_input(tables, predict, tmp_path, content, message):
    (tmp_path / "query.csv").write_bytes(content)
    code, answer = predict(tmp_path / "query.csv")
    assert code == 2
    assert message in answer["error"]["message"]
    assert written(tmp_path) == set()


def test_missing_file_and_target_are_bad_input(tables, predict, tmp_path):
    code, answer = predict(tmp_path / "nowhere.csv")
    assert (code, "nowhere.csv" in answer["error"]["message"]) == (2, True)
    tables[1].to_csv(tmp_path / "query.csv", index=False)
    code, answer = predict(tmp_path / "query.csv", target="Survived")
    assert code == 2
    assert "survived" in answer["error"]["message"]


@pytest.mark.parametrize("encoding", ["utf-16", "cp1252", "utf-8-sig"])
def test_another_encoding_and_separator_are_found(titanic, predict, tmp_path, encoding):
    context, query = titanic.context.head(150).copy(), titanic.query.head(20).copy()
    for frame in (context, query):
        frame["sex"] = frame["sex"].astype(object).replace({"male": "m\u00e4nnlich", "female": "weiblich"})
    context.to_csv(tmp_path / "context.csv", index=False, encoding=encoding, sep=";", decimal=",")
    query.to_csv(tmp_path / "query.csv", index=False, encoding=encoding, sep=";", decimal=",")
    code, answer = predict(tmp_path / "query.csv")
    assert code == 0, answer
    assert len(pd.read_csv(tmp_path / "out.csv")) == 20


def test_rows_without_a_label_leave_the_context_with_a_reason(tables, predict, tmp_path):
    context, query = tables
    context.loc[[2, 7], "survived"] = None
    context.to_csv(tmp_path / "context.csv", index=False)
    query.to_csv(tmp_path / "query.csv", index=False)
    code, answer = predict(tmp_path / "query.csv")
    assert code == 0
    held = pd.read_csv(answer["quarantined"]["context"]["file"])
    assert held["row"].tolist() == [2, 7]
    assert list(pd.read_csv(tmp_path / "out.csv").columns) == COLUMNS


def test_the_output_never_overwrites_an_input(tables, predict, tmp_path):
    tables[1].to_csv(tmp_path / "query.csv", index=False)
    before = (tmp_path / "query.csv").read_bytes()
    code, _ = predict(tmp_path / "query.csv", out="query.csv")
    assert code == 2
    assert (tmp_path / "query.csv").read_bytes() == before


def test_a_regressor_predicts_numbers_with_an_interval(predict, random_regressor, tmp_path):
    context = pd.DataFrame({"size": range(60), "colour": ["red", "blue", "green"] * 20})
    context["price"] = 10.5 + 2.25 * context["size"]
    context.head(50).to_csv(tmp_path / "context.csv", index=False)
    context.tail(10).drop(columns="price").to_csv(tmp_path / "query.csv", index=False)
    code, answer = predict(tmp_path / "query.csv", target="price", weights=random_regressor)
    assert code == 0, answer
    predictions = pd.read_csv(tmp_path / "out.csv")
    assert list(predictions.columns) == ["row", "prediction", "quantile_0.1", "quantile_0.5", "quantile_0.9"]
    assert (predictions["quantile_0.1"] <= predictions["quantile_0.9"]).all()
    assert predictions.notna().all(axis=None)
    code, answer = predict(tmp_path / "query.csv", target="price", weights=random_regressor, problem="classification")
    assert code == 2
    assert "serve regression, not 'classification'" in answer["error"]["message"]


def test_fractions_ask_for_a_regressor_and_whole_numbers_for_a_classifier(tables, predict, tmp_path):
    context, query = tables
    context.tail(10).to_csv(tmp_path / "known.csv", index=False)
    query.to_csv(tmp_path / "query.csv", index=False)
    code, answer = predict(tmp_path / "known.csv", target="age", weights=None)
    assert code != 0
    assert "priorline-regressor has no champion yet" in answer["error"]["message"]
    code, answer = predict(tmp_path / "query.csv", target="survived", weights=None)
    assert "priorline-classifier has no champion yet" in answer["error"]["message"]
