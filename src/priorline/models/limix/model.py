"""LimiX: attention over the features of a row and over the rows of a feature, in turns.

Shapes: B tables, R rows = N context + M query, C columns, T tokens of a row (columns, then the label),
G columns per token, E width, H heads, K classes; context rows come first.
Source: LimiX (arXiv 2509.03505).
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from priorline.models.common.short_attention import attention
from priorline.models.limix.cell_embedding import (
    CellEmbedding,
    ColumnCodes,
    LabelEmbedding,
    LinearCells,
    standardise,
)
from priorline.models.limix.config import LimiXConfig

_ATTENTION_GAIN = 1.5
"""Deviation of fresh queries, keys and values. Attention that starts nearly even (0.7, Xavier) has learnt nothing of
a table after 300 steps of the smoke size, from 1.5 on it has halved the error of values; 2.5 is slower again."""


class LimiXOutput(NamedTuple):
    """What one pass says of a table."""

    class_logits_BMK: Tensor
    """Of query rows."""
    values_BM: Tensor
    """Of query rows, on the scale of the context's values."""
    cells_BRC: Tensor
    """Every cell as a number, on the scale of its column."""
    center_BC: Tensor
    """Zero of that scale: the mean of the column in the context."""
    spread_BC: Tensor
    """Unit of that scale: the standard deviation there; 0 for a column that does not vary."""
    category_logits_BRCK: Tensor | None
    """Every cell as one of its column's categories; None without that head."""

    def widened(self, columns: int) -> "LimiXOutput":
        """Return the same with zeros for columns up to ``columns``."""
        more = columns - self.cells_BRC.shape[2]
        logits = self.category_logits_BRCK
        return self._replace(
            cells_BRC=F.pad(self.cells_BRC, (0, more)),
            center_BC=F.pad(self.center_BC, (0, more)),
            spread_BC=F.pad(self.spread_BC, (0, more)),
            category_logits_BRCK=None if logits is None else F.pad(logits, (0, 0, 0, more)),
        )


