"""Untrusted inputs: every value is checked before it is used, and nothing grows unbounded."""

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from fork_server import PIPE

from counterpoise.encoding.columns import Columns
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.errors import DataError
from counterpoise.readers import ReadPosition, columnar, jsonlines, source, text_source
from counterpoise.readers.chunk import CHUNK_BYTES
from counterpoise.tables.model import TableModel, learn_inputs

ROOT = Path(__file__).parents[2]


def everything(name):
    return True


def chunks(path, rows=8192, after=None, wanted=everything):
    return list(source(str(path)).chunks(rows, after or ReadPosition(), {}, wanted))


def learn_file(folder, name, label="y", columns=None, options=None, **how):
    learner = TableModel.open(str(folder / "m"), {"label": label, **(columns or {})}, options or {})
    learn_inputs(
        learner, [(source(str(folder / name)), name)], 10**6, lambda: False, lambda *_: None, **how
    )
    return learner


# Arrow


def ipc(table, file, **options):
    out = io.BytesIO()
    new = pa.ipc.new_file if file else pa.ipc.new_stream
    with new(out, table.schema) as writer:
        writer.write_table(table, **options)
    return out.getvalue()


@pytest.mark.parametrize("ending", ["arrow", "arrows"])
@pytest.mark.parametrize(("place", "value"), [(2, 7), (3, 1 << 20), (3, -1), (1, 1 << 30)], ids=str)
def test_an_offset_that_points_astray_is_refused(tmp_path, ending, place, value):
    """The offset is followed otherwise: a crash, or bytes of the process as a label."""
    table = pa.table({"x": [1.0, 2.0, 3.0], "y": ["aa", "bb", "cc"]})
    data = ipc(table, ending == "arrow")
    offsets = np.array([0, 2, 4, 6], dtype="<i4")
    assert data.count(offsets.tobytes()) == 1
    wrong = offsets.copy()
    wrong[place] = value
    (tmp_path / f"t.{ending}").write_bytes(data.replace(offsets.tobytes(), wrong.tobytes()))
    with pytest.raises(DataError, match=r"t\.arrows? cannot be read: .*[Oo]ffset"):
        chunks(tmp_path / f"t.{ending}")


def test_an_index_beyond_its_dictionary_is_refused(tmp_path):
    table = pa.table({"y": pa.array(["aa", "bb", "aa"]).dictionary_encode()})
    data = ipc(table, False)
    codes = np.array([0, 1, 0], dtype="<i4").tobytes()
    assert data.count(codes) == 1
    (tmp_path / "t.arrows").write_bytes(data.replace(codes, codes[:8] + b"\x09\0\0\0"))
    with pytest.raises(DataError, match=r"cannot be read: .*out of bounds"):
        chunks(tmp_path / "t.arrows")


def test_batches_of_spark_are_validated_too():
    from counterpoise.spark.dataframes import chunk_of

    offsets = pa.py_buffer(np.array([0, 1 << 20, 4], dtype=np.int32))
    column = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"aabb")])
    with pytest.raises(DataError, match=r"partition 3, column 't' cannot be read: .*[Oo]ffset"):
        chunk_of({"t": column}, "partition 3", 1, {})


@pytest.mark.parametrize("what", ["text", "name"])
def test_text_that_is_not_unicode_is_refused(tmp_path, what):
    data = ipc(pa.table({"qqqq": ["kkkk"]}), False)
    old = b"kkkk" if what == "text" else b"qqqq"
    assert old in data
    (tmp_path / "t.arrows").write_bytes(data.replace(old, b"\xff\xfe\xfd\xfc"))
    with pytest.raises(DataError, match=r"t\.arrows cannot be read"):
        chunks(tmp_path / "t.arrows")


def test_rows_that_take_no_room_are_not_counted(tmp_path):
    nothing = pa.Array.from_buffers(pa.null(), 1 << 30, [None])
    (tmp_path / "t.arrows").write_bytes(ipc(pa.table({"y": nothing}), False))
    with pytest.raises(DataError, match="1,073,741,824 rows without values"):
        chunks(tmp_path / "t.arrows")


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["arrows", "parquet"])
def test_text_kept_once_for_many_rows_is_not_spread_out_at_once(tmp_path, ending):
    long = pa.array(["x" * 3_000_000]).dictionary_encode().dictionary
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(400, dtype=np.int32)), long)
    table = pa.table({"a": np.arange(400.0), "t": column})
    if ending == "parquet":
        pa.parquet.write_table(table, tmp_path / "t.parquet")
    else:
        (tmp_path / "t.arrows").write_bytes(ipc(table, False))
    assert (tmp_path / f"t.{ending}").stat().st_size < 4_000_000
    opened = source(str(tmp_path / f"t.{ending}"))
    rows = 0
    for chunk in opened.chunks(8192, ReadPosition(), {}, everything):
        assert chunk.columns["t"].nbytes < 2 * CHUNK_BYTES
        rows += chunk.rows
    assert rows == 400


@pytest.mark.parametrize("ending", ["arrow", "arrows"])
@pytest.mark.parametrize("what", ["batch", "dictionary"])
def test_batches_that_expand_to_much_more_are_refused(tmp_path, monkeypatch, ending, what):
    text = pa.array(["x" * 100_000, "y"])
    column = text.dictionary_encode() if what == "dictionary" else text
    path, out = tmp_path / f"t.{ending}", io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    new = pa.ipc.new_file if ending == "arrow" else pa.ipc.new_stream
    with new(out, pa.schema([("t", column.type)]), options=options) as writer:
        writer.write_table(pa.table({"t": column}))
    path.write_bytes(out.getvalue())
    assert len(out.getvalue()) < 3000
    assert [chunk.rows for chunk in chunks(path)] == [2]
    monkeypatch.setattr(columnar, "BODY", 90_000)
    with pytest.raises(DataError, match=r"claims 100,\d\d\d bytes, more than 90,000"):
        chunks(path)


@pytest.mark.parametrize("length", [b"\xff\xff\xff\x7f", b"\0\0\0\x10"])
def test_a_message_that_claims_much_costs_nothing(tmp_path, length):
    data = ipc(pa.table({"x": [1.0]}), False)
    (tmp_path / "t.arrows").write_bytes(data[:4] + length + data[8:])
    with pytest.raises(DataError, match="an Arrow message claims"):
        chunks(tmp_path / "t.arrows")


def test_an_arrow_file_can_come_through_a_pipe(start, tmp_path):
    table = pa.table({"x": np.arange(50.0), "y": pa.array(["a", "b"] * 25).dictionary_encode()})
    learn = ["learn", "-", "--format", "arrow", "--label", "y", "-m", "m"]
    process = start(*learn, stdin=PIPE)
    _, err = process.communicate(ipc(table, True, max_chunksize=20))
    assert process.returncode == 0, err
    (tmp_path / "t.arrow").write_bytes(ipc(table, True, max_chunksize=20))
    again = learn_file(tmp_path, "t.arrow", allow_overlap=True)
    assert again.model.class_count.tolist() == [50.0, 50.0]


# Chunks end at a fixed number of bytes, and that depends on the rows alone.

RNG = np.random.default_rng(0)
WIDTHS = RNG.integers(1, 400, 60).tolist()


def write(path, batch):
    table = pa.table({"a": np.arange(60.0), "t": ["w" * n for n in WIDTHS], "y": [0, 1] * 30})
    lines = table.to_pylist()
    if path.suffix == ".csv":
        path.write_text("a,t,y\n" + "".join(f"{r['a']},{r['t']},{r['y']}\n" for r in lines))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in lines))
    elif path.suffix == ".libsvm":
        path.write_text("".join(f"{i % 2} 1:{'1' * n}\n" for i, n in enumerate(WIDTHS)))
    elif path.suffix == ".parquet":
        pa.parquet.write_table(table, path, row_group_size=batch)
    else:
        path.write_bytes(ipc(table, path.suffix == ".arrow", max_chunksize=batch))


