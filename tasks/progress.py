"""Progress of long work: a bar on a terminal, log lines elsewhere, a progress artifact in Prefect."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast
from uuid import UUID

from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.context import TaskRunContext
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tasks.logs import get_logger

ARTIFACT_INTERVAL_S = 2.0
"""Seconds between two updates of the Prefect artifact; each is a request to the server."""


@contextmanager
def track(title: str, unit: str = "") -> Iterator[Callable[..., None]]:
    """Yield ``report(done, total, note="")``; the bar goes to standard error and only to a terminal."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
        disable=not sys.stderr.isatty(),
    )
    row = bar.add_task(title, total=None, note="")
    logger = get_logger()
    artifact = create_progress_artifact(progress=0.0, description=title) if TaskRunContext.get() else None
    last_sent, last_tenth = time.monotonic(), 0

    def report(done: int, total: int, note: str = "") -> None:
        nonlocal last_sent, last_tenth
        bar.update(row, completed=done, total=total, note=note)
        tenth = 10 * done // max(total, 1)
        if tenth > last_tenth:
            last_tenth = tenth
            logger.info("%s: %d of %d %s %s", title, done, total, unit, note)
        if artifact is not None and (done >= total or time.monotonic() - last_sent > ARTIFACT_INTERVAL_S):
            update_progress_artifact(cast(UUID, artifact), progress=100.0 * done / max(total, 1))
            last_sent = time.monotonic()

    with bar:
        yield report
