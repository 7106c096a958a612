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
    values : mapping of str to str
        What each column must say; numbers are compared as numbers.
    """

    values: Mapping[str, str]

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
        for name, value in self.values.items():
            result &= _says(columns[name], value) if name in columns else False
        return result


def _says(column: Any, value: str) -> Flags:
    """Where a column says something."""
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        try:
            same = pc.equal(column.cast(pa.float64()), float(value))
        except ValueError:
            return np.zeros(len(column), dtype=bool)
    else:
        same = pc.equal(column.cast(pa.string()), value)
    return np.asarray(pc.fill_null(same, False).to_numpy(zero_copy_only=False), dtype=bool)
