"""Parquet and Arrow: record batches, validated and cut into chunks of a given number of rows.

A mark holds a hash of the values of the columns, each in a stream of its own, so that neither row
groups nor batches matter.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet
from xxhash import xxh3_128

from counterpoise.errors import DataError, Suggestion
from counterpoise.readers.byte_source import Bytes, cannot_read
from counterpoise.readers.chunk import (
    CHUNK_BYTES,
    LONGEST,
    PREFIX_LENGTHS,
    Chunk,
    ReadPosition,
    input_changed_error,
    prefetch,
    require_different,
    require_few,
)

MARK = b"ARROW1"
CONTINUATION = 0xFFFFFFFF
DESCRIPTION = 1 << 26  # bytes of a description at most
BODY = 1 << 30  # bytes of a body at most, expanded
DICTIONARY_BATCH, RECORD_BATCH = 2, 3  # kinds of messages that have a body


class Messages:
    """A stream of messages as pyarrow reads it from a Python file, one whole message at a time."""

    closed = False

    def __init__(self, read: Callable[[int], bytes], name: str) -> None:
        self._read, self._name = read, name
        self._message, self._at, self._start = b"", 0, b""
        self._start = self._exactly(8)
        if self._start.startswith(MARK):  # a file that is read as a stream
            self._start = b""

    def read(self, most: int) -> bytes:
        """Read bytes of the current message, or of the next one if it has ended."""
        if self._at == len(self._message):
            self._message, self._at = self._next(), 0
        data = self._message[self._at : self._at + most]
        self._at += len(data)
        return data

    def close(self) -> None:
        """Do nothing."""

    def _next(self) -> bytes:
        prefix = self._exactly(4)
        if len(prefix) == 4 and _number("<I", prefix, 0) == CONTINUATION:
            prefix += self._exactly(4)
        if len(prefix) < 4:
            return prefix
        length = _number("<i", prefix, len(prefix) - 4)
        if length <= 0:
            return prefix
        require_moderate(length, DESCRIPTION, self._name)
        description = self._exactly(length)
        if len(description) < length:
            return prefix + description
        size = body_length(description, self._name)
        require_moderate(size, BODY, self._name)
        body = self._exactly(size)
        size = expanded(description, lambda at: body[at : at + 8], self._name)
        require_moderate(size, BODY, self._name)
        return prefix + description + body

    def _exactly(self, size: int) -> bytes:
        """Read exactly so many bytes, fewer only at the end; a pipe may deliver them in parts."""
        parts, self._start = [self._start[:size]], self._start[size:]
        left = size - len(parts[0])
        while left and (more := self._read(min(left, 1 << 20))):
            parts.append(more)
            left -= len(more)
        return b"".join(parts)


def require_moderate_file(path: str, name: str) -> None:
    """Raise if a message in the footer of an Arrow file claims to be too large."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 10, 0))
        length = _number("<i", file.read(4), 0, name)
        if not 0 < length <= size - 10:
            raise DataError(f"{name} cannot be read: it has no footer; it was cut off or damaged")
        require_moderate(length, DESCRIPTION, name)
        file.seek(size - 10 - length)
        footer = file.read(length)
        for slot in (2, 3):  # dictionaries, and batches
            for at in _vector(footer, _field(footer, _root(footer, name), slot, name), 24, name):
                offset, described, body = struct.unpack_from("<qi4xq", footer, at)
                if not (0 <= offset <= size and described >= 0 and 0 <= body <= size):
                    raise DataError(f"{name} cannot be read: its footer points beyond its end")
                require_moderate(described, DESCRIPTION, name)
                require_moderate(body, BODY, name)
                file.seek(offset)
                description = file.read(described)
                start = 8 if description.startswith(b"\xff\xff\xff\xff") else 4

                def peek(at: int, body: int = offset + described) -> bytes:
                    file.seek(body + at)
                    return file.read(8)

                require_moderate(expanded(description[start:], peek, name), BODY, name)


def require_moderate(size: int, most: int, name: str) -> None:
    """Raise if a message claims ``size`` bytes and only ``most`` are allowed."""
    if not 0 <= size <= most:
        raise DataError(
            f"{name}: an Arrow message claims {size:,} bytes, more than {most:,}; the input is "
            "damaged, or its batches have too many rows: write smaller ones"
        )


