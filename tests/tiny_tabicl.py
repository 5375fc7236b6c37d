"""A TabICL of a few hundred parameters, and the same as its authors' package would save it."""

from pathlib import Path

import torch

from priorline.models.tabicl.config import TabICLConfig
from priorline.models.tabicl.model import TabICL

TINY = TabICLConfig(
    embed_dim=8,
    col_num_blocks=1,
    col_num_heads=2,
    col_num_inds=4,
    row_num_blocks=1,
    row_num_heads=2,
    row_num_cls=2,
    icl_num_blocks=1,
    icl_num_heads=2,
)

OFFICIAL = {
    "max_classes": 10,
    "embed_dim": 8,
    "col_num_blocks": 1,
    "col_nhead": 2,
    "col_num_inds": 4,
    "row_num_blocks": 1,
    "row_nhead": 2,
    "row_num_cls": 2,
    "row_rope_base": 100000,
    "icl_num_blocks": 1,
    "icl_nhead": 2,
    "ff_factor": 2,
    "dropout": 0.0,
    "activation": "gelu",
    "norm_first": True,
}
"""The configuration of `TINY` in a checkpoint of May 2025: the first 15 keys."""


def random_tiny(seed: int) -> TabICL:
    """Return a model of random weights, none of them zero; the caller's random stream stays where it is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return TabICL(TINY.model_copy(update={"zero_init": False}))


def write_official(path: Path, seed: int = 0) -> Path:
    """Write random weights as an official checkpoint and return its path."""
    torch.save({"config": OFFICIAL, "state_dict": random_tiny(seed).state_dict()}, path)
    return path
