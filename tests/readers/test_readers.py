"""Readers: the same chunks however bytes arrive, and one clear error for what cannot be read."""

import bz2
import gzip
import io
import json
import lzma
import os
import re
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file

from counterpoise.encoding.columns import Columns
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.encoding.kinds import CYCLE_NAMES
from counterpoise.errors import DataError
from counterpoise.readers import ReadPosition, source
from counterpoise.readers.chunk import Chunk, prefetch
from counterpoise.readers.delimited import DelimitedText
from counterpoise.readers.formats import expand_paths
from counterpoise.readers.jsonlines import Elements
from counterpoise.readers.text_source import TextSource


def chunks(path, rows=4, after=None, wanted=lambda name: True, kinds=None, **options):
    opened = source(str(path), **options)
    return list(opened.chunks(rows, after or ReadPosition(), kinds or {}, wanted))


def values(found, name):
    return [value for chunk in found for value in chunk.columns[name].to_pylist()]


def encode_input(path, label="y", rows=4, **columns):
    """Return all rows of an input, encoded as they are learned, and the encoding."""
    encoding, parts, labels = ColumnEncoder(Columns(label, **columns)), [], []
    for chunk in source(str(path)).chunks(rows, ReadPosition(), {}, encoding.columns.is_needed):
        found, encoding = encoding.learn(chunk)
        parts.append(found.X if isinstance(found.X, np.ndarray) else found.X.toarray())
        labels += found.y.tolist()
    X = np.zeros((len(labels), len(encoding.features)))
    at = 0
    for part in parts:
        X[at : at + len(part), : part.shape[1]] = part
        at += len(part)
    return X, labels, encoding


def names(encoding):
    return [feature.name for feature in encoding.features]


def write_text_file(path, text):
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


TABLE = {"a": [1.0, 2.5, -3.0, 4.0, 5.0], "b": ["x", "y", "x", "z", "y"], "y": [0, 1, 0, 1, 1]}


def write_table(path):
    """Write TABLE in the format of the file name."""
    table, name = pa.table(TABLE), path.name
    for ending in PACKED:
        name = name.removesuffix(ending)
    if name.endswith((".csv", ".tsv")):
        delimiter = "," if name.endswith(".csv") else "\t"
        pa.csv.write_csv(table, path, pa.csv.WriteOptions(delimiter=delimiter))
        data = path.read_bytes()
    elif name.endswith(".jsonl"):
        data = "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()
    elif name.endswith(".json"):
        data = json.dumps(table.to_pylist(), indent=1).encode()
    elif name.endswith(".parquet"):
        pa.parquet.write_table(table, path, row_group_size=2)
        return
    elif name.endswith(".feather"):
        pa.feather.write_feather(table, path, chunksize=2)
        return
    else:
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
        return
    path.write_bytes(PACKED.get(path.suffix, lambda data: data)(data))


def zip_data(data, *names):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/", b"")
        for name in names or ["t.csv"]:
            archive.writestr(f"folder/{name}", data)
    return out.getvalue()


PACKED = {
    ".gz": gzip.compress,
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zip": zip_data,
}


@pytest.mark.parametrize(
    "name",
    [
        "t.csv", "t.tsv", "t.jsonl", "t.csv.gz", "t.jsonl.gz", "t.csv.zst", "t.tsv.zst",
        "t.csv.bz2", "t.csv.xz", "t.jsonl.zip", "t.json", "t.json.gz", "t.json.xz",
        "t.parquet", "t.feather", "t.arrow",
    ],
)  # fmt: skip
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 9])
def test_every_format_gives_the_same_rows(tmp_path, name, rows):
    write_table(tmp_path / name)
    X, y, encoding = encode_input(tmp_path / name, rows=rows)
    assert y == TABLE["y"]
    order = [names(encoding).index(f) for f in ("a", "b=x", "b=y", "b=z")]
    one_hot = [[float(b == c) for c in "xyz"] for b in TABLE["b"]]
    np.testing.assert_array_equal(X[:, order], np.column_stack([TABLE["a"], one_hot]))


