"""What a report says, as data: leaderboard, losses, failures, sources, and the facts to repeat it."""

import json
import math
import shlex
from typing import Any

import pandas as pd

from priorline.config_io import Config
from priorline.evaluation.baselines import BASELINES
from priorline.evaluation.comparison import TIE_WIDTH, metric_of, problem_type_of
from priorline.evaluation.config import EvaluationConfig
from priorline.evaluation.metrics import METRICS, Metric
from priorline.evaluation.problem_types import resolve_evaluation
from priorline.evaluation.summary import Summary, summarize, table_means
from priorline.evaluation.tables import TABLES


class ReportFacts(Config):
    """What must stand in every report for someone else to get the same numbers."""

    suite: str
    suite_hash: str
    problem_type: str
    num_tables: int
    num_splits: int
    seeds: tuple[int, ...]
    train_rows: tuple[int, int]
    """Smallest and largest number of training rows."""
    test_rows: tuple[int, int]
    duplicate_share: float
    """Share of test rows whose features equal those of a training row."""
    baselines: dict[str, str]
    """Name to settings."""
    command: str
    """Command that gives these rows again."""


def leaderboard(rows: pd.DataFrame, summary: Summary | None = None) -> list[dict[str, Any]]:
    """Return one JSON-ready record per contender, best mean rank first.

    Keys: contender, is_baseline, mean_rank (of the main metric), low and high (its interval), tables,
    failures, fit_s, predict_s, and each metric's mean under its name.
    """
    summary = summary or summarize(rows)
    records = []
    for name, group in summary.contenders.groupby("contender", sort=False):
        main = group.iloc[0]
        record = {key: main[key] for key in ("is_baseline", "mean_rank", "low", "high", "tables", "failures")}
        record |= {row["metric"]: row["mean"] for _, row in group.iterrows()}
        record |= {"fit_s": main["fit_s"], "predict_s": main["predict_s"]}
        records.append({"contender": name, **record})
    return plain_records(pd.DataFrame(records))


def leaderboard_cells(rows: pd.DataFrame, summary: Summary) -> tuple[list[str], list[list[str]]]:
    metrics = list(METRICS[str(rows["problem_type"].iloc[0])].values())
    main = metrics[0]
    arrow = {True: "higher", False: "lower"}
    header = ["contender", "mean rank", f"{main.title} ({arrow[main.higher_is_better]})", "interval"]
    header += [f"{metric.title} ({arrow[metric.higher_is_better]})" for metric in metrics[1:]]
    header += ["fit s", "predict s", "failed"]
    lines = []
    for record in leaderboard(rows, summary):
        name = f"{record['contender']} (baseline)" if record["is_baseline"] else record["contender"]
        line = [
            name,
            f"{record['mean_rank']:.2f}",
            number_text(record[main.name]),
            interval_text(record, ".3f"),
        ]
        line += [number_text(record.get(metric.name)) for metric in metrics[1:]]
        line += [
            number_text(record["fit_s"], 2),
            number_text(record["predict_s"], 2),
            str(record["failures"]),
        ]
        lines.append(line)
    return header, lines


def losses(rows: pd.DataFrame) -> pd.DataFrame:
    """Return each contender's tables on which some baseline is better, the widest gap first."""
    metric = main_metric(rows)
    means = table_means(rows, metric)
    scores = means if metric.higher_is_better else -means
    is_baseline = rows.drop_duplicates("contender").set_index("contender")["is_baseline"]
    baselines = [name for name in means.columns if is_baseline[name]]
    columns = ["contender", "table", metric.name, "best_baseline", "its_value", "gap"]
    frames = []
    for name in means.columns:
        if name in baselines or not baselines:
            continue
        gap = scores[baselines].max(axis=1) - scores[name]
        behind = list(gap.index[gap > TIE_WIDTH])
        best = scores.loc[behind, baselines].idxmax(axis=1)
        frame = pd.DataFrame({"contender": name, "table": behind, metric.name: means.loc[behind, name].tolist()})
        frame["best_baseline"] = best.tolist()
        frame["its_value"] = [means[best[table]][table] for table in behind]
        frame["gap"] = gap[behind].tolist()
        frames.append(frame)
    if not frames:
        return pd.DataFrame(columns=columns)
    return pd.concat(frames).sort_values("gap", ascending=False, kind="stable", ignore_index=True)[columns]


