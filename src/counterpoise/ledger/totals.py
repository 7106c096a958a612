"""Totals of buckets: their cells of all segments together, beside the cells in the file.

A question about most segments reads the totals, and takes away the few cells that it is not about.
Totals follow from the cells alone, bit by bit, and are written in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from counterpoise.arrays import Labels
from counterpoise.exact.blas import one_thread
from counterpoise.ledger.cells import ALL, Key, Row, as_row
from counterpoise.ledger.stack import Stack
from counterpoise.ledger.storage import File

BLOCK = 100  # buckets whose cells are read at a time


def renew(file: File, labels: Labels, d: int) -> None:
    """Sum the cells of the buckets that were written; within a transaction of whoever calls."""
    starts = sorted(file.touched)
    with one_thread():
        for i in range(0, len(starts), BLOCK):
            mine = starts[i : i + BLOCK]
            found = file.cells(f"start IN ({', '.join('?' * len(mine))})", mine)
            found.sort(key=lambda row: row.start)  # and by class and segment, as they were
            for start in set(mine).difference(row.start for row in found):
                file.put_totals(start, [])
            for start, cells in groupby(found, key=lambda row: row.start):
                file.put_totals(start, list(_totals(list(cells), labels, d)))
    file.touched.clear()


def _totals(cells: list[Row], labels: Labels, d: int) -> Iterator[Row]:
    """The totals of one bucket, from its cells by class."""
    for k, group in groupby(cells, key=lambda row: row.label):
        mine = list(group)
        if len(mine) == 1:
            yield mine[0]._replace(segment=ALL)
            continue
        one = [row._replace(label=0) for row in mine]
        stack = Stack.of(one, labels[k : k + 1], d)
        total = stack.moments([part.n * 0.0 + 1.0 for part in stack.parts])
        key = Key(mine[0].start, ALL, k)
        yield as_row(key, mine[0].stop, sum(row.rows for row in mine), total)
