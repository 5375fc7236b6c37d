"""The authors' packages, built to the sizes of our configurations."""

from typing import Any

from priorline.models.tabicl.config import TabICLConfig


def package_model(config: TabICLConfig) -> Any:
    """Return the model of the package tabicl with the options of ``config``, its weights random throughout."""
    from tabicl._model.tabicl import TabICL

    return TabICL(
        max_classes=config.max_classes,
        num_quantiles=config.num_quantiles,
        embed_dim=config.embed_dim,
        col_num_blocks=config.col_num_blocks,
        col_nhead=config.col_num_heads,
        col_num_inds=config.col_num_inds,
        col_affine=config.col_affine,
        col_feature_group="same" if config.col_feature_group == "circular" else False,
        col_feature_group_size=config.col_feature_group_size,
        col_target_aware=config.col_target_aware,
        col_ssmax=config.col_ssmax,
        row_num_blocks=config.row_num_blocks,
        row_nhead=config.row_num_heads,
        row_num_cls=config.row_num_cls,
        row_rope_base=config.row_rope_base,
        row_rope_interleaved=config.row_rope_interleaved,
        icl_num_blocks=config.icl_num_blocks,
        icl_nhead=config.icl_num_heads,
        icl_ssmax=config.icl_ssmax,
        ff_factor=config.ff_factor,
        dropout=config.dropout,
        activation="gelu",
        norm_first=True,
        bias_free_ln=config.bias_free_ln,
        zero_init=False,
    )
