import pytest
import torch
from toy_training import toy_config

from priorline.errors import ConfigError
from priorline.training.precision import allow_tf32, build_autocast, has_native_bfloat16

CPU = torch.device("cpu")


def test_off_computes_in_float32():
    with build_autocast(toy_config(), CPU):
        assert torch.nn.Linear(4, 4)(torch.ones(1, 4)).dtype == torch.float32


@pytest.mark.skipif(has_native_bfloat16(CPU), reason="this CPU multiplies bfloat16 natively")
def test_bfloat16_is_refused_where_it_would_be_emulated():
    with pytest.raises(ConfigError, match=r"training\.amp=bfloat16.*cpu has none.*set training\.amp=off"):
        build_autocast(toy_config(amp="bfloat16"), CPU)


@pytest.mark.skipif(not has_native_bfloat16(CPU), reason="this CPU would emulate bfloat16")
def test_bfloat16_computes_in_bfloat16():
    with build_autocast(toy_config(amp="bfloat16"), CPU):
        assert torch.nn.Linear(4, 4)(torch.ones(1, 4)).dtype == torch.bfloat16


def test_tf32_setting_is_put_back():
    before = torch.backends.cuda.matmul.fp32_precision
    with allow_tf32(True):
        assert torch.backends.cuda.matmul.fp32_precision == "tf32"
    assert torch.backends.cuda.matmul.fp32_precision == before
