"""The chain: priors, version, pretrain each model, evaluate, register, then predict an example."""

from typing import Any

from prefect import flow

from flows.evaluate import evaluate
from flows.generate_priors import generate_priors
from flows.infer import infer_example
from flows.pretrain import pretrain
from flows.register import register
from tasks.evaluation import group_by_problem
from tasks.training import describe_chain


@flow(name="pipeline")
def pipeline(
    config: str = "smoke", overrides: dict[str, Any] | None = None, example: str | None = "titanic"
) -> dict[str, Any]:
    """Run the chain ``config`` and return what it made: data, models, decisions, predictions.

    Parameters
    ----------
    config : str
        Chain or run of `priorline.configs`.
    overrides : dict, optional
        Dotted path to value, as ``--set``.
    example : str, optional
        Real table to predict with the champion at the end; None: none.
    """
    overrides = overrides or {}
    trained = []
    for name in describe_chain(config, overrides):
        data = generate_priors(name, overrides)
        trained.append(pretrain(name, overrides, data))
    judged: list[dict[str, Any]] = []
    for problem_type, candidates in group_by_problem(trained).items():
        leader = candidates[0]["config"]
        evaluation = evaluate(problem_type, leader, candidates, overrides)
        decision = register(problem_type, leader, candidates, evaluation, overrides)
        judged.append({"problem_type": problem_type, "evaluation": evaluation, "decision": decision})
    # The example is a classification table; without a champion there is nothing to predict it with.
    ready = any(item["decision"]["champion_version"] for item in judged if item["problem_type"] == "classification")
    predictions = infer_example(example) if example and ready else None
    return {"config": config, "trained": trained, "judged": judged, "predictions": predictions}
