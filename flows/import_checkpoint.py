"""A checkpoint of another package joins the chain where a trained model would."""

from typing import Any

from prefect import flow

from flows.evaluate import evaluate
from flows.register import register
from tasks.importing import import_model
from tasks.settings import load_settings


@flow(name="import-checkpoint")
def import_checkpoint(
    kind: str, file: str, name: str, config: str = "tabicl-v1", overrides: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return what became of the checkpoint ``file``: weights, metric rows, decision.

    Parameters
    ----------
    kind : str
        Model kind, such as ``tabicl``.
    name : str
        What the candidate is called in reports and in the registry.
    config : str
        Run whose ``evaluation`` and ``promotion`` sections count.

    Raises
    ------
    CheckpointError
        If the file is missing, corrupt, hostile or of another model; nothing is written then.
    """
    settings = load_settings()
    candidate = import_model(kind, file, name, str(settings.runs_dir))
    judged = []
    for problem_type in candidate["problem_types"]:
        evaluation = evaluate(problem_type, config, [candidate], overrides)
        decision = register(problem_type, config, [candidate], evaluation, overrides)
        judged.append({"problem_type": problem_type, "evaluation": evaluation, "decision": decision})
    return {"imported": candidate, "judged": judged}
