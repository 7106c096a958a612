"""Vocabularies: codes of the categories of a column that has many of them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Vector
from counterpoise.encoding._text_index import TextIndex
from counterpoise.moments.categories import MAX_CODES

if TYPE_CHECKING:
    import pyarrow as pa

_GROWTH = threading.Lock()  # of a list that vocabularies share


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Categories of a column, whose codes are their positions from 1; a value.

    Vocabularies that grow from one another share a list, of which each has the first ``size``.
    """

    rows: int = 0  # learned rows with a category
    size: int = 0
    _values: list[str] = field(default_factory=list, repr=False)
    _codes: dict[str, int] = field(default_factory=dict, repr=False)
    _index: TextIndex = field(default_factory=TextIndex, repr=False)  # of the first ones

    @classmethod
    def of(cls, values: Sequence[str], rows: int) -> Vocabulary:
        """Return the vocabulary of these categories, in this order."""
        return cls(rows).append(values)

    @property
    def values(self) -> list[str]:
        """Categories in the order of their codes."""
        return self._values[: self.size]

    def value(self, position: int) -> str | None:
        """Return the category at a position, None for -1."""
        return self._values[position] if position >= 0 else None

    def append(self, values: Sequence[str]) -> Vocabulary:
        """Return the vocabulary with more categories, those that it does not contain."""
        return self.learn(values)[0]

    def append_one(self, value: str) -> Vocabulary:
        """Return the vocabulary with one more category, or this one if it contains it."""
        with _GROWTH:
            if self.size == len(self._values):
                if value in self._codes:
                    return self
                self._values.append(value)  # first, as below
                self._codes[value] = self.size + 1
                return Vocabulary(self.rows, self.size + 1, self._values, self._codes, self._index)
        return self.append([value])

    def learn(self, values: Sequence[str]) -> tuple[Vocabulary, NDArray[np.float64]]:
        """Return the vocabulary with these values, all different, and the code of each."""
        with _GROWTH:  # copies of a model may learn in several threads
            is_last = self.size == len(self._values)
            known, shared, index = self._codes, self._values, self._index
            if not is_last:  # a later vocabulary has the list and its codes
                known, shared, index = self._own_codes(), self.values, TextIndex()
            codes = np.fromiter(map(known.get, values, repeat(0)), np.float64, len(values))
            at = np.flatnonzero(codes == 0.0)
            if not len(at):
                return self, codes
            size = self.size + len(at)
            codes[at] = np.arange(self.size + 1, size + 1)
            new = [values[j] for j in at.tolist()]
            shared.extend(new)  # first: a signal finds a list that is not that of this value
            known.update(zip(new, range(self.size + 1, size + 1), strict=True))
            return Vocabulary(self.rows, size, shared, known, index), codes

    def _own_codes(self) -> dict[str, int]:
        return {value: code for code, value in enumerate(self.values, 1)}

    def with_rows(self, rows: int) -> Vocabulary:
        """Return the vocabulary with another number of learned rows."""
        return self if rows == self.rows else replace(self, rows=rows)

    def codes(self, values: Sequence[str]) -> NDArray[np.float64]:
        """Return the code of each value, 0 for one that is not a category."""
        find = map(self._codes.get, values, repeat(0))
        found = np.fromiter(find, np.float64, len(values))
        found[found > self.size] = 0.0
        return found

    def find(self, cells: pa.StringArray) -> Vector:
        """Return the code of each cell (n,), 0 for a missing one or one that is not a category."""
        found = np.zeros(len(cells))
        _, ends, text = cells.buffers()
        if ends is None:  # no cells
            return found
        start = cells.offset
        valid = None
        if cells.null_count:
            valid = cells.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)
        places = np.frombuffer(ends, np.int32)[start : start + len(cells) + 1]
        data = np.frombuffer(b"" if text is None else text, np.uint8)
        with _GROWTH:
            index = self._index
            if index.count < self.size:
                index.extend(self._values[index.count :])
            index.find(places, data, valid, found)
        found[found > self.size] = 0.0
        return found

    def select(self, at: NDArray[np.intp]) -> Vocabulary:
        """Return the vocabulary of the categories at some positions alone."""
        values = self.values
        return Vocabulary.of([values[j] for j in at.tolist()], self.rows)

    @property
    def code_by_value(self) -> dict[str, int]:
        """Codes of the categories; it may contain later ones, whose codes are above ``size``."""
        return self._codes

    @property
    def is_full(self) -> bool:
        """True if there are as many categories as there can be."""
        return bool(self.size >= MAX_CODES)
