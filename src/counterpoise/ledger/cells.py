"""A cell as it lies in the file: its place, its weight, and its moments as bytes with a digest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xxhash import xxh3_64_digest

from counterpoise.arrays import Labels
from counterpoise.exact.moments import Moments
from counterpoise.ledger.packing import packed, size_of, unpacked

ALL = -1  # the segment of a total


class Key(NamedTuple):
    """Which cell: where its bucket begins, its segment and its class."""

    start: int
    segment: int
    label: int


class Row(NamedTuple):
    """A cell as it lies in the file."""

    start: int
    stop: int
    segment: int
    label: int
    rows: int
    n: float
    rest: float
    lightest: float
    d: int
    removed: int
    digest: bytes
    data: bytes

    @property
    def key(self) -> Key:
        """Which one."""
        return Key(self.start, self.segment, self.label)


class Block(NamedTuple):
    """Some cells, each field of all of them."""

    start: Sequence[int]
    stop: Sequence[int]
    segment: Sequence[int]
    label: Sequence[int]
    rows: Sequence[int]
    n: Sequence[float]
    rest: Sequence[float]
    lightest: Sequence[float]
    d: Sequence[int]
    removed: Sequence[int]
    digest: Sequence[bytes]
    data: Sequence[bytes]

    @classmethod
    def of(cls, rows: Sequence[tuple[Any, ...]]) -> Block:
        """Cells one after the other."""
        return cls(*(zip(*rows, strict=True) if rows else ((),) * len(cls._fields)))

    @property
    def alike(self) -> bool:
        """Whether all have the same features, and nothing was removed from any."""
        return len(set(self.d)) == 1 and not any(self.removed)

    @property
    def as_written(self) -> bool:
        """Whether all have the bytes that were written."""
        kinds = zip(self.d, self.removed, strict=True)
        if self.alike:
            size = size_of(self.d[0], False)
            right = all(len(data) == size for data in self.data)
        else:
            right = [len(data) for data in self.data] == [size_of(d, bool(r)) for d, r in kinds]
        return right and list(map(xxh3_64_digest, self.data)) == list(self.digest)


def read_cell(row: Row, label: Labels, d: int) -> Moments:
    """A cell as moments of d features."""
    weight = (row.n, row.rest, row.lightest)
    return unpacked(row.data, row.d, bool(row.removed), label, weight, d)


def as_row(key: Key, stop: int, rows: int, cell: Moments) -> Row:
    """A cell as it lies in the file."""
    data, removed = packed(cell)
    weight = float(cell.n[0]), float(cell.rest[0]), float(cell.lightest[0])
    return Row(
        key.start, stop, key.segment, key.label, rows, *weight,
        len(cell.anchor), int(removed), xxh3_64_digest(data), data,
    )  # fmt: skip
