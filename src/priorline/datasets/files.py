"""Bytes in and out: local files and fsspec URLs, compression told by content, atomic writes."""

import bz2
import gzip
import io
import lzma
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import fsspec  # type: ignore[import-untyped]
import pyarrow as pa

from priorline.errors import InputError

PARQUET_MAGIC = b"PAR1"

_ZIP_MAGIC = b"PK\x03\x04"

_FOREIGN_FORMATS = {
    b"\xd0\xcf\x11\xe0": "an Excel workbook (.xls); save the sheet as CSV",
    b"%PDF": "a PDF document; export the table as CSV",
    b"\x89HDF": "an HDF5 file; export the table as CSV or Parquet",
    b"ARROW1": "an Arrow or Feather file; write it as Parquet",
    b"ORC": "an ORC file; write it as Parquet",
    b"\x93NUMPY": "a NumPy array; write it as CSV with column names",
    b"SQLite format 3": "an SQLite database; export the table as CSV",
    b"\x80\x02": "a pickle, which is never opened because it can run code; write the table as Parquet",
    b"\x80\x03": "a pickle, which is never opened because it can run code; write the table as Parquet",
    b"\x80\x04": "a pickle, which is never opened because it can run code; write the table as Parquet",
    b"\x80\x05": "a pickle, which is never opened because it can run code; write the table as Parquet",
}


def read_content(source: str | Path) -> bytes:
    """Return the bytes behind a path or fsspec URL, decompressed whatever its suffix says.

    Raises
    ------
    InputError
        If the source is missing, a directory, empty, unreadable, or a known format that is no table.
    """
    data = _decompressed(_raw_content(source), source)
    if not data:
        raise InputError(f"{source} is empty; a table needs a header line and rows")
    for magic, what in _FOREIGN_FORMATS.items():
        if data.startswith(magic):
            raise InputError(f"{source} is {what}")
    return data


def write_atomically(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then rename it: all or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as handle:
            write(handle)
            handle.flush()
            os.fsync(handle.fileno())
        # mkstemp makes the file private; give it the mode that open() would have given.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path``, all or nothing."""

    def write(handle: BinaryIO) -> None:
        handle.write(content)

    write_atomically(path, write)


def _raw_content(source: str | Path) -> bytes:
    if "://" in str(source):
        try:
            with fsspec.open(str(source), "rb") as handle:
                return bytes(handle.read())
        except (OSError, ImportError, ValueError) as fault:
            raise InputError(f"{source} cannot be read: {fault}; check URL and credentials") from fault
    path = Path(source)
    if path.is_dir():
        raise InputError(f"{path} is a directory; name one CSV or Parquet file in it")
    if not path.exists():
        raise InputError(f"{path} does not exist{_neighbours(path)}")
    try:
        return path.read_bytes()
    except OSError as fault:
        raise InputError(f"{path} cannot be read: {fault.strerror or fault}") from fault


def _neighbours(path: Path) -> str:
    if not path.parent.is_dir():
        return f"; neither does its folder {path.parent}"
    same_kind = sorted(other.name for other in path.parent.iterdir() if other.suffix == path.suffix)
    return f"; its folder holds {', '.join(same_kind[:5])}" if same_kind else "; check the path"


def _decompressed(data: bytes, source: str | Path) -> bytes:
    try:
        if data.startswith(b"\x1f\x8b"):
            return gzip.decompress(data)
        if data.startswith(b"BZh"):
            return bz2.decompress(data)
        if data.startswith(b"\xfd7zXZ\x00"):
            return lzma.decompress(data)
        if data.startswith(b"\x28\xb5\x2f\xfd"):
            return pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()
        if data.startswith(_ZIP_MAGIC):
            return _only_member(data, source)
    except (OSError, EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile, RuntimeError) as fault:
        raise InputError(f"{source} is a damaged archive: {fault}; copy or compress it again") from fault
    return data


def _only_member(data: bytes, source: str | Path) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/") and "__MACOSX" not in name]
        if "[Content_Types].xml" in names:
            raise InputError(f"{source} is an Excel workbook (.xlsx); save the sheet as CSV")
        if len(names) != 1:
            raise InputError(f"{source} holds {len(names)} files ({', '.join(names[:5])}); zip one table alone")
        return archive.read(names[0])
