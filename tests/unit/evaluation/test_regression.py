"""Regression in evaluation: scores, baselines, splits, the runner and the promotion rule."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn import metrics as sk
from sklearn.linear_model import LinearRegression

from priorline.errors import InputError
from priorline.evaluation import suites
from priorline.evaluation.baselines import BASELINES
from priorline.evaluation.config import EvaluationConfig, PromotionConfig
from priorline.evaluation.metrics import METRICS
from priorline.evaluation.problem_types import DEFAULTS, resolve_evaluation
from priorline.evaluation.promotion import decide
from priorline.evaluation.regression_scores import QUANTILE_LEVELS, WORST_R2, coverage_gap, crps, mae, r2, rmse
from priorline.evaluation.report import markdown_leaderboard, write_report
from priorline.evaluation.runner import evaluate
from priorline.evaluation.suites import SuiteSpec, load_suite, splits
from priorline.evaluation.summary import summarize
from priorline.evaluation.tables import TABLES

NAMES = ["xgboost", "random_forest", "linear", "mean"]
CONFIG = EvaluationConfig(suite="two-numbers", num_splits=2, max_train_rows=100, baselines=("linear", "mean"))


def predictions(rows: int = 400, noise: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Return truths and a perfectly calibrated forecaster's predictions: its centre and quantiles."""
    generator = np.random.default_rng(0)
    centre_M = generator.normal(size=rows)
    truth_M = centre_M + noise * generator.normal(size=rows)
    return truth_M, np.column_stack([centre_M, centre_M[:, None] + noise * norm.ppf(QUANTILE_LEVELS)])


def point(value_M: np.ndarray) -> np.ndarray:
    return np.repeat(value_M[:, None], 1 + len(QUANTILE_LEVELS), axis=1)


def test_scores_equal_scikit_learn() -> None:
    truth, prediction = predictions()
    assert r2(truth, prediction) == pytest.approx(sk.r2_score(truth, prediction[:, 0]), abs=1e-12)
    assert rmse(truth, prediction) == pytest.approx(sk.root_mean_squared_error(truth, prediction[:, 0]), abs=1e-12)
    assert mae(truth, prediction) == pytest.approx(sk.mean_absolute_error(truth, prediction[:, 0]), abs=1e-12)
    pinball = [
        sk.mean_pinball_loss(truth, prediction[:, 1 + number], alpha=level)
        for number, level in enumerate(QUANTILE_LEVELS)
    ]
    assert crps(truth, prediction) == pytest.approx(2 * np.mean(pinball), abs=1e-12)


def test_crps_nears_that_of_a_normal_distribution_and_is_the_absolute_error_of_a_point() -> None:
    truth, prediction = predictions(20_000)
    # Gneiting and Raftery 2007: sigma / sqrt(pi) in expectation; levels without the tails give 5 % more.
    assert crps(truth, prediction) == pytest.approx(0.5 / np.sqrt(np.pi), rel=0.07)
    assert crps(truth, point(prediction[:, 0])) == pytest.approx(mae(truth, prediction), abs=1e-12)
    assert crps(truth, prediction) < crps(truth, point(prediction[:, 0]))


def test_coverage_gap_is_small_for_the_calibrated_and_large_for_the_too_sure() -> None:
    truth, prediction = predictions(20_000)
    assert coverage_gap(truth, prediction) < 0.01
    narrow = prediction.copy()
    narrow[:, 1:] = narrow[:, :1] + 0.1 * (narrow[:, 1:] - narrow[:, :1])
    assert coverage_gap(truth, narrow) > 0.5
    assert coverage_gap(truth, point(prediction[:, 0])) == pytest.approx(0.8)


def test_r2_is_bounded_below_and_undefined_without_spread() -> None:
    truth = np.array([0.0, 1.0, 2.0])
    assert r2(truth, point(truth + 100)) == WORST_R2
    assert r2(truth, point(np.ones(3))) == 0
    assert np.isnan(r2(np.ones(3), point(truth)))


