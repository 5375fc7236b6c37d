"""Prior shards: generate what a run trains on."""

from pathlib import Path
from typing import Any

from prefect import task

from priorline import api
from priorline.configs import get_config
from tasks.progress import track


@task(retries=2, retry_delay_seconds=[5, 30])
def generate_shards(config_name: str, overrides: dict[str, Any], data_dir: str, num_workers: int) -> dict[str, Any]:
    """Write the shards of a run below ``data_dir/priors`` and return what `api.generate` says."""
    config = get_config(config_name, overrides)
    directory = Path(data_dir) / "priors" / api.data_name(config)
    with track(f"priors {config.name}", "shards") as report:
        result = api.generate(config, directory, num_workers=num_workers, on_progress=report)
    return api.as_plain(result)
