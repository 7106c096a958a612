"""Untrusted Arrow batches: fully validated, then turned into plain columns of moderate size.

Arrow believes what a batch says of itself: an offset beyond the data is followed. So every batch
is validated in full, its dictionaries too, before any value is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.errors import DataError, Remedy
from counterpoise.streams.chunk import CHUNK_BYTES, LONGEST, require_different

CELL = 8  # bytes that any cell is taken to need
NOTHING = 1 << 16  # rows of a batch in which every value is missing


def plain(batch: pa.RecordBatch, source: str) -> Iterator[pa.Table]:
    """Yield the rows of a batch with columns of float64, whole numbers, text, booleans or times.

    They come in several tables if a dictionary would make them very large.
    """
    batch.validate(full=True)
    if batch.num_rows > NOTHING + 8 * batch.get_total_buffer_size():
        raise DataError(f"{source}: a batch of {batch.num_rows:,} rows without values")
    names = list(batch.schema.names)
    require_different(names, source)
    batch = pa.record_batch([_sound(column) for column in batch.columns], names)
    for part in _parts(batch):
        columns = zip(names, part.columns, strict=True)
        yield pa.table({name: _simple(name, column, source) for name, column in columns})


def is_category(kind: pa.DataType) -> bool:
    """Return whether a type says that its numbers are categories."""
    if not pa.types.is_dictionary(kind):
        return False
    value = kind.value_type
    number = pa.types.is_integer(value) or pa.types.is_floating(value)
    return bool(number or pa.types.is_decimal(value))


def sizes(table: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Estimated bytes of each row, of shape (rows,), independent of its batch."""
    total = np.full(table.num_rows, CELL * table.num_columns, dtype=np.int64)
    for column in table.columns:
        if pa.types.is_string(column.type):
            total += pc.binary_length(column).fill_null(0).to_numpy()
    return total


def _sound(column: pa.Array) -> pa.Array:
    """Convert text views to plain text if a null has content, which would crash pyarrow's casts."""
    if pa.types.is_dictionary(column.type):
        words = _sound(column.dictionary)
        same = words is column.dictionary
        return column if same else pa.DictionaryArray.from_arrays(column.indices, words)
    if not pa.types.is_string_view(column.type) or not column.null_count:
        return column
    views = np.frombuffer(column.buffers()[1], dtype=np.int64).reshape(-1, 2)
    views = views[column.offset : column.offset + len(column)]
    null = column.is_null().to_numpy(zero_copy_only=False)
    return pa.array(column.to_pylist(), pa.large_string()) if views[null].any() else column


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch, or slices of it if decoding its dictionaries would take much more memory."""
    total = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        if pa.types.is_dictionary(column.type) and _is_text(column.type.value_type):
            length = pc.binary_length(column.dictionary.cast(pa.large_string()))
            total += length.take(column.indices).fill_null(0).to_numpy(zero_copy_only=False)
    if total.sum() <= CHUNK_BYTES:
        yield batch
        return
    start, ends = 0, np.cumsum(total)
    while start < batch.num_rows:
        before = 0 if not start else ends[start - 1]
        end = max(start + 1, int(np.searchsorted(ends, before + CHUNK_BYTES)))
        yield batch.slice(start, end - start)
        start = end


def _is_text(kind: pa.DataType) -> bool:
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(text or pa.types.is_string_view(kind))


def _simple(name: str, column: pa.Array, source: str) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        values = column.dictionary
        if _is_text(values.type):  # views cannot be taken
            values = values.cast(pa.large_string())
        column = values.take(column.indices)
        kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.float64(), safe=False)
    if pa.types.is_integer(kind):  # names of categories may have more digits than a float
        return column if kind == pa.uint64() else column.cast(pa.int64())
    if _is_text(kind):
        text = column if kind == pa.string() else column.cast(pa.large_string())
        length = pc.max(pc.binary_length(text)).as_py() or 0
        if length > LONGEST:
            raise DataError(
                f"{source}, column {name!r}: a text of {length:,} bytes, longer than "
                f"{LONGEST >> 20} MB",
                Remedy("leave the column out", "drop", [name]),
            )
        return text.cast(pa.string())
    simple = pa.types.is_boolean(kind) or pa.types.is_null(kind)
    if simple or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind)):
        return column
    raise DataError(
        f"{source}, column {name!r}: values of type {kind} cannot be learned",
        Remedy("convert them to text or numbers"),
        Remedy("leave the column out", "drop", [name]),
    )
