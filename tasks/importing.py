"""Other packages' checkpoints as candidates: weights of ours, and an MLflow run that says where they come from."""

from pathlib import Path
from typing import Any

from prefect import task

from priorline import api
from priorline.config_io import config_hash
from priorline.errors import InputError
from tasks.logs import get_logger
from tasks.tracking import open_run


@task
def import_model(kind: str, file: str, name: str, runs_dir: str) -> dict[str, Any]:
    """Return a checkpoint as `tasks.training.pretrain_model` returns what it trained.

    The weights' data and configuration are their authors'; what stands in their place is the hash of the file.
    """
    if not name or name != Path(name).name or name.startswith("."):
        raise InputError(f"--name {name!r} must be a plain name, such as tabicl-v2")
    source = api.describe_source(Path(file))
    folder = Path(runs_dir) / f"{name}-{source['sha256'][:16]}"
    imported = api.import_checkpoint(kind, Path(file), folder / "weights")
    model = api.read_model_config(imported.weights)
    with open_run(
        run_key=folder.name,
        run_name=name,
        params={"model": model.model_dump(mode="json")},
        tags={
            "priorline.config": name,
            "priorline.config_hash": config_hash(model),
            "priorline.source_file": imported.source_file,
            "priorline.source_sha256": imported.source_sha256,
            "priorline.source_note": imported.note,
        },
    ) as run:
        get_logger().info("imported %s from %s", name, imported.source_file)
    return {
        **api.as_plain(imported),
        "config": name,
        "config_hash": config_hash(model),
        "problem_types": list(imported.problem_types),
        "mlflow_run_id": run.run_id,
        "data_hash": f"sha256:{imported.source_sha256}",
    }
