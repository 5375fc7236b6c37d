"""`DataContract`: what a context table promises, so that a query table can be held to it."""

import difflib
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api import types
from pydantic import Field, ValidationError

from priorline.config_io import Config, nearest_name
from priorline.datasets.files import write_bytes
from priorline.datasets.kinds import TEXT_DTYPE, ColumnKind, as_text, cast_column, infer_kind
from priorline.errors import InputError


class ContractOptions(Config):
    """How far a batch may stray from the context before rows or the whole batch are refused."""

    range_slack: float = Field(default=0.5, ge=0)
    """Share of the context's range by which a number may lie outside, on each side."""
    missing_slack: float = Field(default=0.2, ge=0, le=1)
    """By how much a column's missing share may exceed the context's."""
    max_unreadable_share: float = Field(default=0.5, ge=0, le=1)
    """Above this share of cells that are not of the column's kind, the batch is refused."""
    max_quarantine_share: float = Field(default=0.5, ge=0, le=1)
    """Above this share of rows in quarantine, the batch is refused."""
    duplicate_slack: float = Field(default=0.5, ge=0, le=1)
    """By how much the share of rows that repeat an earlier one may exceed the context's."""
    min_rows_for_duplicates: int = Field(default=20, ge=1)
    """Smaller batches are not checked for duplicates."""
    unseen_categories: Literal["quarantine", "allow"] = "quarantine"
    """What happens to rows with a category that the context lacks."""
    extra_columns: Literal["reject", "ignore"] = "reject"
    """What happens to a batch with a column that the contract does not know."""


class ColumnContract(Config):
    """One column of the context."""

    name: str
    """Name exactly as in the context."""
    kind: ColumnKind
    """What its cells are read as."""
    missing_share: float = Field(ge=0, le=1)
    """Share of cells missing in the context, infinite numbers included."""
    is_integer: bool = False
    """Numeric: every number in the context is whole."""
    minimum: float | None = None
    """Numeric: smallest finite number; None without one."""
    maximum: float | None = None
    """Numeric: largest finite number."""
    earliest: str | None = None
    """Datetime: first moment (ISO 8601, UTC where a zone was given); for information, never enforced,
    because the dates of a query come later by nature."""
    latest: str | None = None
    """Datetime: last moment."""
    categories: tuple[str, ...] | None = None
    """Categorical and boolean: every value, sorted; None for other kinds."""

    @property
    def suggests(self) -> str:
        """Problem type of predicting this column: numbers that are not all whole ask for regression."""
        return "regression" if self.kind == "numeric" and not self.is_integer else "classification"

    def limits(self, slack: float) -> tuple[float, float] | None:
        """Return the smallest and largest number allowed; None when the column has no range.

        A constant column has no width: its value's magnitude (at least 1) takes that place.
        """
        if self.minimum is None or self.maximum is None:
            return None
        width = (self.maximum - self.minimum) or max(abs(self.maximum), 1.0)
        return self.minimum - slack * width, self.maximum + slack * width

    def allowed_missing(self, num_rows: int, slack: float) -> int:
        """Return how many of ``num_rows`` cells may be missing.

        Rounded up, so that one missing cell does not refuse a batch of two.
        """
        return min(num_rows, math.ceil(round(num_rows * (self.missing_share + slack), 9)))


