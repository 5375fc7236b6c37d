"""Drawn rows are judged by how well they pass for real and what can be learnt from them."""

from pathlib import Path
from typing import Any

import pandas as pd

from priorline.evaluation.config import EvaluationConfig
from priorline.evaluation.generation import RealRows
from priorline.evaluation.report import write_report
from priorline.evaluation.runner import evaluate
from priorline.evaluation.suites import load_suite

CONFIG = EvaluationConfig(suite="smoke", num_splits=1, max_train_rows=80, max_test_rows=60)


class ForgetsTheTarget(RealRows):
    def sample(self, n_samples: int) -> pd.DataFrame:
        return super().sample(n_samples).iloc[:, :-1]


def test_real_rows_pass_and_independent_columns_are_found_out(tmp_path: Path, random_limix: Path) -> None:
    def load(weights: Path, problem_type: str, **params: Any) -> Any:
        if weights.name == "forgets":
            return ForgetsTheTarget(params["random_state"])
        from priorline.inference.predictor import load_estimator

        return load_estimator(weights, problem_type, **params)

    contenders = {"forgets": Path("forgets"), "random": random_limix}
    rows = evaluate(contenders, CONFIG, problem_type="generation", load_estimator=load)
    assert set(rows["table"]) == {table.name for table in load_suite("generation-smoke").tables}
    assert set(rows.loc[rows["error"] != "", "contender"]) == {"forgets"}
    means = rows.groupby(["contender", "metric"])["value"].mean().unstack()
    assert means.loc["real_rows", "two_sample_auc"] < 0.65
    assert means.loc["independent", "two_sample_auc"] > 0.75
    assert abs(means.loc["real_rows", "utility_gap"]) < 0.1
    assert means.loc["independent", "utility_gap"] > 0.2
    assert 0.5 <= means.loc["random", "two_sample_auc"] <= 1
    write_report(rows, tmp_path, CONFIG)
    assert "Utility gap" in (tmp_path / "report.html").read_text()
