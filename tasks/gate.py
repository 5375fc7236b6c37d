"""The gate: a `DataContract` as Great Expectations suites, run on a real table before anything uses it.

Rules about single cells send their rows to quarantine; rules about the table refuse it whole. Kinds
are decided here, not by GX: its type expectations know neither pandas 3 strings, nor categories,
nor zones (tried with 1.24), so each column gets a companion that says what its cells are.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from priorline.datasets.contracts import DataContract
from priorline.errors import PriorlineError
from tasks.gate_batch import SEEN, Batch, Role, prepare_batch
from tasks.gate_report import (
    GateReport,
    Outcome,
    describe_failures,
    order_failures,
    refuse_by_rule,
    refuse_by_share,
    write_quarantine,
    write_report,
)
from tasks.logs import quiet

__all__ = ["GateReport", "run_gate", "write_quarantine"]


def run_gate(frame: pd.DataFrame, contract: DataContract, report_dir: Path, *, role: Role = "query") -> GateReport:
    """Check ``frame`` against ``contract`` and return which rows may go on.

    Parameters
    ----------
    frame : DataFrame
        As read; its rows are numbered by position.
    report_dir : Path
        Gets ``gate.json`` and ``data_docs/index.html``.
    role : "query" or "context"
        A context must have the target, and rows without it go to quarantine; in a query the target
        is ignored.

    Raises
    ------
    PriorlineError
        If the gate itself fails (an exception inside an expectation): that is no verdict on the data.
    """
    report_dir = Path(report_dir)
    report_dir.mkdir(parents=True, exist_ok=True)
    batch = prepare_batch(frame, contract, role)
    outcomes = _run_expectations(batch, report_dir)
    by_name = {column.name: column for column in batch.columns}
    failures = order_failures(
        [
            describe_failures(o.rule, batch.original[o.column], o.rows, by_name[o.column], contract)
            for o in outcomes
            if o.column is not None and len(o.rows)
        ]
    )
    passed = np.setdiff1d(np.arange(len(frame)), failures["row"].to_numpy(dtype=np.int64))
    batch_failures = batch.faults + [refuse_by_rule(o, batch) for o in outcomes if o.refuses and not o.success]
    batch_failures += refuse_by_share(batch, failures, passed)
    report = GateReport(
        accepted=not batch_failures,
        role=role,
        num_rows=len(frame),
        passed_rows=[] if batch_failures else passed.tolist(),
        failures=failures,
        batch_failures=batch_failures,
        notes=batch.notes,
        data_docs=report_dir / "data_docs" / "index.html",
        report_file=report_dir / "gate.json",
    )
    write_report(report, outcomes)
    return report


def _arrival_rules(batch: Batch, gxe: Any) -> Iterator[Any]:
    """Yield expectations about the table as it came: rows, columns, missing cells."""
    contract, options = batch.contract, batch.contract.options
    names = [column.name for column in contract.columns]
    names += [contract.target.name] if batch.role == "context" else []
    yield gxe.ExpectTableRowCountToBeBetween(min_value=1, meta={"rule": "row_count", "refuses": True})
    yield gxe.ExpectTableColumnsToMatchSet(
        column_set=names, exact_match=options.extra_columns == "reject", meta={"rule": "columns"}
    )
    yield gxe.ExpectTableColumnsToMatchOrderedList(column_list=names, severity="info", meta={"rule": "column_order"})
    num_rows = len(batch.arrived)
    for column in batch.columns:
        is_target = column is contract.target
        allowed = num_rows if is_target else column.allowed_missing(num_rows, options.missing_slack)
        is_hard = is_target or column.missing_share == 0
        yield gxe.ExpectColumnValuesToNotBeNull(
            column=column.name,
            # Half a cell of leeway keeps the comparison of shares clear of rounding.
            mostly=1.0 if is_hard else max(0.0, 1 - (allowed + 0.5) / max(num_rows, 1)),
            severity="warning" if is_hard else "critical",
            meta={"rule": "missing", "column": column.name, "quarantines": is_hard, "allowed": allowed},
        )


def _value_rules(batch: Batch, gxe: Any) -> Iterator[Any]:
    """Yield expectations about cells read as their kinds: kinds, ranges, categories, repeated rows."""
    options = batch.contract.options
    for column in batch.columns:
        meta = {"column": column.name, "quarantines": True}
        if column.name in batch.kind_names:
            yield gxe.ExpectColumnValuesToBeInSet(
                column=batch.kind_names[column.name],
                value_set=[column.kind],
                severity="warning",
                meta={"rule": "kind", "allowed_share": options.max_unreadable_share, **meta},
            )
        limits = column.limits(options.range_slack)
        if limits is not None:
            yield gxe.ExpectColumnValuesToBeBetween(
                column=column.name, min_value=limits[0], max_value=limits[1], severity="warning",
                meta={"rule": "range", **meta},
            )  # fmt: skip
        if column.kind == "categorical" and options.unseen_categories == "quarantine":
            companion = batch.seen_names.get(column.name)
            yield gxe.ExpectColumnValuesToBeInSet(
                column=companion or column.name,
                value_set=[SEEN] if companion else list(column.categories or ()),
                severity="warning",
                meta={"rule": "category", **meta},
            )
    if len(batch.typed) >= options.min_rows_for_duplicates and batch.typed[batch.row_name].notna().any():
        yield gxe.ExpectColumnProportionOfUniqueValuesToBeBetween(
            column=batch.row_name,
            min_value=max(0.0, 1 - batch.contract.duplicate_share - options.duplicate_slack),
            meta={"rule": "duplicates", "refuses": True},
        )


def _run_expectations(batch: Batch, report_dir: Path) -> list[Outcome]:
    """Run both suites in a context that lives in memory; only the Data Docs stay."""
    # Great Expectations takes 6 to 14 s to import, and only gate runs need it.
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations as gx
    from great_expectations import expectations as gxe
    from great_expectations.checkpoint import UpdateDataDocsAction

    quiet("great_expectations")

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    context.add_data_docs_site(
        site_name="gate",
        site_config={
            "class_name": "SiteBuilder",
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
            "store_backend": {
                "class_name": "TupleFilesystemStoreBackend",
                "base_directory": str((report_dir / "data_docs").resolve()),
            },
        },
    )
    source = context.data_sources.add_pandas("gate")
    outcomes: list[Outcome] = []
    for name, frame, rules in (
        ("arrival", batch.arrived, list(_arrival_rules(batch, gxe))),
        ("values", batch.typed, list(_value_rules(batch, gxe))),
    ):
        if not rules:
            continue
        asset = source.add_dataframe_asset(f"{batch.role} {name}")
        suite = context.suites.add(gx.ExpectationSuite(name=name, expectations=rules))
        definition = asset.add_batch_definition_whole_dataframe("whole table")
        validation = context.validation_definitions.add(
            gx.ValidationDefinition(name=name, data=definition, suite=suite)
        )
        checkpoint = gx.Checkpoint(
            name=name,
            validation_definitions=[validation],
            actions=[UpdateDataDocsAction(name="data_docs", site_names=["gate"])],
            result_format={"result_format": "COMPLETE"},
        )
        ran = context.checkpoints.add(checkpoint).run(batch_parameters={"dataframe": frame})
        for suite_result in ran.run_results.values():
            outcomes += [_read_outcome(result) for result in suite_result.results]
    return outcomes


def _read_outcome(result: Any) -> Outcome:
    """Return what one expectation result says; an exception in it is the gate's fault, not the data's."""
    meta = result.expectation_config.meta
    fault = _exception_message(result.exception_info or {})
    if fault:
        raise PriorlineError(
            f"the gate's rule {meta['rule']!r} on column {meta.get('column')!r} could not run: {fault}; "
            "this is no verdict on the data, report it with the contract"
        )
    found = result.result
    rows = found.get("unexpected_index_list") or [] if meta.get("quarantines") else []
    num_failed = int(found.get("unexpected_count") or 0)
    num_present = int(found.get("element_count") or 0) - int(found.get("missing_count") or 0)
    allowed = meta.get("allowed", meta.get("allowed_share", 1.0) * num_present)
    return Outcome(
        rule=meta["rule"],
        column=meta.get("column"),
        refuses=num_failed > allowed or (meta.get("refuses", False) and not result.success),
        success=bool(result.success),
        rows=np.asarray(rows, dtype=np.int64),
        num_failed=num_failed,
        observed=found.get("observed_value"),
    )


def _exception_message(info: dict[str, Any]) -> str | None:
    """Return the message of an exception; GX nests the record by metric when one failed."""
    if info.get("raised_exception"):
        return str(info.get("exception_message"))
    nested = [_exception_message(part) for part in info.values() if isinstance(part, dict)]
    return next((message for message in nested if message), None)
