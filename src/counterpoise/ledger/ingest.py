"""Rows into cells: what chunks hold, gathered by time, segment and class.

Rows are gathered in batches whose ends depend on the rows alone, and a batch becomes moments of its
cells, which are added to those in the file or taken away from them.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from xxhash import xxh3_128

from counterpoise.arrays import Counts, Flags, Labels, Rows, Vector, one_thread
from counterpoise.encoding import cell_parsing as reading
from counterpoise.encoding.kinds import times
from counterpoise.errors import DataError, Message, OptionValue, PrecisionError, Suggestion
from counterpoise.ledger import time_buckets
from counterpoise.ledger.cells import Key, Row, as_row, read_cell
from counterpoise.ledger.metadata import LedgerMetadata
from counterpoise.ledger.storage import File
from counterpoise.moments.downdate import precision_error
from counterpoise.moments.moments import Moments
from counterpoise.readers import formats
from counterpoise.readers.chunk import Chunk, ReadPosition, Source
from counterpoise.readers.columnar import BATCH, ColumnarSource
from counterpoise.solver.mapped_moments import require_light
from counterpoise.tables import records
from counterpoise.tables.guards import Guards
from counterpoise.tables.records import Record, Records, RowFilter, read_ahead
from counterpoise.tables.scoring import CHUNK_ROWS


class Frame(ColumnarSource):
    """A table in memory as an input."""

    def __init__(self, table: pa.Table, name: str) -> None:
        super().__init__(name, name, parquet=False)
        self._table = table

    def _batches(self, wanted: Callable[[str], bool]) -> Iterator[pa.RecordBatch]:
        self._offered, self._total = tuple(self._table.column_names), self._table.num_rows
        names = [name for name in self._offered if wanted(name)]
        yield from self._table.select(names).to_batches(max_chunksize=BATCH)


def opened(
    data: Any, name: str | None, path: str, wanted: Callable[[str], bool]
) -> list[tuple[Source, str]]:
    """Inputs, and their names in the records of the ledger at ``path``.

    A frame without a name is called after its content: the same frame is the same input.
    """
    if isinstance(data, (str, os.PathLike)):
        return [(formats.source(os.fspath(data)), Records.key(os.fspath(data), path))]
    if hasattr(data, "chunks") and hasattr(data, "verify"):
        if data.path != "-" and name:
            return [(data, name)]
        return [(data, Records.key(data.path, path, name))]
    if isinstance(data, (list, tuple)) and data and all(_is_path(one) for one in data):
        return [pair for one in data for pair in opened(one, None, path, wanted)]
    frame = Frame(_table(data), name or "the frame")
    if name is None:
        mark = ReadPosition()
        for chunk in frame.chunks(BATCH, ReadPosition(), {}, wanted):
            mark = chunk.mark
        name = f"frame {mark.hash}"
    return [(frame, name)]


def _is_path(data: Any) -> bool:
    return isinstance(data, (str, os.PathLike)) or hasattr(data, "chunks")


def _table(data: Any) -> pa.Table:
    """A frame of pandas, polars or Arrow, or columns by name, as an Arrow table."""
    try:
        if isinstance(data, pa.RecordBatch):
            return pa.Table.from_batches([data])
        if isinstance(data, pa.RecordBatchReader):
            return data.read_all()
        if isinstance(data, pa.Table):
            return data
        if hasattr(data, "to_arrow"):
            return data.to_arrow()
        if hasattr(data, "iloc"):
            return pa.Table.from_pandas(data, preserve_index=False)
        if isinstance(data, dict):
            return pa.table(data)
        if isinstance(data, Iterable):
            return pa.Table.from_pylist(list(data))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"the frame cannot be read: {' '.join(str(error).split())[:200]}") from None
    raise DataError(f"a {type(data).__name__} is neither a path, nor a reader, nor a frame")


BATCH_ROWS = 32 * CHUNK_ROWS
BATCH_VALUES = 1 << 23  # numbers of a batch, about
WIDE = 400  # features, of which rows stay sparse
MAX_FEATURES = math.sqrt(2e9 / 16.0)  # features that there is memory for


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


class CellWriter:
    """Puts rows of one ledger into its cells, within a transaction of whoever calls."""

    def __init__(
        self,
        file: File | None,
        book: LedgerMetadata,
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
        """File of the ledger, which must exist."""
        assert self._file is not None
        return self._file

    # Reading

    def chunks(
        self,
        source: Source,
        after: ReadPosition,
        until: int | None = None,
        where: RowFilter | None = None,
    ) -> Iterator[Chunk]:
        """Return the chunks of an input after a mark, with the columns of a condition."""
        columns, settings = self.book.encoding.columns, self.book.settings
        text = dict.fromkeys(settings.by, "category") | {settings.timestamp: "epoch"}
        self._kinds = columns.read({**columns.explicit_types, **text, **self.encoding.kinds})

        def wanted(name: str) -> bool:
            return columns.is_needed(name) or (where is not None and name in where.values)

        kinds = self._kinds if where is None else where.kinds(self._kinds)
        return source.chunks(CHUNK_ROWS, after, kinds, wanted, until)

    def add(self, chunk: Chunk, learning: bool = True) -> Flags:
        """Read the rows of a chunk; return which of them are kept."""
        settings, before = self.book.settings, self.encoding
        named = {settings.timestamp: "the time"} | dict.fromkeys(settings.by, "a segment")
        for name, what in named.items():
            if name not in (chunk.offered if chunk.table else chunk.columns):
                raise DataError(
                    f"{chunk.source} has no column {name!r}, {what} of each row",
                    Suggestion("correct the file"),
                )
        self._require_few_values(chunk)
        lacking = before.missing_columns(chunk)
        if self._guards is not None:
            self._guards.require_whole(chunk, lacking)
        encoded, self.encoding = before.learn(chunk, MAX_FEATURES, lenient=True)
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
            name, form = self.book.settings.timestamp, self.book.encoding.columns.time_format
            result[rows] = times(chunk, name, rows, form) < self.book.dropped
        return result

    @property
    def full(self) -> bool:
        """Whether there are rows enough for a batch."""
        rows = self._pending.rows
        return rows >= BATCH_ROWS or rows * max(len(self.encoding.features), 1) >= BATCH_VALUES

    def _buckets(self, chunk: Chunk, kept: Any) -> tuple[Counts, Counts]:
        """Return the start and end of the bucket of each row."""
        settings, name = self.book.settings, self.book.settings.timestamp
        t = times(chunk, name, kept, self.book.encoding.columns.time_format)
        fine = settings.every in ("minute", "hour")
        if self._first and fine and len(t) > 1 and not (t % time_buckets.DAY).any():
            raise DataError(
                f"{chunk.source}: column {name!r} holds days without a time of day, and buckets of "
                f"one {settings.every} are finer than that",
                Suggestion("use {}", "every", "day"),
            )
        self._first = False
        dropped = self.book.dropped
        if dropped is not None and len(t) and t.min() < dropped:
            row = int(np.flatnonzero(kept)[int(t.argmin())])
            raise chunk.error(
                row,
                f"{time_buckets.text(t.min())} in column {name!r} is before "
                f"{time_buckets.text(dropped)}, "
                "until when everything was dropped; leave such rows out",
            )
        return time_buckets.bucket_bounds(t, settings.every, self.book.coarse)

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
        most = self.book.settings.max_values
        if len(values) > most:
            raise DataError(
                f"{source}: column {name!r} has more than {most:,} values, each of them a segment",
                Suggestion("make segments of another column", "by"),
                Suggestion("allow more of them", "max_values"),
            )

    # Writing

    def add_cells(self, cells: Mapping[CellKey, PartialCell], source: str) -> None:
        """Add cells that were gathered elsewhere, with the features of this encoding."""
        written = []
        for place, cell in cells.items():
            segment = self._segments.setdefault(place.segment, len(self._segments))
            label = self._labels.setdefault(place.label, len(self._labels))
            key, rows, total = Key(place.start, segment, label), cell.rows, cell.moments
            known = self.file.cell(key)
            if known is not None:
                total = self._cell(known)
                total.append(cell.moments)
                rows += known.rows
                require_light(total)
            written.append(as_row(key, cell.stop, rows, total))
        for at, name in enumerate(self.book.settings.by):
            self._require_few(name, {segment[at] for segment in self._segments}, source)
        self.file.put_cells(written)

    def grouped(self) -> dict[Key, tuple[int, int, Moments, Row | None]]:
        """Return the moments of the new rows of each cell, with its end, rows and stored row."""
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
                    cell.append(more)
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
                        f"bucket of {time_buckets.text(key.start)}: {there:,} were learned. "
                        "Nothing was "
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

    def write_metadata(self) -> None:
        """Let the book have what was found."""
        self.book.encoding = self.encoding
        self.book.labels = list(self._labels)
        self.book.segments = list(self._segments)


def removed(cell: Moments, less: Moments, names: list[str]) -> Moments:
    """A cell without some rows, if enough digits are left."""
    try:
        return cell.subtract(less)
    except PrecisionError as error:
        if error.feature is None:
            raise DataError(f"{error}. Nothing was unlearned") from None
        raise DataError(precision_error(names[error.feature])) from None


def _joined(parts: list[Rows], d: int) -> Rows:
    """Return rows as one matrix; those read first may have fewer features."""
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


class CellKey(NamedTuple):
    """Key of a cell: start of its bucket, values of its segment, label."""

    start: int
    segment: tuple[str | None, ...]
    label: Any


@dataclass
class PartialCell:
    """A cell in memory: where its bucket ends, how many rows it has, and their moments."""

    stop: int
    rows: int
    moments: Moments

    def append(self, other: PartialCell) -> None:
        """Let the rows of another cell of the same place follow."""
        self.moments.append(other.moments)
        self.rows += other.rows
        require_light(self.moments)


class PartialAggregator(CellWriter):
    """Rows of one part into cells in memory. The features must be known."""

    def __init__(self, book: LedgerMetadata) -> None:
        super().__init__(None, replace(book, records=Records()))
        self.cells: dict[CellKey, PartialCell] = {}
        self.left_out = 0

    def gather(self, chunk: Chunk) -> None:
        """Read the rows of a chunk."""
        self.left_out += int((~self.add(chunk)).sum())
        if self.full:
            self.collect()

    def collect(self) -> None:
        """Put what was read into cells."""
        groups = self.grouped()
        segments, labels = list(self._segments), list(self._labels)
        for key, (stop, rows, moments, _) in groups.items():
            place = CellKey(key.start, segments[key.segment], labels[key.label])
            cell = PartialCell(stop, rows, moments)
            if place in self.cells:
                self.cells[place].append(cell)
            else:
                self.cells[place] = cell

    def _known(self, first: int, last: int) -> dict[Key, Row]:
        return {}


def hash_of(cells: Mapping[CellKey, PartialCell], names: list[str]) -> str:
    """Return a hash of the rows of cells, independent of their parts and their order."""
    order = sorted(range(len(names)), key=names.__getitem__)
    sums = xxh3_128()
    for place in sorted(cells, key=lambda one: (one.start, json.dumps(one[1:]))):
        cell = cells[place]
        hashes = cell.moments.row_hashes[0]
        held = [(names[j], hashes[:, 1 + j].tolist()) for j in order if hashes[:, 1 + j].any()]
        sums.update(
            json.dumps([*place, cell.stop, cell.rows, hashes[:, 0].tolist(), held]).encode()
        )
    return sums.hexdigest()


EVERY = 1_000_000  # rows of a file after which all is written
Watch = Callable[[Source, int], None]


def learn(
    file: File,
    book: LedgerMetadata,
    inputs: list[tuple[Source, str]],
    every: float,
    stop: Callable[[], bool] = lambda: False,
    watch: Watch = lambda source, rows: None,
    allow_overlap: bool = False,
    allow_new_columns: bool = False,
) -> tuple[dict[str, int], list[Message]]:
    """Learn what is new in several inputs; return the new rows of each, and what to report.

    ``every`` so many rows everything is written. After an error what was written before stays.
    """
    new: dict[str, int] = {}
    guards = Guards(file.path, allow_new_columns=allow_new_columns)
    for source, key, _ in book.records.new_inputs(
        inputs, book.encoding, file.path, stop, allow_overlap
    ):
        new[key] = 0
        filler = CellWriter(file, book, guards, book.records.has_other_rows(key))
        chunks = read_ahead(filler.chunks(source, book.records.position(key)), source, stop)
        over = False
        while not over:
            with file.writing():
                over, rows = _fill(filler, chunks, source, key, every, stop, watch, allow_overlap)
                filler.write_metadata()
                if rows:
                    book.write(file)
            new[key] += rows
    return new, list(guards.notes.values())


def _fill(
    filler: CellWriter,
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
            book.records.check_new(chunk, key, allow_overlap)
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
    book: LedgerMetadata,
    inputs: list[tuple[Source, str]],
    where: RowFilter | None = None,
    watch: Watch = lambda source, rows: None,
) -> dict[str, int]:
    """Subtract rows of inputs, all of them or none; return the number for each input.

    A file must have been learned; a frame need not be one that was learned. Without ``where`` all
    rows are subtracted, and the record goes with them. With ``where`` those that meet the condition
    are subtracted, and the record remembers which. Rows that were unlearned or dropped before do
    not count.
    """
    removed: dict[str, int] = {}
    filler = CellWriter(file, book)
    with file.writing():
        for source, key in inputs:
            is_known = book.records.identify(source, key, book.encoding, file.path) is not None
            if os.path.isfile(source.path) and not is_known:
                raise DataError(
                    f"{source.name} was never learned, under this or any other name; the learned "
                    f"inputs are {', '.join(book.records) or 'none'}"
                )
            record = book.records[key] if is_known else None
            if record is not None:
                source.verify(record.mark, book.encoding.columns.is_needed)
            rows = _subtract(filler, source, record, where, watch)
            removed[key] = len(rows)
            if record is not None and where is not None:
                book.records[key] = replace(record, gone=records.add_rows(record.gone, rows))
            elif record is not None:
                del book.records[key]
        filler.remove()
        book.write(file)
    return removed


def _subtract(
    filler: CellWriter, source: Source, record: Record | None, where: RowFilter | None, watch: Watch
) -> list[int]:
    """Read the rows of one input that are to be subtracted; return their indices."""
    found: list[int] = []
    until = None if record is None else record.mark.rows
    for chunk in filler.chunks(source, ReadPosition(), until, where):
        rows = np.arange(chunk.first - 1, chunk.first - 1 + chunk.rows)
        meant = np.ones(chunk.rows, dtype=bool) if where is None else where.of(chunk)
        if record is not None:
            meant &= (rows < record.mark.rows) & ~records.contains(record.gone, rows)
        meant &= ~filler.dropped(chunk, meant)
        watch(source, chunk.rows)
        if meant.any():
            kept = filler.add(chunk.only(meant), learning=False)
            found += rows[meant][kept].tolist()
    return found


def require_within(book: LedgerMetadata, every: str) -> None:
    """Raise if coarser buckets are not made of whole ones."""
    time_buckets.require_every(every)
    if every != book.settings.every and book.settings.every not in time_buckets.WITHIN[every]:
        raise DataError(
            (
                OptionValue("every", every),
                f" is not made of whole buckets of one {book.settings.every}",
            )
        )


def rollup(file: File, book: LedgerMetadata, until: int, every: str) -> int:
    """Merge the buckets of times before a point into coarser ones; return how many cells went.

    A coarse bucket that the point is within stays as it is.
    """
    end = int(time_buckets.beginning(np.array([float(until)]), every)[0])
    labels, d = book.label_array(), book.width
    rows = 0
    with file.writing():
        heads = file.index().cells
        old = file.block("cells", heads[heads["stop"] <= end]).rows()
        finer = [row for row in old if _is_within(row, every)]
        start = time_buckets.beginning(
            np.array([float(row.start) for row in finer]), every
        ).tolist()
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
                total.append(read_cell(row, label, d))
            stop = int(time_buckets.ending(np.array([key.start]), every)[0])
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


def drop(file: File, book: LedgerMetadata, until: int) -> int:
    """Drop the cells of times before a point, as if they had never been learned; how many.

    What was learned from where stays known, so that their rows do not come back.
    """
    with file.writing():
        heads = file.index().cells
        cut = heads[(heads["start"] < until) & (heads["stop"] > until)]
        if len(cut):
            a, b = time_buckets.text(cut["start"][0]), time_buckets.text(cut["stop"][0])
            raise DataError(
                (
                    OptionValue("until"),
                    f" {time_buckets.text(until)} is within the bucket from {a} to {b}, which "
                    "cannot be "
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
    """Return whether a cell is finer than such buckets, or equal."""
    start = np.array([row.start])
    whole = int(time_buckets.ending(time_buckets.beginning(start.astype(float), every), every)[0])
    return row.stop <= whole and row.stop - row.start < int(
        whole - time_buckets.beginning(start.astype(float), every)[0]
    )
