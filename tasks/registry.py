"""The MLflow model registry: versions, lineage, and the aliases champion, previous, challenger.

A reader of ``models:/<name>@champion`` always finds a model: aliases move in one call each, and
``previous`` is written before ``champion`` moves.
"""

import getpass
import shutil
import warnings
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlflow
from mlflow import MlflowClient
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.models import ModelSignature
from mlflow.types.schema import ParamSchema, ParamSpec
from prefect import task

import priorline
from priorline import api
from priorline.errors import CheckpointError, ConfigError, RegistryError
from tasks.logs import get_logger
from tasks.settings import load_settings
from tasks.tracking import connect, log_files

MODEL_NAMES = {
    "classification": "priorline-classifier",
    "regression": "priorline-regressor",
    "imputation": "priorline-imputer",
    "forecasting": "priorline-forecaster",
}
CHAMPION, PREVIOUS, CHALLENGER = "champion", "previous", "challenger"
WEIGHTS_HASH = "priorline.weights_hash"
ROLLED_BACK_AT = "priorline.rolled_back_at"
INHERITED_TAGS = ("git.", "dvc.", "prefect.", "priorline.source_")
"""Prefixes of a run's tags that its registered version carries too."""
MAX_REASON_LENGTH = 5000
"""Longest value of a tag that every store of MLflow takes."""


@task(retries=2, retry_delay_seconds=5)
def champion_contender(problem_type: str, home: str) -> dict[str, Any] | None:
    """Return the champion as a contender (name, version, weights folder, hash), or None if there is none."""
    client = connect()
    name = MODEL_NAMES[problem_type]
    version = _version_by_alias(client, name, CHAMPION)
    return None if version is None else _as_contender(version, Path(home))


@task(retries=2, retry_delay_seconds=5)
def fetch_champion(problem_type: str, weights: str | None, home: str) -> dict[str, Any]:
    """Return the model to predict with: the folder ``weights`` if given, else the champion.

    Raises
    ------
    RegistryError
        If there is no champion yet.
    """
    if weights is not None:
        return {
            "name": weights,
            "version": None,
            "weights": weights,
            "weights_hash": api.read_weights_hash(Path(weights)),
        }
    found = champion_contender.fn(problem_type, home)
    if found is None:
        raise RegistryError(
            f"{MODEL_NAMES[problem_type]} has no champion yet; run `priorline run`, import a checkpoint, "
            "or name weights with --weights"
        )
    return found


@task(retries=2, retry_delay_seconds=5)
def apply_decision(
    problem_type: str, decision: dict[str, Any], candidates: list[dict[str, Any]], evaluation: dict[str, Any]
) -> dict[str, Any]:
    """Register winner and challenger of ``decision`` and move the aliases; doing it twice changes nothing.

    A version that was rolled back is not promoted again; `rollback` once more lifts that.

    Returns
    -------
    dict
        ``model``, ``champion_version``, ``challenger_version``, ``previous_version``, ``promoted``, ``reason``.
    """
    client = connect()
    name = MODEL_NAMES[problem_type]
    by_name = {model["config"]: model for model in candidates}
    promoted, reason = decision["promote"], decision["reason"]
    if decision["winner"] is not None:
        version = register_version(client, problem_type, by_name[decision["winner"]], evaluation, decision)
        rolled_back_at = client.get_model_version(name, version).tags.get(ROLLED_BACK_AT)
        if rolled_back_at is None:
            promote(name, version, reason)
        else:
            # What a person took back, no schedule promotes again.
            promoted = False
            reason = f"{reason} Not promoted: version {version} was rolled back at {rolled_back_at}."
            get_logger().warning(reason)
    if decision["challenger"] in by_name:
        version = register_version(client, problem_type, by_name[decision["challenger"]], evaluation, decision)
        client.set_registered_model_alias(name, CHALLENGER, version)
    aliases = _aliases(client, name)
    return {
        "model": name,
        "champion_version": aliases.get(CHAMPION),
        "challenger_version": aliases.get(CHALLENGER),
        "previous_version": aliases.get(PREVIOUS),
        "promoted": promoted,
        "reason": reason,
    }


