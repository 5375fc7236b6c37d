"""Decide between candidates and champion, then register and move the aliases."""

from typing import Any

from prefect import flow

from tasks.evaluation import decide_promotion
from tasks.registry import apply_decision


@flow(name="register")
def register(
    problem_type: str,
    config: str,
    candidates: list[dict[str, Any]],
    evaluation: dict[str, Any],
    overrides: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the decision in words, the champion's version and the aliases after it."""
    decision = decide_promotion(problem_type, config, overrides or {}, evaluation)
    return apply_decision(problem_type, decision, candidates, evaluation)