@pytest.mark.parametrize("name", list(METRICS["regression"]))
def test_values_stay_in_range_and_truth_beats_nonsense(name: str) -> None:
    metric = METRICS["regression"][name]
    truth, prediction = predictions()
    values = [metric.function(truth, guess) for guess in (prediction, point(truth), point(truth * -1e9))]
    assert all(metric.low - 1e-9 <= value <= metric.high + 1e-9 for value in values)
    assert values[2] == pytest.approx(metric.worst)


def awkward(rows: int = 90) -> tuple[pd.DataFrame, pd.Series]:
    generator = np.random.default_rng(0)
    number = generator.normal(size=rows)
    frame = pd.DataFrame(
        {
            "a[0]": number,
            "b<c": np.where(generator.random(rows) < 0.2, np.nan, np.inf),
            "d, e": pd.Series(generator.choice(["red", "green"], rows)).mask(generator.random(rows) < 0.2),
            "when": pd.Timestamp("2026-01-01") + pd.to_timedelta(generator.integers(0, 400, rows), unit="D"),
            "flag": generator.random(rows) < 0.5,
        }
    )
    return frame, pd.Series(1000 + 50 * number + generator.normal(size=rows), name="y")


@pytest.mark.parametrize("name", NAMES)
def test_baselines_take_raw_tables_and_repeat_themselves(name: str) -> None:
    X, y = awkward()
    query = X[60:].assign(**{"d, e": "violet", "flag": np.nan})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second = (BASELINES["regression"][name].build(3).fit(X[:60], y[:60]).predict(query) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert sk.r2_score(y[60:], first) > (-0.2 if name == "mean" else 0.5)


def test_every_regression_table_has_its_declared_size_and_fixed_hash() -> None:
    suite = load_suite("regression")
    assert len(suite.tables) == 15
    for table in suite.tables:
        assert pd.api.types.is_numeric_dtype(table.y)
        assert np.isfinite(table.y.to_numpy(dtype=float)).all()
        assert table.spec.problem_type == "regression"
    assert not pd.api.types.is_numeric_dtype(next(t for t in suite.tables if t.name == "exam_london").X["school"])
    # A change here means that old results can no longer be compared.
    assert suite.hash == "abb947ad58fa4239"
    assert load_suite("regression-smoke").hash == "2a540aa9a5313700"


def test_splits_of_numbers_are_halves_without_classes() -> None:
    table = suites.load(TABLES["hsb2_math"])
    split = next(splits(table, EvaluationConfig(num_splits=1)))
    assert split.classes is None
    assert (len(split.X_train), len(split.X_test)) == (100, 100)


class GivesQuantiles(LinearRegression):  # type: ignore[misc]
    def fit(self, X: Any, y: Any) -> "GivesQuantiles":
        super().fit(X, y)
        self.spread_ = float(np.std(np.asarray(y) - super().predict(X)))
        return self

    def predict_quantiles(self, X: Any, levels: Any) -> np.ndarray:
        return np.asarray(self.predict(X)[:, None] + self.spread_ * norm.ppf(levels))


class FailsOnDiabetes(LinearRegression):  # type: ignore[misc]
    def fit(self, X: Any, y: Any) -> "FailsOnDiabetes":
        if "bmi" in X:
            raise RuntimeError("no room")
        return super().fit(X, y)  # type: ignore[no-any-return]


class ExplodesOnDiabetes(LinearRegression):  # type: ignore[misc]
    def predict(self, X: Any) -> np.ndarray:
        return super().predict(X) * (1e6 if "bmi" in X else 1)  # type: ignore[no-any-return]


CLASSES = {"normal": GivesQuantiles, "fails": FailsOnDiabetes, "explodes": ExplodesOnDiabetes}


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    tables = (TABLES["diabetes"], TABLES["concrete"])
    monkeypatch.setitem(
        suites.SUITES, "two-numbers", SuiteSpec(name="two-numbers", problem_type="regression", tables=tables)
    )
    contenders = {name: Path(name) for name in CLASSES}
    build = lambda weights, problem_type, **params: CLASSES[weights.name]()  # noqa: E731
    return evaluate(contenders, CONFIG, problem_type="regression", load_estimator=build)


def test_the_runner_judges_numbers_and_quantiles_in_units_of_the_training_targets(rows: pd.DataFrame) -> None:
    assert len(rows) == 2 * 2 * 5 * len(METRICS["regression"])
    assert rows["mean_confidence"].isna().all()
    means = rows.groupby(["contender", "metric"])["value"].mean().unstack()
    assert means.loc["normal", "r2"] == pytest.approx(means.loc["linear", "r2"], abs=0.05)
    assert abs(means.loc["mean", "r2"]) < 0.05
    assert means.loc["mean", "rmse"] == pytest.approx(1, abs=0.1)
    assert means.loc["normal", "crps"] < means.loc["linear", "crps"]
    assert means.loc["normal", "coverage_gap"] < 0.2


def test_a_failure_ranks_last_even_beside_a_prediction_out_of_all_bounds(rows: pd.DataFrame) -> None:
    failed = rows[rows["error"] != ""]
    assert set(zip(failed["contender"], failed["table"], strict=True)) == {("fails", "diabetes")}
    diabetes = summarize(rows[rows["table"] == "diabetes"]).contenders.set_index(["contender", "metric"])
    for metric in ("r2", "rmse"):
        assert diabetes.loc[("fails", metric), "mean_rank"] == diabetes["mean_rank"].max()
        assert np.isfinite(diabetes.loc[("fails", metric), "mean"])


def test_promotion_knows_metric_and_floor_of_the_problem_type(rows: pd.DataFrame) -> None:
    decision = decide(rows, ["normal"], None, PromotionConfig())
    assert decision.winner == "normal"
    assert decision.reason.startswith("normal becomes champion, the first: mean R2 +")
    assert "against mean" in decision.reason
    by_error = decide(rows, ["normal"], "fails", PromotionConfig(metric="mae"))
    assert by_error.winner == "normal"
    assert not decide(rows, ["fails"], "normal", PromotionConfig()).promote


def test_reports_of_numbers_say_how_to_repeat_them(rows: pd.DataFrame, tmp_path: Path) -> None:
    write_report(rows, tmp_path, CONFIG, decision=decide(rows, ["normal"], None, PromotionConfig()))
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<img") == 2
    assert "--problem-type regression" in page
    assert "random splits" in page
    assert "R2 (higher)" in markdown_leaderboard(rows)
    assert "num_classes" not in (tmp_path / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("problem_type", list(DEFAULTS))
def test_defaults_of_a_problem_type_name_what_there_is(problem_type: str) -> None:
    defaults = DEFAULTS[problem_type]
    for name in (defaults.suite, defaults.smoke_suite):
        assert suites.SUITES[name].problem_type == problem_type
    assert defaults.floor in BASELINES[problem_type]
    for given, suite in ((None, defaults.suite), ("smoke", defaults.smoke_suite), ("mine", "mine")):
        resolved = resolve_evaluation(EvaluationConfig(suite=given), problem_type)
        assert resolved.suite == suite
        assert resolved.baselines == tuple(BASELINES[problem_type])
        assert resolve_evaluation(resolved, problem_type) == resolved


def test_an_unknown_problem_type_is_told() -> None:
    with pytest.raises(InputError, match="did you mean 'regression'"):
        resolve_evaluation(EvaluationConfig(), "regresion")
    with pytest.raises(InputError, match="is for classification, got problem_type='regression'"):
        evaluate({}, EvaluationConfig(suite="classification-smoke"), problem_type="regression")
