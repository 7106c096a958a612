"""Rows into cells: what chunks hold, gathered by time, segment and class.

Rows are gathered in batches whose ends depend on the rows alone, and a batch becomes moments of its
cells, which are added to those in the file or taken away from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from counterpoise.arrays import Counts, Flags, Labels, Rows, Vector
from counterpoise.encoding import cells as reading
from counterpoise.encoding.clock import times
from counterpoise.errors import DataError, Remedy
from counterpoise.exact.blas import one_thread
from counterpoise.exact.limits import require_light
from counterpoise.exact.moments import Moments
from counterpoise.exact.removal import too_few_digits
from counterpoise.exact.strangers import RemovalError
from counterpoise.jobs.guards import Guards
from counterpoise.jobs.learn import CHUNK_ROWS
from counterpoise.jobs.where import Where
from counterpoise.ledger import buckets
from counterpoise.ledger.book import Book
from counterpoise.ledger.cells import Key, Row, as_row, read_cell
from counterpoise.ledger.storage import File
from counterpoise.streams import Chunk, Mark, Source

if TYPE_CHECKING:
    from counterpoise.ledger.gathering import Gathered, Place

BATCH_ROWS = 32 * CHUNK_ROWS
BATCH_VALUES = 1 << 23  # numbers of a batch, about
WIDE = 400  # features, of which rows stay sparse
ROOM = math.sqrt(2e9 / 16.0)  # features that there is memory for


@dataclass
class Pending:
    """Rows that were read, and are not in their cells yet."""

    X: list[Rows] = field(default_factory=list)
    y: list[Labels] = field(default_factory=list)
    weight: list[Vector | None] = field(default_factory=list)
    start: list[Counts] = field(default_factory=list)
    stop: list[Counts] = field(default_factory=list)
    segment: list[Counts] = field(default_factory=list)
    rows: int = 0


class Filler:
    """Puts rows of one ledger into its cells, within a transaction of whoever calls."""

    def __init__(
        self,
        file: File | None,
        book: Book,
        guards: Guards | None = None,
        has_earlier: bool = False,
    ) -> None:
        self._file, self.book = file, book
        self.encoding = book.encoding
        self._guards, self._has_earlier = guards, has_earlier
        self._segments = {segment: i for i, segment in enumerate(book.segments)}
        self._labels = {label: i for i, label in enumerate(book.labels)}
        self._pending = Pending()
        self._kinds: dict[str, str] = {}
        self._first = not book.labels

    @property
    def file(self) -> File:
        """The file of the ledger, which whoever only gathers has not."""
        assert self._file is not None
        return self._file

    # Reading

    def chunks(
        self, source: Source, after: Mark, until: int | None = None, where: Where | None = None
    ) -> Iterator[Chunk]:
        """Return the chunks of an input after a mark, with the columns of a condition."""
        columns, settings = self.book.encoding.columns, self.book.settings
        text = dict.fromkeys(settings.by, "text") | {settings.time: "time"}
        self._kinds = columns.read({**columns.told, **text, **self.encoding.kinds})

        def wanted(name: str) -> bool:
            return columns.wanted(name) or (where is not None and name in where.values)

        kinds = self._kinds if where is None else where.kinds(self._kinds)
        return source.chunks(CHUNK_ROWS, after, kinds, wanted, until)

    def add(self, chunk: Chunk, learning: bool = True) -> Flags:
        """Read the rows of a chunk; return which of them are kept."""
        settings, before = self.book.settings, self.encoding
        named = {settings.time: "the time"} | dict.fromkeys(settings.by, "a segment")
        for name, what in named.items():
            if name not in (chunk.offered if chunk.table else chunk.columns):
                raise DataError(
                    f"{chunk.source} has no column {name!r}, {what} of each row",
                    Remedy("correct the file"),
                )
        self._require_few_values(chunk)
        lacking = before.lacking(chunk)
        if self._guards is not None:
            self._guards.require_whole(chunk, lacking)
        encoded, self.encoding = before.learn(chunk, ROOM, lenient=True)
        if not learning and (
            len(self.encoding.features) > len(before.features) or before.labels is None
        ):
            strange = self.encoding.features[-1].name
            raise DataError(f"{chunk.source}: feature {strange!r} was never learned; correct it")
        self._kinds.update(self.encoding.columns.read(self.encoding.kinds))
        if self._guards is not None:
            self._guards.notice_columns(chunk, lacking, before, self.encoding, self._has_earlier)
        kept, pending = encoded.kept, self._pending
        start, stop = self._buckets(chunk, encoded.kept)
        X = encoded.X
        if sp.issparse(X) and X.shape[1] <= WIDE:
            X = X.toarray()
        pending.segment.append(self._codes(chunk, kept))
        pending.start.append(start)
        pending.stop.append(stop)
        pending.X.append(X)
        pending.y.append(encoded.y)
        pending.weight.append(encoded.weight)
        pending.rows += X.shape[0]
        return kept

    def dropped(self, chunk: Chunk, rows: Flags) -> Flags:
        """Return which of some rows of a chunk are from a time of which everything was dropped."""
        result = np.zeros(chunk.rows, dtype=bool)
        if self.book.dropped is not None and rows.any():
            name, form = self.book.settings.time, self.book.encoding.columns.time_format
            result[rows] = times(chunk, name, rows, form) < self.book.dropped
        return result

    @property
    def full(self) -> bool:
        """Whether there are rows enough for a batch."""
        rows = self._pending.rows
        return rows >= BATCH_ROWS or rows * max(len(self.encoding.features), 1) >= BATCH_VALUES

    def _buckets(self, chunk: Chunk, kept: Any) -> tuple[Counts, Counts]:
        """Where the buckets of the rows begin and end."""
        settings, name = self.book.settings, self.book.settings.time
        t = times(chunk, name, kept, self.book.encoding.columns.time_format)
        fine = settings.every in ("minute", "hour")
        if self._first and fine and len(t) > 1 and not (t % buckets.DAY).any():
            raise DataError(
                f"{chunk.source}: column {name!r} holds days without a time of day, and buckets of "
                f"one {settings.every} are finer than that",
                Remedy("use {}", "every", "day"),
            )
        self._first = False
        dropped = self.book.dropped
        if dropped is not None and len(t) and t.min() < dropped:
            row = int(np.flatnonzero(kept)[int(t.argmin())])
            raise chunk.error(
                row,
                f"{buckets.text(t.min())} in column {name!r} is before {buckets.text(dropped)}, "
                "until when everything was dropped; leave such rows out",
            )
        return buckets.rolled(t, settings.every, self.book.coarse)

    def _codes(self, chunk: Chunk, kept: Any) -> Counts:
        """Numbers of the segments of the rows."""
        by = self.book.settings.by
        codes = np.zeros(chunk.rows, dtype=np.int64)
        values: list[tuple[str | None, ...]] = [()]
        for name in by:
            coded = reading.texts(chunk, name).dictionary_encode()
            mine = [*coded.dictionary.to_pylist(), None]
            code = coded.indices.fill_null(len(mine) - 1).to_numpy(zero_copy_only=False)
            found, codes = np.unique(codes * len(mine) + code, return_inverse=True)
            values = [(*values[i // len(mine)], mine[i % len(mine)]) for i in found.tolist()]
        codes = codes[kept]
        numbers = np.zeros(len(values), dtype=np.int64)
        for i in np.unique(codes).tolist():
            numbers[i] = self._segments.setdefault(values[i], len(self._segments))
        result: Counts = numbers[codes]
        return result

    def _require_few_values(self, chunk: Chunk) -> None:
        """Raise if a column has more values, with those of a chunk, than segments may be made of.

        Before they are taken for categories, of which there may not be many either.
        """
        for at, name in enumerate(self.book.settings.by):
            fresh = reading.texts(chunk, name).unique().to_pylist()
            known = {segment[at] for segment in self._segments}
            self._require_few(name, known.union(fresh), chunk.source)

    def _require_few(self, name: str, values: set[str | None], source: str) -> None:
        most = self.book.settings.most
        if len(values) > most:
            raise DataError(
                f"{source}: column {name!r} has more than {most:,} values, each of them a segment",
                Remedy("make segments of another column", "by"),
                Remedy("allow more of them", "most"),
            )

    # Writing

    def absorb(self, cells: Mapping[Place, Gathered], source: str) -> None:
        """Add cells that were gathered elsewhere, with the features of this encoding."""
        written = []
        for place, cell in cells.items():
            segment = self._segments.setdefault(place.segment, len(self._segments))
            label = self._labels.setdefault(place.label, len(self._labels))
            key, rows, total = Key(place.start, segment, label), cell.rows, cell.moments
            known = self.file.cell(key)
            if known is not None:
                total = self._cell(known)
                total.follow(cell.moments)
                rows += known.rows
                require_light(total)
            written.append(as_row(key, cell.stop, rows, total))
        for at, name in enumerate(self.book.settings.by):
            self._require_few(name, {segment[at] for segment in self._segments}, source)
        self.file.put_cells(written)

    def grouped(self) -> dict[Key, tuple[int, int, Moments, Row | None]]:
        """What was read as moments of each cell, with its end, its rows, and what it has so far."""
        pending, self._pending = self._pending, Pending()
        if not pending.rows:
            return {}
        d = len(self.encoding.features)
        if not d:
            raise DataError("no column is left to learn from")
        X = _joined(pending.X, d)
        y = np.concatenate(pending.y)
        weight = None
        if pending.weight[0] is not None:
            weight = np.concatenate([np.asarray(one) for one in pending.weight])
        found, codes = np.unique(y, return_inverse=True)
        for label in found.tolist():
            self._labels.setdefault(label, len(self._labels))
        label = np.array([self._labels[one] for one in found.tolist()])[codes]
        start, stop = np.concatenate(pending.start), np.concatenate(pending.stop)
        segment = np.concatenate(pending.segment)
        order = np.lexsort((label, segment, start))
        keys = np.column_stack([start, segment, label])[order]
        ends = np.flatnonzero((keys[1:] != keys[:-1]).any(axis=1)) + 1
        X = X[order]
        weight = None if weight is None else weight[order]
        stop = stop[order]
        labels, result = _array(self._labels), {}
        known = self._known(int(keys[0, 0]), int(keys[-1, 0]))
        for i, j in pairwise([0, *ends.tolist(), len(order)]):
            key = Key(*keys[i].tolist())
            mine, before, anchor = labels[key.label : key.label + 1], known.get(key), None
            if before is not None:
                anchor = np.zeros(d)
                anchor[: before.d] = np.frombuffer(before.data, count=before.d)
            own = None if weight is None else weight[i:j]
            moments = Moments.of_groups(X[i:j], [np.arange(j - i)], mine, own, anchor=anchor)
            if moments.n[0] > 0:
                require_light(moments)
                result[key] = (int(stop[i]), j - i, moments, before)
        return result

    def _known(self, first: int, last: int) -> dict[Key, Row]:
        """Cells of the file whose buckets begin between two times."""
        heads = self.file.heads(first, last).cells
        return {row.key: row for row in self.file.block("cells", heads).rows()}

    def flush(self) -> None:
        """Add what was read to its cells."""
        with one_thread():  # no bit depends on the number of cores
            written = []
            for key, (stop, rows, more, known) in self.grouped().items():
                if known is not None:
                    cell = self._cell(known)
                    cell.follow(more)
                    rows += known.rows
                    require_light(cell)
                else:
                    cell = more
                written.append(as_row(key, stop, rows, cell))
        self.file.put_cells(written)

    def remove(self) -> None:
        """Subtract what was read from its cells."""
        written, gone = [], []
        names = [feature.name for feature in self.encoding.features]
        with one_thread():
            for key, (_, rows, less, known) in self.grouped().items():
                if known is None or known.rows < rows:
                    there = 0 if known is None else known.rows
                    raise DataError(
                        f"cannot unlearn {rows:,} rows of class {less.labels[0].item()!r} in the "
                        f"bucket of {buckets.text(key.start)}: {there:,} were learned. Nothing was "
                        "unlearned"
                    )
                left = removed(self._cell(known), less, names)
                if left.n[0] > 0 and known.rows > rows:
                    written.append(as_row(key, known.stop, known.rows - rows, left))
                else:
                    gone.append(key)
        self.file.put_cells(written)
        self.file.remove_cells(gone)

    def _cell(self, row: Row) -> Moments:
        label = _array(self._labels)[row.label : row.label + 1]
        return read_cell(row, label, len(self.encoding.features))

    def settle(self) -> None:
        """Let the book have what was found."""
        self.book.encoding = self.encoding
        self.book.labels = list(self._labels)
        self.book.segments = list(self._segments)


def removed(cell: Moments, less: Moments, names: list[str]) -> Moments:
    """A cell without some rows, if enough digits are left."""
    try:
        return cell.without(less)
    except RemovalError as error:
        if error.feature is None:
            raise DataError(f"{error}. Nothing was unlearned") from None
        raise DataError(too_few_digits(names[error.feature])) from None


def _joined(parts: list[Rows], d: int) -> Rows:
    """Rows that were read with fewer features at first, as one matrix."""
    if any(sp.issparse(part) for part in parts):
        wide = [sp.csr_array(part) for part in parts]
        for part in wide:
            part.resize((part.shape[0], d))
        return sp.csr_array(sp.vstack(wide, format="csr"))
    X = np.zeros((sum(len(part) for part in parts), d))
    at = 0
    for part in parts:
        X[at : at + len(part), : part.shape[1]] = part
        at += len(part)
    return X


def _array(labels: Mapping[Any, int]) -> Labels:
    return np.array(list(labels))
