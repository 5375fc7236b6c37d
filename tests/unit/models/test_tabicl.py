"""What TabICL promises beyond every model: sizes, who sees whom, chunks."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from priorline.config_io import build
from priorline.errors import ConfigError
from priorline.models import MODELS
from priorline.models.common.rope import RotaryPositions, rotate
from priorline.models.tabicl.config import PRESETS, TabICLConfig
from priorline.models.tabicl.labels import LabelEncoder, mixed_radix_bases

TINY = TabICLConfig(
    embed_dim=16,
    col_num_blocks=2,
    col_num_inds=8,
    row_num_blocks=2,
    row_num_heads=4,
    icl_num_blocks=2,
    zero_init=False,
)
OPTIONS = {
    "v1": {},
    "grouped": {"col_affine": False, "col_feature_group": "circular"},
    "v2": {
        "col_affine": False,
        "col_feature_group": "circular",
        "col_target_aware": True,
        "col_ssmax": "qassmax-mlp-elementwise",
        "row_rope_interleaved": False,
        "icl_ssmax": "qassmax-mlp-elementwise",
    },
    "v2 regressor": {
        "max_classes": 0,
        "num_quantiles": 9,
        "col_affine": False,
        "col_feature_group": "circular",
        "col_target_aware": True,
        "bias_free_ln": True,
    },
}


def tiny_model(**changes) -> torch.nn.Module:
    torch.manual_seed(0)
    return MODELS["tabicl"].build(TINY.model_copy(update=changes)).eval()


def tables(num_tables=2, rows=40, columns=6, train=28, classes=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x_BRC = torch.randn(num_tables, rows, columns, generator=generator)
    y_BN = torch.randint(0, classes, (num_tables, train), generator=generator)
    y_BN[:, :classes] = torch.arange(classes)
    return x_BRC, y_BN


def test_published_size_has_the_published_parameters():
    model = MODELS["tabicl"].build(PRESETS["tabicl-v1"]())
    counts = {
        part: sum(p.numel() for p in getattr(model, part).parameters() if p.requires_grad)
        for part in MODELS["tabicl"].parts
    }
    assert counts == {"col_embedder": 877_824, "row_interactor": 398_208, "icl_predictor": 25_775_626}
    assert sum(counts.values()) == 27_051_658


def test_zero_init_makes_every_block_the_identity():
    model = tiny_model(zero_init=True)
    for name, parameter in model.named_parameters():
        if "out_proj" in name or "linear2" in name:
            assert not parameter.any(), name


def test_loss_and_gradients_are_finite_and_reach_every_parameter():
    model = tiny_model().train()
    x_BRC, y_BN = tables()
    logits_BMK = model(x_BRC, y_BN, torch.tensor([6, 4]))
    assert logits_BMK.shape == (2, 12, 10)
    F.cross_entropy(logits_BMK.flatten(0, 1), torch.randint(0, 3, (24,))).backward()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, name
            assert torch.isfinite(parameter.grad).all(), name
            assert parameter.grad.any(), name


def test_activation_recompute_changes_no_gradient():
    x_BRC, y_BN = tables()
    gradients = []
    for recompute in (False, True):
        model = tiny_model().train()
        model.activation_recompute = recompute
        model(x_BRC, y_BN).square().mean().backward()
        gradients.append([p.grad for p in model.parameters() if p.requires_grad])
    for plain, recomputed in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, recomputed, rtol=0, atol=0)


@pytest.mark.parametrize("value", [1.0, -1e4, 1e6, 1e30])
def test_a_test_row_does_not_see_other_test_rows(value):
    model = tiny_model()
    x_BRC, y_BN = tables()
    with torch.no_grad():
        before = model(x_BRC, y_BN)
        x_BRC[:, 30:] = value
        after = model(x_BRC, y_BN)
    assert torch.equal(before[:, :2], after[:, :2])
    assert not torch.equal(before[:, 2:], after[:, 2:])


def test_order_of_train_rows_does_not_matter_and_test_rows_keep_theirs():
    model = tiny_model()
    x_BRC, y_BN = tables()
    train_order, test_order = torch.randperm(28), torch.randperm(12)
    with torch.no_grad():
        before = model(x_BRC, y_BN)
        mixed = torch.cat((x_BRC[:, train_order], x_BRC[:, 28 + test_order]), dim=1)
        after = model(mixed, y_BN[:, train_order])
    torch.testing.assert_close(before[:, test_order], after, atol=1e-5, rtol=0)


def test_padded_columns_do_not_matter():
    model = tiny_model()
    x_BRC, y_BN = tables()
    widths_B = torch.tensor([6, 4])
    with torch.no_grad():
        before = model(x_BRC, y_BN, widths_B)
        x_BRC[1, :, 4:] = 7.0
        after = model(x_BRC, y_BN, widths_B)
        alone = model(x_BRC[1:, :, :4], y_BN[1:])
    assert torch.equal(before, after)
    torch.testing.assert_close(before[1:], alone, atol=1e-5, rtol=0)


def test_column_order_matters_as_rotary_positions_promise():
    model = tiny_model()
    x_BRC, y_BN = tables()
    with torch.no_grad():
        assert not torch.allclose(model(x_BRC, y_BN), model(x_BRC.flip(2), y_BN), atol=1e-4)


def in_pieces(model, x_RC, y_N, orders, chunk_cells):
    """Return row embeddings (O, R, E) of a table by way of column summaries."""
    train_size = len(y_N)
    summary = model.summarize_columns(x_RC[:train_size], y_N, chunk_cells=chunk_cells)
    known = model.represent_with(x_RC[:train_size], summary, orders, chunk_cells=chunk_cells, y_N=y_N)
    return torch.cat((known, model.represent_with(x_RC[train_size:], summary, orders, chunk_cells=chunk_cells)), dim=1)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("chunk_cells", [1, 50, 200, 10_000])
def test_pieces_give_the_rows_and_outputs_of_one_pass(options, chunk_cells):
    model = tiny_model(**OPTIONS[options])
    x_BRC, y_BN = tables(rows=60)
    if not model.config.max_classes:
        y_BN = torch.randn(2, 28)
    with torch.no_grad():
        rows_BRE = model.represent_rows(x_BRC, y_BN)
        for x_RC, y_N, rows_RE in zip(x_BRC, y_BN, rows_BRE, strict=True):
            pieces = in_pieces(model, x_RC, y_N, [range(6)], chunk_cells)[0]
            torch.testing.assert_close(rows_RE, pieces, atol=1e-5, rtol=0)
        outputs_BMK = model.icl_predictor(rows_BRE, y_BN)
        train_BNE, query_BME = rows_BRE.split((28, 32), dim=1)
        pieces = model.predict_rows(train_BNE, y_BN, query_BME, chunk_rows=5)
        torch.testing.assert_close(outputs_BMK, pieces, atol=1e-5, rtol=0)
        context = model.read_context(train_BNE, y_BN, chunk_rows=9)
        torch.testing.assert_close(outputs_BMK, model.predict_with(context, query_BME, chunk_rows=7), atol=1e-5, rtol=0)


def test_column_orders_share_embedded_columns():
    model = tiny_model()
    x_BRC, y_BN = tables(num_tables=1)
    orders = [[0, 1, 2, 3, 4, 5], [5, 3, 1, 0, 2, 4]]
    with torch.no_grad():
        wanted = torch.cat([model.represent_rows(x_BRC[..., order], y_BN) for order in orders])
        got = in_pieces(model, x_BRC[0], y_BN[0], orders, 100)
    torch.testing.assert_close(got, wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize("classes", [3, 26])
def test_labels_reach_the_columns_of_a_target_aware_model_only(classes):
    for options in OPTIONS.values():
        model = tiny_model(**options)
        x_BRC, y_BN = tables(classes=classes)
        with torch.no_grad():
            rows_BRE = model.represent_rows(x_BRC, y_BN)
            others_BRE = model.represent_rows(x_BRC, y_BN.flip(1))
        assert torch.equal(rows_BRE, others_BRE) is not model.config.col_target_aware


@pytest.mark.parametrize("num_classes", [11, 26, 64, 100, 101, 125, 216, 243, 999, 1000, 1001])
def test_digits_tell_all_classes_apart(num_classes):
    bases = mixed_radix_bases(num_classes, 10)
    assert max(bases) <= 10
    assert math.prod(bases) >= num_classes
    encoder = LabelEncoder(10, 10)
    with torch.no_grad():
        encoder.weight.copy_(torch.eye(10))
        encoder.bias.zero_()
    digits_NDK = torch.stack(encoder.by_digit(torch.arange(num_classes)[None]), dim=2)[0]
    assert len(digits_NDK.argmax(-1).unique(dim=0)) == num_classes


class LargestTensor(TorchDispatchMode):
    """Notes the most elements that any operation returned."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None) -> Any:
        found = func(*args, **(kwargs or {}))
        for item in found if isinstance(found, tuple | list) else (found,):
            if isinstance(item, torch.Tensor):
                self.elements = max(self.elements, item.numel())
        return found


