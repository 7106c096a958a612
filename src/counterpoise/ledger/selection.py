"""A selection of rows: by time, by segment, with exceptions, and how old rows fade."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterpoise.arrays import Counts, Flags, Vector
from counterpoise.errors import DataError, Remedy, Setting
from counterpoise.ledger import buckets
from counterpoise.ledger.book import Book

OLDEST = 1000.0  # half-lives, after which a row weighs nothing


@dataclass(frozen=True)
class Selection:
    """Which rows, and how much they weigh.

    Attributes
    ----------
    since, until : int, optional
        From when, and until just before when, in seconds.
    where : tuple of (str, tuple of str or None, bool)
        Columns, their values, and whether these are left out.
    without : tuple of (int, int)
        Times that are left out.
    half_life : float, optional
        Seconds in which a row fades to half its weight.
    """

    since: int | None = None
    until: int | None = None
    where: tuple[tuple[str, tuple[str | None, ...], bool], ...] = ()
    without: tuple[tuple[int, int], ...] = ()
    half_life: float | None = None

    def words(self) -> str:
        """In words."""
        said = []
        if self.since is not None:
            said.append(f"since {buckets.text(self.since)}")
        if self.until is not None:
            said.append(f"until {buckets.text(self.until)}")
        for column, values, out in self.where:
            listed = ", ".join("(missing)" if value is None else value for value in values)
            said.append(f"{column} {'not ' if out else ''}{listed}")
        said += [f"without {buckets.text(a)} to {buckets.text(b)}" for a, b in self.without]
        if self.half_life is not None:
            said.append(f"half-life {self.half_life / buckets.DAY:g} days")
        return ", ".join(said) or "everything"

    def segments(self, book: Book) -> Flags:
        """Which segments are in it."""
        chosen = np.ones(len(book.segments), dtype=bool)
        for column, values, out in self.where:
            at = book.settings.by.index(column)
            mine = [segment[at] for segment in book.segments]
            strange = [value for value in values if value not in mine]
            if strange and not out:
                some = ", ".join(sorted({str(value) for value in mine})[:12])
                raise DataError(f"no row has {column} {strange[0]!r}; there are {some}")
            chosen &= np.array([(value in values) != out for value in mine], dtype=bool)
        return chosen

    def chosen(self, start: Counts, stop: Counts, segment: Counts, segments: Flags) -> Flags:
        """Which cells are in it, by their times and segments; raise if one is cut."""
        inside = segments[segment]
        for name, point in (("since", self.since), ("until", self.until)):
            if point is not None:
                _require_whole(start[inside], stop[inside], point, name)
        if self.since is not None:
            inside = inside & (start >= self.since)
        if self.until is not None:
            inside = inside & (stop <= self.until)
        for a, b in self.without:
            for point in (a, b):
                _require_whole(start[inside], stop[inside], point, "without")
            inside = inside & ~((start >= a) & (stop <= b))
        return inside

    def fading(self, start: Counts, latest: int) -> Vector:
        """Weight of rows by their age: 1 in the latest bucket."""
        if self.half_life is None:
            return np.ones(len(start))
        age = np.minimum((latest - start) / self.half_life, OLDEST)
        weight: Vector = 2.0**-age
        return weight


def selected(
    book: Book,
    since: Any = None,
    until: Any = None,
    where: Mapping[str, Any] | None = None,
    without: Any = None,
    half_life: Any = None,
) -> Selection:
    """A selection as somebody has named it, checked."""
    first = None if since is None else buckets.point(since, "since")
    last = None if until is None else buckets.point(until, "until")
    if first is not None and last is not None and last <= first:
        raise DataError(
            (
                Setting("until"),
                f" is {buckets.text(last)}, which is not after ",
                Setting("since"),
                f", {buckets.text(first)}; rows until just before it are chosen",
            )
        )
    chosen = []
    for column, value in (where or {}).items():
        if column not in book.settings.by:
            known = ", ".join(map(repr, book.settings.by)) or "none"
            raise DataError(
                (f"column {column!r} in ", Setting("where"), " makes no segments; columns that "
                 f"do: {known}"),
                Remedy("begin a ledger that has it", "by", [*book.settings.by, column]),
            )  # fmt: skip
        out = isinstance(value, Mapping)
        if out:
            if set(value) != {"not"}:
                raise DataError(
                    (Setting("where"), f" of {column!r} is {dict(value)}; write {{'not': values}}")
                )
            value = value["not"]
        chosen.append((column, tuple(map(_text, _listed(value))), out))
    half = None if half_life is None else buckets.life(half_life)
    return Selection(first, last, tuple(chosen), _spans(without, book), half)


def _listed(value: Any) -> Sequence[Any]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        return [value]
    return list(value)


def _text(value: Any) -> str | None:
    """A value as the segments have it: as it is written."""
    if value is None:
        return None
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)


def _spans(without: Any, book: Book) -> tuple[tuple[int, int], ...]:
    """Times to be left out: buckets that somebody names, or pairs of since and until."""
    spans = []
    for one in _listed(without) if without is not None else ():
        if isinstance(one, (tuple, list)) and len(one) == 2:
            a, b = (buckets.point(end, "without") for end in one)
            if b <= a:
                raise DataError((Setting("without"), f" ends before it begins: {list(one)}"))
        else:
            a = buckets.point(one, "without")
            a = int(buckets.beginning(np.array([float(a)]), book.settings.every)[0])
            b = int(buckets.ending(np.array([a]), book.settings.every)[0])
        spans.append((a, b))
    return tuple(spans)


def _require_whole(start: Counts, stop: Counts, point: int, option: str) -> None:
    """Raise if a bucket begins before a point in time and ends after it."""
    cut = np.flatnonzero((start < point) & (point < stop))
    if len(cut):
        a, b = buckets.text(start[cut[0]]), buckets.text(stop[cut[0]])
        raise DataError(
            (
                Setting(option),
                f" {buckets.text(point)} is within the bucket from {a} to {b}, which cannot be "
                f"cut; name {a} or {b}",
            )
        )
