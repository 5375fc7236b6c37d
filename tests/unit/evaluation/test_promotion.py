"""The promotion rule and the comparisons under it, on made-up rows."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pytest

from priorline.errors import InputError
from priorline.evaluation.comparison import compare, metric_of, score_cells
from priorline.evaluation.config import PromotionConfig
from priorline.evaluation.promotion import decide
from priorline.evaluation.summary import summarize

CONFIG = PromotionConfig()
STRICT = PromotionConfig(rule="interval_above_zero")
GOOD, BETTER = (0.80, 0.85, 0.90, 0.70), (0.81, 0.86, 0.92, 0.71)
FLOOR = (0.5, 0.5, 0.5, 0.5)
NAN = float("nan")

Scores = Mapping[str, Sequence[float | None]]


def rows_of(scores: Scores, metric: str = "roc_auc", num_splits: int = 1, suite_hash: str = "h") -> pd.DataFrame:
    """Return rows: one table per position; NaN is a failure, None no row at all."""
    rows = [
        {
            "suite": "made",
            "suite_hash": suite_hash,
            "problem_type": "classification",
            "table": f"t{number}",
            "split": split,
            "contender": contender,
            "is_baseline": contender == "majority",
            "metric": metric,
            "value": value + 0.001 * split,
            "error": "RuntimeError: full" if value != value else "",
            "fit_s": 0.1,
            "predict_s": 0.1,
        }
        for contender, values in scores.items()
        for number, value in enumerate(values)
        for split in range(num_splits)
        if value is not None
    ]
    return pd.DataFrame(rows)


def test_first_champion_needs_only_the_floor() -> None:
    decision = decide(rows_of({"new": GOOD, "majority": FLOOR}), ["new"], None, CONFIG)
    assert decision.promote
    assert (decision.winner, decision.challenger, decision.champion_before) == ("new", None, None)
    assert "new becomes champion, the first: mean ROC AUC +0.3125 against majority" in decision.reason
    assert [(item.a, item.b) for item in decision.comparisons] == [("new", "majority")]


def test_nobody_below_the_floor_is_promoted() -> None:
    mixed = (0.9, 0.4, 0.6, 0.45)
    decision = decide(rows_of({"new": mixed, "majority": FLOOR}), ["new"], None, CONFIG)
    assert not decision.promote
    assert decision.winner is None
    assert "No champion is named: new is not above the floor with its whole interval" in decision.reason


def test_floor_counts_even_against_a_weak_champion() -> None:
    scores = {"new": (0.9, 0.4, 0.6, 0.45), "old": (0.4, 0.4, 0.4, 0.4), "majority": FLOOR}
    decision = decide(rows_of(scores), ["new"], "old", CONFIG)
    assert not decision.promote
    assert decision.reason.startswith("old stays champion")


def test_a_better_candidate_replaces_the_champion() -> None:
    decision = decide(rows_of({"new": BETTER, "old": GOOD, "majority": FLOOR}), ["new"], "old", STRICT)
    assert decision.promote
    assert decision.winner == "new"
    assert decision.champion_before == "old"
    versus = decision.comparisons[1]
    assert (versus.a, versus.b, versus.tables, versus.wins) == ("new", "old", 4, 4)
    assert versus.low is not None
    assert 0 < versus.low <= versus.mean_difference <= (versus.high or 0)


def test_a_tie_keeps_the_champion() -> None:
    decision = decide(rows_of({"new": GOOD, "old": GOOD, "majority": FLOOR}), ["new"], "old", CONFIG)
    assert not decision.promote
    assert decision.challenger == "new"
    assert "old stays champion: new ties, and a tie keeps the champion" in decision.reason


def test_rule_decides_between_mean_and_interval() -> None:
    uneven = (0.79, 0.84, 0.95, 0.72)
    rows = rows_of({"new": uneven, "old": GOOD, "majority": FLOOR})
    assert decide(rows, ["new"], "old", CONFIG).promote
    strict = decide(rows, ["new"], "old", STRICT)
    assert not strict.promote
    assert "does not beat it with its whole interval" in strict.reason


def test_best_of_several_wins_and_the_next_is_challenger() -> None:
    scores = {"worse": (0.6, 0.6, 0.7, 0.6), "best": BETTER, "good": GOOD, "majority": FLOOR}
    decision = decide(rows_of(scores), ["worse", "good", "best"], None, CONFIG)
    assert (decision.winner, decision.challenger) == ("best", "good")
    versus_good = decide(rows_of(scores), ["worse", "best"], "good", CONFIG)
    assert (versus_good.winner, versus_good.challenger) == ("best", "worse")


def test_of_equal_candidates_the_first_named_wins() -> None:
    rows = rows_of({"b": GOOD, "a": GOOD, "majority": FLOOR})
    assert decide(rows, ["a", "b"], None, CONFIG).winner == "a"
    assert decide(rows, ["b", "a"], None, CONFIG).winner == "b"


def test_champion_among_the_candidates_does_not_challenge_itself() -> None:
    rows = rows_of({"old": GOOD, "majority": FLOOR})
    for candidates in (["old"], []):
        decision = decide(rows, candidates, "old", CONFIG)
        assert not decision.promote
        assert decision.reason == "old stays champion: there is no other candidate."


def test_a_failure_counts_as_the_worst_value() -> None:
    rows = rows_of({"new": (*BETTER[:3], NAN), "old": GOOD, "majority": FLOOR})
    decision = decide(rows, ["new"], "old", CONFIG)
    assert not decision.promote
    assert decision.comparisons[1].mean_difference < -0.1
    assert "Failed, and counted as worst there: new on 1 splits." in decision.reason
    failing_champion = rows_of({"new": GOOD, "old": (*BETTER[:3], NAN), "majority": FLOOR})
    assert decide(failing_champion, ["new"], "old", CONFIG).promote


def test_a_candidate_cannot_gain_by_leaving_a_table_out() -> None:
    rows = rows_of({"new": (*BETTER[:3], None), "old": GOOD, "majority": FLOOR})
    decision = decide(rows, ["new"], "old", CONFIG)
    assert not decision.promote
    assert decision.comparisons[1].tables == 4


def test_tables_the_champion_lacks_are_left_out() -> None:
    rows = rows_of({"new": BETTER, "old": (None, *GOOD[1:]), "majority": FLOOR})
    decision = decide(rows, ["new"], "old", CONFIG)
    assert decision.promote
    assert decision.comparisons[1].tables == 3


def test_single_table_uses_its_splits_and_a_single_split_proves_nothing() -> None:
    scores = {"new": BETTER[:1], "majority": FLOOR[:1]}
    assert decide(rows_of(scores, num_splits=3), ["new"], None, CONFIG).promote
    alone = decide(rows_of(scores), ["new"], None, CONFIG)
    assert not alone.promote
    assert alone.comparisons[0].low is None
    assert "no interval: a single split of one table" in alone.reason


def test_lower_is_better_metrics_are_turned_round() -> None:
    config = PromotionConfig(metric="log_loss")
    scores = {"new": (0.2, 0.3, 0.4), "old": (0.3, 0.4, 0.5), "majority": (0.7, 0.7, 0.7)}
    decision = decide(rows_of(scores, "log_loss"), ["new"], "old", config)
    assert decision.promote
    assert decision.comparisons[1].mean_difference == pytest.approx(0.1)
    failed = decide(rows_of(scores | {"new": (0.2, NAN, 0.4)}, "log_loss"), ["new"], "old", config)
    assert not failed.promote


def test_decision_is_pure_and_survives_json() -> None:
    rows = rows_of({"new": BETTER, "old": GOOD, "majority": FLOOR})
    before = rows.copy()
    first = decide(rows, ["new"], "old", CONFIG)
    assert first == decide(rows.sample(frac=1, random_state=1), ["new"], "old", CONFIG)
    pd.testing.assert_frame_equal(rows, before)
    assert type(first).model_validate_json(first.model_dump_json()) == first


def test_rows_that_cannot_be_compared_are_refused() -> None:
    rows = rows_of({"new": GOOD, "majority": FLOOR})
    with pytest.raises(InputError, match="champion 'old' has no rows"):
        decide(rows, ["new"], "old", CONFIG)
    with pytest.raises(InputError, match="candidate 'other' has no rows"):
        decide(rows, ["other"], None, CONFIG)
    with pytest.raises(InputError, match="floor 'random' has no rows"):
        decide(rows, ["new"], None, PromotionConfig(floor="random"))
    with pytest.raises(InputError, match="metric 'accuracy' is not in the rows"):
        decide(rows, ["new"], None, PromotionConfig(metric="accuracy"))
    with pytest.raises(InputError, match="same suite"):
        decide(pd.concat([rows, rows_of({"old": GOOD}, suite_hash="other")]), ["new"], "old", CONFIG)
    with pytest.raises(InputError, match="two rows for roc_auc"):
        decide(pd.concat([rows, rows]), ["new"], None, CONFIG)
    with pytest.raises(InputError, match="no rows"):
        decide(rows[:0], ["new"], None, CONFIG)


def test_bootstrap_interval_covers_the_mean_as_often_as_it_says() -> None:
    generator = np.random.default_rng(5)
    metric = metric_of(rows_of({"a": GOOD}), "roc_auc")
    hits = 0
    for _ in range(200):
        differences = generator.normal(0.01, 0.05, size=30)
        cells = score_cells(rows_of({"a": 0.5 + differences, "b": np.full(30, 0.5)}), metric)
        pair = compare(cells, "a", "b", metric, num_bootstrap=400)
        assert pair.low is not None
        assert pair.high is not None
        hits += pair.low <= 0.01 <= pair.high
    # 95 % promised; a percentile bootstrap of 30 gives a little less; 3 standard errors are 0.05.
    assert 0.88 <= hits / 200 <= 0.99


def test_summary_ranks_and_pairs_by_hand() -> None:
    rows = rows_of({"a": (0.9, 0.8, 0.7), "b": (0.8, 0.8, 0.9), "majority": (0.5, NAN, None)})
    summary = summarize(rows)
    by_name = summary.contenders.set_index("contender")
    assert by_name["mean_rank"].to_dict() == {
        "a": pytest.approx((1 + 1.5 + 2) / 3),
        "b": pytest.approx((2 + 1.5 + 1) / 3),
        "majority": 3,
    }
    assert by_name.loc["majority", "mean"] == 0.25
    assert by_name.loc["majority", "failures"] == 1
    assert by_name.loc["majority", "tables"] == 2
    pair = summary.pairs.set_index(["a", "b"]).loc[("a", "b")]
    assert (pair["wins"], pair["ties"], pair["losses"], pair["tables"]) == (1, 1, 1, 3)
    assert pair["mean_difference"] == pytest.approx(-0.1 / 3)
    assert pair["low"] <= pair["mean_difference"] <= pair["high"]
