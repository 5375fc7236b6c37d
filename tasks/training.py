"""Pretraining with metrics to MLflow as it runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prefect import get_client, task
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectNotFound

from priorline import api
from priorline.config_io import config_hash
from priorline.configs import get_chain, get_config
from tasks.logs import get_logger
from tasks.progress import track
from tasks.tracking import open_run

GPU_LIMIT = "gpu"


def describe_chain(config_name: str, overrides: dict[str, Any]) -> list[str]:
    """Return the names of the runs in a chain, after checking every override against each."""
    return [run.name for run in get_chain(config_name, overrides)]


@contextmanager
def device_lock(device: str) -> Iterator[None]:
    """Hold the global concurrency limit ``gpu`` (made with one slot if there is none) while on a GPU."""
    if not device.startswith("cuda"):
        yield
        return
    with get_client(sync_client=True) as client:
        try:
            client.read_global_concurrency_limit_by_name(GPU_LIMIT)
        except ObjectNotFound:
            client.upsert_global_concurrency_limit_by_name(GPU_LIMIT, limit=1)
    with concurrency(GPU_LIMIT, occupy=1, strict=True):
        yield


@task(retries=2, retry_delay_seconds=[5, 30])
def pretrain_model(
    config_name: str,
    overrides: dict[str, Any],
    data: dict[str, Any],
    runs_dir: str,
    device: str,
    num_workers: int,
) -> dict[str, Any]:
    """Train one run and return where its weights lie; a retry goes on from the last checkpoint.

    On a GPU the training holds the global concurrency limit ``gpu``.
    """
    config = get_config(config_name, overrides)
    device = api.resolve_device(device)
    work_dir = Path(runs_dir) / api.pretrain_name(config, data["data_hash"])
    opened = open_run(
        run_key=work_dir.name,
        run_name=config.name,
        params=config.model_dump(mode="json"),
        tags={
            "priorline.config": config.name,
            "priorline.config_hash": config_hash(config),
            "priorline.data_hash": data["data_hash"],
            "dvc.data_md5": data["data_md5"],
        },
        dataset_dir=Path(data["directory"]),
        dataset_digest=data["data_md5"],
    )
    total = config.training.total_steps
    with device_lock(device), opened as run, track(f"pretrain {config.name}", "steps") as report:

        def log_metrics(metrics: dict[str, float], step: int) -> None:
            run.log_metrics(metrics, step)
            loss = metrics.get("validation_loss", metrics.get("loss"))
            report(step, total, f"loss {loss:.3f}" if loss is not None else "")

        result = api.pretrain(
            config,
            work_dir=work_dir,
            priors_dir=Path(data["directory"]),
            device=device,
            num_workers=num_workers if config.data.source == "stream" else 0,
            log_metrics=log_metrics,
        )
    logger = get_logger()
    if result.reused:
        logger.info("pretrain %s: finished weights found, nothing to do", config.name)
    elif result.resumed_from is not None:
        logger.info("pretrain %s: resumed from step %d", config.name, result.resumed_from)
    return {
        **api.as_plain(result),
        "config": config.name,
        "kind": config.model.kind,
        "config_hash": config_hash(config),
        "problem_types": list(api.problem_types(config)),
        "mlflow_run_id": run.run_id,
        "data_hash": data["data_hash"],
        "data_md5": data["data_md5"],
        "priors": data["directory"],
        "priors_reused": data["reused"],
    }
