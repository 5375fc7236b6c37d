import bz2
import gzip
import io
import lzma
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from priorline.datasets.tabular import read_table, write_table
from priorline.errors import InputError

PLAIN = "size,colour\n1.5,blue\n2,green\n,red\n"


def put(tmp_path, content, name="table.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def zstd(data):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_separator_and_line_end_are_found(tmp_path, separator, line_end):
    path = put(tmp_path, PLAIN.replace(",", separator).replace("\n", line_end))
    frame = read_table(path)
    assert list(frame.columns) == ["size", "colour"]
    assert frame["size"].tolist()[:2] == [1.5, 2.0]
    assert frame["size"].isna().tolist() == [False, False, True]
    assert frame["colour"].tolist() == ["blue", "green", "red"]


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: text.encode("utf-8"),
        lambda text: text.encode("utf-8-sig"),
        lambda text: b"\xef\xbb\xbf" + text.encode("utf-8-sig"),
        lambda text: text.encode("utf-16"),
        lambda text: text.encode("utf-16-le"),
        lambda text: text.encode("utf-16-be"),
        lambda text: text.encode("utf-32"),
        lambda text: text.encode("cp1252"),
        lambda text: text.encode("latin-1"),
    ],
)
def test_encoding_is_found_and_no_mark_stays_in_a_name(tmp_path, encode):
    text = "Gr\u00f6\u00dfe;Farbe\n1,5;gr\u00fcn\n2,5;wei\u00df\n"
    frame = read_table(put(tmp_path, encode(text)))
    assert list(frame.columns) == ["Gr\u00f6\u00dfe", "Farbe"]
    assert frame["Gr\u00f6\u00dfe"].tolist() == [1.5, 2.5]
    assert frame["Farbe"].tolist() == ["gr\u00fcn", "wei\u00df"]


def test_a_guessed_encoding_is_noted_and_can_be_given(tmp_path):
    cyrillic = (
        "\u0438\u043c\u044f,\u0433\u043e\u0440\u043e\u0434\n"
        + "\u0418\u0432\u0430\u043d,\u041c\u043e\u0441\u043a\u0432\u0430\n" * 9
    )
    path = put(tmp_path, cyrillic.encode("cp1251"))
    guessed, given = read_table(path), read_table(path, encoding="cp1251")
    assert "cp1251" in guessed.attrs["notes"][0]
    assert given.attrs["notes"] == []
    pd.testing.assert_frame_equal(guessed, given)


@pytest.mark.parametrize(
    "pack",
    [
        gzip.compress,
        bz2.compress,
        lzma.compress,
        zstd,
        lambda data: zipped(**{"a/t.csv": data, "__MACOSX/t": b""}),
    ],
)
def test_compression_is_told_by_content_whatever_the_suffix(tmp_path, pack):
    plain = read_table(put(tmp_path, PLAIN))
    pd.testing.assert_frame_equal(read_table(put(tmp_path, pack(PLAIN.encode()), "packed.dat")), plain)


def test_quoted_cells_may_hold_separators_quotes_and_line_ends(tmp_path):
    path = put(tmp_path, 'name,"price, net",note\n"a, b",1,"two\nlines"\nc,2,"say ""hi"""\nd,3,plain; text\n')
    frame = read_table(path)
    assert list(frame.columns) == ["name", "price, net", "note"]
    assert frame["note"].tolist() == ["two\nlines", 'say "hi"', "plain; text"]
    assert frame["name"].tolist() == ["a, b", "c", "d"]


def test_names_are_kept_as_given(tmp_path):
    names = [
        "price [EUR]",
        "weight<10",
        "distance, km",
        " lead space ",
        'say "hi"',
        "\u0414\u043b\u044f",
        "a.1",
    ]
    frame = pd.DataFrame([range(7)] * 3, columns=names)
    write_table(frame, tmp_path / "t.csv")
    assert list(read_table(tmp_path / "t.csv").columns) == names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x\n1\n2\n", [1, 2]),
        ("x\n1,69\n0,5\n", [1.69, 0.5]),
        ("x\nfoo\nbar\n", ["foo", "bar"]),
        ('x\n1\n""\n3\n\n', [1, None, 3]),
        ("\ufeffx\r\n7\r\n", [7]),
    ],
)
def test_a_table_of_one_column_is_read(tmp_path, text, expected):
    cells = read_table(put(tmp_path, text))["x"]
    assert [None if pd.isna(cell) else cell for cell in cells] == expected


