import numpy as np
import pytest

from priorline.errors import InputError
from priorline.inference.estimators import TabICLClassifier
from priorline.inference.predictor import ESTIMATORS, load_estimator
from priorline.models import MODELS


def test_the_estimator_fits_the_weights(random_weights):
    estimator = load_estimator(random_weights, "classification", num_members=2)
    assert isinstance(estimator, TabICLClassifier)
    x = np.random.default_rng(0).normal(size=(20, 3))
    assert estimator.fit(x, np.arange(20) % 2).predict_proba(x).shape == (20, 2)


def test_what_no_estimator_serves_is_refused(random_weights):
    with pytest.raises(InputError, match="serve classification, not 'regression'"):
        load_estimator(random_weights, "regression")
    with pytest.raises(InputError, match="no parameter members; known: average_logits"):
        load_estimator(random_weights, "classification", members=2)


def test_every_model_can_be_served_for_what_it_claims():
    claimed = {
        (spec.kind, problem)
        for spec in MODELS.values()
        for preset in spec.presets.values()
        for problem in preset().problem_types
    }
    assert claimed <= set(ESTIMATORS)
