"""`LimiXClassifier` and `LimiXRegressor`: scikit-learn conventions, missing cells, classes, who sees whom."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import check_estimator

from priorline.errors import InputError
from priorline.inference.limix_estimators import LimiXClassifier, LimiXRegressor
from priorline.inference.predictor import load_estimator


class UntrainedClassifier(LimiXClassifier):
    """Says that its weights are random, so that no check asks for accuracy."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


class UntrainedRegressor(LimiXRegressor):
    """Says that its weights are random, so that no check asks for accuracy."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


@pytest.fixture
def table() -> tuple[pd.DataFrame, np.ndarray]:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "number": generator.normal(size=80),
            "word": generator.choice(["red", "green", "blue"], 80),
            "gaps": np.where(generator.random(80) < 0.3, np.nan, generator.normal(size=80)),
            "flag": generator.random(80) < 0.5,
        }
    )
    return frame, (frame["number"] > 0).to_numpy().astype(int)


@pytest.mark.parametrize("kind", [UntrainedClassifier, UntrainedRegressor])
def test_scikit_learn_checks_pass(random_limix, kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(kind(random_limix, num_members=2), on_fail=None)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert not failed


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_a_row_is_answered_alone_and_the_same_each_time(random_limix, table, kind):
    frame, y = table
    estimator = load_estimator(random_limix, kind).fit(frame[:60], y[:60])
    answer = estimator.predict_proba if kind == "classification" else estimator.predict
    whole = answer(frame[60:])
    assert np.array_equal(whole, answer(frame[60:]))
    np.testing.assert_allclose(answer(frame[60:61]), whole[:1], atol=1e-5)
    others = frame[60:].copy()
    others.iloc[1:, 0] = 1e9
    others.iloc[1:, 1] = "purple"
    np.testing.assert_allclose(answer(others)[:1], whole[:1], atol=1e-5)


def test_order_of_context_rows_does_not_matter(random_limix, table):
    frame, y = table
    order = np.random.default_rng(1).permutation(60)
    first = LimiXClassifier(random_limix, normalizations=("none",)).fit(frame[:60], y[:60])
    second = LimiXClassifier(random_limix, normalizations=("none",)).fit(frame[:60].iloc[order], y[:60][order])
    np.testing.assert_allclose(first.predict_proba(frame[60:]), second.predict_proba(frame[60:]), atol=1e-4)


def test_a_missing_cell_is_not_the_mean(random_limix, table):
    frame, y = table
    model = LimiXClassifier(random_limix, num_members=1).fit(frame[:60], y[:60])
    with_gap, with_mean = frame[60:61].copy(), frame[60:61].copy()
    with_gap["gaps"], with_mean["gaps"] = np.nan, frame["gaps"][:60].mean()
    assert not np.array_equal(model.predict_proba(with_gap), model.predict_proba(with_mean))


@pytest.mark.parametrize("num_classes", [2, 10, 11, 27])
def test_any_number_of_classes(random_limix, num_classes):
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(120, 3)), np.arange(120) % num_classes
    proba = LimiXClassifier(random_limix, num_members=3).fit(x, y).predict_proba(x[:7])
    assert proba.shape == (7, num_classes)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)


def test_pieces_of_query_rows_give_the_same_answers(random_limix, table):
    frame, y = table
    query = pd.concat([frame[60:]] * 20, ignore_index=True)
    answers = [
        LimiXRegressor(random_limix, memory_budget_mb=budget).fit(frame[:60], y[:60]).predict(query)
        for budget in (0.01, 1024)
    ]
    np.testing.assert_allclose(*answers, atol=1e-5)


def test_values_follow_the_scale_of_the_target_and_quantiles_rise(random_limix, table):
    frame, y = table
    plain = LimiXRegressor(random_limix).fit(frame[:60], y[:60])
    scaled = LimiXRegressor(random_limix).fit(frame[:60], 1e6 * y[:60] - 7e5)
    np.testing.assert_allclose(scaled.predict(frame[60:]), 1e6 * plain.predict(frame[60:]) - 7e5, rtol=1e-4)
    quantiles = plain.predict_quantiles(frame[60:], [0.05, 0.5, 0.5, 0.95])
    assert (np.diff(quantiles, axis=1) >= 0).all()
    assert np.array_equal(quantiles[:, 1], quantiles[:, 2])
    with pytest.raises(InputError, match="between 0 and 1"):
        plain.predict_quantiles(frame[60:], [1.5])


def test_intervals_hold_their_share_where_errors_are_alike(random_limix):
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(600, 2)), generator.normal(size=600)
    model = LimiXRegressor(random_limix, num_members=1).fit(x[:300], y[:300])
    low, high = model.predict_quantiles(x[300:], [0.1, 0.9]).T
    assert ((low <= y[300:]) & (y[300:] <= high)).mean() == pytest.approx(0.8, abs=0.08)


def test_weights_of_another_kind_are_refused(random_weights, random_limix):
    with pytest.raises(InputError, match="hold a tabicl model, wanted limix"):
        LimiXClassifier(random_weights).fit(np.eye(4), [0, 1, 0, 1])
