"""A real table made ready for the gate: cells as they came, and cells read as the contract's kinds."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pandas as pd

from priorline.datasets.contracts import ColumnContract, DataContract, row_codes, schema_faults
from priorline.datasets.kinds import cast_column

Role = Literal["query", "context"]

_ENFORCED_KINDS = ("numeric", "boolean", "datetime")

_LISTED_CATEGORIES = 200
"""Larger sets go to GX by way of a companion; a listed set of 5,000 costs it a second a column."""

SEEN = "in the context"
"""What the companion of a large category set says of a value that the context has."""


@dataclass(slots=True, kw_only=True)
class Batch:
    """A table made ready for GX; rows are labelled by position."""

    contract: DataContract
    role: Role
    columns: list[ColumnContract]
    """Columns to check: those of the contract that are there, the target included in a context."""
    arrived: pd.DataFrame
    """Cells as they came, infinite numbers missing."""
    typed: pd.DataFrame
    """Cells read as their kinds, with a companion per enforced kind and one for the whole row."""
    original: pd.DataFrame
    """Cells as they came, for messages."""
    faults: list[str]
    notes: list[str]
    kind_names: dict[str, str] = field(default_factory=dict)
    """Column to the companion that tells the kind of its cells."""
    seen_names: dict[str, str] = field(default_factory=dict)
    """Column to the companion that tells whether its category is known."""
    row_name: str = "whole row"
    """The companion that is equal for equal rows."""


def prepare_batch(frame: pd.DataFrame, contract: DataContract, role: Role) -> Batch:
    """Return ``frame`` ready for the gate: matched by name, read as kinds, with companions."""
    original = frame.reset_index(drop=True)
    original.columns = [str(name) for name in original.columns]
    faults, notes = schema_faults(original, contract, with_target=role == "context")
    if role == "query":
        original = original.loc[:, original.columns != contract.target.name]
    wanted = [*contract.columns, *([contract.target] if role == "context" else [])]
    columns = [column for column in wanted if list(original.columns).count(column.name) == 1]
    batch = Batch(
        contract=contract,
        role=role,
        columns=columns,
        arrived=original.copy(),
        typed=pd.DataFrame(index=original.index),
        original=original,
        faults=faults,
        notes=notes,
    )
    taken = set(original.columns)
    typed: dict[str, pd.Series] = {}
    for column in columns:
        typed |= _typed_column(batch, column, taken)
    features = original[[column.name for column in columns if column is not contract.target]]
    batch.row_name = _free("whole row", taken)
    # The share of repeated rows grows with their number: compare as many rows as the context has.
    codes = row_codes(features.iloc[: contract.num_rows]) if features.shape[1] else np.arange(0)
    typed[batch.row_name] = pd.Series(codes, dtype=float).reindex(original.index)
    batch.typed = pd.DataFrame(typed, index=original.index)
    return batch


def _typed_column(batch: Batch, column: ColumnContract, taken: set[str]) -> dict[str, pd.Series]:
    """Return the column read as its kind, and its companion; note and blank infinite numbers."""
    cells = batch.original[column.name]
    cast = cast_column(cells, column.kind)
    typed = {column.name: cast.values}
    num_infinite = int(cast.infinite.sum())
    if num_infinite:
        batch.arrived[column.name] = cells.astype(object).mask(cast.infinite, None)
        batch.notes.append(f"column {column.name!r}: {num_infinite} infinite numbers count as missing")
    if column.kind in _ENFORCED_KINDS:
        companion = batch.kind_names[column.name] = _free(f"kind of {column.name}", taken)
        kinds = pd.Series(column.kind, index=cells.index, dtype=object)
        typed[companion] = kinds.mask(cast.unreadable, f"not {column.kind}").where(cells.notna(), None)
    if column.categories is not None and len(column.categories) > _LISTED_CATEGORIES:
        companion = batch.seen_names[column.name] = _free(f"category of {column.name}", taken)
        seen = cast.values.isin(column.categories)
        typed[companion] = seen.map({True: SEEN, False: f"not {SEEN}"}).astype(object).where(cells.notna(), None)
    return typed


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name = f"{name}'"
    taken.add(name)
    return name
