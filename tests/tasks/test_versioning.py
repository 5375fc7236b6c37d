"""DVC for real: a git repository, a DVC repository, a local remote."""

import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from priorline.errors import InputError, PriorlineError
from tasks import versioning
from tasks.versioning import data_status, pull_data, version_data

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path, run_git):
    """The repository's own DVC state in a fresh git repository."""
    root = tmp_path / "project"
    (root / ".dvc").mkdir(parents=True)
    for name in [".dvc/config", ".dvc/.gitignore", ".dvcignore", "data.dvc"]:
        (root / name).write_bytes((ROOT / name).read_bytes())
    (root / ".gitignore").write_text("/data\n")
    run_git(root, "init", "-q")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "start")
    return root


def write(root: Path, name: str, text: str) -> None:
    path = root / "data" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_version_is_hashed_pushed_and_leaves_one_change(project, tmp_path, run_git):
    write(project, "priors/a/x.bin", "one")
    first = version_data.fn(str(project), str(tmp_path / "remote"))
    assert first["md5"].endswith(".dir")
    assert first["num_files"] == 1
    assert first["changed"]
    assert first["pushed"] > 0
    assert first["md5"] in (project / "data.dvc").read_text()
    assert run_git(project, "status", "--porcelain").split() == ["M", "data.dvc"]
    assert data_status(project) == {}
    again = version_data.fn(str(project), str(tmp_path / "remote"))
    assert (again["md5"], again["changed"], again["pushed"]) == (first["md5"], False, 0)


def test_another_content_is_another_version_and_an_old_one_comes_back(project, tmp_path, run_git):
    remote = str(tmp_path / "remote")
    write(project, "x", "one")
    first = version_data.fn(str(project), remote)
    pointer = (project / "data.dvc").read_bytes()
    write(project, "x", "two")
    assert data_status(project)
    assert version_data.fn(str(project), remote)["md5"] != first["md5"]
    (project / "data.dvc").write_bytes(pointer)
    pull_data(project, remote)
    assert (project / "data" / "x").read_text() == "one"


def test_a_clone_pulls_what_was_pushed(project, tmp_path, run_git):
    write(project, "x", "one")
    version_data.fn(str(project), str(tmp_path / "remote"))
    run_git(project, "commit", "-qam", "data")
    run_git(tmp_path, "clone", "-q", str(project), "clone")
    pull_data(tmp_path / "clone", str(tmp_path / "remote"))
    assert (tmp_path / "clone" / "data" / "x").read_text() == "one"


def test_missing_data_is_refused(project, tmp_path):
    with pytest.raises(InputError, match="generate priors first"):
        version_data.fn(str(project), str(tmp_path / "remote"))


def test_empty_data_is_refused(project, tmp_path):
    (project / "data" / "priors").mkdir(parents=True)
    with pytest.raises(InputError, match="no file in"):
        version_data.fn(str(project), str(tmp_path / "remote"))


@pytest.mark.parametrize("name", ["relative", 'with #1, a "quote" and 100%'])
def test_a_remote_folder_of_any_name_is_the_one_that_is_named(project, tmp_path, run_git, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    write(project, "x", "one")
    assert version_data.fn(str(project), name)["pushed"] == 2
    assert (tmp_path / name / "files").is_dir()
    assert run_git(project, "status", "--porcelain").split() == ["M", "data.dvc"]


def test_an_unreachable_remote_is_an_error_that_names_it_and_the_next_try_pushes(project, tmp_path):
    write(project, "x", "one")
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(PriorlineError, match="PRIORLINE_DVC_REMOTE") as caught:
        version_data.fn(str(project), str(tmp_path / "file" / "remote"))
    assert str(tmp_path / "file" / "remote") in str(caught.value)
    assert version_data.fn(str(project), str(tmp_path / "remote"))["pushed"] == 2


def test_a_missing_version_is_an_error_of_pull(project, tmp_path):
    write(project, "x", "one")
    version_data.fn(str(project), str(tmp_path / "remote"))
    shutil.rmtree(tmp_path / "remote")
    shutil.rmtree(project / ".dvc" / "cache")
    shutil.rmtree(project / "data")
    with pytest.raises(PriorlineError, match="this version was pushed"):
        pull_data(project, str(tmp_path / "remote"))


def test_a_project_of_an_archive_works_and_may_enter_git_later(project, tmp_path, run_git):
    shutil.rmtree(project / ".git")
    write(project, "x", "one")
    assert version_data.fn(str(project), str(tmp_path / "remote"))["changed"]
    assert "no_scm = True" in (project / ".dvc" / "config.local").read_text()
    run_git(project, "init", "-q")
    assert version_data.fn(str(project), str(tmp_path / "remote"))["changed"] is False
    assert "no_scm = False" in (project / ".dvc" / "config.local").read_text()


def test_a_users_autostage_does_not_stage_our_pointer(project, tmp_path, run_git, monkeypatch):
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "config").write_text("[core]\n    autostage = true\n")
    monkeypatch.setenv("DVC_GLOBAL_CONFIG_DIR", str(tmp_path / "user"))
    write(project, "x", "one")
    version_data.fn(str(project), str(tmp_path / "remote"))
    assert run_git(project, "diff", "--cached", "--name-only") == ""


def test_works_outside_git(tmp_path):
    root = tmp_path / "plain"
    write(root, "x", "one")
    assert version_data.fn(str(root), str(tmp_path / "remote"))["changed"]
    assert data_status(root) == {}


HOLD = """
import sys, time
from dvc.repo import Repo
with Repo(sys.argv[1]) as repo, repo.lock:
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def hold_lock(project: Path, seconds: float) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(project), str(seconds)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "held"
    return process


def test_waits_for_a_lock_that_is_released(project, tmp_path):
    write(project, "x", "one")
    holder = hold_lock(project, 60)
    threading.Thread(target=lambda: (time.sleep(5), holder.kill()), daemon=True).start()
    assert version_data.fn(str(project), str(tmp_path / "remote"))["changed"]
    holder.wait()


def test_a_lock_that_stays_is_an_error_that_says_so(project, tmp_path, monkeypatch):
    write(project, "x", "one")
    monkeypatch.setattr(versioning, "LOCK_WAITS_S", (0.1,))
    holder = hold_lock(project, 120)
    try:
        with pytest.raises(PriorlineError, match="lock"):
            version_data.fn(str(project), str(tmp_path / "remote"))
    finally:
        holder.kill()
        holder.wait()
