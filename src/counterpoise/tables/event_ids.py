"""Events with their labels as a chunk, and tables of events as bytes."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from counterpoise.arrays import Flags
from counterpoise.encoding import cell_parsing
from counterpoise.errors import DataError, OptionValue, Suggestion, Words
from counterpoise.readers.chunk import Chunk, ReadPosition

LONGEST = 1000  # characters of an id


def ids_of(chunk: Chunk, name: str) -> list[str]:
    """Return the ids of the rows of a chunk, or raise if one is missing."""
    column = column_of(chunk, name, "id")
    text = cell_parsing.texts(chunk, name)
    if column.null_count:
        row = int(text.is_null().to_numpy(zero_copy_only=False).argmax())
        raise chunk.error(
            row, f"no id in column {name!r}", Suggestion("fill it in or drop the row")
        )
    values: list[str] = text.to_pylist()
    for row, value in enumerate(values):
        if not value or len(value) > LONGEST:
            what = f"an id of {len(value):,} characters" if value else "no id"
            raise chunk.error(
                row, f"{what} in column {name!r}", Suggestion("fill it in or drop the row")
            )
    return values


def column_of(chunk: Chunk, name: str, option: str) -> pa.Array:
    """Return a column that an option names, or raise if it is not there."""
    offered = chunk.offered or tuple(chunk.columns)
    if name not in chunk.columns:
        has = ", ".join(map(repr, offered[:12])) or "no columns with names"
        raise DataError(
            (
                f"{chunk.source} has no column {name!r}, named by ",
                OptionValue(option),
                f"; it has {has}",
            )
        )
    return chunk.columns[name]


def duplicate_id_error(chunk: Chunk, row: int, name: str, value: str, before: str) -> DataError:
    """Error about an id that another row has already."""
    return chunk.error(
        row,
        f"{name} {value!r} is also that of {before}",
        Suggestion("each row needs an id of its own: correct it or drop the row"),
    )


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

    def error(self, row: int, problem: Words, *remedies: Suggestion) -> DataError:
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
    return Chunk("", 1, len(column), {"label": whole(column)}, ReadPosition(), cells=True)


def as_numbers(labels: pa.Array) -> pa.Array:
    """Return labels of a text file as integers, if they are, for events that are not text."""
    chunk = Chunk("", 1, len(labels), {"label": labels}, ReadPosition(), cells=True)
    try:
        return (
            labels.cast(pa.int64()) if cell_parsing.kind_of(chunk, "label") == "number" else labels
        )
    except pa.ArrowInvalid:
        return labels
