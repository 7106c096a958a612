"""Model files that were learned from streams, written whole and checked when they are read."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoise.arrays import Counts, Matrix
from counterpoise.encoding.columns import COLUMN_KINDS, MISSING_RULES, Columns, Feature, parse_roles
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.engine.state import State
from counterpoise.errors import DataError, ModelFileError
from counterpoise.modelfile import container as modelfile
from counterpoise.modelfile.container import Contents, check_file
from counterpoise.modelfile.engines import KINDS, pack, unpack
from counterpoise.readers.byte_source import cannot_read
from counterpoise.readers.chunk import PREFIX_LENGTHS, ReadPosition
from counterpoise.solver.imputation import MeanImputation
from counterpoise.tables.estimator import first_state
from counterpoise.tables.records import (
    MAX_RECENT_SCORES,
    MAX_REPEAT_COUNT,
    Ranges,
    Record,
    Records,
    UnfiledRows,
    Window,
    fits,
)
from counterpoise.validation import MAX_ABS_VALUE

if TYPE_CHECKING:
    from counterpoise.tables.model import TableModel


def save(path: str, table: TableModel) -> None:
    """Write a model file, completely or not at all."""
    modelfile.save(path, contents_of(table), lambda contents: read_fields(contents, path))


def contents_of(stored: TableModel) -> Contents:
    """Return the contents of the file of a model."""
    inputs = {
        key: {
            **asdict(record.mark),
            "starts": list(record.starts),
            "dropped": record.dropped,
            "times": record.times,
            **({"gone": [list(one) for one in record.gone]} if record.gone else {}),
            **({"relabeled": _plain_labels(record)} if record.relabeled else {}),
        }
        for key, record in stored.records.items()
    }
    stream = {
        "encoding": stored.encoding.plain(),
        "chunk_rows": stored.chunk_rows,
        "inputs": inputs,
        "order": list(stored.records),
        "positive": stored.positive,
        "settled": stored.settled,
        "unlearned": stored.unlearned,
    }
    if stored.apart != UnfiledRows():
        stream["apart"] = {"rows": stored.apart.rows, "hashes": list(stored.apart.hashes)}
    if stored.window is not None:
        counts = [list(count) for count in stored.window.counts]
        stream["window"] = {"rows": stored.window.rows, "counts": counts}
    lists: dict[str, list[Any]] = {
        "features": [list(feature) for feature in stored.encoding.features]
    }
    held = stored.held_rows
    if held is not None:
        lists["held"] = held.tolist()
    if stored.recent is not None:
        # Six digits are enough for a rank; rounding again changes nothing.
        lists["recent"] = [
            [float(f"{value:.6g}") for value in column] for column in stored.recent.T.tolist()
        ]
    return replace(pack(stored.estimator), stream=stream, lists=lists)


def _plain_labels(record: Record) -> list[Any]:
    """Return the present labels of relabeled rows, as JSON can represent them."""
    return [[label, [list(one) for one in ranges]] for label, ranges in record.relabeled]


def read_contents(path: str) -> Contents:
    """Return the contents of a model file; raise DataError if it cannot be read."""
    try:
        return modelfile.load(path)
    except OSError as error:
        raise cannot_read(path, error) from None


def read_fields(contents: Contents, path: str) -> dict[str, Any]:
    """Return the fields of the TableModel in a file, checked; ``path`` is its name in messages."""
    if contents.kind not in KINDS or contents.stream is None:
        raise ModelFileError(
            f"{path} holds a {contents.kind} saved from Python, which does not say how columns "
            f"become features; load it with {contents.kind}.load, or learn a model with "
            "TableClassifier or counterpoise learn"
        )

    def build() -> dict[str, Any]:
        model = unpack(replace(contents, stream=None, lists={}))
        return _stream(contents, model, first_state(model))

    return modelfile.load_validated(path, build)


def _stream(contents: Contents, model: Any, state: State) -> dict[str, Any]:
    """Return the fields of a TableModel, checked, given its model and a state of the features."""
    inputs, classes, fill = state.inputs, state.classes.labels, state.fill
    stream: dict[str, Any] = contents.stream or {}
    wanted = {"encoding", "chunk_rows", "inputs", "order", "positive", "settled", "unlearned"}
    check_file(set(stream) - {"window", "apart"} == wanted, "an unexpected stream")
    chunk_rows = stream["chunk_rows"]
    check_file(type(chunk_rows) is int and 0 < chunk_rows <= 10**7, "an invalid chunk size")
    named = set(contents.lists) - {"recent", "held"} == {"features"}
    check_file(named, "names that are not those of its features")
    features = tuple(Feature(*map(_text, f)) for f in contents.lists["features"])
    kinds = {"number", "category", "bucket", "cycle", "missing"}
    check_file(all(f.kind in kinds for f in features), "features of an unknown kind")
    check_file(len(set(features)) == len(features) == inputs, "the wrong features")
    plain = stream["encoding"]
    check_file(set(plain) - {"bases"} == {"columns", "kinds", "labels"}, "an unexpected encoding")
    values = dict(plain["columns"])
    check_file(set(values) == {f.name for f in fields(Columns)}, "unexpected columns")
    for name in ("only", "classes"):
        check_file(isinstance(values[name], list), f"an invalid list of columns: {name}")
        values[name] = tuple(map(_text, values[name]))
    try:
        values["roles"] = parse_roles(values["roles"])
    except DataError as error:
        check_file(False, str(error))
    check_file(type(values["seed"]) is int and 0 <= values["seed"] < 2**32, "an invalid seed")
    check_file(
        values["missing"] in MISSING_RULES and ("bases" in plain) == (values["missing"] == "mean"),
        "an invalid rule for missing values",
    )
    check_file(bool(_text(values["label"])), "no label column")
    check_file(values["decimal"] in (".", ","), "an invalid decimal sign")
    time_format = values["time_format"]
    check_file(time_format is None or "%" in _text(time_format), "an invalid format of dates")
    check_file(
        all(kind in COLUMN_KINDS for kind in plain["kinds"].values()), "columns of an unknown kind"
    )
    columns = Columns(**values)
    hashed = {name for name, kind in plain["kinds"].items() if kind == "hash"}
    check_file(hashed <= set(columns.buckets), "a hashed column without buckets")
    check_file(plain["labels"] in (None, "int", "text", "bool"), "labels of an unknown kind")
    bases = plain.get("bases", {})
    fine = all(type(base) is float and abs(base) <= MAX_ABS_VALUE for base in bases.values())
    check_file(fine and set(bases) <= set(plain["kinds"]), "impossible values for what is missing")
    encoding = ColumnEncoder(columns, plain["kinds"], features, plain["labels"], bases)
    check_file(all(fits(feature, encoding) for feature in features), "features of other columns")
    check_file(
        fill == MeanImputation.of(*encoding.fill), "missing values that are filled otherwise"
    )
    text = [isinstance(label, str) for label in classes.tolist()]
    check_file(set(text) <= {plain["labels"] in ("text", "bool")}, "labels of another type")
    check_file(sorted(stream["order"]) == sorted(stream["inputs"]), "inputs that disagree")
    records = Records((_text(key), _record(stream["inputs"][key])) for key in stream["order"])
    kind = int if plain["labels"] == "int" else str
    types = {type(label) for record in records.values() for label, _ in record.relabeled}
    check_file(types <= {kind}, "labels of another type")
    rows = records.rows
    settled, positive = stream["settled"], stream["positive"]
    check_file(type(settled) is int and 0 <= settled <= rows, "an invalid number of settled rows")
    unlearned = stream["unlearned"]
    check_file(
        type(unlearned) is int and 0 <= unlearned < 2**63, "an invalid number of unlearned rows"
    )
    apart = _apart(stream["apart"]) if "apart" in stream else UnfiledRows()
    held = _held(contents.lists.get("held"), len(features), records, apart)
    labels = [(type(label), label) for label in classes.tolist()]
    check_file(
        positive is None or (type(positive), positive) in labels, "an invalid positive class"
    )
    recent = _recent(contents.lists.get("recent"), len(labels))
    window = None
    if "window" in stream:
        window = _window(stream["window"], rows + unlearned)
        types = {type(label) for count in window.counts for label in count[:2]}
        check_file(types <= {int if plain["labels"] == "int" else str}, "labels of another type")
    return {
        "model": model, "encoding": encoding, "records": records, "chunk_rows": chunk_rows,
        "positive": positive, "settled": settled, "recent": recent, "window": window,
        "held": held, "unlearned": unlearned, "apart": apart,
    }  # fmt: skip


def _apart(plain: dict[str, Any]) -> UnfiledRows:
    """Return the checked counts of rows that belong to no input."""
    check_file(set(plain) == {"rows", "hashes"}, "an unexpected count of rows apart")
    rows = plain["rows"]
    check_file(type(rows) is int and abs(rows) < 2**63, "an invalid count of rows apart")
    check_file(isinstance(plain["hashes"], list), "an invalid count of rows apart")
    return UnfiledRows(rows, tuple(map(_text, plain["hashes"])))


def _held(
    plain: list[Any] | None, d: int, records: dict[str, Record], apart: UnfiledRows
) -> Counts | None:
    """Return the checked counts of rows that have each feature."""
    if plain is None:
        return None
    most = sum(record.mark.rows * record.times for record in records.values())
    most += max(apart.rows, 0)
    good = len(plain) == d and all(type(n) is int and 0 <= n <= most for n in plain)
    check_file(good and most < 2**63, "impossible counts of its features")
    return np.array(plain, dtype=np.int64)


def _recent(plain: list[Any] | None, classes: int) -> Matrix | None:
    """Scores of the last rows, checked."""
    if plain is None:
        return None
    check_file(len(plain) == (1 if classes == 2 else classes) and classes > 1, "malformed scores")
    for column in plain:
        good = isinstance(column, list) and 0 < len(column) == len(plain[0]) <= MAX_RECENT_SCORES
        check_file(good and all(type(value) is float for value in column), "malformed scores")
    result = np.array(plain).T
    check_file(bool(np.isfinite(result).all()), "scores that are not finite")
    return result


def _record(plain: dict[str, Any]) -> Record:
    wanted = {f.name for f in fields(ReadPosition)} | {"starts", "dropped", "times"}
    more = {"gone", "relabeled"}
    check_file(set(plain) - more == wanted, "an unexpected record of an input")
    for name in ("rows", "size", "dropped", "times"):
        check_file(
            type(plain[name]) is int and 0 <= plain[name] < 2**63, f"an invalid number of {name}"
        )
    check_file(
        type(plain["cut"]) is bool and plain["dropped"] <= plain["rows"], "an invalid record"
    )
    mark = ReadPosition(plain["rows"], plain["size"], _text(plain["hash"]), plain["cut"])
    starts = plain["starts"]
    check_file(isinstance(starts, list) and len(starts) <= len(PREFIX_LENGTHS), "an invalid record")
    check_file(
        1 <= plain["times"] <= MAX_REPEAT_COUNT, "an input that was learned impossibly often"
    )
    gone = _ranges(plain.get("gone", []), mark.rows)
    relabeled = tuple(
        (label, _ranges(ranges, mark.rows)) for label, ranges in plain.get("relabeled", [])
    )
    every = sorted(one for _, ranges in (("", gone), *relabeled) for one in ranges)
    apart = all(one[1] <= two[0] for one, two in pairwise(every))
    check_file(apart, "rows that were relabeled twice")
    starts = tuple(map(_text, starts))
    return Record(mark, starts, plain["dropped"], plain["times"], gone, relabeled)


def _ranges(plain: list[Any], rows: int) -> Ranges:
    """Ranges of rows, checked."""
    ranges = tuple((start, stop) for start, stop in plain)
    ends = [end for one in ranges for end in one]
    check_file(all(type(end) is int for end in ends), "an invalid record")
    check_file(ends == sorted(set(ends)) and all(0 <= e <= rows for e in ends), "invalid rows")
    return ranges


def _window(plain: dict[str, Any], rows: int) -> Window:
    """Scores since the last line of a metrics file, checked but for the type of the labels."""
    check_file(set(plain) == {"rows", "counts"}, "an unexpected window")
    check_file(type(plain["rows"]) is int and 0 <= plain["rows"] <= rows, "an invalid window")
    for count in plain["counts"]:
        check_file(len(count) == 3 and type(count[2]) is int and count[2] > 0, "an invalid window")
    return Window(plain["rows"], tuple((true, said, n) for true, said, n in plain["counts"]))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        check_file(False, "something that is not text where text belongs")
    result: str = value
    return result
