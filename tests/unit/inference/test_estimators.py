import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from priorline.errors import CheckpointError, InputError
from priorline.inference.estimators import TabICLClassifier
from priorline.inference.weights_cache import load_model

COLOURS = ["blue", "green", "red"]


def numbers(num_rows=30, num_columns=4, num_classes=3, seed=0):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(num_rows, num_columns)), np.arange(num_rows) % num_classes


def people(num_rows=40):
    generator = np.random.default_rng(0)
    age = pd.array(generator.integers(20, 60, num_rows), dtype="Int64")
    age[3] = pd.NA
    member = pd.array(generator.random(num_rows) < 0.5, dtype="boolean")
    member[4] = pd.NA
    colour = pd.array(generator.choice(COLOURS, num_rows), dtype="string")
    colour[5] = pd.NA
    return pd.DataFrame(
        {
            "age": age,
            "member": member,
            "colour": colour,
            "signed_up": pd.date_range("2024-01-01", periods=num_rows, freq="37h").astype(str),
            "price [EUR]": generator.normal(size=num_rows),
            ' lead, "space" <': pd.Categorical(generator.choice(["low", "high"], num_rows)),
            "wait": pd.to_timedelta(generator.integers(1, 99, num_rows), unit="min"),
            "nothing": [None] * num_rows,
        }
    )


@pytest.fixture
def make(random_weights):
    return lambda **params: TabICLClassifier(random_weights, **{"num_members": 4, **params})


