"""What a pretrained model must be measured against: named, seeded, single-threaded baselines.

A baseline takes a table as it is (see `priorline.evaluation.raw_tables`). Its settings stand in
`BASELINES` and are printed in every report.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 - makes IterativeImputer importable
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.linear_model import BayesianRidge, LogisticRegression, Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler
from xgboost import XGBClassifier, XGBRegressor

from priorline.evaluation.generation import IndependentColumns, RealRows
from priorline.evaluation.raw_tables import Columns, TableClassifier, TableImputer, TableRegressor, by_kind, one_hot

TREES: dict[str, Any] = {
    "n_estimators": 200,
    "learning_rate": 0.03,
    "max_depth": 4,
    "subsample": 0.8,
    "colsample_bytree": 0.8,
    "tree_method": "hist",
    "max_bin": 64,
    "n_jobs": 1,
    "verbosity": 0,
}
"""Settings of XGBoost.

The slow rate is the best of five settings tried on the suites at 500 training rows (mean ROC AUC 0.863,
0.855 at a rate of 0.1; mean R2 0.617, 0.585 at a rate of 0.1): tuned on these very tables, it is a high bar.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """One row of `BASELINES`."""

    name: str
    settings: str
    """What it is and its settings, in words, for reports."""
    build: Callable[[int], Any]
    """Seed in, unfitted estimator out (``fit``, and ``predict_proba`` with ``classes_``, or ``predict``)."""


def xgboost(seed: int) -> TableClassifier:
    """Return gradient-boosted trees; text columns are one-hot encoded, missing numbers kept missing."""
    return TableClassifier(_with_trees(XGBClassifier(**TREES, random_state=seed)))


def xgboost_regressor(seed: int) -> TableRegressor:
    """Return gradient-boosted trees on the squared error, columns as in `xgboost`."""
    return TableRegressor(_with_trees(XGBRegressor(**TREES, random_state=seed)))


def random_forest(seed: int) -> TableClassifier:
    """Return a random forest; categories become numbers in order of text, missing cells stay missing."""
    return TableClassifier(_with_forest(RandomForestClassifier(n_estimators=300, n_jobs=1, random_state=seed)))


def random_forest_regressor(seed: int) -> TableRegressor:
    """Return a random forest of regression trees, columns as in `random_forest`."""
    return TableRegressor(_with_forest(RandomForestRegressor(n_estimators=300, n_jobs=1, random_state=seed)))


def linear(seed: int) -> TableClassifier:
    """Return logistic regression on scaled numbers (median for missing, with flags) and one-hot text."""
    return TableClassifier(_on_scaled(LogisticRegression(C=1.0, max_iter=500, random_state=seed)))


def ridge(seed: int) -> TableRegressor:
    """Return ridge regression, columns as in `linear`; it draws nothing, so every seed is the same."""
    return TableRegressor(_on_scaled(Ridge(alpha=1.0)))


def majority(seed: int) -> TableClassifier:
    """Return the class shares of the training rows for every row: what knowing nothing achieves."""
    return TableClassifier(lambda numbers, texts: DummyClassifier(strategy="prior", random_state=seed))


def mean(seed: int) -> TableRegressor:
    """Return the mean of the training targets for every row: what knowing nothing achieves."""
    return TableRegressor(lambda numbers, texts: DummyRegressor(strategy="mean"))


def mean_cells(seed: int) -> TableImputer:
    """Return the mean of a column's numbers, the most frequent of its texts: what knowing nothing achieves."""
    return TableImputer(lambda: SimpleImputer(keep_empty_features=True))


def nearest_rows(seed: int) -> TableImputer:
    """Return the mean over the five training rows that are closest in the cells that both have."""
    return TableImputer(lambda: KNNImputer(n_neighbors=5, keep_empty_features=True))


def iterative(seed: int) -> TableImputer:
    """Return columns predicted from all others by Bayesian ridge regression, in ten rounds at most."""
    return TableImputer(lambda: _rounds(BayesianRidge(), 10, seed))


