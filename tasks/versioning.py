"""DVC: one pointer, ``data.dvc``, over all of ``data/`` (the only module that calls DVC)."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from prefect import task

from priorline.errors import InputError, PriorlineError
from tasks.logs import get_logger, quiet

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
        If there is no file in ``data/``.
    PriorlineError
        If the remote cannot be reached (``data.dvc`` is then written already) or the lock stays held.
    """
    folder = Path(root).resolve()
    if not any(path.is_file() for path in (folder / "data").rglob("*")):
        raise InputError(f"there is no file in {folder / 'data'}; generate priors first")
    prepare_repo(folder, remote_url)
    pointer = folder / "data.dvc"
    before = pointer.read_bytes() if pointer.exists() else b""
    out = with_lock_retries(
        folder,
        lambda repo: repo.add([str(folder / "data")])[0].outs[0],
        doing=f"add {folder / 'data'}",
        remedy="check that the disk has room and that git does not track data/, then run again",
    )
    pushed = with_lock_retries(
        folder,
        lambda repo: repo.push(targets=[str(pointer)], remote=REMOTE),
        doing=f"push to {remote_url}",
        remedy="check the remote (PRIORLINE_DVC_REMOTE) and run again; data.dvc is written already",
    )
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
    with_lock_retries(
        root,
        lambda repo: repo.pull(targets=[str(root / "data.dvc")], remote=REMOTE),
        doing=f"pull from {remote_url}",
        remedy="check the remote (PRIORLINE_DVC_REMOTE), and that this version was pushed to it",
    )


def data_status(root: Path) -> dict[str, Any]:
    """Return what ``dvc status`` finds changed; empty when ``data/`` is what ``data.dvc`` says."""
    return with_lock_retries(
        root,
        lambda repo: dict(repo.status()),
        doing=f"compare {root / 'data'} with data.dvc",
        remedy="check that data.dvc is whole (`git diff data.dvc`)",
    )


def prepare_repo(root: Path, remote_url: str) -> None:
    """Make ``root`` a DVC repository if it is none, and name the remote in ``.dvc/config.local``.

    Outside git, DVC runs without source control. A relative path counts from the current folder; DVC
    itself would count it from ``.dvc``.
    """
    from dvc.config import Config
    from dvc.repo import Repo

    in_git = (root / ".git").exists()
    if not (root / ".dvc" / "config").exists():
        Repo.init(str(root), no_scm=not in_git).close()
        with Config(str(root / ".dvc")).edit("repo") as shared:
            shared.setdefault("core", {}).update(analytics=False, autostage=False, remote=REMOTE)
    url = remote_url if "://" in remote_url else str(Path(remote_url).expanduser().resolve())
    config = Config(str(root / ".dvc"))
    known_url = config["remote"].get(REMOTE, {}).get("url")
    if known_url != url or config["core"].get("no_scm", False) == in_git:
        with config.edit("local") as local:
            local.setdefault("remote", {}).setdefault(REMOTE, {})["url"] = url
            local.setdefault("core", {})["no_scm"] = not in_git


def with_lock_retries(root: Path, action: Callable[[Any], T], *, doing: str, remedy: str) -> T:
    """Return ``action(repo)``; wait and try again while another process holds the lock.

    A failure says "DVC could not <doing>: <why>; <remedy>".
    """
    from dvc.exceptions import DvcException
    from dvc.lock import LockError
    from dvc.repo import Repo

    quiet("dvc")
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
            get_logger().warning("DVC's lock is held by another process; trying again in %g s", wait_s)
            time.sleep(wait_s)
        except (DvcException, OSError) as fault:
            raise PriorlineError(f"DVC could not {doing}: {fault}; {remedy}") from fault
    raise AssertionError("unreachable")
