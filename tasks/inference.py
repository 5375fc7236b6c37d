"""Predictions for real tables: read, gate, predict, write; and the example that a run ends on."""

import warnings
from pathlib import Path
from typing import Any

import pandas as pd
from prefect import task
from prefect.artifacts import create_link_artifact
from prefect.context import TaskRunContext

from priorline import api
from priorline.datasets.contracts import DataContract, coerce_frame, profile_contract, save_contract
from priorline.datasets.files import write_bytes
from priorline.datasets.tabular import read_table, write_table
from priorline.errors import GateRejected, InputError
from priorline.evaluation.suites import load_example
from tasks.gate import run_gate, write_quarantine
from tasks.logs import get_logger

Frames = dict[str, pd.DataFrame]


@task
def read_inputs(context: str, query: str, target: str, out: str, ignore: list[str] | None = None) -> Frames:
    """Return the two tables without the columns ``ignore``; raises `InputError` that names file and remedy."""
    place = Path(out)
    if place.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(f"--out {out!r} must end in .csv or .parquet")
    if place.resolve() in (Path(context).resolve(), Path(query).resolve()):
        raise InputError(f"--out {out!r} would overwrite an input; name another file")
    frames = {"context": read_table(Path(context)), "query": read_table(Path(query))}
    if target not in frames["context"].columns:
        known = ", ".join(map(str, frames["context"].columns))
        raise InputError(f"--target {target!r} is not a column of {context}; columns: {known}")
    for name in ignore or []:
        if name == target or not any(name in frame.columns for frame in frames.values()):
            raise InputError(f"--ignore {name!r} must be a column of a table, and not the target")
        for role, frame in frames.items():
            notes = frame.attrs
            frames[role] = frame.drop(columns=name, errors="ignore")
            frames[role].attrs = notes
    return frames


@task
def gate_tables(frames: Frames, target: str, out: str) -> dict[str, Any]:
    """Hold both tables to the contract of the context and return the rows that passed.

    Beside ``out`` go the reports (``<out stem>.gate/``) and, if any row failed, the quarantine files.

    Raises
    ------
    GateRejected
        If either table is refused whole; the quarantine file then holds all of its rows.
    """
    place = Path(out)
    folder = place.with_name(f"{place.stem}.gate")
    contract = profile_contract(frames["context"], target)
    passed: dict[str, Any] = {"quarantined": {}, "notes": [], "contract": contract}
    for role in ("context", "query"):
        report = run_gate(frames[role], contract, folder / role, role=role)
        quarantine = place.with_name(f"{place.stem}.{role}-quarantine.csv")
        count = write_quarantine(frames[role], report, quarantine)
        get_logger().info("gate: %s", report.summary())
        if not report.accepted:
            raise GateRejected(
                f"{report.summary()}. Nothing was predicted (--ignore COLUMN leaves a column out); every row with "
                f"its reason: {quarantine}; report: {report.data_docs}"
            )
        with warnings.catch_warnings():
            # The report's notes say the same of infinite numbers.
            warnings.simplefilter("ignore", UserWarning)
            passed[role] = coerce_frame(frames[role], contract, report.passed_rows, with_target=role == "context")
        passed[f"{role}_rows"] = report.passed_rows
        passed["notes"] += [*frames[role].attrs.get("notes", []), *report.notes]
        if count:
            passed["quarantined"][role] = {"rows": count, "file": str(quarantine)}
    save_contract(contract, folder / "contract.json")
    passed["report"] = str(folder / "query" / "data_docs" / "index.html")
    return passed


def choose_problem_type(contract: DataContract, weights: str | None) -> str:
    """Return what the folder ``weights`` serves; without one, what the kind of target suggests."""
    return contract.target.suggests if weights is None else api.one_problem_type({weights: Path(weights)})


