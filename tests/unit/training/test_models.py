"""The loop with every real model."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn
from toy_training import run, stream, toy_config, toy_stage

from priorline.batches import TabularBatch
from priorline.checkpoints import load_weights, save_weights
from priorline.models import MODELS
from priorline.models.spec import ModelConfig
from priorline.training.config import OptimConfig, TrainConfig
from priorline.training.optim import build_optimizer

SHRUNK = {
    "tabicl": {"embed_dim": 16, "col_num_inds": 4, "icl_num_blocks": 1},
    "limix": {"embed_dim": 16, "num_blocks": 1},
}
"""Changes to each model's ``smoke`` preset that train in a second."""


def shrunk_config(kind: str) -> ModelConfig:
    spec = MODELS[kind]
    values = spec.presets["smoke"]().model_dump(mode="json")
    return spec.config_class.model_validate({**values, **SHRUNK[kind]})


def build(kind: str) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[kind].build(shrunk_config(kind))


def config_for(kind: str, **changes) -> TrainConfig:
    stages = (
        toy_stage("one", 4, learning_rate=3e-3),
        toy_stage("two", 3, micro_batch_size=1, trainable_parts=MODELS[kind].parts[-1:]),
    )
    return toy_config(**{"stages": stages, "optim": OptimConfig(name="muon"), **changes})


def ragged(batches: Callable[[int], Iterator[TabularBatch]]) -> Callable[[int], Iterator[TabularBatch]]:
    """Return the source with the last column of each first dataset cut off."""

    def cut(start: int) -> Iterator[TabularBatch]:
        for batch in batches(start):
            x_BRC, num_columns_B = batch.x_BRC.clone(), batch.num_columns_B.clone()
            x_BRC[0, :, -1] = 0.0
            num_columns_B[0] -= 1
            yield TabularBatch(x_BRC=x_BRC, y_BR=batch.y_BR, num_columns_B=num_columns_B, train_size=batch.train_size)

    return cut


@pytest.mark.parametrize("kind", MODELS)
def test_stopped_and_resumed_equals_unbroken_and_trains_only_the_last_part_at_the_end(kind: str, tmp_path: Path):
    config = config_for(kind)
    unbroken, resumed, first_stage = build(kind), build(kind), build(kind)
    source = ragged(stream(config))
    run(unbroken, config, tmp_path / "unbroken", batches=source, objective=MODELS[kind].objective)
    for stop_after in (2, 3, 99):
        answers = iter([False] * (stop_after - 1) + [True])
        run(
            resumed,
            config,
            tmp_path / "resumed",
            batches=source,
            objective=MODELS[kind].objective,
            should_stop=lambda answers=answers: next(answers, False),
        )
    wanted = unbroken.state_dict()
    assert all(torch.equal(value, wanted[name]) for name, value in resumed.state_dict().items())

    run(
        first_stage, config_for(kind, max_steps=4), tmp_path / "first", batches=source, objective=MODELS[kind].objective
    )
    before = first_stage.state_dict()
    moved = {name.split(".")[0] for name in before if not torch.equal(before[name], wanted[name])}
    assert moved == set(MODELS[kind].parts[-1:])


@pytest.mark.parametrize("kind", MODELS)
def test_recomputed_activations_train_to_the_same_weights(kind: str, tmp_path: Path):
    plain, recomputed = build(kind), build(kind)
    objective = MODELS[kind].objective
    run(plain, config_for(kind, max_steps=2), tmp_path / "plain", objective=objective)
    recompute = config_for(kind, max_steps=2, activation_recompute=True)
    run(recomputed, recompute, tmp_path / "recomputed", objective=objective)
    for one, other in zip(plain.parameters(), recomputed.parameters(), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", MODELS)
def test_every_hidden_matrix_of_the_smoke_size_goes_to_muon(kind: str):
    model = build(kind)
    by_name = dict(model.named_parameters())
    muon = next(o for o in build_optimizer(model, OptimConfig(name="muon")) if type(o).__name__ == "Muon")
    chosen = {id(parameter) for group in muon.param_groups for parameter in group["params"]}
    suffixes = ("in_proj_weight", "out_proj.weight", "linear1.weight", "linear2.weight", "qkv.weight", "out.weight")
    hidden = {name for name in by_name if name.endswith(suffixes)}
    assert hidden
    assert all(id(by_name[name]) in chosen for name in hidden)


@pytest.mark.parametrize("kind", MODELS)
def test_saved_weights_predict_what_the_trained_model_does(kind: str, tmp_path: Path):
    model = build(kind)
    config = config_for(kind, max_steps=2)
    run(model, config, tmp_path, objective=MODELS[kind].objective)
    model_config = shrunk_config(kind).model_dump(mode="json")
    save_weights(tmp_path / "weights", model, kind=kind, model_config=model_config, metadata={})
    loaded, _ = load_weights(tmp_path / "weights")
    batch = next(stream(config)(0))
    y_BN = batch.y_BR[:, : batch.train_size]
    with torch.no_grad():
        wanted = model.eval()(batch.x_BRC, y_BN, batch.num_columns_B)
        found = loaded(batch.x_BRC, y_BN, batch.num_columns_B)
        # A model's answer is a tensor, or a tuple of them.
        pairs = zip(*((part,) if isinstance(part, torch.Tensor) else part for part in (found, wanted)), strict=True)
        assert all(one is other is None or torch.equal(one, other) for one, other in pairs)
