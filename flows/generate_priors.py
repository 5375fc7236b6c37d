"""Write the prior shards of one run and version them."""

from typing import Any

from prefect import flow

from tasks.priors import generate_shards
from tasks.settings import load_settings
from tasks.versioning import version_data


@flow(name="generate-priors")
def generate_priors(config: str, overrides: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return where the shards of ``config`` lie, their hash and the DVC hash of ``data/``.

    Shards that are there already are kept; DVC then finds nothing to do.
    """
    settings = load_settings()
    shards = generate_shards(config, overrides or {}, str(settings.data_dir), settings.num_workers)
    version = version_data(str(settings.root), settings.dvc_remote)
    return {**shards, "data_md5": version["md5"]}
