"""Every type of pandas, polars and pyarrow as a feature, as labels and as times.

A type works, and then means the same as the plain column of the same values, or it has one clear
error. The columns are generated: four values, in turn.
"""

import datetime as dt
import decimal
import uuid
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from counterpoise import BalancedRidgeClassifier, TableClassifier

N = 16
K = np.arange(N) % 4
SECONDS = 1_704_067_200 + K * 37_123  # from 2024 on
DAYS = K + 20_000
LETTERS = [str(letter) for letter in np.array(list("abcd"))[K]]
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def of_pandas():
    """Yield names, columns of pandas, and what they contain."""
    numbers = pd.Series(K)
    for kind in [
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
    ]:
        yield kind, numbers.astype(kind), "number"
    for kind in [
        "Int8",
        "Int16",
        "Int32",
        "Int64",
        "UInt8",
        "UInt16",
        "UInt32",
        "UInt64",
        "Float32",
        "Float64",
    ]:
        yield kind, numbers.astype(kind), "number"
    yield "sparse", pd.Series(pd.arrays.SparseArray(K.astype(float))), "number"
    yield "integers", pd.Series(K.tolist(), dtype=object), "number"
    yield "decimals", pd.Series([decimal.Decimal(i) for i in K.tolist()]), "number"
    booleans = pd.Series(K > 1)
    yield "bool", booleans, "boolean"
    yield "boolean", booleans.astype("boolean"), "boolean"
    yield "booleans", booleans.astype(object), "boolean"
    text = pd.Series(LETTERS)
    for kind in ("object", "str", "string[python]", "string[pyarrow]", "category"):
        yield kind, text.astype(kind), "text"
    yield "category of integers", numbers.astype("category"), "category"
    yield "category of floats", numbers.astype(float).astype("category"), "category"
    yield "category of booleans", booleans.astype("category"), "boolean"
    yield "ordered", pd.Series(pd.Categorical(LETTERS, list("dcba"), ordered=True)), "text"
    yield "cut", pd.Series(pd.cut(K, [-1, 0, 1, 2, 3], labels=list("abcd"))), "text"
    yield "intervals", pd.Series(pd.cut(K, [-1, 0, 1, 2, 3])), "intervals"
    for unit, size in UNITS.items():
        times = pd.Series((SECONDS * size).astype(f"datetime64[{unit}]"))
        yield f"datetime64[{unit}]", times, "time"
        yield (
            f"datetime64[{unit}, zone]",
            times.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"),
            "time",
        )
        yield f"category of datetime64[{unit}]", times.astype("category"), "time"
        yield (
            f"timedelta64[{unit}]",
            pd.Series((SECONDS * size).astype(f"timedelta64[{unit}]")),
            "duration",
        )
    python = [dt.datetime.fromtimestamp(s, dt.UTC) for s in SECONDS.tolist()]
    yield "datetime", pd.Series(python, dtype=object), "time"
    yield "date", pd.Series([dt.date.fromordinal(719_163 + d) for d in DAYS.tolist()]), "date"
    yield "time", pd.Series([dt.time(0, i, 1) for i in K.tolist()]), "daytime"
    yield (
        "timedelta",
        pd.Series([dt.timedelta(seconds=s) for s in SECONDS.tolist()], dtype=object),
        "duration",
    )
    yield "missing", pd.Series([None] * N, dtype=object), "missing"
    yield "period", pd.Series(pd.period_range("2024-01", periods=4, freq="M")[K]), "refused"
    yield "interval", pd.Series(pd.arrays.IntervalArray(pd.cut(K, [-1, 0, 1, 2, 3]))), "refused"
    for name, values in {
        "complex": [1j],
        "bytes": [b"a", b"b"],
        "text and numbers": ["a", 1],
        "numbers and text": [1, 2.5, "a"],
        "numbers and booleans": [1, True],
        "large integers": [1, 10**30],
        "integers beyond floats": [1, 10**401],
        "integers beyond text": [1, 10**5000],
        "lists": [[1], [2]],
        "tuples": [(1,), (2,)],
        "dicts": [{"a": 1}],
        "sets": [{1}],
        "objects": [object()],
        "identifiers": [uuid.UUID(int=1), uuid.UUID(int=2)],
    }.items():
        yield name, pd.Series((values * N)[:N], dtype=object), "refused"


def of_numpy():
    """Yield names, arrays, and what they contain."""
    for kind in ("i1", "u8", "f2", "f8", "g"):
        yield kind, K.astype(kind), "number"
    yield "?", K > 1, "boolean"
    for kind in ("U1", np.dtypes.StringDType()):
        yield str(kind), np.array(LETTERS).astype(kind), "text"
    for unit in ("m", "h", "D"):
        size = {"m": 60, "h": 3600, "D": 86_400}[unit]
        yield f"M8[{unit}]", (DAYS * (86_400 // size)).astype(f"M8[{unit}]"), "date"
    yield "m8[m]", np.full(N, 1).astype("m8[m]"), "minute"
    yield "c16", K.astype("c16"), "refused"
    yield "V4", np.zeros(N, "V4"), "refused"


def of_arrow():
    """Yield names, columns of pyarrow, and what they contain."""
    numbers = pa.array(K.astype(float))
    ints = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
    unsigned = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    floats = [pa.float16(), pa.float32(), pa.float64()]
    decimals = [pa.decimal32(5, 1), pa.decimal64(9, 1), pa.decimal128(9, 1), pa.decimal256(40, 1)]
    plain = {}
    for kind in (*ints, *unsigned, *floats):
        plain[str(kind)] = numbers.cast(kind), "number"
    for kind in decimals:
        plain[str(kind)] = pa.array([decimal.Decimal(i) for i in K.tolist()], kind), "number"
    plain["bool"] = pa.array(K > 1), "boolean"
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        plain[str(kind)] = pa.array(LETTERS, kind), "text"
    for unit, size in UNITS.items():
        count = pa.array(SECONDS * size)
        plain[f"timestamp[{unit}]"] = count.cast(pa.timestamp(unit)), "time"
        plain[f"timestamp[{unit}, zone]"] = count.cast(pa.timestamp(unit, "Asia/Tokyo")), "time"
        plain[f"duration[{unit}]"] = count.cast(pa.duration(unit)), "duration"
        kind = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
        count = pa.array((60 * K + 1) * size, pa.int64()).cast(f"int{kind.bit_width}")
        plain[str(kind)] = count.cast(kind), "daytime"
    plain["date32"] = pa.array(DAYS, pa.int32()).cast(pa.date32()), "date"
    plain["date64"] = plain["date32"][0].cast(pa.date64()), "date"
    plain["null"] = pa.nulls(N), "missing"
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1)):
        plain[str(kind)] = pa.array([letter.encode() for letter in LETTERS], kind), "refused"
    lists = [[i] for i in K.tolist()]
    for kind in (
        pa.list_(pa.int8()),
        pa.large_list(pa.int8()),
        pa.list_view(pa.int8()),
        pa.list_(pa.int8(), 1),
    ):
        plain[str(kind)] = pa.array(lists, kind), "refused"
    plain["struct"] = pa.array([{"a": i} for i in K.tolist()]), "refused"
    plain["map"] = (
        pa.array([[("a", i)] for i in K.tolist()], pa.map_(pa.string(), pa.int8())),
        "refused",
    )
    plain["interval"] = (
        pa.array([(1, i, 0) for i in K.tolist()], pa.month_day_nano_interval()),
        "refused",
    )
    plain["uuid"] = pa.array([uuid.UUID(int=i).bytes for i in K.tolist()], pa.uuid()), "refused"
    ends = pa.array(range(1, N + 1), pa.int32())
    plain["run ends"] = pa.RunEndEncodedArray.from_arrays(ends, numbers), "refused"
    plain["union"] = pa.UnionArray.from_sparse(pa.array([0] * N, pa.int8()), [numbers]), "refused"
    for name, (column, content) in plain.items():
        yield name, column, content
        if name in ("large_binary", "fixed_size_binary[1]") or content != "refused":
            try:
                encoded = column.dictionary_encode()
            except pa.ArrowNotImplementedError:  # views, and floats of 16 bits
                continue
            yield f"dictionary of {name}", encoded, "category" if content == "number" else content


