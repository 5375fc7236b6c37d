"""TF_col: a cell's embedding from its value and the distribution of its column.

Shapes: G columns (of all tables together), R rows = N train + M test, I inducing points, E embedding.
"""

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from priorline.models.common.attention import AttentionBlock
from priorline.models.tabicl.config import TabICLConfig


class InducedSetAttentionBlock(nn.Module):
    """Attention over a set at linear cost: inducing points read it, then it reads them (ISAB)."""

    def __init__(self, config: TabICLConfig) -> None:
        super().__init__()
        width, heads = config.embed_dim, config.col_num_heads
        ff_dim = config.ff_factor * width
        self.multihead_attn1 = AttentionBlock(width, heads, ff_dim, config.dropout, config.zero_init)
        self.multihead_attn2 = AttentionBlock(width, heads, ff_dim, config.dropout, config.zero_init)
        self.ind_vectors = nn.Parameter(torch.empty(config.col_num_inds, width))
        nn.init.trunc_normal_(self.ind_vectors, std=0.02)

    def read_train_rows(self, cells_GNE: Tensor) -> Tensor:
        """Return what the inducing points read from train rows, (G, I, E) (the document's M)."""
        return self.multihead_attn1(self.ind_vectors[None], cells_GNE)

    def forward(self, cells_GRE: Tensor, train_size: int) -> Tensor:
        """Return (G, R, E); a row depends on itself and the train rows alone."""
        hidden_GIE = self.read_train_rows(cells_GRE[:, :train_size])
        return self.multihead_attn2(cells_GRE, hidden_GIE)


class SetTransformer(nn.Module):
    """A stack of `InducedSetAttentionBlock`."""

    def __init__(self, config: TabICLConfig) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(InducedSetAttentionBlock(config) for _ in range(config.col_num_blocks))

    def __iter__(self) -> Iterator[InducedSetAttentionBlock]:
        return cast("Iterator[InducedSetAttentionBlock]", iter(self.blocks))

    def __len__(self) -> int:
        return len(self.blocks)


class ColumnEmbedding(nn.Module):
    """Hypernetwork over columns: ``embedding = value * W + B`` with W, B from `SetTransformer`.

    Source: TabICL section 3.2.
    """

    def __init__(self, config: TabICLConfig) -> None:
        super().__init__()
        width = config.embed_dim
        self.in_linear = nn.Linear(1, width)
        self.tf_col = SetTransformer(config)
        self.out_w = nn.Linear(width, width)
        self.ln_w = nn.LayerNorm(width)
        self.out_b = nn.Linear(width, width)
        self.ln_b = nn.LayerNorm(width)
        self.activation_recompute = False

    def forward(self, x_GR: Tensor, train_size: int) -> Tensor:
        """Return embeddings (G, R, E) of the columns ``x_GR``, train rows first."""
        cells_GRE = self.in_linear(x_GR[..., None])
        for block in self.tf_col:
            if self.activation_recompute and self.training:
                cells_GRE = checkpoint(block, cells_GRE, train_size, use_reentrant=False)
            else:
                cells_GRE = block(cells_GRE, train_size)
        return self._affine(x_GR, cells_GRE)

    def summarize(self, x_GN: Tensor) -> list[Tensor]:
        """Return each block's inducing outputs (G, I, E) for train rows ``x_GN``.

        With these, `embed_with` embeds any rows of the columns, some at a time.
        """
        cells_GNE, summaries = self.in_linear(x_GN[..., None]), []
        for depth, block in enumerate(self.tf_col):
            summaries.append(block.read_train_rows(cells_GNE))
            if depth + 1 < len(self.tf_col):
                cells_GNE = block.multihead_attn2(cells_GNE, summaries[-1])
        return summaries

    def embed_with(self, x_GR: Tensor, summaries: list[Tensor]) -> Tensor:
        """Return embeddings (G, R, E) of rows of columns whose train rows were summarised."""
        cells_GRE = self.in_linear(x_GR[..., None])
        for block, hidden_GIE in zip(self.tf_col, summaries, strict=True):
            cells_GRE = block.multihead_attn2(cells_GRE, hidden_GIE)
        return self._affine(x_GR, cells_GRE)

    def _affine(self, x_GR: Tensor, cells_GRE: Tensor) -> Tensor:
        weight_GRE = self.ln_w(self.out_w(cells_GRE))
        bias_GRE = self.ln_b(self.out_b(cells_GRE))
        return torch.addcmul(bias_GRE, x_GR[..., None], weight_GRE)
