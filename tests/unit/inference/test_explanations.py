"""The map of columns: numbers that mean what they say, a figure, and refusals."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kurtosis, skew

from priorline.cli import library, run_app
from priorline.errors import InputError
from priorline.inference.explanations import map_columns


@pytest.fixture
def frame():
    generator = np.random.default_rng(0)
    columns = {f"normal{i}": generator.normal(size=300) for i in range(3)}
    columns |= {f"skewed{i}": generator.exponential(size=300) ** 2 for i in range(3)}
    columns |= {"day": pd.date_range("2026-01-01", periods=300), "constant": 1.0, "label": list("ab" * 150)}
    return pd.DataFrame(columns)


def test_numbers_are_those_of_the_columns(random_weights, frame):
    table = map_columns(random_weights, frame, "label").set_index("column")
    assert {"normal0", "skewed2", "day.0"} <= set(table.index)
    assert not {"label", "constant"} & set(table.index)
    # The model sees outliers softly clipped: the order of columns stays, and normal ones keep their values.
    for name in ("normal0", "normal1", "normal2"):
        assert table.loc[name, "skewness"] == pytest.approx(skew(frame[name]), abs=0.05)
        assert table.loc[name, "kurtosis"] == pytest.approx(kurtosis(frame[name]), abs=0.1)
    assert table.loc["skewed0", "skewness"] > 2 > table.loc["normal0", "skewness"]
    assert 0 < sum(table.attrs["explained_variance"]) <= 1 + 1e-9


def test_equal_distributions_have_equal_places(random_weights, frame):
    frame["twin"] = frame["skewed0"].to_numpy()[::-1]
    table = map_columns(random_weights, frame, "label").set_index("column")
    spread = table[["x", "y"]].std()
    assert ((table.loc["twin", ["x", "y"]] - table.loc["skewed0", ["x", "y"]]).abs() < 1e-3 * spread).all()


def test_a_regressor_that_shows_labels_needs_them(random_regressor, frame):
    numbers = frame.drop(columns="label")
    assert len(map_columns(random_regressor, numbers, "skewed1")) > 4
    with pytest.raises(InputError, match="name the column of labels"):
        map_columns(random_regressor, numbers)


def test_tables_without_a_map_are_refused(random_weights, frame):
    with pytest.raises(InputError, match="at least 3 rows and 2 columns"):
        map_columns(random_weights, frame[["normal0", "constant"]])
    with pytest.raises(InputError, match="'lable' is not a column; did you mean 'label'"):
        map_columns(random_weights, frame, "lable")


def test_the_command_writes_numbers_and_figure(random_weights, frame, tmp_path, capsys):
    frame.to_csv(tmp_path / "table.csv", index=False)
    arguments = ["--context", tmp_path / "table.csv", "--weights", random_weights, "--target", "label"]
    assert run_app(library, ["explain", "columns", *map(str, arguments), "--out", str(tmp_path / "out"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert len(pd.read_csv(answer["numbers"])) == answer["columns"]
    assert (tmp_path / "out" / "columns.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