class DataContract(Config):
    """What `profile_contract` found in a context; JSON-serialisable, so it travels with a model."""

    format_version: Literal[1] = 1
    """Version of this layout."""
    num_rows: int
    """Rows of the context."""
    columns: tuple[ColumnContract, ...]
    """Feature columns in order, without the target."""
    target: ColumnContract
    """The column to predict."""
    duplicate_share: float
    """Share of the context's rows whose features repeat an earlier row's."""
    options: ContractOptions = ContractOptions()
    """Tolerances."""

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the feature columns in order."""
        return tuple(column.name for column in self.columns)


def profile_contract(context: pd.DataFrame, target: str, options: ContractOptions | None = None) -> DataContract:
    """Return the contract that ``context`` itself keeps.

    Parameters
    ----------
    context : DataFrame
        Labelled table; rows may lack their target.
    target : str
        Name of the column to predict.

    Raises
    ------
    InputError
        If the target is not a column or never present, a name occurs twice, or there are no
        feature columns or rows.
    """
    names = [str(name) for name in context.columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(f"column names occur more than once: {repeated}; rename all but one of each")
    if target not in names:
        raise InputError(f"target {target!r} is not a column of the context{nearest_name(target, names)}")
    if context.empty or len(names) < 2:
        raise InputError(
            f"the context has {len(context)} rows and {len(names)} columns; "
            "it needs rows, the target and a feature column"
        )
    if context[target].isna().all():
        raise InputError(f"target {target!r} is missing in all {len(context)} rows; label some of them")
    frame = context.reset_index(drop=True).set_axis(names, axis=1)
    features = frame.drop(columns=target)
    return DataContract(
        num_rows=len(frame),
        columns=tuple(_profile_column(frame[name]) for name in names if name != target),
        target=_profile_column(frame[target]),
        duplicate_share=float(1 - len(np.unique(row_codes(features))) / len(frame)),
        options=options or ContractOptions(),
    )


def row_codes(frame: pd.DataFrame) -> np.ndarray:
    """Return one int64 per row, equal for rows whose cells are all equal (missing equals missing)."""
    codes = {}
    for place in range(frame.shape[1]):
        cells = frame.iloc[:, place]
        # Objects may be unhashable, and mix 1 with "1".
        codes[place] = pd.factorize(as_text(cells) if types.is_object_dtype(cells.dtype) else cells)[0]
    return pd.DataFrame(codes).groupby(list(codes), sort=False).ngroup().to_numpy()


def _profile_column(column: pd.Series) -> ColumnContract:
    kind = infer_kind(column)
    cast = cast_column(column, kind)
    found: dict[str, Any] = {}
    present = cast.values.dropna()
    if kind == "numeric" and len(present):
        found = {"minimum": float(present.min()), "maximum": float(present.max())}
        found["is_integer"] = bool((present == np.rint(present)).all())
    elif kind == "datetime":
        found = {"earliest": present.min().isoformat(), "latest": present.max().isoformat()}
    elif kind in ("categorical", "boolean"):
        found = {"categories": tuple(sorted(map(str, present.unique())))}
    missing = column.isna().to_numpy() | cast.infinite
    return ColumnContract(name=str(column.name), kind=kind, missing_share=float(missing.mean()), **found)


def schema_faults(frame: pd.DataFrame, contract: DataContract, *, with_target: bool) -> tuple[list[str], list[str]]:
    """Return (faults, notes) about the columns of a batch, each a sentence that names the columns.

    A fault makes the batch unusable: a missing, unknown or repeated column. Order carries no
    meaning for a model, so another order is a note; `coerce_frame` restores it.
    """
    got = [str(name) for name in frame.columns]
    wanted = [*contract.column_names, *([contract.target.name] if with_target else [])]
    extra = [name for name in got if name not in wanted and name != contract.target.name]
    faults, notes = [], []
    for name in sorted({name for name in got if got.count(name) > 1}):
        faults.append(f"column {name!r} occurs {got.count(name)} times; keep one")
    for name in wanted:
        if name not in got:
            role = "the target" if name == contract.target.name else "which the contract wants"
            renamed = _nearest_extra(name, extra)
            hint = (
                f"; was it renamed to {renamed!r}? Give it its old name"
                if renamed
                else "; add it, or leave it out of both tables"
            )
            faults.append(f"column {name!r} is missing, {role}{hint}")
    if extra and contract.options.extra_columns == "reject":
        faults.append(f"unknown columns {extra}; drop them, or profile the context anew")
    elif extra:
        notes.append(f"unknown columns {extra} were ignored")
    if contract.target.name in got and not with_target:
        notes.append(f"the target column {contract.target.name!r} is in the query and was ignored")
    features = [name for name in got if name in contract.column_names]
    if not faults and features != list(contract.column_names):
        notes.append(f"columns arrived in another order ({features}) and were matched by name")
    return faults, notes


def _nearest_extra(name: str, extra: Sequence[str]) -> str | None:
    plain = {"".join(other.casefold().split()): other for other in extra}
    matches = difflib.get_close_matches("".join(name.casefold().split()), plain, n=1)
    return plain[matches[0]] if matches else None


def coerce_frame(
    frame: pd.DataFrame,
    contract: DataContract,
    rows: Sequence[int] | None = None,
    *,
    with_target: bool = False,
) -> pd.DataFrame:
    """Return rows that passed the gate, in the contract's column order and types.

    Numbers become int64 (whole in context and batch, none missing) or float64, categories and text
    strings, booleans bool (``boolean`` when some are missing), dates datetime64 without zone.
    Infinite numbers become missing, with a warning that names column and count.

    Parameters
    ----------
    rows : sequence of int, optional
        Positions to keep, as in ``GateReport.passed_rows``; None: all.
    with_target : bool
        Append the target column (a context); else it is left out.

    Raises
    ------
    InputError
        If a column is missing, or a cell is not of its column's kind.
    """
    faults, _ = schema_faults(frame, contract, with_target=with_target)
    missing = [fault for fault in faults if "unknown columns" not in fault]
    if missing:
        raise InputError("; ".join(missing))
    frame = frame.reset_index(drop=True)
    frame.columns = [str(name) for name in frame.columns]
    chosen = frame if rows is None else frame.iloc[list(rows)]
    columns = [*contract.columns, *([contract.target] if with_target else [])]
    typed = {column.name: _coerce_column(chosen[column.name], column) for column in columns}
    return pd.DataFrame(typed, index=chosen.index).reset_index(drop=True)


def _coerce_column(cells: pd.Series, column: ColumnContract) -> pd.Series:
    cast = cast_column(cells, column.kind)
    if cast.unreadable.any():
        bad = int(np.flatnonzero(cast.unreadable)[0])
        raise InputError(
            f"column {column.name!r} row {cells.index[bad]}: {cells.iloc[bad]!r} is not {column.kind}; "
            "keep only rows that passed the gate"
        )
    if cast.infinite.any():
        warnings.warn(
            f"column {column.name!r}: {int(cast.infinite.sum())} infinite numbers are taken as missing",
            stacklevel=4,
        )
    values = cast.values
    if column.kind == "numeric":
        whole = column.is_integer and values.notna().all() and (values == np.rint(values)).all()
        return values.astype(np.int64) if whole else values
    if column.kind == "boolean":
        return values.astype("boolean" if values.isna().any() else bool)
    if column.kind == "datetime":
        return values
    return values.astype(TEXT_DTYPE)


def save_contract(contract: DataContract, path: Path) -> None:
    """Write the contract as JSON, atomically."""
    write_bytes(Path(path), contract.model_dump_json(indent=2).encode())


def load_contract(path: Path) -> DataContract:
    """Return the contract that `save_contract` wrote; raises `InputError` for anything else."""
    try:
        return DataContract.model_validate_json(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValidationError) as fault:
        raise InputError(f"{path} is no data contract: {fault}; profile the context anew") from fault
