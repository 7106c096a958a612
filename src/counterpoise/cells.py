"""Columns of cells as numbers, text or seconds; a cell that cannot be one is an error.

Missing values come out as NaN or null. Truth values are text: ``true`` and ``false``.
"""

from __future__ import annotations

from collections.abc import Callable
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from counterpoise.arrays import Flags, Vector
from counterpoise.streams.chunk import Chunk

UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


def kind_of(chunk: Chunk, name: str) -> str | None:
    """What a column holds, judged by the cells of one chunk.

    Parameters
    ----------
    chunk : Chunk
        The rows.
    name : str
        The column.

    Returns
    -------
    "number", "text", "time", or None while it has no value
    """
    column = chunk.columns[name]
    if column.null_count == len(column):
        return None
    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
        return "number"
    if pa.types.is_temporal(column.type):
        return "time"
    if pa.types.is_boolean(column.type):
        return "text"
    if chunk.cells and _casts(_number, column):
        return "number"
    # Dates would be as many categories as there are days.
    return "time" if _casts(_moment, column) else "text"


def numbers(chunk: Chunk, name: str, remedy: str = "correct it") -> Vector:
    """Cells as numbers, NaN where missing.

    Parameters
    ----------
    chunk : Chunk
        The rows.
    name : str
        The column.
    remedy : str
        What to do about a cell that is not a number.

    Returns
    -------
    ndarray of shape (rows,)
    """
    column = chunk.columns[name]
    if not pa.types.is_floating(column.type):
        column = _converted(_number, chunk, name, "a number", remedy)
    result: Vector = column.to_numpy(zero_copy_only=False)
    return result


def whole(chunk: Chunk, name: str) -> tuple[NDArray[np.int64], Flags]:
    """Cells as whole numbers, and where they are missing.

    Parameters
    ----------
    chunk : Chunk
        The rows.
    name : str
        The column.

    Returns
    -------
    values : ndarray of shape (rows,)
    missing : ndarray of shape (rows,)
    """
    column = chunk.columns[name]
    if pa.types.is_string(column.type) or pa.types.is_integer(column.type):
        text = _unsigned(texts(chunk, name))
        if _casts(lambda cells: cells.cast(pa.int64()), text):
            gone = text.is_null().to_numpy(zero_copy_only=False)
            return text.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), gone
    x = numbers(chunk, name)
    gone = np.isnan(x)
    with np.errstate(invalid="ignore"):
        values = x.astype(np.int64)
    bad = np.flatnonzero(~gone & ((values != x) | (np.abs(x) > 2.0**53)))
    if len(bad):
        raise chunk.error(
            int(bad[0]),
            f"label {x[bad[0]]:g} is not a whole number; classes are few and have names or whole "
            f"numbers (--categorical {quote(name)} takes labels as they are written)",
        )
    return values, gone


def texts(chunk: Chunk, name: str) -> pa.Array:
    """Cells as text, null where missing; whole numbers have no decimal point.

    Parameters
    ----------
    chunk : Chunk
        The rows.
    name : str
        The column.

    Returns
    -------
    pyarrow.Array of strings
    """
    column = chunk.columns[name]
    if pa.types.is_string(column.type):
        return column
    if pa.types.is_boolean(column.type):
        return column.cast(pa.string())
    if pa.types.is_floating(column.type):
        values = [None if v is None or v != v else v for v in column.to_pylist()]
        return pa.array(
            [None if v is None else str(int(v)) if v.is_integer() else repr(v) for v in values],
            pa.string(),
        )
    return column.cast(pa.string())


def seconds(chunk: Chunk, name: str, remedy: str = "correct it") -> Vector:
    """Dates and times as seconds since 1970, numbers as they are, NaN where missing.

    Parameters
    ----------
    chunk : Chunk
        The rows.
    name : str
        The column.
    remedy : str
        What to do about a cell that is not a date.

    Returns
    -------
    ndarray of shape (rows,)
    """
    column = chunk.columns[name]
    if pa.types.is_string(column.type) and _casts(_number, column):
        return numbers(chunk, name, remedy)
    if pa.types.is_string(column.type):
        column = _converted(_moment, chunk, name, "a date or time like 2024-12-31 23:59", remedy)
    kind = column.type
    if not pa.types.is_temporal(kind):
        return numbers(chunk, name, remedy)
    unit = 1.0 / 86400.0 if pa.types.is_date32(kind) else UNITS[getattr(kind, "unit", "ms")]
    count = column.view(f"int{kind.bit_width}").cast(pa.float64())
    values: Vector = count.to_numpy(zero_copy_only=False) / unit
    return values


def _number(column: pa.Array) -> pa.Array:
    if pa.types.is_string(column.type):
        return _unsigned(column).cast(pa.float64())
    return column.cast(pa.float64(), safe=False)


def _unsigned(column: pa.Array) -> pa.Array:
    """Text without space around it, and without a plus before it."""
    return pc.replace_substring_regex(pc.utf8_trim_whitespace(column), r"^\+", "")


def _moment(column: pa.Array) -> pa.Array:
    column = pc.utf8_trim_whitespace(column)
    try:
        return column.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return column.cast(pa.timestamp("us", "UTC"))


def _casts(convert: Callable[[pa.Array], pa.Array], column: pa.Array) -> bool:
    try:
        convert(column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _converted(
    convert: Callable[[pa.Array], pa.Array], chunk: Chunk, name: str, what: str, remedy: str
) -> Any:
    """Convert a column, or raise for the first cell that will not go."""
    column = chunk.columns[name]
    if _casts(convert, column):
        return convert(column)
    low, high = 0, len(column)  # the first bad cell is in column[low:high]
    while high - low > 1:
        middle = (low + high) // 2
        if _casts(convert, column.slice(low, middle - low)):
            low = middle
        else:
            high = middle
    cell = str(column[low].as_py())
    shown = cell if len(cell) <= 60 else cell[:60] + "..."
    raise chunk.error(low, f"column {name!r} holds {shown!r}, which is not {what}; {remedy}")
