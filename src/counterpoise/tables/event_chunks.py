"""Events as they are given, checked, and as chunks: JSON objects or stored columns."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
from xxhash import xxh3_128_hexdigest

from counterpoise.encoding import cell_parsing
from counterpoise.errors import ConflictError, DataError
from counterpoise.readers.chunk import Chunk, ReadPosition
from counterpoise.readers.jsonlines import JsonLines
from counterpoise.readers.text_source import RecordBlock
from counterpoise.tables.records import MAX_ID_LENGTH

ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
MAX_EXACT = 2**53  # of an integer in a float
ABSENT = "\x00absent\x00"  # before the name of a column: rows that do not have it
# Form of events that came alone, as of a batch
SINGLE_FORM = {"cells": False, "table": False, "offered": [], "categorical": []}


def to_bytes(table: pa.Table, is_short: bool = False) -> bytes:
    """Return a table as the bytes of an Arrow stream, compressed unless it is short."""
    out = io.BytesIO()
    compression = None if is_short else "zstd"
    options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=not is_short)
    with pa.ipc.new_stream(out, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())
    return out.getvalue()


def pack_chunk(chunk: Chunk) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the form of a chunk as JSON can represent it, and the columns of its rows."""
    columns = dict(chunk.columns)
    columns |= {f"{ABSENT}{name}": pa.array(flags) for name, flags in chunk.absent.items()}
    form = {"cells": chunk.cells, "table": chunk.table, "offered": chunk.offered}
    return {**form, "categorical": sorted(chunk.categorical)}, columns


def unpack_chunk(
    form: Mapping[str, Any], table: pa.Table, source: str, wanted: Callable[[str], bool]
) -> Chunk:
    """Return a chunk of a form and the columns of its rows."""
    names = [name for name in table.column_names if not name.startswith("\x00")]
    columns = {name: table[name].combine_chunks() for name in names if wanted(name)}
    return Chunk(
        source,
        1,
        table.num_rows,
        columns,
        ReadPosition(),
        cells=form["cells"],
        table=form["table"],
        offered=tuple(form["offered"]) if form["table"] else (),
        absent={
            name: np.asarray(table[ABSENT + name].to_numpy(), dtype=bool)
            for name in columns
            if ABSENT + name in table.column_names
        },
        names=() if form["table"] else tuple(names),
        categorical=frozenset(form["categorical"]),
    )


def with_labels(chunk: Chunk, name: str, labels: pa.Array) -> Chunk:
    """Return events with a column of labels."""
    return replace(
        chunk,
        columns={**chunk.columns, name: labels},
        offered=(*chunk.offered, name) if chunk.table else (),
        names=() if chunk.table else (*chunk.names, name),
    )


def chunk_of_events(
    texts: Sequence[str],
    source: str,
    kinds: Mapping[str, str],
    wanted: Callable[[str], bool],
    events: Sequence[Mapping[str, Any]] | None = None,
) -> Chunk:
    """Return events, each a JSON object on one line, as a chunk.

    ``events`` are the same objects, if they were parsed before.
    """
    plain = _plain_columns(events or list(map(json.loads, texts)), kinds, wanted)
    if plain is not None:
        names, columns = plain
        position = ReadPosition()
        return Chunk(source, 1, len(texts), columns, position, table=False, names=names)
    data = "\n".join([*texts, ""]).encode()
    block = RecordBlock(data, 1, len(texts), ReadPosition())
    return Chunk(
        source, 1, len(texts), mark=block.mark, **JsonLines().parse(block, source, kinds, wanted)
    )


