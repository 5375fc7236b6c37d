"""Our TabICL against the authors' package, same weights, fp32."""

import pytest
import torch

from priorline.models import MODELS
from priorline.models.tabicl.config import TabICLConfig

tabicl = pytest.importorskip("tabicl")
from tabicl._model.tabicl import TabICL as PackageTabICL  # noqa: E402

ATOL = 1e-5
"""Same operations in another order: fp32 rounding over a few blocks."""

TINY = TabICLConfig(
    embed_dim=16,
    col_num_blocks=2,
    col_num_inds=8,
    row_num_blocks=2,
    row_num_heads=4,
    icl_num_blocks=2,
    zero_init=False,
)


def pair(config: TabICLConfig):
    """Return our model and the package's, holding the same random weights."""
    torch.manual_seed(0)
    theirs = PackageTabICL(
        max_classes=config.max_classes,
        embed_dim=config.embed_dim,
        col_num_blocks=config.col_num_blocks,
        col_nhead=config.col_num_heads,
        col_num_inds=config.col_num_inds,
        col_affine=True,
        col_feature_group=False,
        col_target_aware=False,
        col_ssmax=False,
        row_num_blocks=config.row_num_blocks,
        row_nhead=config.row_num_heads,
        row_num_cls=config.row_num_cls,
        row_rope_base=config.row_rope_base,
        row_rope_interleaved=True,
        icl_num_blocks=config.icl_num_blocks,
        icl_nhead=config.icl_num_heads,
        icl_ssmax=False,
        ff_factor=config.ff_factor,
        dropout=0.0,
        activation="gelu",
        norm_first=True,
        bias_free_ln=False,
        zero_init=False,
    )
    # In evaluation mode the package autocasts to bfloat16 by default; training mode stays in fp32.
    theirs.train()
    ours = MODELS["tabicl"].build(config)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    return ours.eval(), theirs


@pytest.mark.parametrize("num_classes", [2, 5, 10])
@pytest.mark.parametrize("num_columns", [[7, 7], [7, 3], [1, 7]])
def test_logits_equal_the_package(num_classes, num_columns):
    ours, theirs = pair(TINY)
    generator = torch.Generator().manual_seed(1)
    x_BRC = torch.randn(2, 48, 7, generator=generator)
    columns_B = torch.tensor(num_columns)
    x_BRC *= (torch.arange(7) < columns_B[:, None, None]).float()
    y_BN = torch.randint(0, num_classes, (2, 32), generator=generator)
    y_BN[:, :num_classes] = torch.arange(num_classes)
    with torch.no_grad():
        wanted = theirs(x_BRC, y_BN.float(), d=columns_B)
        got = ours(x_BRC, y_BN, columns_B)
    assert got.shape == (2, 16, 10)
    torch.testing.assert_close(got, wanted, atol=ATOL, rtol=0)


def test_published_size_equals_the_package():
    ours, theirs = pair(TabICLConfig(zero_init=False))
    generator = torch.Generator().manual_seed(2)
    x_BRC = torch.randn(1, 40, 5, generator=generator)
    y_BN = torch.randint(0, 3, (1, 30), generator=generator)
    with torch.no_grad():
        wanted = theirs(x_BRC, y_BN.float())
        got = ours(x_BRC, y_BN)
    torch.testing.assert_close(got, wanted, atol=ATOL, rtol=0)


def test_gradients_equal_the_package():
    ours, theirs = pair(TINY)
    generator = torch.Generator().manual_seed(3)
    x_BRC = torch.randn(2, 40, 6, generator=generator)
    y_BR = torch.randint(0, 4, (2, 40), generator=generator)
    for model, y_BN in ((ours, y_BR[:, :30]), (theirs, y_BR[:, :30].float())):
        logits_BMK = model(x_BRC, y_BN)
        torch.nn.functional.cross_entropy(logits_BMK.flatten(0, 1), y_BR[:, 30:].flatten()).backward()
    wanted = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        if parameter.requires_grad:
            torch.testing.assert_close(parameter.grad, wanted[name].grad, atol=ATOL, rtol=0, msg=name)