def failures(rows: pd.DataFrame) -> pd.DataFrame:
    """Return contender, table, splits concerned and error text of all failures."""
    failed = rows[rows["error"] != ""].drop_duplicates(["contender", "table", "split"])
    grouped = failed.groupby(["contender", "table", "error"], sort=False)["split"].count()
    return grouped.rename("splits").reset_index()[["contender", "table", "splits", "error"]]


def sources(rows: pd.DataFrame) -> pd.DataFrame:
    """Return source, licence and sizes of the tables."""
    fits = rows.drop_duplicates(["table", "split"]).groupby("table", sort=False)
    sizes = ["train_rows", "test_rows", "num_classes", "duplicate_test_rows"]
    if not rows["num_classes"].any():
        sizes.remove("num_classes")
    frame = fits[sizes].max().reset_index()
    specs = [TABLES.get(name) for name in frame["table"]]
    frame.insert(1, "source", [spec.source if spec else "" for spec in specs])
    frame.insert(2, "licence", [spec.licence if spec else "" for spec in specs])
    return frame


def report_facts(rows: pd.DataFrame, config: EvaluationConfig, command: str | None = None) -> ReportFacts:
    """Return what fixes the numbers in ``rows``."""
    problem_type = problem_type_of(rows)
    fits = rows.drop_duplicates(["table", "split"])
    is_baseline = rows.drop_duplicates("contender").set_index("contender")["is_baseline"]
    known = BASELINES[problem_type]
    return ReportFacts(
        suite=str(rows["suite"].iloc[0]),
        suite_hash=str(rows["suite_hash"].iloc[0]),
        problem_type=problem_type,
        num_tables=rows["table"].nunique(),
        num_splits=rows["split"].nunique(),
        seeds=tuple(sorted(rows["seed"].unique().tolist())),
        train_rows=(int(fits["train_rows"].min()), int(fits["train_rows"].max())),
        test_rows=(int(fits["test_rows"].min()), int(fits["test_rows"].max())),
        duplicate_share=float(fits["duplicate_test_rows"].sum() / fits["test_rows"].sum()),
        baselines={name: known[name].settings for name in is_baseline.index[is_baseline] if name in known},
        command=command or _command(config, problem_type, is_baseline.index[~is_baseline].tolist()),
    )


def main_metric(rows: pd.DataFrame) -> Metric:
    return metric_of(rows, next(iter(METRICS[problem_type_of(rows)])))


def metric_notes(rows: pd.DataFrame) -> list[str]:
    """Return what a reader must know of the metrics, one sentence each."""
    return [metric.note for metric in METRICS[problem_type_of(rows)].values() if metric.note]


def caption(rows: pd.DataFrame) -> str:
    first = rows.iloc[0]
    splits, tables = rows["split"].nunique(), rows["table"].nunique()
    train = rows["train_rows"].max()
    return (
        f"Suite {first['suite']} ({first['suite_hash']}), tables: {tables}, splits: {splits} "
        f"(seeds {rows['seed'].min()} to {rows['seed'].max()}), at most {train} training rows"
    )


def interval_text(record: Any, form: str) -> str:
    if record["low"] is None or math.isnan(record["low"]):
        return "-"
    return f"{record['low']:{form}} to {record['high']:{form}}"


def number_text(value: float | None, digits: int = 3) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def plain_records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return plain Python values; NaN becomes None, as JSON knows no NaN."""
    records: list[dict[str, Any]] = json.loads(frame.to_json(orient="records", double_precision=12))
    return records


def _command(config: EvaluationConfig, problem_type: str, names: list[str]) -> str:
    # Any run serves: every field of its evaluation section is set.
    config = resolve_evaluation(config, problem_type)
    parts = [
        "priorline",
        "evaluate",
        *(f"{name}=WEIGHTS_OF_{name}" for name in names),
        "--config",
        "tabicl-smoke",
        "--problem-type",
        problem_type,
    ]
    for key, value in config.model_dump(mode="json").items():
        text = json.dumps(value) if isinstance(value, list) else value
        parts += ["--set", f"evaluation.{key}={text}"]
    return shlex.join(parts)