def of_polars():
    """Yield names, columns of polars, and what they contain."""
    numbers = pl.Series(K)
    kinds = [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64]
    for kind in (*kinds, pl.Float32, pl.Float64, pl.Decimal(10, 1)):
        yield str(kind), numbers.cast(kind), "number"
    yield "Int128", numbers.cast(pl.Int128), "refused"
    yield "Boolean", pl.Series(K > 1), "boolean"
    text = pl.Series(LETTERS)
    for kind in (pl.String, pl.Categorical, pl.Enum(list("abcd"))):
        yield str(kind), text.cast(kind), "text"
    for unit in ("ms", "us", "ns"):
        count = pl.Series(SECONDS * UNITS[unit])
        yield f"Datetime({unit})", count.cast(pl.Datetime(unit)), "time"
        yield f"Datetime({unit}, zone)", count.cast(pl.Datetime(unit, "Asia/Tokyo")), "time"
        yield f"Duration({unit})", count.cast(pl.Duration(unit)), "duration"
    yield "Date", pl.Series(DAYS).cast(pl.Int32).cast(pl.Date), "date"
    yield "Time", pl.Series([dt.time(0, i, 1) for i in K.tolist()]), "daytime"
    yield "Null", pl.Series([None] * N), "missing"
    yield "Binary", text.cast(pl.Binary), "refused"
    yield "List", pl.Series([[i] for i in K.tolist()]), "refused"
    yield "Array", pl.Series([[i] for i in K.tolist()], dtype=pl.Array(pl.Int64, 1)), "refused"
    yield "Struct", pl.Series([{"a": i} for i in K.tolist()]), "refused"
    yield "Object", pl.Series([object()] * N, dtype=pl.Object), "refused"


def generate():
    """Return all columns, by library and type: how to make a frame, the column, its content."""
    result = {f"pandas {name}": (pd.DataFrame, *rest) for name, *rest in of_pandas()}
    result |= {f"numpy {name}": (dict, *rest) for name, *rest in of_numpy()}
    for name, column, content in of_arrow():
        result[f"pyarrow {name}"] = pa.table, column, content
        if content != "refused" and not name.startswith("dictionary"):
            backed = pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([column])))
            result[f"pandas pyarrow {name}"] = pd.DataFrame, backed, content
    return result | {f"polars {name}": (pl.DataFrame, *rest) for name, *rest in of_polars()}


COLUMNS = generate()
# The plain column of pandas that a column of some content must be equal to, as a feature.
PLAIN = {
    "number": K.astype(float),
    "category": [str(k) for k in K],
    "boolean": K > 1,
    "text": LETTERS,
    "intervals": [f"({k - 1}, {k}]" for k in K],
    "time": SECONDS.astype("datetime64[s]"),
    "duration": SECONDS.astype(float),
    "date": (DAYS * 86_400).astype("datetime64[s]"),
    "daytime": (60 * K + 1).astype("datetime64[s]"),
    "minute": np.full(N, 60.0),
    "missing": [None] * N,
}
# The same for a column that is named by time=, in seconds.
TIMES = {
    "number": K.astype(float),
    "category": K.astype(float),
    "boolean": (K > 1).astype(float),
    "time": SECONDS.astype(float),
    "duration": SECONDS.astype(float),
    "date": DAYS * 86_400.0,
    "daytime": 60.0 * K + 1.0,
    "minute": np.full(N, 60.0),
    "missing": [None] * N,
}
LABELS = ("number", "category", "boolean", "text")
REFUSED = {
    "feature": r"the frame(, row \d+)?(: |, )column 'x'.* cannot be learned; convert",
    "label": r"the frame(, row \d+)?(: |, )(no )?(labels? in )?column 'y'.*; ",
    "beside": r"(label at row \d+ is|Complex data not supported)",
    "time": r"the frame, row 1: column 'x' contains .* which is not a date or time like",
}
BESIDE = np.resize([0.3, -1.2, 0.8, 0.1, -0.4], N)  # next to the column, so that classes overlap
TARGET = np.resize(["no", "no", "yes", "yes", "no", "yes", "yes"], N)


def scores(make, column, **params):
    """Return the scores of rows with a column x, and the features."""
    frame = make({"x": column, "z": BESIDE, "y": TARGET})
    model = TableClassifier(BalancedRidgeClassifier(), **params).fit(frame, "y")
    return model.decision_function(frame), model.get_feature_names_out().tolist()


@cache
def plain_scores(content, is_time):
    return scores(pd.DataFrame, (TIMES if is_time else PLAIN)[content])


