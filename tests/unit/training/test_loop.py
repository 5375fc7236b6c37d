import json
import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
import torch
from torch import nn
from toy_training import SEED, ToyModel, new_model, run, sample, stream, toy_config, toy_stage

from priorline.batches import TabularBatch
from priorline.checkpoints import latest_checkpoint, sole_writer
from priorline.errors import CheckpointError, ConfigError, TrainingError
from priorline.training.config import OptimConfig, RowRange
from priorline.training.curriculum import Curriculum


def spoiled(batch: TabularBatch) -> TabularBatch:
    """Return the batch with one cell that is not a number: its loss is none either."""
    x_BRC = batch.x_BRC.clone()
    x_BRC[0, 0, 0] = math.nan
    return TabularBatch(x_BRC=x_BRC, y_BR=batch.y_BR, num_columns_B=batch.num_columns_B, train_size=batch.train_size)


def spoil(config, at: set[int]):
    """Return the batch source of ``config`` with micro-batches ``at`` spoiled."""

    def batches(start: int) -> Iterator[TabularBatch]:
        for index, batch in enumerate(stream(config)(start), start):
            yield spoiled(batch) if index in at else batch

    return batches


def weights(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_toy_task_is_learned(tmp_path: Path, name: str):
    stage = toy_stage("one", 60, datasets_per_step=16, micro_batch_size=8, learning_rate=1e-2)
    config = toy_config(stages=(stage,), optim=OptimConfig(name=name), checkpoint_every_steps=100)
    result = run(new_model(), config, tmp_path)
    assert result.curve[0]["loss"] > 0.6
    assert result.validation_loss < 0.45
    assert result.curve[-1]["validation_accuracy"] > 0.75


@pytest.mark.parametrize("micro_batch_size", [1, 2])
def test_accumulated_update_equals_that_of_one_large_batch(tmp_path: Path, micro_batch_size: int):
    rows = (RowRange(low=16, high=16),)
    whole_stage = toy_stage("s", 3, datasets_per_step=4, micro_batch_size=4, rows=rows)
    split_stage = toy_stage("s", 3, datasets_per_step=4, micro_batch_size=micro_batch_size, rows=rows)
    whole_config, split_config = toy_config(stages=(whole_stage,)), toy_config(stages=(split_stage,))
    whole, split = new_model(), new_model()
    for model in (whole, split):
        model.head[0].p = 0.0  # dropout masks would differ

    def split_batches(start: int) -> Iterator[TabularBatch]:
        for batch in stream(whole_config)(0):
            for first in range(0, 4, micro_batch_size):
                part = slice(first, first + micro_batch_size)
                tensors = {name: value[part] for name, value in batch.tensors().items()}
                yield TabularBatch.from_tensors(tensors, batch.train_size)

    run(whole, whole_config, tmp_path / "whole")
    run(split, split_config, tmp_path / "split", batches=split_batches)
    # Adam divides by the gradient's size, so rounding of small gradients shows at 1e-2 steps.
    for one, other in zip(whole.parameters(), split.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_second_stage_trains_its_parts_alone_and_gives_the_model_back_trainable(tmp_path: Path):
    after_first, after_both = new_model(), new_model()
    run(after_first, toy_config(max_steps=7), tmp_path / "first")
    run(after_both, toy_config(), tmp_path / "both")
    before, after = weights(after_first), weights(after_both)
    for name in before:
        moved = not torch.equal(before[name], after[name])
        assert moved == (name.startswith("head.") or name == "calls"), name
    trainable = {name for name, parameter in after_both.named_parameters() if parameter.requires_grad}
    assert trainable == {name for name, p in new_model().named_parameters() if p.requires_grad}


def test_each_stage_starts_with_a_fresh_optimiser(tmp_path: Path):
    run(new_model(), toy_config(), tmp_path)
    checkpoint = latest_checkpoint(tmp_path / "checkpoints")
    assert checkpoint is not None
    tensors = checkpoint.trainer_tensors()
    assert {float(value) for name, value in tensors.items() if name.endswith("/step")} == {5.0}
    assert all(name.startswith("head.") for name in tensors)


def test_records_name_loss_rate_speed_and_memory_at_the_right_steps(tmp_path: Path):
    records: dict[int, dict[str, float]] = {}
    result = run(
        new_model(),
        toy_config(),
        tmp_path,
        log_metrics=lambda metrics, step: records.__setitem__(step, metrics),
    )
    assert list(records) == [2, 4, 6, 8, 10, 12]
    assert all(type(value) is float for metrics in records.values() for value in metrics.values())
    always = {
        "loss", "accuracy", "grad_norm", "learning_rate", "stage", "nonfinite_batches", "nonfinite_updates",
        "datasets_per_s", "cells_per_s", "peak_memory_mb",
    }  # fmt: skip
    at_validation = {"validation_loss", "validation_accuracy"}
    for step, metrics in records.items():
        assert set(metrics) == always | (at_validation if step % 4 == 0 else set())
        assert metrics["stage"] == (0.0 if step <= 7 else 1.0)
        assert metrics["learning_rate"] == Curriculum(toy_config(), SEED).learning_rate(step - 1)
    assert result.final_loss == records[12]["loss"]
    assert result.validation_loss == records[12]["validation_loss"]
    assert [record["step"] for record in result.curve] == list(records)


def test_checkpoints_come_at_their_interval_and_the_end_and_the_last_stay(tmp_path: Path):
    seen: list[tuple[str, int]] = []
    run(
        new_model(),
        toy_config(max_steps=8),
        tmp_path,
        on_checkpoint=lambda path, step: seen.append((path.name, step)),
    )
    assert seen == [("step-00000003", 3), ("step-00000006", 6), ("step-00000008", 8)]
    kept = sorted(path.name for path in (tmp_path / "checkpoints").glob("step-*"))
    assert kept == ["step-00000006", "step-00000008"]


def test_checkpoint_holds_only_safetensors_and_json(tmp_path: Path):
    run(new_model(), toy_config(max_steps=3), tmp_path)
    files = {path.name for path in (tmp_path / "checkpoints" / "step-00000003").iterdir()}
    assert files == {"model.safetensors", "trainer.safetensors", "state.json", "checkpoint.json"}


def test_stop_writes_a_checkpoint_and_says_so(tmp_path: Path):
    answers = iter([False, False, False, True])
    result = run(new_model(), toy_config(), tmp_path, should_stop=lambda: next(answers))
    assert (result.stopped_early, result.steps) == (True, 4)
    checkpoint = latest_checkpoint(tmp_path / "checkpoints")
    assert checkpoint is not None
    assert checkpoint.step == 4


def test_validation_neither_trains_nor_depends_on_how_often_it_runs(tmp_path: Path):
    often, seldom = new_model(), new_model()
    run(often, toy_config(validation_every_steps=1), tmp_path / "often")
    run(seldom, toy_config(validation_every_steps=100), tmp_path / "seldom")
    assert all(torch.equal(a, b) for a, b in zip(often.parameters(), seldom.parameters(), strict=True))
    assert often.calls == seldom.calls == 24


def test_random_streams_of_the_caller_neither_matter_nor_move(tmp_path: Path):
    first, second = new_model(), new_model()
    torch.manual_seed(1)
    run(first, toy_config(), tmp_path / "first")
    torch.manual_seed(2)
    wanted = torch.rand(1)
    torch.manual_seed(2)
    run(second, toy_config(), tmp_path / "second")
    assert torch.equal(torch.rand(1), wanted)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_nonfinite_loss_leaves_its_micro_batch_out_of_the_mean(tmp_path: Path):
    config = toy_config(stages=(toy_stage("s", 1, datasets_per_step=8, micro_batch_size=2),))
    spoiled_run, clean_run = new_model(), new_model()
    for model in (spoiled_run, clean_run):
        model.head[0].p = 0.0
    result = run(spoiled_run, config, tmp_path / "spoiled", batches=spoil(config, {0}))

    six = toy_config(stages=(toy_stage("s", 1, datasets_per_step=6, micro_batch_size=2),))
    run(clean_run, six, tmp_path / "clean", batches=lambda start: stream(config)(1))
    assert result.nonfinite_batches == 1
    assert result.curve[-1]["nonfinite_batches"] == 1.0
    assert math.isfinite(result.final_loss)
    for one, other in zip(spoiled_run.parameters(), clean_run.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


def test_step_without_any_finite_loss_makes_no_update(tmp_path: Path):
    config = toy_config(stages=(toy_stage("s", 1),))
    model, before = new_model(), new_model()
    result = run(model, config, tmp_path, batches=spoil(config, {0, 1}))
    assert result.nonfinite_batches == 2
    assert result.curve[-1]["nonfinite_updates"] == 1.0
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before.parameters(), strict=True))
    assert math.isnan(result.final_loss)


class Cliff(ToyModel):
    """Its loss is finite and its gradient is not: the square root at zero."""

    def forward(self, x_BRC, y_BN, num_columns_B=None):
        logits_BMK = super().forward(x_BRC, y_BN, num_columns_B)
        return logits_BMK + torch.sqrt(logits_BMK - logits_BMK)


def test_nonfinite_gradient_skips_the_update_and_in_excess_ends_training(tmp_path: Path):
    model = Cliff()
    before = weights(model)
    config = toy_config(max_steps=12, max_nonfinite_share=0.1)
    with pytest.raises(TrainingError, match="11 of the last 11 gradients were not finite at step 11"):
        run(model, config, tmp_path)
    assert all(torch.equal(before[name], value) for name, value in weights(model).items() if name != "calls")


def test_too_many_nonfinite_losses_end_training_and_say_what_to_do(tmp_path: Path):
    config = toy_config(max_nonfinite_share=0.05)
    with pytest.raises(TrainingError, match=r"6 of the last \d+ losses were not finite at step 9.*learning rate"):
        run(new_model(), config, tmp_path, batches=spoil(config, {1, 3, 5, 12, 14, 16}))


def test_nonfinite_counters_survive_a_resume(tmp_path: Path):
    config = toy_config()
    spoil_two = spoil(config, {1, 20})
    run(new_model(), toy_config(max_steps=5), tmp_path, batches=spoil_two)
    result = run(new_model(), config, tmp_path, batches=spoil_two)
    assert (result.resumed_from, result.nonfinite_batches) == (5, 2)


def test_diverged_validation_ends_training(tmp_path: Path):
    with pytest.raises(TrainingError, match="validation loss is nan at step 4"):
        run(
            new_model(),
            toy_config(),
            tmp_path,
            validation=lambda: map(spoiled, map(sample, Curriculum(toy_config(), SEED).validation_specs)),
        )


def test_missing_batches_are_named_with_the_remedy(tmp_path: Path):
    with pytest.raises(TrainingError, match=r"batches ran out at step 2.*lower max_steps"):
        run(new_model(), toy_config(), tmp_path, batches=lambda start: islice(stream(toy_config())(0), 5))
    with pytest.raises(TrainingError, match=r"validation\(\) gave no batches"):
        run(new_model(), toy_config(), tmp_path, validation=list)


def test_activation_recompute_reaches_the_model_or_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="ToyModel cannot recompute activations"):
        run(new_model(), toy_config(activation_recompute=True), tmp_path)
    model = new_model()
    model.activation_recompute = False
    run(model, toy_config(activation_recompute=True, max_steps=1), tmp_path)
    assert model.activation_recompute is True