def test_libsvm_gives_what_scikit_learn_wrote(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 7)).round(3) * (rng.random((50, 7)) < 0.5)
    y = rng.integers(0, 2, 50) * 2 - 1
    dump_svmlight_file(X, y, str(tmp_path / "t.svm"), zero_based=False, comment="hello")
    found, labels, encoding = encode_input(tmp_path / "t.svm", label="label", rows=8)
    assert labels == y.tolist()
    np.testing.assert_array_equal(
        found[:, [names(encoding).index(str(j + 1)) for j in range(7)]], X
    )


@pytest.mark.slow
@given(st.lists(st.integers(1, 40), min_size=1), st.integers(1, 7))
def test_cuts_do_not_depend_on_how_bytes_arrive(sizes, rows):
    text = "a,b\n" + "".join(f'{i},"x\n""{i}"\n\n' if i % 3 else f'{i},5" z\r\n' for i in range(40))
    data = text.encode()
    reader, writer = os.pipe()

    def write():
        at, turn = 0, 0
        while at < len(data):
            at += os.write(writer, data[at : at + sizes[turn % len(sizes)]])
            turn += 1
        os.close(writer)

    thread = threading.Thread(target=write)
    thread.start()
    found = list(
        TextSource(f"/dev/fd/{reader}", "pipe", DelimitedText()).chunks(
            rows, ReadPosition(), {}, lambda name: True
        )
    )
    thread.join()
    os.close(reader)
    assert [chunk.rows for chunk in found] == [rows] * (40 // rows) + [40 % rows] * bool(40 % rows)
    assert values(found, "a") == [str(i) for i in range(40)]
    assert values(found, "b")[:3] == ['5" z', 'x\n"1', 'x\n"2']


@pytest.mark.parametrize(
    "name",
    [
        "t.csv", "t.csv.gz", "t.csv.bz2", "t.csv.xz", "t.csv.zip", "t.jsonl", "t.json",
        "t.json.bz2", "t.parquet", "t.feather",
    ],
)  # fmt: skip
def test_reading_goes_on_after_a_mark(tmp_path, name):
    write_table(tmp_path / name)
    whole = chunks(tmp_path / name, 2)
    for k, chunk in enumerate(whole):
        rest = chunks(tmp_path / name, 2, after=chunk.mark)
        assert [c.mark for c in rest] == [c.mark for c in whole[k + 1 :]]
        assert [c.columns for c in rest] == [c.columns for c in whole[k + 1 :]]


def test_a_mark_knows_what_it_has_seen(tmp_path):
    path = write_text_file(tmp_path / "t.csv", "a,y\n1,0\n2,1\n3,0\n4,1\n")
    mark = chunks(path, 2)[0].mark
    for text in ("a,y\n1,0\n2,0\n3,0\n", "a,y\n1,0\n", "b,y\n1,0\n2,1\n3,0\n", ""):
        with pytest.raises(DataError, match="has changed"):
            chunks(write_text_file(path, text), 2, after=mark)
    # A last row without a line end may get one, and nothing else.
    mark = chunks(write_text_file(path, "a,y\n1,0\n2,1"), 2)[0].mark
    assert values(chunks(write_text_file(path, "a,y\n1,0\n2,1\n3,0"), 2, after=mark), "a") == ["3"]
    with pytest.raises(DataError, match="has changed"):
        chunks(write_text_file(path, "a,y\n1,0\n2,12\n3,0\n"), 2, after=mark)


def test_a_parquet_file_that_was_written_again_with_more_rows_goes_on(tmp_path):
    path = tmp_path / "t.parquet"
    pa.parquet.write_table(pa.table({"a": [1, 2, 3], "b": ["x", None, "y"]}), path)
    mark = chunks(path, 2)[-1].mark
    longer = {"a": [1, 2, 3, 4], "b": ["x", None, "y", "z"]}
    pa.parquet.write_table(pa.table(longer), path, row_group_size=1, compression="zstd")
    assert values(chunks(path, 2, after=mark), "a") == [4.0]
    longer["b"][1] = ""
    pa.parquet.write_table(pa.table(longer), path)
    with pytest.raises(DataError, match="has changed"):
        chunks(path, 2, after=mark)


@pytest.mark.slow
def test_an_integer_column_turns_to_fractions_late(tmp_path):
    lines = ["1,0\n"] * 200_000 + ["1.5,1\n"]
    X, _, encoding = encode_input(
        write_text_file(tmp_path / "t.csv", "a,y\n" + "".join(lines)), rows=8192
    )
    assert names(encoding) == ["a"]
    assert X[-1, 0] == 1.5
    assert X[:-1].max() == 1.0


@pytest.mark.slow
def test_a_column_may_be_empty_for_two_megabytes(tmp_path):
    rows = 2_200_000 // 12
    text = "a,b,c,y\n" + "1,,,0\n" * rows + "2,7.5,red,1\n"
    X, _, encoding = encode_input(
        write_text_file(tmp_path / "t.csv", text), rows=8192, missing="indicate"
    )
    assert encoding.kinds == {"a": "number", "b": "number", "c": "category"}
    last = dict(zip(names(encoding), X[-1], strict=True))
    assert last == {"a": 2, "b is missing": 0, "c is missing": 0, "b": 7.5, "c=red": 1}
    assert X[:-1, names(encoding).index("b is missing")].all()


def test_a_json_field_may_come_in_the_last_row(tmp_path):
    lines = ['{"a": 1, "y": "n"}'] * 30_000 + ['{"a": 2, "b": 0.5, "c": "x", "y": "p"}']
    X, y, encoding = encode_input(
        write_text_file(tmp_path / "t.jsonl", "\n".join(lines)), rows=8192
    )
    assert names(encoding) == ["a", "b", "c=x"]
    assert y[-1] == "p"
    assert X[-1].tolist() == [2, 0.5, 1]
    assert not X[:-1, 1:].any()


def test_in_json_what_a_row_lacks_is_zero_and_null_is_missing(tmp_path):
    text = '{"a": 1, "y": 0}\n{"b": "u", "y": 1}\n{"a": 3, "b": null, "y": 1}\n'
    path = write_text_file(tmp_path / "t.jsonl", text)
    with pytest.raises(DataError, match=r"row 3: no value in column 'b'.*missing=.drop"):
        encode_input(path, missing="error")
    X, _, encoding = encode_input(path, missing="indicate")
    assert names(encoding) == ["a", "b=u", "b is missing"]
    assert X.tolist() == [[1, 0, 0], [0, 1, 0], [3, 0, 1]]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_missing_values(tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    if ending == "csv":
        write_text_file(path, "a,b,y\n1,u,0\n,v,1\n3,,1\n4,u,0\n")
    else:
        rows = [(1, "u", 0), (None, "v", 1), (3, None, 1), (4, "u", 0)]
        text = "".join(json.dumps(dict(zip("aby", row, strict=True))) + "\n" for row in rows)
        write_text_file(path, text)
    with pytest.raises(DataError, match=r"row 2: no value in column 'a'"):
        encode_input(path, missing="error")
    X, y, encoding = encode_input(path, missing="drop")
    assert (names(encoding), y) == (["a", "b=u"], [0, 0])  # nothing was learned from rows 2 and 3
    X, y, encoding = encode_input(path, missing="indicate")
    by_name = {name: X[:, j].tolist() for j, name in enumerate(names(encoding))}
    assert by_name["a"] == [1, 0, 3, 4]
    assert by_name["a is missing"] == [0, 1, 0, 0]
    assert by_name["b is missing"] == [0, 0, 1, 0]
    assert by_name["b=u"] == [1, 0, 0, 1]


def test_a_missing_label_cannot_be_indicated(tmp_path):
    path = write_text_file(tmp_path / "t.csv", "a,y\n1,0\n2,\n")
    with pytest.raises(DataError, match=r"row 2: no label in column 'y'.*drop the row"):
        encode_input(path, missing="indicate")
    assert encode_input(path, missing="drop")[1] == [0]


def test_columns_are_what_somebody_says(tmp_path):
    text = "id,code,when,town,a,y\n7,1,2024-01-01,A,1,0\n8,2,2024-01-02 00:00:10,B,2,1\n"
    path = write_text_file(tmp_path / "t.csv", text)
    encoding = encode_input(path)[2]
    assert encoding.kinds["when"] == "datetime"
    assert [f.value for f in encoding.features if f.kind == "cycle"] == list(CYCLE_NAMES)
    X, _, encoding = encode_input(
        path, roles={"id": "drop", "code": "category", "when": "epoch", "town": "hash:4"}
    )
    found = dict(zip(names(encoding), X.T.tolist(), strict=True))
    assert found["code=1"] == [1, 0]
    assert found["a"] == [1, 2]
    assert found["when"] == [1704067200.0, 1704153610.0]
    assert sum(name.startswith("town#") for name in found) in (1, 2)
    X, _, encoding = encode_input(path, only=("a",))
    assert names(encoding) == ["a"]
    with pytest.raises(
        DataError, match=r"has no column 'idd', named by .*drop.*; it has 'id', 'code'"
    ):
        encode_input(path, roles={"idd": "drop"})


def test_time_as_parquet_has_it(tmp_path):
    path = tmp_path / "t.parquet"
    when = pa.array([0, 86_400_000], pa.timestamp("ms"))
    day = pa.array([0, 1], pa.date32())
    took = pa.array([1, 2_500_000], pa.duration("us"))
    table = pa.table({"when": when, "day": day, "took": took, "y": [True, False]})
    pa.parquet.write_table(table, path)
    kinds = encode_input(path)[2].kinds
    assert kinds == {
        "when": "datetime",
        "day": "datetime",
        "took": "epoch",
    }  # a span has no place in a day
    X, y, _ = encode_input(path, roles=dict.fromkeys(("when", "day", "took"), "epoch"))
    assert X.tolist() == [[0, 0, 1e-6], [86400, 86400, 2.5]]
    assert y == ["true", "false"]


def test_too_many_categories_name_the_way_out(tmp_path):
    rows = "".join(f"k{i},{i % 2}\n" for i in range(1001))
    path = write_text_file(tmp_path / "t.csv", "name,y\n" + rows)
    with pytest.raises(
        DataError,
        match=r"more than 1,000 categories.*columns=..name.: .hash:256.*columns=..name.: .drop",
    ):
        encode_input(path, rows=100)
    X, _, encoding = encode_input(path, rows=100, roles={"name": "hash:16"})
    assert len(encoding.features) == 16
    assert (X.sum(axis=1) == 1).all()


def test_hashing_is_that_of_the_seed(tmp_path):
    rows = "".join(f"k{i},{i % 2}\n" for i in range(50))
    path = write_text_file(tmp_path / "t.csv", "name,y\n" + rows)
    one, two, other = (
        encode_input(path, roles={"name": "hash:8"}, seed=seed)[0] @ np.arange(8)
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, two)
    assert (one != other).any()


BAD = {
    "cell": ("t.csv", "a,y\n1,0\n2,1\nx7,1\n", r"csv, row 3: column 'a' contains 'x7'.*a.: .drop"),
    "infinite": ("t.csv", "a,y\n1,0\ninf,1\n", r"row 2: column 'a' is inf"),
    "huge": ("t.csv", "a,y\n1,0\n1e200,1\n", r"row 2: column 'a' is 1e\+200"),
    "few fields": ("t.csv", "a,y\n1,0\n2\n3,1\n", r"row 2: 1 fields, expected 2: '2'"),
    "many fields": ("t.csv", "a,y\n1,0\n2,3,4\n", r"row 2: 3 fields, expected 2"),
    "open quote": ("t.csv", 'a,y\n1,0\n"2,1\n3,0\n', "row 2: a quote is opened and never closed"),
    "latin": ("t.csv", b"a,y\n1,0\n\xe9,1\n", r"row 2, column 'a': b'\\xe9' is not UTF-8"),
    "latin header": ("t.csv", b"\xe9,y\n1,0\n", "header is not UTF-8.*iconv"),
    "utf-16": ("t.csv", "a,y\n1,0\n".encode("utf-16"), "is UTF-16 text.*iconv"),
    "twice": ("t.csv", "a,a,y\n1,2,0\n", "two columns are called 'a'"),
    "semicolons": ("t.csv", "a;y\n1;0\n", "try delimiter=.;"),
    "no label": ("t.csv", "a,b\n1,0\n", "has no column 'y', named by label; it has 'a', 'b'"),
    "label 1.5": ("t.csv", "a,y\n1,0\n2,1.5\n", "row 2: label 1.5 in column 'y' is not an integer"),
    "json": ("t.jsonl", '{"a":1,"y":0}\n{"a":\n', "row 2: not a JSON object"),
    "json list": ("t.jsonl", '{"a":1,"y":0}\n[1]\n', "row 2: expected a JSON object"),
    "json twice": ("t.jsonl", '{"a":1,"a":2,"y":0}\n', "row 1: .*field 'a' occurs twice"),
    "json nested": ("t.jsonl", '{"a":{"b":1},"y":0}\n', r"row 1, column 'a': nested.*a.: .drop"),
    "json deep": ("t.jsonl", '{"a":' + "[" * 10_000 + "\n", "row 1: nested deeper than 64"),
    "json text": ("t.jsonl", '{"a":1,"y":0}\n{"a":"u","y":1}\n', None),
    "json latin": ("t.jsonl", b'{"a":"\xe9","y":0}\n', "row 1: not a JSON object"),
    "svm": ("t.svm", "1 1:2\n0 1:x\n", r"row 2: '0 1:x' cannot be read"),
    "svm from 0": ("t.svm", "1 0:2\n", "row 1"),
    "parquet": ("t.parquet", b"PAR1 no PAR1", "t.parquet cannot be read"),
    "arrow": ("t.arrow", b"ARROW1 no", "t.arrow cannot be read"),
    "what": ("t.what", "a", "does not show the format.*with format"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_read_says_where_and_why(tmp_path, case, monkeypatch):
    name, text, message = BAD[case]
    monkeypatch.chdir(tmp_path)
    path = write_text_file(tmp_path / name, text)
    if message is None:  # in JSON a column of numbers and text is text
        assert names(encode_input(path)[2]) == ["a=1", "a=u"]
        return
    with pytest.raises(DataError, match=message):
        encode_input(name, label="label" if name.endswith("svm") else "y", rows=2)


def test_a_bad_cell_is_found_in_any_chunk(tmp_path):
    rows = [f"{i},0\n" for i in range(1000)]
    rows[777] = "oops,1\n"
    path = write_text_file(tmp_path / "t.csv", "a,y\n" + "".join(rows))
    with pytest.raises(DataError, match="row 778: column 'a' contains 'oops'"):
        encode_input(path, rows=64)


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".gz", ".zst", ".bz2", ".xz"])
def test_a_truncated_file_is_not_a_short_file(tmp_path, ending):
    text = ("a,y\n" + "1,0\n2,1\n" * 20_000).encode()
    data = PACKED[ending](text)
    path = tmp_path / f"t.csv{ending}"
    for cut in (len(data) - 1, len(data) - 5, len(data) // 2, 12 if ending == ".bz2" else 6):
        path.write_bytes(data[:cut])
        with pytest.raises(DataError, match="compressed and damaged or cut off"):
            chunks(path, 100)


@pytest.mark.parametrize("ending", [".bz2", ".xz"])
def test_streams_one_after_the_other_are_one(tmp_path, ending):
    path, pack = tmp_path / f"t.csv{ending}", PACKED[ending]
    between = b"\0" * 8 if ending == ".xz" else b""
    path.write_bytes(pack(b"a,y\n1,0\n2") + between + pack(b",1\n3,0\n") + between)
    assert values(chunks(path, 2), "a") == ["1", "2", "3"]
    path.write_bytes(pack(b"a,y\n1,0\n2,1\n") + b"garbage, or a damaged stream")
    with pytest.raises(DataError, match="compressed and damaged"):
        chunks(path, 2)


def test_text_may_begin_like_compressed_data(tmp_path):
    for name in ("BZh", "BZh9", "BZh91AY", "PK", "PK\x03", "B"):
        path = write_text_file(tmp_path / "t.csv", f"{name},y\n1,0\n")
        assert list(chunks(path, 2)[0].columns) == [name.strip(), "y"]


def test_zip_archives_hold_one_file(tmp_path):
    path, rows = tmp_path / "t.csv.zip", b"a,y\n" + b"1,0\n2,1\n" * 20_000
    path.write_bytes(zip_data(rows, "one.csv", "two.csv"))
    with pytest.raises(DataError, match=r"of 2 files \(folder/one.csv, folder/two.csv\), and"):
        chunks(path, 2)
    path.write_bytes(zip_data(rows))
    assert sum(chunk.rows for chunk in chunks(path, 1000)) == 40_000
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0x55
    path.write_bytes(data)
    with pytest.raises(DataError, match="damaged"):
        chunks(path, 1000)
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError, match="zip archive that cannot be read"):
        chunks(path, 1000)
    reader, writer = os.pipe()
    os.write(writer, zip_data(b"a,y\n1,0\n"))
    os.close(writer)
    before = os.dup(0)
    os.dup2(reader, 0)
    try:
        with pytest.raises(DataError, match="is a zip archive, whose index is at the end"):
            list(source("-", "csv").chunks(2, ReadPosition(), {}, lambda name: True))
    finally:
        os.dup2(before, 0)
        for number in (before, reader):
            os.close(number)


ELEMENTS = [
    {"a": 1, "b": 'x "y" \\ [', "y": 0},
    {"a": 2.5, "b": "\n{é", "y": 1},
    {"a": None, "c": [1, {"d": "]"}], "y": 1},
    {},
]


@pytest.mark.slow
@given(st.lists(st.integers(1, 9), min_size=1), st.sampled_from([None, 0, 3]), st.booleans())
def test_an_array_is_its_elements_however_it_arrives(sizes, indent, mark):
    data = b"\xef\xbb\xbf" * mark + b" \n" + json.dumps(ELEMENTS, indent=indent).encode() + b"\n"

    class Slowly:
        name, at, turn = "slowly", 0, 0

        def read(self, most):
            size = sizes[self.turn % len(sizes)]
            self.turn += 1
            part = data[self.at : self.at + size]
            self.at += size
            return part

    elements, read = Elements(Slowly()), b""
    while part := elements.read(1 << 20):
        read += part
    assert [json.loads(line) for line in read.splitlines()] == ELEMENTS
    assert elements.read(1 << 20) == b""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"y": 1}, {"y": 2}', "at element 3 of the JSON array: the array is cut off"),
        ('[{"y": 1}, {"y": ', "at element 2 of the JSON array: the array is cut off"),
        ('[{"y": 1}] {"y": 2}', "something follows the end"),
        ('[{"y": 1} {"y": 2}]', "a comma belongs between two elements"),
        ('[{"y": 1},, {"y": 2}]', "a comma belongs between two elements"),
        ('[{"y": 1},]', "a comma belongs between two elements"),
        ('[{"y": 1}, 7]', "expected a JSON object, got '7'"),
        ('[{"y": 1}, {"y": 1 2}]', "row 2: not a JSON object"),
    ],
)
def test_an_array_that_is_none_says_why(tmp_path, text, message):
    with pytest.raises(DataError, match=re.escape(message)):
        chunks(write_text_file(tmp_path / "t.json", text), 10)


