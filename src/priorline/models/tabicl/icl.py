"""TF_icl: test rows read labelled train rows; dataset-wise in-context learning.

Shapes: B tables, R rows = N train + M test, E row embedding, K classes.
"""

from collections.abc import Iterator
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from priorline.models.common.attention import AttentionBlock
from priorline.models.tabicl.config import TabICLConfig


class Encoder(nn.Module):
    """Attention blocks in which all rows read the train rows."""

    def __init__(self, config: TabICLConfig, width: int) -> None:
        super().__init__()
        heads, ff_dim = config.icl_num_heads, config.ff_factor * width
        self.blocks = nn.ModuleList(
            AttentionBlock(width, heads, ff_dim, config.dropout, config.zero_init) for _ in range(config.icl_num_blocks)
        )

    def __iter__(self) -> Iterator[AttentionBlock]:
        return cast("Iterator[AttentionBlock]", iter(self.blocks))

    def __len__(self) -> int:
        return len(self.blocks)


class InContextLearner(nn.Module):
    """Class scores of test rows from labelled train rows.

    Source: TabICL section 3.4.
    """

    def __init__(self, config: TabICLConfig) -> None:
        super().__init__()
        width = config.embed_dim * config.row_num_cls
        self.max_classes = config.max_classes
        self.tf_icl = Encoder(config, width)
        self.ln = nn.LayerNorm(width)
        self.y_encoder = nn.Linear(config.max_classes, width)
        self.decoder = nn.Sequential(
            nn.Linear(width, config.ff_factor * width),
            nn.GELU(),
            nn.Linear(config.ff_factor * width, config.max_classes),
        )
        self.activation_recompute = False

    def forward(self, rows_BRE: Tensor, y_BN: Tensor) -> Tensor:
        """Return logits (B, M, K) of the rows after the first N = ``y_BN.shape[1]``."""
        train_size = y_BN.shape[1]
        x_BRE = torch.cat((self._label(rows_BRE[:, :train_size], y_BN), rows_BRE[:, train_size:]), dim=1)
        last = len(self.tf_icl) - 1
        for depth, block in enumerate(self.tf_icl):
            # Train rows leave the last block unread, so only test rows ask questions there.
            first_query = train_size if depth == last else 0
            if self.activation_recompute and self.training:
                x_BRE = checkpoint(block.attend_prefix, x_BRE, train_size, first_query, use_reentrant=False)
            else:
                x_BRE = block.attend_prefix(x_BRE, train_size, first_query)
        return self.decoder(self.ln(x_BRE))

    def read_context(self, rows_BNE: Tensor, y_BN: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return each block's keys and values of the train rows."""
        x_BNE, cache = self._label(rows_BNE, y_BN), []
        for depth, block in enumerate(self.tf_icl):
            cache.append(block.keys_values(x_BNE))
            if depth + 1 < len(self.tf_icl):
                x_BNE = block.attend_to(x_BNE, *cache[-1])
        return cache

    def classify_with(self, rows_BME: Tensor, cache: list[tuple[Tensor, Tensor]]) -> Tensor:
        """Return logits (B, M, K) of test rows against what `read_context` kept."""
        for block, (key, value) in zip(self.tf_icl, cache, strict=True):
            rows_BME = block.attend_to(rows_BME, key, value)
        return self.decoder(self.ln(rows_BME))

    def _label(self, rows_BNE: Tensor, y_BN: Tensor) -> Tensor:
        one_hot_BNK = F.one_hot(y_BN.long(), self.max_classes).to(rows_BNE.dtype)
        return rows_BNE + self.y_encoder(one_hot_BNK)