def body_length(description: bytes, name: str) -> int:
    """Bytes of the body of a message, by its flatbuffer."""
    at = _field(description, _root(description, name), 3, name)
    return _number("<q", description, at, name) if at else 0


def expanded(description: bytes, peek: Callable[[int], bytes], name: str) -> int:
    """Bytes that the compressed buffers of a message expand to; 0 if they are not compressed.

    ``peek`` returns the 8 bytes of the body at an offset, fewer at its end.
    """
    root = _root(description, name)
    kind, header = (_field(description, root, slot, name) for slot in (1, 2))
    what = description[kind] if 0 < kind < len(description) else 0
    if not header or what not in (DICTIONARY_BATCH, RECORD_BATCH):
        return 0
    batch = _follow(description, header, name)
    if what == DICTIONARY_BATCH:
        data = _field(description, batch, 1, name)
        batch = _follow(description, data, name) if data else 0
    if not batch or not _field(description, batch, 3, name):
        return 0
    total = 0
    for at in _vector(description, _field(description, batch, 2, name), 16, name):
        offset, length = struct.unpack_from("<qq", description, at)
        start = peek(offset) if length >= 8 and 0 <= offset <= BODY else b""
        if len(start) == 8:
            total += max(0, _number("<q", start, 0))  # -1 says that it is not compressed
    return total


# Flatbuffers: https://flatbuffers.dev/internals


def _root(data: bytes, name: str) -> int:
    return _follow(data, 0, name)


def _follow(data: bytes, at: int, name: str) -> int:
    """Target of an offset."""
    return at + _number("<I", data, at, name)


def _field(data: bytes, table: int, slot: int, name: str) -> int:
    """Position of a field of a table, or 0 if it is absent."""
    virtual = table - _number("<i", data, table, name)
    place = 4 + 2 * slot
    if place >= _number("<H", data, virtual, name):
        return 0
    offset = _number("<H", data, virtual + place, name)
    return table + offset if offset else 0


def _vector(data: bytes, field: int, size: int, name: str) -> range:
    """Positions of the structs of a vector; none if it is absent."""
    if not field:
        return range(0)
    at = _follow(data, field, name)
    count = _number("<I", data, at, name)
    if at + 4 + size * count > len(data):
        raise _damaged(name)
    return range(at + 4, at + 4 + size * count, size)


def _number(kind: str, data: bytes, at: int, name: str = "") -> int:
    if not 0 <= at <= len(data) - struct.calcsize(kind):
        raise _damaged(name)
    found: int = struct.unpack_from(kind, data, at)[0]
    return found


def _damaged(name: str) -> DataError:
    return DataError(f"{name} cannot be read: an Arrow message is damaged")


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
                Suggestion("leave the column out", "columns", {name: "drop"}),
            )
        return text.cast(pa.string())
    simple = pa.types.is_boolean(kind) or pa.types.is_null(kind)
    if simple or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind)):
        return column
    raise DataError(
        f"{source}, column {name!r}: values of type {kind} cannot be learned",
        Suggestion("convert them to text or numbers"),
        Suggestion("leave the column out", "columns", {name: "drop"}),
    )


BATCH = 1 << 15  # rows read at a time, at most