def test_an_array_may_be_empty_and_may_grow(tmp_path):
    path = write_text_file(tmp_path / "t.json", "[]")
    assert chunks(path, 2) == []
    mark = chunks(write_text_file(path, '[{"y": 1},\n {"y": 2}]'), 2)[0].mark
    grown = chunks(write_text_file(path, '[{"y": 1}, {"y": 2}, {"y": 3}]'), 2, after=mark)
    assert values(grown, "y") == [3]


def test_what_numbers_look_like(tmp_path):
    cells = ["1", " 2 ", "+3", "-4e2", "1e-3", "007"]
    text = "a,y\n" + "".join(f"{cell},0\n" for cell in cells)
    X, _, _ = encode_input(write_text_file(tmp_path / "t.csv", text))
    assert X.ravel().tolist() == [1, 2, 3, -400, 0.001, 7]
    text = "a,y\n" + "".join(f"{cell},0\n" for cell in ("1", "NA", "null", "NaN", ""))
    X, _, encoding = encode_input(write_text_file(tmp_path / "t.csv", text), missing="indicate")
    assert names(encoding) == ["a", "a is missing"]
    assert X[:, 1].tolist() == [0, 1, 1, 1, 1]


def test_a_byte_order_mark_and_empty_names(tmp_path):
    path = write_text_file(tmp_path / "t.csv", b"\xef\xbb\xbf,a,y\r\n0,1,0\r\n1,2,1\r\n")
    assert names(encode_input(path)[2]) == ["column 1", "a"]


