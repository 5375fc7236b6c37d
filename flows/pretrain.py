"""Take one model through its curriculum; a killed run goes on where it was."""

from typing import Any

from prefect import flow

from flows.generate_priors import generate_priors
from tasks.settings import load_settings
from tasks.training import pretrain_model


@flow(name="pretrain")
def pretrain(
    config: str, overrides: dict[str, Any] | None = None, data: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return where the weights of ``config`` lie and the MLflow run that made them.

    ``data`` is what `generate_priors` returned; None generates first.
    """
    settings = load_settings()
    data = data or generate_priors(config, overrides)
    return pretrain_model(config, overrides or {}, data, str(settings.runs_dir), settings.device, settings.num_workers)
