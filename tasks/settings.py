"""Where things are: URIs, paths and devices from the environment; light to import."""

import os
import re
from pathlib import Path

from priorline.config_io import Config
from priorline.errors import ConfigError

_ROOT_MARKS = ("data.dvc", ".dvc")
_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")


class Settings(Config):
    """The places and devices of this machine; what is computed stands in `priorline.configs`."""

    root: Path
    """Project: holds ``data.dvc`` and ``data/``."""
    home: Path
    """State of this machine: MLflow, Prefect, runs, the local DVC remote."""
    tracking_uri: str
    """MLflow's tracking and registry store."""
    artifact_root: str | None
    """Where MLflow experiments keep artifacts: a folder or a URL such as ``s3://...``; None: the server decides."""
    dvc_remote: str
    """Where DVC pushes: a folder or a URL."""
    outputs_dir: Path
    """Results for people: predictions, examples."""
    device: str = "auto"
    """``auto``, ``cpu``, ``cuda``, ``cuda:0`` ..."""
    num_workers: int = 1
    """Processes that sample priors."""

    @property
    def data_dir(self) -> Path:
        """The folder that ``data.dvc`` versions."""
        return self.root / "data"

    @property
    def serving_script(self) -> Path:
        """The code that MLflow stores with each registered model."""
        return self.root / "mlflow" / "pyfunc_model.py"

    @property
    def runs_dir(self) -> Path:
        """Checkpoints, weights and evaluations."""
        return self.home / "runs"


def load_settings() -> Settings:
    """Return the settings of the environment as it is now.

    Variables: ``PRIORLINE_ROOT`` (default: the nearest folder above with a ``data.dvc``),
    ``PRIORLINE_HOME`` (``<root>/.priorline``), ``MLFLOW_TRACKING_URI``, ``PRIORLINE_ARTIFACT_ROOT``,
    ``PRIORLINE_DVC_REMOTE``, ``PRIORLINE_OUTPUTS``, ``PRIORLINE_DEVICE``, ``PRIORLINE_NUM_WORKERS``.
    Relative paths count from the current folder.

    Raises
    ------
    ConfigError
        If the device or the number of workers cannot be read.
    """
    env = os.environ
    root = Path(env["PRIORLINE_ROOT"]).resolve() if env.get("PRIORLINE_ROOT") else _find_root(Path.cwd())
    home = Path(env.get("PRIORLINE_HOME") or root / ".priorline").resolve()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = env.get("PRIORLINE_NUM_WORKERS") or str(cores)
    if not workers.isdigit() or int(workers) < 1:
        raise ConfigError(f"PRIORLINE_NUM_WORKERS={workers!r} must be a whole number of at least 1")
    device = env.get("PRIORLINE_DEVICE") or "auto"
    if not _DEVICE.fullmatch(device):
        raise ConfigError(f"PRIORLINE_DEVICE={device!r} must be auto, cpu, cuda or cuda:<number>")
    tracking_uri = env.get("MLFLOW_TRACKING_URI") or f"sqlite:///{home / 'mlflow.db'}"
    # A server stores artifacts itself; a folder of this machine would be out of reach of its other clients.
    own_artifacts = None if tracking_uri.startswith(("http://", "https://")) else str(home / "mlartifacts")
    return Settings(
        root=root,
        home=home,
        tracking_uri=tracking_uri,
        artifact_root=env.get("PRIORLINE_ARTIFACT_ROOT") or own_artifacts,
        dvc_remote=env.get("PRIORLINE_DVC_REMOTE") or str(home / "dvc-remote"),
        outputs_dir=Path(env.get("PRIORLINE_OUTPUTS") or root / "outputs").resolve(),
        device=device,
        num_workers=int(workers),
    )


def configure_environment(settings: Settings) -> None:
    """Set what Prefect, MLflow, DVC and Great Expectations read when they are imported.

    A variable that is set already wins. Telemetry of each is off; what may unpickle or run jobs in
    MLflow is off.
    """
    settings.home.mkdir(parents=True, exist_ok=True)
    defaults = {
        "PREFECT_HOME": str(settings.home / "prefect"),
        # The embedded server needs more than the default 20 s on a busy two-core machine.
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
        "PREFECT_RESULTS_DEFAULT_SERIALIZER": "json",
        "DO_NOT_TRACK": "1",
        "MLFLOW_TRACKING_URI": settings.tracking_uri,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "DVC_NO_ANALYTICS": "true",
        "GX_ANALYTICS_ENABLED": "false",
        "PRIORLINE_ROOT": str(settings.root),
    }
    for name, value in defaults.items():
        os.environ.setdefault(name, value)


def _find_root(start: Path) -> Path:
    for folder in (start, *start.parents):
        if any((folder / mark).exists() for mark in _ROOT_MARKS):
            return folder
    return start
