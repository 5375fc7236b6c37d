"""How much memory a prediction may take, and how it is cut to fit.

Shapes: N train rows, M query rows, C columns, E row embedding, O column orders.
"""

import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import Tensor

from priorline.errors import InputError

MB = 2**20
_FLOAT_BYTES = 4
_LEAST_QUERY_ROWS = 256
_CPU_CHUNK_ROWS = 1024
"""Rows at a time in the in-context learner on a CPU: large enough for full speed, small enough for the caches."""
_CELL_FLOATS = 16
"""Multiples of the cell embedding that the column and row stages hold per cell, measured."""
_READ_FLOATS = 5
"""Multiples of the embedding that reading train rows holds per row: input, norm, keys, values, slack."""
_AUTO_SHARE = 0.5
_AUTO_LEAST_MB, _AUTO_MOST_MB = 64, 4096
_CGROUP_LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
"""Limit and use of this container's memory: control groups version 2, version 1."""

OFFLOADS = ("none", "cpu", "disk")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """How a prediction is cut; any plan gives the same result up to rounding."""

    query_rows: int
    """Query rows whose embeddings are held together."""
    chunk_cells: int
    """Cells whose activations live at once in the column and row stages."""
    chunk_rows: int
    """Rows whose activations live at once in the in-context learner."""


def available_mb(limits: tuple[tuple[str, str], ...] = _CGROUP_LIMITS) -> float:
    """Return MiB that this process can still take: free on the machine, and left of its control group's limit."""
    free = float(psutil.virtual_memory().available)
    for limit_file, use_file in limits:
        try:
            limit, use = Path(limit_file).read_text(encoding="ascii"), Path(use_file).read_text(encoding="ascii")
            free = min(free, float(limit) - float(use))
        except (OSError, ValueError):
            continue  # no such group, or no limit ("max")
    return max(free, 0.0) / MB


def budget_mb(wanted: float | None) -> float:
    """Return ``wanted``, or for None half of what is available, between 64 and 4096 MiB."""
    if wanted is not None:
        return wanted
    return min(max(_AUTO_SHARE * available_mb(), _AUTO_LEAST_MB), _AUTO_MOST_MB)


def plan_memory(
    config: Any, num_train: int, num_query: int, num_columns: int, *, num_orders: int, budget: float, on_cpu: bool
) -> MemoryPlan:
    """Return how to cut a prediction so that its arrays take about ``budget`` MiB.

    What grows with the train rows alone cannot be cut: where it does not fit, a warning says so.
    """
    floats = budget * MB / _FLOAT_BYTES
    row_dim = config.embed_dim * config.row_num_cls
    held = num_train * row_dim * num_orders
    least = held + num_train * max(row_dim, config.embed_dim) * _READ_FLOATS
    if least > floats:
        warnings.warn(
            f"a context of {num_train} rows takes about {least * _FLOAT_BYTES // MB} MiB, more than "
            f"memory_budget_mb={budget:.0f}; fit on fewer rows or raise it",
            stacklevel=2,
        )
    # Query rows: their embeddings in every order, a working copy, and their values.
    per_query = row_dim * (num_orders + 1) + 2 * num_columns
    query_rows = min(num_query, int(max(_LEAST_QUERY_ROWS, (floats - least) / 2 / per_query)))
    spare = max(floats - least, floats / 4) / 4
    chunk_rows = int(max(_LEAST_QUERY_ROWS, spare / (row_dim * (_READ_FLOATS + config.ff_factor))))
    return MemoryPlan(
        query_rows=query_rows,
        chunk_cells=int(max(num_columns, spare / (config.embed_dim * _CELL_FLOATS))),
        chunk_rows=min(chunk_rows, _CPU_CHUNK_ROWS) if on_cpu else chunk_rows,
    )


def new_rows(shape: tuple[int, ...], device: torch.device, offload: str) -> Tensor:
    """Return an empty float32 tensor for row embeddings: on ``device``, in main memory, or in a nameless file."""
    if offload not in OFFLOADS:
        raise InputError(f"offload={offload!r} is unknown; choose one of {', '.join(OFFLOADS)}")
    if offload == "disk" and all(shape):
        with tempfile.NamedTemporaryFile(prefix="priorline-rows-") as file:
            # The file has no name any more when this returns; its pages go with the tensor.
            return torch.from_file(file.name, shared=True, size=torch.Size(shape).numel()).view(shape)
    return torch.empty(shape, device="cpu" if offload == "cpu" else device)