class ColumnarSource:
    """A Parquet file, or an Arrow file or stream."""

    def __init__(self, path: str, name: str, parquet: bool) -> None:
        self.path, self.name, self.parquet = path, name, parquet
        self.unhashed: frozenset[str] = frozenset()
        self.left = False  # such a file is whole, or cannot be read
        self._rows, self._total = 0, 0
        self._offered: tuple[str, ...] = ()
        self._categorical: set[str] = set()

    def done(self) -> tuple[int, int]:
        """Rows read so far and in total, instead of bytes."""
        return self._rows, self._total

    def verify(self, after: ReadPosition, wanted: Callable[[str], bool]) -> None:
        """Raise if the rows before a mark have changed."""
        next(self.chunks(1, after, {}, wanted), None)

    def starts(self, wanted: Callable[[str], bool]) -> tuple[str, ...]:
        """Hashes of the first rows."""
        first = next(self.chunks(PREFIX_LENGTHS[-1], ReadPosition(), {}, wanted), None)
        return () if first is None else first.starts

    def chunks(
        self,
        rows: int,
        after: ReadPosition,
        kinds: Mapping[str, str],
        wanted: Callable[[str], bool],
        until: int | None = None,
    ) -> Iterator[Chunk]:
        """Read the rows after a mark; see :class:`~counterpoise.readers.chunk.Source`."""
        hashes = _Hashes()
        self._rows, cutter = 0, _Cutter(rows)
        try:
            for table in self._read_ahead(self._tables(wanted)):
                if self._rows < after.rows:
                    old = table.slice(0, after.rows - self._rows)
                    table = table.slice(old.num_rows)
                    hashes.add(self._hashed(old))
                    self._rows += old.num_rows
                    if self._rows == after.rows and hashes.digest() != after.hash:
                        raise input_changed_error(self.name, after)
                for whole in cutter.add(table):
                    yield self._chunk(whole, hashes)
        except OSError as error:
            raise cannot_read(self.name, error) from None
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise DataError(f"{self.name} cannot be read: {_words(error)}") from None
        if self._rows < after.rows:
            raise input_changed_error(self.name, after)
        for rest in cutter.rest():
            yield replace(self._chunk(rest, hashes), last=True)

    def _read_ahead(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Read a file in another thread, while its rows are learned."""
        return prefetch(tables, depth=1)

    def _tables(self, wanted: Callable[[str], bool]) -> Iterator[pa.Table]:
        for batch in self._batches(wanted):
            self._categorical |= {f.name for f in batch.schema if is_category(f.type)}
            yield from plain(batch, self.name)

    def _chunk(self, table: pa.Table, hashes: _Hashes) -> Chunk:
        hashes.add(self._hashed(table))
        first, self._rows = self._rows + 1, self._rows + table.num_rows
        columns = {name: _whole(table[name]) for name in table.column_names}
        mark = ReadPosition(self._rows, 0, hashes.digest())
        starts = _starts(self._hashed(table)) if first == 1 else ()
        return Chunk(
            self.name,
            first,
            table.num_rows,
            columns,
            mark,
            offered=self._offered,
            starts=starts,
            categorical=frozenset(self._categorical),
        )

    def _hashed(self, table: pa.Table) -> pa.Table:
        """Return the columns on which marks depend."""
        return table.select([name for name in table.column_names if name not in self.unhashed])

    def _batches(self, wanted: Callable[[str], bool]) -> Iterator[pa.RecordBatch]:
        if self.parquet:
            if self.path == "-":
                raise DataError(
                    "Parquet cannot be read from standard input: its index is at the end; "
                    "give the file"
                )
            yield from self._row_groups(wanted)
            return
        source = Bytes(self.path, self.name)
        try:
            if self.path != "-" and source.begins(MARK):
                require_moderate_file(self.path, self.name)
                with pa.OSFile(self.path) as file, pa.ipc.open_file(file) as reader:
                    for i in range(reader.num_record_batches):
                        yield self._only(reader.get_batch(i), wanted)
            else:
                messages = Messages(source.raw, self.name)
                with pa.ipc.open_stream(pa.PythonFile(messages, "r")) as reader:
                    for batch in reader:
                        yield self._only(batch, wanted)
        finally:
            source.close()

    def _row_groups(self, wanted: Callable[[str], bool]) -> Iterator[pa.RecordBatch]:
        """Batches of a Parquet file, with fewer rows if rows are large."""
        with pa.parquet.ParquetFile(self.path, buffer_size=1 << 16, pre_buffer=False) as file:
            metadata, schema = file.metadata, file.schema_arrow
        self._total, self._offered = metadata.num_rows, tuple(schema.names)
        columns = [name for name in self._offered if wanted(name)] or list(self._offered)
        require_few(len(columns), self.name)
        # Text that is kept once for many rows is read as such, for it may be long.
        text = [f.name for f in schema if f.type in (pa.string(), pa.large_string())]
        with pa.parquet.ParquetFile(
            self.path, read_dictionary=text, buffer_size=1 << 16, pre_buffer=False
        ) as file:
            yield from file.iter_batches(_batch_rows(metadata, len(columns)), columns=columns)

    def _only(self, batch: pa.RecordBatch, wanted: Callable[[str], bool]) -> pa.RecordBatch:
        self._offered = tuple(batch.schema.names)
        columns = [j for j, name in enumerate(self._offered) if wanted(name)]
        require_few(len(columns), self.name)
        return batch.select(columns)


class _Cutter:
    """Cuts rows into chunks of a number of rows, or fewer if they reach a number of bytes."""

    def __init__(self, rows: int) -> None:
        self.most = rows
        self._open: list[pa.Table] = []
        self._rows, self._bytes = 0, 0

    def add(self, table: pa.Table) -> Iterator[pa.Table]:
        """Add rows; yield the chunks that are now complete."""
        each = sizes(table)
        while table.num_rows:
            ends = self._bytes + np.cumsum(each)
            rows = min(self.most - self._rows, int(np.searchsorted(ends, CHUNK_BYTES)) + 1)
            self._open.append(table.slice(0, rows))
            self._rows += self._open[-1].num_rows
            self._bytes = int(ends[: self._open[-1].num_rows][-1])
            table, each = table.slice(rows), each[rows:]
            if self._rows == self.most or self._bytes >= CHUNK_BYTES:
                yield from self.rest()

    def rest(self) -> Iterator[pa.Table]:
        """Yield the rows after the last complete chunk, if there are any."""
        if self._open:
            joined = len(self._open) > 1
            mixed = joined and any(t.schema != self._open[0].schema for t in self._open)
            how = "permissive" if mixed else "none"  # pieces of a frame may differ in their numbers
            yield pa.concat_tables(self._open, promote_options=how) if joined else self._open[0]
        self._open, self._rows, self._bytes = [], 0, 0


class _Hashes:
    """A hash of each column, fed value by value."""

    def __init__(self) -> None:
        self._by_column: dict[str, tuple[str, Any, Any]] = {}

    def add(self, table: pa.Table) -> None:
        for name in table.column_names:
            column = table[name]
            _, values, lengths = self._by_column.setdefault(
                name, (str(column.type), xxh3_128(), xxh3_128())
            )
            for part in column.chunks:
                if pa.types.is_string(part.type):
                    length = pa.compute.binary_length(part).fill_null(-1)
                    lengths.update(np.ascontiguousarray(length))
                    offsets = np.frombuffer(part.buffers()[1], np.int32)[part.offset :]
                    start, end = offsets[0], offsets[len(part)]
                    if end > start:
                        values.update(memoryview(part.buffers()[2])[start:end])
                elif pa.types.is_floating(part.type):
                    values.update(np.ascontiguousarray(part.to_numpy(zero_copy_only=False)))
                elif not pa.types.is_null(part.type):
                    if pa.types.is_temporal(part.type):
                        part = part.view(f"int{part.type.bit_width}")
                    lengths.update(_numbers(part.is_valid()))
                    values.update(_numbers(part.fill_null(False if part.type == "bool" else 0)))

    def digest(self) -> str:
        whole = xxh3_128()
        for name, (kind, values, lengths) in sorted(self._by_column.items()):
            whole.update(f"{name}\0{kind}\0{values.hexdigest()}{lengths.hexdigest()}\n".encode())
        return whole.hexdigest()


def _starts(table: pa.Table) -> tuple[str, ...]:
    """Hashes of the first rows."""
    result = []
    for rows in PREFIX_LENGTHS:
        if rows <= table.num_rows:
            hashes = _Hashes()
            hashes.add(table.slice(0, rows))
            result.append(hashes.digest())
    return tuple(result)


def _numbers(array: pa.Array) -> Any:
    return np.ascontiguousarray(array.to_numpy(zero_copy_only=False))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _batch_rows(metadata: Any, columns: int) -> int:
    """Rows of a Parquet file to read at a time, by the sizes in its metadata."""
    largest = float(CELL * columns)
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        largest = max(largest, group.total_byte_size / max(group.num_rows, 1))
    return int(min(BATCH, max(1.0, 4 * CHUNK_BYTES / largest)))


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