def test_csv_without_a_header(tmp_path):
    path = write_text_file(tmp_path / "t.csv", '1,"u\nv",0\n2,w,1\n')
    (chunk,) = chunks(path, 10, header=False)
    assert list(chunk.columns) == ["column 1", "column 2", "column 3"]
    assert chunk.rows == 2


def test_delimiters(tmp_path):
    path = write_text_file(tmp_path / "t.csv", "a;y\n1;0\n")
    assert values(chunks(path, delimiter=";"), "a") == ["1"]


def test_columns_that_were_not_learned_are_refused_or_ignored(tmp_path):
    path = write_text_file(tmp_path / "t.csv", "a,b,y\n1,u,0\n2,v,1\n")
    _, _, encoding = encode_input(path)
    (chunk,) = chunks(write_text_file(tmp_path / "n.csv", "b,a,extra\nw,5,1\nu,6,2\n"))
    found = encoding.predict(chunk, None)
    assert found.X.toarray().tolist() == [[5, 0, 0], [6, 1, 0]]
    assert found.unknown == {"b": 1}
    assert found.strange == ("extra",)
    with pytest.raises(DataError, match="has a column 'extra', which the model has not learned"):
        encoding.predict(chunk)
    (chunk,) = chunks(write_text_file(tmp_path / "n.csv", "a\n5\n"))
    with pytest.raises(
        DataError, match="has no column 'b', which the model has learned; it has 'a'"
    ):
        encoding.predict(chunk)


