"""What a question reads: the fewest cells that tell its sums.

A selection of most segments is the totals of its buckets without the cells of the others, if that
leaves all digits; any other one is the sum of its cells. Either is read piece by piece, so that it
takes neither the time nor the memory of all cells at once.
"""

from __future__ import annotations

import numpy as np

from counterpoise.arrays import Counts, Flags, Vector
from counterpoise.errors import DataError
from counterpoise.exact.moments import Moments
from counterpoise.exact.removal import UNKNOWN
from counterpoise.exact.strangers import RemovalError
from counterpoise.ledger import buckets
from counterpoise.ledger.book import Book
from counterpoise.ledger.cells import Heads, Index, pick
from counterpoise.ledger.parts import Sum
from counterpoise.ledger.selection import Selection
from counterpoise.ledger.stack import anchor_of, heaviest
from counterpoise.ledger.storage import File

ENOUGH = 2e-15  # relative error that a difference may have: a few roundings, as a sum has
SPAN = 1 << 40  # seconds, more than between any two times


def moments(file: File, book: Book, index: Index, chosen: Selection) -> Moments:
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


def in_span(heads: Heads, book: Book, chosen: Selection, segments: Flags | None = None) -> Heads:
    """Return the heads of such segments in the buckets of a selection, and perhaps of more."""
    flags = np.ones(len(heads), dtype=bool) if segments is None else segments[heads["segment"]]
    if chosen.since is not None:
        sizes = [book.settings.every, *(every for _, every in book.coarse)]
        flags &= heads["start"] >= chosen.since - max(buckets.LONGEST[one] for one in sizes)
    if chosen.until is not None:
        flags &= heads["start"] <= chosen.until
    return pick(heads, flags)


def _difference(
    file: File, book: Book, index: Index, chosen: Selection, inside: Flags
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
        result = whole.without(_summed(file, book, index.d, "cells", other, weight[at]))
    except RemovalError:
        return None
    if result.lost().max(initial=0.0) > ENOUGH:
        return None
    if chosen.half_life is not None:
        result.marks[result.n > 0] = UNKNOWN
    return result


def _weights(start: Counts, stop: Counts, chosen: Selection) -> Vector:
    """Weights of buckets in a selection, of whatever segments."""
    here = np.zeros(len(start), dtype=np.int64)
    flags = chosen.chosen(start, stop, here, np.ones(1, dtype=bool))
    if not flags.any():
        raise DataError(f"no rows are in the selection: {chosen.words()}")
    latest = int(start[flags].max())
    return np.where(flags, chosen.fading(start, latest), 0.0)


def _summed(file: File, book: Book, d: int, table: str, heads: Heads, weight: Vector) -> Moments:
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
        own, total, i = weight[mine], Sum(d), 0
        for block in file.blocks(table, pick(heads, mine)):
            total.take(block, result.anchor, own[i : i + len(block.heads)])
            i += len(block.heads)
        total.put(result, k)
    if not (np.isfinite(result.C).all() and np.isfinite(result.mean).all()):
        raise file.damaged("a cell has values that are not finite")
    result.N[:] = result.n
    result.stream[:] = result.N.sum()
    return result