class UntrainedClassifier(TabICLClassifier):
    """Says that its weights are random, so that no check asks for accuracy."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


def test_scikit_learn_checks_pass(random_weights):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(UntrainedClassifier(random_weights, num_members=4), on_fail=None)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert not failed


@pytest.mark.parametrize("normalization", ["none", "power", "quantile", "robust"])
def test_mixed_tables_give_finite_probabilities(make, normalization):
    frame = people()
    labels = np.array(["yes", "no"])[np.arange(40) % 2]
    classifier = make(normalizations=(normalization,)).fit(frame[:30], labels[:30])
    query = frame[30:].copy()
    query.loc[query.index[:3], "colour"] = ["purple", None, "blue"]
    proba = classifier.predict_proba(query)
    assert proba.shape == (10, 2)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert classifier.feature_names_in_.tolist() == list(frame.columns)
    assert set(classifier.predict(query)) <= {"yes", "no"}


def test_labels_come_back_as_given(make):
    x, y = numbers()
    names = np.array(["first class", "crew, deck", "captain\u2019s table"])
    for labels in (names[y], pd.Series(names)[y], y == 1, (y * 10).astype(np.int16)):
        classifier = make().fit(x, labels)
        assert classifier.classes_.tolist() == sorted(set(np.asarray(labels).tolist()))
        assert set(classifier.predict(x)) <= set(labels)
    with pytest.raises(InputError, match="row 0, 2"):
        make().fit(x[:4], [None, "b", None, "a"])


@pytest.mark.parametrize("num_classes", [12, 26, 137])
@pytest.mark.parametrize("average_logits", [True, False])
def test_any_number_of_classes_works(make, num_classes, average_logits):
    x, y = numbers(2 * num_classes, num_classes=num_classes)
    classifier = make(num_members=2, average_logits=average_logits).fit(x, y)
    proba = classifier.predict_proba(x[:7])
    assert proba.shape == (7, num_classes)
    assert (proba > 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("num_classes", [3, 12])
def test_a_row_does_not_depend_on_what_other_rows_hold(make, num_classes):
    x, y = numbers(60, num_classes=num_classes)
    classifier = make(num_members=8).fit(x[:40], y[:40])
    query = x[40:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = classifier.predict_proba(query)
        for value in (1e300, -7.0, np.nan, np.inf):
            other = query.copy()
            other[1:] = value
            np.testing.assert_array_equal(classifier.predict_proba(other)[0], before[0])


def test_a_row_of_a_mixed_table_does_not_depend_on_other_rows(make):
    frame = people()
    classifier = make().fit(frame[:30], np.arange(30) % 2)
    query, other = frame[30:], frame[30:].copy()
    for name in frame.columns:
        other[name] = [frame[name].iloc[30]] + [None] * 9
    np.testing.assert_array_equal(classifier.predict_proba(other)[0], classifier.predict_proba(query)[0])


@pytest.mark.parametrize("num_classes", [3, 12])
def test_cutting_the_query_changes_nothing(make, num_classes):
    x, y = numbers(400, num_classes=num_classes)
    classifier = make().fit(x[:60], y[:60])
    whole = classifier.predict_proba(x[60:])
    cut = np.concatenate([classifier.predict_proba(x[start : start + 17]) for start in range(60, 400, 17)])
    np.testing.assert_allclose(cut, whole, atol=1e-5)
    small = make(memory_budget_mb=0.05).fit(x[:60], y[:60])
    np.testing.assert_allclose(small.predict_proba(x[60:]), whole, atol=1e-5)


def test_infinite_values_are_missing_ones(make):
    x, y = numbers()
    x[2, 1], x[5, 1] = np.inf, -np.inf
    with pytest.warns(UserWarning, match="infinite values treated as missing in fit: 2 in column 1"):
        classifier = make().fit(x, y)
    gaps = np.where(np.isinf(x), np.nan, x)
    with pytest.warns(UserWarning, match="2 in column 1"):
        np.testing.assert_array_equal(classifier.predict_proba(x), make().fit(gaps, y).predict_proba(gaps))


def test_other_columns_than_in_fit_are_refused(make):
    frame = people()
    classifier = make().fit(frame, np.arange(40) % 2)
    with pytest.raises(ValueError, match="same order"):
        classifier.predict(frame[frame.columns[::-1]])
    with pytest.raises(ValueError, match="Feature names unseen"):
        classifier.predict(frame.rename(columns={"age": "years"}))
    with pytest.raises(ValueError, match="yet now missing"):
        classifier.predict(frame.drop(columns="age"))
    with pytest.raises(ValueError, match="expecting 4 features"):
        make().fit(*numbers()).predict(numbers(num_columns=3)[0])


def test_duplicate_column_names_work_by_position(make):
    x, y = numbers(num_columns=3)
    frame = pd.DataFrame(x, columns=["a", "b", "a"])
    expected = make().fit(x, y).predict_proba(x)
    np.testing.assert_array_equal(make().fit(frame, y).predict_proba(frame), expected)


def test_one_class_and_no_usable_column_still_answer(make):
    x, y = numbers()
    assert make().fit(x, np.ones(30, dtype=int)).predict_proba(x[:2]).tolist() == [[1.0], [1.0]]
    proba = make().fit(np.ones((30, 2)), y).predict_proba(np.ones((2, 2)))
    np.testing.assert_allclose(proba.sum(axis=1), 1)


def test_copies_predict_the_same_and_hold_no_model(make):
    x, y = numbers()
    classifier = make().fit(x, y)
    expected = classifier.predict_proba(x)
    assert b"torch" not in pickle.dumps(classifier)
    for copied in (pickle.loads(pickle.dumps(classifier)), copy.deepcopy(classifier)):  # noqa: S301
        np.testing.assert_array_equal(copied.predict_proba(x), expected)
    np.testing.assert_array_equal(clone(classifier).fit(x, y).predict_proba(x), expected)


def test_all_estimators_share_one_model(random_weights):
    first = load_model(random_weights, "tabicl", "cpu")
    assert load_model(str(random_weights), "tabicl", "cpu") is first
    assert not any(weight.requires_grad for weight in first.module.parameters())


def test_seed_fixes_the_members(make):
    x, y = numbers(num_columns=8)
    proba = make(num_members=8, random_state=1).fit(x, y).predict_proba(x)
    np.testing.assert_array_equal(make(num_members=8, random_state=1).fit(x, y).predict_proba(x), proba)
    assert not np.array_equal(make(num_members=8, random_state=2).fit(x, y).predict_proba(x), proba)


def test_temperature_sharpens(make):
    x, y = numbers()
    highest = [make(softmax_temperature=value).fit(x, y).predict_proba(x).max(axis=1).mean() for value in (0.3, 3.0)]
    assert highest[0] > highest[1]


def test_rows_are_embedded(make):
    x, y = numbers()
    classifier = make().fit(x, y)
    rows = classifier.transform(x[:5])
    assert rows.shape == (5, len(classifier.get_feature_names_out()))
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows[2:3], classifier.transform(x[2:3]), atol=1e-5)
    frame = classifier.set_output(transform="pandas").transform(x[:5])
    assert list(frame.columns[:2]) == ["tabiclclassifier0", "tabiclclassifier1"]


def test_bad_weights_say_what_to_do(make, tmp_path):
    x, y = numbers()
    with pytest.raises(InputError, match="priorline run"):
        TabICLClassifier().fit(x, y)
    with pytest.raises(CheckpointError, match="no weights at"):
        TabICLClassifier(tmp_path / "nowhere").fit(x, y)
    with pytest.raises(InputError, match="device='tpu9'"):
        make(device="tpu9").fit(x, y)


def test_weights_that_changed_since_fit_are_refused(make, other_weights):
    x, y = numbers()
    classifier = make().fit(x, y).set_params(weights=other_weights)
    with pytest.raises(InputError, match="changed since fit"):
        classifier.predict(x)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"num_members": 0}, "num_members=0"),
        ({"softmax_temperature": -1}, "softmax_temperature=-1"),
        ({"normalizations": ()}, "normalizations is empty"),
        ({"normalizations": ("powr",)}, "did you mean 'power'"),
        ({"feature_shuffle": "latine"}, "did you mean 'latin'"),
        ({"memory_budget_mb": "1GB"}, "memory_budget_mb='1GB'"),
    ],
)
def test_parameters_out_of_range_are_refused(make, params, message):
    with pytest.raises(InputError, match=message):
        make(**params).fit(*numbers())


@pytest.mark.parametrize("cache", ["repr", "kv"])
def test_a_cache_gives_the_same_answers_and_is_not_saved(make, cache):
    x, y = np.random.default_rng(0).normal(size=(80, 4)), np.arange(80) % 3
    wanted = make().fit(x[:60], y[:60]).predict_proba(x[60:])
    cached = make(cache=cache).fit(x[:60], y[:60])
    for _ in range(2):
        np.testing.assert_allclose(cached.predict_proba(x[60:]), wanted, atol=1e-6)
    info = cached.cache_info()
    assert info["kind"] == cache
    assert 0 < info["size_mib"] < 1
    saved = pickle.dumps(cached)
    assert len(saved) < len(pickle.dumps(make().fit(x[:60], y[:60]))) + 500
    np.testing.assert_allclose(copy.deepcopy(cached).predict_proba(x[60:]), wanted, atol=1e-6)
    np.testing.assert_allclose(cached.set_params(cache=None).predict_proba(x[60:]), wanted, atol=1e-6)
    assert cached.cache_info() == {"kind": None, "size_mib": 0.0}
    with pytest.raises(InputError, match="cache='kvs' is unknown; did you mean 'kv'"):
        make(cache="kvs").fit(x, y)


def test_a_refit_forgets_the_cache(make):
    x, y = np.random.default_rng(0).normal(size=(80, 4)), np.arange(80) % 3
    cached = make(cache="kv").fit(x[:40], y[:40])
    cached.predict_proba(x)
    wanted = make().fit(x[40:], y[40:]).predict_proba(x)
    np.testing.assert_allclose(cached.fit(x[40:], y[40:]).predict_proba(x), wanted, atol=1e-6)


def test_columns_are_embedded_by_their_distribution(make):
    x = np.random.default_rng(0).normal(size=(90, 5))
    x[:, 4] = x[::-1, 0]
    columns_CE = make().fit(x, np.arange(90) % 2).embed_columns()
    assert columns_CE.shape == (5, 8)
    np.testing.assert_allclose(columns_CE[0], columns_CE[4], atol=1e-4)
    assert not np.allclose(columns_CE[0], columns_CE[1], atol=1e-2)
