"""Rows to what a reader asks: means with intervals, ranks, wins and losses of each pair."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from priorline.evaluation.comparison import (
    TIE_WIDTH,
    bootstrap_interval,
    compare,
    metric_of,
    problem_type_of,
    score_cells,
)
from priorline.evaluation.metrics import METRICS, Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The tables of a report."""

    contenders: pd.DataFrame
    """contender, is_baseline, metric, mean, low, high, mean_rank, tables, failures, fit_s, predict_s;
    one row per contender and metric, best mean rank of the main metric first."""
    pairs: pd.DataFrame
    """The fields of `Comparison`; one row per metric and unordered pair."""


def summarize(rows: pd.DataFrame, *, confidence: float = 0.95, num_bootstrap: int = 2000, seed: int = 0) -> Summary:
    """Return means, mean ranks, and paired comparisons of all contenders in ``rows``, per metric.

    Intervals are bootstraps over tables. A failure counts as the worst value of the metric's range,
    in means and in ranks; ``failures`` counts the splits concerned.

    Raises
    ------
    InputError
        If rows are empty or of several suites.
    """
    present = set(rows["metric"])
    names = [name for name in METRICS[problem_type_of(rows)] if name in present]
    facts = _facts(rows)
    contenders, pairs = [], []
    for name in names:
        metric = metric_of(rows, name)
        cells = score_cells(rows, metric)
        contenders.append(_means(cells, metric, confidence, num_bootstrap, seed))
        for a, b in combinations(cells.columns, 2):
            if not (cells[a] - cells[b]).dropna().empty:
                pair = compare(cells, a, b, metric, confidence=confidence, num_bootstrap=num_bootstrap, seed=seed)
                pairs.append(pair.model_dump())
    table = pd.concat(contenders, ignore_index=True).merge(facts, on="contender")
    main = table[table["metric"] == names[0]].sort_values("mean_rank", kind="stable")["contender"].tolist()
    table["metric"] = pd.Categorical(table["metric"], names)
    table["contender"] = pd.Categorical(table["contender"], main)
    table = table.sort_values(["metric", "contender"], ignore_index=True)
    table = table.astype({"metric": object, "contender": object})
    return Summary(contenders=table, pairs=pd.DataFrame(pairs))


def table_means(rows: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    """Return the metric's own values, tables as index and contenders as columns, mean over splits."""
    means = score_cells(rows, metric).groupby(level="table", sort=False).mean()
    return means if metric.higher_is_better else -means


def _means(cells: pd.DataFrame, metric: Metric, confidence: float, num_bootstrap: int, seed: int) -> pd.DataFrame:
    scores = cells.groupby(level="table", sort=False).mean()
    # Rounding keeps what is a tie to the reader a tie in rank.
    digits = int(-np.log10(TIE_WIDTH))
    ranks = scores.round(digits).rank(axis=1, ascending=False, na_option="bottom").mean()
    sign = 1 if metric.higher_is_better else -1
    records = []
    for contender in cells.columns:
        values = (scores[contender] * sign).dropna().to_numpy()
        units = values if len(values) > 1 else (cells[contender] * sign).dropna().to_numpy()
        low, high = bootstrap_interval(units, confidence=confidence, num_bootstrap=num_bootstrap, seed=seed)
        records.append(
            {
                "contender": contender,
                "metric": metric.name,
                "mean": values.mean(),
                "low": low,
                "high": high,
                "mean_rank": ranks[contender],
                "tables": len(values),
            }
        )
    return pd.DataFrame(records)


def _facts(rows: pd.DataFrame) -> pd.DataFrame:
    fits = rows.drop_duplicates(["table", "split", "contender"])
    grouped = fits.groupby("contender", sort=False)
    return pd.DataFrame(
        {
            "is_baseline": grouped["is_baseline"].first(),
            "failures": grouped["error"].agg(lambda errors: int((errors != "").sum())),
            "fit_s": grouped["fit_s"].mean(),
            "predict_s": grouped["predict_s"].mean(),
        }
    ).reset_index()
