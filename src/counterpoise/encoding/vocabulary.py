"""Vocabularies: codes of the categories of a column that has many of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from counterpoise.moments.categories import MAX_CODES


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Categories of a column, whose codes are their positions from 1; a value.

    Vocabularies that grow from one another share a list, of which each has the first ``size``.
    """

    rows: int = 0  # learned rows with a category
    size: int = 0
    _values: list[str] = field(default_factory=list, repr=False)
    _codes: dict[str, int] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, values: Sequence[str], rows: int) -> Vocabulary:
        """Return the vocabulary of these categories, in this order."""
        return cls(rows).append(values)

    @property
    def values(self) -> list[str]:
        """Categories in the order of their codes."""
        return self._values[: self.size]

    def append(self, values: Sequence[str]) -> Vocabulary:
        """Return the vocabulary with more categories, those that it does not contain."""
        known = self._codes if self.size == len(self._values) else self._own_codes()
        new = [value for value in dict.fromkeys(values) if value not in known]
        if not new:
            return self
        shared = self._values
        if known is not self._codes:
            shared = self.values
        size = self.size
        for value in new:
            size += 1
            known[value] = size
        shared.extend(new)
        return Vocabulary(self.rows, size, shared, known)

    def _own_codes(self) -> dict[str, int]:
        return {value: code for code, value in enumerate(self.values, 1)}

    def with_rows(self, rows: int) -> Vocabulary:
        """Return the vocabulary with another number of learned rows."""
        return self if rows == self.rows else replace(self, rows=rows)

    def codes(self, values: Sequence[str]) -> NDArray[np.float64]:
        """Return the code of each value, 0 for one that is not a category."""
        size, find = self.size, self._codes.get
        found = np.array([find(value, 0) for value in values], dtype=np.float64)
        found[found > size] = 0.0
        return found

    def select(self, at: NDArray[np.intp]) -> Vocabulary:
        """Return the vocabulary of the categories at some positions alone."""
        values = self.values
        return Vocabulary.of([values[j] for j in at.tolist()], self.rows)

    @property
    def is_full(self) -> bool:
        """True if there are as many categories as there can be."""
        return bool(self.size >= MAX_CODES)
