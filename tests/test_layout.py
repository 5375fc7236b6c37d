"""Guards of traps in the required top-level layout; each failure names its reason."""

from pathlib import Path

import mlflow

ROOT = Path(__file__).parents[1]


def test_mlflow_folder_does_not_shadow_the_package():
    assert not (ROOT / "mlflow/__init__.py").exists(), "it would shadow the installed mlflow package"
    assert not (ROOT / "mlflow.py").exists()
    assert "site-packages" in (mlflow.__file__ or "")


def test_tests_are_no_packages():
    found = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("__init__.py")]
    assert not found, f"{found} would shadow flows/ and tasks/"


def test_gitignore_anchors_data():
    lines = (ROOT / ".gitignore").read_text().splitlines()
    assert "/data" in lines, "unanchored data/ would hide packages of that name"
    assert "data/" not in lines
    assert "data" not in lines


def test_required_names_stand_at_the_top():
    for name in ["flows", "tasks", "src", "mlflow", "tests", "data.dvc", "pyproject.toml", "README.md"]:
        assert (ROOT / name).exists(), f"{name} is part of the agreed layout"