def test_chunks_bound_the_largest_activation():
    model = tiny_model()
    x_BRC, y_BN = tables(num_tables=1, rows=2_000, columns=30, train=100)
    chunk_cells, width = 3_000, TINY.embed_dim
    with torch.no_grad(), LargestTensor() as largest:
        rows_ORE = in_pieces(model, x_BRC[0], y_BN[0], [range(30)], chunk_cells)
    # In the row stage four [CLS] tokens join 30 columns; the widest layer triples the embedding.
    assert largest.elements <= max(3 * width * chunk_cells * 34 // 30, rows_ORE.numel())
    train_BNE, query_BME = rows_ORE.split((100, 1_900), dim=1)
    with torch.no_grad(), LargestTensor() as largest:
        model.predict_rows(train_BNE, y_BN, query_BME, chunk_rows=50)
    # Row embeddings came whole; of the work on them, 100 train rows are the most at a time.
    assert largest.elements <= max(query_BME.numel(), 3 * 4 * width * 100)


def test_rotary_products_depend_on_distance_alone():
    rope = RotaryPositions(8, 100.0)
    query, key = torch.randn(8), torch.randn(8)
    turned_q = rotate(query.expand(1, 1, 12, 8), rope(12))[0, 0]
    turned_k = rotate(key.expand(1, 1, 12, 8), rope(12))[0, 0]
    products = turned_q @ turned_k.T
    for distance in range(12):
        along = products.diagonal(distance)
        torch.testing.assert_close(along, along[:1].expand_as(along), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(turned_q[0], query)


@pytest.mark.parametrize("sizes", [{"col_num_heads": 3}, {"row_num_heads": 16, "embed_dim": 16}, {"icl_num_heads": 7}])
def test_heads_that_do_not_divide_are_refused_by_name(sizes):
    with pytest.raises(ConfigError, match="must divide the width"):
        build(TabICLConfig, sizes)


def test_bfloat16_autocast_keeps_close_to_fp32():
    model = tiny_model()
    x_BRC, y_BN = tables()
    with torch.no_grad():
        exact = model(x_BRC, y_BN)
        with torch.autocast("cpu", torch.bfloat16):
            rough = model(x_BRC, y_BN)
    # 8 bits of mantissa through six blocks.
    torch.testing.assert_close(exact, rough.float(), atol=0.1, rtol=0)
