"""The masked objective: which cells are hidden, what is scored, what cannot leak."""

from dataclasses import replace

import pytest
import torch

from priorline.batches import TabularBatch
from priorline.models.limix.config import LimiXConfig
from priorline.models.limix.model import LimiX
from priorline.training import masking, objectives
from priorline.training.masking import draw_masks
from priorline.training.objectives import masked_modelling


def tables(is_class: bool = True) -> TabularBatch:
    generator = torch.Generator().manual_seed(0)
    x_BRC = torch.randn(6, 40, 5, generator=generator)
    x_BRC[:, :, 4] = torch.randint(0, 3, (6, 40), generator=generator).float()
    x_BRC[:, 30:33, 1] = torch.nan
    x_BRC[3:, :, 3:] = 0.0
    num_categories_BC = torch.zeros(6, 5, dtype=torch.int64)
    num_categories_BC[:3, 4] = 3
    y_BR = (x_BRC[..., 0] > 0).long() if is_class else x_BRC[..., 0].clone()
    return TabularBatch(
        x_BRC=x_BRC,
        y_BR=y_BR,
        num_columns_B=torch.tensor([5, 5, 5, 3, 3, 3]),
        train_size=24,
        num_categories_BC=num_categories_BC,
    )


@pytest.fixture
def model() -> LimiX:
    torch.manual_seed(0)
    sizes = {"embed_dim": 16, "num_blocks": 1, "num_heads": 2, "ff_dim": 16, "max_categories": 4}
    return LimiX(LimiXConfig(**sizes, columns_per_token=1)).eval()


@pytest.mark.parametrize("pattern", masking.PATTERNS)
def test_each_pattern_hides_its_share_of_usable_cells(pattern, monkeypatch):
    monkeypatch.setattr(masking, "PATTERNS", (pattern,))
    monkeypatch.setattr(torch, "randint", lambda high, size: torch.zeros(size, dtype=torch.int64))
    whole = ("cell", "column", "block")
    picked = whole.index(pattern)
    monkeypatch.setattr(torch, "randint", lambda high, size: torch.full(size, picked, dtype=torch.int64))
    torch.manual_seed(0)
    is_usable_BMC = torch.ones(64, 40, 20, dtype=torch.bool)
    is_usable_BMC[:, :5] = False
    hidden_BMC = draw_masks(is_usable_BMC)
    assert not (hidden_BMC & ~is_usable_BMC).any()
    share = float(hidden_BMC.sum() / is_usable_BMC.sum())
    assert 0.15 < share < 0.35
    columns_BC = hidden_BMC[:, 5:].any(dim=1)
    if pattern == "column":
        assert torch.equal(hidden_BMC[:, 5:].all(dim=1), columns_BC)
    if pattern == "block":
        rows_BM = hidden_BMC.any(dim=2)
        assert torch.equal(hidden_BMC[:, 5:], (rows_BM[:, 5:, None] & columns_BC[:, None]))
    assert columns_BC.any(dim=1).all()


def test_masks_follow_the_seed_alone():
    is_usable_BMC = torch.rand(5, 9, 4) > 0.3
    torch.manual_seed(3)
    first = draw_masks(is_usable_BMC)
    torch.manual_seed(3)
    assert torch.equal(first, draw_masks(is_usable_BMC))


@pytest.mark.parametrize("is_class", [True, False])
def test_every_term_is_logged_and_finite(model, is_class):
    names: set[str] = set()
    for seed in range(12):
        torch.manual_seed(seed)
        terms = masked_modelling(model, tables(is_class))
        assert terms.loss.isfinite()
        total = sum(value for name, value in terms.metrics.items() if name.endswith("_loss"))
        torch.testing.assert_close(terms.loss.detach(), torch.as_tensor(total))
        names |= set(terms.metrics)
    label = {"class_loss", "accuracy"} if is_class else {"value_loss"}
    assert names == label | {"category_loss", "cell_loss"}


def test_hidden_labels_and_cells_do_not_reach_the_model(model, monkeypatch):
    """What the model is given stays the same whatever stands in the cells that it must predict."""
    batch, seen = tables(), []
    real = model.forward

    def spy(x_BRC, y_BN, num_columns_B, **options):
        seen.append((x_BRC.clone(), y_BN.clone()))
        return real(x_BRC, y_BN, num_columns_B, **options)

    monkeypatch.setattr(model, "forward", spy)
    monkeypatch.setattr(objectives, "LABELS_ONLY_SHARE", 0.0)
    monkeypatch.setattr(objectives, "UNLABELLED_SHARE", 0.0)
    torch.manual_seed(5)
    masked_modelling(model, batch)
    hidden_BMC = seen[0][0][:, 24:].isnan() & batch.x_BRC[:, 24:].isfinite()
    assert hidden_BMC.any()
    x_BRC, y_BR = batch.x_BRC.clone(), batch.y_BR.clone()
    x_BRC[:, 24:][hidden_BMC] = 0.0
    y_BR[:, 24:] = 0
    torch.manual_seed(5)
    masked_modelling(model, replace(batch, x_BRC=x_BRC, y_BR=y_BR))
    assert torch.equal(seen[0][0].nan_to_num(9), seen[1][0].nan_to_num(9))
    assert torch.equal(seen[0][1], seen[1][1])


def test_unlabelled_batches_show_no_label(model, monkeypatch):
    monkeypatch.setattr(objectives, "UNLABELLED_SHARE", 1.0)
    seen = []
    real = model.forward
    monkeypatch.setattr(model, "forward", lambda x, y, n, **options: (seen.append(y), real(x, y, n, **options))[1])
    terms = masked_modelling(model, tables(is_class=False))
    assert (seen[0] == 0).all()
    assert not {"class_loss", "value_loss"} & set(terms.metrics)


def test_categories_are_judged_among_their_columns_own(model):
    """With two of four categories in use, a guess costs at most the log of two, not of four."""
    batch = tables()
    x_BRC = batch.x_BRC.clone()
    x_BRC[:3, :, 4] = (x_BRC[:3, :, 4] > 0).float()
    num_categories_BC = torch.zeros(6, 5, dtype=torch.int64)
    num_categories_BC[:3, 4] = 2
    with torch.no_grad():
        model.category_decoder[-1].weight.zero_()
        model.category_decoder[-1].bias.zero_()
    losses = []
    for seed in range(12):
        torch.manual_seed(seed)
        metrics = masked_modelling(model, replace(batch, x_BRC=x_BRC, num_categories_BC=num_categories_BC)).metrics
        losses += [metrics["category_loss"]] if "category_loss" in metrics else []
    assert losses
    torch.testing.assert_close(torch.stack(losses), torch.full((len(losses),), 2.0).log())
