import numpy as np
import pandas as pd
import pytest

from priorline.config_io import config_hash
from priorline.datasets.contracts import (
    ColumnContract,
    ContractOptions,
    coerce_frame,
    load_contract,
    profile_contract,
    save_contract,
    schema_faults,
)
from priorline.errors import InputError


def context():
    return pd.DataFrame(
        {
            "age": [20, 30, 40, 60],
            "fare": [1.5, np.inf, None, 2.5],
            "deck": ["A", "B", None, "A"],
            "member": [True, False, True, True],
            "when": ["2024-01-01", "2024-02-01", "2024-03-01 12:00", "2024-01-05"],
            "bought": ["yes", "no", None, "yes"],
        }
    )


def test_a_profile_holds_what_the_context_shows(tmp_path):
    contract = profile_contract(context(), "bought")
    age, fare, deck, member, when = contract.columns
    assert contract.column_names == ("age", "fare", "deck", "member", "when")
    assert (age.kind, age.minimum, age.maximum, age.is_integer, age.missing_share) == (
        "numeric",
        20,
        60,
        True,
        0,
    )
    assert (fare.minimum, fare.maximum, fare.is_integer, fare.missing_share) == (1.5, 2.5, False, 0.5)
    assert (deck.categories, deck.missing_share) == (("A", "B"), 0.25)
    assert (member.kind, member.categories) == ("boolean", ("False", "True"))
    assert (when.kind, when.latest) == ("datetime", "2024-03-01T12:00:00")
    assert contract.target.categories == ("no", "yes")
    assert contract.num_rows == 4
    assert contract.duplicate_share == 0
    save_contract(contract, tmp_path / "contract.json")
    loaded = load_contract(tmp_path / "contract.json")
    assert loaded == contract
    assert config_hash(loaded) == config_hash(contract)


def test_a_file_that_is_no_contract_is_refused(tmp_path):
    (tmp_path / "contract.json").write_text('{"format_version": 9}')
    with pytest.raises(InputError, match="no data contract"):
        load_contract(tmp_path / "contract.json")
    with pytest.raises(InputError, match="no data contract"):
        load_contract(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("frame", "target", "message"),
    [
        (context(), "Bought", "did you mean 'bought'"),
        (context().iloc[:0], "bought", "0 rows"),
        (context()[["bought"]], "bought", "feature column"),
        (context().assign(bought=None), "bought", "missing in all 4 rows"),
        (context().rename(columns={"fare": "age"}), "bought", r"more than once: \['age'\]"),
    ],
)
def test_a_context_that_cannot_be_profiled_is_refused(frame, target, message):
    with pytest.raises(InputError, match=message):
        profile_contract(frame, target)


def test_limits_and_missing_allowance_follow_the_slack():
    column = ColumnContract(name="x", kind="numeric", missing_share=0.1, minimum=0, maximum=10)
    assert column.limits(0.5) == (-5, 15)
    assert column.allowed_missing(100, 0.2) == 30
    assert column.allowed_missing(2, 0.2) == 1, "one missing cell must not refuse a batch of two"
    assert column.allowed_missing(1, 1.0) == 1
    constant = ColumnContract(name="x", kind="numeric", missing_share=0, minimum=7, maximum=7)
    assert constant.limits(0.5) == (3.5, 10.5)
    assert ColumnContract(name="x", kind="text", missing_share=0).limits(0.5) is None


def test_schema_faults_name_the_columns_and_the_nearest():
    contract = profile_contract(context(), "bought")
    query = context().drop(columns=["bought", "deck"]).rename(columns={"fare": "Fare "})
    faults, notes = schema_faults(query, contract, with_target=False)
    assert any("'fare' is missing" in fault and "renamed to 'Fare '" in fault for fault in faults)
    assert any("'deck' is missing" in fault for fault in faults)
    assert any("unknown columns ['Fare ']" in fault for fault in faults)
    assert notes == []
    reordered = context()[["deck", "age", "member", "when", "fare", "bought"]]
    faults, notes = schema_faults(reordered, contract, with_target=False)
    assert faults == []
    assert any("another order" in note for note in notes)
    assert any("'bought' is in the query" in note for note in notes)
    assert "the target" in schema_faults(query, contract, with_target=True)[0][-2]


def test_extra_columns_can_be_allowed():
    contract = profile_contract(context(), "bought", ContractOptions(extra_columns="ignore"))
    faults, notes = schema_faults(context().assign(extra=1), contract, with_target=True)
    assert faults == []
    assert "['extra']" in notes[0]


def test_coercion_gives_the_contracts_order_and_types():
    contract = profile_contract(context(), "bought")
    query = pd.DataFrame(
        {
            "when": ["2025-01-01T00:00:00Z", "2025-01-02", "2025-01-03"],
            "deck": ["A", None, "B"],
            "fare": ["$1.50", "x", "2"],
            "member": ["true", "false", None],
            "age": ["20", "30", "1,000"],
        },
        index=[7, 7, 7],
    )
    typed = coerce_frame(query, contract, rows=[0, 2])
    assert list(typed.columns) == ["age", "fare", "deck", "member", "when"]
    assert [dtype.kind for dtype in typed.dtypes[["age", "fare", "when"]]] == ["i", "f", "M"]
    assert typed["age"].tolist() == [20, 1000]
    assert typed["member"].dtype == "boolean"
    assert typed.index.tolist() == [0, 1]
    assert pd.api.types.is_string_dtype(typed["deck"])
    with pytest.raises(InputError, match="column 'fare' row 1: 'x' is not numeric"):
        coerce_frame(query, contract)
    with pytest.raises(InputError, match="'age' is missing"):
        coerce_frame(query.drop(columns="age"), contract)


def test_coercing_a_context_keeps_the_target_and_warns_of_infinite_numbers():
    contract = profile_contract(context(), "bought")
    with pytest.warns(UserWarning, match="'fare': 1 infinite numbers"):
        typed = coerce_frame(context(), contract, rows=[0, 1, 3], with_target=True)
    assert list(typed.columns)[-1] == "bought"
    assert typed["bought"].tolist() == ["yes", "no", "yes"]
    assert typed["fare"].isna().tolist() == [False, True, False]


def test_repeated_rows_are_counted_over_the_features():
    frame = pd.DataFrame({"a": [1, 1, None, None], "b": ["x", "x", "y", "y"], "y": ["p", "q", "p", "p"]})
    assert profile_contract(frame, "y").duplicate_share == 0.5