class Attention(nn.Module):
    """Multi-head attention without biases."""

    def __init__(self, config: LimiXConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.qkv = nn.Linear(config.embed_dim, 3 * config.embed_dim, bias=False)
        self.out = nn.Linear(config.embed_dim, config.embed_dim, bias=False)
        nn.init.normal_(self.qkv.weight, std=_ATTENTION_GAIN * config.embed_dim**-0.5)

    def forward(self, x_BTE: Tensor) -> Tensor:
        """Return (B, T, E): all tokens read all tokens."""
        return self._mix(*(self._heads(part) for part in self.qkv(x_BTE).chunk(3, dim=-1)))

    def read(self, query_BME: Tensor, context_BNE: Tensor, one_head: bool) -> Tensor:
        """Return (B, M, E): queries read the context, in every head by the first head's keys if ``one_head``."""
        weight_q, weight_k, weight_v = self.qkv.weight.chunk(3)
        query, key, value = (
            self._heads(F.linear(x, weight))
            for x, weight in ((query_BME, weight_q), (context_BNE, weight_k), (context_BNE, weight_v))
        )
        if one_head:
            key, value = (x[:, :1].expand(-1, self.num_heads, -1, -1) for x in (key, value))
        return self._mix(query, key, value)

    def _heads(self, x_BTE: Tensor) -> Tensor:
        return x_BTE.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def _mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        mixed_BTE = attention(query, key, value).transpose(1, 2).flatten(2)
        out_BTE: Tensor = self.out(mixed_BTE)
        return out_BTE


class FeatureAttention(Attention):
    """The tokens of a row read each other."""

    def mix_rows(self, x_BRTE: Tensor, train_size: int) -> Tensor:
        """Return (B, R, T, E)."""
        return self(x_BRTE.flatten(0, 1)).unflatten(0, x_BRTE.shape[:2])


class SampleAttention(nn.Module):
    """Context rows read each other, query rows read the context; feature by feature."""

    def __init__(self, config: LimiXConfig) -> None:
        super().__init__()
        self.one_head = config.share_query_keys
        self.context = Attention(config)
        self.query = Attention(config) if config.isolate_queries else None

    def mix_rows(self, x_BRTE: Tensor, train_size: int) -> Tensor:
        """Return (B, R, T, E)."""
        x_GRE = x_BRTE.transpose(1, 2).flatten(0, 1)
        context_GNE, query_GME = x_GRE[:, :train_size], x_GRE[:, train_size:]
        reader = self.query or self.context
        rows = (self.context(context_GNE), reader.read(query_GME, context_GNE, self.one_head))
        return torch.cat(rows, dim=1).unflatten(0, (len(x_BRTE), -1)).transpose(1, 2)


class FeedForward(nn.Sequential):
    """Two layers without biases."""

    def __init__(self, config: LimiXConfig) -> None:
        super().__init__(
            nn.Linear(config.embed_dim, config.ff_dim, bias=False),
            nn.GELU(),
            nn.Linear(config.ff_dim, config.embed_dim, bias=False),
        )

    def mix_rows(self, x_BRTE: Tensor, train_size: int) -> Tensor:
        """Return (B, R, T, E)."""
        out_BRTE: Tensor = self(x_BRTE)
        return out_BRTE


Layer = FeatureAttention | SampleAttention | FeedForward
_LAYERS: dict[str, Callable[[LimiXConfig], Layer]] = {
    "f": FeatureAttention,
    "s": SampleAttention,
    "m": FeedForward,
}


class Block(nn.Module):
    """Layers in the configured order, each with a residual and a norm without parameters."""

    def __init__(self, config: LimiXConfig) -> None:
        super().__init__()
        self.pre_norm = config.pre_norm
        self.layers = nn.ModuleList(_LAYERS[letter](config) for letter in config.block_order.replace("_", ""))

    def forward(self, x_BRTE: Tensor, train_size: int) -> Tensor:
        """Return (B, R, T, E)."""
        width = x_BRTE.shape[-1:]
        for layer in cast("Iterator[Layer]", iter(self.layers)):
            mixed_BRTE = layer.mix_rows(F.layer_norm(x_BRTE, width) if self.pre_norm else x_BRTE, train_size)
            x_BRTE = x_BRTE + mixed_BRTE
            if not self.pre_norm:
                x_BRTE = F.layer_norm(x_BRTE, width)
        return x_BRTE


class LimiX(nn.Module):
    """Predicts labels of query rows, and every cell, from the context of the same table in one pass.

    A query row's answers depend on the context and on itself, never on other query rows. Missing cells
    are NaN; so are cells that are to be predicted.
    """

    def __init__(self, config: LimiXConfig) -> None:
        super().__init__()
        self.config = config
        self.activation_recompute = False
        width = config.embed_dim
        self.cells = LinearCells(config) if config.number_embedding == "linear" else CellEmbedding(config)
        self.labels = LabelEmbedding(config)
        self.column_codes = None if config.column_code == "none" else ColumnCodes(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_blocks))
        self.class_decoder = nn.Sequential(
            nn.Linear(width, config.ff_dim), nn.GELU(), nn.Linear(config.ff_dim, config.max_classes)
        )
        self.value_decoder = _decoder(config, 1)
        self.cell_decoder = _decoder(config, config.columns_per_token)
        self.category_decoder = (
            _decoder(config, config.columns_per_token * config.max_categories) if config.max_categories else None
        )

    def forward(
        self, x_BRC: Tensor, y_BN: Tensor, num_columns_B: Tensor | None = None, *, is_class: bool = True
    ) -> LimiXOutput:
        """Return predictions for query rows and for every cell.

        Parameters
        ----------
        x_BRC : Tensor
            float32; missing cells are NaN.
        y_BN : Tensor
            Labels of the first N rows: class codes 0..K-1, or values on a scale near 1.
        num_columns_B : Tensor, optional
            Valid columns of each table; columns beyond are ignored, their predictions 0. None: all C.
        """
        widths = [x_BRC.shape[2]] * len(x_BRC) if num_columns_B is None else num_columns_B.tolist()
        if set(widths) == {x_BRC.shape[2]}:
            return self._answer(x_BRC, y_BN, is_class)
        # Tables of equal width share a pass: no padded column, no mask.
        order: list[int] = []
        found: list[LimiXOutput] = []
        for width in sorted(set(widths)):
            members = [place for place, other in enumerate(widths) if other == width]
            answers = self._answer(x_BRC[members, :, :width], y_BN[members], is_class)
            found.append(answers.widened(x_BRC.shape[2]))
            order += members
        places = sorted(range(len(order)), key=order.__getitem__)
        parts: Any = (None if some[0] is None else torch.cat(some)[places] for some in zip(*found, strict=True))
        return LimiXOutput(*parts)

    def _answer(self, x_BRC: Tensor, y_BN: Tensor, is_class: bool) -> LimiXOutput:
        train_size, columns = y_BN.shape[1], x_BRC.shape[2]
        cells = standardise(x_BRC, train_size, self.config.columns_per_token)
        tokens_BRTE = self.cells(cells.z_BRC, cells.is_missing_BRC)
        if self.column_codes is not None:
            tokens_BRTE = tokens_BRTE + self.column_codes(tokens_BRTE.shape[2])
        label_BRE = self.labels(y_BN, x_BRC.shape[1], is_class)
        tokens_BRTE = torch.cat((tokens_BRTE, label_BRE[:, :, None]), dim=2)
        for block in self.blocks:
            if self.activation_recompute and self.training:
                tokens_BRTE = checkpoint(block, tokens_BRTE, train_size, use_reentrant=False)
            else:
                tokens_BRTE = block(tokens_BRTE, train_size)
        if self.config.pre_norm:
            tokens_BRTE = F.layer_norm(tokens_BRTE, tokens_BRTE.shape[-1:])
        query_BME, cells_BRTE = tokens_BRTE[:, train_size:, -1], tokens_BRTE[:, :, :-1]
        categories = None
        if self.category_decoder is not None:
            logits_BRTX = self.category_decoder(cells_BRTE)
            categories = logits_BRTX.flatten(2).unflatten(2, (-1, self.config.max_categories))[:, :, :columns]
        return LimiXOutput(
            class_logits_BMK=self.class_decoder(query_BME),
            values_BM=self.value_decoder(query_BME)[..., 0],
            cells_BRC=(self.cell_decoder(cells_BRTE).flatten(2) / cells.scale_BC[:, None])[:, :, :columns],
            center_BC=cells.mean_BC[:, :columns],
            spread_BC=cells.std_BC[:, :columns],
            category_logits_BRCK=categories,
        )


def _decoder(config: LimiXConfig, outputs: int) -> nn.Sequential:
    hidden = config.ff_dim
    return nn.Sequential(
        nn.Linear(config.embed_dim, hidden), nn.LayerNorm(hidden), nn.GELU(), nn.Linear(hidden, outputs)
    )
