"""The report as one HTML file: figures inline, no script, no request to the network."""

from html import escape
from typing import Any

import pandas as pd

from priorline.evaluation.metrics import METRICS
from priorline.evaluation.plots import calibration_dots, mean_bars, table_dots
from priorline.evaluation.promotion import Decision
from priorline.evaluation.report_content import (
    ReportFacts,
    caption,
    failures,
    leaderboard_cells,
    losses,
    metric_notes,
    sources,
)
from priorline.evaluation.summary import Summary

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #111; background: #fff; max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.2rem; }
table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #999; padding: .25rem .6rem; text-align: right; vertical-align: top; }
th:first-child, td:first-child, .words td { text-align: left; }
thead th { border-bottom: 2px solid #111; }
.scroll { overflow-x: auto; } img { max-width: 100%; height: auto; }
code, pre { background: #f2f2f2; padding: .1rem .3rem; overflow-wrap: anywhere; white-space: pre-wrap; }
.decision { border-left: 4px solid #111; padding: .2rem 1rem; }
"""


def html_page(rows: pd.DataFrame, facts: ReportFacts, summary: Summary, decision: Decision | None) -> str:
    """Return the page; every text from rows is escaped."""
    metrics = METRICS[facts.problem_type]
    main = next(iter(metrics.values()))
    header, lines = leaderboard_cells(rows, summary)
    parts = [f"<h1>Leaderboard: {escape(facts.suite)}</h1>", f"<p>{escape(caption(rows))}.</p>"]
    if decision:
        parts.append(f'<div class="decision"><h2>Decision</h2><p>{escape(decision.reason)}</p></div>')
    parts += [
        _table(header, lines),
        "<p>Rank 1 is best. Intervals are bootstraps over tables. A failure counts as the worst value of "
        f"its metric. {escape(' '.join(metric_notes(rows)))}</p>",
        mean_bars(summary, main),
        "<h2>Mean rank by metric</h2>",
        _rank_table(summary, {name: metric.title for name, metric in metrics.items()}),
        f"<h2>Won, tied, lost: {escape(main.title)}</h2>",
        "<p>Tables on which the row is better than, level with, worse than the column; below it the mean "
        "difference and its paired interval.</p>",
        _duel_table(summary, main.name),
        "<h2>Every table</h2>",
        table_dots(rows, summary, main),
        "<h2>Where a baseline is ahead</h2>",
        _frame(losses(rows), "No contender is behind a baseline on any table."),
        "<h2>Failures</h2>",
        _frame(failures(rows), "None."),
    ]
    if facts.problem_type == "classification":
        parts += ["<h2>Calibration</h2>", calibration_dots(rows, summary)]
    parts += ["<h2>Tables and licences</h2>", _frame(sources(rows), ""), _repeat(facts)]
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Leaderboard: {escape(facts.suite)}</title><style>{_STYLE}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def _rank_table(summary: Summary, titles: dict[str, str]) -> str:
    wide = summary.contenders.pivot(index="contender", columns="metric", values="mean_rank")
    metrics = [name for name in titles if name in wide.columns]
    order = pd.unique(summary.contenders["contender"])
    lines = [[str(name), *(f"{wide.loc[name, metric]:.2f}" for metric in metrics)] for name in order]
    return _table(["contender", *(titles[metric] for metric in metrics)], lines)


def _duel_table(summary: Summary, metric: str) -> str:
    names = [str(name) for name in pd.unique(summary.contenders["contender"])]
    if summary.pairs.empty:
        return "<p>There is a single contender.</p>"
    cells: dict[tuple[str, str], str] = {}
    for _, row in summary.pairs[summary.pairs["metric"] == metric].iterrows():
        a, b, known = row["a"], row["b"], not pd.isna(row["low"])
        span = f" [{row['low']:+.3f}, {row['high']:+.3f}]" if known else ""
        back = f" [{-row['high']:+.3f}, {-row['low']:+.3f}]" if known else ""
        cells[a, b] = f"{row['wins']}/{row['ties']}/{row['losses']}\n{row['mean_difference']:+.3f}{span}"
        cells[b, a] = f"{row['losses']}/{row['ties']}/{row['wins']}\n{-row['mean_difference']:+.3f}{back}"
    lines = [[a, *("" if a == b else cells.get((a, b), "-") for b in names)] for a in names]
    return _table(["", *names], lines)


def _repeat(facts: ReportFacts) -> str:
    items = "".join(
        f"<li><strong>{escape(name)}</strong>: {escape(text)}</li>" for name, text in facts.baselines.items()
    )
    kind = "stratified" if facts.problem_type == "classification" else "random"
    seeds = ", ".join(str(seed) for seed in facts.seeds)
    return (
        "<h2>How to get these numbers again</h2>"
        f"<pre>{escape(facts.command)}</pre>"
        f"<p>Suite <code>{escape(facts.suite)}</code>, hash <code>{escape(facts.suite_hash)}</code>; "
        f"{facts.num_splits} {kind} splits, seeds {seeds}; {facts.train_rows[0]} to "
        f"{facts.train_rows[1]} training and {facts.test_rows[0]} to {facts.test_rows[1]} test rows; "
        f"{facts.duplicate_share:.1%} of test rows have the features of a training row.</p>"
        f"<p>Baselines, one thread each:</p><ul>{items}</ul>"
    )


def _frame(frame: pd.DataFrame, empty: str) -> str:
    if frame.empty:
        return f"<p>{escape(empty)}</p>"
    lines = [[_cell(value) for value in row] for row in frame.itertuples(index=False)]
    return _table([str(name).replace("_", " ") for name in frame.columns], lines, "words")


def _cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _table(header: list[str], lines: list[list[str]], kind: str = "") -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell).replace(chr(10), '<br>')}</td>" for cell in line) + "</tr>"
        for line in lines
    )
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )
