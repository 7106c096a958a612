"""Rows as they wait: columns of a chunk as the bytes of an Arrow stream, and back."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from counterpoise.errors import DataError
from counterpoise.streams import Chunk

ABSENT = "\x00absent\x00"  # before the name of a column: rows that do not have it


def packed(chunk: Chunk) -> bytes:
    """Columns of a chunk, and where rows do not have them, as bytes."""
    columns = dict(chunk.columns)
    columns |= {f"{ABSENT}{name}": pa.array(flags) for name, flags in chunk.absent.items()}
    return bytes_of(pa.table(columns))


def bytes_of(table: pa.Table) -> bytes:
    """A table as bytes."""
    out = io.BytesIO()
    with pa.ipc.new_stream(
        out, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
    ) as writer:
        writer.write_table(table)
    return out.getvalue()


def unpacked(data: bytes) -> pa.Table:
    """A table, from its bytes."""
    return pa.ipc.open_stream(data).read_all()


def blanked(column: pa.ChunkedArray, kept: pa.Array) -> pa.Array:
    """Return a column with nulls in all rows but those that are kept."""
    blank = pc.if_else(kept, column, pa.scalar(None, column.type))
    return blank.combine_chunks() if isinstance(blank, pa.ChunkedArray) else blank


def shape_of(chunk: Chunk, known: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the format and the columns of events, or raise if they are not those known before."""
    if chunk.entries is not None:
        raise DataError(f"{chunk.source} is LIBSVM, whose rows have no ids to be joined by")
    mine = {"cells": chunk.cells, "table": chunk.table, "offered": list(chunk.offered)}
    if known is None:
        return mine
    if any(known[name] != mine[name] for name in ("cells", "table")):
        raise DataError(
            f"{chunk.source} is not in the format of the events that wait; give all events as "
            "CSV, all as JSON lines, or all as Parquet or Arrow"
        )
    for names, others, verb in (
        (chunk.offered, known["offered"], "has"),
        (known["offered"], chunk.offered, "lacks"),
    ):
        odd = [name for name in names if name not in others]
        if odd and chunk.table:
            raise DataError(
                f"{chunk.source} {verb} column {odd[0]!r}, unlike the events that came before it; "
                "give all events the same columns"
            )
    return mine
