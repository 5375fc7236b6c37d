"""MLflow runs: one per pretraining, opened again by its key, metrics as they come."""

import subprocess
import threading
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
from mlflow.entities import Metric, Run
from mlflow.exceptions import MlflowException

from priorline.errors import PriorlineError
from tasks.logs import get_logger, quiet
from tasks.settings import Settings, load_settings

EXPERIMENT = "priorline"
RUN_KEY = "priorline.run_key"
FLUSH_INTERVAL_S = 5.0
"""Seconds between two writes of metrics; each is one request."""
MAX_METRICS_PER_REQUEST = 1000
"""MLflow's limit."""
FLUSH_TRIES = 5
"""Tries for the last write of a run, with growing pauses, before metrics are given up."""
MAX_VALUE_LENGTH = 6000
"""Longest parameter value that MLflow stores."""
MAX_DIGEST_LENGTH = 36
"""Longest dataset digest that MLflow stores; an MD5 with ``.dir`` is just as long."""


def connect(settings: Settings | None = None) -> MlflowClient:
    """Return a client of the configured store; the fluent API is pointed at the same."""
    settings = settings or load_settings()
    mlflow.set_tracking_uri(settings.tracking_uri)
    mlflow.set_registry_uri(settings.tracking_uri)
    quiet("mlflow", "alembic")
    return MlflowClient()


def experiment_id(client: MlflowClient, artifact_root: str | None) -> str:
    """Return the id of our experiment; made with an explicit place for artifacts if there is none.

    Without one, MLflow would put artifacts into the current folder; only a server knows better (None).

    Raises
    ------
    PriorlineError
        If the experiment was deleted; its name stays taken.
    """
    found = client.get_experiment_by_name(EXPERIMENT)
    if found is not None:
        if found.lifecycle_stage != "active":
            raise PriorlineError(
                f"the MLflow experiment {EXPERIMENT!r} was deleted; bring it back by "
                f"`mlflow experiments restore --experiment-id {found.experiment_id}`"
            )
        return found.experiment_id
    location = artifact_root
    if artifact_root is not None and "://" not in artifact_root:
        location = Path(artifact_root).resolve().as_uri()
    try:
        return client.create_experiment(EXPERIMENT, artifact_location=location)
    except MlflowException:
        found = client.get_experiment_by_name(EXPERIMENT)  # made by another process meanwhile
        if found is None:
            raise
        return found.experiment_id


class RunWriter:
    """Metrics of one run, written by a thread; an unreachable store delays them and never stops training."""

    def __init__(self, client: MlflowClient, mlflow_run_id: str) -> None:
        self.run_id = mlflow_run_id
        self._client = client
        self._buffer: list[Metric] = []
        self._one_flush = threading.Lock()
        self._closing = threading.Event()
        self._logger = get_logger()
        # MLflow waits minutes for a dead server, so no request is made on the thread that trains.
        self._thread = threading.Thread(target=self._flush_regularly, name="mlflow-metrics", daemon=True)
        self._thread.start()

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        """Take up ``metrics`` of ``step``, at once; written every few seconds."""
        now = int(time.time() * 1000)
        self._buffer.extend([Metric(name, float(value), now, step) for name, value in metrics.items()])

    def flush(self) -> bool:
        """Write the buffer; False, with what is unwritten kept, if the store does not take it."""
        with self._one_flush:
            while self._buffer:
                batch = self._buffer[:MAX_METRICS_PER_REQUEST]
                try:
                    self._client.log_batch(self.run_id, metrics=batch)
                except (MlflowException, OSError) as fault:
                    self._logger.warning("MLflow does not answer, %d metrics are kept: %s", len(self._buffer), fault)
                    return False
                del self._buffer[: len(batch)]
        return True

    def close(self) -> None:
        """Write what is left, trying for a while."""
        self._closing.set()
        for attempt in range(FLUSH_TRIES):
            if self.flush():
                return
            time.sleep(2**attempt)
        self._logger.error("MLflow did not answer: %d metrics of run %s are lost", len(self._buffer), self.run_id)

    def _flush_regularly(self) -> None:
        while not self._closing.wait(FLUSH_INTERVAL_S):
            self.flush()


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
        {"run_id": found[0].info.run_id}
        if found
        # The key is there from the first moment, so a run killed in the next line is found again.
        else {
            "experiment_id": place,
            "run_name": run_name,
            "tags": {RUN_KEY: run_key, **tags, **source_tags(settings.root)},
        }
    )
    with mlflow.start_run(**options) as active:
        _describe(client.get_run(active.info.run_id), params, dataset_dir, dataset_digest)
        writer = RunWriter(client, active.info.run_id)
        try:
            yield writer
        finally:
            writer.close()


def _describe(run: Run, params: dict[str, Any], dataset_dir: Path | None, dataset_digest: str | None) -> None:
    """Log the parameters and the dataset that the active run lacks."""
    missing = {name: value for name, value in flatten(params).items() if name not in run.data.params}
    if missing:
        mlflow.log_params(missing)
    if dataset_dir is not None and not run.inputs.dataset_inputs:
        with warnings.catch_warnings():
            # MLflow registers two readers of local folders and warns that it must choose.
            warnings.simplefilter("ignore", UserWarning)
            source = resolve_dataset_source(str(dataset_dir))
        digest = (dataset_digest or "")[:MAX_DIGEST_LENGTH]
        mlflow.log_input(MetaDataset(source, name=dataset_dir.name, digest=digest), context="training")


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
        # A new data version changes data.dvc in every run; it has a tag of its own.
        changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)data.dvc")
        tags["git.dirty"] = str(bool(changed)).lower()
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
