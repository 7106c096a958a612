"""Inputs into a ledger, each row exactly once; and inputs taken back.

Cells, columns and the record of an input are written in one transaction: whoever is killed goes on
at the end of a batch, and ends with the bits of a run that was not killed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from counterpoise.errors import DataError
from counterpoise.jobs.known import recognised, require_unknown
from counterpoise.jobs.store import Record
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
) -> tuple[dict[str, int], list[str]]:
    """Learn what is new in several inputs; return the new rows of each, and what to say.

    ``every`` so many rows everything is written. After an error what was written before stays.
    """
    new: dict[str, int] = {}
    notes: dict[str, str] = {}
    present = {key: source for source, key in inputs}
    for source, key in inputs:
        if stop():
            break
        new[key] = 0
        if not (allow_overlap or key.startswith("-")):
            _identify(book, file.path, source, key, present)
        filler = Filler(file, book)
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
        notes |= filler.notes
    return new, list(notes.values())


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
        dropped += filler.add(chunk)
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


def forget(
    file: File,
    book: Book,
    inputs: list[tuple[Source, str]],
    watch: Watch = lambda source, rows: None,
) -> int:
    """Take the rows of inputs back, all of them or none; return how many.

    A file must have been learned, and its record goes with its rows; a frame need not be one that
    was learned.
    """
    total, filler = 0, Filler(file, book)
    with file.writing():
        for source, key in inputs:
            known = _identify(book, file.path, source, key, None)
            lasting = os.path.isfile(source.path)
            if lasting and not known:
                raise DataError(
                    f"{source.name} was never learned, under this or any other name; the learned "
                    f"inputs are {', '.join(book.records) or 'none'}"
                )
            left: float = book.records[key].mark.rows if known else math.inf
            if known:
                source.verify(book.records[key].mark, book.encoding.columns.wanted)
            for chunk in filler.chunks(source, Mark(), None if left == math.inf else int(left)):
                chunk = chunk if left == math.inf else chunk.head(int(left))
                filler.add(chunk, learning=False)
                watch(source, chunk.rows)
                left -= chunk.rows
                if left <= 0:
                    break
            if known:
                del book.records[key]
        total = filler.remove()
        book.write(file)
    return total


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
