"""The library's verbs: config, priors, pretrain, evaluate. No orchestration tool is started.

``flows/cli.py`` mounts these beside the verbs that go through Prefect, MLflow and DVC.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from priorline.config_io import load_params, parse_assignments
from priorline.errors import ConfigError, InputError, PriorlineError

ConfigName = Annotated[str | None, typer.Option("--config", help="Named run or chain; see `priorline config list`.")]
Assignments = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change one value; may be repeated.")
]
ParamsFile = Annotated[
    Path | None, typer.Option("--params", help="YAML file with `config:` and `set:`, such as params.yaml.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
Workers = Annotated[int, typer.Option("--workers", min=1, help="Processes; any number gives the same bytes.")]
ProblemType = Annotated[
    str | None, typer.Option("--problem-type", help="classification or regression; default: what the weights serve.")
]

PIPE_WIDTH = 160

library = typer.Typer(no_args_is_help=True, add_completion=False)
config_app = typer.Typer(no_args_is_help=True, help="Look at named configurations.")
priors_app = typer.Typer(no_args_is_help=True, help="Generate synthetic data.")
library.add_typer(config_app, name="config")
library.add_typer(priors_app, name="priors")
explain_app = typer.Typer(no_args_is_help=True, help="Reasons for a prediction; what a model sees in columns.")
library.add_typer(explain_app, name="explain")


def emit(payload: Any, as_json: bool, render: Callable[[Console], None]) -> None:
    """Print ``payload`` as JSON for machines, or call ``render`` for people."""
    if as_json:
        sys.stdout.write(json.dumps(payload, indent=2, default=str) + "\n")
    else:
        # A pipe has no width of its own; 80 columns would cut paths and tables.
        render(Console(width=None if sys.stdout.isatty() else PIPE_WIDTH))


def report_error(error: PriorlineError, as_json: bool) -> int:
    """Print an error on standard error (as JSON on standard output when asked); return its exit code."""
    if as_json:
        content = {"type": type(error).__name__, "message": str(error), "exit_code": error.exit_code}
        sys.stdout.write(json.dumps({"error": content}, indent=2) + "\n")
    Console(stderr=True).print(f"[bold red]{type(error).__name__}[/]:", str(error), markup=True, highlight=False)
    return error.exit_code


def chosen_config(
    name: str | None, assignments: list[str] | None, params: Path | None, default: str | None = None
) -> tuple[str, dict[str, Any]]:
    """Return the pair (config name, overrides) from ``--config``, ``--set`` and ``--params``.

    The command line wins over the file.
    """
    file_name, overrides = load_params(params) if params else (default, {})
    chosen = name or file_name
    if chosen is None:
        raise ConfigError("no configuration given; add --config NAME (see `priorline config list`)")
    return chosen, {**overrides, **parse_assignments(assignments or [])}


def key_value_table(title: str, rows: dict[str, Any]) -> Table:
    """Return a two-column table."""
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for key, value in rows.items():
        table.add_row(key, Text(str(value)))
    return table


def progress_bar() -> Progress:
    """Return a bar on standard error that shows only on a terminal."""
    return Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
    )


@config_app.command("list")
def config_list(as_json: AsJson = False) -> None:
    """List the named runs and chains."""
    from priorline.configs import list_configs

    names = list_configs()
    emit(names, as_json, lambda console: console.print(key_value_table("Configurations", names)))


@config_app.command("show")
def config_show(
    name: Annotated[str, typer.Argument(help="Run or chain.")],
    assignments: Assignments = None,
    as_json: AsJson = False,
) -> None:
    """Print a configuration with every value resolved."""
    from priorline.configs import get_chain

    runs = [run.model_dump(mode="json") for run in get_chain(name, parse_assignments(assignments or []))]
    emit(runs, as_json, lambda console: console.print_json(data=runs))


@priors_app.command("generate")
def priors_generate(
    config: ConfigName = None,
    assignments: Assignments = None,
    params: ParamsFile = None,
    out: Annotated[Path, typer.Option(help="Folder that receives one folder of shards per run.")] = Path("data/priors"),
    workers: Workers = 1,
    as_json: AsJson = False,
) -> None:
    """Write the prior shards of a run; a second call finds them and does nothing.

    Example: priorline priors generate --config tabicl-smoke --set seed=1 --workers 2
    """
    from priorline import api
    from priorline.configs import get_config

    run = get_config(*chosen_config(config, assignments, params))
    with progress_bar() as bar:
        row = bar.add_task(f"priors {run.name}", total=None)
        result = api.generate(
            run,
            out / api.data_name(run),
            num_workers=workers,
            on_progress=lambda done, total: bar.update(row, completed=done, total=total),
        )
    payload = api.as_plain(result)
    emit(payload, as_json, lambda console: console.print(key_value_table("Prior shards", payload)))


@library.command("pretrain")
def pretrain_command(
    config: ConfigName = None,
    assignments: Assignments = None,
    params: ParamsFile = None,
    priors: Annotated[Path, typer.Option(help="Folder that `priors generate --out` named.")] = Path("data/priors"),
    out: Annotated[Path, typer.Option(help="Folder for checkpoints, weights and metrics.")] = Path("outputs/pretrain"),
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    workers: Workers = 1,
    as_json: AsJson = False,
) -> None:
    """Pretrain one run from its shards; goes on from the newest checkpoint after a kill.

    Example: priorline pretrain --config tabicl-smoke --set training.max_steps=50
    """
    from priorline import api
    from priorline.configs import get_config

    run = get_config(*chosen_config(config, assignments, params))
    shards = priors / api.data_name(run)
    if not (shards / "manifest.json").exists():
        raise InputError(
            f"no shards of this configuration at {shards}; first run "
            f"`priorline priors generate --config {run.name}` with the same --set"
        )
    work_dir = out / api.pretrain_name(run, api.read_data_hash(shards))
    work_dir.mkdir(parents=True, exist_ok=True)
    with progress_bar() as bar, (work_dir / "metrics.jsonl").open("a", encoding="utf-8") as log:
        row = bar.add_task(f"pretrain {run.name}", total=run.training.total_steps)

        def log_metrics(metrics: dict[str, float], step: int) -> None:
            bar.update(row, completed=step)
            log.write(json.dumps({"step": step, **metrics}) + "\n")
            log.flush()

        result = api.pretrain(
            run,
            work_dir=work_dir,
            priors_dir=shards,
            device=api.resolve_device(device),
            num_workers=workers - 1,
            log_metrics=log_metrics,
        )
    payload = api.as_plain(result)
    emit(payload, as_json, lambda console: console.print(key_value_table("Pretrained", payload)))


@library.command("evaluate")
def evaluate_command(
    weights: Annotated[
        list[str], typer.Argument(metavar="NAME=DIR", help="Contenders: a name and its weights folder.")
    ],
    config: ConfigName = None,
    assignments: Assignments = None,
    params: ParamsFile = None,
    out: Annotated[Path, typer.Option(help="Folder for rows.parquet, report.html and summary.json.")] = Path(
        "outputs/evaluation"
    ),
    problem_type: ProblemType = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Judge weights and baselines on held-out real tables.

    Example: priorline evaluate mine=outputs/pretrain/tabicl-smoke-0123/weights --config tabicl-smoke
    """
    from priorline import api
    from priorline.configs import get_config
    from priorline.evaluation.report import leaderboard, print_leaderboard, write_report

    contenders = {}
    for item in weights:
        name, equals, path = item.partition("=")
        if not equals:
            raise InputError(f"contender {item!r} must be NAME=DIR, for example mine=outputs/weights")
        contenders[name] = Path(path)
    run = get_config(*chosen_config(config, assignments, params))
    with progress_bar() as bar:
        row = bar.add_task("evaluate", total=None)
        rows = api.evaluate(
            contenders,
            run.evaluation,
            problem_type=problem_type or api.one_problem_type(contenders),
            device=api.resolve_device(device),
            on_progress=lambda done, total: bar.update(row, completed=done, total=total),
        )
    write_report(rows, out, run.evaluation)
    payload = {"out": str(out), "leaderboard": leaderboard(rows)}
    emit(payload, as_json, lambda console: print_leaderboard(console, rows))


@explain_app.command("columns")
def explain_columns(
    context: Annotated[Path, typer.Option(help="Real rows: CSV or Parquet.")],
    weights: Annotated[Path, typer.Option(help="Weights folder.")],
    target: Annotated[str | None, typer.Option(help="Column of labels, left out of the map.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for columns.csv and columns.png.")] = Path("outputs/explain"),
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Map a table's columns by the distributions that the model read, beside their skewness and kurtosis.

    Example: priorline explain columns --context train.csv --target Survived --weights outputs/weights
    """
    from priorline import api

    payload = api.explain_columns(context, weights, target, out, device=api.resolve_device(device))
    emit(payload, as_json, lambda console: console.print(key_value_table("Columns", payload)))


def run_app(app: typer.Typer, arguments: list[str] | None = None) -> int:
    """Run ``app`` and return its exit code; a `PriorlineError` becomes a message, not a traceback."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        app(args=arguments, prog_name="priorline", standalone_mode=True)
    except PriorlineError as error:
        return report_error(error, "--json" in arguments)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    return 0
