"""A block of LimiX: feature attention, sample attention and feed-forward layers in a configured order.

Shapes: B tables, R rows = N context + M query, T tokens of a row, E width, H heads; G sequences of all tables.
Source: LimiX (arXiv 2509.03505).
"""

from collections.abc import Iterator
from itertools import groupby
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from priorline.models.common.short_attention import attention
from priorline.models.limix.config import LimiXConfig

_ATTENTION_GAIN = 1.5
"""Deviation of fresh queries, keys and values. Attention that starts nearly even (0.7, Xavier) has learnt nothing of
a table after 300 steps of the smoke size, from 1.5 on it has halved the error of values; 2.5 is slower again."""


_CACHE_FLOATS = 3 * 2**17
"""Size of a layer's widest tensor on a CPU without gradients, per thread: 1.5 MiB, so that it stays in a core's
cache. Rows are independent in feature attention and feed-forward layers, columns in sample attention."""


class Attention(nn.Module):
    """Multi-head attention without biases."""

    def __init__(self, config: LimiXConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.qkv = nn.Linear(config.embed_dim, 3 * config.embed_dim, bias=False)
        self.out = nn.Linear(config.embed_dim, config.embed_dim, bias=False)
        nn.init.normal_(self.qkv.weight, std=_ATTENTION_GAIN * config.embed_dim**-0.5)

    def project(self, x_BTE: Tensor) -> list[Tensor]:
        """Return queries, keys and values, each (B, H, T, D)."""
        return [self.heads(part) for part in self.qkv(x_BTE).chunk(3, dim=-1)]

    def heads(self, x_BTE: Tensor) -> Tensor:
        """Return a (B, H, T, D) view."""
        return x_BTE.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Return (B, T, E)."""
        out_BTE: Tensor = self.out(attention(query, key, value).transpose(1, 2).flatten(2))
        return out_BTE


class FeatureAttention(Attention):
    """The tokens of a row read each other."""

    def forward(self, x_GTE: Tensor) -> Tensor:
        """Return (G, T, E)."""
        return self.mix(*self.project(x_GTE))

    def weights_of_last(self, x_GTE: Tensor) -> Tensor:
        """Return how the last token weighs all tokens of its row, (G, T), mean over heads."""
        query, key, _ = self.project(x_GTE)
        return _weights(query[:, :, -1:], key)[:, 0]


class SampleAttention(nn.Module):
    """Context rows read each other, query rows read the context; feature by feature."""

    def __init__(self, config: LimiXConfig) -> None:
        super().__init__()
        self.one_head = config.share_query_keys
        self.context = Attention(config)
        self.query = Attention(config) if config.isolate_queries else None

    def forward(self, x_GRE: Tensor, train_size: int) -> Tensor:
        """Return (G, R, E)."""
        query, key, value = self.context.project(x_GRE[:, :train_size])
        context_GNE = self.context.mix(query, key, value)
        if x_GRE.shape[1] == train_size:
            return context_GNE
        query, key, value = self._questions(x_GRE, train_size, key, value)
        return torch.cat((context_GNE, (self.query or self.context).mix(query, key, value)), dim=1)

    def weights_of_queries(self, x_GRE: Tensor, train_size: int) -> Tensor:
        """Return how query rows weigh the context rows, (G, M, N), mean over heads."""
        _, key, value = self.context.project(x_GRE[:, :train_size])
        query, key, _ = self._questions(x_GRE, train_size, key, value)
        return _weights(query, key)

    def _questions(self, x_GRE: Tensor, train_size: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries of query rows and the keys and values that they meet, given the context's own."""
        reader, width = self.query or self.context, x_GRE.shape[-1]
        query = reader.heads(F.linear(x_GRE[:, train_size:], reader.qkv.weight[:width]))
        if self.query is not None:
            both = F.linear(x_GRE[:, :train_size], reader.qkv.weight[width:])
            key, value = (reader.heads(part) for part in both.chunk(2, dim=-1))
        if self.one_head:
            key, value = (part[:, :1].expand(-1, reader.num_heads, -1, -1) for part in (key, value))
        return query, key, value


class FeedForward(nn.Sequential):
    """Two layers without biases."""

    def __init__(self, config: LimiXConfig) -> None:
        super().__init__(
            nn.Linear(config.embed_dim, config.ff_dim, bias=False),
            nn.GELU(),
            nn.Linear(config.ff_dim, config.embed_dim, bias=False),
        )


Layer = FeatureAttention | SampleAttention | FeedForward
_LAYERS: dict[str, type[Layer]] = {"f": FeatureAttention, "s": SampleAttention, "m": FeedForward}


class Block(nn.Module):
    """Layers in the configured order, each with a residual and a norm without parameters."""

    def __init__(self, config: LimiXConfig) -> None:
        super().__init__()
        self.pre_norm, self.widest = config.pre_norm, max(3 * config.embed_dim, config.ff_dim)
        self.layers = nn.ModuleList(_LAYERS[letter](config) for letter in config.block_order.replace("_", ""))

    def forward(self, x_BRTE: Tensor, train_size: int, label_only: bool = False) -> Tensor:
        """Return (B, R, T, E), with ``label_only`` (B, R, 1, E); without gradients it takes the input's place.

        After the last feature attention the tokens of a row part ways, so a label alone costs less.
        """
        layers = list(self)
        last = max(place for place, layer in enumerate(layers) if isinstance(layer, FeatureAttention)) + 1
        x_BRTE = self._through(layers[:last], x_BRTE, train_size)
        return self._through(layers[last:], x_BRTE[:, :, -1:] if label_only else x_BRTE, train_size)

    def _through(self, some: list[Layer], x_BRTE: Tensor, train_size: int) -> Tensor:
        for is_sample, layers in groupby(some, lambda layer: isinstance(layer, SampleAttention)):
            if is_sample:
                for layer in layers:
                    x_BRTE = self._over_columns(layer, x_BRTE, train_size)
            else:
                x_BRTE = self._over_rows(list(layers), x_BRTE)
        return x_BRTE

    def weigh(self, x_BRTE: Tensor, train_size: int) -> tuple[Tensor, Tensor]:
        """Return what labels attend to in this block: tokens of their row (B, R, T), context rows (B, M, N).

        Of several layers of a kind the last counts. Source: LimiX (arXiv 2509.03505), attention-guided retrieval.
        """
        tables = len(x_BRTE)
        tokens_BRT = rows_BMN = x_BRTE
        for layer in self:
            if isinstance(layer, FeatureAttention):
                tokens_BRT = layer.weights_of_last(self.entering(x_BRTE.flatten(0, 1))).unflatten(0, (tables, -1))
            if isinstance(layer, SampleAttention):
                rows_BMN = layer.weights_of_queries(self.entering(x_BRTE[:, :, -1]), train_size)
                x_BRTE = self._over_columns(layer, x_BRTE, train_size)
            else:
                x_BRTE = self._over_rows([layer], x_BRTE)
        return tokens_BRT, rows_BMN

    def __iter__(self) -> Iterator[Layer]:
        return cast("Iterator[Layer]", iter(self.layers))

    def step(self, layer: Layer, x: Tensor, *arguments: int) -> Tensor:
        """Return ``x`` after one layer with its norm and residual."""
        mixed = layer(self.entering(x), *arguments)
        # Fresh from the layer: nothing else holds it.
        x = mixed.add_(x) if not torch.is_grad_enabled() else x + mixed
        return x if self.pre_norm else F.layer_norm(x, x.shape[-1:])

    def entering(self, x: Tensor) -> Tensor:
        """Return what a layer gets of ``x``."""
        return F.layer_norm(x, x.shape[-1:]) if self.pre_norm else x

    def _over_rows(self, layers: list[Layer], x_BRTE: Tensor) -> Tensor:
        x_GTE = x_BRTE.flatten(0, 1)
        at_once = self._at_once(x_GTE)
        if at_once >= len(x_GTE):
            for layer in layers:
                x_GTE = self.step(layer, x_GTE)
            return x_GTE.view_as(x_BRTE)
        for piece_gTE in x_GTE.split(at_once):
            moved_gTE = piece_gTE
            for layer in layers:
                moved_gTE = self.step(layer, moved_gTE)
            piece_gTE.copy_(moved_gTE)
        return x_GTE.view_as(x_BRTE)

    def _over_columns(self, layer: Layer, x_BRTE: Tensor, train_size: int) -> Tensor:
        at_once = max(1, self._at_once(x_BRTE.transpose(1, 2)) // len(x_BRTE))
        if at_once >= x_BRTE.shape[2]:
            x_GRE = self.step(layer, x_BRTE.transpose(1, 2).flatten(0, 1), train_size)
            return x_GRE.unflatten(0, (len(x_BRTE), -1)).transpose(1, 2).contiguous()
        for piece_BRtE in x_BRTE.split(at_once, dim=2):
            moved_GRE = self.step(layer, piece_BRtE.transpose(1, 2).flatten(0, 1), train_size)
            piece_BRtE.copy_(moved_GRE.unflatten(0, (len(x_BRTE), -1)).transpose(1, 2))
        return x_BRTE

    def _at_once(self, x: Tensor) -> int:
        """Return how many sequences of ``x`` (..., length, E) to take together."""
        if torch.is_grad_enabled() or x.device.type != "cpu":
            return 2**40
        return max(1, torch.get_num_threads() * _CACHE_FLOATS // (x.shape[-2] * self.widest))


def _weights(query: Tensor, key: Tensor) -> Tensor:
    """Return the attention (B, T, S) of (B, H, T, D) queries to (B, H, S, D) keys, mean over heads."""
    scores_BHTS = query @ key.transpose(2, 3) * query.shape[-1] ** -0.5
    return scores_BHTS.softmax(dim=-1).mean(dim=1)
