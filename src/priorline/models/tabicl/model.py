"""TabICL: column embedding, row interaction, in-context learning.

Shapes: B tables, R rows = N train + M test, C columns, F values per cell (a column's, or its group's),
E row embedding, K outputs (classes, or a regressor's quantiles), O column orders; train rows come first.
Source: Qu et al., TabICL (arXiv 2502.05564) and TabICLv2 (arXiv 2602.11139).
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from priorline.models.tabicl.column_embedding import ColumnEmbedding, Summary
from priorline.models.tabicl.config import TabICLConfig
from priorline.models.tabicl.icl import Context, InContextLearner
from priorline.models.tabicl.row_interaction import RowInteraction

_CACHE_FLOATS = 2**18
"""Size of a tensor of activations in the column and row stages on a CPU, per thread: 1 MiB, a core's second cache.

Columns and rows are independent there, and pieces that stay in the cache spare traffic to memory: forward and
backward passes of the row stage take 0.73 of the time of one piece (4096 rows of 20 columns, width 64, one core
of an AMD EPYC). Pieces of twice the size take longer where the cores' shared cache is busy.
"""


class TabICL(nn.Module):
    """Predicts the labels of test rows from labelled train rows of the same table, in one pass.

    A test row's outputs depend on the train rows and on itself, never on other test rows.
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
        """Return outputs (B, M, K) of the test rows: class logits, or standardised quantiles.

        Parameters
        ----------
        x_BRC : Tensor
            float32, finite.
        y_BN : Tensor
            Class codes 0..K-1, or standardised values, of the first N rows.
        num_columns_B : Tensor, optional
            Valid columns of each table; columns beyond are ignored. None: all C.
        """
        return self.icl_predictor(self.represent_rows(x_BRC, y_BN, num_columns_B), y_BN)

    def represent_rows(self, x_BRC: Tensor, y_BN: Tensor, num_columns_B: Tensor | None = None) -> Tensor:
        """Return row embeddings (B, R, E); they depend on labels only if the configuration is target-aware."""
        tables, rows, columns = x_BRC.shape
        widths = [columns] * tables if num_columns_B is None else num_columns_B.tolist()
        x_GRF = torch.cat([self._cells(x_RC[:, :width]) for x_RC, width in zip(x_BRC, widths, strict=True)])
        table_of_G = torch.repeat_interleave(torch.as_tensor(widths, device=x_BRC.device))
        labels = self.col_embedder.embed_labels(y_BN)
        at_once = self._columns_at_once(x_BRC, rows)
        cells_GRE = torch.cat(
            [
                self.col_embedder(x_gRF, y_BN.shape[1], [label_BNE[some] for label_BNE in labels])
                for x_gRF, some in zip(x_GRF.split(at_once), table_of_G.split(at_once), strict=True)
            ]
        )
        if len(set(widths)) == 1:
            return self._interact(cells_GRE.unflatten(0, (tables, -1)))
        # Tables of equal width share a pass: no padded column, no mask.
        cells_by_table = cells_GRE.split(widths)
        places: list[int] = []
        pieces = []
        for width in sorted(set(widths)):
            members = [place for place, other in enumerate(widths) if other == width]
            pieces.append(self._interact(torch.stack([cells_by_table[place] for place in members])))
            places += members
        order = sorted(range(len(places)), key=places.__getitem__)
        return torch.cat(pieces)[order]

    def summarize_columns(self, x_NC: Tensor, y_N: Tensor, *, chunk_cells: int) -> Summary:
        """Return what `represent_with` needs to know of the train rows of one table.

        Parameters
        ----------
        chunk_cells : int
            Cells whose activations may live at once; of a column, the train rows' embeddings, keys and
            values are always whole.
        """
        x_CNF, chunk_cells = self._cells(x_NC), min(chunk_cells, self._cells_at_once(x_NC))
        at_once = max(1, chunk_cells // len(x_NC))
        labels = self.col_embedder.embed_labels(y_N[None])
        parts = [
            self.col_embedder.summarize(
                x_cNF,
                [label_BNE.expand(len(x_cNF), -1, -1) for label_BNE in labels],
                chunk_rows=max(1, chunk_cells // at_once),
            )
            for x_cNF in x_CNF.split(at_once)
        ]
        return [[torch.cat(blocks) for blocks in zip(*digits, strict=True)] for digits in zip(*parts, strict=True)]

    def represent_with(
        self,
        x_RC: Tensor,
        summary: Summary,
        column_orders: Sequence[Sequence[int]],
        *,
        chunk_cells: int,
        y_N: Tensor | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """Return embeddings (O, R, E) of rows of a table seen in O column orders.

        Parameters
        ----------
        summary : Summary
            From `summarize_columns`, columns in the order of ``x_RC``.
        column_orders : sequence
            Orders in which the row stage sees the embedded columns; the columns are embedded once.
        y_N : Tensor, optional
            Labels of the rows where they are train rows; a target-aware model needs them.
        out : Tensor, optional
            Where the embeddings go, on any device; None: a new tensor.
        """
        x_CRF = self._cells(x_RC)
        columns, rows, _ = x_CRF.shape
        labels = [] if y_N is None else self.col_embedder.embed_labels(y_N[None])
        if out is None:
            out = x_RC.new_empty(len(column_orders), rows, self.config.embed_dim * self.config.row_num_cls)
        at_once = max(1, min(chunk_cells, self._cells_at_once(x_RC)) // columns)
        for start in range(0, rows, at_once):
            piece = slice(start, start + at_once)
            x_CrF = x_CRF[:, piece]
            some = [label_BNE[:, piece].expand(columns, -1, -1) for label_BNE in labels]
            cells_CrE = self.col_embedder.embed_with(x_CrF, summary, some)
            for place, order in enumerate(column_orders):
                ordered_BCrE = cells_CrE[None, list(order)]
                out[place, piece] = self.row_interactor(ordered_BCrE.transpose(1, 2))[0]
        return out

    def predict_rows(self, train_BNE: Tensor, y_BN: Tensor, query_BME: Tensor, *, chunk_rows: int) -> Tensor:
        """Return outputs (B, M, K) of query rows, activations of ``chunk_rows`` rows at once. Needs gradients off."""
        return self.icl_predictor.predict_in_chunks(train_BNE, y_BN, query_BME, chunk_rows)

    def read_context(self, train_BNE: Tensor, y_BN: Tensor, *, chunk_rows: int) -> Context:
        """Return what `predict_with` needs of the train rows: keys and values of every block. Needs gradients off."""
        return self.icl_predictor.read_context(train_BNE, y_BN, chunk_rows)

    def predict_with(self, context: Context, query_BME: Tensor, *, chunk_rows: int) -> Tensor:
        """Return what `predict_rows` does, at the cost of the query rows alone. Needs gradients off."""
        return self.icl_predictor.predict_with(query_BME, context, chunk_rows)

    def _cells(self, x_RC: Tensor) -> Tensor:
        """Return (C, R, F): each column's values, with those of the columns in its group."""
        if self.config.col_feature_group == "none":
            return x_RC.T[..., None]
        columns = x_RC.shape[1]
        places_C = torch.arange(columns, device=x_RC.device)
        members = [(places_C + 2**step) % columns for step in range(self.config.col_feature_group_size)]
        return torch.stack([x_RC.T[places] for places in members], dim=-1)

    def _interact(self, cells_BCRE: Tensor) -> Tensor:
        tables, columns = cells_BCRE.shape[:2]
        at_once = max(1, self._cells_at_once(cells_BCRE) // (tables * (columns + self.config.row_num_cls)))
        pieces = cells_BCRE.split(at_once, dim=2)
        return torch.cat([self.row_interactor(cells_BCrE.transpose(1, 2)) for cells_BCrE in pieces], dim=1)

    def _cells_at_once(self, x: Tensor) -> int:
        if x.device.type != "cpu":
            return 2**40
        return torch.get_num_threads() * _CACHE_FLOATS // self.config.embed_dim

    def _columns_at_once(self, x: Tensor, rows: int) -> int:
        return max(1, self._cells_at_once(x) // rows)
