"""Promises that every model of the table keeps."""

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


BATCHES = {"in_context_classification": labelled_tables}
"""A batch for each objective; a new objective adds its own."""

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
    terms = OBJECTIVES[objective](model, BATCHES[objective]())
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
        loss = OBJECTIVES[objective](model, batch).loss
        first = loss.item() if first is None else first
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.1 * first