def test_patterns_are_sorted_and_must_match(tmp_path):
    for name in ("b.csv", "a.csv"):
        write_text_file(tmp_path / name, "a\n")
    assert expand_paths([str(tmp_path / "*.csv")]) == [
        str(tmp_path / n) for n in ("a.csv", "b.csv")
    ]
    with pytest.raises(DataError, match="no file matches"):
        expand_paths([str(tmp_path / "*.tsv")])
    with pytest.raises(DataError, match="is a directory"):
        chunks(tmp_path, format="csv")
    with pytest.raises(DataError, match="No such file"):
        chunks(tmp_path / "no.csv")


def test_a_chunk_does_not_care_how_it_was_read(tmp_path):
    """Numbers parsed by the reader equal numbers made of text, bit by bit."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(1000) * 10.0 ** rng.integers(-300, 99, 1000)
    path = write_text_file(tmp_path / "t.csv", "a,y\n" + "".join(f"{v!r},0\n" for v in x.tolist()))
    encoding = ColumnEncoder(Columns("y"))
    for kinds in ({}, {"a": "number"}):
        chunk = chunks(path, 1000, kinds=kinds)[0]
        assert isinstance(chunk, Chunk)
        np.testing.assert_array_equal(encoding.learn(chunk)[0].X.ravel(), x)


@pytest.mark.slow
def test_learning_many_rows_takes_constant_memory(tmp_path):
    """A small version of the benchmark: 37 MB of text in less than 150 MB above the imports."""
    code = """