def iterative_forest(seed: int) -> TableImputer:
    """Return columns predicted from all others by random forests, in the manner of MissForest."""
    forest = RandomForestRegressor(n_estimators=20, min_samples_leaf=3, max_features=0.5, n_jobs=1, random_state=seed)
    return TableImputer(lambda: _rounds(forest, 3, seed))


def _rounds(model: Any, rounds: int, seed: int) -> IterativeImputer:
    return IterativeImputer(
        model, max_iter=rounds, n_nearest_features=20, keep_empty_features=True, random_state=seed, verbose=0
    )


def _with_trees(trees: Any) -> Callable[[Columns, Columns], Pipeline]:
    return lambda numbers, texts: make_pipeline(by_kind(numbers, texts, "passthrough", one_hot()), trees)


def _with_forest(forest: Any) -> Callable[[Columns, Columns], Pipeline]:
    # Order of text is arbitrary, but a forest can cut it anywhere; unseen text is below all.
    encode = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    return lambda numbers, texts: make_pipeline(by_kind(numbers, texts, "passthrough", encode), forest)


def _on_scaled(regression: Any) -> Callable[[Columns, Columns], Pipeline]:
    impute = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    scaled = make_pipeline(impute, StandardScaler())
    return lambda numbers, texts: make_pipeline(by_kind(numbers, texts, scaled, one_hot()), regression)


def _named(*rows: Baseline) -> dict[str, Baseline]:
    return {row.name: row for row in rows}


BASELINES: dict[str, dict[str, Baseline]] = {
    "classification": _named(
        Baseline(
            name="xgboost",
            settings="XGBoost, 200 rounds, learning rate 0.03, depth 4, rows and columns 0.8, 64 bins; text one-hot",
            build=xgboost,
        ),
        Baseline(
            name="random_forest",
            settings="scikit-learn random forest, 300 trees, other settings default; text as ordinals",
            build=random_forest,
        ),
        Baseline(
            name="linear",
            settings="scikit-learn logistic regression, C=1, scaled numbers, median and flag for missing, text one-hot",
            build=linear,
        ),
        Baseline(
            name="majority",
            settings="class shares of the training rows",
            build=majority,
        ),
    ),
    "regression": _named(
        Baseline(
            name="xgboost",
            settings="XGBoost, 200 rounds, learning rate 0.03, depth 4, rows and columns 0.8, 64 bins; text one-hot",
            build=xgboost_regressor,
        ),
        Baseline(
            name="random_forest",
            settings="scikit-learn random forest, 300 trees, other settings default; text as ordinals",
            build=random_forest_regressor,
        ),
        Baseline(
            name="linear",
            settings="scikit-learn ridge, alpha=1, scaled numbers, median and flag for missing, text one-hot",
            build=ridge,
        ),
        Baseline(
            name="mean",
            settings="mean of the training targets",
            build=mean,
        ),
    ),
    "imputation": _named(
        Baseline(
            name="missforest",
            settings="scikit-learn IterativeImputer with random forests (20 trees, 3 rounds, 20 columns); text one-hot",
            build=iterative_forest,
        ),
        Baseline(
            name="iterative",
            settings="scikit-learn IterativeImputer, Bayesian ridge, 10 rounds, 20 columns; text one-hot",
            build=iterative,
        ),
        Baseline(
            name="nearest_rows",
            settings="scikit-learn KNNImputer, 5 rows; numbers scaled, text one-hot",
            build=nearest_rows,
        ),
        Baseline(
            name="mean",
            settings="mean of a column's numbers, most frequent of its texts",
            build=mean_cells,
        ),
    ),
    "generation": _named(
        Baseline(
            name="independent",
            settings="each column drawn by itself from the training rows",
            build=IndependentColumns,
        ),
        Baseline(
            name="real_rows",
            settings="training rows again, with replacement: nothing new, the most that can be reached",
            build=RealRows,
        ),
    ),
}
"""Problem type to name to baseline."""
