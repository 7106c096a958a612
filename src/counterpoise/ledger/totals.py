"""Totals of buckets: their cells of all segments together, beside the cells in the file.

A question about most segments reads the totals, and takes away the few cells that it is not about.
Totals follow from the cells alone, bit by bit, and are written in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import numpy as np

from counterpoise.arrays import Labels
from counterpoise.exact.blas import one_thread
from counterpoise.ledger.cells import ALL, Block, Key, Row, as_row, moved, read_cell
from counterpoise.ledger.stack import Stack
from counterpoise.ledger.storage import File

ROUNDING = 1e-9  # relative difference between a total and the sum of its cells on another machine


def renew(file: File, labels: Labels, d: int) -> None:
    """Sum the cells of the buckets that were written; within a transaction of whoever calls."""
    with one_thread():
        for start in sorted(file.touched):
            block = file.block("cells", file.heads(start, start).cells)
            file.put_totals(start, list(of_bucket(block, labels, d)))
    file.touched.clear()


def of_bucket(block: Block, labels: Labels, d: int) -> Iterator[Row]:
    """Yield the totals of one bucket, from its cells by class and segment."""
    for k, group in groupby(block.rows(), key=lambda row: row.label):
        mine = list(group)
        if len(mine) == 1:
            yield moved(mine[0], ALL)
            continue
        one = Block.of([row._replace(label=0) for row in mine])
        stack = Stack.of(one, labels[k : k + 1], d)
        total = stack.moments([np.ones(len(mine))])
        key = Key(mine[0].start, ALL, k)
        yield as_row(key, mine[0].stop, sum(row.rows for row in mine), total)


def require_same(file: File, cells: Block, stored: Block, labels: Labels) -> None:
    """Raise unless the stored totals of a bucket are the sums of its cells, up to rounding."""
    d = int(stored.heads["d"].max(initial=0))
    is_same = cells.heads["d"].max(initial=0) <= d
    if is_same:
        with one_thread():
            rows = list(of_bucket(cells, labels, d))
        is_same = [row[:5] for row in rows] == [row[:5] for row in stored.rows()]
        for one, two in zip(rows, stored.rows(), strict=False):
            a, b = (read_cell(row, labels[:1], d) for row in (one, two))
            center, other = a.anchor + a.mean[0], b.anchor + b.mean[0]
            size = np.sqrt(np.maximum(a.C[0].diagonal(), 0.0) + a.n[0] * center**2)
            scatters = np.abs(a.C[0] - b.C[0]) <= ROUNDING * np.outer(size, size)
            means = np.abs(center - other) * np.sqrt(a.n[0]) <= ROUNDING * size
            is_same &= bool(scatters.all() and means.all())
            is_same &= abs(one.n - two.n) <= ROUNDING * one.n
    if not is_same:
        raise file.damaged("a total is not the sum of its cells")
