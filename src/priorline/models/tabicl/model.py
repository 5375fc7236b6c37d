"""TabICL v1: column embedding, row interaction, in-context learning.

Shapes: B tables, R rows = N train + M test, C columns, E row embedding, K classes; train rows come first.
Source: Qu et al., TabICL (arXiv 2502.05564).
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from priorline.models.tabicl.column_embedding import ColumnEmbedding
from priorline.models.tabicl.config import TabICLConfig
from priorline.models.tabicl.icl import InContextLearner
from priorline.models.tabicl.row_interaction import RowInteraction


class TabICL(nn.Module):
    """Predicts the classes of test rows from labelled train rows of the same table, in one pass.

    A test row's logits depend on the train rows and on itself, never on other test rows.
    """

    def __init__(self, config: TabICLConfig) -> None:
        super().__init__()
        self.config = config
        self.col_embedder = ColumnEmbedding(config)
        self.row_interactor = RowInteraction(config)
        self.icl_predictor = InContextLearner(config)

    @property
    def activation_recompute(self) -> bool:
        """Whether blocks recompute their activations in the backward pass: less memory, more time."""
        return self.col_embedder.activation_recompute

    @activation_recompute.setter
    def activation_recompute(self, wanted: bool) -> None:
        for part in (self.col_embedder, self.row_interactor, self.icl_predictor):
            part.activation_recompute = wanted

    def forward(self, x_BRC: Tensor, y_BN: Tensor, num_columns_B: Tensor | None = None) -> Tensor:
        """Return logits (B, M, K = max_classes) of the test rows.

        Parameters
        ----------
        x_BRC : Tensor
            float32, finite.
        y_BN : Tensor
            Class codes 0..K-1 of the first N rows.
        num_columns_B : Tensor, optional
            Valid columns of each table; columns beyond are ignored. None: all C.
        """
        rows_BRE = self.represent_rows(x_BRC, y_BN.shape[1], num_columns_B)
        return self.icl_predictor(rows_BRE, y_BN)

    def represent_rows(
        self,
        x_BRC: Tensor,
        train_size: int,
        num_columns_B: Tensor | None = None,
        *,
        chunk_cells: int | None = None,
    ) -> Tensor:
        """Return row embeddings (B, R, E), labels unseen.

        Parameters
        ----------
        chunk_cells : int, optional
            Cells whose activations may live at once; larger tables go through in pieces (columns of
            train rows first, then rows), to the same result up to rounding. Needs gradients off.
        """
        tables, rows, columns = x_BRC.shape
        widths = [columns] * tables if num_columns_B is None else num_columns_B.tolist()
        at_once = tables if chunk_cells is None else max(1, chunk_cells // (rows * max(widths)))
        pieces = []
        for start in range(0, tables, at_once):
            x_bRC, some = x_BRC[start : start + at_once], widths[start : start + at_once]
            if chunk_cells is not None and rows * some[0] > chunk_cells:
                pieces.append(self._rows_in_chunks(x_bRC[0, :, : some[0]], train_size, chunk_cells)[None])
            else:
                pieces.append(self._rows(x_bRC, train_size, some))
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)

    def classify_rows(self, rows_BRE: Tensor, y_BN: Tensor, *, chunk_rows: int | None = None) -> Tensor:
        """Return logits (B, M, K) of the rows after the first N, ``chunk_rows`` at a time.

        In chunks the train rows are read once and their keys and values kept. Needs gradients off.
        """
        train_size = y_BN.shape[1]
        if chunk_rows is None or rows_BRE.shape[1] - train_size <= chunk_rows:
            return self.icl_predictor(rows_BRE, y_BN)
        cache = self.icl_predictor.read_context(rows_BRE[:, :train_size], y_BN)
        pieces = rows_BRE[:, train_size:].split(chunk_rows, dim=1)
        return torch.cat([self.icl_predictor.classify_with(piece, cache) for piece in pieces], dim=1)

    def _rows(self, x_BRC: Tensor, train_size: int, widths: Sequence[int]) -> Tensor:
        columns_GR = torch.cat([x_RC[:, :width].T for x_RC, width in zip(x_BRC, widths, strict=True)])
        cells_GRE = self.col_embedder(columns_GR, train_size)
        if len(set(widths)) == 1:
            cells_BCRE = cells_GRE.unflatten(0, (len(widths), -1))
            return self.row_interactor(cells_BCRE.transpose(1, 2))
        # Tables of equal width share a pass: no padded column, no mask.
        cells_by_table = cells_GRE.split(list(widths))
        places: list[int] = []
        pieces = []
        for width in sorted(set(widths)):
            members = [place for place, other in enumerate(widths) if other == width]
            cells_bCRE = torch.stack([cells_by_table[place] for place in members])
            pieces.append(self.row_interactor(cells_bCRE.transpose(1, 2)))
            places += members
        order = sorted(range(len(places)), key=places.__getitem__)
        return torch.cat(pieces)[order]

    def _rows_in_chunks(self, x_RC: Tensor, train_size: int, chunk_cells: int) -> Tensor:
        x_CR = x_RC.T
        width = max(1, chunk_cells // train_size)
        parts = [self.col_embedder.summarize(x_cR[:, :train_size]) for x_cR in x_CR.split(width)]
        summaries = [torch.cat(block) for block in zip(*parts, strict=True)]
        height = max(1, chunk_cells // x_RC.shape[1])
        pieces = []
        for x_Cr in x_CR.split(height, dim=1):
            cells_CrE = self.col_embedder.embed_with(x_Cr, summaries)
            pieces.append(self.row_interactor(cells_CrE.transpose(0, 1)[None])[0])
        return torch.cat(pieces)
