"""TF_row: the cells of a row exchange information and collapse into [CLS] tokens.

Shapes: B tables, R rows, G rows of all tables together, C columns, T = [CLS] tokens + columns, E embedding.
"""

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from priorline.models.common.attention import AttentionBlock
from priorline.models.common.rope import RotaryPositions
from priorline.models.tabicl.config import TabICLConfig


class RotaryEncoder(nn.Module):
    """Self-attention blocks over tokens with rotary positions."""

    def __init__(self, config: TabICLConfig) -> None:
        super().__init__()
        width, heads = config.embed_dim, config.row_num_heads
        self.rope = RotaryPositions(width // heads, config.row_rope_base, config.row_rope_interleaved)
        self.blocks = nn.ModuleList(
            AttentionBlock(
                width,
                heads,
                config.ff_factor * width,
                config.dropout,
                config.zero_init,
                norm_bias=not config.bias_free_ln,
                keep_hidden=False,
            )
            for _ in range(config.row_num_blocks)
        )

    def __iter__(self) -> Iterator[AttentionBlock]:
        return cast("Iterator[AttentionBlock]", iter(self.blocks))

    def __len__(self) -> int:
        return len(self.blocks)


class RowInteraction(nn.Module):
    """Returns one embedding per row: its [CLS] tokens after `RotaryEncoder`, concatenated.

    Rotary positions tell columns of equal distribution apart (the document's representation
    collapse). Source: TabICL section 3.3.
    """

    def __init__(self, config: TabICLConfig) -> None:
        super().__init__()
        self.cls_tokens = nn.Parameter(torch.empty(config.row_num_cls, config.embed_dim))
        self.tf_row = RotaryEncoder(config)
        self.out_ln = nn.LayerNorm(config.embed_dim, bias=not config.bias_free_ln)
        self.activation_recompute = False
        nn.init.trunc_normal_(self.cls_tokens, std=0.02)

    def forward(self, cells_BRCE: Tensor) -> Tensor:
        """Return (B, R, num_cls * E) for tables that all have C columns; any strides."""
        tables, rows = cells_BRCE.shape[:2]
        num_cls = self.cls_tokens.shape[0]
        tokens_BRTE = torch.cat((self.cls_tokens.expand(tables, rows, -1, -1), cells_BRCE), dim=2)
        x_GTE = tokens_BRTE.flatten(0, 1)
        turns = self.tf_row.rope(x_GTE.shape[1])
        last = len(self.tf_row) - 1
        for depth, block in enumerate(self.tf_row):
            # Only the [CLS] tokens leave the last block, so only they ask questions there.
            num_queries = num_cls if depth == last else x_GTE.shape[1]
            if self.activation_recompute and self.training:
                x_GTE = checkpoint(block.attend_rotary, x_GTE, turns, num_queries, use_reentrant=False)
            else:
                x_GTE = block.attend_rotary(x_GTE, turns, num_queries)
        return self.out_ln(x_GTE).flatten(1).unflatten(0, (tables, rows))