def register_version(
    client: MlflowClient,
    problem_type: str,
    model: dict[str, Any],
    evaluation: dict[str, Any],
    decision: dict[str, Any],
) -> str:
    """Return the version that holds the weights of ``model``, made if there is none.

    Its tags name the evaluation that was decided by last: a challenger may win a later one.

    Parameters
    ----------
    model : dict
        What `tasks.training.pretrain_model` or `tasks.importing.import_model` returned.
    evaluation : dict
        What `tasks.evaluation.evaluate_contenders` returned; its rows and report go to the run.
    """
    name = MODEL_NAMES[problem_type]
    _ensure_model(client, name, problem_type)
    run = client.get_run(model["mlflow_run_id"])
    for version in client.search_model_versions(f"name = '{name}'"):
        if version.tags.get(WEIGHTS_HASH) == model["weights_hash"]:
            evaluated = _evaluation_tags(run.info.run_id, evaluation, decision)
            if any(version.tags.get(key) != value for key, value in evaluated.items()):
                _attach_evaluation(run.info.run_id, evaluation)
                for key, value in evaluated.items():
                    client.set_model_version_tag(name, str(version.version), key, value)
            return str(version.version)
    _attach_evaluation(run.info.run_id, evaluation)
    logged = _log_model(run.info.run_id, problem_type, Path(model["weights"]), model)
    tags = {
        **{key: value for key, value in run.data.tags.items() if key.startswith(INHERITED_TAGS)},
        WEIGHTS_HASH: model["weights_hash"],
        "priorline.config": model["config"],
        "priorline.config_hash": model["config_hash"],
        "priorline.data_hash": model["data_hash"],
        "priorline.version": priorline.__version__,
        **_evaluation_tags(run.info.run_id, evaluation, decision),
    }
    created = mlflow.register_model(logged, name, tags=tags)
    get_logger().info("registered %s version %s", name, created.version)
    return str(created.version)


def _evaluation_tags(run_id: str, evaluation: dict[str, Any], decision: dict[str, Any]) -> dict[str, str]:
    rows = f"{_evaluation_folder(evaluation)}/{Path(evaluation['rows']).name}"
    return {
        "priorline.suite": evaluation["suite"],
        "priorline.suite_hash": evaluation["suite_hash"],
        "priorline.evaluation_rows": f"runs:/{run_id}/{rows}",
        "priorline.decision": decision["reason"][:MAX_REASON_LENGTH],
    }


def _attach_evaluation(run_id: str, evaluation: dict[str, Any]) -> None:
    rows = Path(evaluation["rows"])
    files = [rows, rows.with_name("report.html"), rows.with_name("decision.json")]
    log_files(run_id, files, _evaluation_folder(evaluation))


def _evaluation_folder(evaluation: dict[str, Any]) -> str:
    return f"evaluation/{evaluation['evaluation_key']}"


def promote(name: str, version: str, reason: str) -> None:
    """Make ``version`` the champion of ``name`` and keep the old one as ``previous``."""
    client = connect()
    aliases = _aliases(client, name)
    before = aliases.get(CHAMPION)
    if before != version:
        audit = {"promoted_at": _now(), "promoted_by": _user(), "promotion_reason": reason[:MAX_REASON_LENGTH]}
        for key, value in audit.items():
            client.set_model_version_tag(name, version, f"priorline.{key}", value)
        if before is not None:
            client.set_registered_model_alias(name, PREVIOUS, before)
        client.set_registered_model_alias(name, CHAMPION, version)
    if aliases.get(CHALLENGER) == version:
        client.delete_registered_model_alias(name, CHALLENGER)


def rollback(name: str) -> dict[str, Any]:
    """Make the previous champion the champion again; the two change places.

    Raises
    ------
    RegistryError
        If there is no previous champion.
    """
    client = connect()
    name = full_name(name)
    aliases = _aliases(client, name)
    if not {CHAMPION, PREVIOUS} <= aliases.keys() or aliases[CHAMPION] == aliases[PREVIOUS]:
        raise RegistryError(f"{name} has no previous champion to go back to; aliases: {aliases or 'none'}")
    bad, good = aliases[CHAMPION], aliases[PREVIOUS]
    client.set_model_version_tag(name, bad, ROLLED_BACK_AT, _now())
    client.set_model_version_tag(name, bad, "priorline.rolled_back_by", _user())
    if ROLLED_BACK_AT in client.get_model_version(name, good).tags:
        client.delete_model_version_tag(name, good, ROLLED_BACK_AT)
    client.set_registered_model_alias(name, CHAMPION, good)
    client.set_registered_model_alias(name, PREVIOUS, bad)
    return {"model": name, "champion_version": good, "previous_version": bad}


def list_models() -> list[dict[str, Any]]:
    """Return each registered model with its number of versions and its aliases."""
    client = connect()
    return [
        {
            "name": model.name,
            "versions": len(client.search_model_versions(f"name = '{model.name}'")),
            "aliases": _aliases(client, model.name),
        }
        for model in client.search_registered_models()
    ]


