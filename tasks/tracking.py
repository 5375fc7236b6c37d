"""MLflow runs: one per pretraining, opened again by its key, metrics as they come."""

import subprocess
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlflow
from mlflow import MlflowClient
from mlflow.data.dataset_source_registry import resolve_dataset_source
from mlflow.data.meta_dataset import MetaDataset
from mlflow.entities import Metric
from mlflow.exceptions import MlflowException

from tasks.logs import get_logger
from tasks.settings import Settings, load_settings

EXPERIMENT = "priorline"
RUN_KEY = "priorline.run_key"
FLUSH_INTERVAL_S = 5.0
"""Seconds between two writes of metrics; each is one request."""
FLUSH_TRIES = 5
"""Tries for the last write of a run, with growing pauses, before metrics are given up."""
MAX_VALUE_LENGTH = 6000
"""Longest parameter value that MLflow stores."""


def connect(settings: Settings | None = None) -> MlflowClient:
    """Return a client of the configured store; the fluent API is pointed at the same."""
    settings = settings or load_settings()
    mlflow.set_tracking_uri(settings.tracking_uri)
    mlflow.set_registry_uri(settings.tracking_uri)
    return MlflowClient()


def experiment_id(client: MlflowClient, artifact_root: str) -> str:
    """Return the id of our experiment; made with an explicit place for artifacts if there is none.

    Without one, MLflow would put artifacts into the current folder.
    """
    found = client.get_experiment_by_name(EXPERIMENT)
    if found is not None:
        return found.experiment_id
    location = artifact_root if "://" in artifact_root else Path(artifact_root).resolve().as_uri()
    try:
        return client.create_experiment(EXPERIMENT, artifact_location=location)
    except MlflowException:
        found = client.get_experiment_by_name(EXPERIMENT)  # made by another process meanwhile
        if found is None:
            raise
        return found.experiment_id


class RunWriter:
    """Metrics of one run, buffered; an unreachable store delays them and never stops training."""

    def __init__(self, client: MlflowClient, run_id: str) -> None:
        self.run_id = run_id
        self._client = client
        self._buffer: list[Metric] = []
        self._last_flush = time.monotonic()

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        """Take up ``metrics`` of ``step``; written every few seconds."""
        now = int(time.time() * 1000)
        self._buffer += [Metric(name, float(value), now, step) for name, value in metrics.items()]
        if time.monotonic() - self._last_flush > FLUSH_INTERVAL_S:
            self.flush()

    def flush(self) -> bool:
        """Write the buffer; False, with the buffer kept, if the store cannot be reached."""
        self._last_flush = time.monotonic()
        try:
            for start in range(0, len(self._buffer), 1000):  # MLflow's limit of one request
                self._client.log_batch(self.run_id, metrics=self._buffer[start : start + 1000])
        except (MlflowException, OSError) as fault:
            get_logger().warning("MLflow is unreachable, %d metrics are kept: %s", len(self._buffer), fault)
            return False
        self._buffer = []
        return True

    def close(self) -> None:
        """Write what is left, trying for a while."""
        for attempt in range(FLUSH_TRIES):
            if self.flush():
                return
            time.sleep(2**attempt)
        get_logger().error("MLflow stayed unreachable: %d metrics of run %s are lost", len(self._buffer), self.run_id)


@contextmanager
def open_run(
    *,
    run_key: str,
    run_name: str,
    params: dict[str, Any],
    tags: dict[str, str],
    dataset_dir: Path | None = None,
    dataset_digest: str | None = None,
) -> Iterator[RunWriter]:
    """Yield the writer of the run with ``run_key``: the existing one after a kill or a reuse.

    The run ends as FINISHED, or FAILED if an error passes through.

    Parameters
    ----------
    params : dict
        Configuration; nested keys become dotted names.
    dataset_dir, dataset_digest : optional
        Logged as the run's training dataset, without being read.
    """
    settings = load_settings()
    client = connect(settings)
    place = experiment_id(client, settings.artifact_root)
    found = client.search_runs([place], filter_string=f"tags.`{RUN_KEY}` = '{run_key}'", max_results=1)
    options: dict[str, Any] = (
        {"run_id": found[0].info.run_id} if found else {"experiment_id": place, "run_name": run_name}
    )
    with mlflow.start_run(**options) as active:
        if not found:
            mlflow.set_tags({RUN_KEY: run_key, **tags, **source_tags(settings.root)})
            mlflow.log_params(flatten(params))
            if dataset_dir is not None:
                with warnings.catch_warnings():
                    # MLflow registers two readers of local folders and warns that it must choose.
                    warnings.simplefilter("ignore", UserWarning)
                    source = resolve_dataset_source(str(dataset_dir))
                digest = (dataset_digest or "")[:36]
                mlflow.log_input(MetaDataset(source, name=dataset_dir.name, digest=digest), context="training")
        writer = RunWriter(client, active.info.run_id)
        try:
            yield writer
        finally:
            writer.close()


def log_files(run_id: str, files: list[Path], folder: str) -> None:
    """Attach ``files`` to a run below ``folder``."""
    client = connect()
    for path in files:
        client.log_artifact(run_id, str(path), folder)


def flatten(tree: Any, prefix: str = "") -> dict[str, str]:
    """Return nested dicts and lists as dotted names with text values."""
    pairs: Iterable[tuple[Any, Any]]
    if isinstance(tree, dict):
        pairs = tree.items()
    elif isinstance(tree, list) and any(isinstance(item, dict | list) for item in tree):
        pairs = enumerate(tree)
    else:
        return {prefix: str(tree)[:MAX_VALUE_LENGTH]}
    found: dict[str, str] = {}
    for key, value in pairs:
        found |= flatten(value, f"{prefix}.{key}" if prefix else str(key))
    return found


def source_tags(root: Path) -> dict[str, str]:
    """Return tags that lead back to the code and the flow run."""
    from prefect.runtime import flow_run

    tags = {}
    commit = _git(root, "rev-parse", "HEAD")
    if commit:
        tags["git.commit"] = commit
        tags["git.dirty"] = str(bool(_git(root, "status", "--porcelain", "--untracked-files=no"))).lower()
    if flow_run.id:
        tags["prefect.flow_run_id"] = str(flow_run.root_flow_run_id or flow_run.id)
    return tags


def _git(root: Path, *arguments: str) -> str | None:
    """Return git's output in ``root``; None outside a repository or without git."""
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