import sys
from counterpoise.tables.model import TableModel, learn_inputs
from counterpoise.readers import source
def kilobytes(field):
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith(field))
before = kilobytes("VmRSS")
learner = TableModel.open(sys.argv[1] + ".st", {"label": "y"}, {})
learn_inputs(learner, [(source(sys.argv[1]), "t")], 10**9, lambda: False, lambda *_: None)
print(kilobytes("VmHWM") - before)
"""
    rng = np.random.default_rng(0)
    columns = {f"x{j}": np.round(rng.standard_normal(200_000), 3) for j in range(30)}
    pa.csv.write_csv(pa.table({**columns, "y": rng.integers(0, 2, 200_000)}), tmp_path / "t.csv")
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "t.csv")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(done.stdout) < 150_000
    assert (tmp_path / "t.csv").stat().st_size > 35e6


@pytest.mark.parametrize("fault", ["start", "early"])
def test_a_reading_thread_that_fails_is_an_error(monkeypatch, fault):
    """The reader does not wait for a thread that never started or that ended without a report."""
    if fault == "start":
        monkeypatch.setattr(threading, "_start_new_thread", refuse_thread)
    else:
        monkeypatch.setattr(threading.Thread, "run", lambda self: None)
    with pytest.raises((OSError, MemoryError), match="thread that reads the input"):
        list(prefetch(iter([1, 2, 3])))


def refuse_thread(*_):
    raise RuntimeError("can't start new thread")
