import numpy as np
import pytest
import torch

from priorline.errors import InputError
from priorline.inference.ensemble import class_scores, plan_views, probabilities


def views_of(num_members=8, num_columns=6, num_classes=3, seed=0, **changes):
    params = {
        "normalizations": ("none", "power"),
        "feature_shuffle": "latin",
        "class_shift": True,
        "generator": np.random.default_rng(seed),
        **changes,
    }
    return plan_views(num_members, num_columns=num_columns, num_classes=num_classes, **params)


def members_of(views):
    return [(view.normalization, view.columns, shift) for view in views for shift in view.class_shifts]


@pytest.mark.parametrize("num_members", [1, 2, 3, 8, 32])
def test_there_are_as_many_distinct_members_as_asked(num_members):
    members = members_of(views_of(num_members, num_columns=30))
    assert len(members) == len(set(members)) == num_members
    assert members[0] == ("none", tuple(range(30)), 0)


def test_members_share_views_in_pairs():
    views = views_of(8)
    assert len(views) == 4
    assert all(len(view.class_shifts) == 2 for view in views)


@pytest.mark.parametrize(("num_columns", "num_classes", "most"), [(1, 2, 4), (1, 5, 10), (2, 2, 8), (3, 2, 24)])
def test_small_tables_get_each_distinct_member_once(num_columns, num_classes, most):
    members = members_of(views_of(64, num_columns=num_columns, num_classes=num_classes))
    assert len(members) == len(set(members)) <= most
    assert len(members) >= min(most, 12)


def test_latin_orders_never_repeat_a_place():
    orders = np.array([view.columns for view in views_of(16, num_columns=12, normalizations=("none",))])
    assert all(len(set(orders[:, place])) == len(orders) for place in range(12))


def test_shuffles_can_be_switched_off():
    views = views_of(8, feature_shuffle="none", class_shift=False)
    assert members_of(views) == [("none", tuple(range(6)), 0), ("power", tuple(range(6)), 0)]
    with pytest.raises(InputError, match="did you mean 'latin'"):
        views_of(feature_shuffle="latine")


def test_the_seed_fixes_the_views():
    assert views_of(seed=1) == views_of(seed=1)
    assert views_of(seed=1) != views_of(seed=2)


def test_many_columns_are_cheap_to_order():
    assert len(views_of(8, num_columns=50_000)) == 4


@pytest.mark.parametrize("average_logits", [True, False])
def test_scores_return_to_the_order_of_classes(average_logits):
    logits = torch.tensor([[[0.0, 1.0, 3.0]]], dtype=torch.float64)
    expected = torch.softmax(logits[0], dim=-1).numpy()
    shifts = [0, 1, 2]
    # A member with shift s shows class c as (c + s) mod 3.
    shown = torch.cat([logits.roll(shift, dims=-1) for shift in shifts]).log_softmax(dim=-1)
    members = zip(shown, shifts, strict=True)
    scores = sum(class_scores(log_probs_MK, shift, average_logits) for log_probs_MK, shift in members)
    np.testing.assert_allclose(probabilities(scores, 3, average_logits), expected)
