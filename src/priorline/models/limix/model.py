"""LimiX: attention over the features of a row and over the rows of a feature, in turns.

Shapes: B tables, R rows = N context + M query, C columns, T tokens of a row (columns, then the label),
G columns per token, E width, H heads, K classes; context rows come first.
Source: LimiX (arXiv 2509.03505).
"""

from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from priorline.models.limix.block import Block
from priorline.models.limix.cell_embedding import (
    CellEmbedding,
    ColumnCodes,
    LabelEmbedding,
    LinearCells,
    StandardCells,
    standardise,
)
from priorline.models.limix.config import LimiXConfig


class LimiXOutput(NamedTuple):
    """What one pass says of a table."""

    class_logits_BMK: Tensor
    """Of query rows."""
    values_BM: Tensor
    """Of query rows, on the scale of the context's values."""
    cells_BRC: Tensor | None
    """Every cell as a number, on the scale of its column; None if not wanted."""
    center_BC: Tensor
    """Zero of that scale: the mean of the column in the context."""
    spread_BC: Tensor
    """Unit of that scale: the standard deviation there; 0 for a column that does not vary."""
    category_logits_BRCK: Tensor | None
    """Every cell as one of its column's categories; None if not wanted, or without that head."""

    def widened(self, columns: int) -> "LimiXOutput":
        """Return the same with zeros for columns up to ``columns``."""
        more = columns - self.center_BC.shape[1]
        cells, logits = self.cells_BRC, self.category_logits_BRCK
        return self._replace(
            cells_BRC=None if cells is None else F.pad(cells, (0, more)),
            center_BC=F.pad(self.center_BC, (0, more)),
            spread_BC=F.pad(self.spread_BC, (0, more)),
            category_logits_BRCK=None if logits is None else F.pad(logits, (0, 0, 0, more)),
        )


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
        self,
        x_BRC: Tensor,
        y_BN: Tensor,
        num_columns_B: Tensor | None = None,
        *,
        is_class: bool = True,
        wants_cells: bool = True,
    ) -> LimiXOutput:
        """Return predictions for query rows and, where wanted, for every cell.

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
            return self._answer(x_BRC, y_BN, is_class, wants_cells)
        # Tables of equal width share a pass: no padded column, no mask.
        order: list[int] = []
        found: list[LimiXOutput] = []
        for width in sorted(set(widths)):
            members = [place for place, other in enumerate(widths) if other == width]
            answers = self._answer(x_BRC[members, :, :width], y_BN[members], is_class, wants_cells)
            found.append(answers.widened(x_BRC.shape[2]))
            order += members
        places = sorted(range(len(order)), key=order.__getitem__)
        parts: Any = (None if some[0] is None else torch.cat(some)[places] for some in zip(*found, strict=True))
        return LimiXOutput(*parts)

    def _answer(self, x_BRC: Tensor, y_BN: Tensor, is_class: bool, wants_cells: bool) -> LimiXOutput:
        train_size, columns = y_BN.shape[1], x_BRC.shape[2]
        cells, tokens_BRTE = self.embed(x_BRC, y_BN, is_class)
        for depth, block in enumerate(self.blocks):
            label_only = not wants_cells and depth == len(self.blocks) - 1
            if self.activation_recompute and self.training:
                tokens_BRTE = checkpoint(block, tokens_BRTE, train_size, label_only, use_reentrant=False)
            else:
                tokens_BRTE = block(tokens_BRTE, train_size, label_only)
        if self.config.pre_norm:
            tokens_BRTE = F.layer_norm(tokens_BRTE, tokens_BRTE.shape[-1:])
        query_BME, cells_BRTE = tokens_BRTE[:, train_size:, -1], tokens_BRTE[:, :, :-1]
        numbers = categories = None
        if wants_cells:
            numbers = (self.cell_decoder(cells_BRTE).flatten(2) / cells.scale_BC[:, None])[:, :, :columns]
        if wants_cells and self.category_decoder is not None:
            logits_BRTX = self.category_decoder(cells_BRTE)
            categories = logits_BRTX.flatten(2).unflatten(2, (-1, self.config.max_categories))[:, :, :columns]
        return LimiXOutput(
            class_logits_BMK=self.class_decoder(query_BME),
            values_BM=self.value_decoder(query_BME)[..., 0],
            cells_BRC=numbers,
            center_BC=cells.mean_BC[:, :columns],
            spread_BC=cells.std_BC[:, :columns],
            category_logits_BRCK=categories,
        )

    def attention_scores(self, x_BRC: Tensor, y_BN: Tensor, *, is_class: bool = True) -> tuple[Tensor, Tensor]:
        """Return what rows' labels attend to in the last block, mean over heads; each sums to 1. Needs gradients off.

        Returns
        -------
        columns_BRC : Tensor
            (B, R, C): a row's own columns; columns of one token share its weight, the label's own is left out.
        rows_BMN : Tensor
            (B, M, N): context rows, for each query row.
        """
        _, tokens_BRTE = self.embed(x_BRC, y_BN, is_class)
        *others, last = cast("list[Block]", list(self.blocks))
        for block in others:
            tokens_BRTE = block(tokens_BRTE, y_BN.shape[1])
        tokens_BRT, rows_BMN = last.weigh(tokens_BRTE, y_BN.shape[1])
        columns_BRC = tokens_BRT[..., :-1].repeat_interleave(self.config.columns_per_token, dim=2)
        columns_BRC = columns_BRC[..., : x_BRC.shape[2]]
        return columns_BRC / columns_BRC.sum(dim=-1, keepdim=True).clamp(min=1e-12), rows_BMN

    def embed(self, x_BRC: Tensor, y_BN: Tensor, is_class: bool) -> tuple[StandardCells, Tensor]:
        """Return the cells on the scale of the context, and the tokens (B, R, T, E), a row's label last."""
        cells = standardise(x_BRC, y_BN.shape[1], self.config.columns_per_token)
        tokens_BRTE = self.cells(cells.z_BRC, cells.is_missing_BRC)
        if self.column_codes is not None:
            tokens_BRTE = tokens_BRTE + self.column_codes(tokens_BRTE.shape[2])
        label_BRE = self.labels(y_BN, x_BRC.shape[1], is_class)
        return cells, torch.cat((tokens_BRTE, label_BRE[:, :, None]), dim=2)


def _decoder(config: LimiXConfig, outputs: int) -> nn.Sequential:
    hidden = config.ff_dim
    return nn.Sequential(
        nn.Linear(config.embed_dim, hidden), nn.LayerNorm(hidden), nn.GELU(), nn.Linear(hidden, outputs)
    )
