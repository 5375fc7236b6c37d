"""What a gate run found: rows that failed and why, batch failures, and the files that tell of them."""

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from priorline.datasets.contracts import ColumnContract, DataContract
from priorline.datasets.files import write_bytes
from priorline.datasets.kinds import as_text
from priorline.datasets.tabular import write_table
from tasks.gate_batch import Batch

FAILURE_COLUMNS = ["row", "column", "rule", "value", "reason"]

_KIND_WORDS = {"numeric": "a number", "boolean": "true or false", "datetime": "a date like 2024-12-31"}
_SHOWN_FAILURES = 100
_HINTED_VALUES = 100
"""Distinct values per column that get a nearest category; the search is slow for tens of thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReport:
    """The outcome of one gate run."""

    accepted: bool
    """False when the batch as a whole was refused."""
    role: str
    """``query`` or ``context``."""
    num_rows: int
    """Rows in the batch."""
    passed_rows: list[int]
    """Positions (0-based, file order) of the rows to go on with; empty when the batch was refused."""
    failures: pd.DataFrame = field(repr=False)
    """One line per failed cell: row (int64), column, rule, value (as text, "" when missing), reason."""
    batch_failures: list[str]
    """Why the batch was refused, one sentence each."""
    notes: list[str]
    """What was noticed and did not matter: order, ignored columns, infinite numbers."""
    data_docs: Path
    """Great Expectations' pages about this run (``index.html``)."""
    report_file: Path
    """This report as JSON."""

    @property
    def quarantined_rows(self) -> list[int]:
        """Positions of all rows that do not go on."""
        return np.setdiff1d(np.arange(self.num_rows), self.passed_rows).tolist()

    def summary(self) -> str:
        """Return the outcome in one sentence."""
        if not self.accepted:
            return f"{self.role} of {self.num_rows} rows refused: {'; '.join(self.batch_failures)}"
        num_passed = len(self.passed_rows)
        return f"{self.role}: {num_passed} of {self.num_rows} rows passed, {self.num_rows - num_passed} in quarantine"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one expectation found."""

    rule: str
    column: str | None
    refuses: bool
    """True when this refuses the batch."""
    success: bool
    rows: np.ndarray
    """Positions of failed cells that go to quarantine."""
    num_failed: int
    observed: Any


def describe_failures(
    rule: str, cells: pd.Series, rows: np.ndarray, column: ColumnContract, contract: DataContract
) -> pd.DataFrame:
    """Return one line per failed cell of ``column``, with a reason that a person can act on."""
    values = as_text(cells.iloc[rows]).fillna("")
    reasons = {
        value: _reason(rule, value, column, contract, with_hint=place < _HINTED_VALUES)
        for place, value in enumerate(values.unique())
    }
    return pd.DataFrame(
        {
            "row": rows.astype(np.int64),
            "column": column.name,
            "rule": rule,
            "value": values.to_numpy(),
            "reason": values.map(reasons).to_numpy(),
        }
    )


def order_failures(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return all failures by row, within a row in the order the rules ran."""
    if not parts:
        return pd.DataFrame({name: pd.Series(dtype="int64" if name == "row" else object) for name in FAILURE_COLUMNS})
    return pd.concat(parts, ignore_index=True).sort_values("row", kind="stable", ignore_index=True)


def write_report(report: GateReport, outcomes: Sequence[Outcome]) -> None:
    """Write ``report.report_file``; of the failures it holds counts and the first hundred."""
    counts = report.failures.value_counts(["column", "rule"]).reset_index(name="rows")
    content = {
        "accepted": report.accepted,
        "role": report.role,
        "num_rows": report.num_rows,
        "num_passed": len(report.passed_rows),
        "num_quarantined": len(report.quarantined_rows),
        "batch_failures": report.batch_failures,
        "notes": report.notes,
        "failure_counts": counts.to_dict("records"),
        "first_failures": report.failures.head(_SHOWN_FAILURES).to_dict("records"),
        "rules": [_as_json(outcome) for outcome in outcomes],
        "data_docs": str(report.data_docs.relative_to(report.report_file.parent)),
    }
    write_bytes(report.report_file, json.dumps(content, indent=2, ensure_ascii=False).encode())


