import math

import pytest
from toy_training import toy_stage

from priorline.training.schedule import learning_rate


def rates(**changes) -> list[float]:
    stage = toy_stage("any", 10, learning_rate=1.0, **{"warmup_fraction": 0.0, **changes})
    return [learning_rate(stage, step) for step in range(10)]


def test_warm_up_is_linear_and_ends_on_the_peak():
    assert rates(warmup_fraction=0.4)[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]


def test_warm_up_of_a_part_of_a_step_takes_one_step():
    assert rates(warmup_fraction=0.02, schedule="constant") == [1.0] * 10


def test_cosine_is_halfway_at_half_time():
    values = rates(schedule="cosine", final_learning_rate=0.2)
    assert values[0] == 1.0
    assert values[5] == pytest.approx(0.6)
    assert values[9] == pytest.approx(0.2 + 0.8 * 0.5 * (1 + math.cos(0.9 * math.pi)))


def test_polynomial_follows_its_power():
    values = rates(schedule="polynomial", polynomial_power=2.0, final_learning_rate=0.1)
    assert values == pytest.approx([0.1 + 0.9 * (1 - step / 10) ** 2 for step in range(10)])


def test_constant_stays_at_the_peak():
    assert rates(schedule="constant", final_learning_rate=0.1) == [1.0] * 10


@pytest.mark.parametrize("schedule", ["cosine", "polynomial"])
def test_decay_never_rises_and_never_falls_below_the_end(schedule: str):
    values = rates(schedule=schedule, final_learning_rate=0.1, warmup_fraction=0.2)
    assert values[1:] == sorted(values[1:], reverse=True)
    assert min(values) > 0.1
