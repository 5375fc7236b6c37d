"""Official TabICL checkpoints in, our configuration and weights out.

The authors' files are `torch.save` dictionaries of ``config`` (keyword arguments of their model) and
``state_dict``. Two generations are about: v1 of May 2025 with 15 keys, and later ones with 26. What a
file does not say is as in v1. Parameters have the same names in ours, so only the configuration is
translated.
"""

from pathlib import Path
from typing import Any

from torch import Tensor

from priorline.config_io import build, nearest_name
from priorline.errors import CheckpointError, ConfigError
from priorline.models.common.foreign_files import fitting_tensors, read_foreign_file
from priorline.models.tabicl.config import TabICLConfig
from priorline.models.tabicl.model import TabICL

SAME_NAMES = (
    "max_classes",
    "num_quantiles",
    "embed_dim",
    "col_num_blocks",
    "col_num_inds",
    "col_affine",
    "col_feature_group_size",
    "col_target_aware",
    "row_num_blocks",
    "row_num_cls",
    "row_rope_base",
    "row_rope_interleaved",
    "icl_num_blocks",
    "ff_factor",
    "dropout",
    "bias_free_ln",
    "zero_init",
)
OTHER_NAMES = {"col_nhead": "col_num_heads", "row_nhead": "row_num_heads", "icl_nhead": "icl_num_heads"}
"""Theirs to ours."""
FEATURE_GROUPS = {False: "none", True: "circular", "same": "circular"}
"""Theirs to ours; ``valid`` is in no published checkpoint and is refused."""
FULL_SCALING = "qassmax-mlp-elementwise"
"""What True stands for in ``col_ssmax`` and ``icl_ssmax``; the only kind in published checkpoints."""
FIXED = {"norm_first": True, "activation": "gelu"}
"""Options that all published checkpoints share, and ours has no other of."""
WITHOUT_EFFECT = ("recompute",)
"""Saves memory in their training; the result is the same."""
REQUIRED = ("max_classes", "embed_dim", "col_num_blocks", "row_num_blocks", "icl_num_blocks")


def read_official(path: Path) -> tuple[TabICLConfig, dict[str, Tensor]]:
    """Return configuration and float32 weights of an official TabICL checkpoint.

    Raises
    ------
    CheckpointError
        If the file is missing, corrupt, holds code or something else than a TabICL, or asks for an
        option that ours does not have.

    Source: checkpoint format of the package tabicl, 0.1 to 2.2.0.
    """
    content = read_foreign_file(path, {"config": dict, "state_dict": dict})
    config = _translate(path, content["config"])
    return config, fitting_tensors(path, content["state_dict"], lambda: TabICL(config))


def _translate(path: Path, theirs: dict[str, Any]) -> TabICLConfig:
    known = [*SAME_NAMES, *OTHER_NAMES, "col_feature_group", "col_ssmax", "icl_ssmax", *FIXED, *WITHOUT_EFFECT]
    unknown = [str(key) for key in theirs if key not in known]
    if unknown:
        hints = ", ".join(f"{key!r}{nearest_name(key, known)}" for key in unknown[:3])
        raise CheckpointError(f"{path}: config holds keys that no known TabICL has: {hints}; a newer Priorline may")
    lacking = [key for key in REQUIRED if key not in theirs]
    if lacking:
        raise CheckpointError(f"{path}: config lacks {', '.join(lacking)}; this is not a TabICL checkpoint")
    for key, value in FIXED.items():
        if theirs.get(key, value) != value:
            raise CheckpointError(f"{path}: {key}={theirs[key]!r} is not supported; published models have {value!r}")
    values = {OTHER_NAMES.get(key, key): value for key, value in theirs.items() if key not in (*WITHOUT_EFFECT, *FIXED)}
    if "col_feature_group" in values:
        values["col_feature_group"] = _grouping(path, values["col_feature_group"])
    for key in ("col_ssmax", "icl_ssmax"):
        if isinstance(values.get(key), bool):
            values[key] = FULL_SCALING if values[key] else "none"
    try:
        return build(TabICLConfig, values)
    except ConfigError as fault:
        raise CheckpointError(f"{path}: config cannot be used: {fault}") from fault


def _grouping(path: Path, value: Any) -> str:
    if not isinstance(value, bool | str) or value not in FEATURE_GROUPS:
        raise CheckpointError(f"{path}: col_feature_group={value!r} is not supported; wanted False, True or 'same'")
    return FEATURE_GROUPS[value]
