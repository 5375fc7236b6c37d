import json
import re

import numpy as np
import pandas as pd
import pytest

from priorline.datasets.contracts import ColumnContract, ContractOptions, coerce_frame, profile_contract
from priorline.datasets.tabular import read_table
from priorline.errors import PriorlineError
from tasks.gate import run_gate, write_quarantine


def table(num_rows=60, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, num_rows),
            "fare": rng.uniform(5, 50, num_rows).round(2),
            "deck": rng.choice(["upper", "middle", "lower"], num_rows),
            "member": rng.random(num_rows) < 0.5,
            "when": pd.date_range("2024-01-01", periods=num_rows).astype(str),
            "note": [f"passenger {place}" for place in range(num_rows)],
            "bought": np.where(rng.random(num_rows) < 0.5, "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def context():
    frame = table()
    frame.loc[3, "fare"] = None
    return frame


@pytest.fixture(scope="module")
def contract(context):
    return profile_contract(context, "bought")


def query(num_rows=20):
    return table(num_rows, seed=1).drop(columns="bought")


def test_a_context_passes_the_gate_of_its_own_contract(context, contract, tmp_path):
    report = run_gate(context, contract, tmp_path, role="context")
    assert report.accepted, report.summary()
    assert report.passed_rows == list(range(60))
    assert report.failures.empty
    assert report.batch_failures == report.notes == report.quarantined_rows == []
    assert write_quarantine(context, report, tmp_path / "quarantine.csv") == 0
    assert not (tmp_path / "quarantine.csv").exists()


def test_bad_rows_go_to_quarantine_each_with_number_and_reason(contract, tmp_path):
    frame = query().astype({"age": object, "member": object, "when": object})
    frame.loc[0, "age"] = "abc"
    frame.loc[2, "age"] = 500
    frame.loc[4, "deck"] = "uper"
    frame.loc[4, "age"] = None
    frame.loc[6, "fare"] = None
    frame.loc[8, "fare"] = np.inf
    frame.loc[10, "when"] = "yesterday"
    frame.loc[12, "member"] = "maybe"
    frame.loc[14, "age"] = "1,000"
    frame.loc[16, "age"] = " 33 "
    frame.index = [5] * len(frame)
    report = run_gate(frame, contract, tmp_path / "report")
    found = {(f.row, f.column, f.rule): f.reason for f in report.failures.itertuples()}
    assert set(found) == {
        (0, "age", "kind"),
        (2, "age", "range"),
        (4, "deck", "category"),
        (4, "age", "missing"),
        (10, "when", "kind"),
        (12, "member", "kind"),
        (14, "age", "range"),
    }
    assert "'abc', wanted a number" in found[0, "age", "kind"]
    assert "500, outside" in found[2, "age", "range"]
    assert "did you mean 'upper'" in found[4, "deck", "category"]
    assert "no missing value" in found[4, "age", "missing"]
    assert report.accepted
    assert report.passed_rows == [1, 3, 5, 6, 7, 8, 9, 11, 13, 15, 16, 17, 18, 19]
    assert any("'fare': 1 infinite" in note for note in report.notes)

    with pytest.warns(UserWarning, match="'fare': 1 infinite"):
        typed = coerce_frame(frame, contract, report.passed_rows)
    assert typed["age"].dtype == np.int64
    assert typed["age"].iloc[10] == 33

    assert write_quarantine(frame, report, tmp_path / "quarantine.csv") == 6
    held = read_table(tmp_path / "quarantine.csv")
    assert list(held.columns) == ["row", *frame.columns, "reasons"]
    assert held["row"].tolist() == [0, 2, 4, 10, 12, 14]
    assert held["age"].tolist()[:2] == ["abc", "500"]
    assert "upper" in held["reasons"][2]
    assert "no missing value" in held["reasons"][2]
    assert write_quarantine(frame, report, tmp_path / "quarantine.parquet") == 6

    page = report.data_docs.read_text()
    assert "arrival" in page
    assert "values" in page
    content = json.loads(report.report_file.read_text())
    assert content["num_quarantined"] == 6
    assert {"column": "age", "rule": "range", "rows": 2} in content["failure_counts"]
    assert (tmp_path / "report" / content["data_docs"]).exists()


def test_rows_without_target_are_quarantined_and_the_rest_is_used(context, tmp_path):
    frame = context.copy()
    frame.loc[[0, 7, 9], "bought"] = None
    contract = profile_contract(frame, "bought")
    report = run_gate(frame, contract, tmp_path, role="context")
    assert report.accepted
    assert report.quarantined_rows == [0, 7, 9]
    assert all("target 'bought' is missing" in reason for reason in report.failures["reason"])
    assert "nan" not in contract.target.categories
    one_label = frame.assign(bought=frame["bought"].where(frame["bought"] == "yes"))
    options = ContractOptions(max_quarantine_share=1)
    report = run_gate(one_label, profile_contract(one_label, "bought", options), tmp_path, role="context")
    assert any("one value" in fault for fault in report.batch_failures)


def test_another_order_and_a_target_column_are_noted_not_refused(contract, tmp_path):
    frame = query().assign(bought=None)
    frame = frame[frame.columns[::-1]]
    report = run_gate(frame, contract, tmp_path)
    assert report.accepted
    assert len(report.notes) == 2
    assert list(coerce_frame(frame, contract, report.passed_rows).columns) == list(contract.column_names)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.rename(columns={"fare": "Fare"}), "'fare' is missing.*renamed to 'Fare'"),
        (lambda f: f.assign(extra=1), r"unknown columns \['extra'\]"),
        (lambda f: f.iloc[:0], "no rows"),
        (lambda f: f.assign(age="old"), "'age' is numeric in the context, but 20 of 20 cells are not"),
        (lambda f: f.assign(age=f["deck"], deck=f["age"]), "'age' is numeric.*shifted"),
        (
            lambda f: f.assign(fare=f["fare"].where(f.index < 10)),
            "'fare': 10 of 20 cells are missing, at most",
        ),
        (lambda f: f.assign(deck="cellar"), r"20 of 20 rows failed \(limit 50%\), most by deck"),
        (lambda f: f.iloc[[0] * 20], "repeat an earlier row"),
        (lambda f: pd.concat([f, f["age"]], axis=1), "'age' occurs 2 times"),
    ],
)
def test_a_batch_unfit_as_a_whole_is_refused_with_what_is_wrong(contract, tmp_path, change, message):
    frame = change(query())
    report = run_gate(frame, contract, tmp_path / "report")
    assert not report.accepted
    assert report.passed_rows == []
    joined = "; ".join(report.batch_failures)
    assert re.search(message, joined), joined
    assert json.loads(report.report_file.read_text())["batch_failures"] == report.batch_failures
    if len(frame) and not frame.columns.has_duplicates:
        assert write_quarantine(frame, report, tmp_path / "all.csv") == len(frame)
        assert read_table(tmp_path / "all.csv")["reasons"].notna().all()


