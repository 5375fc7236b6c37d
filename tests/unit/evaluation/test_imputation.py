"""Held-out imputation: patterns, errors, baselines, and what a contender may not do."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from priorline.evaluation import suites
from priorline.evaluation.baselines import BASELINES
from priorline.evaluation.config import EvaluationConfig
from priorline.evaluation.imputation import PATTERNS, hide_cells
from priorline.evaluation.metrics import METRICS
from priorline.evaluation.report import write_report
from priorline.evaluation.runner import evaluate
from priorline.evaluation.suites import SuiteSpec, load_suite
from priorline.evaluation.tables import TABLES

CONFIG = EvaluationConfig(suite="two-fillings", num_splits=1, max_train_rows=120, max_test_rows=100)


@pytest.fixture(autouse=True)
def _two_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = (TABLES["penguins"], TABLES["concrete"])
    monkeypatch.setitem(
        suites.SUITES, "two-fillings", SuiteSpec(name="two-fillings", problem_type="imputation", tables=tables)
    )


class Truth:
    """Fills with what stood there: it was shown the whole table beforehand."""

    whole: dict[str, pd.DataFrame] = {}

    def fit(self, X: pd.DataFrame) -> "Truth":
        return self

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        return next(whole for whole in self.whole.values() if list(whole) == list(X)).loc[X.index]


class Meddler(Truth):
    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        numbers = X.select_dtypes("number").columns
        filled = super().transform(X).copy()
        filled[numbers] = filled[numbers] + 1e-9
        return filled


class Idler(Truth):
    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        return X


def load(weights: Path, problem_type: str, **params: Any) -> Any:
    Truth.whole = {table.name: table.X for table in load_suite("two-fillings").tables}
    return {"truth": Truth, "meddler": Meddler, "idler": Idler}[weights.name]()


def test_all_are_judged_on_the_same_hidden_cells(tmp_path: Path) -> None:
    contenders = {name: Path(name) for name in ("truth", "meddler", "idler")}
    rows = evaluate(contenders, CONFIG, problem_type="imputation", load_estimator=load)
    assert len(rows) == 2 * len(METRICS["imputation"]) * (3 + len(BASELINES["imputation"]))
    errors = rows[rows["error"] != ""].groupby("contender")["error"].first()
    assert "cells that were known came back changed" in errors["meddler"]
    assert "hidden cells stayed empty" in errors["idler"]
    assert set(errors.index) == {"meddler", "idler"}
    means = rows.groupby(["contender", "metric"])["value"].mean().unstack()
    # Cells that miss in the source have no truth and are not judged.
    assert (means.loc["truth"] == 0).all()
    assert means.loc["missforest", "imputation_error"] < means.loc["mean", "imputation_error"] - 0.1
    assert means.loc["nearest_rows", "imputation_error"] < means.loc["mean", "imputation_error"] - 0.1
    assert (means.loc["iterative", "error_mcar_10"] < means.loc["iterative", "error_mcar_50"]).all()
    assert means.loc["mean", [f"error_{pattern}" for pattern in PATTERNS]].mean() == pytest.approx(
        means.loc["mean", "imputation_error"], rel=0.02
    )
    write_report(rows, tmp_path, CONFIG)
    assert "Imputation error" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_hide_their_share_of_known_cells(pattern: str) -> None:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.normal(size=(2000, 4)), columns=list("abcd")).assign(e=list("xyzu") * 500)
    frame.loc[::3, "a"] = np.nan
    hidden_RC = hide_cells(frame, pattern, np.random.default_rng(1))
    assert not (hidden_RC & frame.isna().to_numpy()).any()
    share = hidden_RC[:, 1:].mean()
    assert share == pytest.approx(int(pattern[-2:]) / 100, abs=0.02)
    is_large = frame["c"] > 0
    gap = hidden_RC[is_large, 1].mean() - hidden_RC[~is_large, 1].mean()
    assert (gap > 0.2) if pattern.startswith("mar") else (abs(gap) < 0.06)
    assert np.array_equal(hidden_RC, hide_cells(frame, pattern, np.random.default_rng(1)))


def test_the_suites_hold_distinct_tables_with_a_fixed_hash() -> None:
    names = [table.name for table in load_suite("imputation").tables]
    assert len(set(names)) == len(names)
    assert {table.name for table in load_suite("imputation-smoke").tables} < set(names)