def test_thousands_currency_and_percent_become_numbers(tmp_path):
    text = (
        "platelets,income,euro,swiss,rate,loss\n"
        '"265,000","$ 1,234.50","1.234,50 EUR",1\'234.5,10.5%,"(1,200)"\n'
        '"1,265,000","-$2,000","7,5 EUR",12.0,7%,15\n'
    )
    frame = read_table(put(tmp_path, text))
    assert frame["platelets"].tolist() == [265000, 1265000]
    assert frame["platelets"].dtype == np.int64
    assert frame["income"].tolist() == [1234.5, -2000.0]
    assert frame["euro"].tolist() == [1234.5, 7.5]
    assert frame["swiss"].tolist() == [1234.5, 12.0]
    assert frame["rate"].tolist() == [10.5, 7.0]
    assert frame["loss"].tolist() == [-1200, 15]
    assert any("platelets" in note for note in frame.attrs["notes"])


def test_an_open_mark_is_settled_by_the_other_columns(tmp_path):
    german = read_table(put(tmp_path, "a;b;c\n1,5;1.234;2.000,00\n2,25;2.345;17,10\n"))
    assert german["a"].tolist() == [1.5, 2.25]
    assert german["b"].tolist() == [1234, 2345]
    assert german["c"].tolist() == [2000.0, 17.1]
    english = read_table(put(tmp_path, "a;b\n1.234;x\n2.345;y\n"))
    assert english["a"].tolist() == [1.234, 2.345], "a semicolon alone turns no plain number into thousands"
    given = read_table(put(tmp_path, 'a,b\n"1,234",x\n"2,345",y\n'), decimal=",")
    assert given["a"].tolist() == [1.234, 2.345]


def test_identifiers_and_words_stay_what_they_are(tmp_path):
    text = (
        "id,long,code,words,flag,sometimes,dependents,ip\n"
        "1001,123456789012345678901234,A-1,1 to 2,True,true,0,1.2.3.4\n"
        "1002,223456789012345678901234,A-2,none today,False,,3+,10.0.0.1\n"
    )
    frame = read_table(put(tmp_path, text))
    assert frame["id"].dtype == np.int64
    assert frame["long"].tolist()[0] == "123456789012345678901234"
    assert frame["flag"].dtype == bool
    assert frame["sometimes"].dtype == "boolean"
    for name in ("long", "code", "words", "dependents", "ip"):
        assert pd.api.types.is_string_dtype(frame[name]), name


def test_infinite_numbers_are_read_as_numbers(tmp_path):
    frame = read_table(put(tmp_path, "x\n1.5\ninf\n-Infinity\n"))
    assert frame["x"].tolist() == [1.5, np.inf, -np.inf]


def test_excel_leftovers_are_read_past(tmp_path):
    frame = read_table(put(tmp_path, "sep=;\r\na;b;\r\n1;x;\r\n2;y;\r\n\r\n   \r\n\x1a"))
    assert list(frame.columns) == ["a", "b"]
    assert len(frame) == 2
    spaced = read_table(put(tmp_path, 'a, b\n1, "x, y"\n2, z\n'))
    assert list(spaced.columns) == ["a", "b"]
    assert spaced["b"].tolist() == ["x, y", "z"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,b\n", "a header and no rows"),
        (b"a,b\n1,2\n3\n", r"row 1 \(line 3\) has 1 fields, the header has 2"),
        (b"a,b\n1,2\n3,4,5\n", r"row 1 \(line 3\) has 3 fields"),
        (b"a,b\n1,2,3\n4,5,6\n", "row name"),
        (b"a,b\n1,2,\n3,4,\n", "let the header end in one too"),
        (b"a\n1;2\n3;4\n", "has 2 fields, the header has 1"),
        (b"a b c\n1 2 3\n4 5 6\n", "separator=' '"),
        (b"a,b,a\n1,2,3\n", r"more than once: \['a'\]"),
        (b'a,b\n1,"2\n3,4\n', "quote"),
        (bytes(range(256)) * 40, "binary data"),
        (b"a,b\n" + b"\x00\x01\x02,1\n" * 9, "binary data"),
        (
            "a,b\n1,gr\u00fcn wei\u00df\n2,h\u00f6her\n".encode() + b"3,\xff\xfe\n",
            "line 4: byte 0xff breaks UTF-8",
        ),
        (b"<!DOCTYPE html><html></html>", "web page"),
        (b'[{"a": 1}]', "JSON"),
        (b"\x80\x04\x95garbage", "pickle"),
        (gzip.compress(b"a,b\n1,2\n" * 50)[:20], "damaged archive"),
        (zipped(**{"a.csv": "a\n1\n", "b.csv": "a\n1\n"}), "holds 2 files"),
        (zipped(**{"[Content_Types].xml": "", "xl/workbook.xml": ""}), "Excel"),
        ("a,b\n1,f\u00fcr\n2,Stra\u00dfe\n".encode("cp850"), "no known encoding"),
        (b"PAR1 is all there is", "damaged or no Parquet"),
    ],
)
def test_what_is_no_table_is_refused_with_place_and_remedy(tmp_path, content, message):
    path = put(tmp_path, content)
    with pytest.raises(InputError, match=message) as caught:
        read_table(path)
    assert "table.csv" in str(caught.value)


