"""Held-out evaluation and the promotion decision, with their reports."""

import json
from pathlib import Path
from typing import Any

from prefect import task
from prefect.artifacts import create_link_artifact, create_markdown_artifact
from prefect.context import TaskRunContext

from priorline import api
from priorline.config_io import config_hash
from priorline.configs import get_config
from priorline.errors import ConfigError
from priorline.evaluation.problem_types import resolve_evaluation, suite_name
from priorline.evaluation.promotion import decide
from priorline.evaluation.report import markdown_leaderboard, write_report
from priorline.evaluation.runner import read_rows
from priorline.evaluation.suites import load_suite
from tasks.logs import get_logger
from tasks.progress import track


def group_by_problem(trained: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the pretrained models by what they can be judged for; one may stand in several groups."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for model in trained:
        for problem_type in model["problem_types"]:
            groups.setdefault(problem_type, []).append(model)
    return groups


@task(retries=1, retry_delay_seconds=5)
def evaluate_contenders(
    problem_type: str,
    config_name: str,
    overrides: dict[str, Any],
    candidates: list[dict[str, Any]],
    champion: dict[str, Any] | None,
    runs_dir: str,
    device: str,
) -> dict[str, Any]:
    """Judge candidates, champion and baselines; reuse the rows of an equal evaluation.

    ``champion`` is what `tasks.registry.champion_contender` returned. It is left out when a candidate
    has the same weights.
    """
    config = resolve_evaluation(get_config(config_name, overrides).evaluation, problem_type)
    contenders = {model["config"]: Path(model["weights"]) for model in candidates}
    hashes = {model["config"]: model["weights_hash"] for model in candidates}
    incumbent = None
    if champion is not None:
        same = [name for name, value in hashes.items() if value == champion["weights_hash"]]
        incumbent = same[0] if same else champion["name"]
        if not same:
            contenders[incumbent] = Path(champion["weights"])
            hashes[incumbent] = champion["weights_hash"]
    suite = load_suite(suite_name(config, problem_type))
    source = api.source_fingerprint("evaluation", "inference", "models")
    key = config_hash(config, hashes, suite.hash, problem_type, source)
    folder = Path(runs_dir) / "evaluations" / key
    rows_path = folder / "rows.parquet"
    reused = rows_path.exists()
    if not reused:
        with track(f"evaluate {problem_type}", "fits") as report:
            rows = api.evaluate(
                contenders,
                config,
                problem_type=problem_type,
                device=api.resolve_device(device),
                on_progress=report,
            )
        write_report(rows, folder, config)
    get_logger().info("evaluate %s: %s", problem_type, "rows found, nothing to do" if reused else "done")
    return {
        "problem_type": problem_type,
        "rows": str(rows_path),
        "report": str(folder / "report.html"),
        "suite": suite.name,
        "suite_hash": suite.hash,
        "evaluation_key": key,
        "contenders": hashes,
        "champion": incumbent,
        "champion_version": champion["version"] if champion else None,
        "reused": reused,
    }


@task
def publish_leaderboard(evaluation: dict[str, Any]) -> str:
    """Put the leaderboard into the Prefect page of the run and return it as Markdown."""
    text = markdown_leaderboard(read_rows(Path(evaluation["rows"])))
    if TaskRunContext.get():
        create_markdown_artifact(text, key="leaderboard", description=f"Suite {evaluation['suite']}")
        create_link_artifact(Path(evaluation["report"]).as_uri(), key="report", link_text="Evaluation report")
    return text


@task
def decide_promotion(
    problem_type: str, config_name: str, overrides: dict[str, Any], evaluation: dict[str, Any]
) -> dict[str, Any]:
    """Return the decision as plain values and keep it beside the rows."""
    config = get_config(config_name, overrides).promotion
    rows = read_rows(Path(evaluation["rows"]))
    champion = evaluation["champion"]
    candidates = [name for name in evaluation["contenders"] if name != champion]
    if not candidates and champion is None:
        raise ConfigError(f"nothing to decide for {problem_type}: no candidate was evaluated")
    decision = decide(rows, candidates, champion, config)
    plain = decision.model_dump(mode="json")
    path = Path(evaluation["rows"]).with_name("decision.json")
    path.write_text(json.dumps(plain, indent=2), encoding="utf-8")
    if TaskRunContext.get():
        create_markdown_artifact(decision.reason, key="promotion", description="Why the champion is what it is")
    get_logger().info("promotion: %s", decision.reason)
    return plain