@task
def predict_rows(
    gated: dict[str, Any], target: str, out: str, model: dict[str, Any], problem_type: str, device: str
) -> dict[str, Any]:
    """Predict the passed query rows from the passed context rows and write ``out`` in one move.

    ``model`` is what `tasks.registry.fetch_champion` returned. Columns: ``row`` (0-based position in
    the query file), ``prediction``, ``probability_<class>`` for each class or ``quantile_<level>``.
    """
    context, query = gated["context"], gated["query"]
    predictor = api.load_predictor(Path(model["weights"]), problem_type, device=api.resolve_device(device))
    predictor.fit(context.drop(columns=target), context[target].to_numpy())
    predictions = api.prediction_table(predictor, query, gated["query_rows"])
    write_table(predictions, Path(out))
    if TaskRunContext.get():
        create_link_artifact(Path(gated["report"]).resolve().as_uri(), key="gate", link_text="Data Docs of the gate")
    return {
        "out": out,
        "rows": len(predictions),
        "model": model["name"],
        "model_version": model["version"],
        "weights_hash": model["weights_hash"],
        "quarantined": gated["quarantined"],
        "notes": gated["notes"],
        "gate_report": gated["report"],
    }


@task
def fill_table(table: str, out: str, model: dict[str, Any], device: str) -> dict[str, Any]:
    """Fill the missing cells of ``table`` from its own rows and write ``out`` in one move.

    ``model`` is what `tasks.registry.fetch_champion` returned. Known cells stay as they are.
    """
    frame = _read_one(table, out)
    imputer = api.load_predictor(Path(model["weights"]), "imputation", device=api.resolve_device(device))
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always", UserWarning)
        filled = imputer.fit(frame).transform(frame)
    write_table(filled, Path(out))
    missing = frame.isna().sum()
    return {
        "out": out,
        "rows": len(frame),
        "filled": {str(name): int(count) for name, count in missing.items() if count},
        "still_empty": int(filled.isna().sum().sum()),
        "notes": _notes(frame, noted),
        **_model_facts(model),
    }


@task
def draw_rows(
    table: str,
    rows: int,
    out: str,
    conditions: dict[str, str],
    temperature: float,
    seed: int,
    model: dict[str, Any],
    device: str,
) -> dict[str, Any]:
    """Draw new rows like those of ``table`` and write ``out`` in one move.

    ``conditions``: column to the text of the value that each row has there.
    """
    frame = _read_one(table, out)
    generator = api.load_predictor(
        Path(model["weights"]), "generation", device=api.resolve_device(device), random_state=seed
    )
    given = api.typed_conditions(frame, conditions)
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always", UserWarning)
        drawn = generator.fit(frame).sample(rows, conditions=given, temperature=temperature)
    write_table(drawn, Path(out))
    return {"out": out, "rows": len(drawn), "notes": _notes(frame, noted), **_model_facts(model)}


@task
def write_reasons(
    context: str, target: str, query: str, row: int, out: str, model: dict[str, Any], device: str
) -> dict[str, Any]:
    """Write a page that explains the prediction for one row, in one move, and return its facts."""
    place = Path(out)
    if place.suffix.lower() != ".html":
        raise InputError(f"--out {out!r} must end in .html")
    page, facts = api.explain_row(
        read_table(Path(context)),
        target,
        read_table(Path(query)),
        row,
        Path(model["weights"]),
        device=api.resolve_device(device),
    )
    write_bytes(place, page.encode())
    return {"out": out, **facts, **_model_facts(model)}


def _read_one(table: str, out: str) -> pd.DataFrame:
    place = Path(out)
    if place.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(f"--out {out!r} must end in .csv or .parquet")
    if place.resolve() == Path(table).resolve():
        raise InputError(f"--out {out!r} would overwrite the input; name another file")
    return read_table(Path(table))


def _notes(frame: pd.DataFrame, noted: list[warnings.WarningMessage]) -> list[str]:
    said = [str(item.message) for item in noted if issubclass(item.category, UserWarning)]
    return list(dict.fromkeys([*frame.attrs.get("notes", []), *said]))


def _model_facts(model: dict[str, Any]) -> dict[str, Any]:
    return {"model": model["name"], "model_version": model["version"], "weights_hash": model["weights_hash"]}


@task
def write_example(name: str, outputs_dir: str) -> dict[str, str]:
    """Write the context and query files of a bundled real table and return their paths."""
    context, query, target = load_example(name)
    folder = Path(outputs_dir) / name
    folder.mkdir(parents=True, exist_ok=True)
    files = {part: str(folder / f"{part}.csv") for part in ("context", "query")}
    write_table(context, Path(files["context"]))
    write_table(query, Path(files["query"]))
    return {**files, "target": target, "out": str(folder / "predictions.csv")}
