"""Coarser buckets, and old ones dropped: both exact, and the file shrinks."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from counterpoise.errors import DataError, Setting
from counterpoise.exact.moments import Moments
from counterpoise.ledger import buckets
from counterpoise.ledger.book import Book
from counterpoise.ledger.cells import Key, Row, as_row, read_cell
from counterpoise.ledger.storage import File


def require_within(book: Book, every: str) -> None:
    """Raise if coarser buckets are not made of whole ones."""
    buckets.require_every(every)
    if every != book.settings.every and book.settings.every not in buckets.WITHIN[every]:
        raise DataError(
            (
                Setting("every", every),
                f" is not made of whole buckets of one {book.settings.every}",
            )
        )


def rollup(file: File, book: Book, until: int, every: str) -> int:
    """Merge the buckets of times before a point into coarser ones; return how many cells went.

    A coarse bucket that the point is within stays as it is.
    """
    end = int(buckets.beginning(np.array([float(until)]), every)[0])
    labels, d = book.label_array(), book.width
    rows = 0
    with file.writing():
        heads = file.index().cells
        old = file.block("cells", heads[heads["stop"] <= end]).rows()
        finer = [row for row in old if _is_within(row, every)]
        start = buckets.beginning(np.array([float(row.start) for row in finer]), every).tolist()
        target = {
            row.key: Key(at, row.segment, row.label) for row, at in zip(finer, start, strict=True)
        }
        merged: list[Row] = []
        by_target = sorted(finer, key=lambda row: (target[row.key], row.start))
        for key, group in groupby(by_target, key=lambda row: target[row.key]):
            mine = list(group)
            label = labels[key.label : key.label + 1]
            total: Moments = read_cell(mine[0], label, d)
            for row in mine[1:]:
                total.follow(read_cell(row, label, d))
            stop = int(buckets.ending(np.array([key.start]), every)[0])
            merged.append(as_row(key, stop, sum(row.rows for row in mine), total))
        file.remove_cells([row.key for row in finer])
        file.put_cells(merged)
        rows = len(finer) - len(merged)
        if finer or (end, every) not in book.coarse:
            kept = [one for one in book.coarse if one[1] != every or one[0] > end]
            if (end, every) not in kept and not any(one[1] == every for one in kept):
                kept.append((end, every))
            book.coarse = kept
            book.write(file)
    file.shrink()
    return rows


def drop(file: File, book: Book, until: int) -> int:
    """Drop the cells of times before a point, as if they had never been learned; how many.

    What was learned from where stays known, so that their rows do not come back.
    """
    with file.writing():
        heads = file.index().cells
        cut = heads[(heads["start"] < until) & (heads["stop"] > until)]
        if len(cut):
            a, b = buckets.text(cut["start"][0]), buckets.text(cut["stop"][0])
            raise DataError(
                (
                    Setting("until"),
                    f" {buckets.text(until)} is within the bucket from {a} to {b}, which cannot be "
                    f"cut; name {a} or {b}",
                )
            )
        old = heads[heads["stop"] <= until]
        file.remove_cells([Key(*key) for key in old[list(Key._fields)].tolist()])
        book.dropped = until if book.dropped is None else max(book.dropped, until)
        book.write(file)
    file.shrink()
    return len(old)


def _is_within(row: Row, every: str) -> bool:
    """Whether a cell is finer than such buckets, or the same."""
    start = np.array([row.start])
    whole = int(buckets.ending(buckets.beginning(start.astype(float), every), every)[0])
    return row.stop <= whole and row.stop - row.start < int(
        whole - buckets.beginning(start.astype(float), every)[0]
    )
