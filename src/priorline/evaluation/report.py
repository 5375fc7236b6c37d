"""The files of a report, and the leaderboard in the terminal."""

import json
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.table import Table

from priorline.datasets.files import write_bytes
from priorline.evaluation.config import EvaluationConfig
from priorline.evaluation.promotion import Decision
from priorline.evaluation.report_content import (
    caption,
    failures,
    leaderboard,
    leaderboard_cells,
    losses,
    plain_records,
    report_facts,
    sources,
)
from priorline.evaluation.report_html import html_page
from priorline.evaluation.report_markdown import markdown_leaderboard, markdown_report
from priorline.evaluation.runner import write_rows
from priorline.evaluation.summary import summarize

__all__ = ["leaderboard", "markdown_leaderboard", "print_leaderboard", "write_report"]


def write_report(
    rows: pd.DataFrame,
    directory: Path,
    config: EvaluationConfig,
    *,
    decision: Decision | None = None,
    command: str | None = None,
) -> Path:
    """Write ``report.html``, ``report.md``, ``summary.json`` and, last, ``rows.parquet``; return the first.

    The HTML is one file that asks nothing of the network. Equal rows give equal files.

    Parameters
    ----------
    decision : Decision, optional
        Stands at the top of the report.
    command : str, optional
        What was typed; None: the `priorline evaluate` that gives these rows.

    Raises
    ------
    InputError
        If rows are empty or of several suites.
    """
    facts = report_facts(rows, config, command)
    summary = summarize(rows)
    content = {
        "facts": facts.model_dump(mode="json"),
        "leaderboard": leaderboard(rows, summary),
        "pairs": plain_records(summary.pairs),
        "losses": plain_records(losses(rows)),
        "failures": plain_records(failures(rows)),
        "sources": plain_records(sources(rows)),
        "decision": decision.model_dump(mode="json") if decision else None,
    }
    page = html_page(rows, facts, summary, decision)
    text = markdown_report(rows, facts, summary, decision)
    write_bytes(directory / "report.html", page.encode())
    write_bytes(directory / "report.md", text.encode())
    write_bytes(directory / "summary.json", json.dumps(content, indent=2, allow_nan=False).encode())
    write_rows(rows, directory / "rows.parquet")
    return directory / "report.html"


def print_leaderboard(console: Console, rows: pd.DataFrame) -> None:
    """Print the leaderboard as a table in the terminal."""
    header, lines = leaderboard_cells(rows, summarize(rows))
    table = Table(title=caption(rows), title_justify="left")
    for number, title in enumerate(header):
        table.add_column(title, justify="right" if number else "left")
    for line in lines:
        table.add_row(*line)
    console.print(table)
