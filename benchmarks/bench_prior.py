"""Datasets per CPU-second of TabICL's v1 prior: ours, or the authors' package with ``is_causal`` drawn."""

import random
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from benchmarks.measuring import emit, peak_mib
from benchmarks.peers import package_prior

ROWS, COLUMNS, GROUP, DATASETS = 1024, 100, 4, 96


def ours() -> Callable[[int], object]:
    """Return a sampler of one group of datasets."""
    from priorline.batches import BatchSpec
    from priorline.priors.tabicl import TabICLPrior, TabICLPriorConfig

    prior = TabICLPrior(TabICLPriorConfig(max_columns=COLUMNS))
    return lambda seed: prior.sample(
        BatchSpec(seed=seed, num_datasets=GROUP, group_size=GROUP, rows=ROWS, train_size=ROWS // 2)
    )


def package() -> Callable[[int], object]:
    """Return the package's sampler."""
    draw = package_prior(rows=ROWS, columns=COLUMNS, group=GROUP)
    return lambda seed: draw()


def main() -> None:
    """Print one JSON line."""
    torch.set_num_threads(1)
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    base = peak_mib()
    sample = {"ours": ours, "package": package}[sys.argv[1]]()
    sample(10_000)
    start = time.process_time()
    for seed in range(DATASETS // GROUP):
        sample(seed)
    rate = DATASETS / (time.process_time() - start)
    emit(datasets_per_cpu_s=rate, peak_over_base_mib=peak_mib() - base)


if __name__ == "__main__":
    main()
