"""Forward passes over a context and query rows, cut to fit the memory.

Shapes: N train rows, M query rows, C columns, K outputs.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from priorline.inference.class_tree import Predict, read_classes
from priorline.inference.ensemble import View, class_scores
from priorline.inference.memory import MB, budget_mb

_TOKEN_FLOATS = 16
"""Multiples of the width that a pass holds per token, measured."""
_FLOAT_BYTES = 4
_LEAST_ROWS = 64


class MaskedReader:
    """Asks a LimiX about query rows; a query row's answer does not depend on the others.

    Parameters
    ----------
    model : nn.Module
        Gradients off.
    memory_budget_mb : float, optional
        MiB that activations may take, roughly; None: by what machine and container have left.
    """

    def __init__(self, model: Any, memory_budget_mb: float | None = None) -> None:
        self.model = model
        self.device: torch.device = next(model.parameters()).device
        self.budget = budget_mb(memory_budget_mb)

    def ask(
        self,
        x_NC: np.ndarray,
        y_N: np.ndarray | Tensor,
        x_MC: np.ndarray,
        *,
        is_class: bool,
        wants_cells: bool = False,
        pick: Callable[[Any, int], Tensor],
    ) -> Tensor:
        """Return ``pick(output, N)`` for all query rows, whose dimension 0 are query rows; on the CPU.

        Query rows go in pieces that fit the budget; each reads the whole context.
        """
        context_NC, y_BN = self._tensor(x_NC), torch.as_tensor(y_N, device=self.device)[None]
        pieces = []
        with torch.no_grad():
            for start in range(0, len(x_MC), step := self._rows_at_once(*x_NC.shape)):
                x_BRC = torch.cat((context_NC, self._tensor(x_MC[start : start + step])))[None]
                pieces.append(
                    pick(self.model(x_BRC, y_BN, is_class=is_class, wants_cells=wants_cells), len(x_NC)).cpu()
                )
        return torch.cat(pieces)

    def class_scores(
        self,
        train: Mapping[str, np.ndarray],
        codes_N: np.ndarray,
        query: Mapping[str, np.ndarray],
        views: Sequence[View],
        *,
        num_classes: int,
        temperature: float,
        average_logits: bool,
    ) -> tuple[Tensor, int]:
        """Return the members' class scores (M, K), float64, summed, and how many members there were."""
        total: Tensor | None = None
        count = 0
        for view in views:
            x_NC, x_MC = (part[view.normalization][:, list(view.columns)] for part in (train, query))
            rows_NC, y_N = torch.from_numpy(np.ascontiguousarray(x_NC)), torch.from_numpy(codes_N)
            for shift in view.class_shifts:
                predict = read_classes(
                    self.read_labels,
                    rows_NC,
                    (y_N + shift) % num_classes,
                    num_classes,
                    self.model.config.max_classes,
                    temperature,
                )
                log_probs_MK = predict(torch.from_numpy(np.ascontiguousarray(x_MC)))
                scores_MK = class_scores(log_probs_MK, shift, average_logits)
                total = scores_MK if total is None else total + scores_MK
                count += 1
        assert total is not None
        return total, count

    def values(
        self, train: Mapping[str, np.ndarray], y_N: np.ndarray, query: Mapping[str, np.ndarray], views: Sequence[View]
    ) -> np.ndarray:
        """Return the mean of the members' values (M,), float64, on the scale of ``y_N``."""
        total = np.zeros(len(next(iter(query.values()))))
        for view in views:
            x_NC, x_MC = (part[view.normalization][:, list(view.columns)] for part in (train, query))
            found_M = self.ask(x_NC, y_N, x_MC, is_class=False, pick=lambda out, _: out.values_BM[0])
            total += found_M.double().numpy()
        return total / len(views)

    def scores(
        self,
        train: Mapping[str, np.ndarray],
        y_N: np.ndarray,
        query: Mapping[str, np.ndarray] | None,
        views: Sequence[View],
        *,
        is_class: bool,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return attention to columns (C,), of context rows in the mean, and of query rows to context rows (M, N).

        Mean over views. Without a query the second is empty.
        """
        num_train, num_columns = next(iter(train.values())).shape
        columns_C = np.zeros(num_columns)
        pieces = []
        labels_BN = torch.as_tensor(y_N, device=self.device)[None]
        for view in views:
            columns = list(view.columns)
            x_NC = train[view.normalization][:, columns]
            x_MC = x_NC[:0] if query is None else query[view.normalization][:, columns]
            step, rows = self._rows_at_once(*x_NC.shape), []
            with torch.no_grad():
                for start in range(0, max(len(x_MC), 1), step):
                    x_BRC = torch.cat((self._tensor(x_NC), self._tensor(x_MC[start : start + step])))[None]
                    weights_BRC, rows_BMN = self.model.attention_scores(x_BRC, labels_BN, is_class=is_class)
                    rows.append(rows_BMN[0].double().cpu().numpy())
            shares_C = weights_BRC[0, :num_train].mean(dim=0).double().cpu().numpy()
            columns_C[columns] += shares_C / len(views)
            pieces.append(np.concatenate(rows))
        return columns_C, np.mean(pieces, axis=0)

    def read_labels(self, rows_NC: Tensor, y_N: Tensor) -> Predict:
        """Return a function from query rows (M, C) to class logits: a context of `class_tree.read_classes`."""
        x_NC = rows_NC.numpy()
        return lambda query_MC: self.ask(
            x_NC, y_N, query_MC.numpy(), is_class=True, pick=lambda out, _: out.class_logits_BMK[0]
        )

    def _rows_at_once(self, num_train: int, num_columns: int) -> int:
        config = self.model.config
        tokens = -(-num_columns // config.columns_per_token) + 1
        per_row = tokens * config.embed_dim * _TOKEN_FLOATS * _FLOAT_BYTES
        return max(_LEAST_ROWS, int(self.budget * MB / per_row) - num_train)

    def _tensor(self, x_RC: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(x_RC, dtype=np.float32)).to(self.device)
