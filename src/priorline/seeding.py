"""One seed to many: independent, named random streams that do not depend on worker or rank."""

import hashlib

import numpy as np
import torch


def derive_seed(seed: int, *path: str | int) -> int:
    """Return a 63-bit seed for the stream named by ``path`` below ``seed``.

    Streams of different paths are independent for all practical purposes, and a stream depends
    on nothing but its path: not on the process, the worker or the order of calls.
    """
    text = "/".join([str(int(seed)), *(f"{type(part).__name__}:{part}" for part in path)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def numpy_generator(seed: int, *path: str | int) -> np.random.Generator:
    """Return a NumPy generator for the stream named by ``path`` below ``seed``."""
    return np.random.default_rng(derive_seed(seed, *path))


def torch_generator(seed: int, *path: str | int, device: str = "cpu") -> torch.Generator:
    """Return a torch generator on ``device`` for the stream named by ``path`` below ``seed``."""
    return torch.Generator(device=device).manual_seed(derive_seed(seed, *path))
