"""Number formats of the forward and backward pass."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from priorline.errors import ConfigError
from priorline.training.config import TrainConfig


def build_autocast(config: TrainConfig, device: torch.device) -> torch.autocast:
    """Return the context that forward passes run in, the same at every step.

    Raises
    ------
    ConfigError
        If ``config.amp`` asks for bfloat16 where ``device`` has no native support.
    """
    if config.amp == "bfloat16" and not has_native_bfloat16(device):
        raise ConfigError(
            f"training.amp=bfloat16 needs a device with native bfloat16, {device} has none: emulation is "
            "many times slower than float32; set training.amp=off"
        )
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=config.amp == "bfloat16")


def has_native_bfloat16(device: torch.device) -> bool:
    """Return whether ``device`` multiplies bfloat16 matrices in hardware."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    # oneDNN also "supports" bfloat16 on plain AVX-512, by emulation: ask for the instructions.
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


@contextmanager
def allow_tf32(allowed: bool) -> Iterator[None]:
    """Set whether a GPU may multiply float32 matrices in TF32, and put the setting back."""
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32" if allowed else "ieee"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.fp32_precision = before
