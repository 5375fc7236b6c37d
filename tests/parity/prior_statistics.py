"""Statistics of synthetic datasets, ours and the package's.

``python -m tests.parity.prior_statistics`` stores the latter in ``package_prior.csv`` (tabicl 2.2.0).

One dataset per group: datasets of a group share hyper-parameters, and a two-sample test needs independent draws.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy.stats import kurtosis, skew
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss

ROWS, COLUMNS = 256, 20
STORED = Path(__file__).with_name("package_prior.csv")
STORED_DATASETS, STORED_SEED = 500, 0


def statistics_of(x_RC: np.ndarray, y_R: np.ndarray) -> dict[str, float]:
    """Return what is compared of one dataset, all of it finite."""
    half = len(y_R) // 2
    counts = np.unique(y_R, return_counts=True)[1] / len(y_R)
    spread_C = x_RC.std(axis=0)
    varied = x_RC[:, spread_C > 0]
    correlations = np.abs(np.corrcoef(varied, rowvar=False)[np.triu_indices(varied.shape[1], k=1)])
    distinct_C = np.array([len(np.unique(column)) for column in x_RC.T])
    forest = RandomForestClassifier(n_estimators=30, min_samples_leaf=3, random_state=0).fit(x_RC[:half], y_R[:half])
    labels = np.unique(y_R[:half])
    known = np.isin(y_R[half:], labels)
    shares = np.array([(y_R[:half] == label).mean() for label in labels])
    truth, proba = y_R[half:][known], forest.predict_proba(x_RC[half:][known])
    return {
        "classes": len(counts),
        "entropy": float(-(counts * np.log(counts)).sum()),
        "largest_class": float(counts.max()),
        "columns": x_RC.shape[1],
        "correlation": float(correlations.mean()) if len(correlations) else 0.0,
        "skewness": float(np.median(np.abs(skew(varied, axis=0)))),
        "kurtosis": float(np.median(kurtosis(varied, axis=0))),
        "few_values": float((distinct_C <= 20).mean()),
        "forest_gain": log_loss(truth, np.tile(shares, (len(truth), 1)), labels=labels)
        - log_loss(truth, proba, labels=labels),
    }


def table_of(draws: Iterator[tuple[np.ndarray, np.ndarray]], count: int) -> pd.DataFrame:
    """Return one row of statistics for each of ``count`` draws."""
    return pd.DataFrame([statistics_of(*next(draws)) for _ in range(count)])


def our_draws(config: object, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (x_RC, y_R) of our prior."""
    from priorline.batches import BatchSpec
    from priorline.priors.tabicl import TabICLPrior
    from priorline.seeding import derive_seed

    prior = TabICLPrior(config)
    number = 0
    while True:
        place = derive_seed(seed, "two-sample", number)
        batch = prior.sample(BatchSpec(seed=place, num_datasets=1, group_size=1, rows=ROWS, train_size=ROWS // 2))
        yield batch.x_BRC[0, :, : int(batch.num_columns_B[0])].numpy(), batch.y_BR[0].numpy()
        number += 1


def package_draws(seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (x_RC, y_R) of the package's prior."""
    from benchmarks.peers import package_prior

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    draw: Callable = package_prior(rows=ROWS, columns=COLUMNS, group=1, train_fractions=(0.499, 0.501))
    while True:
        x_BRC, y_BR, num_columns_B = draw()
        yield x_BRC[0, :, : int(num_columns_B[0])].numpy(), y_BR[0].numpy()


if __name__ == "__main__":
    torch.set_num_threads(1)
    table_of(package_draws(STORED_SEED), STORED_DATASETS).to_csv(STORED, index=False, float_format="%.5g")