def show(name: str) -> dict[str, Any]:
    """Return the versions of a model, newest first, each with aliases and lineage.

    Parameters
    ----------
    name : str
        ``classifier`` or ``priorline-classifier``.

    Raises
    ------
    RegistryError
        If there is no such model.
    """
    client = connect()
    name = full_name(name)
    aliases = _aliases(client, name)
    versions = []
    for version in sorted(client.search_model_versions(f"name = '{name}'"), key=lambda v: -int(v.version)):
        lineage = {key: version.tags[key] for key in sorted(version.tags)}
        lineage |= {"mlflow.run_id": version.run_id, "mlflow.model": version.source}
        versions.append(
            {
                "version": str(version.version),
                "created": datetime.fromtimestamp(version.creation_timestamp / 1000, UTC).isoformat(),
                "aliases": sorted(alias for alias, held in aliases.items() if held == str(version.version)),
                "lineage": lineage,
            }
        )
    return {"name": name, "aliases": aliases, "versions": versions}


def full_name(name: str) -> str:
    """Return the registered name for a short or full one; raises `RegistryError` if it is not registered."""
    wanted = name if name.startswith("priorline-") else f"priorline-{name}"
    known = sorted(model.name for model in connect().search_registered_models())
    if wanted not in known:
        raise RegistryError(
            f"no model {wanted!r} is registered; registered: {', '.join(known) or 'none yet, run `priorline run`'}"
        )
    return wanted


def _log_model(run_id: str, problem_type: str, weights: Path, model: dict[str, Any]) -> str:
    """Log the serving script with its weights under the run and return the model's URI."""
    script = load_settings().serving_script
    if not script.exists():
        raise ConfigError(f"{script} is missing; run from a checkout, or set PRIORLINE_ROOT to one")
    with mlflow.start_run(run_id=run_id), warnings.catch_warnings():
        # No input example on purpose: a registered model holds no rows.
        warnings.filterwarnings("ignore", message=".*[Ii]nput example")
        info = mlflow.pyfunc.log_model(
            name="model",
            python_model=str(script),
            artifacts={"weights": str(weights)},
            model_config={"problem_type": problem_type},
            # Any column is accepted; which one is the target comes with the request.
            signature=ModelSignature(params=ParamSchema([ParamSpec("target", "string", "target")])),
            pip_requirements=[f"priorline=={priorline.__version__}"],
            metadata={WEIGHTS_HASH: model["weights_hash"], "priorline.data_hash": model["data_hash"]},
        )
    return info.model_uri


def _as_contender(version: ModelVersion, home: Path) -> dict[str, Any]:
    wanted = version.tags[WEIGHTS_HASH]
    return {
        "name": f"{version.name}-v{version.version}",
        "version": str(version.version),
        "weights": str(_fetch_weights(version, wanted, home / "registry" / wanted)),
        "weights_hash": wanted,
    }


def _fetch_weights(version: ModelVersion, wanted: str, folder: Path) -> Path:
    """Return a local folder of the version's weights, downloaded unless it is there and whole."""
    weights = folder / "weights"
    if _holds(weights, wanted):
        return weights
    folder.mkdir(parents=True, exist_ok=True)
    uri = f"models:/{version.name}/{version.version}"
    # Downloaded aside and renamed: a killed download or another process leaves no half folder behind.
    with TemporaryDirectory(prefix=".download-", dir=folder) as aside:
        found = Path(mlflow.artifacts.download_artifacts(artifact_uri=f"{uri}/artifacts/weights", dst_path=aside))
        if not _holds(found, wanted):
            raise CheckpointError(f"{uri} does not hold the weights that were registered ({wanted}); register it anew")
        if not _holds(weights, wanted):  # else another process was faster
            shutil.rmtree(weights, ignore_errors=True)
            found.rename(weights)
    return weights


def _holds(weights: Path, wanted: str) -> bool:
    """Return whether the folder ``weights`` is there, readable, and the one with hash ``wanted``."""
    try:
        return api.read_weights_hash(weights) == wanted
    except CheckpointError:
        return False


def _ensure_model(client: MlflowClient, name: str, problem_type: str) -> None:
    try:
        client.create_registered_model(name, description=f"In-context {problem_type}; holds weights, no rows.")
    except MlflowException as fault:
        if fault.error_code != "RESOURCE_ALREADY_EXISTS":
            raise


def _version_by_alias(client: MlflowClient, name: str, alias: str) -> ModelVersion | None:
    number = _aliases(client, name).get(alias)
    return None if number is None else client.get_model_version(name, number)


def _aliases(client: MlflowClient, name: str) -> dict[str, str]:
    """Return alias to version; empty when the model is not registered."""
    found = client.search_registered_models(f"name = '{name}'")
    return {alias: str(number) for alias, number in found[0].aliases.items()} if found else {}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _user() -> str:
    return getpass.getuser()
