"""Model files that were learned from streams, written whole and checked when they are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoise.arrays import Counts, Matrix
from counterpoise.encoding.columns import (
    FEATURE_NAMES,
    MANY_CATEGORIES,
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
from counterpoise.modelfile.container import Contents, check_file, invalid_file
from counterpoise.modelfile.engines import KINDS, pack, read_vocabularies, unpack
from counterpoise.readers.byte_source import cannot_read
from counterpoise.readers.chunk import (
    MAX_RANGES,
    PREFIX_LENGTHS,
    CursorPosition,
    CursorRange,
    ReadPosition,
)
from counterpoise.readers.database import public_address
from counterpoise.solver.imputation import MeanImputation
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
NOT_TEXT = "a value that must be text, and is not"


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
    if stored.encoding.vocabularies:
        named = stored.encoding.vocabularies.items()
        lists["categories"] = [[name, one.rows, one.values] for name, one in named]
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
    values = {f.name: getattr(record, f.name) for f in fields(Record) if f.name != "mark"}
    return {**record.mark.plain(), **values}


def read_contents(path: str) -> Contents:
    """Return the contents of a model file; raise DataError if it cannot be read."""
    try:
        return modelfile.load(path)
    except OSError as error:
        raise cannot_read(public_address(path), error) from None


def read_fields(contents: Contents, path: str) -> dict[str, Any]:
    """Return the fields of the TableModel in a file, checked; ``path`` is its name in messages."""
    if contents.kind not in KINDS or contents.stream is None:
        raise ModelFileError(
            f"{path} contains a {contents.kind} saved from Python, without the columns of its "
            f"features; load it with {contents.kind}.load, or learn a model with "
            "TableClassifier or counterpoise learn"
        )

    def build() -> dict[str, Any]:
        model = unpack(replace(contents, stream=None, lists={}))
        return _stream(contents, model, model.reference_state)

    return modelfile.load_validated(path, build)


def _stream(contents: Contents, model: Any, state: State) -> dict[str, Any]:
    """Return the fields of a TableModel, checked, given its model and a state of the features."""
    stream, lists = contents.stream or {}, contents.lists
    names = {"encoding", "chunk_rows", "inputs", "order", "positive", "settled", "unlearned"}
    check_file(set(stream) - {"window"} == {*names, "apart"}, "an unexpected stream")
    optional = {"recent", "held", "categories"}
    check_file(set(lists) - optional == {"features"}, "names that are not features")
    encoding = read_encoding(stream["encoding"], lists["features"], lists.get("categories", []))
    categories = state.moments.categories
    sizes = [one.size for one in encoding.vocabularies.values()]
    # The last categories may occur in rows of weight 0 only.
    is_coded = state.codes == encoding.code_columns
    if is_coded and categories is not None:
        is_coded = all(one <= size for one, size in zip(categories.sizes, sizes, strict=True))
    check_file(is_coded, "other categories")
    features = encoding.features
    check_file(len(set(features)) == len(features) == state.n_inputs, "the wrong features")
    is_filled = state.fill == MeanImputation.of(*encoding.fill)
    check_file(is_filled, "missing values that are imputed otherwise")
    is_listed = sorted(stream["order"]) == sorted(stream["inputs"])
    check_file(is_listed, "inputs that disagree")
    records = Records((_text(key), read_record(stream["inputs"][key])) for key in stream["order"])
    _check_integer(stream["chunk_rows"], "an invalid chunk size", 1, 10**7)
    _check_integer(stream["settled"], "an invalid number of settled rows", 0, records.rows)
    _check_integer(stream["unlearned"], "an invalid number of unlearned rows")
    apart, window = stream["apart"], None
    is_valid = set(apart) == {"rows", "hashes"} and isinstance(apart["hashes"], list)
    check_file(is_valid, "an invalid count of rows apart")
    _check_integer(apart["rows"], "an invalid count of rows apart", 1 - 2**63)
    unfiled = UnfiledRows(apart["rows"], tuple(map(_text, apart["hashes"])))
    labels = [label for record in records.values() for label, _ in record.relabeled]
    if "window" in stream:
        window = _window(stream["window"], records.rows + stream["unlearned"])
        labels += [label for count in window.counts for label in count[:2]]
    classes = state.classes.labels.tolist()
    is_typed = {*map(type, labels)} <= {int if encoding.labels == "int" else str}
    is_typed &= {isinstance(label, str) for label in classes} <= {encoding.labels in TEXT_LABELS}
    check_file(is_typed, "labels of another type")
    positive = stream["positive"]
    is_class = (type(positive), positive) in [(type(label), label) for label in classes]
    check_file(positive is None or is_class, "an invalid positive class")
    return {
        "model": model, "encoding": encoding, "records": records, "positive": positive,
        **{name: stream[name] for name in ("chunk_rows", "settled", "unlearned")},
        "window": window, "recent": _recent(lists.get("recent"), len(classes)), "apart": unfiled,
        "held": _feature_counts(lists.get("held"), len(features), records, unfiled),
    }  # fmt: skip


def _check_integer(value: Any, problem: str, low: int = 0, high: int = 2**63 - 1) -> None:
    """Raise the problem, about the file, unless a value is an integer between two others."""
    if not (type(value) is int and low <= value <= high):
        raise invalid_file(problem)


def read_encoding(
    plain: Mapping[str, Any], names: list[Any], categories: list[Any] | None = None
) -> ColumnEncoder:
    """Return the checked encoder of features, each given by its column, kind and value.

    ``categories`` has the name, the number of rows and the categories of each column with many.
    """
    check_file({*map(type, chain(*names))} <= {str}, NOT_TEXT)
    features = tuple([Feature(*one) for one in names])
    is_known = {one.kind for one in features} <= {*FEATURE_NAMES}
    check_file(is_known, "features of an unknown kind")
    check_file(set(plain) - {"bases"} == {"columns", "kinds", "labels"}, "an unexpected encoding")
    values, kinds, bases = dict(plain["columns"]), plain["kinds"], plain.get("bases", {})
    check_file(set(values) == {f.name for f in fields(Columns)}, "unexpected columns")
    for name in ("only", "classes"):
        check_file(isinstance(values[name], list), f"an invalid list of columns: {name}")
        check_file({*map(type, values[name])} <= {str}, NOT_TEXT)
        values[name] = tuple(values[name])
    try:
        values["roles"] = parse_roles(values["roles"])
    except DataError as error:
        check_file(False, str(error))
    _check_integer(values["seed"], "an invalid seed", 0, 2**32 - 1)
    missing, time_format = values["missing"], values["time_format"]
    is_rule = missing in MISSING_RULES and ("bases" in plain) == (missing == "mean")
    check_file(is_rule, "an invalid rule for missing values")
    check_file(bool(_text(values["label"])), "no label column")
    check_file(values["decimal"] in (".", ","), "an invalid decimal sign")
    check_file(time_format is None or "%" in _text(time_format), "an invalid format of dates")
    columns = Columns(**values)
    check_file(set(kinds.values()) <= set(COLUMN_KINDS), "columns of an unknown kind")
    hashed = {name for name, kind in kinds.items() if kind == "hash"}
    check_file(hashed <= set(columns.buckets), "a hashed column without buckets")
    check_file(plain["labels"] in (None, "int", *TEXT_LABELS), "labels of an unknown kind")
    is_base = {*map(type, bases.values())} <= {float} and set(bases) <= set(kinds)
    is_base = is_base and max(map(abs, bases.values()), default=0.0) <= MAX_ABS_VALUE
    check_file(is_base, "impossible values for missing ones")
    vocabularies = read_vocabularies(categories or [])
    check_file(
        all(kinds.get(name) == MANY_CATEGORIES for name in vocabularies), "malformed categories"
    )
    encoding = ColumnEncoder(columns, kinds, features, plain["labels"], bases, vocabularies)
    check_file(all(fits(feature, encoding) for feature in features), "features of other columns")
    return encoding


def _feature_counts(
    plain: list[Any] | None, d: int, records: dict[str, Record], apart: UnfiledRows
) -> Counts | None:
    """Return the checked counts of rows that have each feature."""
    if plain is None:
        return None
    problem = "impossible counts of its features"
    limit = sum(record.mark.rows * record.times for record in records.values())
    limit += max(apart.rows, 0)
    check_file(len(plain) == d and limit < 2**63, problem)
    if plain:
        check_file({*map(type, plain)} == {int} and 0 <= min(plain) <= max(plain) <= limit, problem)
    return np.array(plain, dtype=np.int64)


def _recent(plain: list[Any] | None, classes: int) -> Matrix | None:
    """Return the checked scores of the last rows."""
    if plain is None:
        return None
    is_valid = len(plain) == (1 if classes == 2 else classes) and classes > 1
    for column in plain:
        is_valid = is_valid and isinstance(column, list) and {*map(type, column)} == {float}
        is_valid = is_valid and len(column) == len(plain[0]) <= MAX_RECENT_SCORES
    check_file(is_valid, "malformed scores")
    result = np.array(plain).T
    check_file(bool(np.isfinite(result).all()), "scores that are not finite")
    return result


def read_record(plain: dict[str, Any]) -> Record:
    """Return the checked record of an input."""
    names = {f.name for f in (*fields(ReadPosition), *fields(Record)) if f.name != "mark"}
    check_file({*plain, "cursor"} == names, "an unexpected record of an input")
    rows, starts, times = plain["rows"], plain["starts"], plain["times"]
    for name in ("rows", "size", "dropped"):
        _check_integer(plain[name], f"an invalid number of {name}")
    is_valid = type(plain["cut"]) is bool and plain["dropped"] <= rows
    is_valid = is_valid and isinstance(starts, list) and len(starts) <= len(PREFIX_LENGTHS)
    check_file(is_valid, "an invalid record")
    _check_integer(times, "an input that was learned impossibly often", 1, MAX_REPEAT_COUNT)
    gone = _ranges(plain["gone"], rows)
    relabeled = tuple((label, _ranges(ranges, rows)) for label, ranges in plain["relabeled"])
    ordered = sorted(one for _, ranges in (("", gone), *relabeled) for one in ranges)
    is_disjoint = all(a[1] <= b[0] for a, b in pairwise(ordered))
    check_file(is_disjoint, "rows that were relabeled twice")
    cursor = None if "cursor" not in plain else _cursor(plain["cursor"])
    mark = ReadPosition(rows, plain["size"], _text(plain["hash"]), plain["cut"], cursor)
    return Record(mark, tuple(map(_text, starts)), plain["dropped"], times, gone, relabeled)


def _cursor(plain: dict[str, Any]) -> CursorPosition:
    """Return the checked position in a table."""
    problem = "an invalid cursor"
    ranges = tuple(CursorRange(*one) for one in plain["ranges"])
    check_file(set(plain) == {*CursorPosition._fields} and 0 < len(ranges) <= MAX_RANGES, problem)
    for one in ranges:
        _check_integer(one.last, problem, -(2**63))
        _check_integer(one.rows, problem)
        check_file(re.fullmatch("[0-9a-f]{16}", _text(one.hash)) is not None, problem)
    is_ordered = all(a.last < b.last for a, b in pairwise(ranges))
    check_file(is_ordered and type(plain["is_as_learned"]) is bool, problem)
    return CursorPosition(_text(plain["column"]), ranges, plain["is_as_learned"])


def _ranges(plain: list[Any], rows: int) -> Ranges:
    """Return checked ranges of rows."""
    ranges = tuple((start, stop) for start, stop in plain)
    ends = [end for one in ranges for end in one]
    for end in ends:
        _check_integer(end, "invalid rows", 0, rows)
    check_file(ends == sorted(set(ends)), "invalid rows")
    return ranges


def _window(plain: dict[str, Any], rows: int) -> Window:
    """Return the scores since the last line of a metrics file, checked except for label types."""
    check_file(set(plain) == {"rows", "counts"}, "an invalid window")
    _check_integer(plain["rows"], "an invalid window", 0, rows)
    counts = tuple((true, predicted, n) for true, predicted, n in plain["counts"])
    for *_, n in counts:
        _check_integer(n, "an invalid window", 1)
    return Window(plain["rows"], counts)


def _text(value: Any) -> str:
    """Return a value, which must be text."""
    check_file(isinstance(value, str), NOT_TEXT)
    return str(value)