def assert_refused(make, column, error, **params):
    with pytest.raises(ValueError, match=error):
        scores(make, column, **params)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_feature_equals_the_plain_column_of_its_values_or_is_refused(name):
    make, column, content = COLUMNS[name]
    if content == "refused":
        assert_refused(make, column, REFUSED["feature"])
        return
    found, names = scores(make, column)
    expected, plain = plain_scores(content, is_time=False)
    assert names == plain
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", [n for n in COLUMNS if COLUMNS[n][2] != "refused"])
def test_times_are_seconds_in_every_type_or_are_refused(name):
    make, column, content = COLUMNS[name]
    if content not in TIMES:
        assert_refused(make, column, REFUSED["time"], columns={"x": "epoch"})
        return
    found, names = scores(make, column, columns={"x": "epoch"})
    expected, plain = plain_scores(content, is_time=True)
    assert names == plain
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", COLUMNS)
def test_predicted_labels_equal_the_given_ones_or_labels_are_refused(name):
    make, column, content = COLUMNS[name]
    inside, outside = make({"letter": LETTERS, "y": column}), make({"letter": LETTERS})
    model = TableClassifier(BalancedRidgeClassifier(), label="y")
    if content not in LABELS:
        with pytest.raises(ValueError, match=REFUSED["label"]):
            model.fit(inside, "y")
        if not name.endswith(("run ends", "union", "Int128")):  # without their type, plain numbers
            with pytest.raises(ValueError, match=REFUSED["beside"]):
                model.fit(outside, column)
        return
    to_list = next(n for n in ("to_pylist", "to_list", "tolist") if hasattr(column, n))
    given = getattr(column, to_list)()
    for rows, y in ((inside, "y"), (outside, column)):
        model.fit(rows, y)
        predicted = model.predict(outside)
        assert np.mean(predicted == np.array(given, dtype=object)) == 1.0
        assert predicted.dtype.kind == {"boolean": "b", "text": "U"}.get(content, "i")
        assert model.score(rows, y) == 1.0


def test_categories_of_numbers_are_learned_alike_from_arrow_files_and_frames(run):
    numbers = pa.array(K).dictionary_encode()
    table = pa.table({"x": numbers, "z": BESIDE, "y": TARGET})
    with pa.OSFile("t.arrow", "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    run("learn", "t.arrow", "--label", "y", "-m", "m.st")
    shell, python = TableClassifier.load("m.st"), TableClassifier().fit(table, "y")
    assert shell.get_feature_names_out().tolist() == python.get_feature_names_out().tolist()
    np.testing.assert_array_equal(shell.decision_function(table), python.decision_function(table))
    with pytest.raises(ValueError, match=r"column 'x' contains 0 .*, but contained text before"):
        python.predict(table.set_column(0, "x", pa.array(K)))


@pytest.mark.parametrize("first", ["plain", "category"])
def test_categories_and_numbers_in_pieces_are_one_type_or_refused(first):
    plain = pd.DataFrame({"x": K, "z": BESIDE, "y": TARGET})
    category = plain.astype({"x": "category"})
    if first == "category":  # the first piece decides
        model = TableClassifier().fit([category, plain], "y")
        assert model.get_feature_names_out().tolist() == ["z", "x=0", "x=1", "x=2", "x=3"]
        return
    with pytest.raises(ValueError, match=r"column 'x' contains .* \(category\) in one chunk"):
        TableClassifier().fit([plain, category], "y")


def test_missing_values_before_a_value_of_another_type_are_not_its_type():
    frame = pd.DataFrame({"x": [2, pd.NA, None, np.nan, "a"], "y": list("uvuvu")}, dtype=object)
    message = r"row 5: column 'x' contains 'a' \(type str\) after 2 \(type int\)"
    with pytest.raises(ValueError, match=message):
        TableClassifier().fit(frame, "y")


@pytest.mark.parametrize("digits", [23, 401, 5001])
def test_an_integer_that_no_number_can_represent_is_named_in_a_file(run, digits):
    with open("t.jsonl", "w") as file:
        file.write('{"a": 1, "y": "u"}\n{"a": 1' + "0" * (digits - 1) + ', "y": "v"}\n')
    done = run("learn", "t.jsonl", "--label", "y", "-m", "m.st", code=2)
    assert "t.jsonl, row 2, column 'a': " in done.err
    assert len(done.err) < 200
