"""How a text table was written: its encoding, its separator, and whether every row fits the header."""

import codecs
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

from charset_normalizer import from_bytes

from priorline.datasets.number_text import is_number_text
from priorline.errors import InputError

SEPARATORS = (",", ";", "\t", "|")

_SAMPLE_CHARACTERS = 262_144
_SAMPLE_RECORDS = 500

# UTF-32 first: its little-endian mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

# Encodings whose letters are mostly non-ASCII; there the statistical guess is dependable, while
# between the western ones it is not (tried: German and French samples came out as cp1250).
_NON_WESTERN = [
    "cp1251", "koi8_r", "cp1253", "cp1255", "cp1256",
    "cp932", "euc_jp", "gb18030", "big5", "cp949",
]  # fmt: skip

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The separator of a text table, and whether a space follows each."""

    separator: str
    space_after_separator: bool = False


def decode_text(data: bytes, name: str, encoding: str | None = None) -> tuple[str, str | None]:
    """Return the text of ``data`` without byte-order mark, and a note when the encoding was guessed.

    A mark wins, then ``encoding``, then UTF-8; what is none of these is told by how non-ASCII
    bytes cluster (western: cp1252) or by charset-normalizer.

    Raises
    ------
    InputError
        If the bytes are no text, or none in the encoding asked for; names the line.
    """
    marked = next((codec for mark, codec in _MARKS if data.startswith(mark)), None)
    chosen = marked or encoding or _unmarked_utf16(data)
    note = None
    if chosen is None and _is_utf8(data, name):
        chosen = "utf-8"
    elif chosen is None:
        chosen = _guess_encoding(data, name)
        note = f"{name} is not UTF-8 and was read as {chosen}; if letters look wrong, give its encoding"
    try:
        text = data.decode(chosen)
    except LookupError as fault:
        raise InputError(f"encoding {chosen!r} is unknown; use a name like 'utf-8' or 'cp1252'") from fault
    except UnicodeDecodeError as fault:
        line = data[: fault.start].count(b"\n") + 1
        raise InputError(
            f"{name} line {line}: byte 0x{data[fault.start]:02x} is not {chosen}; give the right encoding"
        ) from fault
    text = text.lstrip("\ufeff").rstrip("\x1a")
    if len(_CONTROL.findall(text[:_SAMPLE_CHARACTERS])) > 0.001 * len(text[:_SAMPLE_CHARACTERS]):
        raise InputError(f"{name} holds binary data, wanted a text table or Parquet; export it as CSV")
    return text, note


def take_separator_line(text: str) -> tuple[str, str | None]:
    """Return the text without the line ``sep=;`` that Excel writes and reads, and its separator."""
    hint = re.match(r'"?sep=(.)"?[ \t]*(?:\r\n|\r|\n)', text)
    return (text[hint.end() :], hint[1]) if hint else (text, None)


def find_dialect(text: str, name: str) -> Dialect:
    """Return the separator that splits header and rows alike, judged outside quotes."""
    best, best_score = "", (0.0, 0.0, 0)
    for separator in SEPARATORS:
        records = _sample(text, separator)
        width = len(records[0])
        if width > 1:
            fits = sum(len(record) == width for record in records) / len(records)
            fields = [field for record in records[1:] for field in record][:2000]
            numeric = sum(map(is_number_text, fields)) / max(len(fields), 1)
            best, best_score = max((best, best_score), (separator, (fits, numeric, width)), key=lambda c: c[1])
    if not best:
        return _one_column_dialect(text, name)
    padded = [field.startswith(" ") for record in _sample(text, best) for field in record[1:]]
    return Dialect(separator=best, space_after_separator=bool(padded) and all(padded))


def check_records(text: str, dialect: Dialect, name: str) -> tuple[list[str], int]:
    """Return the header and the number of rows after reading every record once.

    Raises
    ------
    InputError
        If a row is longer or shorter than the header (names row and line), or a name occurs twice.
    """
    reader = _records(text, dialect.separator, dialect.space_after_separator)
    header: list[str] = []
    num_rows = line = 0
    try:
        for line, record in reader:
            if not header:
                header = record
            elif len(record) != len(header):
                raise InputError(_ragged(name, num_rows, line, header, record))
            else:
                num_rows += 1
    except csv.Error as fault:
        raise InputError(
            f"{name} after line {line}: {fault}; a quote there has no end, or a cell is over-long"
        ) from fault
    header = [field.replace("\ufeff", "") or f"Unnamed: {place}" for place, field in enumerate(header)]
    repeated = sorted({field for field in header if header.count(field) > 1})
    if repeated:
        raise InputError(f"{name}: column names occur more than once: {repeated}; rename all but one of each")
    return header, num_rows


def _ragged(name: str, row: int, line: int, header: list[str], record: list[str]) -> str:
    remedy = "quote cells that hold the separator, or give the right separator"
    if row == 0 and len(record) == len(header) + 1 and not record[-1]:
        remedy = "if every row ends in a separator, let the header end in one too"
    elif row == 0 and len(record) == len(header) + 1 and len(header) > 1:
        remedy = "if the first field is a row name, give its column a name in the header"
    return (
        f"{name} row {row} (line {line}) has {len(record)} fields, the header has {len(header)} "
        f"({', '.join(header[:4])}{', ...' if len(header) > 4 else ''}); {remedy}"
    )


def _records(text: str, separator: str, skip_space: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, fields) of every record that is not blank, as pandas counts them."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=skip_space)
    for record in reader:
        # A blank line gives [], a lone "" (a missing cell of a one-column table) gives [""].
        if len(record) > 1 or (record and (record[0] == "" or record[0].strip())):
            yield reader.line_num, record


def _sample(text: str, separator: str) -> list[list[str]]:
    records: list[list[str]] = []
    try:
        for _, record in _records(text[:_SAMPLE_CHARACTERS], separator):
            records.append(record)
            if len(records) == _SAMPLE_RECORDS:
                return records
    except csv.Error:
        # An unclosed quote; `check_records` tells where. What was read before it decides.
        return records or [[""]]
    if len(text) > _SAMPLE_CHARACTERS and len(records) > 2:
        records.pop()
    return records or [[""]]


def _one_column_dialect(text: str, name: str) -> Dialect:
    """Return a dialect for a header of one name; rows that clearly hold more keep their separator."""
    rows = [record for record in _sample(text, ",")[1:] if record]
    if max(map(len, rows), default=1) > 1:
        # Decimal commas without quotes: `price`, `1,69`, `0,47`. Anything else is ragged.
        decimals = all(len(record) <= 2 and is_number_text(",".join(record)) for record in rows)
        return Dialect(separator="\t" if decimals else ",")
    for separator in SEPARATORS[1:]:
        others = _sample(text, separator)[1:]
        if others and all(len(record) > 1 for record in others):
            return Dialect(separator=separator)
    columns = len(text.lstrip().split("\n", 1)[0].split())
    tokens = [record[0].split() for record in rows]
    numeric = sum(is_number_text(token) for row in tokens for token in row)
    if rows and columns > 1 and all(len(row) == columns for row in tokens) and 2 * numeric > columns * len(rows):
        raise InputError(f"{name} seems to be separated by spaces; give separator=' '")
    return Dialect(separator=",")


def _is_utf8(data: bytes, name: str) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as fault:
        decoded = data.decode("utf-8", errors="replace")
        good = sum(character > "\x7f" for character in decoded) - decoded.count("\ufffd")
        if good and good >= decoded.count("\ufffd"):
            line = data[: fault.start].count(b"\n") + 1
            raise InputError(
                f"{name} line {line}: byte 0x{data[fault.start]:02x} breaks UTF-8 in a file that "
                "else is UTF-8; repair the line, or give an encoding"
            ) from fault
        return False
    return True


def _unmarked_utf16(data: bytes) -> str | None:
    sample = data[:4096]
    half = len(sample) // 2
    if sample[1::2].count(0) > 0.7 * half and sample[::2].count(0) < 0.1 * half:
        return "utf-16-le"
    if sample[::2].count(0) > 0.7 * half and sample[1::2].count(0) < 0.1 * half:
        return "utf-16-be"
    return None


def _guess_encoding(data: bytes, name: str) -> str:
    sample = data[:_SAMPLE_CHARACTERS]
    if b"\x00" in sample:
        raise InputError(f"{name} holds binary data, wanted a text table or Parquet; export it as CSV")
    runs = re.findall(rb"[\x80-\xff]+", sample)
    clustered = sum(len(run) for run in runs if len(run) > 2)
    # Bytes that cp1252 leaves undefined: a DOS or Mac encoding, which nothing here can tell apart.
    if clustered < 0.5 * sum(map(len, runs)) and not re.search(rb"[\x81\x8d\x8f\x90\x9d]", data):
        return "cp1252"
    match = from_bytes(sample, cp_isolation=_NON_WESTERN).best()
    if match is None:
        raise InputError(f"{name} is in no known encoding; name it (such as 'cp850'), or export as UTF-8")
    return match.encoding
