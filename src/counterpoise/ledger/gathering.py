"""Cells that are gathered elsewhere, part by part, and then put into a ledger at once.

A part has its own cells in memory. Cells of the same bucket, segment and class add up, and what all
of them hold is known by the sums of the bits of its rows, in whatever order and parts they came.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from xxhash import xxh3_128

from counterpoise.exact.limits import require_light
from counterpoise.exact.moments import Moments
from counterpoise.ledger.book import Book
from counterpoise.ledger.cells import Key, Row
from counterpoise.ledger.filler import Filler
from counterpoise.streams import Chunk


class Place(NamedTuple):
    """Where a cell belongs: where its bucket begins, the values of its segment, its label."""

    start: int
    segment: tuple[str | None, ...]
    label: Any


@dataclass
class Gathered:
    """A cell in memory: where its bucket ends, how many rows it has, and their moments."""

    stop: int
    rows: int
    moments: Moments

    def follow(self, other: Gathered) -> None:
        """Let the rows of another cell of the same place follow."""
        self.moments.follow(other.moments)
        self.rows += other.rows
        require_light(self.moments)


class Gatherer(Filler):
    """Rows of one part into cells in memory. The features must be known."""

    def __init__(self, book: Book) -> None:
        super().__init__(None, replace(book, records={}))
        self.cells: dict[Place, Gathered] = {}
        self.left_out = 0

    def gather(self, chunk: Chunk) -> None:
        """Read the rows of a chunk."""
        self.left_out += int((~self.add(chunk)).sum())
        if self.full:
            self.collect()

    def collect(self) -> None:
        """Put what was read into cells."""
        groups = self.grouped()
        segments, labels = list(self._segments), list(self._labels)
        for key, (stop, rows, moments, _) in groups.items():
            place = Place(key.start, segments[key.segment], labels[key.label])
            cell = Gathered(stop, rows, moments)
            if place in self.cells:
                self.cells[place].follow(cell)
            else:
                self.cells[place] = cell

    def _known(self, first: int, last: int) -> dict[Key, Row]:
        return {}


def hash_of(cells: Mapping[Place, Gathered], names: list[str]) -> str:
    """What these cells hold, by the bits of their rows, whatever parts and order they came in."""
    order = sorted(range(len(names)), key=names.__getitem__)
    sums = xxh3_128()
    for place in sorted(cells, key=lambda one: (one.start, json.dumps(one[1:]))):
        cell = cells[place]
        marks = cell.moments.marks[0]
        held = [(names[j], marks[:, 1 + j].tolist()) for j in order if marks[:, 1 + j].any()]
        sums.update(json.dumps([*place, cell.stop, cell.rows, marks[:, 0].tolist(), held]).encode())
    return sums.hexdigest()
