"""Cells as they are stored: a head with key, counts and checksum, and the moments as bytes.

The checksum of a cell covers its head (time, segment, class, counts) and its data together. The
heads of a bucket are one array of records; all heads together are the index of a ledger.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from counterpoise.arrays import Labels
from counterpoise.exact.moments import Moments
from counterpoise.ledger.packing import packed, size_of, unpacked
from counterpoise.validate import HEAVIEST, LATEST

ALL = -1  # the segment of a total


class Key(NamedTuple):
    """Key of a cell: start of its bucket, segment and class."""

    start: int
    segment: int
    label: int


class Row(NamedTuple):
    """A cell as it is stored."""

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
    checksum: int
    data: bytes

    @property
    def key(self) -> Key:
        """Key of the cell."""
        return Key(self.start, self.segment, self.label)


COVERED = struct.Struct("<5q3d2q")  # all fields of a head except the checksum
HEAD = np.dtype(
    [
        (name, "<f8" if name in ("n", "rest", "lightest") else "<i8")
        for name in Row._fields[:-2]
    ]
    + [("checksum", "<u8")]
)  # fmt: skip
Heads = NDArray[np.void]  # records of HEAD


@dataclass(frozen=True, eq=False)
class Block:
    """Some cells: their heads and their data, in the same order."""

    heads: Heads
    data: Sequence[bytes]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Block:
        """Return the block of several rows."""
        return cls(heads_of(rows), [row.data for row in rows])

    def rows(self) -> list[Row]:
        """Return the cells one by one."""
        heads = self.heads.tolist()
        return [Row._make((*head, data)) for head, data in zip(heads, self.data, strict=True)]

    @property
    def is_uniform(self) -> bool:
        """Whether all cells have the same number of features and no removed rows."""
        d = self.heads["d"]
        return bool(len(d)) and bool((d == d[0]).all()) and not self.heads["removed"].any()

    @property
    def is_intact(self) -> bool:
        """Whether heads and data agree with their checksums."""
        d, removed = self.heads["d"], self.heads["removed"] > 0
        if list(map(len, self.data)) != size_of(d, removed).tolist():
            return False
        step, covered, raw = HEAD.itemsize, COVERED.size, self.heads.tobytes()
        seeds = [xxh3_64_intdigest(raw[i : i + covered]) for i in range(0, len(raw), step)]
        found = list(map(xxh3_64_intdigest, self.data, seeds))
        return bool(found == self.heads["checksum"].tolist())


@dataclass(frozen=True, eq=False)
class Index:
    """Heads of all cells and of all totals, each by class, time and segment."""

    cells: Heads
    totals: Heads

    @classmethod
    def of(cls, heads: Heads) -> Index:
        """Return the index of heads as they are stored, by time, segment and class."""
        order = np.argsort(heads["label"].astype(np.int16), kind="stable")  # radix sort
        is_total = heads["segment"][order] == ALL
        return cls(pick(heads, order[~is_total]), pick(heads, order[is_total]))

    @property
    def d(self) -> int:
        """Number of features of the widest cell; features that came later are 0 in all cells."""
        return int(self.cells["d"].max(initial=0))

    def problem(self, labels: int, segments: int, d: int, has_totals: bool) -> str | None:
        """Return why the heads are impossible for so many labels, segments and features."""
        if bool(len(self.totals)) != (has_totals and bool(len(self.cells))):
            return "its totals are missing or unexpected"
        for heads in (self.cells, self.totals):
            for name in ("n", "rest", "lightest"):
                if not (np.abs(heads[name]) <= HEAVIEST).all():
                    return f"the {name} of a cell is {heads[name].max()}"
            possible = (
                (heads["label"] >= 0) & (heads["label"] < labels) & (heads["segment"] < segments)
                & (heads["segment"] >= ALL) & (heads["d"] >= 1) & (heads["d"] <= d)
                & (heads["rows"] >= 1) & (heads["rows"] < 2**53) & (heads["n"] > 0)
                & (np.abs(heads["start"].astype(float)) < LATEST) & (heads["stop"] > heads["start"])
                & (np.abs(heads["stop"].astype(float)) < 2.0 * LATEST)
                & (heads["removed"] >= 0) & (heads["removed"] <= 1)
            )  # fmt: skip
            if not possible.all():
                return "a field of a cell is out of range"
            keys = np.column_stack([heads[name] for name in ("label", "start", "segment")])
            if (keys[1:] == keys[:-1]).all(axis=1).any():
                return "a cell occurs twice"
        return None


def pick(heads: Heads, at: Any) -> Heads:
    """Return some heads; whole records are copied faster than their fields."""
    found: Heads = heads.view(f"V{HEAD.itemsize}")[at].view(HEAD)
    return found


def heads_of(rows: Sequence[Any]) -> Heads:
    """Return the heads of rows as one array."""
    fields = len(HEAD.names or ())
    return np.array([tuple(row[:fields]) for row in rows], dtype=HEAD)


def by_bucket(heads: Heads) -> dict[int, Heads]:
    """Return the heads of each bucket, in the order of the index."""
    heads = heads[np.argsort(heads["start"], kind="stable")]
    starts, first = np.unique(heads["start"], return_index=True)
    return dict(zip(starts.tolist(), np.split(heads, first[1:]), strict=True)) if len(heads) else {}


def checksum_of(head: bytes, data: bytes) -> int:
    """Return the checksum of a cell."""
    return xxh3_64_intdigest(data, xxh3_64_intdigest(head))


def read_cell(row: Row, label: Labels, d: int) -> Moments:
    """Return a cell as moments of d features."""
    weight = (row.n, row.rest, row.lightest)
    return unpacked(row.data, row.d, bool(row.removed), label, weight, d)


def as_row(key: Key, stop: int, rows: int, cell: Moments) -> Row:
    """Return a cell as it is stored."""
    data, removed = packed(cell)
    weight = float(cell.n[0]), float(cell.rest[0]), float(cell.lightest[0])
    return _row(
        (key.start, stop, key.segment, key.label, rows, *weight, len(cell.anchor), int(removed)),
        data,
    )


def moved(row: Row, segment: int) -> Row:
    """Return a cell under another segment."""
    return _row(row._replace(segment=segment)[: len(Row._fields) - 2], row.data)


def _row(head: tuple[Any, ...], data: bytes) -> Row:
    """Return a cell with its checksum."""
    return Row._make((*head, checksum_of(COVERED.pack(*head), data), data))