def test_missing_file_and_directory_are_refused(tmp_path):
    put(tmp_path, PLAIN, "titanic.csv")
    with pytest.raises(InputError, match=r"does not exist; its folder holds titanic\.csv"):
        read_table(tmp_path / "titanik.csv")
    with pytest.raises(InputError, match="is a directory"):
        read_table(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        read_table("nosuchscheme://bucket/t.csv")


def test_options_given_win(tmp_path):
    path = put(tmp_path, "a b\n1 2\n3 4\n")
    assert read_table(path, separator=" ")["b"].tolist() == [2, 4]
    with pytest.raises(InputError, match=r"line 2: byte 0xc3 is not ascii"):
        read_table(put(tmp_path, "a\n\u00fc\n"), encoding="ascii")
    with pytest.raises(InputError, match="unknown"):
        read_table(path, encoding="utf-99")
    assert read_table(put(tmp_path, "a,b\n"), min_rows=0).empty


def test_fsspec_urls_are_read(tmp_path):
    path = put(tmp_path, PLAIN)
    pd.testing.assert_frame_equal(read_table(f"file://{path}"), read_table(path))


def test_parquet_keeps_nullable_types_and_named_index(tmp_path):
    frame = pd.DataFrame(
        {
            "age": pd.array([1, None, 3], dtype="Int64"),
            "member": pd.array([True, None, False], dtype="boolean"),
            "colour": pd.array(["red", None, "blue"], dtype="string"),
        },
        index=pd.Index(["x", "y", "z"], name="key"),
    )
    frame.to_parquet(tmp_path / "t.parquet")
    read = read_table(tmp_path / "t.parquet")
    assert list(read.columns) == ["key", "age", "member", "colour"]
    assert [str(dtype) for dtype in read.dtypes[1:]] == ["Int64", "boolean", "string"]
    pd.DataFrame({"x": [[1], [2, 3]]}).to_parquet(tmp_path / "lists.parquet")
    with pytest.raises(InputError, match="column 'x' holds lists"):
        read_table(tmp_path / "lists.parquet")


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.csv.zip", "t.csv.bz2", "t.csv.xz", "t.parquet"])
def test_what_is_written_is_read_back(tmp_path, name):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"x": rng.normal(size=50) * 1e9, "n": range(50), "s": ["a, b", 'q"', "l\n", None, "\u00fc"] * 10}
    )
    write_table(frame, tmp_path / "new" / name)
    pd.testing.assert_frame_equal(read_table(tmp_path / "new" / name), frame, check_exact=True)
    assert [path.name for path in (tmp_path / "new").iterdir()] == [name]


def test_a_failed_write_leaves_the_old_file_whole(tmp_path):
    path = tmp_path / "t.parquet"
    write_table(pd.DataFrame({"x": [1]}), path)
    with pytest.raises(InputError, match="one type"):
        write_table(pd.DataFrame({"x": [1, "one"]}), path)
    assert read_table(path)["x"].tolist() == [1]
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(InputError, match="suffix"):
        write_table(pd.DataFrame({"x": [1]}), tmp_path / "t.xlsx")
