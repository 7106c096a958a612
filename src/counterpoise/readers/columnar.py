"""Parquet and Arrow: record batches, validated and cut into chunks of a given number of rows.

A mark contains a hash of the values of each column, so that row groups and batches do not matter.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet
from xxhash import xxh3_128, xxh3_128_hexdigest

from counterpoise.errors import DataError, Suggestion
from counterpoise.readers.byte_source import Bytes, PythonFile, cannot_read
from counterpoise.readers.chunk import (
    CHUNK_BYTES,
    LONGEST,
    PREFIX_LENGTHS,
    Chunk,
    ReadPosition,
    Source,
    drop_remedy,
    input_changed_error,
    prefetch,
    require_different,
    require_few,
    whole_array,
)

ARROW_MAGIC = b"ARROW1"
CONTINUATION = 0xFFFFFFFF
DESCRIPTION = 1 << 26  # bytes of a description at most
BODY = 1 << 30  # bytes of a body at most, expanded
DICTIONARY_BATCH, RECORD_BATCH = 2, 3  # kinds of messages that have a body
CELL_BYTES = 8  # estimated bytes of any cell
FLOAT64, INT64, STRING, STRING_VIEW = pa.float64(), pa.int64(), pa.string(), pa.string_view()
MAX_EMPTY_ROWS = 1 << 16  # rows of a batch in which every value is missing
NO_HASH = xxh3_128().hexdigest()  # of no values
BATCH = 1 << 15  # rows read at a time, at most


class Messages:
    """A stream of Arrow messages, read one whole message of moderate size at a time."""

    def __init__(self, read: Callable[[int], bytes], name: str) -> None:
        self._read, self._name = read, name
        self._message, self._at, self._start = b"", 0, b""
        self._start = self._exactly(8)
        if self._start.startswith(ARROW_MAGIC):  # a file that is read as a stream
            self._start = b""

    def read(self, most: int) -> bytes:
        """Read bytes of the current message, or of the next one if it has ended."""
        if self._at == len(self._message):
            self._message, self._at = self._next(), 0
        data = self._message[self._at : self._at + most]
        self._at += len(data)
        return data

    def _next(self) -> bytes:
        prefix = self._exactly(4)
        if prefix == CONTINUATION.to_bytes(4, "little"):
            prefix += self._exactly(4)
        if len(prefix) < 4:
            return prefix
        length = int.from_bytes(prefix[-4:], "little", signed=True)
        if length <= 0:
            return prefix
        require_moderate(length, DESCRIPTION, self._name)
        description = self._exactly(length)
        if len(description) < length:
            return prefix + description
        table = FlatTable(description, self._name)
        require_moderate(table.number(3, "<q"), BODY, self._name)
        body = self._exactly(table.number(3, "<q"))
        require_moderate(table.expanded_size(lambda at: body[at : at + 8]), BODY, self._name)
        return prefix + description + body

    def _exactly(self, size: int) -> bytes:
        """Read ``size`` bytes, fewer only at the end; a pipe may deliver them in parts."""
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
        length = int.from_bytes(file.read(4), "little", signed=True)
        if not 0 < length <= size - 10:
            raise DataError(f"{name} cannot be read: it has no footer; it was cut off or damaged")
        require_moderate(length, DESCRIPTION, name)
        file.seek(size - 10 - length)
        footer = FlatTable(file.read(length), name)
        for slot in (2, 3):  # dictionaries, and batches
            for offset, described, body in footer.structs(slot, "<qi4xq"):
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

                expanded = FlatTable(description[start:], name).expanded_size(peek)
                require_moderate(expanded, BODY, name)


def require_moderate(size: int, most: int, name: str) -> None:
    """Raise if a message claims ``size`` bytes and only ``most`` are allowed."""
    if not 0 <= size <= most:
        raise DataError(
            f"{name}: an Arrow message claims {size:,} bytes, more than {most:,}; the input is "
            "damaged, or its batches have too many rows: write smaller ones"
        )


class FlatTable:
    """A table of untrusted flatbuffers (https://flatbuffers.dev/internals), its root by default."""

    def __init__(self, data: bytes, name: str, at: int = 0) -> None:
        self.data, self.name = data, name
        self.start = at + self._unpack("<I", at)

    def number(self, slot: int, kind: str) -> int:
        """Return a number, 0 if it is absent."""
        at = self._field(slot)
        return self._unpack(kind, at) if at else 0

    def table(self, slot: int) -> FlatTable | None:
        """Return a nested table, None if it is absent."""
        at = self._field(slot)
        return FlatTable(self.data, self.name, at) if at else None

    def structs(self, slot: int, kind: str) -> Iterator[tuple[int, ...]]:
        """Return the structs of a vector."""
        field, size = self._field(slot), struct.calcsize(kind)
        at = field + self._unpack("<I", field) if field else 0
        count = self._unpack("<I", at) if field else 0
        if at + 4 + size * count > len(self.data) and count:
            raise self._damage_error()
        return struct.iter_unpack(kind, self.data[at + 4 : at + 4 + size * count])

    def expanded_size(self, peek: Callable[[int], bytes]) -> int:
        """Return the bytes to which the compressed buffers of this message expand, 0 if none.

        ``peek`` returns the 8 bytes of the body at an offset, fewer at its end.
        """
        kind, batch = self.number(1, "<B"), self.table(2)
        if batch is not None and kind == DICTIONARY_BATCH:
            batch = batch.table(1)
        if batch is None or kind not in (DICTIONARY_BATCH, RECORD_BATCH) or not batch._field(3):
            return 0
        total = 0
        for offset, length in batch.structs(2, "<qq"):
            start = peek(offset) if length >= 8 and 0 <= offset <= BODY else b""
            if len(start) == 8:  # -1 for a buffer that is not compressed
                total += max(0, int.from_bytes(start, "little", signed=True))
        return total

    def _field(self, slot: int) -> int:
        """Return the index of a field, 0 if it is absent."""
        virtual = self.start - self._unpack("<i", self.start)
        entry = 4 + 2 * slot
        if entry >= self._unpack("<H", virtual):
            return 0
        offset = self._unpack("<H", virtual + entry)
        return self.start + offset if offset else 0

    def _unpack(self, kind: str, at: int) -> int:
        if not 0 <= at <= len(self.data) - struct.calcsize(kind):
            raise self._damage_error()
        found: int = struct.unpack_from(kind, self.data, at)[0]
        return found

    def _damage_error(self) -> DataError:
        return DataError(f"{self.name} cannot be read: an Arrow message is damaged")


def plain(batch: pa.RecordBatch, source: str) -> Iterator[pa.Table]:
    """Yield the rows of a batch with columns of float64, integers, text, booleans or times.

    They come in several tables if a dictionary would make them very large.
    """
    batch.validate(full=True)
    if batch.num_rows > MAX_EMPTY_ROWS + 8 * batch.get_total_buffer_size():
        raise DataError(f"{source}: a batch of {batch.num_rows:,} rows without values")
    names = list(batch.schema.names)
    require_different(names, source)
    if any(pa.types.is_dictionary(kind) or kind == STRING_VIEW for kind in batch.schema.types):
        batch = pa.record_batch([_sound(column) for column in batch.columns], names)
    for part in _parts(batch):
        columns = [*map(_simple, names, part.columns, repeat(source))]
        yield pa.Table.from_arrays(columns, names)


def is_category(kind: pa.DataType) -> bool:
    """Return whether a type is of categories that are numbers."""
    if not pa.types.is_dictionary(kind):
        return False
    value = kind.value_type
    number = pa.types.is_integer(value) or pa.types.is_floating(value)
    return bool(number or pa.types.is_decimal(value))


def _sound(column: pa.Array) -> pa.Array:
    """Convert text views to plain text if a null has content, which would crash pyarrow's casts."""
    if pa.types.is_dictionary(column.type):
        values = _sound(column.dictionary)
        is_same = values is column.dictionary
        return column if is_same else pa.DictionaryArray.from_arrays(column.indices, values)
    if not pa.types.is_string_view(column.type) or not column.null_count:
        return column
    views = np.frombuffer(column.buffers()[1], dtype=np.int64).reshape(-1, 2)
    views = views[column.offset : column.offset + len(column)]
    null = column.is_null().to_numpy(zero_copy_only=False)
    return pa.array(column.to_pylist(), pa.large_string()) if views[null].any() else column


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the batch, or slices of it if decoding its dictionaries takes much more memory."""
    kinds, total = batch.schema.types, np.zeros(batch.num_rows, dtype=np.int64)
    for j, kind in enumerate(kinds):
        if pa.types.is_dictionary(kind) and _is_text(kind.value_type):
            column = batch.column(j)
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
    if kind in (FLOAT64, INT64):
        return column
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
                drop_remedy(name),
            )
        return text.cast(pa.string())
    simple = pa.types.is_boolean(kind) or pa.types.is_null(kind)
    if simple or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind)):
        return column
    raise DataError(
        f"{source}, column {name!r}: values of type {kind} cannot be learned",
        Suggestion("convert them to text or numbers"),
        drop_remedy(name),
    )


class ColumnarSource(Source):
    """An input of Arrow record batches; subclasses yield them."""

    is_foreign = False  # whether that thread must end before the process does

    def __init__(self, path: str, name: str) -> None:
        self.path, self.name = path, name
        self.unhashed: frozenset[str] = frozenset()
        self._rows, self._total = 0, 0
        self._offered: tuple[str, ...] = ()
        self._categorical: set[str] = set()

    def done(self) -> tuple[int, int]:
        """Return the rows read so far and in total, instead of bytes."""
        return self._rows, self._total

    def chunks(
        self,
        rows: int,
        after: ReadPosition,
        kinds: Mapping[str, str],
        wanted: Callable[[str], bool],
        until: int | None = None,
    ) -> Iterator[Chunk]:
        """Read the rows after a mark."""
        hashes = ColumnHashes()
        self._rows, cutter = 0, _RowCutter(rows)
        tables = self._tables(wanted)
        try:
            ahead = prefetch(tables, 1, must_end=self.is_foreign) if self.reads_ahead else tables
            for table in ahead:
                for whole in cutter.add(self._skip_past(table, after, hashes)):
                    yield self._chunk(whole, hashes)
            self._end_past(after)
        except OSError as error:
            raise cannot_read(self.name, error) from None
        except (pa.ArrowException, UnicodeDecodeError) as error:
            text = " ".join(str(error).split())[:200]
            raise DataError(f"{self.name} cannot be read: {text}") from None
        for rest in cutter.rest():
            yield replace(self._chunk(rest, hashes), last=True)

    def _skip_past(self, table: pa.Table, after: ReadPosition, hashes: ColumnHashes) -> pa.Table:
        """Return the rows after a mark; raise if those before it have changed."""
        if self._rows < after.rows:
            old = table.slice(0, after.rows - self._rows)
            table = table.slice(old.num_rows)
            hashes.add(self._select_hashed(arrays_of(old)))
            self._rows += old.num_rows
            if self._rows == after.rows and hashes.digest() != after.hash:
                raise input_changed_error(self.name, after)
        return table

    def _end_past(self, after: ReadPosition) -> None:
        """Raise if an input has ended before a mark."""
        if self._rows < after.rows:
            raise input_changed_error(self.name, after)

    def _batches(self, wanted: Callable[[str], bool]) -> Iterator[pa.RecordBatch]:
        """Yield batches of the selected columns."""
        raise NotImplementedError

    def _tables(self, wanted: Callable[[str], bool]) -> Iterator[pa.Table]:
        for batch in self._batches(wanted):
            self._categorical |= {f.name for f in batch.schema if is_category(f.type)}
            yield from plain(batch, self.name)

    def _select(self, names: Sequence[str], wanted: Callable[[str], bool]) -> list[str]:
        """Return the selected columns of all; raise if there are too many."""
        self._offered = tuple(names)
        columns = [name for name in names if wanted(name)]
        require_few(len(columns), self.name)
        return columns

    def _chunk(self, table: pa.Table, hashes: ColumnHashes) -> Chunk:
        columns = arrays_of(table)
        hashed = self._select_hashed(columns)
        hashes.add(hashed)
        first, self._rows = self._rows + 1, self._rows + table.num_rows
        return Chunk(
            self.name,
            first,
            table.num_rows,
            columns,
            ReadPosition(self._rows, 0, hashes.digest()),
            offered=self._offered,
            starts=_starts(hashed, table.num_rows) if first == 1 else (),
            categorical=frozenset(self._categorical),
        )

    def _select_hashed(self, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
        """Return the columns on which marks depend."""
        return {name: column for name, column in columns.items() if name not in self.unhashed}


class ArrowSource(ColumnarSource):
    """An Arrow file or stream."""

    def _batches(self, wanted: Callable[[str], bool]) -> Iterator[pa.RecordBatch]:
        source = Bytes(self.path, self.name)
        try:
            if self.path != "-" and source.begins(ARROW_MAGIC):
                require_moderate_file(self.path, self.name)
                with pa.OSFile(self.path) as file, pa.ipc.open_file(file) as reader:
                    for i in range(reader.num_record_batches):
                        batch = reader.get_batch(i)
                        yield batch.select(self._select(batch.schema.names, wanted))
            else:
                yield from self._stream(source.raw, wanted)
        finally:
            source.close()

    def _stream(
        self, read: Callable[[int], bytes], wanted: Callable[[str], bool]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a stream."""
        messages = PythonFile(Messages(read, self.name).read)
        with pa.ipc.open_stream(pa.PythonFile(messages, "r")) as reader:
            for batch in reader:
                yield batch.select(self._select(batch.schema.names, wanted))


class ArrowBytes(ArrowSource):
    """An Arrow stream in memory."""

    reads_ahead = False

    def __init__(self, data: bytes, name: str) -> None:
        super().__init__(name, name)
        self._data = data

    def _batches(self, wanted: Callable[[str], bool]) -> Iterator[pa.RecordBatch]:
        yield from self._stream(io.BytesIO(self._data).read, wanted)


class ParquetSource(ColumnarSource):
    """A Parquet file."""

    def _batches(self, wanted: Callable[[str], bool]) -> Iterator[pa.RecordBatch]:
        if self.path == "-":
            raise DataError(
                "Parquet cannot be read from standard input: its index is at the end; give the file"
            )
        with pa.parquet.ParquetFile(self.path, buffer_size=1 << 16, pre_buffer=False) as file:
            metadata, schema = file.metadata, file.schema_arrow
        self._total = metadata.num_rows
        columns = self._select(schema.names, wanted) or schema.names
        # Text that is stored once for many rows is read as a dictionary, because it may be long.
        text = [f.name for f in schema if f.type in (pa.string(), pa.large_string())]
        with pa.parquet.ParquetFile(
            self.path, read_dictionary=text, buffer_size=1 << 16, pre_buffer=False
        ) as file:
            yield from file.iter_batches(_batch_rows(metadata, len(columns)), columns=columns)


class _RowCutter:
    """Rows that are cut into chunks of a number of rows, or fewer if they reach CHUNK_BYTES."""

    def __init__(self, rows: int) -> None:
        self.most = rows
        self._open: list[pa.Table] = []
        self._rows, self._bytes = 0, 0

    def add(self, table: pa.Table) -> Iterator[pa.Table]:
        """Add rows; yield the chunks that are now complete."""
        fixed = CELL_BYTES * table.num_columns
        texts = [table.column(j) for j, one in enumerate(table.schema.types) if one == STRING]
        start, n = 0, table.num_rows
        while start < n:
            rows = min(self.most - self._rows, n - start)
            lengths = [pc.binary_length(column.slice(start, rows)) for column in texts]
            size = fixed * rows + sum(pc.sum(one).as_py() or 0 for one in lengths)
            if self._bytes + size >= CHUNK_BYTES:
                each = np.full(rows, fixed, dtype=np.int64)
                for length in lengths:
                    each += length.fill_null(0).to_numpy()
                ends = np.cumsum(each)
                rows = int(np.searchsorted(ends, CHUNK_BYTES - self._bytes)) + 1
                rows, size = min(rows, len(ends)), int(ends[:rows][-1])
            self._open.append(table if rows == n else table.slice(start, rows))
            self._rows, self._bytes, start = self._rows + rows, self._bytes + size, start + rows
            if self._rows == self.most or self._bytes >= CHUNK_BYTES:
                yield from self.rest()

    def rest(self) -> Iterator[pa.Table]:
        """Yield the rows after the last complete chunk, if there are any."""
        if len(self._open) == 1:
            yield self._open[0]
        elif self._open:
            is_mixed = any(t.schema != self._open[0].schema for t in self._open)
            how = "permissive" if is_mixed else "none"  # parts of a frame may have other numbers
            yield pa.concat_tables(self._open, promote_options=how)
        self._open, self._rows, self._bytes = [], 0, 0


class ColumnHashes:
    """A hash of each column, updated value by value: batches do not matter."""

    def __init__(self) -> None:
        # The line of a column begins with its name and type.
        self._by_column: dict[str, tuple[str, Any, Any]] = {}

    def add(self, columns: Mapping[str, pa.Array]) -> None:
        """Add the next rows of columns."""
        for name, part in columns.items():
            kind = part.type
            if name not in self._by_column:
                lengths = None if kind == FLOAT64 else xxh3_128()  # whose lengths are not hashed
                self._by_column[name] = f"{name}\0{kind}\0", xxh3_128(), lengths
            _, values, lengths = self._by_column[name]
            if kind == FLOAT64:
                values.update(part.to_numpy(zero_copy_only=False))
            elif kind == STRING:
                length = pc.binary_length(part)
                length = length.fill_null(-1) if part.null_count else length
                lengths.update(np.ascontiguousarray(length))
                offsets = np.frombuffer(part.buffers()[1], np.int32)[part.offset :]
                start, end = offsets[0], offsets[len(part)]
                if end > start:
                    values.update(memoryview(part.buffers()[2])[start:end])
            elif not pa.types.is_null(kind):
                if pa.types.is_temporal(kind):
                    part = part.view(f"int{kind.bit_width}")
                if part.null_count:
                    lengths.update(_numbers(part.is_valid()))
                    part = part.fill_null(False if kind == "bool" else 0)
                else:
                    lengths.update(np.ones(len(part), dtype=bool))
                values.update(_numbers(part))

    def digest(self) -> str:
        """Return the hash of all columns."""
        lines = [
            f"{line}{values.hexdigest()}{NO_HASH if lengths is None else lengths.hexdigest()}\n"
            for _, (line, values, lengths) in sorted(self._by_column.items())
        ]
        return xxh3_128_hexdigest("".join(lines).encode())


def arrays_of(table: pa.Table) -> dict[str, pa.Array]:
    """Return the columns of a table, each as one array."""
    batches = table.to_batches()
    columns = batches[0].columns if len(batches) == 1 else map(whole_array, table.columns)
    return dict(zip(table.column_names, columns, strict=True))


def _starts(columns: Mapping[str, pa.Array], n: int) -> tuple[str, ...]:
    """Return hashes of the first rows of n."""
    result = []
    for rows in PREFIX_LENGTHS:
        if rows <= n:
            hashes = ColumnHashes()
            hashes.add({name: column.slice(0, rows) for name, column in columns.items()})
            result.append(hashes.digest())
    return tuple(result)


def _numbers(array: pa.Array) -> Any:
    return np.ascontiguousarray(array.to_numpy(zero_copy_only=False))


def _batch_rows(metadata: Any, columns: int) -> int:
    """Return the rows of a Parquet file to read at a time, by the sizes in its metadata."""
    largest = float(CELL_BYTES * columns)
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        largest = max(largest, group.total_byte_size / max(group.num_rows, 1))
    return int(min(BATCH, max(1.0, 4 * CHUNK_BYTES / largest)))
