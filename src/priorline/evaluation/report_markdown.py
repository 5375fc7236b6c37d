"""The report as Markdown, for pages, terminals and pull requests."""

from typing import Any

import pandas as pd

from priorline.evaluation.comparison import score_cells
from priorline.evaluation.metrics import METRICS
from priorline.evaluation.promotion import Decision
from priorline.evaluation.report_content import (
    ReportFacts,
    caption,
    failures,
    interval_text,
    leaderboard_cells,
    losses,
    main_metric,
    metric_notes,
    sources,
)
from priorline.evaluation.summary import Summary, summarize


def markdown_leaderboard(rows: pd.DataFrame) -> str:
    """Return suite, splits and the table of means and ranks as Markdown."""
    return "\n".join(_leaderboard_lines(rows, summarize(rows)))


def markdown_report(rows: pd.DataFrame, facts: ReportFacts, summary: Summary, decision: Decision | None) -> str:
    """Return the whole report without figures as Markdown."""
    lines = _leaderboard_lines(rows, summary)
    if decision:
        lines += ["", "## Decision", "", decision.reason]
    titles = {name: metric.title for name, metric in METRICS[facts.problem_type].items()}
    pairs = summary.pairs
    if len(pairs):
        lines += [
            "",
            "## Pairs",
            "",
            "Positive: the first is better. Intervals are paired bootstraps over tables.",
            "",
        ]
        body = [
            [
                row["a"],
                row["b"],
                titles[row["metric"]],
                f"{row['mean_difference']:+.4f}",
                interval_text(row, "+.4f"),
            ]
            + [str(row[key]) for key in ("wins", "ties", "losses")]
            for _, row in pairs.iterrows()
        ]
        lines += markdown_table(["first", "second", "metric", "difference", "interval", "won", "tied", "lost"], body)
    for title, frame in (("Losses", losses(rows)), ("Failures", failures(rows)), ("Tables", sources(rows))):
        lines += ["", f"## {title}", ""]
        if frame.empty:
            lines.append("None.")
        else:
            body = [[_cell(value) for value in row] for row in frame.itertuples(index=False)]
            lines += markdown_table(list(frame.columns), body)
    lines += ["", "## How to get these numbers again", "", f"    {facts.command}", ""]
    lines += [f"- {name}: {settings}" for name, settings in facts.baselines.items()]
    return "\n".join(lines) + "\n"


def _leaderboard_lines(rows: pd.DataFrame, summary: Summary) -> list[str]:
    header, lines = leaderboard_cells(rows, summary)
    cells = score_cells(rows, main_metric(rows))
    table = markdown_table(header, lines)
    note = "Mean rank over tables, 1 is best; intervals are bootstraps over tables."
    if cells.isna().any(axis=None):
        note += " Some contenders were not judged on all tables."
    note = " ".join([note, *metric_notes(rows)])
    return ["# Leaderboard", "", f"{caption(rows)}.", "", *table, "", note]


def markdown_table(header: list[str], lines: list[list[str]]) -> list[str]:
    """Return the lines of a Markdown table; a bar inside a cell is escaped."""
    rows = [header, ["---"] * len(header), *lines]
    return ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]


def _cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