def write_quarantine(frame: pd.DataFrame, report: GateReport, path: Path) -> int:
    """Write the rows that do not go on, as they came, with their number and reasons.

    Columns: ``row`` (position in the input), those of ``frame``, ``reasons``. In a refused batch
    every row is there, and one that failed no rule itself names the batch's faults.

    Returns
    -------
    int
        Number of rows written. Nothing is written for none, and an older file of that name is removed.
    """
    rows = report.quarantined_rows
    if not rows:
        Path(path).unlink(missing_ok=True)
        return 0
    reasons = report.failures.groupby("row")["reason"].agg("; ".join)
    batch_reason = "batch refused: " + "; ".join(report.batch_failures)
    held = frame.reset_index(drop=True).iloc[rows].copy()
    if Path(path).suffix == ".parquet":
        # Cells of mixed types are the very reason to be here; Parquet wants one type a column.
        mixed = [place for place, dtype in enumerate(held.dtypes) if types.is_object_dtype(dtype)]
        for place in mixed:
            held.isetitem(place, as_text(held.iloc[:, place]).array)
    held.insert(0, _free_name("row", held), rows)
    held[_free_name("reasons", held)] = reasons.reindex(rows).fillna(batch_reason).to_numpy()
    write_table(held, Path(path))
    return len(rows)


def refuse_by_rule(outcome: Outcome, batch: Batch) -> str:
    """Return why a failed expectation about the table refuses it."""
    options, num_rows = batch.contract.options, len(batch.arrived)
    if outcome.rule == "row_count":
        return "the table has no rows; check the export"
    if outcome.rule == "duplicates":
        share = 1 - float(outcome.observed)
        limit = batch.contract.duplicate_share + options.duplicate_slack
        return f"{share:.0%} of the rows repeat an earlier row, at most {limit:.0%} may; was it exported twice?"
    column = next(column for column in batch.columns if column.name == outcome.column)
    if outcome.rule == "missing":
        allowed = column.allowed_missing(num_rows, options.missing_slack)
        return (
            f"column {column.name!r}: {outcome.num_failed} of {num_rows} cells are missing, at most "
            f"{allowed} may (context: {column.missing_share:.0%}); check how it was exported"
        )
    cells = batch.original[column.name]
    present = int(cells.notna().sum())
    examples = ", ".join(repr(str(cell)) for cell in cells.iloc[outcome.rows].unique()[:3])
    return (
        f"column {column.name!r} is {column.kind} in the context, but {outcome.num_failed} of {present} "
        f"cells are not ({examples}); check that columns were not shifted or renamed"
    )


def refuse_by_share(batch: Batch, failures: pd.DataFrame, passed: np.ndarray) -> list[str]:
    """Return why the rows left over cannot be used, judged after single rows went to quarantine."""
    num_rows = len(batch.arrived)
    if num_rows == 0:
        return []
    num_failed, limit = num_rows - len(passed), batch.contract.options.max_quarantine_share
    if num_failed > limit * num_rows or not len(passed):
        counts = failures.value_counts(["column", "rule"]).reset_index(name="rows").head(3)
        main = ", ".join(f"{column} ({rule}, {rows} rows)" for column, rule, rows in counts.to_numpy())
        return [f"{num_failed} of {num_rows} rows failed (limit {limit:.0%}), most by {main}; see the reasons"]
    target = batch.contract.target.name
    if batch.role == "context" and target in batch.typed and batch.typed[target].iloc[passed].nunique() < 2:
        return [f"target {target!r} has one value in all {len(passed)} usable rows; a context needs two"]
    return []


def _as_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "rule": outcome.rule,
        "column": outcome.column,
        "success": outcome.success,
        "refused_batch": outcome.refuses,
        "cells_failed": outcome.num_failed,
        "rows_quarantined": len(outcome.rows),
    }


def _free_name(name: str, frame: pd.DataFrame) -> str:
    while name in frame.columns:
        name = f"{name}_"
    return name


def _reason(rule: str, value: str, column: ColumnContract, contract: DataContract, *, with_hint: bool) -> str:
    name, shown = repr(column.name), value if len(value) <= 80 else f"{value[:77]}..."
    if rule == "missing" and column.name == contract.target.name:
        return f"target {name} is missing; a context row needs its label"
    if rule == "missing":
        what = "is missing" if not value else f"is {value}, which counts as missing"
        return f"{name} {what}; the context has no missing value in this column"
    if rule == "kind":
        return f"{name} is {shown!r}, wanted {_KIND_WORDS[column.kind]}"
    if rule == "range":
        low, high = column.limits(contract.options.range_slack) or (0.0, 0.0)
        return (
            f"{name} is {shown}, outside {low:.10g} .. {high:.10g} "
            f"(context: {column.minimum:.10g} .. {column.maximum:.10g})"
        )
    known = column.categories or ()
    matches = difflib.get_close_matches(value, known, n=1) if with_hint and len(known) <= 1000 else []
    listing = f"known: {', '.join(known[:8])}{', ...' if len(known) > 8 else ''}"
    hint = f"did you mean {matches[0]!r}?" if matches else listing
    return f"{name} is {shown!r}, which the context does not have; {hint}"
