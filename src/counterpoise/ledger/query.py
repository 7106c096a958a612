"""A selection of rows: by time, by segment, with exceptions, and how old rows fade."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterpoise.arrays import Counts, Flags, Vector
from counterpoise.errors import DataError, OptionValue, PrecisionError, Suggestion
from counterpoise.ledger import time_buckets
from counterpoise.ledger.cells import BucketIndex, Index, MomentSum, anchor_of, heaviest, pick
from counterpoise.ledger.metadata import LedgerMetadata
from counterpoise.ledger.storage import File
from counterpoise.moments.downdate import UNTRACKED_HASH
from counterpoise.moments.moments import Moments

OLDEST = 1000.0  # half-lives, after which a row weighs nothing


@dataclass(frozen=True)
class Selection:
    """Selection of rows, and their weights."""

    since: int | None = None  # from when, and until just before when, in seconds
    until: int | None = None
    # columns, their values, and whether these are left out
    where: tuple[tuple[str, tuple[str | None, ...], bool], ...] = ()
    exclude: tuple[tuple[int, int], ...] = ()  # times that are left out
    half_life: float | None = None  # seconds in which a row fades to half its weight

    def words(self) -> str:
        """In words."""
        said = []
        if self.since is not None:
            said.append(f"since {time_buckets.text(self.since)}")
        if self.until is not None:
            said.append(f"until {time_buckets.text(self.until)}")
        for column, values, out in self.where:
            listed = ", ".join("(missing)" if value is None else value for value in values)
            said.append(f"{column} {'not ' if out else ''}{listed}")
        said += [
            f"excluding {time_buckets.text(a)} to {time_buckets.text(b)}" for a, b in self.exclude
        ]
        if self.half_life is not None:
            said.append(f"half-life {self.half_life / time_buckets.DAY:g} days")
        return ", ".join(said) or "everything"

    def segments(self, book: LedgerMetadata) -> Flags:
        """Return which segments are selected."""
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
        """Return which cells are selected by time and segment; raise if one is cut."""
        inside = segments[segment]
        for name, point in (("since", self.since), ("until", self.until)):
            if point is not None:
                _require_whole(start[inside], stop[inside], point, name)
        if self.since is not None:
            inside = inside & (start >= self.since)
        if self.until is not None:
            inside = inside & (stop <= self.until)
        for a, b in self.exclude:
            for point in (a, b):
                _require_whole(start[inside], stop[inside], point, "exclude")
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
    book: LedgerMetadata,
    since: Any = None,
    until: Any = None,
    where: Mapping[str, Any] | None = None,
    exclude: Any = None,
    half_life: Any = None,
) -> Selection:
    """A selection as somebody has named it, checked."""
    first = None if since is None else time_buckets.point(since, "since")
    last = None if until is None else time_buckets.point(until, "until")
    if first is not None and last is not None and last <= first:
        raise DataError(
            (
                OptionValue("until"),
                f" is {time_buckets.text(last)}, which is not after ",
                OptionValue("since"),
                f", {time_buckets.text(first)}; rows until just before it are chosen",
            )
        )
    chosen = []
    for column, value in (where or {}).items():
        if column not in book.settings.by:
            known = ", ".join(map(repr, book.settings.by)) or "none"
            raise DataError(
                (f"column {column!r} in ", OptionValue("where"), " makes no segments; columns that "
                 f"do: {known}"),
                Suggestion("begin a ledger that has it", "by", [*book.settings.by, column]),
            )  # fmt: skip
        out = isinstance(value, Mapping)
        if out:
            if set(value) != {"not"}:
                raise DataError(
                    (
                        OptionValue("where"),
                        f" of {column!r} is {dict(value)}; write {{'not': values}}",
                    )
                )
            value = value["not"]
        chosen.append((column, tuple(map(_text, _listed(value))), out))
    half = None if half_life is None else time_buckets.parse_half_life(half_life)
    return Selection(first, last, tuple(chosen), _spans(exclude, book), half)


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


def _spans(exclude: Any, book: LedgerMetadata) -> tuple[tuple[int, int], ...]:
    """Times to be left out: buckets that somebody names, or pairs of since and until."""
    spans = []
    for one in _listed(exclude) if exclude is not None else ():
        if isinstance(one, (tuple, list)) and len(one) == 2:
            a, b = (time_buckets.point(end, "exclude") for end in one)
            if b <= a:
                raise DataError((OptionValue("exclude"), f" ends before it begins: {list(one)}"))
        else:
            a = time_buckets.point(one, "exclude")
            a = int(time_buckets.beginning(np.array([float(a)]), book.settings.every)[0])
            b = int(time_buckets.ending(np.array([a]), book.settings.every)[0])
        spans.append((a, b))
    return tuple(spans)


def _require_whole(start: Counts, stop: Counts, point: int, option: str) -> None:
    """Raise if a bucket begins before a point in time and ends after it."""
    cut = np.flatnonzero((start < point) & (point < stop))
    if len(cut):
        a, b = time_buckets.text(start[cut[0]]), time_buckets.text(stop[cut[0]])
        raise DataError(
            (
                OptionValue(option),
                f" {time_buckets.text(point)} is within the bucket from {a} to {b}, which "
                "cannot be "
                f"cut; name {a} or {b}",
            )
        )


MAX_DIFFERENCE_ERROR = (
    2e-15  # relative error that a difference may have: a few roundings, as a sum has
)
SPAN = 1 << 40  # seconds, more than between any two times


def moments(file: File, book: LedgerMetadata, index: Index, chosen: Selection) -> Moments:
    """Return the moments of a selection, from the file."""
    inside = chosen.segments(book)
    if book.settings.by and 2 * inside.sum() > len(inside):
        found = _difference(file, book, index, chosen, inside)
        if found is not None:
            return found
    heads = in_span(index.cells, book, chosen, inside)
    return _summed(
        file, book, index.d, "cells", heads, _weights(heads["start"], heads["stop"], chosen)
    )


def in_span(
    heads: BucketIndex, book: LedgerMetadata, chosen: Selection, segments: Flags | None = None
) -> BucketIndex:
    """Return the heads of such segments in the buckets of a selection, and perhaps of more."""
    flags = np.ones(len(heads), dtype=bool) if segments is None else segments[heads["segment"]]
    if chosen.since is not None:
        sizes = [book.settings.every, *(every for _, every in book.coarse)]
        flags &= heads["start"] >= chosen.since - max(time_buckets.LONGEST[one] for one in sizes)
    if chosen.until is not None:
        flags &= heads["start"] <= chosen.until
    return pick(heads, flags)


def _difference(
    file: File, book: LedgerMetadata, index: Index, chosen: Selection, inside: Flags
) -> Moments | None:
    """Return totals without the cells of other segments; None if that would cost precision."""
    heads, other = (
        in_span(index.totals, book, chosen),
        in_span(index.cells, book, chosen, ~inside),
    )
    if inside.all():
        weight = _weights(heads["start"], heads["stop"], chosen)
        return _summed(file, book, index.d, "totals", heads, weight)
    bucket, gone = (one["label"] * SPAN + one["start"] for one in (heads, other))
    at = np.searchsorted(bucket, gone)
    rows = heads["rows"].copy()
    if len(at) and (at.max() >= len(bucket) or (bucket[at] != gone).any()):
        raise file.damaged("a total is missing")
    np.subtract.at(rows, at, other["rows"])
    if (rows < 0).any():
        raise file.damaged("a total has fewer rows than its cells")
    left = rows > 0  # where none are, the difference is 0, exactly
    weight = np.zeros(len(left))
    weight[left] = _weights(heads["start"][left], heads["stop"][left], chosen)
    whole = _summed(file, book, index.d, "totals", heads, weight)
    try:
        result = whole.subtract(_summed(file, book, index.d, "cells", other, weight[at]))
    except PrecisionError:
        return None
    if result.relative_error().max(initial=0.0) > MAX_DIFFERENCE_ERROR:
        return None
    if chosen.half_life is not None:
        result.row_hashes[result.n > 0] = UNTRACKED_HASH
    return result


def _weights(start: Counts, stop: Counts, chosen: Selection) -> Vector:
    """Weights of buckets in a selection, of whatever segments."""
    here = np.zeros(len(start), dtype=np.int64)
    flags = chosen.chosen(start, stop, here, np.ones(1, dtype=bool))
    if not flags.any():
        raise DataError(f"no rows are in the selection: {chosen.words()}")
    latest = int(start[flags].max())
    return np.where(flags, chosen.fading(start, latest), 0.0)


def _summed(
    file: File, book: LedgerMetadata, d: int, table: str, heads: BucketIndex, weight: Vector
) -> Moments:
    """Return the sum of cells of d features, each with a weight; without weight none is read."""
    labels = book.label_array()
    result = Moments(labels, np.zeros(d))
    heads, weight = pick(heads, weight > 0), weight[weight > 0]
    if not len(heads):
        return result
    few = np.sort(heaviest(heads))
    result.anchor[:] = anchor_of(file.block(table, heads[few]), d)
    for k in np.unique(heads["label"]).tolist():
        mine = heads["label"] == k
        own, total, i = weight[mine], MomentSum(d), 0
        for block in file.blocks(table, pick(heads, mine)):
            total.take(block, result.anchor, own[i : i + len(block.heads)])
            i += len(block.heads)
        total.put(result, k)
    if not (np.isfinite(result.C).all() and np.isfinite(result.mean).all()):
        raise file.damaged("a cell has values that are not finite")
    result.N[:] = result.n
    result.stream[:] = result.N.sum()
    return result
