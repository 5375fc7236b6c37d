"""The runner judges everyone on the same rows and leaves no failure out."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from priorline.errors import CheckpointError, InputError
from priorline.evaluation import suites
from priorline.evaluation.config import EvaluationConfig
from priorline.evaluation.metrics import METRICS
from priorline.evaluation.runner import COLUMNS, evaluate, read_rows, write_rows
from priorline.evaluation.suites import SuiteSpec
from priorline.evaluation.summary import summarize
from priorline.evaluation.tables import TABLES

CONFIG = EvaluationConfig(suite="two-tables", num_splits=2, max_train_rows=60, baselines=("linear", "majority"))


class FailsOnThreeClasses(GaussianNB):
    def fit(self, X: Any, y: Any) -> "FailsOnThreeClasses":
        if len(set(y)) == 3:
            raise RuntimeError("no room\nfor three")
        return super().fit(X, y)  # type: ignore[no-any-return]


class GivesNaN(GaussianNB):
    def predict_proba(self, X: Any) -> np.ndarray:
        return super().predict_proba(X) * np.nan  # type: ignore[no-any-return]


def load_by_name(weights: Path, problem_type: str, **params: Any) -> Any:
    assert problem_type == "classification"
    assert set(params) == {"num_members", "device", "random_state"}
    if weights.name == "corrupt":
        raise CheckpointError("checksum differs")
    classes = {"bayes": GaussianNB, "fails": FailsOnThreeClasses, "nan": GivesNaN}
    if weights.name == "logistic":
        return make_pipeline(StandardScaler(), LogisticRegression())
    return classes[weights.name]()


@pytest.fixture(autouse=True)
def _two_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = SuiteSpec(
        name="two-tables",
        problem_type="classification",
        tables=(TABLES["wine"], TABLES["breast_cancer"]),
    )
    monkeypatch.setitem(suites.SUITES, suite.name, suite)


def run(*names: str, config: EvaluationConfig = CONFIG, **options: Any) -> pd.DataFrame:
    contenders = {name: Path(name) for name in names}
    return evaluate(contenders, config, load_estimator=load_by_name, **options)


def test_one_row_per_table_split_contender_and_metric() -> None:
    rows = run("bayes", "logistic")
    assert list(rows.columns) == list(COLUMNS)
    assert len(rows) == 2 * 2 * 4 * len(METRICS["classification"])
    assert not rows.duplicated(["table", "split", "contender", "metric"]).any()
    assert rows["value"].notna().all()
    assert (rows["error"] == "").all()
    assert (rows["train_rows"] == 60).all()
    assert rows["suite_hash"].nunique() == 1
    assert (rows[["fit_s", "predict_s", "cpu_s"]] >= 0).all(axis=None)
    scores = rows[rows["metric"] == "roc_auc"].groupby("contender")["value"].mean()
    assert scores["majority"] == 0.5
    assert scores[["bayes", "logistic", "linear"]].min() > 0.95


def test_equal_calls_give_equal_values_and_do_not_depend_on_who_else_runs() -> None:
    first, alone = run("bayes", "logistic"), run("logistic")
    keys = ["table", "split", "metric"]
    a, b = (rows[rows["contender"] == "logistic"].set_index(keys)["value"].sort_index() for rows in (first, alone))
    pd.testing.assert_series_equal(a, b, check_exact=True)


def test_a_failure_is_a_row_with_its_text_and_ranks_last() -> None:
    rows = run("fails", "bayes")
    failed = rows[rows["error"] != ""]
    assert set(failed["contender"]) == {"fails"}
    assert set(failed["table"]) == {"wine"}
    assert len(failed) == 2 * len(METRICS["classification"])
    assert set(failed["error"]) == {"RuntimeError: no room for three"}
    assert failed["value"].isna().all()
    summary = summarize(rows).contenders.set_index(["contender", "metric"])
    assert summary.loc[("fails", "roc_auc"), "failures"] == 2
    # Last of four on wine, level with bayes on the other table.
    assert summary.loc[("fails", "roc_auc"), "mean_rank"] > summary.loc[("bayes", "roc_auc"), "mean_rank"]
    assert summary.loc[("fails", "log_loss"), "mean"] > summary.loc[("majority", "log_loss"), "mean"]


def test_values_that_are_no_probabilities_are_a_failure() -> None:
    rows = run("nan")
    failed = rows[rows["contender"] == "nan"]
    assert failed["value"].isna().all()
    assert failed["error"].str.startswith("InputError: predict_proba gave values").all()


def test_corrupt_weights_stop_the_evaluation() -> None:
    with pytest.raises(CheckpointError, match="checksum"):
        run("corrupt")


def test_progress_counts_every_fit() -> None:
    seen: list[tuple[int, int]] = []
    run("bayes", on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(number, 12) for number in range(1, 13)]


def test_callers_mistakes_are_told() -> None:
    with pytest.raises(InputError, match="names of baselines"):
        run("linear")
    with pytest.raises(InputError, match="did you mean 'majority'"):
        run(config=CONFIG.model_copy(update={"baselines": ("majorty",)}))
    with pytest.raises(InputError, match="is for classification, got problem_type='regression'"):
        run(problem_type="regression")


def test_classes_missing_from_the_training_rows_are_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = SuiteSpec(name="leaves", problem_type="classification", tables=(TABLES["leaf_species"],))
    monkeypatch.setitem(suites.SUITES, suite.name, suite)
    few = CONFIG.model_copy(update={"suite": "leaves", "num_splits": 1, "max_train_rows": 20})
    rows = run("logistic", config=few)
    assert (rows["error"] == "").all()
    assert (rows["num_classes"] == 32).all()
    assert (rows["train_rows"] == 20).all()
    scores = rows.set_index(["contender", "metric"])["value"]
    assert scores["majority", "roc_auc"] == 0.5
    assert 0.5 < scores["logistic", "roc_auc"] < 0.9


def test_rows_survive_parquet_unchanged(tmp_path: Path) -> None:
    rows = run("fails")
    path = tmp_path / "deep" / "rows.parquet"
    write_rows(rows, path)
    pd.testing.assert_frame_equal(read_rows(path), rows, check_dtype=False)
    assert [entry.name for entry in path.parent.iterdir()] == ["rows.parquet"]
    with pytest.raises(InputError, match=r"end the name in \.parquet"):
        write_rows(rows, tmp_path / "rows.csv")
    with pytest.raises(InputError, match="does not exist"):
        read_rows(tmp_path / "none.parquet")
    write_rows(rows.drop(columns="metric"), path)
    with pytest.raises(InputError, match=r"lacks the columns \['metric'\]"):
        read_rows(path)
