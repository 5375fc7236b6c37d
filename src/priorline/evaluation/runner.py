"""Contenders and baselines on every split of a suite, as tidy rows: one per metric value."""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from priorline.config_io import nearest_name
from priorline.datasets.tabular import write_table
from priorline.errors import CheckpointError, InputError, PriorlineError
from priorline.evaluation.baselines import BASELINES
from priorline.evaluation.config import EvaluationConfig
from priorline.evaluation.metrics import METRICS
from priorline.evaluation.predictions import FITS_ITSELF, PREDICT
from priorline.evaluation.problem_types import baseline_names, suite_name
from priorline.evaluation.suites import Split, Suite, load_suite, splits
from priorline.inference.predictor import load_estimator as load_from_weights

COLUMNS = {
    "suite": "suite",
    "suite_hash": "hash of its tables, definitions and split rule",
    "problem_type": "which metrics and baselines apply",
    "table": "name in TABLES",
    "split": "0, 1, ...",
    "seed": "of the split and of the contender",
    "contender": "name",
    "is_baseline": "from BASELINES, not from weights",
    "metric": "name in METRICS",
    "value": "NaN when the contender failed",
    "error": "type and message of the failure; empty when there was none",
    "train_rows": "rows fitted on",
    "test_rows": "rows judged on",
    "num_classes": "classes of the table; 0 without classes",
    "duplicate_test_rows": "test rows whose features equal those of a training row",
    "mean_confidence": "mean probability of the likeliest class; NaN without classes",
    "fit_s": "wall seconds of fit",
    "predict_s": "wall seconds of predicting the test rows",
    "cpu_s": "processor seconds of both, all threads",
}
"""Columns of the result with their meaning."""

FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    PriorlineError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What a contender may raise on a table and be ranked last for; anything else stops the evaluation."""

BuildEstimator = Callable[[int], Any]


def evaluate(
    contenders: Mapping[str, Path],
    config: EvaluationConfig,
    *,
    problem_type: str = "classification",
    device: str = "cpu",
    on_progress: Callable[[int, int], None] | None = None,
    load_estimator: Callable[..., Any] = load_from_weights,
) -> pd.DataFrame:
    """Return one row per table, split, contender and metric, with the columns of `COLUMNS`.

    A contender that fails on a split gets rows with the error's text and NaN: it ranks last there
    and is never left out.

    Parameters
    ----------
    contenders : mapping
        Name to weights folder.
    on_progress : callable, optional
        Called with (fits done, fits in all).
    load_estimator : callable
        Called as ``load_estimator(weights, problem_type, num_members=, device=, random_state=)``;
        returns an unfitted scikit-learn estimator.

    Raises
    ------
    InputError
        If suite, problem type or baseline is unknown, or a contender has the name of a baseline.
    CheckpointError
        If weights are missing or corrupt: that is no result of the contender.
    """
    suite = load_suite(suite_name(config, problem_type))
    baselines = _chosen_baselines(config, suite, problem_type)
    clashes = sorted(set(contenders) & set(baselines))
    if clashes:
        raise InputError(f"contenders {clashes} have names of baselines; give them other names")

    def loader(weights: Path) -> BuildEstimator:
        options: dict[str, Any] = {"num_members": config.num_members, "device": device}
        return lambda seed: load_estimator(weights, problem_type, random_state=seed, **options)

    builders = {name: loader(weights) for name, weights in contenders.items()} | baselines
    total = len(suite.tables) * config.num_splits * len(builders)
    rows: list[dict[str, Any]] = []
    for split in _all_splits(suite, config):
        for name, build in builders.items():
            facts = {
                "suite": suite.name,
                "suite_hash": suite.hash,
                "contender": name,
                "is_baseline": name in baselines,
            }
            rows += [facts | row for row in judge(build, split, problem_type)]
            if on_progress:
                on_progress(len(rows) // len(METRICS[problem_type]), total)
    return pd.DataFrame(rows)[list(COLUMNS)]


def judge(build: BuildEstimator, split: Split, problem_type: str) -> list[dict[str, Any]]:
    """Return the rows of one contender on one split: every metric, or the failure under each."""
    estimator = build(split.seed)
    measured = {"error": "", "mean_confidence": np.nan, "fit_s": np.nan, "predict_s": np.nan, "cpu_s": np.nan}
    values = dict.fromkeys(METRICS[problem_type], float("nan"))
    cpu_start, start = time.process_time(), time.perf_counter()
    try:
        if problem_type not in FITS_ITSELF:
            estimator.fit(split.X_train, split.y_train)
        fitted = time.perf_counter()
        truth, prediction = PREDICT[problem_type](estimator, split)
        measured |= {
            "fit_s": fitted - start,
            "predict_s": time.perf_counter() - fitted,
            "cpu_s": time.process_time() - cpu_start,
        }
        if split.classes and problem_type == "classification":
            measured["mean_confidence"] = float(prediction.max(axis=1).mean())
        values = {name: metric.function(truth, prediction) for name, metric in METRICS[problem_type].items()}
    except CheckpointError:
        raise
    except FAULTS as fault:
        measured["error"] = f"{type(fault).__name__}: {' '.join(str(fault).split())}"[:500]
    facts = {
        "problem_type": problem_type,
        "table": split.table,
        "split": split.split,
        "seed": split.seed,
        "train_rows": len(split.X_train),
        "test_rows": len(split.X_test),
        "num_classes": len(split.classes or ()),
        "duplicate_test_rows": split.duplicate_test_rows,
    }
    return [facts | measured | {"metric": name, "value": value} for name, value in values.items()]


def write_rows(rows: pd.DataFrame, path: Path) -> None:
    """Write ``rows`` to the Parquet file ``path``, whole or not at all."""
    if path.suffix != ".parquet":
        raise InputError(f"rows are kept as Parquet, got {path}; end the name in .parquet")
    write_table(rows, path)


def read_rows(path: Path) -> pd.DataFrame:
    """Return the rows that `write_rows` wrote.

    Raises
    ------
    InputError
        If there is no such file, or it holds something else.
    """
    if not path.is_file():
        raise InputError(f"{path} does not exist; write it with `priorline evaluate`")
    rows = pd.read_parquet(path)
    missing = sorted(set(COLUMNS) - set(rows.columns))
    if missing:
        raise InputError(f"{path} lacks the columns {missing}; write it again with `priorline evaluate`")
    return rows[list(COLUMNS)]


def _all_splits(suite: Suite, config: EvaluationConfig) -> Iterator[Split]:
    for table in suite.tables:
        yield from splits(table, config)


def _chosen_baselines(config: EvaluationConfig, suite: Suite, problem_type: str) -> dict[str, BuildEstimator]:
    if suite.problem_type != problem_type:
        raise InputError(
            f"suite {suite.name!r} is for {suite.problem_type}, got problem_type={problem_type!r}; "
            "set evaluation.suite to a suite of that type, or to null for all of its tables"
        )
    known = BASELINES[problem_type]
    chosen = baseline_names(config, problem_type)
    for name in chosen:
        if name not in known:
            raise InputError(f"baseline {name!r} is unknown{nearest_name(name, known)}")
    return {name: known[name].build for name in chosen}
