"""LimiX: the official code's outputs, who sees whom, missing cells, tokens of any number of columns."""

from pathlib import Path

import numpy as np
import pytest
import torch

from priorline.config_io import build
from priorline.errors import CheckpointError, ConfigError
from priorline.models.limix import block
from priorline.models.limix.adapter import read_official
from priorline.models.limix.cell_embedding import RbfNumber
from priorline.models.limix.config import PRESETS, LimiXConfig
from priorline.models.limix.model import LimiX

GOLDEN = Path(__file__).parents[2] / "data" / "limix"
VARIANTS = {
    "16m": {"block_order": "fmfmsm"},
    "2m": {"block_order": "smf", "pre_norm": False, "isolate_queries": True, "share_query_keys": False}
    | {"number_embedding": "rbf", "column_code": "none"},
    "report": {"block_order": "fsf_m", "column_code": "learned_lowrank", "columns_per_token": 1, "max_categories": 5},
}


def tiny(**changes) -> LimiX:
    sizes = {"embed_dim": 16, "num_blocks": 2, "num_heads": 2, "ff_dim": 32, "max_tokens": 12}
    torch.manual_seed(0)
    return LimiX(LimiXConfig(**(sizes | changes))).eval()


def table(rows=30, columns=5, train=20, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x_BRC = torch.randn(2, rows, columns, generator=generator)
    y_BN = torch.randint(0, 3, (2, train), generator=generator)
    return x_BRC, y_BN


def answers(model, x_BRC, y_BN, **options):
    with torch.no_grad():
        return model(x_BRC, y_BN, **options)


@pytest.mark.parametrize("name", ["16m", "2m"])
def test_official_checkpoints_give_the_official_outputs(name):
    config, state = read_official(GOLDEN / f"limix_{name}_tiny.ckpt")
    model = LimiX(config).eval()
    model.load_state_dict(state)
    stored = {key: torch.from_numpy(value) for key, value in np.load(GOLDEN / f"limix_{name}_tiny.npz").items()}
    if model.column_codes is not None:
        # The official code drew these anew for that call.
        model.column_codes.codes = stored["column_codes"]
    logits_BMK = answers(model, stored["cls_x"], stored["cls_y"]).class_logits_BMK
    torch.testing.assert_close(logits_BMK[0], stored["cls_out"], atol=1e-5, rtol=0)
    values_BM = answers(model, stored["reg_x"], stored["reg_y"], is_class=False).values_BM
    torch.testing.assert_close(values_BM[0], stored["reg_out"][:, 0], atol=1e-5, rtol=0)


def test_released_sizes_have_the_released_parameters():
    counts = {name: sum(p.numel() for p in LimiX(PRESETS[name]()).parameters()) for name in ("limix-16m", "limix-2m")}
    assert counts == {"limix-16m": 16_526_413, "limix-2m": 2_377_837}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_query_row_is_answered_alone(variant):
    model, (x_BRC, y_BN) = tiny(**VARIANTS[variant]), table()
    # One column is constant in the context and varies in the others: it must not count as varying.
    x_BRC[:, :20, 2] = 1.0
    whole = answers(model, x_BRC, y_BN)
    x_BRC[:, 25:] = 1e4
    others = answers(model, x_BRC, y_BN)
    assert torch.equal(whole.class_logits_BMK[:, :5], others.class_logits_BMK[:, :5])
    assert torch.equal(whole.cells_BRC[:, :25], others.cells_BRC[:, :25])
    assert not torch.equal(whole.class_logits_BMK[:, 5:], others.class_logits_BMK[:, 5:])
    alone = answers(model, x_BRC[:, :21], y_BN)
    torch.testing.assert_close(alone.values_BM, others.values_BM[:, :1], atol=1e-4, rtol=0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_order_of_context_rows_does_not_matter(variant):
    model, (x_BRC, y_BN) = tiny(**VARIANTS[variant]), table()
    order = torch.randperm(20, generator=torch.Generator().manual_seed(1))
    mixed = torch.cat((x_BRC[:, order], x_BRC[:, 20:]), dim=1)
    before, after = answers(model, x_BRC, y_BN), answers(model, mixed, y_BN[:, order])
    # Norms without a residual around them (post-norm) amplify rounding.
    torch.testing.assert_close(before.class_logits_BMK, after.class_logits_BMK, atol=1e-4, rtol=0)


@pytest.mark.parametrize("columns_per_token", [1, 2, 3, 4])
@pytest.mark.parametrize("columns", [1, 2, 5, 7])
def test_any_number_of_columns_fills_tokens_of_any_size(columns_per_token, columns):
    model = tiny(columns_per_token=columns_per_token, max_categories=4)
    x_BRC, y_BN = table(columns=columns)
    found = answers(model, x_BRC, y_BN)
    assert found.cells_BRC.shape == x_BRC.shape
    assert found.category_logits_BRCK.shape == (*x_BRC.shape, 4)
    assert all(part.isfinite().all() for part in found)


@pytest.mark.parametrize("variant", VARIANTS)
def test_labels_alone_cost_less_and_are_the_same(variant):
    model, (x_BRC, y_BN) = tiny(**VARIANTS[variant]), table()
    whole, alone = answers(model, x_BRC, y_BN), answers(model, x_BRC, y_BN, wants_cells=False)
    assert alone.cells_BRC is alone.category_logits_BRCK is None
    torch.testing.assert_close(alone.class_logits_BMK, whole.class_logits_BMK)
    torch.testing.assert_close(alone.values_BM, whole.values_BM)


@pytest.mark.parametrize("variant", VARIANTS)
def test_pieces_in_inference_give_the_results_of_one_pass(variant, monkeypatch):
    model, (x_BRC, y_BN) = tiny(**VARIANTS[variant]), table()
    whole = answers(model, x_BRC, y_BN)
    monkeypatch.setattr(block, "_CACHE_FLOATS", 7 * 6 * 48)
    for one, other in zip(whole, answers(model, x_BRC, y_BN), strict=True):
        assert one is other is None or torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_a_missing_cell_is_the_same_whatever_stood_there(value):
    model, (x_BRC, y_BN) = tiny(), table()
    x_BRC[0, 3, 1], x_BRC[0, 22, 4] = value, value
    found = answers(model, x_BRC, y_BN)
    x_BRC[0, 3, 1], x_BRC[0, 22, 4] = torch.nan, torch.nan
    assert torch.equal(found.class_logits_BMK, answers(model, x_BRC, y_BN).class_logits_BMK)
    assert found.cells_BRC.isfinite().all()
    x_BRC[:, :, 1] = torch.nan
    assert all(part is None or part.isfinite().all() for part in answers(model, x_BRC, y_BN))


def test_values_shift_with_the_labels_flag_and_the_same_call_gives_the_same_answer():
    model, (x_BRC, y_BN) = tiny(), table()
    first, second = (answers(model, x_BRC, y_BN.float(), is_class=False) for _ in range(2))
    assert torch.equal(first.values_BM, second.values_BM)
    codes = [LimiX(model.config).column_codes.codes for _ in range(2)]
    assert torch.equal(codes[0], codes[1])
    gram = codes[0][:4] @ codes[0][:4].T
    torch.testing.assert_close(gram, torch.eye(4), atol=1e-5, rtol=0)


def test_columns_are_told_apart_by_their_codes_alone():
    x_BRC, y_BN = table()
    for code, differs in (("orthogonal", True), ("learned_lowrank", True), ("none", False)):
        model = tiny(columns_per_token=1, column_code=code)
        swapped = answers(model, x_BRC.flip(2), y_BN).class_logits_BMK
        close = torch.allclose(answers(model, x_BRC, y_BN).class_logits_BMK, swapped, atol=1e-5)
        assert close is not differs


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_are_finite_and_reach_every_parameter(variant):
    model, (x_BRC, y_BN) = tiny(**VARIANTS[variant]).train(), table()
    x_BRC[0, 1, 1] = torch.nan
    loss = sum(
        part.square().mean()
        for is_class in (True, False)
        for part in model(x_BRC, y_BN, is_class=is_class)
        if part is not None
    )
    loss.backward()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name


def test_numbers_next_to_a_power_of_ten_and_zero_are_embedded():
    model = RbfNumber(8)
    x = torch.tensor([0.0, 1.0, 0.99999994, 10.0, -1e-12, 1e30, -99.99999])
    assert model(x).isfinite().all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_heads": 5}, "num_heads=5 must divide embed_dim=192"),
        ({"block_order": "mm"}, "has no feature attention"),
        ({"block_order": "fxs"}, "block_order"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        build(LimiXConfig, options)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"activation": "relu"}, "activation='relu' is not supported"),
        ({"feature_positional_embedding_type": "learned"}, "'learned' is not supported"),
        ({"layer_arch": "fmm"}, "no sample attention"),
        ({"layer_arch": "fsm"}, "unknown: transformer_encoder"),
        ({"hid_dim": 97}, "of another shape"),
    ],
)
def test_official_files_that_do_not_fit_are_told(tmp_path, config, message):
    content = torch.load(GOLDEN / "limix_16m_tiny.ckpt", weights_only=True)
    content["config"] |= config
    torch.save(content, tmp_path / "changed.ckpt")
    with pytest.raises(CheckpointError, match=message) as caught:
        read_official(tmp_path / "changed.ckpt")
    assert "changed.ckpt" in str(caught.value)
