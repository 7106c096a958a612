"""Parquet and Arrow: record batches, cut again into chunks of so many rows.

A mark holds a hash of the values of the columns, each in a stream of its own, so that neither row
groups nor batches matter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.ipc
import pyarrow.parquet
from xxhash import xxh3_128

from counterpoise.streams.ahead import ahead
from counterpoise.streams.chunk import STARTS, Chunk, DataError, Mark, changed
from counterpoise.streams.raw import Bytes, cannot_read

BATCH = 1 << 15  # rows read at a time


class ColumnarSource:
    """A Parquet file, or an Arrow file or stream.

    Parameters
    ----------
    path : str
        A file, or ``-`` for standard input (an Arrow stream).
    name : str
        What to call it in messages.
    parquet : bool
        Which of the two.
    """

    def __init__(self, path: str, name: str, parquet: bool) -> None:
        self.path, self.name, self.parquet = path, name, parquet
        self._rows, self._total = 0, 0
        self._offered: tuple[str, ...] = ()

    def done(self) -> tuple[int, int]:
        """Rows read, and rows in all, which serve as well as bytes."""
        return self._rows, self._total

    def verify(self, after: Mark, wanted: Callable[[str], bool]) -> None:
        """Raise if what precedes a mark is not as it was."""
        next(self.chunks(1, after, {}, wanted), None)

    def chunks(
        self,
        rows: int,
        after: Mark,
        kinds: Mapping[str, str],
        wanted: Callable[[str], bool],
        until: int | None = None,
    ) -> Iterator[Chunk]:
        """Read what follows a mark; see :class:`~counterpoise.streams.chunk.Source`."""
        hashes = _Hashes()
        self._rows, tables = 0, _Tables()
        try:
            for batch in ahead(self._batches(wanted), depth=1):
                tables.add(_plain(batch, self.name))
                if self._rows < after.rows and tables.rows:
                    table = tables.take(min(tables.rows, after.rows - self._rows))
                    hashes.add(table)
                    self._rows += table.num_rows
                    if self._rows == after.rows and hashes.digest() != after.hash:
                        raise changed(self.name, after)
                while tables.rows >= rows:
                    yield self._chunk(tables.take(rows), hashes)
        except OSError as error:
            raise cannot_read(self.name, error) from None
        except pa.ArrowException as error:
            raise DataError(f"{self.name} cannot be read: {str(error)[:200]}") from None
        if self._rows < after.rows:
            raise changed(self.name, after)
        if tables.rows:
            yield self._chunk(tables.take(tables.rows), hashes)

    def _chunk(self, table: pa.Table, hashes: _Hashes) -> Chunk:
        hashes.add(table)
        first, self._rows = self._rows + 1, self._rows + table.num_rows
        columns = {name: _whole(table[name]) for name in table.column_names}
        mark = Mark(self._rows, 0, hashes.digest())
        starts = _starts(table) if first == 1 else ()
        return Chunk(
            self.name, first, table.num_rows, columns, mark, offered=self._offered, starts=starts
        )

    def _batches(self, wanted: Callable[[str], bool]) -> Iterator[pa.RecordBatch]:
        if self.parquet:
            if self.path == "-":
                raise DataError(
                    "Parquet cannot be read from standard input, for its index is at the end; "
                    "give the file"
                )
            with pa.parquet.ParquetFile(self.path, buffer_size=1 << 16, pre_buffer=False) as file:
                self._total = file.metadata.num_rows
                self._offered = tuple(file.schema_arrow.names)
                columns = [name for name in self._offered if wanted(name)]
                yield from file.iter_batches(BATCH, columns=columns or None)
            return
        source = Bytes(self.path, self.name)
        try:
            start = b""
            while len(start) < 6 and (more := source.raw(6)):
                start += more
            if start.startswith(b"ARROW1") and self.path != "-":
                with pa.OSFile(self.path) as file, pa.ipc.open_file(file) as reader:
                    for i in range(reader.num_record_batches):
                        yield self._only(reader.get_batch(i), wanted)
            else:
                with pa.ipc.open_stream(pa.PythonFile(_Rest(start, source), "r")) as reader:
                    for batch in reader:
                        yield self._only(batch, wanted)
        finally:
            source.close()

    def _only(self, batch: pa.RecordBatch, wanted: Callable[[str], bool]) -> pa.RecordBatch:
        self._offered = tuple(batch.schema.names)
        return batch.select([j for j, name in enumerate(self._offered) if wanted(name)])


class _Tables:
    """Batches waiting to be cut."""

    def __init__(self) -> None:
        self.rows = 0
        self._waiting: deque[pa.Table] = deque()

    def add(self, table: pa.Table) -> None:
        self._waiting.append(table)
        self.rows += table.num_rows

    def take(self, rows: int) -> pa.Table:
        """So many rows from the front."""
        self.rows -= rows
        taken = []
        while rows:
            table = self._waiting.popleft()
            if table.num_rows > rows:
                self._waiting.appendleft(table.slice(rows))
                table = table.slice(0, rows)
            rows -= table.num_rows
            taken.append(table)
        return pa.concat_tables(taken) if len(taken) > 1 else taken[0]


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


class _Rest:
    """What pyarrow expects of a Python file whose beginning was read already."""

    closed = False

    def __init__(self, start: bytes, source: Bytes) -> None:
        self._start, self._source = start, source

    def read(self, most: int) -> bytes:
        data, self._start = self._start[:most], self._start[most:]
        while len(data) < most and (more := self._source.raw(most - len(data))):
            data += more  # a pipe gives what it has; less than asked for would mean the end
        return data

    def close(self) -> None:
        pass


def _starts(table: pa.Table) -> tuple[str, ...]:
    """Hashes of the first rows."""
    result = []
    for rows in STARTS:
        if rows <= table.num_rows:
            hashes = _Hashes()
            hashes.add(table.slice(0, rows))
            result.append(hashes.digest())
    return tuple(result)


def _numbers(array: pa.Array) -> Any:
    return np.ascontiguousarray(array.to_numpy(zero_copy_only=False))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _plain(batch: pa.RecordBatch, source: str) -> pa.Table:
    """Columns as float64, text, truth values or points in time."""
    columns = {}
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if field.name in columns:
            raise DataError(f"{source}: two columns are called {field.name!r}; rename one of them")
        columns[field.name] = _simple(field.name, column, source)
    return pa.table(columns)


def _simple(name: str, column: pa.Array, source: str) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.float64(), safe=False)
    if pa.types.is_integer(kind):  # names of categories may have more digits than a float
        return column if kind == pa.uint64() else column.cast(pa.int64())
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return column.cast(pa.string())
    simple = pa.types.is_string(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)
    if simple or pa.types.is_temporal(kind):
        return column
    raise DataError(
        f"{source}, column {name!r}: values of type {kind} cannot be learnt; leave the column "
        f"out with --drop {quote(name)}"
    )
