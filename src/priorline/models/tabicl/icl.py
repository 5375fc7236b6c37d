"""TF_icl: test rows read labelled train rows; dataset-wise in-context learning.

Shapes: B tables, R rows = N train + M test, E row embedding, K outputs (classes, or a regressor's quantiles).
"""

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from priorline.models.common.attention import AttentionBlock
from priorline.models.tabicl.config import TabICLConfig
from priorline.models.tabicl.labels import LabelEncoder

Context = list[tuple[Tensor, Tensor]]
"""Keys and values (B, H, N, D) of the train rows, by block."""


class Encoder(nn.Module):
    """Attention blocks in which all rows read the train rows."""

    def __init__(self, config: TabICLConfig, width: int) -> None:
        super().__init__()
        heads, ff_dim = config.icl_num_heads, config.ff_factor * width
        self.blocks = nn.ModuleList(
            AttentionBlock(
                width,
                heads,
                ff_dim,
                config.dropout,
                config.zero_init,
                norm_bias=not config.bias_free_ln,
                query_scaling=config.icl_ssmax != "none",
            )
            for _ in range(config.icl_num_blocks)
        )

    def __iter__(self) -> Iterator[AttentionBlock]:
        return cast("Iterator[AttentionBlock]", iter(self.blocks))

    def __len__(self) -> int:
        return len(self.blocks)


class InContextLearner(nn.Module):
    """Class scores, or quantiles, of test rows from labelled train rows.

    Source: TabICL section 3.4.
    """

    def __init__(self, config: TabICLConfig) -> None:
        super().__init__()
        width = config.embed_dim * config.row_num_cls
        self.tf_icl = Encoder(config, width)
        self.ln = nn.LayerNorm(width, bias=not config.bias_free_ln)
        self.y_encoder = LabelEncoder(config.max_classes, width)
        self.decoder = nn.Sequential(
            nn.Linear(width, 2 * width),
            nn.GELU(),
            nn.Linear(2 * width, config.max_classes or config.num_quantiles),
        )
        self.activation_recompute = False

    def forward(self, rows_BRE: Tensor, y_BN: Tensor) -> Tensor:
        """Return (B, M, K) for the rows after the first N = ``y_BN.shape[1]``."""
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
        return self._decode(x_BRE)

    def predict_in_chunks(self, train_BNE: Tensor, y_BN: Tensor, query_BME: Tensor, chunk_rows: int) -> Tensor:
        """Return what `forward` does with ``chunk_rows`` rows' activations alive at once. Needs gradients off.

        Beside the rows themselves, one block's keys and values of the train rows are held at a time.
        """
        x_BNE, x_BME = self._label(train_BNE, y_BN), query_BME.clone()
        last = len(self.tf_icl) - 1
        for depth, block in enumerate(self.tf_icl):
            key, value = block.keys_values(x_BNE)
            for rows_BRE in (x_BME,) if depth == last else (x_BNE, x_BME):
                for x_BrE in rows_BRE.split(chunk_rows, dim=1):
                    x_BrE.copy_(block.attend_to(x_BrE, key, value))
        return torch.cat([self._decode(x_BmE) for x_BmE in x_BME.split(chunk_rows, dim=1)], dim=1)

    def read_context(self, rows_BNE: Tensor, y_BN: Tensor, chunk_rows: int) -> Context:
        """Return each block's keys and values of the train rows. Needs gradients off."""
        x_BNE, context = self._label(rows_BNE, y_BN), []
        for depth, block in enumerate(self.tf_icl):
            context.append(block.keys_values(x_BNE))
            if depth + 1 < len(self.tf_icl):
                for x_BnE in x_BNE.split(chunk_rows, dim=1):
                    x_BnE.copy_(block.attend_to(x_BnE, *context[-1]))
        return context

    def predict_with(self, rows_BME: Tensor, context: Context, chunk_rows: int) -> Tensor:
        """Return (B, M, K) for test rows against what `read_context` kept. Needs gradients off."""
        pieces = []
        for x_BmE in rows_BME.split(chunk_rows, dim=1):
            for block, (key, value) in zip(self.tf_icl, context, strict=True):
                x_BmE = block.attend_to(x_BmE, key, value)
            pieces.append(self._decode(x_BmE))
        return torch.cat(pieces, dim=1)

    def _decode(self, x_BME: Tensor) -> Tensor:
        out_BMK: Tensor = self.decoder(self.ln(x_BME))
        return out_BMK

    def _label(self, rows_BNE: Tensor, y_BN: Tensor) -> Tensor:
        return rows_BNE + self.y_encoder(y_BN)
