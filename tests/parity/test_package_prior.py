"""Our v1 prior draws from the distribution of the package's: two-sample tests at fixed seeds."""

import pandas as pd
import pytest
import torch
from scipy.stats import ks_2samp
from tests.parity.prior_statistics import COLUMNS, STORED, STORED_DATASETS, our_draws, package_draws, table_of

from priorline.configs.tabicl import EASY_SCM
from priorline.priors.tabicl import TabICLPriorConfig

ERROR_RATE = 0.01
"""Chance that two samples of one distribution differ in any statistic, shared among them (Bonferroni)."""


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def differing(ours: pd.DataFrame, peers: pd.DataFrame) -> dict[str, float]:
    """Return the statistics whose distributions differ, with their p-values (Kolmogorov-Smirnov)."""
    found = {name: float(ks_2samp(ours[name], peers[name]).pvalue) for name in peers}
    return {name: value for name, value in found.items() if value < ERROR_RATE / len(found)}


@pytest.fixture(scope="module")
def stored() -> pd.DataFrame:
    """500 datasets of tabicl 2.2.0 with is_causal drawn, as `prior_statistics` wrote them."""
    return pd.read_csv(STORED)


def test_the_distribution_is_the_packages(stored):
    ours = table_of(our_draws(TabICLPriorConfig(max_columns=COLUMNS), seed=0), 300)
    assert differing(ours, stored) == {}


def test_another_prior_is_told_apart(stored):
    easier = table_of(our_draws(TabICLPriorConfig(max_columns=COLUMNS, scm=EASY_SCM), seed=0), 150)
    assert {"correlation", "forest_gain"} <= set(differing(easier, stored))


def test_a_prior_without_its_tree_models_is_told_apart(stored):
    only_mlp = table_of(our_draws(TabICLPriorConfig(max_columns=COLUMNS, mlp_prob=1.0), seed=0), 150)
    assert differing(only_mlp, stored)


@pytest.mark.slow
def test_the_distribution_is_the_packages_drawn_anew():
    ours = table_of(our_draws(TabICLPriorConfig(max_columns=COLUMNS), seed=1), STORED_DATASETS)
    assert differing(ours, table_of(package_draws(seed=1), STORED_DATASETS)) == {}
