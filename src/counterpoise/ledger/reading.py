"""What a question reads: the fewest cells that tell its sums.

A selection of most segments is the totals of its buckets without the cells of the others, if that
leaves all digits; any other one is the sum of its cells. Either is read piece by piece, so that it
takes neither the time nor the memory of all cells at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterpoise.arrays import Counts, Flags, Vector
from counterpoise.errors import DataError
from counterpoise.exact.moments import Moments
from counterpoise.exact.removal import UNKNOWN
from counterpoise.exact.strangers import RemovalError
from counterpoise.ledger import buckets
from counterpoise.ledger.book import Book
from counterpoise.ledger.cells import Key
from counterpoise.ledger.parts import Sum
from counterpoise.ledger.selection import Selection
from counterpoise.ledger.stack import anchor_of
from counterpoise.ledger.storage import File

ENOUGH = 2e-15  # relative error that a difference may have: a few roundings, as a sum has
ENDLESS = (-(2**62), 2**62)


class Query(NamedTuple):
    """Cells of the file: of which table, and under which condition with which values."""

    table: str
    where: str
    values: list[int]


class Heads(NamedTuple):
    """Buckets of each class, by class and time.

    Where they begin and end, their rows, and the width, segment and weight of the heaviest cell.
    """

    label: Counts
    start: Counts
    stop: Counts
    rows: Counts
    d: Counts
    segment: Counts
    n: Vector

    @classmethod
    def of(cls, file: File, query: Query) -> Heads:
        """Those in which a query has cells."""
        what = "label, start, stop, SUM(rows), d, segment, MAX(n)"
        found = file.heads(what, *query, "GROUP BY label, start")
        table = np.array(found, dtype=np.float64).reshape(-1, 7).T  # times are below 2**53
        label, start, stop, rows, d, segment = table[:6].astype(np.int64)
        return cls(label, start, stop, rows, d, segment, table[6])


def totals(book: Book, chosen: Selection) -> Query:
    """Totals of the buckets of a selection, and perhaps of more."""
    return Query("totals", "start BETWEEN ? AND ?", _span(book, chosen))


def cells(book: Book, chosen: Selection, segments: Flags) -> Query:
    """Cells of such segments in the buckets of a selection, and perhaps in more."""
    where = "start BETWEEN ? AND ?"
    if not segments.all():
        where += f" AND segment IN ({', '.join(map(str, np.flatnonzero(segments).tolist()))})"
    return Query("cells", where, _span(book, chosen))


def moments(file: File, book: Book, chosen: Selection) -> Moments:
    """Moments of a selection, from the file."""
    inside = chosen.segments(book)
    if book.settings.by and 2 * inside.sum() > len(inside):
        found = _difference(file, book, chosen, inside)
        if found is not None:
            return found
    query = cells(book, chosen, inside)
    heads = Heads.of(file, query)
    return _summed(file, book, query, heads, _weights(heads.start, heads.stop, chosen))


def _difference(file: File, book: Book, chosen: Selection, inside: Flags) -> Moments | None:
    """Totals without the cells of other segments; None if that would cost digits."""
    query, other = totals(book, chosen), cells(book, chosen, ~inside)
    heads = Heads.of(file, query)
    if inside.all():
        return _summed(file, book, query, heads, _weights(heads.start, heads.stop, chosen))
    gone = Heads.of(file, other)
    at = {tuple(one): i for i, one in enumerate(np.column_stack(heads[:2]).tolist())}
    places = [at[tuple(one)] for one in np.column_stack(gone[:2]).tolist()]
    rows = heads.rows.copy()
    rows[places] -= gone.rows
    left = rows > 0  # where none are, the rest is nothing, exactly
    weight = np.zeros(len(left))
    weight[left] = _weights(heads.start[left], heads.stop[left], chosen)
    whole = _summed(file, book, query, heads, weight)
    try:
        result = whole.without(_summed(file, book, other, gone, weight[places]))
    except RemovalError:
        return None
    if result.lost().max(initial=0.0) > ENOUGH:
        return None
    if chosen.half_life is not None:
        result.marks[result.n > 0] = UNKNOWN
    return result


def _span(book: Book, chosen: Selection) -> list[int]:
    """Between when the buckets of a selection begin."""
    since, until = ENDLESS
    if chosen.since is not None:
        sizes = [book.settings.every, *(every for _, every in book.coarse)]
        since = chosen.since - max(buckets.LONGEST[one] for one in sizes)
    return [since, until if chosen.until is None else chosen.until]


def _weights(start: Counts, stop: Counts, chosen: Selection) -> Vector:
    """Weights of buckets in a selection, of whatever segments."""
    here = np.zeros(len(start), dtype=np.int64)
    flags = chosen.chosen(start, stop, here, np.ones(1, dtype=bool))
    if not flags.any():
        raise DataError(f"no rows are in the selection: {chosen.words()}")
    latest = int(start[flags].max())
    return np.where(flags, chosen.fading(start, latest), 0.0)


def _summed(file: File, book: Book, query: Query, heads: Heads, weight: Vector) -> Moments:
    """The sum of the cells of a query, whose buckets have weights."""
    labels, d = book.label_array(), book.width
    result = Moments(labels, np.zeros(d))
    there = weight > 0
    if not there.any():
        return result
    first, last = (int(one) for one in (heads.start[there].min(), heads.start[there].max()))
    values = [first, last, *query.values[2:]]
    result.anchor[:] = _anchor(file, Query(query.table, query.where, values), heads, there, d)
    for k in np.unique(heads.label[there]).tolist():
        start, own = heads.start[heads.label == k], weight[heads.label == k]
        total = Sum(d)
        for block in file.blocks(query.table, f"label = {k} AND {query.where}", values):
            total.take(block, result.anchor, own[np.searchsorted(start, block.start)])
        total.put(result, k)
    result.N[:] = result.n
    result.stream[:] = result.N.sum()
    return result


def _anchor(file: File, query: Query, heads: Heads, there: Flags, d: int) -> Vector:
    """One point for all cells of a query; the heaviest of those that know a feature has it.

    The heaviest cells of the buckets will do, unless none of them knows all d features.
    """
    found: list[tuple[int, ...]] = []
    for width in np.unique(heads.d[there]).tolist():
        i = int(np.where(there & (heads.d == width), heads.n, -1.0).argmax())
        found.append(tuple(int(one[i]) for one in (heads.start, heads.segment, heads.label)))
    if heads.d[there].max() < d:
        everywhere = file.heads("start, segment, label, d, MAX(n)", *query, "GROUP BY d")
        found = [one[:3] for one in everywhere]
    rows = [file.cell(Key(*one), query.table) for one in found]
    return anchor_of([row for row in rows if row is not None], d)
