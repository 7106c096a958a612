"""Rows by what a column says: all of one customer, or one payment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.arrays import Flags
from counterpoise.errors import DataError, Setting
from counterpoise.streams import Chunk


@dataclass(frozen=True)
class Where:
    """Conditions that a row must meet, all of them.

    Attributes
    ----------
    values : mapping of str to tuple of str
        Values that each column must equal, all of them. Numbers are compared as numbers, integers
        as integers of any size.
    """

    values: Mapping[str, tuple[str, ...]]

    def kinds(self, kinds: Mapping[str, str]) -> dict[str, str]:
        """Return kinds of columns for a reader, which then keeps every digit of large integers."""
        large = {name for name, values in self.values.items() if any(map(_is_large, values))}
        return {name: kind for name, kind in kinds.items() if name not in large}

    def of(self, chunk: Chunk) -> Flags:
        """Return which rows of a chunk are meant, (rows,); each column must be there."""
        offered = chunk.offered or chunk.names or tuple(chunk.columns)
        for name in self.values:
            if chunk.table and name not in chunk.columns:
                has = ", ".join(map(repr, offered[:12]))
                raise DataError(
                    (
                        f"{chunk.source} has no column {name!r}, named by ",
                        Setting("where"),
                        f"; it has {has}",
                    )
                )
        return self.among(chunk.columns, chunk.rows)

    def among(self, columns: Mapping[str, Any], rows: int) -> Flags:
        """Return which rows of columns are meant, (rows,); none where a column is not there."""
        result = np.ones(rows, dtype=bool)
        for name, values in self.values.items():
            for value in values:
                result &= _equals(columns[name], value) if name in columns else False
        return result


def _equals(column: Any, value: str) -> Flags:
    """Return where a column equals a value, (rows,)."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        try:
            number = float(value) if pa.types.is_floating(kind) else _integer(value)
            same = pc.equal(column, pa.scalar(number, kind))
        except (ValueError, OverflowError):  # not such a number, or not one of this type
            return np.zeros(len(column), dtype=bool)
    else:
        same = pc.equal(column.cast(pa.string()), value)
    return np.asarray(pc.fill_null(same, False).to_numpy(zero_copy_only=False), dtype=bool)


def _integer(value: str) -> int:
    """Return the integer that a text is, such as 5, 5.0 or 5e3; raise ValueError if it is none."""
    try:
        return int(value)
    except ValueError:
        number = float(value)
        if not number.is_integer():
            raise
        return int(number)


def _is_large(value: str) -> bool:
    """Return whether a value is a number that a float may not represent exactly."""
    try:
        return abs(float(value)) >= 2.0**53
    except ValueError:
        return False
