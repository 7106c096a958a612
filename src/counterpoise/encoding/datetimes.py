"""The time of each row, in seconds since 1970: of a ledger's cells, and of rows that fade."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pyarrow as pa

from counterpoise.arrays import Flags, Vector
from counterpoise.encoding import cell_parsing
from counterpoise.errors import DataError, Suggestion
from counterpoise.readers.chunk import Chunk
from counterpoise.validation import MAX_TIMESTAMP

DAY = 86_400.0
MONDAY = 4 * DAY  # the first one after the beginning of 1970
# The length of each cycle in seconds, and where it begins.
CYCLES = {"day": (DAY, 0.0), "week": (7 * DAY, MONDAY), "year": (365.2425 * DAY, 0.0)}
CYCLE_NAMES = tuple(f"{cycle} {wave}" for cycle in CYCLES for wave in ("sin", "cos"))


def waves(seconds: Vector) -> dict[str, Vector]:
    """Sine and cosine of each phase, by name, of shape (rows,)."""
    result = {}
    for cycle, (length, start) in CYCLES.items():
        phase = np.mod(seconds - start, length) * (2.0 * np.pi / length)
        result[f"{cycle} sin"], result[f"{cycle} cos"] = np.sin(phase), np.cos(phase)
    return result


def times(chunk: Chunk, name: str, kept: Flags, time_format: str | None) -> Vector:
    """When the rows that are kept were, (n,); raise if one does not say."""
    if name not in (chunk.offered if chunk.table else chunk.columns):
        raise DataError(
            f"{chunk.source} has no column {name!r}, the time of each row",
            Suggestion("correct the file"),
        )
    t = _seconds(chunk, name, time_format)
    bad = kept & ~(np.abs(t) < MAX_TIMESTAMP)
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
            return cell_parsing.seconds_of(column.cast(pa.timestamp("us")))
    return cell_parsing.seconds(chunk, name, (Suggestion("correct it"),), time_format)
