import subprocess
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from priorline.inference.ensemble import plan_views, probabilities
from priorline.inference.in_context import plan_memory, sum_member_scores
from priorline.models.tabicl.config import PRESETS


class NearestRow(torch.nn.Module):
    """A learner whose answer is known: the class of the nearest train row, columns in any order."""

    def __init__(self):
        super().__init__()
        self.config = SimpleNamespace(embed_dim=4, row_num_cls=1, icl_num_blocks=1, ff_factor=2, max_classes=10)
        self.place = torch.nn.Parameter(torch.zeros(1))
        self.calls = []

    def represent_rows(self, x_BRC, train_size, num_columns_B=None, *, chunk_cells=None):
        self.calls.append(("rows", x_BRC.shape[0], x_BRC.shape[1] - train_size))
        return x_BRC

    def classify_rows(self, rows_BRE, y_BN, *, chunk_rows=None):
        self.calls.append(("classes", rows_BRE.shape[0], y_BN.shape[1]))
        num_train = y_BN.shape[1]
        distance_BMN = torch.cdist(rows_BRE[:, num_train:], rows_BRE[:, :num_train])
        codes_BM = y_BN.gather(1, distance_BMN.argmin(dim=-1))
        return 9.0 * torch.nn.functional.one_hot(codes_BM, 10).float()


PREDICT_IN_BUDGET = """
import resource, sys
import numpy as np
from priorline.inference.estimators import TabICLClassifier

x = np.random.default_rng(0).normal(size=(21_000, 20))
classifier = TabICLClassifier(sys.argv[1], num_members=4, memory_budget_mb=float(sys.argv[2]))
classifier.fit(x[:200], x[:200, 0] > 0).predict_proba(x[:200])
classifier.fit(x[:20_000], x[:20_000, 0] > 0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert np.isfinite(classifier.predict_proba(x[20_000:])).all()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def score(model, num_classes, num_members=8, budget_mb=1024.0):
    generator = np.random.default_rng(0)
    x_NC = generator.normal(size=(4 * num_classes, 5)).astype(np.float32)
    codes_N = np.arange(len(x_NC)) % num_classes
    views = plan_views(
        num_members,
        num_columns=5,
        num_classes=num_classes,
        normalizations=("none", "power"),
        feature_shuffle="latin",
        class_shift=True,
        generator=generator,
    )
    chosen_M = generator.permutation(len(x_NC))[: 3 * num_classes]
    train = {"none": x_NC, "power": 2 * x_NC}
    scores = sum_member_scores(
        model,
        train,
        codes_N,
        {norm: x[chosen_M] for norm, x in train.items()},
        views,
        num_classes=num_classes,
        temperature=1.0,
        average_logits=True,
        budget_mb=budget_mb,
    )
    return probabilities(scores, num_members, True), codes_N[chosen_M]


@pytest.mark.parametrize("num_classes", [2, 10, 12, 26, 137])
@pytest.mark.parametrize("budget_mb", [1024.0, 0.01])
def test_members_in_any_order_agree_on_the_class(num_classes, budget_mb):
    proba, wanted = score(NearestRow(), num_classes, budget_mb=budget_mb)
    assert (proba.argmax(axis=1) == wanted).all()
    # All members are equally sure, so every one must have had its classes put back in place.
    assert proba.max(axis=1).min() > 0.98


def test_views_are_embedded_once_for_all_their_members():
    model = NearestRow()
    score(model, 3, num_members=8)
    assert [call for call in model.calls if call[0] == "rows"] == [("rows", 4, 9)]
    assert [call for call in model.calls if call[0] == "classes"] == [("classes", 8, 12)]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_smaller_budget_never_asks_for_larger_pieces(preset):
    model = SimpleNamespace(config=PRESETS[preset]())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plans = [plan_memory(model, 20_000, 5_000, 20, budget) for budget in (0.1, 64, 1024, 64_000)]
    for name in ("query_rows", "views", "members", "chunk_cells"):
        sizes = [getattr(plan, name) for plan in plans]
        assert sizes == sorted(sizes)
        assert sizes[0] >= 1


def test_twenty_thousand_rows_stay_within_the_budget(random_weights):
    command = [sys.executable, "-c", PREDICT_IN_BUDGET, str(random_weights), "64"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    # Without cutting, the peak is above 190 MiB.
    assert float(done.stdout) < 64


def test_a_context_beyond_the_budget_is_named():
    model = SimpleNamespace(config=PRESETS["tabicl-v1"]())
    with pytest.warns(UserWarning, match="50000 rows takes about .* MiB, more than memory_budget_mb=256"):
        plan_memory(model, 50_000, 1000, 20, 256)
