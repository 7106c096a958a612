"""Model files that were learned from streams, written whole and checked when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoise.arrays import Counts, Matrix
from counterpoise.encoding.columns import (
    FEATURE_NAMES,
    MISSING_RULES,
    Columns,
    Feature,
    parse_roles,
)
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.encoding.kinds import KINDS as COLUMN_KINDS
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

TEXT_LABELS = ("text", "bool")


def save(path: str, table: TableModel) -> None:
    """Write a model file, completely or not at all."""
    modelfile.save(path, contents_of(table), lambda contents: read_fields(contents, path))


def contents_of(stored: TableModel) -> Contents:
    """Return the contents of the file of a model."""
    stream: dict[str, Any] = {
        "encoding": stored.encoding.plain(),
        "chunk_rows": stored.chunk_rows,
        "inputs": {key: plain_record(record) for key, record in stored.records.items()},
        "order": list(stored.records),
        "positive": stored.positive,
        "settled": stored.settled,
        "unlearned": stored.unlearned,
        "apart": stored.apart._asdict(),
    }
    if stored.window is not None:
        stream["window"] = stored.window._asdict()
    lists: dict[str, list[Any]] = {"features": list(map(list, stored.encoding.features))}
    held = stored.held_rows
    if held is not None:
        lists["held"] = held.tolist()
    if stored.recent is not None:
        # Six digits are enough for a rank; rounding again changes nothing.
        lists["recent"] = [
            [float(f"{value:.6g}") for value in column] for column in stored.recent.T.tolist()
        ]
    return replace(pack(stored.estimator), stream=stream, lists=lists)


def plain_record(record: Record) -> dict[str, Any]:
    """Return the record of an input as JSON can represent it."""
    names = ("starts", "dropped", "times", "gone", "relabeled")
    return {**asdict(record.mark), **{name: getattr(record, name) for name in names}}


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
    classes = state.classes.labels.tolist()
    stream: dict[str, Any] = contents.stream or {}
    wanted = {"encoding", "chunk_rows", "inputs", "order", "positive", "settled", "unlearned"}
    _check({"an unexpected stream": set(stream) - {"window"} == {*wanted, "apart"}})
    encoding = read_encoding(stream["encoding"], contents.lists["features"])
    features = encoding.features
    label_type = int if encoding.labels == "int" else str
    records = Records((_text(key), read_record(stream["inputs"][key])) for key in stream["order"])
    rows, settled, unlearned = records.rows, stream["settled"], stream["unlearned"]
    chunk_rows, positive, apart = stream["chunk_rows"], stream["positive"], stream["apart"]
    window = _window(stream["window"], rows + unlearned) if "window" in stream else None
    labels = [label for record in records.values() for label, _ in record.relabeled]
    if window is not None:
        labels += [label for count in window.counts for label in count[:2]]
    _check(
        {
            "an invalid chunk size": _is_integer(chunk_rows, 1, 10**7),
            "names that are not those of its features": set(contents.lists) - {"recent", "held"}
            == {"features"},
            "the wrong features": len(set(features)) == len(features) == state.n_inputs,
            "missing values that are filled otherwise": state.fill
            == MeanImputation.of(*encoding.fill),
            "labels of another type": {*map(type, labels)} <= {label_type}
            and {isinstance(label, str) for label in classes} <= {encoding.labels in TEXT_LABELS},
            "inputs that disagree": sorted(stream["order"]) == sorted(stream["inputs"]),
            "an invalid number of settled rows": _is_integer(settled, 0, rows),
            "an invalid number of unlearned rows": _is_integer(unlearned),
            "an invalid count of rows apart": set(apart) == {"rows", "hashes"}
            and _is_integer(apart["rows"], 1 - 2**63)
            and isinstance(apart["hashes"], list),
            "an invalid positive class": positive is None
            or (type(positive), positive) in [(type(label), label) for label in classes],
        }
    )
    unfiled = UnfiledRows(apart["rows"], tuple(map(_text, apart["hashes"])))
    return {
        "model": model, "encoding": encoding, "records": records, "chunk_rows": chunk_rows,
        "positive": positive, "settled": settled, "window": window, "unlearned": unlearned,
        "recent": _recent(contents.lists.get("recent"), len(classes)), "apart": unfiled,
        "held": _held(contents.lists.get("held"), len(features), records, unfiled),
    }  # fmt: skip


def _check(conditions: Mapping[str, bool]) -> None:
    """Raise unless all conditions hold; their names are the problems."""
    for problem, is_met in conditions.items():
        if not is_met:
            check_file(False, problem)


def _is_integer(value: Any, low: int = 0, high: int = 2**63 - 1) -> bool:
    return type(value) is int and low <= value <= high


def read_encoding(plain: Mapping[str, Any], names: list[Any]) -> ColumnEncoder:
    """Return the checked encoder of features, each given by its column, kind and value."""
    features = tuple(Feature(*map(_text, f)) for f in names)
    _check(
        {
            "features of an unknown kind": {f.kind for f in features} <= {*FEATURE_NAMES},
            "an unexpected encoding": set(plain) - {"bases"} == {"columns", "kinds", "labels"},
            "unexpected columns": set(plain["columns"]) == {f.name for f in fields(Columns)},
        }
    )
    values, kinds, bases = dict(plain["columns"]), plain["kinds"], plain.get("bases", {})
    for name in ("only", "classes"):
        _check({f"an invalid list of columns: {name}": isinstance(values[name], list)})
        values[name] = tuple(map(_text, values[name]))
    try:
        values["roles"] = parse_roles(values["roles"])
    except DataError as error:
        check_file(False, str(error))
    missing, time_format = values["missing"], values["time_format"]
    columns = Columns(**values)
    _check(
        {
            "an invalid seed": _is_integer(values["seed"], 0, 2**32 - 1),
            "an invalid rule for missing values": missing in MISSING_RULES
            and ("bases" in plain) == (missing == "mean"),
            "no label column": bool(_text(values["label"])),
            "an invalid decimal sign": values["decimal"] in (".", ","),
            "an invalid format of dates": time_format is None or "%" in _text(time_format),
            "columns of an unknown kind": all(kind in COLUMN_KINDS for kind in kinds.values()),
            "a hashed column without buckets": all(
                name in columns.buckets for name, kind in kinds.items() if kind == "hash"
            ),
            "labels of an unknown kind": plain["labels"] in (None, "int", *TEXT_LABELS),
            "impossible values for what is missing": set(bases) <= set(kinds)
            and all(type(base) is float and abs(base) <= MAX_ABS_VALUE for base in bases.values()),
        }
    )
    encoding = ColumnEncoder(columns, kinds, features, plain["labels"], bases)
    _check({"features of other columns": all(fits(feature, encoding) for feature in features)})
    return encoding


def _held(
    plain: list[Any] | None, d: int, records: dict[str, Record], apart: UnfiledRows
) -> Counts | None:
    """Return the checked counts of rows that have each feature."""
    if plain is None:
        return None
    limit = sum(record.mark.rows * record.times for record in records.values())
    limit += max(apart.rows, 0)
    good = len(plain) == d and all(_is_integer(n, 0, limit) for n in plain)
    _check({"impossible counts of its features": good and limit < 2**63})
    return np.array(plain, dtype=np.int64)


def _recent(plain: list[Any] | None, classes: int) -> Matrix | None:
    """Return the checked scores of the last rows."""
    if plain is None:
        return None
    good = len(plain) == (1 if classes == 2 else classes) and classes > 1
    for column in plain:
        good = good and isinstance(column, list) and {*map(type, column)} == {float}
        good = good and len(column) == len(plain[0]) <= MAX_RECENT_SCORES
    _check({"malformed scores": good})
    result = np.array(plain).T
    _check({"scores that are not finite": bool(np.isfinite(result).all())})
    return result


def read_record(plain: dict[str, Any]) -> Record:
    """Return the checked record of an input."""
    names = {f.name for f in (*fields(ReadPosition), *fields(Record)) if f.name != "mark"}
    _check({"an unexpected record of an input": set(plain) == names})
    rows, starts = plain["rows"], plain["starts"]
    counts = ("rows", "size", "dropped")
    _check({f"an invalid number of {name}": _is_integer(plain[name]) for name in counts})
    gone = _ranges(plain["gone"], rows)
    relabeled = tuple((label, _ranges(ranges, rows)) for label, ranges in plain["relabeled"])
    every = sorted(one for _, ranges in (("", gone), *relabeled) for one in ranges)
    _check(
        {
            "an invalid record": type(plain["cut"]) is bool
            and plain["dropped"] <= rows
            and isinstance(starts, list)
            and len(starts) <= len(PREFIX_LENGTHS),
            "an input that was learned impossibly often": _is_integer(
                plain["times"], 1, MAX_REPEAT_COUNT
            ),
            "rows that were relabeled twice": all(a[1] <= b[0] for a, b in pairwise(every)),
        }
    )
    mark = ReadPosition(rows, plain["size"], _text(plain["hash"]), plain["cut"])
    hashes = tuple(map(_text, starts))
    return Record(mark, hashes, plain["dropped"], plain["times"], gone, relabeled)


def _ranges(plain: list[Any], rows: int) -> Ranges:
    """Return checked ranges of rows."""
    ranges = tuple((start, stop) for start, stop in plain)
    ends = [end for one in ranges for end in one]
    good = all(_is_integer(end, 0, rows) for end in ends) and ends == sorted(set(ends))
    _check({"invalid rows": good})
    return ranges


def _window(plain: dict[str, Any], rows: int) -> Window:
    """Return the scores since the last line of a metrics file, checked except for label types."""
    counts = tuple((true, guess, n) for true, guess, n in plain["counts"])
    good = set(plain) == {"rows", "counts"} and _is_integer(plain["rows"], 0, rows)
    _check({"an invalid window": good and all(_is_integer(count[2], 1) for count in counts)})
    return Window(plain["rows"], counts)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        check_file(False, "something that is not text where text belongs")
    result: str = value
    return result
