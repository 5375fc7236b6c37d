"""Real tables: read whatever people export, and write so that no half file is ever seen."""

import io
import re
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pandas as pd
import pyarrow as pa

from priorline.datasets.dialects import Dialect, check_records, decode_text, find_dialect, take_separator_line
from priorline.datasets.files import PARQUET_MAGIC, read_content, write_atomically
from priorline.datasets.kinds import ColumnKind, infer_column_kinds
from priorline.datasets.number_text import decisive_marks, parse_numbers, parse_plain
from priorline.errors import InputError

__all__ = ["ColumnKind", "infer_column_kinds", "read_table", "write_table"]

_COMPRESSION = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zip": "zip"}
_BOOLEANS = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}
_DOT_GROUPED = re.compile(r"\s*[+-]?[1-9]\d{0,2}(?:\.\d{3})+\s*")


def read_table(
    source: str | Path,
    *,
    encoding: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    min_rows: int = 1,
) -> pd.DataFrame:
    """Return the table in a CSV-like text file or Parquet file.

    Found without being told: compression (gzip, bz2, xz, zstd, a zip of one file), encoding,
    separator (comma, semicolon, tab, pipe), decimal comma, thousands separators and currency signs.
    Column names are kept as given, save for a byte-order mark. Missing values are what pandas takes
    for missing. Text stays text; numbers, and the words true and false, are converted only where
    the whole column is of that type.

    Parameters
    ----------
    source : str or Path
        Path, or an fsspec URL such as ``s3://bucket/table.csv``.
    encoding, separator, decimal : str, optional
        Say so instead of having it found; a byte-order mark wins over ``encoding``.
    min_rows : int
        Fewer rows are refused; 0 lets a header without rows pass.

    Returns
    -------
    DataFrame
        Rows in file order, labelled 0, 1, ...; ``attrs["notes"]`` lists, as sentences, what was
        found out rather than given.

    Raises
    ------
    InputError
        If there is no such file or no table in it; names file, place and remedy.
    """
    name = str(source)
    data = read_content(source)
    if data.startswith(PARQUET_MAGIC):
        frame = _read_parquet(data, name)
    else:
        frame = _read_text(data, name, encoding, separator, decimal)
    if len(frame) < min_rows:
        what = "a header and no rows" if frame.empty else f"{len(frame)} rows"
        raise InputError(f"{name} has {what}, wanted at least {min_rows}; check the export")
    return frame


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write ``frame`` without its index: CSV (``.csv``, ``.tsv``, also compressed) or ``.parquet``.

    The file appears whole or not at all.

    Raises
    ------
    InputError
        If the suffix names no format, or Parquet cannot hold a column of mixed types.
    """
    path = Path(path)
    compression = _COMPRESSION.get(path.suffix.lower())
    suffix = Path(path.stem).suffix.lower() if compression else path.suffix.lower()
    if suffix == ".parquet" and not compression:
        write_atomically(path, lambda handle: _write_parquet(frame, handle, path))
        return
    if suffix not in (".csv", ".tsv"):
        raise InputError(f"{path} has no known suffix; end the name in .csv, .tsv, .csv.gz or .parquet")
    options: dict[str, object] = {"method": compression} if compression else {}
    if compression == "gzip":
        options["mtime"] = 0  # Equal tables give equal bytes.
    if compression == "zip":
        options["archive_name"] = path.stem
    separator = "\t" if suffix == ".tsv" else ","

    def write(handle: BinaryIO) -> None:
        frame.to_csv(
            handle,
            sep=separator,
            index=False,
            lineterminator="\n",
            encoding="utf-8",
            compression=options or None,
        )

    write_atomically(path, write)


def _write_parquet(frame: pd.DataFrame, handle: BinaryIO, path: Path) -> None:
    try:
        frame.reset_index(drop=True).to_parquet(handle, index=False)
    except (pa.ArrowException, ValueError) as fault:
        raise InputError(f"{path}: {fault}; give the column one type, or write CSV") from fault


def _read_parquet(data: bytes, name: str) -> pd.DataFrame:
    try:
        frame = pd.read_parquet(io.BytesIO(data))
    except (pa.ArrowException, OSError, ValueError, KeyError) as fault:
        raise InputError(f"{name} is damaged or no Parquet table: {fault}; write it again") from fault
    # A named index is data that pandas stored aside; an unnamed one only counts rows.
    named = [level for level in frame.index.names if level is not None]
    frame = frame.reset_index() if named else frame.reset_index(drop=True)
    frame.columns = [str(column).replace("\ufeff", "") for column in frame.columns]
    repeated = sorted(set(frame.columns[frame.columns.duplicated()]))
    if repeated:
        raise InputError(f"{name}: column names occur more than once: {repeated}; rename all but one of each")
    for column, cells in frame.items():
        first = cells.dropna().head(1)
        if cells.dtype == object and len(first) and isinstance(first.iloc[0], list | dict | np.ndarray):
            raise InputError(f"{name}: column {column!r} holds lists or records; flatten it, or leave it out")
    frame.attrs = {"notes": []}
    return frame


def _read_text(
    data: bytes, name: str, encoding: str | None, separator: str | None, decimal: str | None
) -> pd.DataFrame:
    text, note = decode_text(data, name, encoding)
    if re.match(r"\s*(<!doctype|<html|<\?xml)", text, re.IGNORECASE):
        raise InputError(f"{name} is a web page or XML, perhaps of a failed download; save the table as CSV")
    if re.match(r'\s*(\{\s*"|\[\s*[\[{])', text):
        raise InputError(f"{name} is JSON; save the table as CSV or Parquet")
    if not text.strip():
        raise InputError(f"{name} is empty; a table needs a header line and rows")
    text, hint = take_separator_line(text)
    given = separator or hint
    dialect = Dialect(separator=given, space_after_separator=given == " ") if given else find_dialect(text, name)
    header, num_rows = check_records(text, dialect, name)
    try:
        frame = pd.read_csv(
            io.StringIO(text),
            sep=dialect.separator,
            skipinitialspace=dialect.space_after_separator,
            header=0,
            names=header,
            index_col=False,
            dtype=str,
            low_memory=False,
        )
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as fault:
        raise InputError(f"{name}: {fault}; a quote may lack its end") from fault
    if len(frame) != num_rows:
        raise InputError(f"{name}: {num_rows} rows counted, {len(frame)} parsed; quote cells with line ends")
    notes = [note] if note else []
    nameless = [column for column in header if re.fullmatch(r"Unnamed: \d+", column) and frame[column].isna().all()]
    if nameless and len(nameless) < len(header):
        frame = frame.drop(columns=nameless)
        notes.append(f"{len(nameless)} empty columns without a name were left out")
    return _convert(frame, dialect, decimal, notes)


def _convert(frame: pd.DataFrame, dialect: Dialect, decimal: str | None, notes: list[str]) -> pd.DataFrame:
    """Return the text columns of ``frame`` as numbers and booleans where whole columns are.

    One mark for the file settles what a single cell leaves open ("265,000", "1.234"): the mark that
    other cells show, else the comma where semicolons separate columns, else the point.
    """
    columns: dict[str, pd.Series] = {}
    marks: dict[str, str | None] = {}
    for column, text in frame.items():
        plain = parse_plain(text)
        if plain is not None:
            columns[str(column)] = plain
            if _is_dot_grouped(text, plain):
                marks[str(column)] = None
            elif plain.dtype.kind == "f" and text.str.contains(".", regex=False).any():
                marks[str(column)] = "."
        elif set(text.dropna().unique()) <= set(_BOOLEANS):
            flags = text.map(_BOOLEANS)
            columns[str(column)] = flags.astype("boolean" if text.isna().any() else bool)
        else:
            columns[str(column)] = text
            sample = text.dropna().unique()[:1000]
            shown = decisive_marks(sample)
            if shown or not parse_numbers(pd.Series(sample)).unreadable.all():
                marks[str(column)] = shown.most_common(1)[0][0] if shown else None
    found = {decimal} if decimal else {mark for mark in marks.values() if mark}
    default = "," if found == {","} or (not found and dialect.separator == ";") else "."
    for column, mark in marks.items():
        if columns[column].dtype.kind == "f" and found != {","}:
            continue  # Plain numbers stay; only a comma shown elsewhere makes "1.234" a thousand.
        columns[column] = _as_shown(frame[column], columns[column], decimal or mark or default, notes)
    converted = pd.DataFrame(columns, index=frame.index)
    converted.attrs = {"notes": notes}
    return converted


def _is_dot_grouped(text: pd.Series, plain: pd.Series) -> bool:
    """Tell whether every point in a column of plain numbers could be a thousands separator."""
    dotted = text[text.str.contains(".", regex=False).fillna(False).astype(bool)]
    return len(dotted) > 0 and plain.dtype.kind == "f" and bool(dotted.str.fullmatch(_DOT_GROUPED).all())


def _as_shown(text: pd.Series, current: pd.Series, mark: str, notes: list[str]) -> pd.Series:
    """Return the column read with ``mark``, or as it is when some cells are no numbers."""
    cells = parse_numbers(text, mark)
    num_present, num_bad = int(text.notna().sum()), int(cells.unreadable.sum())
    if num_bad:
        if 2 * num_bad < num_present:
            example = text[cells.unreadable].iloc[0]
            notes.append(f"column {text.name!r} stays text: {num_bad} cells are no numbers, such as {example!r}")
        return current
    other = "," if mark == "." else "."
    notes.append(f"column {text.name!r} was read as numbers with {mark!r} before decimals and {other!r} in thousands")
    return pd.Series(cells.values.astype(np.int64) if cells.whole else cells.values, index=text.index)
