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


def quiet(*names: str) -> None:
    """Let the loggers of a tool speak from WARNING on.

    To be called after the tool was imported: each sets its own level then, and some write their
    housekeeping to standard output, where a machine reads our JSON.
    """
    for name in names:
        logging.getLogger(name).setLevel(logging.WARNING)
