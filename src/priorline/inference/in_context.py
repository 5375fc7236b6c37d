"""The forward passes behind a prediction, cut into pieces that fit a memory budget.

Shapes: B views or members, N train rows, M query rows, R = N + M, C columns, E row embedding, K classes.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from priorline.inference.class_tree import class_log_probs
from priorline.inference.ensemble import View, sum_members

_MB = 2**20
_FLOAT_BYTES = 4
_LEAST_QUERY_ROWS = 256
_LEAST_CHUNK = 64

_ICL_FLOATS_PER_ROW = 6
"""Multiples of the row embedding that a block holds per row: input, norm, q, k, v, attention output."""
_CELL_FLOATS = 16
"""Multiples of the cell embedding that the column and row stages hold per cell, measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """How a prediction is cut; any plan gives the same result up to rounding."""

    query_rows: int
    """Query rows that go through the model together with the train rows."""
    views: int
    """Views whose row embeddings are computed and held together."""
    members: int
    """Members that go through the in-context learner together."""
    chunk_cells: int
    """Cells whose activations live at once in the column and row stages."""
    chunk_rows: int
    """Query rows whose activations live at once in the in-context learner."""


def plan_memory(model: Any, num_train: int, num_query: int, num_columns: int, budget_mb: float) -> MemoryPlan:
    """Return how to cut a prediction so that its arrays take about ``budget_mb`` MiB.

    A quarter each goes to cell activations, to held inputs and row embeddings, to the train rows in
    the in-context learner, and to the query rows there. What grows with the train rows alone cannot
    be cut: where it does not fit, a warning says so.
    """
    quarter = budget_mb * _MB / 4 / _FLOAT_BYTES
    config = model.config
    row_dim = config.embed_dim * config.row_num_cls
    held_per_row = 2 * (num_columns + row_dim)
    icl_per_row = row_dim * (_ICL_FLOATS_PER_ROW + config.ff_factor)
    least = num_train * max(icl_per_row + held_per_row, config.embed_dim * _CELL_FLOATS)
    if least > 4 * quarter:
        warnings.warn(
            f"a context of {num_train} rows takes about {least * _FLOAT_BYTES // _MB} MiB, more than "
            f"memory_budget_mb={budget_mb}; fit on fewer rows or raise it",
            stacklevel=2,
        )
    query_rows = min(num_query, int(max(_LEAST_QUERY_ROWS, quarter / held_per_row - num_train)))
    held_by_view = held_per_row * (num_train + query_rows)
    kept_by_member = num_train * 2 * row_dim * config.icl_num_blocks
    read_by_member = num_train * icl_per_row + kept_by_member
    members = int(max(1, min(quarter / read_by_member, quarter / held_by_view)))
    chunk_rows = int(max(_LEAST_CHUNK, quarter / (icl_per_row * members)))
    if kept_by_member > query_rows * icl_per_row:
        # Keys and values of so many train rows take more than all query rows at once.
        chunk_rows = query_rows
    return MemoryPlan(
        query_rows=query_rows,
        views=int(max(1, quarter / held_by_view)),
        members=members,
        chunk_cells=int(max(_LEAST_CHUNK * num_columns, quarter / (config.embed_dim * _CELL_FLOATS))),
        chunk_rows=chunk_rows,
    )


def sum_member_scores(
    model: Any,
    train: Mapping[str, np.ndarray],
    codes_N: np.ndarray,
    query: Mapping[str, np.ndarray],
    views: Sequence[View],
    *,
    num_classes: int,
    temperature: float,
    average_logits: bool,
    budget_mb: float,
) -> Tensor:
    """Return scores_MK of the query rows, float64, summed over all members of ``views``.

    Parameters
    ----------
    train, query : mapping from normalisation to float32 ndarray
        (N, C) and (M, C), columns in their given order.
    codes_N : ndarray
        int64 class codes 0..num_classes-1, each present.
    """
    num_train, num_columns = next(iter(train.values())).shape
    num_query = len(next(iter(query.values())))
    plan = plan_memory(model, num_train, num_query, num_columns, budget_mb)
    y_N = torch.from_numpy(codes_N).to(_device(model))

    def classify(rows_BRE: Tensor, y_BN: Tensor) -> Tensor:
        return model.classify_rows(rows_BRE, y_BN, chunk_rows=plan.chunk_rows)

    pieces = []
    with torch.no_grad():
        for start in range(0, num_query, plan.query_rows):
            piece = {norm: x_MC[start : start + plan.query_rows] for norm, x_MC in query.items()}
            sums = []
            for some in _batches(views, plan.views):
                rows_BRE = _represent(model, train, piece, some, plan.chunk_cells)
                members = [(place, shift) for place, view in enumerate(some) for shift in view.class_shifts]
                for pairs in _batches(members, plan.members):
                    shifts = [shift for _, shift in pairs]
                    y_BN = torch.stack([(y_N + shift) % num_classes for shift in shifts])
                    log_probs_BMK = class_log_probs(
                        classify,
                        rows_BRE[[place for place, _ in pairs]],
                        y_BN,
                        num_classes,
                        model.config.max_classes,
                        temperature,
                    )
                    sums.append(sum_members(log_probs_BMK, shifts, average_logits))
            pieces.append(torch.stack(sums).sum(dim=0))
    return torch.cat(pieces)


def embed_query_rows(
    model: Any, train: Mapping[str, np.ndarray], query: Mapping[str, np.ndarray], view: View, budget_mb: float
) -> np.ndarray:
    """Return the (M, E) float32 row embeddings of the query rows in one view."""
    num_train, num_columns = train[view.normalization].shape
    x_MC = query[view.normalization]
    plan = plan_memory(model, num_train, len(x_MC), num_columns, budget_mb)
    pieces = []
    with torch.no_grad():
        for start in range(0, len(x_MC), plan.query_rows):
            piece = {view.normalization: x_MC[start : start + plan.query_rows]}
            rows_BRE = _represent(model, train, piece, [view], plan.chunk_cells)
            pieces.append(rows_BRE[0, num_train:].cpu().numpy())
    return np.concatenate(pieces)


def _represent(
    model: Any,
    train: Mapping[str, np.ndarray],
    query: Mapping[str, np.ndarray],
    views: Sequence[View],
    chunk_cells: int,
) -> Tensor:
    tables = []
    for view in views:
        x_RC = np.concatenate([train[view.normalization], query[view.normalization]])
        tables.append(x_RC[:, list(view.columns)])
    x_BRC = torch.from_numpy(np.stack(tables)).to(_device(model))
    num_train = len(train[views[0].normalization])
    rows_BRE: Tensor = model.represent_rows(x_BRC, num_train, chunk_cells=chunk_cells)
    return rows_BRE


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _device(model: Any) -> torch.device:
    device: torch.device = next(model.parameters()).device
    return device
