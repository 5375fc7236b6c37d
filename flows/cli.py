"""The command ``priorline``: verbs that go through Prefect, MLflow and DVC, beside the library's own.

Exit codes: 0 done, 1 failure, 2 usage or bad input, 3 rejected by the gate.
"""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from priorline.cli import (
    AsJson,
    Assignments,
    ConfigName,
    ParamsFile,
    chosen_config,
    emit,
    explain_app,
    key_value_table,
    library,
    parse_assignments,
    run_app,
)
from priorline.errors import InputError
from tasks.settings import configure_environment, load_settings

app = typer.Typer(
    no_args_is_help=True,
    help="From synthetic priors to served foundation models for structured data.",
    epilog="Exit codes: 0 done, 1 failure, 2 usage or bad input, 3 rejected by the gate.",
)
registry_app = typer.Typer(no_args_is_help=True, help="Look at registered models and their lineage.")
app.add_typer(library)
app.add_typer(registry_app, name="registry")

Verbose = Annotated[bool, typer.Option("--verbose", help="Show the log of every flow and task.")]


def prepare(verbose: bool = False) -> None:
    """Set what Prefect, MLflow and DVC read from the environment; must run before they are imported."""
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "INFO" if verbose else "WARNING")
    configure_environment(load_settings())


@app.command("run")
def run_command(
    config: ConfigName = None,
    assignments: Assignments = None,
    params: ParamsFile = None,
    example: Annotated[str, typer.Option(help="Real table to predict at the end; 'none' for none.")] = "titanic",
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Run the whole chain: priors, pretraining, evaluation, registry, predictions for a real table.

    Example: priorline run --config smoke --set tabicl.training.max_steps=100
    """
    name, overrides = chosen_config(config, assignments, params, default="smoke")
    prepare(verbose)
    from flows.pipeline import pipeline

    result = pipeline(name, overrides, None if example == "none" else example)
    emit(result, as_json, lambda console: print_run(console, result))


@app.command("predict")
def predict_command(
    context: Annotated[Path, typer.Option(help="Labelled rows: CSV or Parquet.")],
    target: Annotated[str, typer.Option(help="Column to predict.")],
    query: Annotated[Path, typer.Option(help="Rows to predict.")],
    out: Annotated[Path, typer.Option(help="Predictions: CSV or Parquet by suffix.")] = Path("predictions.csv"),
    weights: Annotated[Path | None, typer.Option(help="Weights folder; default: the registry's champion.")] = None,
    problem_type: Annotated[
        str | None,
        typer.Option(help="classification or regression; default: what the weights serve, or the target suggests."),
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Leave a column out; may be repeated.")
    ] = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Gate a real table and predict one column with the champion; no training takes place.

    Example: priorline predict --context train.csv --target Survived --query test.csv --out predictions.csv
    """
    prepare(verbose)
    from flows.infer import infer

    result = infer(str(context), target, str(query), str(out), str(weights) if weights else None, problem_type, ignore)
    shown = {**result, "notes": "; ".join(result["notes"]), "quarantined": quarantine_in_words(result)}
    emit(result, as_json, lambda console: console.print(key_value_table("Predicted", shown)))


@app.command("impute")
def impute_command(
    table: Annotated[Path, typer.Option(help="Table with gaps: CSV or Parquet.")],
    out: Annotated[Path, typer.Option(help="Table without gaps: CSV or Parquet by suffix.")] = Path("filled.csv"),
    weights: Annotated[Path | None, typer.Option(help="Weights folder; default: the registry's champion.")] = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Fill the missing cells of a table, numbers and categories; known cells stay as they are.

    Example: priorline impute --table passengers.csv --out filled.csv
    """
    prepare(verbose)
    from flows.infer import impute

    result = impute(str(table), str(out), str(weights) if weights else None)
    filled = "; ".join(f"{count} in {name}" for name, count in result["filled"].items()) or "none"
    shown = {**result, "notes": "; ".join(result["notes"]), "filled": filled}
    emit(result, as_json, lambda console: console.print(key_value_table("Filled", shown)))


@app.command("generate")
def generate_command(
    table: Annotated[Path, typer.Option(help="Rows to learn from: CSV or Parquet.")],
    rows: Annotated[int, typer.Option(min=1, help="How many new rows.")] = 100,
    out: Annotated[Path, typer.Option(help="New rows: CSV or Parquet by suffix.")] = Path("new.csv"),
    where: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=VALUE", help="What each new row has there; may be repeated.")
    ] = None,
    temperature: Annotated[float, typer.Option(help="Below 1 more typical rows, above 1 more varied ones.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Fixes the rows.")] = 0,
    weights: Annotated[Path | None, typer.Option(help="Weights folder; default: the registry's champion.")] = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Draw new rows that look like a table's.

    Example: priorline generate --table passengers.csv --rows 500 --where sex=female --out new.csv
    """
    conditions = {}
    for item in where or []:
        name, equals, value = item.partition("=")
        if not equals:
            raise InputError(f"--where {item!r} must be COLUMN=VALUE, for example --where sex=female")
        conditions[name] = value
    prepare(verbose)
    from flows.infer import generate

    result = generate(str(table), rows, str(out), str(weights) if weights else None, conditions, temperature, seed)
    shown = {**result, "notes": "; ".join(result["notes"])}
    emit(result, as_json, lambda console: console.print(key_value_table("Drawn", shown)))


@explain_app.callback(invoke_without_command=True)
def explain_command(
    ctx: typer.Context,
    context: Annotated[Path | None, typer.Option(help="Labelled rows: CSV or Parquet.")] = None,
    target: Annotated[str | None, typer.Option(help="Column that is predicted.")] = None,
    query: Annotated[Path | None, typer.Option(help="Rows to predict.")] = None,
    row: Annotated[int, typer.Option(min=0, help="Which row of the query to explain, from 0.")] = 0,
    out: Annotated[Path, typer.Option(help="One HTML page.")] = Path("why.html"),
    weights: Annotated[Path | None, typer.Option(help="LimiX weights; default: the registry's imputer.")] = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Why a row is predicted so: columns and context rows that count, and how far to believe it.

    Example: priorline explain --context train.csv --target Survived --query test.csv --row 3 --out why.html
    """
    if ctx.invoked_subcommand is not None:
        return
    if context is None or target is None or query is None:
        raise InputError("explain needs --context, --target and --query; see `priorline explain --help`")
    prepare(verbose)
    from flows.infer import explain

    result = explain(str(context), target, str(query), row, str(out), str(weights) if weights else None)
    columns = ", ".join(f"{name} {share:.2f}" for name, share in list(result["columns"].items())[:5])
    judged = result["faithfulness"]
    believed = f"{judged['metric']} {judged['score']}, without the top column {judged['without_top']}"
    shown = {**result, "columns": columns, "faithfulness": believed}
    emit(result, as_json, lambda console: console.print(key_value_table("Explained", shown)))


@app.command("import-checkpoint")
def import_command(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Kind of model, such as tabicl.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Checkpoint as its authors publish it.")],
    name: Annotated[str | None, typer.Option(help="Name in reports and registry; default: the file's.")] = None,
    config: Annotated[str, typer.Option(help="Run whose evaluation and promotion sections count.")] = "tabicl-v1",
    assignments: Assignments = None,
    out: Annotated[
        Path | None, typer.Option(help="Only write the weights to this folder: no evaluation, no registry.")
    ] = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Turn an official checkpoint into a candidate, judge it like a trained one, and register it if it wins.

    No code in the file is run.
    Example: priorline import-checkpoint tabicl tabicl-classifier-v2-20260212.ckpt --name tabicl-v2
    """
    name, overrides = name or file.stem, parse_assignments(assignments or [])
    if out is not None:
        from priorline import api

        payload = api.as_plain(api.import_checkpoint(kind, file, out))
        emit(payload, as_json, lambda console: console.print(key_value_table("Imported", payload)))
        return
    prepare(verbose)
    from flows.import_checkpoint import import_checkpoint

    result = import_checkpoint(kind, str(file.resolve()), name, config, overrides)
    emit(result, as_json, lambda console: print_import(console, result))


@registry_app.command("list")
def registry_list(as_json: AsJson = False) -> None:
    """List the registered models with their versions and aliases."""
    prepare()
    from tasks.registry import list_models

    models = list_models()
    emit(models, as_json, lambda console: print_records(console, "Registered models", models))


@registry_app.command("show")
def registry_show(
    name: Annotated[str, typer.Argument(help="classifier, regressor ... or the full registered name.")],
    as_json: AsJson = False,
) -> None:
    """Show a model's versions and the lineage of its champion: data, code, config, run, evaluation.

    Example: priorline registry show classifier
    """
    prepare()
    from tasks.registry import show

    lineage = show(name)
    emit(lineage, as_json, lambda console: print_lineage(console, lineage))


@registry_app.command("rollback")
def registry_rollback(
    name: Annotated[str, typer.Argument(help="classifier, regressor ...")], as_json: AsJson = False
) -> None:
    """Make the previous champion the champion again."""
    prepare()
    from tasks.registry import rollback

    result = rollback(name)
    emit(result, as_json, lambda console: console.print(key_value_table("Rolled back", result)))


def print_run(console: Console, result: dict[str, Any]) -> None:
    """Print what a run of the chain made."""
    print_judged(console, result["judged"])
    for model in result["trained"]:
        console.print(
            key_value_table(
                model["config"],
                {
                    "priors": found_or_made(model["priors"], model["priors_reused"]),
                    "data hash (data.dvc)": model["data_md5"],
                    "prior hash": model["data_hash"],
                    "weights": found_or_made(model["weights"], model["reused"]),
                    "steps": model["steps"],
                },
            )
        )
    if result["predictions"]:
        shown = {**result["predictions"], "quarantined": quarantine_in_words(result["predictions"])}
        console.print(key_value_table("predictions", shown))


def print_import(console: Console, result: dict[str, Any]) -> None:
    """Print what became of an imported checkpoint."""
    print_judged(console, result["judged"])
    imported = result["imported"]
    shown = {
        "weights": found_or_made(imported["weights"], imported["reused"]),
        "source": f"{imported['source_file']} (sha256 {imported['source_sha256']})",
        "note": imported["note"],
    }
    console.print(key_value_table(imported["config"], shown))


def print_judged(console: Console, outcomes: list[dict[str, Any]]) -> None:
    """Print leaderboard and decision of each problem type."""
    from priorline.evaluation.report import print_leaderboard
    from priorline.evaluation.runner import read_rows

    for judged in outcomes:
        print_leaderboard(console, read_rows(Path(judged["evaluation"]["rows"])))
        decision, evaluation = judged["decision"], judged["evaluation"]
        console.print(
            key_value_table(
                judged["problem_type"],
                {
                    "registered model": decision["model"],
                    "champion version": decision["champion_version"],
                    "why": decision["reason"],
                    "rows": found_or_made(evaluation["rows"], evaluation["reused"]),
                    "report": evaluation["report"],
                },
            )
        )


def quarantine_in_words(result: dict[str, Any]) -> str:
    """Return how many rows of which table lie in which file, or ``none``."""
    parts = [f"{held['rows']} rows of the {role}: {held['file']}" for role, held in result["quarantined"].items()]
    return "; ".join(parts) or "none"


def found_or_made(path: str, reused: bool) -> str:
    """Return ``path`` and whether this run made it."""
    return f"{path} ({'found, reused' if reused else 'made'})"


def print_records(console: Console, title: str, records: list[dict[str, Any]]) -> None:
    """Print one table per record."""
    for record in records:
        console.print(key_value_table(title, record))


def print_lineage(console: Console, lineage: dict[str, Any]) -> None:
    """Print a registered model's versions, champion's lineage first."""
    for version in lineage["versions"]:
        aliases = ", ".join(version["aliases"]) or "no alias"
        console.print(
            key_value_table(f"{lineage['name']} version {version['version']} ({aliases})", version["lineage"])
        )


def main() -> None:
    """Entry point of the console script."""
    sys.exit(run_app(app))
