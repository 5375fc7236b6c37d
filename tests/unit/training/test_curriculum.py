import json
import pickle
import statistics

import pytest
from pydantic import ValidationError
from toy_training import toy_config, toy_stage

from priorline.training.config import RowRange, TrainConfig
from priorline.training.curriculum import Curriculum


def huge() -> TrainConfig:
    """Stages of the published size: 20.5 M micro-batches in the first."""
    first = toy_stage("short", 160_000, datasets_per_step=512, micro_batch_size=4)
    second = toy_stage("medium", 2_000, datasets_per_step=512, micro_batch_size=1, split_per="micro_batch")
    return TrainConfig(stages=(first, second))


def test_list_covers_every_micro_batch_and_slices_lazily():
    specs = Curriculum(huge(), 0).train_specs
    assert len(specs) == 160_000 * 128 + 2_000 * 512
    part = specs[5_000_000:][10:20]
    assert len(part) == 10
    assert list(part)[3] == specs[5_000_013]
    assert specs[-1] == specs[len(specs) - 1]
    with pytest.raises(IndexError):
        specs[len(specs)]


def test_max_steps_cuts_the_list_and_changes_nothing_before():
    whole, cut = Curriculum(toy_config(), 1), Curriculum(toy_config(max_steps=9), 1)
    assert len(cut.train_specs) == 9 * 2
    assert list(cut.train_specs) == list(whole.train_specs[:18])
    assert [cut.learning_rate(step) for step in range(9)] == [whole.learning_rate(step) for step in range(9)]


def test_spec_depends_on_seed_and_place_alone():
    specs = Curriculum(toy_config(), 1).train_specs
    backwards = [specs[index] for index in reversed(range(len(specs)))]
    assert list(specs) == backwards[::-1]
    assert list(pickle.loads(pickle.dumps(specs))) == list(specs)  # noqa: S301 - goes to sampling workers
    assert list(Curriculum(toy_config(), 2).train_specs) != list(specs)


def test_no_two_batches_share_a_seed_even_in_stages_of_one_name():
    config = toy_config(stages=(toy_stage("same", 50), toy_stage("same", 50)), validation_batches=50)
    curriculum = Curriculum(config, 0)
    seeds = [spec.seed for spec in [*curriculum.train_specs, *curriculum.validation_specs]]
    assert len(set(seeds)) == len(seeds) == 250


def test_rows_follow_ranges_and_shares():
    ranges = (
        RowRange(low=200, high=999, share=0.25),
        RowRange(low=1_000, high=100_000, scale="log_uniform", share=0.75),
    )
    config = toy_config(stages=(toy_stage("mixed", 1000, rows=ranges, split_per="micro_batch"),))
    rows = [spec.rows for spec in Curriculum(config, 0).train_specs]
    small, large = [n for n in rows if n < 1_000], [n for n in rows if n >= 1_000]
    assert min(small) >= 200
    assert max(large) <= 100_000
    assert len(small) / len(rows) == pytest.approx(0.25, abs=0.04)  # 4 standard errors
    assert statistics.median(large) == pytest.approx(10_000, rel=0.25)


def test_one_split_serves_a_step_or_each_micro_batch_has_its_own():
    for split_per, distinct in (("step", 1), ("micro_batch", 8)):
        rows = (RowRange(low=100_000, high=100_000),)
        stage = toy_stage("s", 20, datasets_per_step=16, rows=rows, split_per=split_per)
        specs = Curriculum(toy_config(stages=(stage,)), 0).train_specs
        for step in range(20):
            sizes = {spec.train_size for spec in specs[step * 8 : step * 8 + 8]}
            assert len(sizes) == distinct
            assert all(30_000 <= size <= 70_000 for size in sizes)


def test_smallest_table_keeps_a_row_on_each_side_of_the_split():
    stage = toy_stage("tiny", 50, rows=(RowRange(low=4, high=4),), train_fraction=(0.01, 0.99))
    assert {spec.train_size for spec in Curriculum(toy_config(stages=(stage,)), 0).train_specs} == {1, 2, 3}


def test_validation_is_shaped_as_the_first_stage():
    specs = Curriculum(toy_config(validation_batches=30), 0).validation_specs
    assert len(specs) == 30
    assert all(12 <= spec.rows <= 24 and spec.num_datasets == 2 for spec in specs)
    assert len({(spec.rows, spec.train_size) for spec in specs}) > 10


def test_step_is_located_and_its_first_batch_known_across_stages():
    stages = (toy_stage("a", 3), toy_stage("none", 0), toy_stage("b", 2, micro_batch_size=1))
    curriculum = Curriculum(toy_config(stages=stages), 0)
    assert [curriculum.locate(step) for step in range(5)] == [(0, 0), (0, 1), (0, 2), (2, 0), (2, 1)]
    assert [curriculum.first_batch(step) for step in range(6)] == [0, 2, 4, 6, 10, 14]
    assert curriculum.train_specs[6].num_datasets == 1
    with pytest.raises(IndexError, match=r"step=5 must lie in 0\.\.4"):
        curriculum.locate(5)


def test_fingerprint_holds_what_fixes_the_batches_and_nothing_else():
    base = Curriculum(toy_config(), 0).fingerprint()
    assert json.loads(json.dumps(base)) == base

    def of_first_stage(**changes) -> dict:
        return Curriculum(toy_config(stages=(toy_stage("one", 7, **changes),)), 0).fingerprint()["stages"][0]

    assert of_first_stage(learning_rate=5.0, schedule="constant") == base["stages"][0]
    assert of_first_stage(micro_batch_size=1) != base["stages"][0]
    assert of_first_stage(rows=(RowRange(low=12, high=25),)) != base["stages"][0]
    assert Curriculum(toy_config(), 1).fingerprint() != base
    assert Curriculum(toy_config(max_steps=9), 0).fingerprint() != base
    assert Curriculum(toy_config(max_steps=100), 0).fingerprint() == base
    assert Curriculum(toy_config(validation_batches=3), 0).fingerprint() != base


def test_curriculum_without_steps_is_refused():
    with pytest.raises(ValidationError, match="no steps at all"):
        toy_config(stages=(toy_stage("none", 0),))
