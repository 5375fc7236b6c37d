"""What a prior yields and an objective reads: batches of synthetic datasets, checked once.

Shapes: B datasets, R rows = N train + M test, C columns (zero-padded on the right).
"""

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from priorline.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec:
    """A request to a prior; with the prior's config it fixes every byte of the batch.

    For series, a row is a time step and ``train_size`` the context length.
    """

    seed: int
    """Seed of this batch alone, derived from the run's seed and the batch's place in the curriculum."""
    num_datasets: int
    """Datasets in the batch; all share ``rows`` and ``train_size``."""
    group_size: int
    """Datasets in a row that share the prior's type, number of columns and hyper-parameters."""
    rows: int
    """Rows of each dataset, train and test together."""
    train_size: int
    """Rows before the split: the labelled context."""

    def __post_init__(self) -> None:
        if not 0 < self.train_size < self.rows:
            raise InputError(
                f"train_size={self.train_size} must lie in 1..rows-1, rows={self.rows}; "
                "change the stage's train_fraction"
            )
        if self.num_datasets < 1 or self.group_size < 1:
            raise InputError(f"num_datasets and group_size must be positive, got {self}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TabularBatch:
    """Synthetic tables with one train/test split, labels included for all rows."""

    x_BRC: Tensor
    """float32; a missing cell is NaN; columns from ``num_columns_B[b]`` on are zero."""
    y_BR: Tensor
    """int64 class codes 0..K_b-1, each class of a dataset among its train rows; or float32 values."""
    num_columns_B: Tensor
    """int64, valid columns of each dataset, 1..C."""
    train_size: int
    """Rows before the split."""
    num_categories_BC: Tensor | None = None
    """int64, categories of a column, whose cells are then codes from 0; 0: numbers. None: no column is judged so."""
    provenance: tuple[dict[str, Any], ...] = ()
    """How each dataset came about, JSON-ready; empty: the prior does not say."""

    def __post_init__(self) -> None:
        datasets, rows = self.x_BRC.shape[:2]
        if self.y_BR.shape != (datasets, rows) or self.num_columns_B.shape != (datasets,):
            raise InputError(
                f"shapes do not fit: x {tuple(self.x_BRC.shape)}, y {tuple(self.y_BR.shape)}, "
                f"num_columns {tuple(self.num_columns_B.shape)}"
            )
        if not 0 < self.train_size < rows:
            raise InputError(f"train_size={self.train_size} must lie in 1..{rows - 1}")

    def to(self, device: torch.device | str) -> "TabularBatch":
        """Return the batch with its tensors on ``device``."""
        categories = self.num_categories_BC
        return replace(
            self,
            x_BRC=self.x_BRC.to(device, non_blocking=True),
            y_BR=self.y_BR.to(device, non_blocking=True),
            num_columns_B=self.num_columns_B.to(device, non_blocking=True),
            num_categories_BC=None if categories is None else categories.to(device, non_blocking=True),
        )

    def tensors(self) -> dict[str, Tensor]:
        """Return the named tensors, as stored in a shard."""
        named = {"x": self.x_BRC, "y": self.y_BR, "num_columns": self.num_columns_B}
        if self.num_categories_BC is not None:
            named["num_categories"] = self.num_categories_BC
        if self.provenance:
            text = json.dumps(self.provenance, separators=(",", ":")).encode()
            named["provenance"] = torch.from_numpy(np.frombuffer(text, dtype=np.uint8).copy())
        return named

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], train_size: int) -> "TabularBatch":
        """Rebuild a batch from `tensors` and the split."""
        provenance = tensors.get("provenance")
        return cls(
            x_BRC=tensors["x"],
            y_BR=tensors["y"],
            num_columns_B=tensors["num_columns"],
            train_size=train_size,
            num_categories_BC=tensors.get("num_categories"),
            provenance=() if provenance is None else tuple(json.loads(provenance.numpy().tobytes())),
        )


Batch = TabularBatch
"""Any batch that a prior yields; issue by issue this becomes a union."""
