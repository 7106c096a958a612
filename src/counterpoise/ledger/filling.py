"""Inputs into a ledger, each row exactly once, and rows of inputs unlearned.

Cells, columns and the record of an input are written in one transaction: whoever is killed goes on
at the end of a batch, and ends with the bits of a run that was not killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from counterpoise.errors import DataError, Message
from counterpoise.jobs import gone
from counterpoise.jobs.guards import Guards
from counterpoise.jobs.known import recognised, require_unknown
from counterpoise.jobs.store import Record
from counterpoise.jobs.where import Where
from counterpoise.ledger.book import Book
from counterpoise.ledger.filler import Filler
from counterpoise.ledger.storage import File
from counterpoise.streams import Chunk, Mark, Source
from counterpoise.streams.prefetch import ahead

EVERY = 1_000_000  # rows of a file after which all is written
Watch = Callable[[Source, int], None]


def learn(
    file: File,
    book: Book,
    inputs: list[tuple[Source, str]],
    every: float,
    stop: Callable[[], bool] = lambda: False,
    watch: Watch = lambda source, rows: None,
    allow_overlap: bool = False,
    new_columns: bool = False,
) -> tuple[dict[str, int], list[Message]]:
    """Learn what is new in several inputs; return the new rows of each, and what to report.

    ``every`` so many rows everything is written. After an error what was written before stays.
    """
    new: dict[str, int] = {}
    guards = Guards(file.path, new_columns=new_columns)
    present = {key: source for source, key in inputs}
    for source, key in inputs:
        if stop():
            break
        new[key] = 0
        if not (allow_overlap or key.startswith("-")):
            _identify(book, file.path, source, key, present)
        has_earlier = any(one.mark.rows for name, one in book.records.items() if name != key)
        filler = Filler(file, book, guards, has_earlier)
        record = book.records.get(key, Record())
        chunks = ahead(filler.chunks(source, record.mark), stop=stop)
        over = False
        while not over:
            with file.writing():
                over, rows = _fill(filler, chunks, source, key, every, stop, watch, allow_overlap)
                filler.settle()
                if rows:
                    book.write(file)
            new[key] += rows
    return new, list(guards.notes.values())


def _fill(
    filler: Filler,
    chunks: Iterator[Chunk],
    source: Source,
    key: str,
    every: float,
    stop: Callable[[], bool],
    watch: Watch,
    allow_overlap: bool,
) -> tuple[bool, int]:
    """Learn chunks until it is time to write; whether that was the last, and how many rows."""
    book = filler.book
    record = book.records.get(key)
    rows = waiting = dropped = 0
    for chunk in chunks:
        if record is None:
            if not allow_overlap:
                require_unknown(chunk, book.records)
            record = Record(starts=chunk.starts)
        dropped += int((~filler.add(chunk)).sum())
        watch(source, chunk.rows)
        waiting += chunk.rows
        record = replace(record, mark=chunk.mark)
        if filler.full or chunk.last:
            filler.flush()
            rows, waiting = rows + waiting, 0
            book.records[key] = record = replace(record, dropped=record.dropped + dropped)
            dropped = 0
            if rows >= every and not chunk.last:
                return False, rows
    if waiting and not stop():
        filler.flush()
        rows += waiting
        assert record is not None
        book.records[key] = replace(record, dropped=record.dropped + dropped)
    return True, rows


def unlearn(
    file: File,
    book: Book,
    inputs: list[tuple[Source, str]],
    where: Where | None = None,
    watch: Watch = lambda source, rows: None,
) -> dict[str, int]:
    """Subtract rows of inputs, all of them or none; return the number for each input.

    A file must have been learned; a frame need not be one that was learned. Without ``where`` all
    rows are subtracted, and the record goes with them. With ``where`` those that meet the condition
    are subtracted, and the record remembers which. Rows that were unlearned or dropped before do
    not count.
    """
    removed: dict[str, int] = {}
    filler = Filler(file, book)
    with file.writing():
        for source, key in inputs:
            is_known = _identify(book, file.path, source, key, None)
            if os.path.isfile(source.path) and not is_known:
                raise DataError(
                    f"{source.name} was never learned, under this or any other name; the learned "
                    f"inputs are {', '.join(book.records) or 'none'}"
                )
            record = book.records[key] if is_known else None
            if record is not None:
                source.verify(record.mark, book.encoding.columns.wanted)
            rows = _subtract(filler, source, record, where, watch)
            removed[key] = len(rows)
            if record is not None and where is not None:
                book.records[key] = replace(record, gone=gone.with_more(record.gone, rows))
            elif record is not None:
                del book.records[key]
        filler.remove()
        book.write(file)
    return removed


def _subtract(
    filler: Filler, source: Source, record: Record | None, where: Where | None, watch: Watch
) -> list[int]:
    """Read the rows of one input that are to be subtracted; return their indices."""
    found: list[int] = []
    until = None if record is None else record.mark.rows
    for chunk in filler.chunks(source, Mark(), until, where):
        rows = np.arange(chunk.first - 1, chunk.first - 1 + chunk.rows)
        meant = np.ones(chunk.rows, dtype=bool) if where is None else where.of(chunk)
        if record is not None:
            meant &= (rows < record.mark.rows) & ~gone.among(record.gone, rows)
        meant &= ~filler.dropped(chunk, meant)
        watch(source, chunk.rows)
        if meant.any():
            kept = filler.add(chunk.only(meant), learning=False)
            found += rows[meant][kept].tolist()
    return found


def _identify(
    book: Book, path: str, source: Source, key: str, present: Mapping[str, Source] | None
) -> bool:
    """Find the record of an input by its content, and let it have the name that it has now."""
    folder = os.path.dirname(os.path.realpath(path))
    other = recognised(source, key, book.records, book.encoding, folder, present)
    if other is not None and other != key:
        displaced = other if not other.startswith("-") else f"{key} before"
        swap = {other: key, key: displaced}
        book.records = {swap.get(name, name): one for name, one in book.records.items()}
    return other is not None
