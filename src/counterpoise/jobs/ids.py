"""Rows known by an id: one column whose values, as text, no two rows share."""

from __future__ import annotations

import pyarrow as pa

from counterpoise.encoding import cells
from counterpoise.errors import DataError, Remedy, Setting
from counterpoise.streams import Chunk

LONGEST = 1000  # characters of an id


def ids_of(chunk: Chunk, name: str) -> list[str]:
    """Return the ids of the rows of a chunk, or raise if one is missing."""
    column = column_of(chunk, name, "id")
    text = cells.texts(chunk, name)
    if column.null_count:
        row = int(text.is_null().to_numpy(zero_copy_only=False).argmax())
        raise chunk.error(row, f"no id in column {name!r}", Remedy("fill it in or drop the row"))
    values: list[str] = text.to_pylist()
    for row, value in enumerate(values):
        if not value or len(value) > LONGEST:
            what = f"an id of {len(value):,} characters" if value else "no id"
            raise chunk.error(
                row, f"{what} in column {name!r}", Remedy("fill it in or drop the row")
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
                Setting(option),
                f"; it has {has}",
            )
        )
    return chunk.columns[name]


def twice(chunk: Chunk, row: int, name: str, value: str, before: str) -> DataError:
    """Error about an id that another row has already."""
    return chunk.error(
        row,
        f"{name} {value!r} is also that of {before}",
        Remedy("each row needs an id of its own: correct it or drop the row"),
    )
