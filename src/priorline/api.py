"""The seam: what tasks and command lines call. Plain callables in, plain results out, no tool inside.

Every result lives in a directory named by the hash of all that fixes it, so that the same call
made again finds its result and says so (``reused``).
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import priorline
from priorline.batches import Batch
from priorline.checkpoints import load_weights, save_weights, weights_hash
from priorline.checkpoints import read_model_config as read_model_config
from priorline.config_io import config_hash
from priorline.configs.run import RunConfig
from priorline.datasets.tabular import read_table, write_table
from priorline.errors import InputError
from priorline.evaluation.config import EvaluationConfig
from priorline.evaluation.runner import evaluate as run_evaluation
from priorline.importing import describe_source as describe_source
from priorline.importing import import_checkpoint as import_checkpoint
from priorline.inference.cell_table import typed_conditions as typed_conditions
from priorline.inference.explanations import draw_column_map, map_columns
from priorline.inference.predictor import load_estimator
from priorline.inference.why import explain_prediction
from priorline.models import MODELS
from priorline.priors import build_prior
from priorline.priors.shards import read_batches, read_manifest, verify_shards, write_shards
from priorline.priors.stream import stream_batches
from priorline.seeding import derive_seed
from priorline.training.curriculum import Curriculum
from priorline.training.loop import train

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateResult:
    """Where prior shards lie and what they are."""

    directory: Path
    data_hash: str
    """Identifies config, seed and bytes of all shards."""
    num_datasets: int
    num_batches: int
    size_bytes: int
    reused: bool
    """True when every shard was there already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PretrainResult:
    """Where the weights lie and how they came about."""

    weights: Path
    weights_hash: str
    steps: int
    resumed_from: int | None
    """Step of the checkpoint that training went on from; None: started anew."""
    stopped_early: bool
    """True when ``should_stop`` ended it; ``weights`` then do not exist yet."""
    validation_loss: float
    reused: bool
    """True when finished weights of the same configuration and data were there already."""


def source_fingerprint(*rooms: str) -> str:
    """Return 16 hex digits of the library's source below ``rooms``.

    Part of every result's key: a changed prior or model is a different result, never a stale hit.
    """
    digest = hashlib.sha256(priorline.__version__.encode())
    root = Path(priorline.__file__).parent
    for room in rooms:
        path = root / room
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def data_identity(config: RunConfig) -> dict[str, Any]:
    """Return all that fixes the bytes of a run's prior shards."""
    return {
        "prior": config.prior.model_dump(mode="json"),
        "curriculum": Curriculum(config.training, config.seed).fingerprint(),
        "data": config.data.model_dump(mode="json", exclude={"source"}),
        "source": source_fingerprint("priors", "batches.py", "seeding.py", "training/curriculum.py"),
    }


def data_name(config: RunConfig) -> str:
    """Return the folder of a run's shards below ``data/priors``."""
    return f"{config.name}-{config_hash(data_identity(config))}"


def generate(
    config: RunConfig, directory: Path, *, num_workers: int = 1, on_progress: Progress | None = None
) -> GenerateResult:
    """Write the prior shards of ``config`` into ``directory``; do nothing when they are all there.

    Parameters
    ----------
    directory : Path
        Usually ``data/priors/<data_name(config)>``.
    num_workers : int
        Processes; any number gives the same bytes.
    on_progress : callable, optional
        Called with (shards done, shards in all).

    Raises
    ------
    ShardError
        If shards cannot be written or a prior rejects its own configuration.
    """
    curriculum = Curriculum(config.training, config.seed)
    specs = curriculum.train_specs[: config.data.max_batches or len(curriculum.train_specs)]
    reused = (directory / "manifest.json").exists() and not verify_shards(directory)
    manifest = write_shards(
        build_prior(config.prior),
        specs,
        curriculum.validation_specs,
        directory,
        batches_per_shard=config.data.batches_per_shard,
        num_workers=num_workers,
        identity=data_identity(config),
        on_progress=on_progress,
    )
    return GenerateResult(
        directory=directory,
        data_hash=manifest.data_hash,
        num_datasets=manifest.num_datasets,
        num_batches=manifest.num_batches,
        size_bytes=sum(shard.size_bytes for shard in manifest.shards),
        reused=reused,
    )


def read_data_hash(directory: Path) -> str:
    """Return the data hash of the shards in ``directory`` (raises `ShardError` without a manifest)."""
    return read_manifest(directory).data_hash


