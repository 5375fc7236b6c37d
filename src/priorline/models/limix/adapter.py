"""Official LimiX checkpoints in, our configuration and weights out.

The authors' files are `torch.save` dictionaries of ``config`` and ``state_dict``; what a configuration does
not say has the default of their loader. Attention weights there are split by heads, here they are matrices.
"""

import re
from pathlib import Path
from typing import Any

from torch import Tensor

from priorline.config_io import build
from priorline.errors import CheckpointError, ConfigError
from priorline.models.common.foreign_files import fitting_tensors, read_foreign_file
from priorline.models.limix.config import LimiXConfig
from priorline.models.limix.model import LimiX

_PREFIXES = {
    "encoder_x.0.": "cells.",
    "cls_y_encoder.2.y_embedding.weight": "labels.class_embedding",
    "cls_y_encoder.2.y_mask.weight": "labels.unknown_class",
    "reg_y_encoder.1.layer.": "labels.value.",
    "feature_positional_embedding.": "column_codes.map.",
    "cls_y_decoder.": "class_decoder.",
    "reg_y_decoder.": "value_decoder.",
    "feature_decoder.": "cell_decoder.",
}
"""Theirs to ours, for what stands outside of the blocks."""
_IN_BLOCK = re.compile(
    r"transformer_encoder\.layers\.(?P<block>\d+)\."
    r"(?P<layer>feature_attentions|sequence_attentions|mlp)\.(?P<place>\d+)\.(?:mlp\.)?(?P<rest>.+)"
)
_LETTERS = {"feature_attentions": "f", "sequence_attentions": "s", "mlp": "m"}
_ATTENTION_WEIGHTS = {"qkv_proj_weight": "qkv.weight", "out_proj_weight": "out.weight"}
_RBF = {
    "token_embed_dim": 16,
    "n_kernels": 64,
    "sigma": 0.5,
    "use_learn_sigma": False,
    "use_random_kernels": False,
    "use_original_features": False,
}
"""The one setting of radial basis functions that was released."""
_FIXED = {
    "self_share_all_kv_heads": False,
    "seq_attn_serial": False,
    "activation": "gelu",
    "layer_norm_eps": 1e-5,
    "dropout": 0.0,
}
"""Options that all released models share, and ours has no other of."""


def read_official(path: Path) -> tuple[LimiXConfig, dict[str, Tensor]]:
    """Return configuration and float32 weights of an official LimiX checkpoint.

    Raises
    ------
    CheckpointError
        If the file is missing, corrupt, holds code or something else than a LimiX, or asks for an
        option that ours does not have.

    Source: checkpoint format of the released LimiX-16M and LimiX-2M.
    """
    content = read_foreign_file(path, {"config": dict, "state_dict": dict})
    config = _translate(path, content["config"])
    state: dict[str, Tensor] = {}
    for name, value in content["state_dict"].items():
        if name == "encoder_x.0.numeric_mlp.sigma":
            continue  # the width of the kernels, fixed
        ours = _name(str(name), config)
        state[ours] = _shape(ours, value) if isinstance(value, Tensor) else value
    return config, fitting_tensors(path, state, lambda: LimiX(config))


def _translate(path: Path, theirs: dict[str, Any]) -> LimiXConfig:
    lacking = [key for key in ("embed_dim", "nhead", "nlayers", "hid_dim", "features_per_group") if key not in theirs]
    if lacking:
        raise CheckpointError(f"{path}: config lacks {', '.join(lacking)}; this is not a LimiX checkpoint")
    for key, value in _FIXED.items():
        if theirs.get(key, value) != value:
            raise CheckpointError(f"{path}: {key}={theirs[key]!r} is not supported; released models have {value!r}")
    numbers = theirs.get("encoder_config_x", {})
    is_rbf = numbers.get("numeric_embed_type", "linear") == "RBF"
    if is_rbf and any(numbers.get("RBF_config", {}).get(key, value) != value for key, value in _RBF.items()):
        raise CheckpointError(f"{path}: RBF_config={numbers['RBF_config']!r} is not supported; wanted {_RBF}")
    code = theirs.get("feature_positional_embedding_type", "subortho")
    if code not in ("subortho", "none", None):
        raise CheckpointError(f"{path}: feature_positional_embedding_type={code!r} is not supported; wanted 'subortho'")
    values = {
        "max_classes": theirs.get("decoder_config", {}).get("num_classes", 10),
        "embed_dim": theirs["embed_dim"],
        "num_blocks": theirs["nlayers"],
        "num_heads": theirs["nhead"],
        "ff_dim": theirs["hid_dim"],
        "block_order": theirs.get("layer_arch", "fmfmsm"),
        "pre_norm": theirs.get("pre_norm", True),
        "isolate_queries": theirs.get("seq_attn_isolated", False),
        "share_query_keys": theirs.get("cross_share_all_kv_heads", True),
        "columns_per_token": theirs["features_per_group"],
        "number_embedding": "rbf" if is_rbf else "mlp",
        "column_code": "orthogonal" if code == "subortho" else "none",
        "half_precision_labels": True,
    }
    try:
        return build(LimiXConfig, values)
    except ConfigError as fault:
        raise CheckpointError(f"{path}: config cannot be used: {fault}") from fault


def _name(theirs: str, config: LimiXConfig) -> str:
    found = _IN_BLOCK.fullmatch(theirs)
    if found is None:
        for prefix, ours in _PREFIXES.items():
            if theirs.startswith(prefix):
                return ours + theirs.removeprefix(prefix)
        return theirs
    letter, place = _LETTERS[found["layer"]], int(found["place"])
    rest = _ATTENTION_WEIGHTS.get(found["rest"], found["rest"])
    if letter == "s":
        # One layer may have two sets of weights: the second is that of query rows.
        rest, place = f"{('context', 'query')[min(place, 1)]}.{rest}", 0
    places = [number for number, other in enumerate(config.block_order) if other == letter]
    if place >= len(places):
        return theirs
    return f"blocks.{found['block']}.layers.{places[place]}.{rest}"


def _shape(ours: str, value: Tensor) -> Tensor:
    if ours.endswith("qkv.weight") and value.dim() == 4:
        return value.flatten(0, 2)
    if ours.endswith("out.weight") and value.dim() == 3:
        return value.flatten(0, 1).T.contiguous()
    return value.squeeze(0) if ours == "labels.unknown_class" else value
