"""Judge candidates, the champion and baselines on the same held-out tables."""

from typing import Any

from prefect import flow

from tasks.evaluation import evaluate_contenders, publish_leaderboard
from tasks.registry import champion_contender
from tasks.settings import load_settings


@flow(name="evaluate")
def evaluate(
    problem_type: str, config: str, candidates: list[dict[str, Any]], overrides: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return where the metric rows and the report of ``candidates`` lie.

    Parameters
    ----------
    problem_type : str
        ``classification``, ``regression`` ...: which registered model's champion stands beside them.
    config : str
        Run whose ``evaluation`` section counts.
    candidates : list of dict
        What `pretrain` returned, one for each model.
    """
    settings = load_settings()
    champion = champion_contender(problem_type, str(settings.home))
    result = evaluate_contenders(
        problem_type, config, overrides or {}, candidates, champion, str(settings.runs_dir), settings.device
    )
    publish_leaderboard(result)
    return result
