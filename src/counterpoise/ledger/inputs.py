"""What a ledger learns from: files, readers, and frames in memory, each known by its content."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from counterpoise.errors import DataError
from counterpoise.jobs.store import input_key
from counterpoise.streams import Mark, Source, source
from counterpoise.streams.columnar import BATCH, ColumnarSource


class Frame(ColumnarSource):
    """A table in memory as an input."""

    def __init__(self, table: pa.Table, name: str) -> None:
        super().__init__(name, name, parquet=False)
        self._table = table

    def _batches(self, wanted: Callable[[str], bool]) -> Iterator[pa.RecordBatch]:
        self._offered, self._total = tuple(self._table.column_names), self._table.num_rows
        names = [name for name in self._offered if wanted(name)]
        yield from self._table.select(names).to_batches(max_chunksize=BATCH)


def opened(
    data: Any, name: str | None, path: str, wanted: Callable[[str], bool]
) -> list[tuple[Source, str]]:
    """Inputs, and their names in the records of the ledger at ``path``.

    A frame without a name is called after its content: the same frame is the same input.
    """
    if isinstance(data, (str, os.PathLike)):
        return [(source(os.fspath(data)), input_key(os.fspath(data), path))]
    if hasattr(data, "chunks") and hasattr(data, "verify"):
        if data.path == "-":
            return [(data, f"- {name}" if name else "-")]
        return [(data, name or input_key(data.path, path))]
    if isinstance(data, (list, tuple)) and data and all(_is_path(one) for one in data):
        return [pair for one in data for pair in opened(one, None, path, wanted)]
    frame = Frame(_table(data), name or "the frame")
    if name is None:
        mark = Mark()
        for chunk in frame.chunks(BATCH, Mark(), {}, wanted):
            mark = chunk.mark
        name = f"frame {mark.hash}"
    return [(frame, name)]


def _is_path(data: Any) -> bool:
    return isinstance(data, (str, os.PathLike)) or hasattr(data, "chunks")


def _table(data: Any) -> pa.Table:
    """A frame of pandas, polars or Arrow, or columns by name, as an Arrow table."""
    try:
        if isinstance(data, pa.RecordBatch):
            return pa.Table.from_batches([data])
        if isinstance(data, pa.RecordBatchReader):
            return data.read_all()
        if isinstance(data, pa.Table):
            return data
        if hasattr(data, "to_arrow"):
            return data.to_arrow()
        if hasattr(data, "iloc"):
            return pa.Table.from_pandas(data, preserve_index=False)
        if isinstance(data, dict):
            return pa.table(data)
        if isinstance(data, Iterable):
            return pa.Table.from_pylist(list(data))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"the frame cannot be read: {' '.join(str(error).split())[:200]}") from None
    raise DataError(f"a {type(data).__name__} is neither a path, nor a reader, nor a frame")