@pytest.mark.parametrize("ending", ["csv", "jsonl", "libsvm", "parquet", "arrow", "arrows"])
def test_chunks_end_at_so_many_bytes_wherever_reading_began(tmp_path, monkeypatch, ending):
    for module in (text_source, columnar):
        monkeypatch.setattr(module, "CHUNK_BYTES", 1000)
    found = []
    for batch in (7, 25):
        monkeypatch.setattr(text_source, "PIECE", 13 * batch)
        path = tmp_path / f"t{batch}.{ending}"
        write(path, batch)
        found.append([chunk.mark for chunk in chunks(path, rows=20)])
    assert found[0] == found[1]
    rows = np.diff([0] + [mark.rows for mark in found[0]])
    assert rows.sum() == 60
    assert 3 < len(rows) < 40
    assert rows.max() <= 20
    for i, mark in enumerate(found[0]):
        assert [chunk.mark for chunk in chunks(path, rows=20, after=mark)] == found[0][i + 1 :]


def test_a_row_that_is_longer_than_a_chunk_is_one(tmp_path, monkeypatch):
    monkeypatch.setattr(text_source, "CHUNK_BYTES", 100)
    (tmp_path / "t.csv").write_text("a,y\n\n\n1,0\n" + f"{'7' * 300},1\n" + "2,0\n" * 30)
    found = [chunk.rows for chunk in chunks(tmp_path / "t.csv")]
    assert found == [2, 25, 5]
    (tmp_path / "t.csv").write_text("a,y\n" + "\n" * 500 + "1,0\n")
    assert [chunk.rows for chunk in chunks(tmp_path / "t.csv")] == [1]


def test_new_fields_in_every_line_end_a_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonlines, "CELLS", 1000)
    lines = [{f"k{i} {j}": 1 for j in range(4)} | {"s": {"deep": 1}, "y": i} for i in range(60)]
    for line in lines:
        del line["s"]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = chunks(tmp_path / "t.jsonl")
    assert [chunk.rows for chunk in found] == [16, 16, 16, 12]
    assert all(chunk.rows * len(chunk.columns) < 1100 for chunk in found)
    same = "".join(json.dumps({"a": 1, "b:c": '"x": 1', "y": 0}) + "\n" for _ in range(60))
    (tmp_path / "t.jsonl").write_text(same)
    assert [chunk.rows for chunk in chunks(tmp_path / "t.jsonl")] == [60]


# Widths and lengths


@pytest.mark.slow
def test_more_columns_than_can_be_learned_are_refused_by_the_header(tmp_path):
    names = [f"c{j}" for j in range(100_000)]
    rows = [",".join("12"[i] for _ in names) + f",{i}\n" for i in range(2)]
    (tmp_path / "t.csv").write_text(",".join(names) + ",y\n" + "".join(rows))
    with pytest.raises(DataError, match=r"100,001 columns to read, .* with only, .*: .drop"):
        learn_file(tmp_path, "t.csv")
    learner = learn_file(tmp_path, "t.csv", columns={"only": ("c7", "c99999")})
    assert [f.name for f in learner.encoding.features] == ["c7", "c99999"]
    (tmp_path / "u.csv").write_text("," * 1_000_000)
    with pytest.raises(DataError, match="more than 1,000,000 columns; is the delimiter right"):
        learn_file(tmp_path, "u.csv")


@pytest.mark.slow
def test_two_columns_of_one_name_are_found_among_many(tmp_path):
    names = [f"c{j}" for j in range(200_000)]
    (tmp_path / "t.csv").write_text(",".join([*names, "c5"]) + "\n")
    with pytest.raises(DataError, match="two columns are called 'c5'"):
        chunks(tmp_path / "t.csv")


@pytest.mark.parametrize("kind", ["numbers", "categories", "libsvm"])
def test_memory_is_reckoned_before_it_is_spent(tmp_path, kind):
    options = {"memory_limit": 16.0 * 50**2}
    name, label = ("t.libsvm", "label") if kind == "libsvm" else ("t.csv", "y")
    if kind == "numbers":
        rows = ",".join(f"c{j}" for j in range(51)) + ",y\n" + "1," * 51 + "0\n"
    elif kind == "categories":
        rows = "t,y\n" + "".join(f"t{i},{i % 2}\n" for i in range(51))
    else:
        rows = "0 " + " ".join(f"{j + 1}:1" for j in range(51)) + "\n"
    (tmp_path / name).write_text(rows)
    message = (
        "at least 51 features by this row, but memory_limit is enough for 50; "
        ".*with only.*: .drop.*: .hash:256"
    )
    with pytest.raises(DataError, match=message):
        learn_file(tmp_path, name, label, options=options)
    assert not (tmp_path / "m").exists()