def pretrain_identity(config: RunConfig, data_hash: str) -> dict[str, Any]:
    """Return all that fixes a run's weights; evaluation and promotion do not."""
    return {
        "model": config.model.model_dump(mode="json"),
        "training": config.training.model_dump(mode="json"),
        "data": data_identity(config) if config.data.source == "stream" else data_hash,
        "seed": config.seed,
        "source": source_fingerprint(f"models/{config.model.kind}", "models/common", "training"),
    }


def pretrain_name(config: RunConfig, data_hash: str) -> str:
    """Return the folder of a run's checkpoints and weights."""
    return f"{config.name}-{config_hash(pretrain_identity(config, data_hash))}"


def pretrain(
    config: RunConfig,
    *,
    work_dir: Path,
    priors_dir: Path,
    device: str = "cpu",
    num_workers: int = 0,
    log_metrics: Callable[[dict[str, float], int], None],
    on_checkpoint: Callable[[Path, int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> PretrainResult:
    """Train ``config.model`` through its curriculum and write ``work_dir/weights``.

    A call that finds checkpoints of the same configuration and data goes on from the newest intact
    one, and reaches the weights of an unbroken run bit for bit (same device and thread count).

    Parameters
    ----------
    priors_dir : Path
        Shards written by `generate`; validation tables always come from here, training batches
        when ``config.data.source == "shards"``.
    num_workers : int
        Sampling processes when the source is the stream.
    log_metrics : callable
        Called with (name to value, step).
    should_stop : callable, optional
        Asked after every step; True writes a checkpoint and returns.

    Raises
    ------
    CheckpointError, ShardError, TrainingError
    """
    manifest = read_manifest(priors_dir)
    identity = pretrain_identity(config, manifest.data_hash)
    weights = work_dir / "weights"
    finished = _finished(weights, identity)
    if finished is not None:
        return finished

    def batches(start: int) -> Iterator[Batch]:
        if config.data.source == "shards":
            return read_batches(priors_dir, split="train", start=start)
        specs = Curriculum(config.training, config.seed).train_specs
        return stream_batches(build_prior(config.prior), specs, start=start, num_workers=num_workers)

    spec = MODELS[config.model.kind]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(config.seed, "weights"))
        model = spec.build(config.model)
    result = train(
        model,
        objective=spec.objective,
        batches=batches,
        validation=lambda: read_batches(priors_dir, split="validation"),
        config=config.training,
        seed=config.seed,
        work_dir=work_dir,
        identity=identity,
        device=device,
        log_metrics=log_metrics,
        on_checkpoint=on_checkpoint,
        should_stop=should_stop,
    )
    outcome = {
        "steps": result.steps,
        "validation_loss": result.validation_loss,
        "nonfinite_batches": result.nonfinite_batches,
    }
    if not result.stopped_early:
        metadata = {
            "run": config.model_dump(mode="json"),
            "identity": identity,
            "data_hash": manifest.data_hash,
            **outcome,
        }
        kind, model_config = config.model.kind, config.model.model_dump(mode="json")
        save_weights(weights, model.cpu(), kind=kind, model_config=model_config, metadata=metadata)
    return PretrainResult(
        weights=weights,
        weights_hash="" if result.stopped_early else weights_hash(weights),
        steps=result.steps,
        resumed_from=result.resumed_from,
        stopped_early=result.stopped_early,
        validation_loss=result.validation_loss,
        reused=False,
    )


def _finished(weights: Path, identity: dict[str, Any]) -> PretrainResult | None:
    if not (weights / "config.json").exists():
        return None
    _, content = load_weights(weights)
    metadata = content["metadata"]
    if metadata["identity"] != json.loads(json.dumps(identity)):
        return None
    return PretrainResult(
        weights=weights,
        weights_hash=weights_hash(weights),
        steps=metadata["steps"],
        resumed_from=None,
        stopped_early=False,
        validation_loss=metadata["validation_loss"],
        reused=True,
    )


def evaluate(
    contenders: Mapping[str, Path],
    config: EvaluationConfig,
    *,
    problem_type: str = "classification",
    device: str = "cpu",
    on_progress: Progress | None = None,
) -> pd.DataFrame:
    """Return tidy metric rows of ``contenders`` (name to weights) and baselines on held-out tables."""
    return run_evaluation(contenders, config, problem_type=problem_type, device=device, on_progress=on_progress)


def load_predictor(weights: Path, problem_type: str, **params: Any) -> Any:
    """Return a scikit-learn estimator over the weights in ``weights``."""
    return load_estimator(weights, problem_type, **params)


def read_weights_hash(weights: Path) -> str:
    """Return what identifies the weights in a folder; raises `CheckpointError` without any."""
    return weights_hash(weights)


PREDICTED_QUANTILES = (0.1, 0.5, 0.9)
"""Levels that a regressor's predictions come with: the median, and an interval that holds four in five."""


def prediction_table(predictor: Any, query: pd.DataFrame, rows: Sequence[int]) -> pd.DataFrame:
    """Return ``row``, ``prediction`` and how sure the predictor is, for the rows of ``query``.

    A classifier says so by a column ``probability_<class>`` each, a regressor by ``quantile_<level>``.

    Parameters
    ----------
    predictor : estimator
        Fitted, with ``predict_proba`` or ``predict_quantiles``.
    rows : sequence of int
        Number of each query row in the caller's table.
    """
    columns: dict[str, Any] = {"row": np.asarray(rows, dtype=np.int64)}
    if hasattr(predictor, "predict_proba"):
        probabilities = predictor.predict_proba(query)
        columns["prediction"] = predictor.classes_[probabilities.argmax(axis=1)]
        columns |= {f"probability_{label}": probabilities[:, place] for place, label in enumerate(predictor.classes_)}
    else:
        columns["prediction"] = predictor.predict(query)
        quantiles = predictor.predict_quantiles(query, PREDICTED_QUANTILES)
        columns |= {f"quantile_{level}": quantiles[:, place] for place, level in enumerate(PREDICTED_QUANTILES)}
    return pd.DataFrame(columns)


def explain_columns(
    context: Path, weights: Path, target: str | None, out: Path, *, device: str = "cpu"
) -> dict[str, Any]:
    """Write ``columns.csv`` and ``columns.png`` to the folder ``out`` and return where they lie and what they show.

    Parameters
    ----------
    context : Path
        CSV or Parquet file of real rows.
    target : str, optional
        Column of labels, left out of the map.

    Raises
    ------
    InputError
        If the file cannot be read, or has too few rows or columns for a map.
    """
    table = map_columns(weights, read_table(context), target, device=device)
    out.mkdir(parents=True, exist_ok=True)
    write_table(table, out / "columns.csv")
    draw_column_map(table, out / "columns.png")
    return {
        "columns": len(table),
        "explained_variance": [round(share, 4) for share in table.attrs["explained_variance"]],
        "numbers": str(out / "columns.csv"),
        "figure": str(out / "columns.png"),
    }


def explain_row(
    context: pd.DataFrame, target: str, query: pd.DataFrame, row: int, weights: Path, *, device: str = "cpu"
) -> tuple[str, dict[str, Any]]:
    """Return an HTML page that explains the prediction for ``row`` of ``query``, and its facts as JSON-ready values.

    Raises
    ------
    InputError
        If a table cannot be used, there is no such row, or the weights' kind of model gives no reasons.
    """
    return explain_prediction(context, target, query, row, weights, predict=prediction_table, device=device)


def problem_types(config: RunConfig) -> tuple[str, ...]:
    """Return what the model of ``config`` can be judged and registered for."""
    return config.model.problem_types


def weights_problem_types(weights: Path) -> tuple[str, ...]:
    """Return what the weights in a folder can be judged and used for; raises `CheckpointError` without any."""
    return read_model_config(weights).problem_types


def one_problem_type(contenders: Mapping[str, Path]) -> str:
    """Return the one problem type that the weights of all ``contenders`` serve.

    Raises
    ------
    InputError
        If they share none, or several.
    """
    served = {name: weights_problem_types(weights) for name, weights in contenders.items()}
    shared = [
        kind for kind in dict.fromkeys(sum(served.values(), ())) if all(kind in kinds for kinds in served.values())
    ]
    if len(shared) != 1:
        facts = "; ".join(f"{name} serves {', '.join(kinds)}" for name, kinds in served.items())
        raise InputError(f"contenders share {len(shared)} problem types ({facts}); name one by --problem-type")
    return shared[0]


def resolve_device(wanted: str) -> str:
    """Return ``wanted``, or for ``auto`` the CUDA device if there is one, else ``cpu``."""
    if wanted != "auto":
        return wanted
    return "cuda" if torch.cuda.is_available() else "cpu"


def as_plain(result: Any) -> dict[str, Any]:
    """Return a result dataclass as JSON-ready values (paths become text)."""
    return {key: str(value) if isinstance(value, Path) else value for key, value in asdict(result).items()}
