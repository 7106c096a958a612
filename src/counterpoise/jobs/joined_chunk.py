"""Events with their labels as a chunk, and tables of events as bytes."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from counterpoise.arrays import Flags
from counterpoise.encoding import cells
from counterpoise.errors import DataError, Remedy, Words
from counterpoise.streams import Chunk, Mark


@dataclass(frozen=True, eq=False)
class JoinedChunk(Chunk):
    """Events with their labels.

    Attributes
    ----------
    ids : tuple of str
        Id of each row.
    positions : tuple of int
        Position of each row in its input, counted from 0 at ``first``.
    origins : tuple of str
        Input and row of each event, where the positions are those of labels.
    learned : tuple of bool
        Whether the model has learned the row with its label by the store, where some were not.
    inputs : tuple of str
        Labeled input from which a row was learned instead, or empty.
    """

    ids: tuple[str, ...] = ()
    positions: tuple[int, ...] = ()
    origins: tuple[str, ...] = ()
    learned: tuple[bool, ...] = ()
    inputs: tuple[str, ...] = ()

    def only(self, rows: Flags) -> JoinedChunk:
        """Return the rows that are meant, with the same mark."""
        at = np.flatnonzero(rows).tolist()
        part = super().only(rows)
        assert isinstance(part, JoinedChunk)
        return replace(
            part,
            ids=_taken(self.ids, at),
            positions=_taken(self.positions, at),
            origins=_taken(self.origins, at),
            learned=_taken(self.learned, at),
            inputs=_taken(self.inputs, at),
        )

    def error(self, row: int, problem: Words, *remedies: Remedy) -> DataError:
        """Return the error about a row, with the label and the event."""
        where = f"{self.source}, row {self.first + self.positions[row]}"
        where += f" ({self.origins[row]}): " if self.origins else ": "
        parts = (problem,) if isinstance(problem, str) else problem
        return DataError((where, *parts), *remedies)


def _taken(values: tuple[Any, ...], at: list[int]) -> tuple[Any, ...]:
    return tuple(values[i] for i in at) if values else ()


def bytes_of(table: pa.Table) -> bytes:
    """Return a table as the bytes of an Arrow stream."""
    out = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(out, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())
    return out.getvalue()


def whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def bare_chunk(column: pa.ChunkedArray) -> Chunk:
    """Return a chunk of labels alone."""
    return Chunk("", 1, len(column), {"label": whole(column)}, Mark(), cells=True)


def as_numbers(labels: pa.Array) -> pa.Array:
    """Return labels of a text file as integers, if they are, for events that are not text."""
    chunk = Chunk("", 1, len(labels), {"label": labels}, Mark(), cells=True)
    try:
        return labels.cast(pa.int64()) if cells.kind_of(chunk, "label") == "number" else labels
    except pa.ArrowInvalid:
        return labels