def test_labels_and_categories_have_at_most_1000_characters(tmp_path):
    rows = ["t,y", "u,no", f"u,{'n' * 1001}"]
    (tmp_path / "t.csv").write_text("\n".join([*rows, ""]))
    with pytest.raises(DataError, match="row 2: a label in column 'y' has 1,001 characters"):
        learn_file(tmp_path, "t.csv")
    rows[2] = f"{'é' * 1001},yes"
    (tmp_path / "t.csv").write_text("\n".join([*rows, ""]))
    with pytest.raises(
        DataError, match=r"row 2: a category of column 't' has 1,001 .* columns=..t.: .hash:256"
    ):
        learn_file(tmp_path, "t.csv")
    learn_file(tmp_path, "t.csv", columns={"roles": {"t": "hash:4"}})
    rows[2] = f"{'é' * 1000},{'n' * 1000}"
    (tmp_path / "u.csv").write_text("\n".join([*rows, ""]))
    (tmp_path / "m").unlink()
    learn_file(tmp_path, "u.csv")


@pytest.mark.slow
def test_labels_that_would_be_padded_beyond_reason_are_refused(tmp_path):
    label = pa.array(["n" * 1000, "y"]).take(pa.array(np.arange(300_000) % 2))
    encoding = ColumnEncoder(Columns("y"))
    chunk = next(iter_chunk({"x": np.zeros(300_000), "y": label}))
    with pytest.raises(DataError, match="labels of 1000 characters in chunks of 300,000 rows"):
        encoding.learn(chunk)


def iter_chunk(columns):
    from counterpoise.readers import Chunk

    arrays = {name: pa.array(column) for name, column in columns.items()}
    rows = len(next(iter(arrays.values())))
    yield Chunk("t", 1, rows, arrays, ReadPosition(), offered=tuple(arrays))


def test_a_long_category_that_was_never_learned_is_unknown(tmp_path):
    (tmp_path / "t.csv").write_text("t,y\na,0\nb,1\n")
    learner = learn_file(tmp_path, "t.csv")
    (chunk,) = iter_chunk({"t": ["a", "x" * 2000], "y": [0, 1]})
    assert learner.encoding.predict(chunk).unknown == {"t": 1}


# A small version of benchmarks/proofs/mutations.py


@pytest.mark.slow
def test_mutated_inputs_and_models_break_nothing():
    """Each command in a process of its own with 2 GB: no signal, traceback, hang or torn file."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.proofs.mutations", "--count", "12", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 9


@pytest.mark.slow
def test_text_by_views_whose_nulls_hold_something_is_read(tmp_path, run):
    words = pa.array(["a", None, "a longer text than fits into a view", None] * 5)
    views = words.cast(pa.string_view())
    valid, _, *data = views.buffers()
    spoiled = np.frombuffer(views.buffers()[1], dtype=np.int32).reshape(-1, 4).copy()
    spoiled[1::2] = -16777216, 7, 7, 7
    buffers = [valid, pa.py_buffer(spoiled), *data]
    bad = pa.Array.from_buffers(pa.string_view(), len(views), buffers)
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 2, 1, 3] * 5), bad)
    x = pa.array(range(20), pa.float64())
    y = pa.array(["no", "yes"] * 10)
    for name, word in (("good", views), ("bad", bad), ("coded", coded)):
        table = pa.table({"x": x, "word": word, "y": y})
        with pa.ipc.new_file(str(tmp_path / f"{name}.arrow"), table.schema) as sink:
            sink.write_table(table)
        run("learn", f"{name}.arrow", "--label", "y", "--missing", "indicate", "-m", f"{name}.st")
    names = json.loads(run("inspect", "bad.st", "--json").out)["weights"]
    assert sum("a longer text" in name for name in names) == 1
    predicted = [run("predict", f"{name}.st", "bad.arrow").out for name in ("good", "bad")]
    assert predicted[0] == predicted[1]
