"""Our TabICL against the authors' package, same random weights, fp32."""

import pytest
import torch
from benchmarks.peers import package_model, package_options

from priorline.inference.class_tree import read_classes
from priorline.models import MODELS
from priorline.models.tabicl.adapter import read_official
from priorline.models.tabicl.config import PRESETS, TabICLConfig

pytest.importorskip("tabicl")
from tabicl._model.inference_config import InferenceConfig

ATOL = 1e-5
"""Same operations in another order: fp32 rounding over a few blocks."""

SIZES = {
    "embed_dim": 16,
    "col_num_blocks": 2,
    "col_num_inds": 8,
    "row_num_blocks": 2,
    "row_num_heads": 4,
    "icl_num_blocks": 2,
    "zero_init": False,
}
TINY = {name: PRESETS[name]().model_copy(update=SIZES) for name in ("tabicl-v1", "tabicl-v2", "tabicl-v2-regressor")}
FP32 = {"use_amp": False, "use_fa3": False, "offload": False, "device": "cpu"}


def pair(config: TabICLConfig):
    """Return our model and the package's, holding the same random weights, none of them zero."""
    torch.manual_seed(0)
    # In evaluation mode the package autocasts to bfloat16 by default; training mode stays in fp32.
    theirs = package_model(config).train()
    for parameter in theirs.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.1)
    ours = MODELS["tabicl"].build(config)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    return ours, theirs


def tables(config: TabICLConfig, rows=48, train=32, columns=7, classes=5, seed=1):
    generator = torch.Generator().manual_seed(seed)
    x_BRC = torch.randn(2, rows, columns, generator=generator)
    if not config.max_classes:
        return x_BRC, torch.randn(2, train, generator=generator)
    y_BN = torch.randint(0, classes, (2, train), generator=generator)
    y_BN[:, :classes] = torch.arange(classes)
    return x_BRC, y_BN


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("classes", [2, 5, 10])
@pytest.mark.parametrize("columns", [1, 4, 7])
def test_outputs_equal_the_package(name, classes, columns):
    ours, theirs = pair(TINY[name])
    x_BRC, y_BN = tables(TINY[name], columns=columns, classes=classes)
    with torch.no_grad():
        wanted = theirs(x_BRC, y_BN.float())
        got = ours.eval()(x_BRC, y_BN)
    assert got.shape == (2, 16, TINY[name].max_classes or 999)
    torch.testing.assert_close(got, wanted, atol=ATOL, rtol=0)


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("num_columns", [[7, 3], [1, 7]])
def test_ragged_tables_equal_the_package(name, num_columns):
    ours, theirs = pair(TINY[name])
    x_BRC, y_BN = tables(TINY[name])
    columns_B = torch.tensor(num_columns)
    x_BRC *= (torch.arange(7) < columns_B[:, None, None]).float()
    with torch.no_grad():
        got = ours.eval()(x_BRC, y_BN, columns_B)
        if TINY[name].col_feature_group == "none":
            wanted = theirs(x_BRC, y_BN.float(), d=columns_B)
        else:
            # The package takes no ragged batch of grouped columns: each table alone.
            pieces = zip(x_BRC, y_BN.float(), num_columns, strict=True)
            wanted = torch.cat([theirs(x_RC[None, :, :width], y_N[None]) for x_RC, y_N, width in pieces])
    torch.testing.assert_close(got, wanted, atol=ATOL, rtol=0)


@pytest.mark.parametrize("name", TINY)
def test_published_size_equals_the_package(name):
    config = PRESETS[name]().model_copy(update={"zero_init": False})
    ours, theirs = pair(config)
    x_BRC, y_BN = tables(config, rows=40, train=30, columns=5, classes=3, seed=2)
    with torch.no_grad():
        wanted = theirs(x_BRC, y_BN.float())
        got = ours.eval()(x_BRC, y_BN)
    torch.testing.assert_close(got, wanted, atol=ATOL, rtol=0)


@pytest.mark.parametrize("name", TINY)
def test_gradients_equal_the_package(name):
    ours, theirs = pair(TINY[name])
    x_BRC, y_BN = tables(TINY[name], classes=4, seed=3)
    weights_BMK = torch.randn(2, 16, TINY[name].max_classes or 999, generator=torch.Generator().manual_seed(4))
    for model, labels_BN in ((ours.train(), y_BN), (theirs, y_BN.float())):
        (model(x_BRC, labels_BN) * weights_BMK).mean().backward()
    wanted = dict(theirs.named_parameters())
    for parameter_name, parameter in ours.named_parameters():
        if parameter.requires_grad:
            found, expected = parameter.grad, wanted[parameter_name].grad
            torch.testing.assert_close(found, expected, atol=ATOL, rtol=0, msg=parameter_name)


@pytest.mark.parametrize("name", ["tabicl-v1", "tabicl-v2"])
@pytest.mark.parametrize("classes", [11, 26, 101])
def test_more_classes_than_heads_equal_the_package(name, classes):
    ours, theirs = pair(TINY[name])
    x_BRC, y_BN = tables(TINY[name], rows=230, train=210, classes=classes)
    config = InferenceConfig(COL_CONFIG=FP32, ROW_CONFIG=FP32, ICL_CONFIG=FP32)
    with torch.no_grad():
        wanted = theirs.eval()(
            x_BRC, y_BN.float(), return_logits=False, softmax_temperature=0.9, inference_config=config
        )
        rows_BRE = ours.eval().represent_rows(x_BRC, y_BN)

        def read(rows_NE, y_N):
            return lambda query_ME: ours.predict_rows(rows_NE[None], y_N[None], query_ME[None], chunk_rows=7)[0]

        for rows_RE, y_N, expected in zip(rows_BRE, y_BN, wanted, strict=True):
            log_probs_MK = read_classes(read, rows_RE[:210], y_N, classes, 10, 0.9)(rows_RE[210:])
            torch.testing.assert_close(log_probs_MK.exp().float(), expected, atol=ATOL, rtol=0)


FIRST_KEYS = [
    "max_classes",
    "embed_dim",
    "col_num_blocks",
    "col_nhead",
    "col_num_inds",
    "row_num_blocks",
    "row_nhead",
    "row_num_cls",
    "row_rope_base",
    "icl_num_blocks",
    "icl_nhead",
    "ff_factor",
    "dropout",
    "activation",
    "norm_first",
]
"""What the first generation of checkpoints says, all of them v1."""


@pytest.mark.parametrize("name", [*TINY, "first generation"])
def test_checkpoints_of_the_package_are_read(name, tmp_path):
    wanted = TINY["tabicl-v1" if name == "first generation" else name]
    ours, theirs = pair(wanted)
    config = package_options(wanted)
    assert len(config) == 26
    if name == "first generation":
        config = {key: config[key] for key in FIRST_KEYS}
        wanted = wanted.model_copy(update={"zero_init": True})
    torch.save({"config": config, "state_dict": theirs.state_dict()}, tmp_path / "official.ckpt")
    found, state = read_official(tmp_path / "official.ckpt")
    assert found == wanted
    assert all(torch.equal(state[key], tensor) for key, tensor in ours.state_dict().items())
