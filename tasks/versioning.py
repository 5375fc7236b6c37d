"""DVC: one pointer, ``data.dvc``, over all of ``data/`` (the only module that calls DVC)."""

import configparser
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from prefect import task

from priorline.errors import InputError, PriorlineError
from tasks.logs import get_logger

REMOTE = "storage"
"""Name of the default remote in ``.dvc/config``; its URL is this machine's business."""
LOCK_WAITS_S = (1, 2, 4, 8, 16, 30)
"""Pauses between tries when another process holds DVC's lock (DVC itself waits 3 s each time)."""

T = TypeVar("T")


@task(retries=2, retry_delay_seconds=[5, 30])
def version_data(root: str, remote_url: str) -> dict[str, Any]:
    """Add ``data/`` to DVC, push it, and return its hash.

    Returns
    -------
    dict
        ``md5`` (ends in ``.dir``), ``num_files``, ``size_bytes``, ``changed`` (whether ``data.dvc``
        was rewritten), ``pushed`` (files that the remote lacked).

    Raises
    ------
    InputError
        If there is no ``data/`` folder.
    PriorlineError
        If the remote cannot be reached or the lock stays held.
    """
    folder = Path(root)
    if not (folder / "data").is_dir():
        raise InputError(f"{folder / 'data'} does not exist; generate priors first")
    prepare_repo(folder, remote_url)
    pointer = folder / "data.dvc"
    before = pointer.read_bytes() if pointer.exists() else b""
    out = with_lock_retries(folder, lambda repo: repo.add([str(folder / "data")])[0].outs[0])
    pushed = with_lock_retries(folder, lambda repo: repo.push(targets=[str(pointer)]))
    changed = pointer.read_bytes() != before
    get_logger().info("data version %s: %s", out.hash_info.value, "new" if changed else "unchanged")
    return {
        "md5": out.hash_info.value,
        "num_files": out.meta.nfiles,
        "size_bytes": out.meta.size,
        "changed": changed,
        "pushed": int(pushed or 0),
    }


def pull_data(root: Path, remote_url: str) -> None:
    """Bring ``data/`` to what ``data.dvc`` says, from the remote."""
    prepare_repo(root, remote_url)
    with_lock_retries(root, lambda repo: repo.pull(targets=[str(root / "data.dvc")]))


def data_status(root: Path) -> dict[str, Any]:
    """Return what ``dvc status`` finds changed; empty when ``data/`` is what ``data.dvc`` says."""
    return with_lock_retries(root, lambda repo: dict(repo.status()))


def prepare_repo(root: Path, remote_url: str) -> None:
    """Make ``root`` a DVC repository if it is none, and name the remote in ``.dvc/config.local``.

    Outside git, DVC runs without source control.
    """
    if not (root / ".dvc" / "config").exists():
        from dvc.repo import Repo

        Repo.init(str(root), no_scm=not (root / ".git").exists(), force=False).close()
        _set_option(root / ".dvc" / "config", "core", "analytics", "false")
        _set_option(root / ".dvc" / "config", "core", "remote", REMOTE)
    if "://" not in remote_url:
        Path(remote_url).mkdir(parents=True, exist_ok=True)
    _set_option(root / ".dvc" / "config.local", f"'remote \"{REMOTE}\"'", "url", remote_url)
    if not (root / ".git").exists():
        _set_option(root / ".dvc" / "config.local", "core", "no_scm", "true")


def with_lock_retries(root: Path, action: Callable[[Any], T]) -> T:
    """Return ``action(repo)``; wait and try again while another process holds the lock."""
    from dvc.exceptions import DvcException
    from dvc.lock import LockError
    from dvc.repo import Repo

    for wait_s in (*LOCK_WAITS_S, None):
        try:
            with Repo(str(root)) as repo:
                return action(repo)
        except LockError as fault:
            if wait_s is None:
                raise PriorlineError(
                    f"DVC's lock in {root} is still held after {sum(LOCK_WAITS_S)} s: {fault}; "
                    "end the other dvc process and run again"
                ) from fault
            get_logger().warning("DVC's lock is held by another process; trying again in %d s", wait_s)
            time.sleep(wait_s)
        except DvcException as fault:
            raise PriorlineError(
                f"DVC failed in {root}: {fault}; check the remote (PRIORLINE_DVC_REMOTE) and run again"
            ) from fault
    raise AssertionError("unreachable")


def _set_option(path: Path, section: str, name: str, value: str) -> None:
    """Write one value into a DVC config file, keeping the others; no change, no write."""
    config = configparser.ConfigParser(interpolation=None)
    config.read(path, encoding="utf-8")
    if not config.has_section(section):
        config.add_section(section)
    if config.get(section, name, fallback=None) == value:
        return
    config.set(section, name, value)
    with path.open("w", encoding="utf-8") as handle:
        config.write(handle)
