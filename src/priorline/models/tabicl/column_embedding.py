"""TF_col: a cell's embedding from its value and the distribution of its column.

Shapes: G columns (of all tables together), R rows = N train + M test, F values per cell (1, or a
group's), I inducing points, E embedding.
"""

from collections.abc import Iterator, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from priorline.models.common.attention import AttentionBlock
from priorline.models.tabicl.config import TabICLConfig
from priorline.models.tabicl.labels import LabelEncoder

Summary = list[list[Tensor]]
"""Inducing outputs (G, I, E) by label digit (one where labels are unseen) and block."""


class InducedSetAttentionBlock(nn.Module):
    """Attention over a set at linear cost: inducing points read it, then it reads them (ISAB)."""

    def __init__(self, config: TabICLConfig) -> None:
        super().__init__()

        def block(query_scaling: bool) -> AttentionBlock:
            return AttentionBlock(
                config.embed_dim,
                config.col_num_heads,
                config.ff_factor * config.embed_dim,
                config.dropout,
                config.zero_init,
                norm_bias=not config.bias_free_ln,
                query_scaling=query_scaling,
                keep_hidden=False,
            )

        self.multihead_attn1 = block(query_scaling=config.col_ssmax != "none")
        self.multihead_attn2 = block(query_scaling=False)
        self.ind_vectors = nn.Parameter(torch.empty(config.col_num_inds, config.embed_dim))
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

    v2 embeds groups of columns, adds the labels of train rows on the way in, and takes the set
    transformer's output as the embedding; see `TabICLConfig`. Labels come as a sequence of digits
    (more than one for more than ``max_classes`` classes), whose outputs are averaged.

    Source: TabICL section 3.2; TabICLv2 (arXiv 2602.11139).
    """

    def __init__(self, config: TabICLConfig) -> None:
        super().__init__()
        width, norm_bias = config.embed_dim, not config.bias_free_ln
        self.affine = config.col_affine
        self.in_linear = nn.Linear(1 if config.col_feature_group == "none" else config.col_feature_group_size, width)
        self.tf_col = SetTransformer(config)
        self.y_encoder = LabelEncoder(config.max_classes, width) if config.col_target_aware else None
        if self.affine:
            self.out_w = nn.Linear(width, width)
            self.ln_w = nn.LayerNorm(width, bias=norm_bias)
            self.out_b = nn.Linear(width, width)
            self.ln_b = nn.LayerNorm(width, bias=norm_bias)
        self.activation_recompute = False

    def embed_labels(self, y_BN: Tensor) -> list[Tensor]:
        """Return (B, N, E) to be added to train rows for each digit of the labels; none if labels stay unseen."""
        return [] if self.y_encoder is None else self.y_encoder.by_digit(y_BN)

    def forward(self, x_GRF: Tensor, train_size: int, labels_GNE: Sequence[Tensor] = ()) -> Tensor:
        """Return embeddings (G, R, E) of the columns ``x_GRF``, train rows first."""
        outputs = []
        for cells_GRE in self._enter(x_GRF, labels_GNE):
            for block in self.tf_col:
                if self.activation_recompute and self.training:
                    cells_GRE = checkpoint(block, cells_GRE, train_size, use_reentrant=False)
                else:
                    cells_GRE = block(cells_GRE, train_size)
            outputs.append(cells_GRE)
        if torch.is_grad_enabled():
            # Computed again in the backward pass, in the cache: less memory, and no more time.
            leave: Tensor = checkpoint(self._leave, x_GRF, outputs, use_reentrant=False, preserve_rng_state=False)
            return leave
        return self._leave(x_GRF, outputs)

    def summarize(self, x_GNF: Tensor, labels_GNE: Sequence[Tensor] = (), *, chunk_rows: int) -> Summary:
        """Return what `embed_with` needs to embed any rows of the columns, read from train rows ``x_GNF``.

        Needs gradients off.
        """
        summary = []
        for cells_GNE in self._enter(x_GNF, labels_GNE):
            hidden: list[Tensor] = []
            for depth, block in enumerate(self.tf_col):
                hidden.append(block.read_train_rows(cells_GNE))
                if depth + 1 < len(self.tf_col):
                    key, value = block.multihead_attn2.keys_values(hidden[-1])
                    for cells_GnE in cells_GNE.split(chunk_rows, dim=1):
                        cells_GnE.copy_(block.multihead_attn2.attend_to(cells_GnE, key, value))
            summary.append(hidden)
        return summary

    def embed_with(self, x_GRF: Tensor, summary: Summary, labels_GNE: Sequence[Tensor] = ()) -> Tensor:
        """Return embeddings (G, R, E) of rows whose first N have the labels ``labels_GNE``."""
        entered = self._enter(x_GRF, labels_GNE) if labels_GNE else [self._enter(x_GRF)[0]] * len(summary)
        outputs = []
        for cells_GRE, hidden in zip(entered, summary, strict=True):
            for block, hidden_GIE in zip(self.tf_col, hidden, strict=True):
                cells_GRE = block.multihead_attn2(cells_GRE, hidden_GIE)
            outputs.append(cells_GRE)
        return self._leave(x_GRF, outputs)

    def _enter(self, x_GRF: Tensor, labels_GNE: Sequence[Tensor] = ()) -> list[Tensor]:
        """Return what enters the set transformer for each digit of the labels."""
        cells_GRE = self.in_linear(x_GRF)
        if not labels_GNE:
            return [cells_GRE]
        tail = cells_GRE.shape[1] - labels_GNE[0].shape[1]
        return [cells_GRE + nn.functional.pad(label_GNE, (0, 0, 0, tail)) for label_GNE in labels_GNE]

    def _leave(self, x_GRF: Tensor, outputs: Sequence[Tensor]) -> Tensor:
        cells_GRE = outputs[0] if len(outputs) == 1 else torch.stack(list(outputs)).mean(dim=0)
        if not self.affine:
            return cells_GRE
        weight_GRE = self.ln_w(self.out_w(cells_GRE))
        bias_GRE = self.ln_b(self.out_b(cells_GRE))
        return torch.addcmul(bias_GRE, x_GRF, weight_GRE)