def test_second_trainer_in_one_folder_is_refused(tmp_path: Path):
    with sole_writer(tmp_path), pytest.raises(CheckpointError, match="another process trains in"):
        run(new_model(), toy_config(), tmp_path)


class Greedy(ToyModel):
    def forward(self, x_BRC, y_BN, num_columns_B=None):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 PiB")


def test_exhausted_gpu_memory_says_where_and_what_to_lower(tmp_path: Path):
    with pytest.raises(
        TrainingError, match=r"step 0, stage 'one', with micro_batch_size=2 and up to 24 rows; lower.*1 PiB"
    ):
        run(Greedy(), toy_config(), tmp_path)


def test_failed_training_leaves_the_model_trainable(tmp_path: Path):
    model = new_model()
    with pytest.raises(TrainingError, match="ran out at step 9"):
        run(model, toy_config(), tmp_path, batches=lambda start: islice(stream(toy_config())(0), 18))
    assert all(parameter.requires_grad for parameter in model.encoder.parameters())


@pytest.mark.parametrize("max_steps", [2, 12])
def test_batch_source_is_closed_when_training_ends(tmp_path: Path, max_steps: int):
    closed = []

    def batches(start: int) -> Iterator[TabularBatch]:
        try:
            yield from stream(toy_config())(start)
        finally:
            closed.append(True)

    run(new_model(), toy_config(max_steps=max_steps), tmp_path, batches=batches)
    assert closed == [True]


def test_state_is_plain_json(tmp_path: Path):
    run(new_model(), toy_config(max_steps=3), tmp_path)
    text = (tmp_path / "checkpoints" / "step-00000003" / "state.json").read_text()
    state = json.loads(text, parse_constant=pytest.fail)
    assert state["progress"]["step"] == 3
