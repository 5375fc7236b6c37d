"""Drawn rows held against real ones: can they be told apart, and can a model learn from them?

Shapes: `M` test rows; as many rows are drawn.
"""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from priorline.errors import InputError
from priorline.evaluation.metrics import roc_auc
from priorline.evaluation.raw_tables import Columns, TableClassifier, by_kind
from priorline.evaluation.suites import Split

_TREES, _FOLDS = 100, 5
_TARGET = "the target"


def judge_drawn(estimator: Any, split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Return an empty array, and the two scores of as many drawn rows as there are test rows.

    ``two_sample_auc``: area under the ROC curve of a random forest that tells drawn rows from test rows (five
    folds); 0.5 is the best. ``utility_gap``: ROC AUC on the test rows of a forest trained on training rows, less
    that of one trained on drawn rows.

    Raises
    ------
    InputError
        If the drawn rows lack a column or the target.
    """
    train = split.X_train.assign(**{_TARGET: split.y_train.to_numpy()})
    test = split.X_test.assign(**{_TARGET: split.y_test.to_numpy()})
    drawn = estimator.fit(train).sample(len(test))
    if list(drawn.columns) != list(test.columns) or len(drawn) != len(test):
        raise InputError(f"drawn rows have shape {drawn.shape}, wanted {test.shape} with the same columns")
    truth_M = np.searchsorted(np.array(split.classes), split.y_test.to_numpy())
    real, learned = (_auc_of(frame, split, truth_M) for frame in (train, drawn))
    return np.zeros(0), np.array([_two_sample_auc(test, drawn, split.seed), real - learned])


class IndependentColumns:
    """Draws each column by itself from the training rows: what knowing no dependence achieves."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, X: pd.DataFrame) -> "IndependentColumns":
        """Keep the rows; return self."""
        self.frame_ = X
        return self

    def sample(self, n_samples: int) -> pd.DataFrame:
        """Return new rows."""
        generator = np.random.default_rng(self.seed)
        columns = [
            self.frame_.iloc[generator.integers(len(self.frame_), size=n_samples), place].reset_index(drop=True)
            for place in range(self.frame_.shape[1])
        ]
        return pd.concat(columns, axis=1)


class RealRows(IndependentColumns):
    """Repeats training rows: nothing new, and the most that drawn rows can look like real ones."""

    def sample(self, n_samples: int) -> pd.DataFrame:
        """Return training rows, drawn with replacement."""
        generator = np.random.default_rng(self.seed)
        return self.frame_.iloc[generator.integers(len(self.frame_), size=n_samples)].reset_index(drop=True)


def _two_sample_auc(real: pd.DataFrame, drawn: pd.DataFrame, seed: int) -> float:
    both = pd.concat([real.astype(object), drawn.astype(object)], ignore_index=True).infer_objects()
    is_drawn = pd.Series(np.repeat([0, 1], [len(real), len(drawn)]))
    proba = np.zeros((len(both), 2))
    for fit, ask in StratifiedKFold(_FOLDS, shuffle=True, random_state=seed).split(both, is_drawn):
        model = TableClassifier(_forest(seed)).fit(both.iloc[fit], is_drawn.iloc[fit])
        proba[ask] = model.predict_proba(both.iloc[ask])
    auc = roc_auc(is_drawn.to_numpy(), proba)
    return max(auc, 1 - auc)


def _auc_of(frame: pd.DataFrame, split: Split, truth_M: np.ndarray) -> float:
    """Return the ROC AUC on the test rows of a forest trained on ``frame``."""
    model = TableClassifier(_forest(split.seed)).fit(frame.drop(columns=_TARGET), frame[_TARGET])
    proba = np.zeros((len(truth_M), len(split.classes or ())))
    proba[:, np.searchsorted(np.array(split.classes), model.classes_)] = model.predict_proba(split.X_test)
    return roc_auc(truth_M, proba)


def _forest(seed: int) -> Any:
    def build(numbers: Columns, texts: Columns) -> Pipeline:
        encode = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
        forest = RandomForestClassifier(n_estimators=_TREES, min_samples_leaf=2, n_jobs=1, random_state=seed)
        return make_pipeline(by_kind(numbers, texts, "passthrough", encode), forest)

    return build