def test_one_row_with_a_missing_cell_is_not_refused(contract, tmp_path):
    frame = query(1)
    frame["fare"] = np.nan
    assert run_gate(frame, contract, tmp_path).passed_rows == [0]


def test_awkward_names_and_nullable_types_pass(tmp_path):
    names = [
        "price [EUR]",
        "weight<10",
        "distance, km",
        'say "hi"',
        " lead ",
        "$x",
        "{a}",
        "\u0414\u043b\u044f",
        "kind of $x",
    ]
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 9)), columns=names)
    frame["n"] = pd.array([1, None] * 20, dtype="Int64")
    frame["b"] = pd.array([True, None] * 20, dtype="boolean")
    frame["s"] = pd.array(["x", None] * 20, dtype="string")
    frame["c"] = pd.Categorical(["u", "v"] * 20)
    frame["d"] = pd.date_range("2024-01-01", periods=40, tz="Europe/Berlin")
    frame["y"] = ["a", "b"] * 20
    report = run_gate(frame, profile_contract(frame, "y"), tmp_path, role="context")
    assert report.accepted, report.summary()
    assert len(report.passed_rows) == 40


def test_an_exception_inside_an_expectation_is_no_verdict_on_the_data(contract, tmp_path, monkeypatch):
    def crossed(self, slack):
        return pd.Timestamp("2024-01-01"), pd.Timestamp("2025-01-01")

    monkeypatch.setattr(ColumnContract, "limits", crossed)
    with pytest.raises(PriorlineError, match="no verdict on the data"):
        run_gate(query(), contract, tmp_path)
