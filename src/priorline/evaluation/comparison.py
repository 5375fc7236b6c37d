"""Two contenders side by side: paired by table and split, with a bootstrap interval over tables."""

import numpy as np
import pandas as pd

from priorline.config_io import Config
from priorline.errors import InputError
from priorline.evaluation.metrics import METRICS, Metric
from priorline.seeding import numpy_generator

TIE_WIDTH = 1e-9
"""Differences up to this are rounding, not a win."""


class Comparison(Config):
    """How much better ``a`` is than ``b``; positive is better, also for a loss."""

    a: str
    b: str
    metric: str
    mean_difference: float
    """Mean over tables of the mean over splits, in the metric's unit."""
    low: float | None
    """Lower end of the paired bootstrap interval; None when there is but one split of one table."""
    high: float | None
    """Upper end."""
    tables: int
    """Tables that both have rows for."""
    wins: int
    ties: int
    losses: int


def problem_type_of(rows: pd.DataFrame) -> str:
    """Return the one problem type of ``rows``, checking that they can be compared.

    Raises
    ------
    InputError
        If rows are empty, or mix suites or problem types.
    """
    problem_types = rows["problem_type"].unique().tolist()
    hashes = rows["suite_hash"].unique().tolist()
    if len(problem_types) != 1 or len(hashes) != 1:
        raise InputError(
            f"rows must be of one problem type and one suite, got {problem_types or 'no rows'} and suite "
            f"hashes {hashes}; evaluate all contenders on the same suite"
        )
    return str(problem_types[0])


def metric_of(rows: pd.DataFrame, name: str) -> Metric:
    """Return the metric called ``name`` of the one problem type, checking that rows can be compared.

    Raises
    ------
    InputError
        If rows are empty, mix suites or problem types, or lack the metric.
    """
    known = METRICS[problem_type_of(rows)]
    if name not in known or name not in set(rows["metric"]):
        raise InputError(f"metric {name!r} is not in the rows; there are {sorted(set(rows['metric']))}")
    return known[name]


def score_cells(rows: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    """Return scores with (table, split) as index and contenders as columns, higher always better.

    A failed contender has the worst score of the metric's range; NaN means that it was not judged.

    Raises
    ------
    InputError
        If a contender has two values for one split.
    """
    chosen = rows[rows["metric"] == metric.name]
    keys = ["table", "split", "contender"]
    twice = chosen[chosen.duplicated(keys)]
    if len(twice):
        raise InputError(
            f"contender {twice['contender'].iloc[0]!r} has two rows for {metric.name} on table "
            f"{twice['table'].iloc[0]!r} split {twice['split'].iloc[0]}; give contenders different names"
        )
    sign = 1.0 if metric.higher_is_better else -1.0
    scores = chosen["value"].fillna(metric.worst) * sign
    wide = chosen.assign(score=scores).pivot(index=["table", "split"], columns="contender", values="score")
    # Contenders and tables stay in the order in which they were judged.
    wide = wide.reindex(pd.unique(chosen["table"]), level="table")
    return wide[list(pd.unique(chosen["contender"]))]


def compare(
    cells: pd.DataFrame,
    a: str,
    b: str,
    metric: Metric,
    *,
    confidence: float = 0.95,
    num_bootstrap: int = 2000,
    seed: int = 0,
) -> Comparison:
    """Return how much better ``a`` is than ``b`` on the splits that both were judged on.

    The interval says how the mean would vary over other tables of this kind: tables are drawn with
    replacement, their splits stay together. With one table, its splits are drawn instead.
    """
    differences = (cells[a] - cells[b]).dropna()
    per_table = differences.groupby(level="table", sort=False).mean()
    units = per_table if len(per_table) > 1 else differences
    if units.empty:
        raise InputError(f"{a!r} and {b!r} share no table; evaluate both on the same suite")
    low, high = bootstrap_interval(units.to_numpy(), confidence=confidence, num_bootstrap=num_bootstrap, seed=seed)
    return Comparison(
        a=a,
        b=b,
        metric=metric.name,
        mean_difference=float(per_table.mean()),
        low=low,
        high=high,
        tables=len(per_table),
        wins=int((per_table > TIE_WIDTH).sum()),
        ties=int((per_table.abs() <= TIE_WIDTH).sum()),
        losses=int((per_table < -TIE_WIDTH).sum()),
    )


def bootstrap_interval(
    values: np.ndarray, *, confidence: float, num_bootstrap: int, seed: int
) -> tuple[float | None, float | None]:
    """Return the percentile interval of the mean of ``values`` (n,); (None, None) for a single value.

    Equal ``n`` and ``seed`` draw the same resamples, so that intervals of one report are paired.
    """
    count = len(values)
    if count < 2:
        return None, None
    draws = numpy_generator(seed, "bootstrap", count).integers(0, count, size=(num_bootstrap, count))
    tail = (1 - confidence) / 2
    low, high = np.quantile(values[draws].mean(axis=1), [tail, 1 - tail])
    return float(low), float(high)
