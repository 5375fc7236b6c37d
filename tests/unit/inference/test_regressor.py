"""`TabICLRegressor`: scikit-learn conventions, scaling, quantiles."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import check_estimator

from priorline.errors import InputError
from priorline.inference.estimators import TabICLClassifier, TabICLRegressor


class UntrainedRegressor(TabICLRegressor):
    """Says that its weights are random, so that no check asks for accuracy."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


@pytest.fixture
def make(random_regressor):
    return lambda **params: TabICLRegressor(random_regressor, **{"num_members": 3, **params})


@pytest.fixture
def table():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(60, 4))
    return x, 50 + 3 * x[:, 0] + generator.normal(size=60)


def test_scikit_learn_checks_pass(random_regressor):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(UntrainedRegressor(random_regressor, num_members=2), on_fail=None)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert not failed


def test_answers_follow_the_scale_of_the_target(make, table):
    x, y = table
    plain = make().fit(x[:40], y[:40]).predict(x[40:])
    scaled = make().fit(x[:40], 1e6 * y[:40] - 7e5).predict(x[40:])
    np.testing.assert_allclose(scaled, 1e6 * plain - 7e5, rtol=1e-4)


@pytest.mark.parametrize("value", [0.0, -3.5e12])
def test_a_constant_target_is_no_fault(make, table, value):
    predicted = make().fit(table[0], np.full(60, value)).predict(table[0])
    assert np.isfinite(predicted).all()


def test_quantiles_rise_and_lie_around_the_answer(make, table):
    x, y = table
    regressor = make().fit(x[:40], y[:40])
    levels = [0.01, 0.1, 0.25, 0.5, 0.5, 0.77, 0.99]
    quantiles_MQ = regressor.predict_quantiles(x[40:], levels)
    assert quantiles_MQ.shape == (20, 7)
    assert (np.diff(quantiles_MQ, axis=1) >= 0).all()
    # The model's own levels are i / 1000; outside of them the outermost stay.
    own_MQ = regressor.predict_quantiles(x[40:], np.arange(1, 1000) / 1000)
    np.testing.assert_allclose(own_MQ.mean(axis=1), regressor.predict(x[40:]))
    np.testing.assert_allclose(regressor.predict_quantiles(x[40:], [1e-4])[:, 0], own_MQ[:, 0])
    with pytest.raises(InputError, match="must be numbers between 0 and 1"):
        regressor.predict_quantiles(x[40:], [0.5, 1.0])


def test_a_row_is_answered_alone(make, table):
    x, y = table
    regressor = make().fit(x[:40], y[:40])
    np.testing.assert_allclose(regressor.predict(x[40:])[3:4], regressor.predict(x[43:44]), rtol=1e-5)


def test_tables_with_text_and_gaps(make):
    frame = pd.DataFrame({"city": ["a", "b", None, "a"] * 10, "size": [1.0, None, 3.0, 4.0] * 10})
    predicted = make().fit(frame, range(40)).predict(frame)
    assert predicted.shape == (40,)
    assert np.isfinite(predicted).all()


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([1.0, np.nan, 2.0], "1 of 3 labels are missing, row 1"),
        ([1.0, np.inf, 2.0], "infinity, row 1"),
        (["1", "two", "3"], "targets must be numbers"),
        (None, "requires y"),
        ([1.0, 2.0], "inconsistent numbers of samples"),
    ],
)
def test_targets_that_cannot_be_used_are_told(make, targets, message):
    with pytest.raises(InputError, match=message):
        make().fit(np.zeros((3, 2)), targets)


def test_weights_for_another_problem_are_refused_with_the_way_out(random_weights, random_regressor, table):
    x, y = table
    with pytest.raises(InputError, match=r"are for classification, wanted regression; .*load_estimator"):
        TabICLRegressor(random_weights).fit(x, y)
    with pytest.raises(InputError, match=r"are for regression, wanted classification"):
        TabICLClassifier(random_regressor).fit(x, y > 50)
