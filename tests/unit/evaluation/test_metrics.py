"""Scores equal scikit-learn's where it defines them, and stay in their range where it does not."""

import numpy as np
import pytest
from sklearn import metrics as sk

from priorline.evaluation.metrics import METRICS, MIN_PROB, accuracy, calibration_error, log_loss, roc_auc

CLASSIFICATION = METRICS["classification"]


def predictions(num_classes: int, rows: int = 300, digits: int = 2) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(num_classes)
    proba = generator.dirichlet(np.ones(num_classes), size=rows).round(digits) + 0.01  # Rounding makes ties.
    proba /= proba.sum(axis=1, keepdims=True)
    codes = np.array([generator.choice(num_classes, p=row) for row in proba])
    return codes, proba


@pytest.mark.parametrize("num_classes", [2, 3, 7])
def test_scores_equal_scikit_learn(num_classes: int) -> None:
    codes, proba = predictions(num_classes)
    expected = (
        sk.roc_auc_score(codes, proba[:, 1])
        if num_classes == 2
        else sk.roc_auc_score(codes, proba, multi_class="ovr", average="macro")
    )
    assert roc_auc(codes, proba) == pytest.approx(expected, abs=1e-12)
    assert accuracy(codes, proba) == sk.accuracy_score(codes, proba.argmax(axis=1))
    assert log_loss(codes, proba) == pytest.approx(sk.log_loss(codes, proba), abs=1e-6)


def test_auc_averages_over_the_classes_that_test_rows_have() -> None:
    codes, proba = predictions(4)
    kept = codes != 2
    codes, proba = codes[kept], proba[kept]
    expected = np.mean([sk.roc_auc_score(codes == code, proba[:, code]) for code in (0, 1, 3)])
    assert roc_auc(codes, proba) == pytest.approx(expected, abs=1e-12)


def test_auc_of_a_class_that_training_lacked_is_a_half() -> None:
    codes = np.array([0, 0, 1, 1, 2, 2])
    proba = np.array([[0.9, 0.1, 0], [0.8, 0.2, 0], [0.1, 0.9, 0], [0.2, 0.8, 0], [0.5, 0.5, 0], [0.5, 0.5, 0]])
    assert roc_auc(codes, proba) == pytest.approx((1.0 + 1.0 + 0.5) / 3)


def test_auc_is_undefined_with_one_class() -> None:
    assert np.isnan(roc_auc(np.zeros(5, dtype=int), np.full((5, 2), 0.5)))


def test_log_loss_of_a_sure_mistake_is_bounded() -> None:
    loss = log_loss(np.array([1]), np.array([[1.0, 0.0]]))
    assert loss == pytest.approx(-np.log(MIN_PROB), rel=1e-6)
    assert loss <= CLASSIFICATION["log_loss"].high + 1e-6


def test_log_loss_scales_rows_to_one() -> None:
    codes, proba = predictions(3)
    assert log_loss(codes, proba * 7) == pytest.approx(log_loss(codes, proba))


def test_calibration_error_by_hand() -> None:
    # Two bins: 0.65 twice with one right (gap 0.15), 0.95 twice with both right (gap 0.05).
    proba = np.array([[0.65, 0.35], [0.65, 0.35], [0.05, 0.95], [0.05, 0.95]])
    assert calibration_error(np.array([0, 1, 1, 1]), proba) == pytest.approx(0.5 * 0.15 + 0.5 * 0.05)
    sure = np.array([[1.0, 0.0]] * 4)
    assert calibration_error(np.zeros(4, dtype=int), sure) == 0
    assert calibration_error(np.ones(4, dtype=int), sure) == 1


@pytest.mark.parametrize("name", list(CLASSIFICATION))
def test_values_stay_in_range_and_truth_beats_its_opposite(name: str) -> None:
    metric = CLASSIFICATION[name]
    codes, proba = predictions(2)
    truth = np.eye(2)[codes]
    good, bad = metric.function(codes, truth), metric.function(codes, truth[:, ::-1])
    for value in (good, bad, metric.function(codes, proba)):
        assert metric.low - 1e-9 <= value <= metric.high + 1e-6
    assert (good > bad) == metric.higher_is_better
    assert metric.worst == (metric.low if metric.higher_is_better else metric.high)
