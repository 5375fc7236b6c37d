"""Should a candidate become champion? A pure function of metric rows; it stores and moves nothing."""

from collections.abc import Sequence

import pandas as pd

from priorline.config_io import Config
from priorline.errors import InputError
from priorline.evaluation.comparison import (
    TIE_WIDTH,
    Comparison,
    compare,
    metric_of,
    problem_type_of,
    score_cells,
)
from priorline.evaluation.config import PromotionConfig
from priorline.evaluation.metrics import Metric
from priorline.evaluation.problem_types import promotion_floor, promotion_metric


class Decision(Config):
    """What should happen, and why in words."""

    promote: bool
    """True: ``winner`` becomes champion."""
    winner: str | None
    """Candidate that becomes champion; None when nothing changes."""
    challenger: str | None
    """Best other candidate above the floor, worth keeping in sight; None when there is none."""
    champion_before: str | None
    """Champion it was decided against; None when there was none."""
    reason: str
    """Whole sentences for a report."""
    comparisons: tuple[Comparison, ...]
    """Each candidate against the floor and, if there is one, the champion."""


def decide(
    rows: pd.DataFrame,
    candidates: Sequence[str],
    champion: str | None,
    config: PromotionConfig,
    *,
    seed: int = 0,
) -> Decision:
    """Return whether one of ``candidates`` should replace ``champion``.

    A candidate must beat the floor with its whole interval and the champion by ``config.rule``; a
    tie keeps the champion. Of several, the one furthest above the floor wins, of equals the first.
    A split on which a candidate failed, or was not judged although its opponent was, counts as the
    worst value there; splits that the champion was not judged on are left out of that comparison.

    Parameters
    ----------
    rows : DataFrame
        From `priorline.evaluation.runner.evaluate`: candidates, champion and floor on one suite.
    champion : str or None
        Its contender name; None when nothing has been promoted yet.

    Raises
    ------
    InputError
        If a name has no rows, or rows are of several suites.
    """
    problem_type = problem_type_of(rows)
    metric = metric_of(rows, promotion_metric(config, problem_type))
    floor = promotion_floor(config, problem_type)
    cells = score_cells(rows, metric)
    contestants = [name for name in dict.fromkeys(candidates) if name != champion]
    _check_names(cells, contestants, champion, floor, metric)
    if not contestants:
        return Decision(
            promote=False,
            winner=None,
            challenger=None,
            champion_before=champion,
            reason=f"{champion or 'Nothing'} stays champion: there is no other candidate.",
            comparisons=(),
        )
    to_floor = {name: _against(cells, name, floor, metric, config, seed) for name in contestants}
    above_floor = [name for name in contestants if _interval_above_zero(to_floor[name])]
    above_floor.sort(key=lambda name: -to_floor[name].mean_difference)
    to_champion: dict[str, Comparison] = {}
    passing = above_floor
    if champion is not None:
        to_champion = {name: _against(cells, name, champion, metric, config, seed) for name in contestants}
        passing = [name for name in above_floor if _beats(to_champion[name], config)]
    winner = passing[0] if passing else None
    others = [name for name in above_floor if name != winner]
    reason = _reason(metric, config, winner, champion, to_floor, to_champion)
    return Decision(
        promote=winner is not None,
        winner=winner,
        challenger=others[0] if others else None,
        champion_before=champion,
        reason=f"{reason}{_failures(rows, metric, [*contestants, champion])}",
        comparisons=(*to_floor.values(), *to_champion.values()),
    )


def _check_names(cells: pd.DataFrame, contestants: list[str], champion: str | None, floor: str, metric: Metric) -> None:
    for role, names in (("candidate", contestants), ("champion", [champion]), ("floor", [floor])):
        for name in names:
            if name is not None and name not in cells.columns:
                raise InputError(
                    f"{role} {name!r} has no rows of {metric.name}, there are {list(cells.columns)}; "
                    "evaluate it on the same suite as the others"
                )


def _against(
    cells: pd.DataFrame, name: str, other: str, metric: Metric, config: PromotionConfig, seed: int
) -> Comparison:
    """Compare with ``other``, the candidate's missing splits counted as failures."""
    worst = metric.worst if metric.higher_is_better else -metric.worst
    return compare(
        cells.assign(**{name: cells[name].fillna(worst)}),
        name,
        other,
        metric,
        confidence=config.confidence,
        num_bootstrap=config.num_bootstrap,
        seed=seed,
    )


def _interval_above_zero(comparison: Comparison) -> bool:
    return comparison.low is not None and comparison.low > TIE_WIDTH


def _beats(comparison: Comparison, config: PromotionConfig) -> bool:
    if config.rule == "interval_above_zero":
        return _interval_above_zero(comparison)
    return comparison.mean_difference > TIE_WIDTH


def _reason(
    metric: Metric,
    config: PromotionConfig,
    winner: str | None,
    champion: str | None,
    to_floor: dict[str, Comparison],
    to_champion: dict[str, Comparison],
) -> str:
    if winner is not None:
        start = f"{winner} becomes champion"
        if champion is None:
            return f"{start}, the first: {_in_words(to_floor[winner], metric, config)}."
        versus = _in_words(to_champion[winner], metric, config)
        return f"{start}: {versus}; {_in_words(to_floor[winner], metric, config)}."
    lines = []
    for name, comparison in to_floor.items():
        if not _interval_above_zero(comparison):
            what = _in_words(comparison, metric, config)
            lines.append(f"{name} is not above the floor with its whole interval: {what}")
        elif name in to_champion:
            what = _in_words(to_champion[name], metric, config)
            tie = abs(to_champion[name].mean_difference) <= TIE_WIDTH
            lines.append(f"{name} {'ties, and a tie keeps the champion' if tie else _shortfall(config)}: {what}")
    start = f"{champion} stays champion" if champion else "No champion is named"
    return f"{start}: {'; '.join(lines)}."


def _shortfall(config: PromotionConfig) -> str:
    if config.rule == "interval_above_zero":
        return "does not beat it with its whole interval"
    return "does not beat it in the mean"


def _in_words(comparison: Comparison, metric: Metric, config: PromotionConfig) -> str:
    if comparison.low is None or comparison.high is None:
        interval = "no interval: a single split of one table"
    else:
        interval = f"{config.confidence:.0%} interval {comparison.low:+.4f} to {comparison.high:+.4f}"
    direction = "" if metric.higher_is_better else " (lower is better; + means less)"
    count = f"{comparison.tables} table{'s' if comparison.tables != 1 else ''}"
    return (
        f"mean {metric.title}{direction} {comparison.mean_difference:+.4f} against {comparison.b} "
        f"({interval}; {count}, {comparison.wins} won, {comparison.ties} tied, {comparison.losses} lost)"
    )


def _failures(rows: pd.DataFrame, metric: Metric, names: Sequence[str | None]) -> str:
    chosen = rows[(rows["metric"] == metric.name) & rows["value"].isna()]
    counts = {name: int((chosen["contender"] == name).sum()) for name in names if name is not None}
    parts = [f"{name} on {count} splits" for name, count in counts.items() if count]
    return f" Failed, and counted as worst there: {', '.join(parts)}." if parts else ""