def _plain_columns(
    events: Sequence[Mapping[str, Any]], kinds: Mapping[str, str], wanted: Callable[[str], bool]
) -> tuple[tuple[str, ...], dict[str, pa.Array]] | None:
    """Return the names and columns of events as the reader of JSON lines does, only faster.

    None unless all events have the same fields, of kinds that were learned, and no value is
    missing.
    """
    names = tuple(events[0])
    if any(event.keys() != events[0].keys() for event in events):
        return None
    columns: dict[str, pa.Array] = {}
    for name in filter(wanted, names):
        values, kind = [event[name] for event in events], kinds.get(name)
        types = set(map(type, values))
        if kind == "number" and types <= {float, int}:
            if int in types and any(abs(value) > MAX_EXACT for value in values):
                return None
            columns[name] = pa.array(np.array(values, dtype=np.float64))
        elif kind in ("category", "hash") and types == {str}:
            columns[name] = pa.array(values, pa.string())
        else:
            return None
    return names, columns


def label_type(kind: pa.DataType) -> str:
    """Return the type of a column of labels: "bool", "number" or "text"."""
    if pa.types.is_boolean(kind):
        return "bool"
    return "number" if pa.types.is_integer(kind) or pa.types.is_floating(kind) else "text"


def label_array(texts: Sequence[str], form: Mapping[str, Any], cells: bool) -> pa.Array:
    """Return labels as their file had them; text of a text file as the events have numbers."""
    labels = pa.array(list(texts), pa.string())
    if form["type"] == "bool":
        return labels.cast(pa.bool_())
    if form["type"] != "number" and (cells or not form["cells"]):
        return labels
    chunk = Chunk("", 1, len(texts), {"label": labels}, ReadPosition(), cells=True)
    if cell_parsing.kind_of(chunk, "label") != "number":
        return labels
    try:
        return labels.cast(pa.int64())
    except pa.ArrowInvalid:
        return labels


def texts_by_id(id: str, events: Sequence[Mapping[str, Any]]) -> dict[str, str]:  # noqa: A002
    """Return events as JSON objects by the id in a field, checked."""
    texts: dict[str, str] = {}
    for k, event in enumerate(events):
        require_object(k, event)
        one = id_of(id, k, event)
        if one in texts:
            raise row_error(k, f"{id} {one!r} occurs twice", id)
        if event[id] != one:
            event = {**event, id: one}
        try:
            text = ENCODER.encode(event)
            text.encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise row_error(k, f"not a JSON object: {str(error)[:100]}; correct it") from None
        texts[one] = text
    return texts


def id_of(id: str, k: int, row: Mapping[str, Any]) -> str:  # noqa: A002
    """Return the id in a field of the row at an index, as text."""
    if id not in row:
        raise row_error(k, f"no id in field {id!r}; give it", id)
    value = row[id]
    is_valid = isinstance(value, str) or type(value) is int
    if not is_valid or not 0 < len(str(value)) <= MAX_ID_LENGTH:
        problem = f"the id in field {id!r} must be an integer or text of 1 to {MAX_ID_LENGTH:,}"
        raise row_error(k, f"{problem} characters; correct it", id)
    return str(value)


def require_object(k: int, row: Any) -> None:
    """Raise unless the row at an index is a JSON object."""
    if not isinstance(row, Mapping) or not all(isinstance(name, str) for name in row):
        raise row_error(k, "not a JSON object; give names and values")


def row_error(k: int, problem: str, field: str | None = None) -> DataError:
    """Return the error about the row at an index, and perhaps about a field of it."""
    error = DataError(f"row {k + 1}: {problem}")
    error.row, error.field = k, field
    return error


def conflict(k: int, problem: str) -> ConflictError:
    """Return the error about the id of the row at an index."""
    error = ConflictError(problem)
    error.row = k
    return error


def hash_event(event: str) -> str:
    """Return a hash of an event, which is independent of the order of its fields."""
    digest: str = xxh3_128_hexdigest(json.dumps(json.loads(event), sort_keys=True).encode())
    return digest


def is_same_event(one: str, two: str) -> bool:
    """Return whether two events have the same features."""
    return one == two or json.loads(one) == json.loads(two)


def require_no_label(texts: Mapping[str, str], label: str) -> None:
    """Raise if an event that is to be predicted has a label."""
    for k, text in enumerate(texts.values()):
        if label in json.loads(text):
            raise row_error(k, f"the event has its label {label!r} already; learn it", label)
