"""What a pretrained model must be measured against: named, seeded, single-threaded baselines.

A baseline takes a table as it is: numbers and text side by side, missing cells, any column names,
any labels. Its settings stand in `BASELINES` and are printed in every report.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from xgboost import XGBClassifier

Columns = list[str]
MISSING_TEXT = "<missing>"


class TableClassifier:
    """A scikit-learn pipeline over a raw table.

    Columns are renamed by position, for XGBoost refuses names with ``[``, ``]`` or ``<``; numbers
    become floats with infinities missing, dates become days, everything else text. Labels become
    0 .. K-1; with a single class in the training rows nothing is fitted.

    Parameters
    ----------
    build : callable
        Called with the numeric and the text columns; returns an unfitted classifier.
    """

    def __init__(self, build: Callable[[Columns, Columns], Any]) -> None:
        self.build = build

    def fit(self, X: pd.DataFrame, y: pd.Series) -> "TableClassifier":
        """Fit on the rows of ``X`` with labels ``y``; return self."""
        self.classes_, codes = np.unique(np.asarray(y), return_inverse=True)
        self.is_text_ = [_is_text(column) for _, column in X.items()]
        plain = self._plain(X)
        self.model_ = None
        if len(self.classes_) > 1:
            numbers = [name for name, text in zip(map(str, plain), self.is_text_, strict=True) if not text]
            texts = [name for name, text in zip(map(str, plain), self.is_text_, strict=True) if text]
            with threadpool_limits(limits=1):
                self.model_ = self.build(numbers, texts).fit(plain, codes)
        return self

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        """Return probabilities (M, K); columns in the order of ``classes_``."""
        if self.model_ is None:
            return np.ones((len(X), 1))
        with threadpool_limits(limits=1):
            return np.asarray(self.model_.predict_proba(self._plain(X)), dtype=np.float64)

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        """Return the likeliest label of each row."""
        labels: np.ndarray = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels

    def _plain(self, X: pd.DataFrame) -> pd.DataFrame:
        columns = {}
        for number, ((_, column), text) in enumerate(zip(X.items(), self.is_text_, strict=True)):
            columns[f"column_{number}"] = _texts(column) if text else _numbers(column)
        return pd.DataFrame(columns, index=X.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """One row of `BASELINES`."""

    name: str
    settings: str
    """What it is and its settings, in words, for reports."""
    build: Callable[[int], Any]
    """Seed in, unfitted estimator out (``fit``, ``predict_proba``, ``classes_``)."""


def xgboost(seed: int) -> TableClassifier:
    """Return gradient-boosted trees; text columns are one-hot encoded, missing numbers kept missing.

    The slow rate is the best of five settings tried on the classification suite (mean ROC AUC 0.863
    at 500 training rows, 0.855 at a rate of 0.1): tuned on these very tables, it is a high bar.
    """

    def build(numbers: Columns, texts: Columns) -> Pipeline:
        trees = XGBClassifier(
            n_estimators=200,
            learning_rate=0.03,
            max_depth=4,
            subsample=0.8,
            colsample_bytree=0.8,
            tree_method="hist",
            max_bin=64,
            n_jobs=1,
            random_state=seed,
            verbosity=0,
        )
        return make_pipeline(_columns(numbers, texts, "passthrough", _one_hot()), trees)

    return TableClassifier(build)


def random_forest(seed: int) -> TableClassifier:
    """Return a random forest; categories become numbers in order of text, missing cells stay missing."""

    def build(numbers: Columns, texts: Columns) -> Pipeline:
        # Order of text is arbitrary, but a forest can cut it anywhere; unseen text is below all.
        encode = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
        forest = RandomForestClassifier(n_estimators=300, n_jobs=1, random_state=seed)
        return make_pipeline(_columns(numbers, texts, "passthrough", encode), forest)

    return TableClassifier(build)


def linear(seed: int) -> TableClassifier:
    """Return logistic regression on scaled numbers (median for missing, with flags) and one-hot text."""

    def build(numbers: Columns, texts: Columns) -> Pipeline:
        impute = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
        scaled = make_pipeline(impute, StandardScaler())
        regression = LogisticRegression(C=1.0, max_iter=500, random_state=seed)
        return make_pipeline(_columns(numbers, texts, scaled, _one_hot()), regression)

    return TableClassifier(build)


def majority(seed: int) -> TableClassifier:
    """Return the class shares of the training rows for every row: what knowing nothing achieves."""
    return TableClassifier(lambda numbers, texts: DummyClassifier(strategy="prior", random_state=seed))


BASELINES: dict[str, dict[str, Baseline]] = {
    "classification": {
        baseline.name: baseline
        for baseline in (
            Baseline(
                name="xgboost",
                settings="XGBoost, 200 rounds, learning rate 0.03, depth 4, rows and columns 0.8, 64 bins; "
                "text one-hot",
                build=xgboost,
            ),
            Baseline(
                name="random_forest",
                settings="scikit-learn random forest, 300 trees, other settings default; text as ordinals",
                build=random_forest,
            ),
            Baseline(
                name="linear",
                settings="scikit-learn logistic regression, C=1, scaled numbers, median and flag for "
                "missing, text one-hot",
                build=linear,
            ),
            Baseline(
                name="majority",
                settings="class shares of the training rows",
                build=majority,
            ),
        )
    },
}
"""Problem type to name to baseline."""


def _columns(numbers: Columns, texts: Columns, number_step: Any, text_step: Any) -> ColumnTransformer:
    steps = [("numbers", number_step, numbers), ("texts", text_step, texts)]
    return ColumnTransformer([step for step in steps if step[2]], sparse_threshold=0)


def _one_hot() -> OneHotEncoder:
    # At most 50 columns for one text column; what is unseen or rare shares the last.
    return OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=50, sparse_output=False)


def _is_text(column: pd.Series) -> bool:
    dtype = column.dtype
    return not (pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_datetime64_any_dtype(dtype))


def _numbers(column: pd.Series) -> np.ndarray:
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        days = (column - pd.Timestamp(0, tz=column.dt.tz)) / pd.Timedelta(days=1)
        return days.to_numpy(dtype=np.float64)
    values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(values), values, np.nan)


def _texts(column: pd.Series) -> np.ndarray:
    missing = column.isna().to_numpy()
    texts = np.array([str(cell) for cell in column], dtype=object)
    texts[missing] = MISSING_TEXT
    return texts
