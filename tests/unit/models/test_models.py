"""Promises that every model of the table keeps."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from priorline.batches import TabularBatch
from priorline.checkpoints import load_weights, save_weights
from priorline.config_io import build
from priorline.models import MODELS
from priorline.training.objectives import OBJECTIVES


def labelled_tables() -> TabularBatch:
    """Four tables whose class is the sign of a product; two widths."""
    generator = torch.Generator().manual_seed(0)
    x_BRC = torch.randn(4, 32, 5, generator=generator)
    x_BRC[2:, :, 3:] = 0
    y_BR = (x_BRC[..., 0] * x_BRC[..., 1] > 0).long()
    y_BR[:, :2] = torch.tensor([0, 1])
    return TabularBatch(x_BRC=x_BRC, y_BR=y_BR, num_columns_B=torch.tensor([5, 5, 3, 3]), train_size=20)


def tables_to_fill() -> TabularBatch:
    """The same with a column that is the class again, and some cells missing."""
    batch = labelled_tables()
    x_BRC = batch.x_BRC.clone()
    x_BRC[:, :, 2] = batch.y_BR.float()
    x_BRC[:, 5, 1] = torch.nan
    num_categories_BC = torch.zeros(4, 5, dtype=torch.int64)
    num_categories_BC[:, 2] = 2
    return replace(batch, x_BRC=x_BRC, num_categories_BC=num_categories_BC)


BATCHES = {"in_context_classification": labelled_tables, "masked_modelling": tables_to_fill}
"""A batch for each objective; a new objective adds its own."""
VALUE_BATCHES = {
    "masked_modelling": lambda: replace(tables_to_fill(), y_BR=labelled_tables().x_BRC.sum(dim=2)),
}
"""Where an objective takes values beside classes."""

KINDS = pytest.mark.parametrize("kind", sorted(MODELS))


def smoke_model(kind: str) -> torch.nn.Module:
    torch.manual_seed(0)
    spec = MODELS[kind]
    return spec.build(spec.presets["smoke"]())


@KINDS
def test_every_preset_survives_a_round_trip(kind):
    spec = MODELS[kind]
    assert {"smoke", "small"} <= set(spec.presets)
    for preset in spec.presets.values():
        config = preset()
        assert build(spec.config_class, config.model_dump(mode="json")) == config
        assert config.kind == kind


@KINDS
def test_parts_cover_every_parameter(kind):
    model = smoke_model(kind)
    assert {name.split(".")[0] for name, _ in model.named_parameters()} == set(MODELS[kind].parts)


@KINDS
def test_loss_and_gradients_are_finite(kind):
    model, objective = smoke_model(kind).train(), MODELS[kind].objective
    for seed in range(8):  # an objective may use a part of the model by chance
        for batch in (BATCHES[objective](), VALUE_BATCHES.get(objective, BATCHES[objective])()):
            torch.manual_seed(seed)
            terms = OBJECTIVES[objective](model, batch)
            terms.loss.backward()
            assert torch.isfinite(terms.loss)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, name
            assert torch.isfinite(parameter.grad).all(), name


@KINDS
def test_saved_weights_load_equal(kind, tmp_path: Path):
    model = smoke_model(kind)
    config = MODELS[kind].presets["smoke"]().model_dump(mode="json")
    save_weights(tmp_path / "weights", model, kind=kind, model_config=config, metadata={})
    loaded, _ = load_weights(tmp_path / "weights")
    assert list(loaded.state_dict()) == list(model.state_dict())
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name


@KINDS
def test_overfits_one_batch_at_smoke_size(kind):
    model, objective = smoke_model(kind).train(), MODELS[kind].objective
    batch = BATCHES[objective]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    first = None
    for _ in range(150):
        torch.manual_seed(1)  # what an objective hides by chance is the same each time
        loss = OBJECTIVES[objective](model, batch).loss
        first = loss.item() if first is None else first
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.1 * first
