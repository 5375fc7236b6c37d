"""Real data in, predictions out: gate, quarantine, predict with the champion, report."""

from typing import Any

from prefect import flow

from tasks.inference import (
    choose_problem_type,
    draw_rows,
    fill_table,
    gate_tables,
    predict_rows,
    read_inputs,
    write_example,
    write_reasons,
)
from tasks.registry import fetch_champion
from tasks.settings import load_settings


@flow(name="infer")
def infer(
    context: str,
    target: str,
    query: str,
    out: str,
    weights: str | None = None,
    problem_type: str | None = None,
    ignore: list[str] | None = None,
) -> dict[str, Any]:
    """Predict ``target`` for the rows of ``query`` from the labelled rows of ``context``.

    Parameters
    ----------
    context, query : str
        CSV (any separator or encoding) or Parquet files; the query needs no target column.
    out : str
        Predictions, CSV or Parquet by suffix: ``row, prediction`` and ``probability_<class>...`` or
        ``quantile_<level>...``, in the order of the query. Rows that fail the gate go to
        ``<out stem>.query-quarantine.csv`` (or ``.context-quarantine.csv``) with reasons.
    weights : str, optional
        Folder of weights; None: the champion in the registry.
    problem_type : str, optional
        ``classification`` or ``regression``; None: what ``weights`` serve, or the kind of target suggests.
    ignore : list of str, optional
        Columns that are left out, such as one that the query lacks.

    Raises
    ------
    InputError
        If a file cannot be read (exit code 2).
    GateRejected
        If a whole batch fails its contract (exit code 3); nothing is written but the reports.
    """
    settings = load_settings()
    frames = read_inputs(context, query, target, out, ignore)
    gated = gate_tables(frames, target, out)
    problem_type = problem_type or choose_problem_type(gated["contract"], weights)
    model = fetch_champion(problem_type, weights, str(settings.home))
    return predict_rows(gated, target, out, model, problem_type, settings.device)


@flow(name="impute")
def impute(table: str, out: str, weights: str | None = None) -> dict[str, Any]:
    """Fill the missing cells of a table, of any type, from its own rows.

    Parameters
    ----------
    table : str
        CSV (any separator or encoding) or Parquet file.
    out : str
        The same table without gaps, CSV or Parquet by suffix; known cells are unchanged.
    weights : str, optional
        Folder of weights; None: the champion of ``priorline-imputer``.

    Raises
    ------
    InputError
        If a file cannot be read or written (exit code 2).
    """
    settings = load_settings()
    model = fetch_champion("imputation", weights, str(settings.home))
    return fill_table(table, out, model, settings.device)


@flow(name="generate")
def generate(
    table: str,
    rows: int,
    out: str,
    weights: str | None = None,
    conditions: dict[str, str] | None = None,
    temperature: float = 1.0,
    seed: int = 0,
) -> dict[str, Any]:
    """Draw new rows that look like those of a table.

    Parameters
    ----------
    table, out : str
        CSV or Parquet files.
    weights : str, optional
        Folder of weights; None: the champion of ``priorline-imputer``.
    conditions : dict, optional
        Column to the value that each new row has there.
    temperature : float
        Below 1 rows are more typical, above 1 more varied.

    Raises
    ------
    InputError
        If a file cannot be read or written, or a condition names no column (exit code 2).
    """
    settings = load_settings()
    model = fetch_champion("imputation", weights, str(settings.home))
    return draw_rows(table, rows, out, conditions or {}, temperature, seed, model, settings.device)


@flow(name="explain")
def explain(context: str, target: str, query: str, row: int, out: str, weights: str | None = None) -> dict[str, Any]:
    """Explain the prediction of ``target`` for one row of ``query`` in a self-contained HTML page.

    Parameters
    ----------
    row : int
        0-based position in the query file.
    weights : str, optional
        Folder of a LimiX's weights; None: the champion of ``priorline-imputer``.

    Raises
    ------
    InputError
        If a file cannot be read or written, or there is no such column or row (exit code 2).
    """
    settings = load_settings()
    model = fetch_champion("imputation", weights, str(settings.home))
    return write_reasons(context, target, query, row, out, model, settings.device)


@flow(name="infer-example")
def infer_example(name: str = "titanic") -> dict[str, Any]:
    """Split a real table into context and query files and take them through `infer`."""
    settings = load_settings()
    files = write_example(name, str(settings.outputs_dir))
    return infer(files["context"], files["target"], files["query"], files["out"])
