"""The time of each row, in seconds since 1970: of a ledger's cells, and of rows that fade."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pyarrow as pa

from counterpoise.arrays import Flags, Vector
from counterpoise.encoding import cells
from counterpoise.errors import DataError, Remedy
from counterpoise.streams.chunk import Chunk
from counterpoise.validate import LATEST


def times(chunk: Chunk, name: str, kept: Flags, time_format: str | None) -> Vector:
    """When the rows that are kept were, (n,); raise if one does not say."""
    if name not in (chunk.offered if chunk.table else chunk.columns):
        raise DataError(
            f"{chunk.source} has no column {name!r}, the time of each row",
            Remedy("correct the file"),
        )
    t = _seconds(chunk, name, time_format)
    bad = kept & ~(np.abs(t) < LATEST)
    if bad.any():
        row = int(bad.argmax())
        if np.isnan(t[row]):
            raise chunk.error(
                row,
                f"no value in column {name!r}, which says the time; fill it in, or leave the row "
                "out",
            )
        raise chunk.error(
            row,
            f"time {t[row]:g} in column {name!r} is beyond the year 9999; numbers are seconds "
            "since 1970: divide milliseconds by 1000",
        )
    return t[kept]


def _seconds(chunk: Chunk, name: str, time_format: str | None) -> Vector:
    """Times of all rows; those that are written as ISO 8601 has it at once."""
    column = chunk.columns[name]
    if time_format is None and pa.types.is_string(column.type):
        with suppress(pa.ArrowInvalid):
            return cells.seconds_of(column.cast(pa.timestamp("us")))
    return cells.seconds(chunk, name, (Remedy("correct it"),), time_format)
