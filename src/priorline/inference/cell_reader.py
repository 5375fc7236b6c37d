"""What a context says of single cells: a column at a time as if it were the target, or all in one pass.

Shapes: N context rows, M query rows, C numbers of a row, K categories.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from priorline.inference.cell_table import CellColumn, CellTable
from priorline.inference.class_tree import read_classes
from priorline.inference.masked_reader import MaskedReader


class CellReader:
    """Asks a model for cells of query rows, standardised numbers or chances of categories."""

    def __init__(self, reader: MaskedReader, table: CellTable) -> None:
        self.reader, self.table = reader, table

    def column(self, column: CellColumn, z_NC: np.ndarray, z_MC: np.ndarray, features: Sequence[int]) -> np.ndarray:
        """Return chances (M, K) of a column's categories, or its numbers (M,), given the numbers ``features``.

        The column is shown as the target: its cells in the context are the labels, rows without them are
        left out. The numbers of the column itself must not be among ``features``.
        """
        labels_N = z_NC[:, column.numbers[0]].astype(np.float64)
        known = np.isfinite(labels_N)
        if features:
            x_NC, x_MC = z_NC[known][:, list(features)], z_MC[:, list(features)]
        else:
            x_NC, x_MC = np.zeros((known.sum(), 1), np.float32), np.zeros((len(z_MC), 1), np.float32)
        if not column.num_categories:
            if not known.any():
                return np.zeros(len(z_MC))
            y_N = labels_N[known].astype(np.float32)
            found_M = self.reader.ask(x_NC, y_N, x_MC, is_class=False, pick=lambda out, _: out.values_BM[0])
            return found_M.double().numpy()
        chance_MK = np.zeros((len(z_MC), column.num_categories))
        present, codes_N = np.unique(self.table.codes(column, labels_N[known]), return_inverse=True)
        if len(present) < 2:
            chance_MK[:, present] = 1.0
            return chance_MK if len(present) else np.full_like(chance_MK, 1 / column.num_categories)
        predict = read_classes(
            self.reader.read_labels,
            torch.from_numpy(np.ascontiguousarray(x_NC)),
            torch.from_numpy(codes_N),
            len(present),
            self.reader.model.config.max_classes,
            1.0,
        )
        chance_MK[:, present] = predict(torch.from_numpy(np.ascontiguousarray(x_MC))).exp().numpy()
        return chance_MK

    def all_cells(self, z_NC: np.ndarray, z_MC: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return every query cell as a number (M, C) and, by the head of categories, as logits (M, C, K).

        One pass without labels; missing cells are what the model was trained to fill.
        """

        def pick(out: Any, num_train: int) -> torch.Tensor:
            numbers_RC = out.cells_BRC[0] * out.spread_BC + out.center_BC
            parts = [numbers_RC[num_train:, :, None]]
            if out.category_logits_BRCK is not None:
                parts.append(out.category_logits_BRCK[0, num_train:])
            return torch.cat(parts, dim=-1)

        labels_N = np.zeros(len(z_NC), dtype=np.int64)
        answers = self.reader.ask(z_NC[:, order], labels_N, z_MC[:, order], is_class=True, wants_cells=True, pick=pick)
        found = answers.double().numpy()[:, np.argsort(order)]
        return found[..., 0], (found[..., 1:] if found.shape[-1] > 1 else None)


def softmax(logits_MK: np.ndarray) -> np.ndarray:
    """Return probabilities along the last dimension."""
    shifted_MK = np.exp(logits_MK - logits_MK.max(axis=-1, keepdims=True))
    found: np.ndarray = shifted_MK / shifted_MK.sum(axis=-1, keepdims=True)
    return found
