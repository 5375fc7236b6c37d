"""Pre-norm attention blocks with packed projections, for training and for cached keys.

Shapes: B batch (tables, or columns or rows of tables), T query tokens, S key tokens, E embedding, H heads, D = E / H.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from priorline.models.common.rope import rotate


class MultiheadAttention(nn.Module):
    """Scaled dot-product attention with packed input projection.

    Parameter names follow `torch.nn.MultiheadAttention`, so published weights load by name.
    """

    def __init__(self, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * embed_dim))
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)

    def project_queries(self, x_BTE: Tensor) -> Tensor:
        """Return queries, (B, H, T, D)."""
        width = x_BTE.shape[-1]
        return self._split(F.linear(x_BTE, self.in_proj_weight[:width], self.in_proj_bias[:width]))

    def project_keys_values(self, x_BSE: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values, each (B, H, S, D), from one product."""
        width = x_BSE.shape[-1]
        both = F.linear(x_BSE, self.in_proj_weight[width:], self.in_proj_bias[width:])
        key, value = both.chunk(2, dim=-1)
        return self._split(key), self._split(value)

    def project_all(self, x_BTE: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values of the same tokens from one product."""
        query, key, value = F.linear(x_BTE, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
        return self._split(query), self._split(key), self._split(value)

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Return the (B, T, E) output for projected (B, H, T, D) queries and (B, H, S, D) keys."""
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.out_proj(mixed.transpose(1, 2).flatten(2))

    def _split(self, x_BTE: Tensor) -> Tensor:
        return x_BTE.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)


class AttentionBlock(nn.Module):
    """Pre-norm attention and feed-forward with residuals; queries and keys share their norm."""

    def __init__(self, embed_dim: int, num_heads: int, ff_dim: int, dropout: float, zero_init: bool) -> None:
        super().__init__()
        self.attn = MultiheadAttention(embed_dim, num_heads)
        self.linear1 = nn.Linear(embed_dim, ff_dim)
        self.linear2 = nn.Linear(ff_dim, embed_dim)
        self.norm1 = nn.LayerNorm(embed_dim)
        self.norm2 = nn.LayerNorm(embed_dim)
        self.dropout = nn.Dropout(dropout)
        if zero_init:
            for layer in (self.attn.out_proj, self.linear2):
                nn.init.zeros_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, x_BTE: Tensor, context_BSE: Tensor) -> Tensor:
        """Return ``x_BTE`` after attending to ``context_BSE``, (B, T, E)."""
        key, value = self.keys_values(context_BSE)
        return self.attend_to(x_BTE, key, value)

    def attend_prefix(self, x_BTE: Tensor, num_keys: int, first_query: int = 0) -> Tensor:
        """Return tokens from ``first_query`` on after all attended to the first ``num_keys`` tokens."""
        normed = self.norm1(x_BTE)
        if first_query == 0 and num_keys == x_BTE.shape[1]:
            query, key, value = self.attn.project_all(normed)
        else:
            query = self.attn.project_queries(normed[:, first_query:])
            key, value = self.attn.project_keys_values(normed[:, :num_keys])
        return self._finish(x_BTE[:, first_query:], self.attn.attend(query, key, value))

    def attend_rotary(self, x_BTE: Tensor, turns_TP: Tensor, num_queries: int) -> Tensor:
        """Return the first ``num_queries`` tokens after self-attention with rotary positions.

        ``turns_TP``: a turn per position and pair of dimensions, from `RotaryPositions`.
        """
        normed = self.norm1(x_BTE)
        if num_queries == x_BTE.shape[1]:
            query, key, value = self.attn.project_all(normed)
        else:
            query = self.attn.project_queries(normed[:, :num_queries])
            key, value = self.attn.project_keys_values(normed)
        query = rotate(query, turns_TP[:num_queries])
        mixed = self.attn.attend(query, rotate(key, turns_TP), value)
        return self._finish(x_BTE[:, :num_queries], mixed)

    def keys_values(self, context_BSE: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of a context, to be kept and used by `attend_to`."""
        return self.attn.project_keys_values(self.norm1(context_BSE))

    def attend_to(self, x_BTE: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Return ``x_BTE`` after attending to keys and values of `keys_values`.

        A batch of one serves every batch of keys: its queries are projected once.
        """
        query = self.attn.project_queries(self.norm1(x_BTE)).expand(key.shape[0], -1, -1, -1)
        return self._finish(x_BTE, self.attn.attend(query, key, value))

    def _finish(self, x_BTE: Tensor, mixed_BTE: Tensor) -> Tensor:
        x_BTE = x_BTE + self.dropout(mixed_BTE)
        hidden = self.dropout(F.gelu(self.linear1(self.norm2(x_BTE))))
        return x_BTE + self.dropout(self.linear2(hidden))
