"""One logger: the run's in a flow or task, a plain one elsewhere (tests, scripts)."""

import logging
from typing import Any

from prefect import get_run_logger
from prefect.exceptions import MissingContextError


def get_logger() -> Any:
    """Return Prefect's logger of the current run, or ``logging.getLogger("priorline")``."""
    try:
        return get_run_logger()
    except MissingContextError:
        return logging.getLogger("priorline")
