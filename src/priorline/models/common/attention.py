"""Attention and the transformer block that every part of the tabular models is made of.

Shapes: B batch, T query tokens, S key tokens, E embedding, H heads, D = E / H.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from priorline.models.common.lean import Span, feed_forward, project
from priorline.models.common.rope import Turns, rotate
from priorline.models.common.short_attention import attention

_SCALING_HIDDEN = 64


class QueryScaling(nn.Module):
    """Query-aware scalable softmax: sharper attention the more keys there are, as each query learns.

    ``q * base(log S) * (1 + tanh(modulate(q)))`` element by element; starts without modulation.
    Source: TabICL v2, QASSMax; scalable softmax: Nakanishi (arXiv 2501.19399).
    """

    def __init__(self, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self.base_mlp = nn.Sequential(
            nn.Linear(1, _SCALING_HIDDEN), nn.GELU(), nn.Linear(_SCALING_HIDDEN, num_heads * head_dim)
        )
        last = nn.Linear(_SCALING_HIDDEN, head_dim)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.query_mlp = nn.Sequential(nn.Linear(head_dim, _SCALING_HIDDEN), nn.GELU(), last)

    def forward(self, query_BHTD: Tensor, num_keys: int) -> Tensor:
        """Return scaled queries (B, H, T, D) for attention over ``num_keys`` keys."""
        log_keys = query_BHTD.new_full((1,), math.log(max(num_keys, 1)))
        base_HD = self.base_mlp(log_keys).unflatten(0, query_BHTD.shape[1::2])
        return query_BHTD * (base_HD[:, None] * (1 + torch.tanh(self.query_mlp(query_BHTD))))


class MultiheadAttention(nn.Module):
    """Scaled dot-product attention with packed input projection.

    Parameter names follow `torch.nn.MultiheadAttention`, so published weights load by name.
    """

    def __init__(self, embed_dim: int, num_heads: int, query_scaling: bool = False) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * embed_dim))
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        self.ssmax_layer = QueryScaling(num_heads, embed_dim // num_heads) if query_scaling else None
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)

    def project(self, normed_BTE: Tensor, span: Span) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, each (B, tokens of ``span``, E), from as few products as can be."""
        width = normed_BTE.shape[-1]
        if span == (0, normed_BTE.shape[1], normed_BTE.shape[1]):
            query, key, value = F.linear(normed_BTE, self.in_proj_weight, self.in_proj_bias).split(width, dim=-1)
        else:
            asking, read = normed_BTE[:, span.first_query : span.last_query], normed_BTE[:, : span.num_keys]
            query = F.linear(asking, self.in_proj_weight[:width], self.in_proj_bias[:width])
            both = F.linear(read, self.in_proj_weight[width:], self.in_proj_bias[width:])
            key, value = both.split(width, dim=-1)
        return query, key, value

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Return the (B, T, E) output for projected (B, H, T, D) queries and (B, H, S, D) keys."""
        if self.ssmax_layer is not None:
            query = self.ssmax_layer(query, key.shape[2])
        mixed = attention(query, key, value)
        return self.out_proj(mixed.transpose(1, 2).flatten(2))

    def split_heads(self, x_BTE: Tensor) -> Tensor:
        """Return a (B, H, T, D) view."""
        return x_BTE.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)


class AttentionBlock(nn.Module):
    """Pre-norm attention and feed-forward with residuals; queries and keys share their norm.

    ``keep_hidden``: whether the feed-forward layer's hidden values wait for the backward pass, or are
    computed again there; worth it for blocks over every cell of a table.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        ff_dim: int,
        dropout: float,
        zero_init: bool,
        *,
        norm_bias: bool = True,
        query_scaling: bool = False,
        keep_hidden: bool = True,
    ) -> None:
        super().__init__()
        self.keep_hidden = keep_hidden
        self.attn = MultiheadAttention(embed_dim, num_heads, query_scaling)
        self.linear1 = nn.Linear(embed_dim, ff_dim)
        self.linear2 = nn.Linear(ff_dim, embed_dim)
        self.norm1 = nn.LayerNorm(embed_dim, bias=norm_bias)
        self.norm2 = nn.LayerNorm(embed_dim, bias=norm_bias)
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
        return self._attend_self(x_BTE, Span(first_query, x_BTE.shape[1], num_keys))

    def attend_rotary(self, x_BTE: Tensor, turns: Turns, num_queries: int) -> Tensor:
        """Return the first ``num_queries`` tokens after self-attention with rotary positions.

        ``turns``: those of the T positions, from `RotaryPositions`.
        """
        return self._attend_self(x_BTE, Span(0, num_queries, x_BTE.shape[1]), turns)

    def keys_values(self, context_BSE: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values, (B, H, S, D), of a context, to be kept and used by `attend_to`."""
        _, key, value = self._project(context_BSE, Span(0, 0, context_BSE.shape[1]))
        return key, value

    def attend_to(self, x_BTE: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Return ``x_BTE`` after attending to keys and values of `keys_values`.

        A batch of one serves every batch of keys: its queries are projected once.
        """
        query, _, _ = self._project(x_BTE, Span(0, x_BTE.shape[1], 0))
        return self._finish(x_BTE, self.attn.attend(query.expand(key.shape[0], -1, -1, -1), key, value))

    def _attend_self(self, x_BTE: Tensor, span: Span, turns: Turns | None = None) -> Tensor:
        query, key, value = self._project(x_BTE, span, turns)
        return self._finish(x_BTE[:, span.first_query : span.last_query], self.attn.attend(query, key, value))

    def _project(self, x_BTE: Tensor, span: Span, turns: Turns | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values by heads, rotated by ``turns``."""
        attn = self.attn
        if _lean(x_BTE):
            parts = project(x_BTE, self.norm1, attn.in_proj_weight, attn.in_proj_bias, span, attn.num_heads, turns)
            query, key, value = map(attn.split_heads, parts)
        else:
            query, key, value = map(attn.split_heads, attn.project(self.norm1(x_BTE), span))
            if turns is not None:
                query = rotate(query, turns[span.first_query : span.last_query])
                key = rotate(key, turns[: span.num_keys])
        return query, key, value

    def _finish(self, x_BTE: Tensor, mixed_BTE: Tensor) -> Tensor:
        x_BTE = x_BTE + self.dropout(mixed_BTE)
        if _lean(x_BTE) and not (self.training and self.dropout.p):
            return feed_forward(x_BTE, self.norm2, self.linear1, self.linear2, self.keep_hidden)
        hidden = self.dropout(F.gelu(self.linear1(self.norm2(x_BTE))))
        return x_BTE + self.dropout(self.linear2(hidden))


def _lean(x: Tensor) -> bool:
    """Return whether `lean`'s backward passes serve: autocast would choose other dtypes inside them."""
    return x.dtype == torch.float32 and not torch.is_autocast_enabled(x.device.type)
