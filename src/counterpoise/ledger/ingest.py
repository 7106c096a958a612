"""Rows into cells: rows of chunks are grouped by time, segment and class.

Rows are collected in batches whose ends depend on the rows alone. A batch becomes moments of its
cells, which are added to the cells in the file or subtracted from them.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress, groupby, islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest, xxh3_128

from counterpoise.arrays import Counts, Flags, Labels, Rows, Vector, is_sparse, one_thread
from counterpoise.encoding.cell_parsing import texts
from counterpoise.encoding.column_values import missing_columns, times
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.encoding.vocabulary import Vocabulary
from counterpoise.errors import DataError, Message, PrecisionError, Suggestion
from counterpoise.ledger import time_buckets
from counterpoise.ledger.cells import Block, Key, StoredCell, pick
from counterpoise.ledger.metadata import LedgerMetadata
from counterpoise.ledger.query import require_whole
from counterpoise.ledger.storage import File
from counterpoise.moments.categories import Codes
from counterpoise.moments.downdate import precision_error
from counterpoise.moments.moments import Moments
from counterpoise.readers import formats
from counterpoise.readers.chunk import Chunk, ReadPosition, Source
from counterpoise.readers.columnar import BATCH
from counterpoise.readers.dataframes import FrameSource, is_stream, tables
from counterpoise.solver.mapped_moments import require_light
from counterpoise.tables import records
from counterpoise.tables.guards import Guards
from counterpoise.tables.model import learn_inputs
from counterpoise.tables.records import Record, Records, RowFilter, Window
from counterpoise.tables.scoring import CHUNK_ROWS, ScoredRows

BATCH_ROWS = 32 * CHUNK_ROWS
BATCH_VALUES = 1 << 23  # values of a batch, about
# Rows of a cell that is packed with others: the first is within 8 standard deviations of the mean,
# so that it stays the anchor.
MAX_PACKED_ROWS = 32
MAX_DENSE_FEATURES = 400  # rows of more features stay sparse
MAX_FEATURES = math.sqrt(2e9 / 16.0)  # for whose moments there is memory
EVERY = 1_000_000  # rows of a file after which everything is written
Input = tuple[Source, str]  # with its name in the records
Watch = Callable[[Source, int], None]  # called with the rows of each chunk


def open_inputs(
    data: Any, name: str | None, path: str, needed: Callable[[str], bool]
) -> list[Input]:
    """Return inputs with their names in the records of the ledger at ``path``.

    A frame without a name is named after its content: the same frame is the same input.
    """
    if _is_input(data):
        source = data if hasattr(data, "chunks") else formats.source(os.fspath(data))
        if name is not None and source is data and source.path != "-":
            return [(source, name)]
        return [(source, records.input_key(source.path, path, name))]
    if isinstance(data, (list, tuple)) and data and all(map(_is_input, data)):
        names = [name if getattr(one, "path", None) == "-" else None for one in data]
        pairs = zip(data, names, strict=True)
        return [pair for one, own in pairs for pair in open_inputs(one, own, path, needed)]
    if name is not None and (is_stream(data) or isinstance(data, Iterator)):  # of any length
        return [(FrameSource(data if is_stream(data) else _frames(data), name=name), name)]
    frame = FrameSource(_table(data), name=name or "the frame")
    if name is None:
        chunks = list(frame.chunks(BATCH, ReadPosition(), {}, needed))
        name = f"frame {(chunks[-1].mark if chunks else ReadPosition()).hash}"
    return [(frame, name)]


def _is_input(data: Any) -> bool:
    is_source = hasattr(data, "chunks") and hasattr(data, "verify")
    return is_source or isinstance(data, (str, os.PathLike))


def _frames(data: Iterable[Any]) -> Iterator[Any]:
    """Yield frames, and dicts of values as tables."""
    for are_rows, some in groupby(data, lambda one: isinstance(one, Mapping)):
        while are_rows and (rows := list(islice(some, BATCH))):
            yield pa.Table.from_pylist(rows)
        yield from some


def _table(data: Any) -> pa.Table:
    """Return a frame, columns by name or a sequence of dicts as one table."""
    try:
        if isinstance(data, (list, tuple, Iterator)) and not is_stream(data):
            data = _frames(data)
        return pa.concat_tables(tables(data, "the frame"), promote_options="permissive")
    except (pa.ArrowException, TypeError) as error:
        raise DataError(f"the frame cannot be read: {' '.join(str(error).split())[:200]}") from None


class EncodedRows(NamedTuple):
    """Rows of a chunk, with their buckets and segments."""

    X: Rows
    y: Labels
    weight: Vector | None
    categories: Codes  # (n, B) in columns with many of them, -1 for none
    start: Counts
    stop: Counts
    segment: Counts


class CellKey(NamedTuple):
    """Key of a cell in memory: start of its bucket, values of its segment, label."""

    start: int
    segment: tuple[str | None, ...]
    label: Any


@dataclass
class PartialCell:
    """A cell in memory: end of its bucket, number of its rows, and their moments."""

    stop: int
    rows: int
    moments: Moments

    def append(self, other: PartialCell) -> None:
        """Append the rows of another cell of the same key."""
        self.moments.append(other.moments)
        self.rows += other.rows
        require_light(self.moments)


class RowGrouper:
    """Rows of a ledger that become moments of its cells."""

    def __init__(self, metadata: LedgerMetadata) -> None:
        self.metadata, self.encoding = metadata, metadata.encoding
        self._guards: Guards | None = None
        self._has_earlier = False
        self._segments = {segment: i for i, segment in enumerate(metadata.segments)}
        self._labels = {label: i for i, label in enumerate(metadata.labels)}
        self._encoded: list[EncodedRows] = []  # rows that are not in their cells yet
        self._kinds: dict[str, str] = {}
        self._is_first = not metadata.labels

    def read(
        self,
        source: Source,
        after: ReadPosition,
        until: int | None = None,
        where: RowFilter | None = None,
    ) -> Iterator[Chunk]:
        """Return the chunks of an input after a position, with the columns of a condition."""
        columns, settings = self.encoding.columns, self.metadata.settings
        kinds = dict.fromkeys(settings.by, "category") | {settings.timestamp: "epoch"}
        self._kinds = columns.read({**columns.explicit_types, **kinds, **self.encoding.kinds})

        def is_needed(name: str) -> bool:
            return columns.is_needed(name) or (where is not None and name in where.values)

        kinds = self._kinds if where is None else where.kinds(self._kinds)
        return source.chunks(CHUNK_ROWS, after, kinds, is_needed, until)

    def add(self, chunk: Chunk, allow_new: bool = True) -> Flags:
        """Encode the rows of a chunk; return which of them have no missing values."""
        settings, before = self.metadata.settings, self.encoding
        roles = {settings.timestamp: "the time"} | dict.fromkeys(settings.by, "a segment")
        for name, role in roles.items():
            if name not in (chunk.offered if chunk.table else chunk.columns):
                raise missing_columns(chunk, [name], f"{role} of each row")
        # before they become categories, of which there may not be many either
        for at, name in enumerate(settings.by):
            values = {segment[at] for segment in self._segments}
            values.update(texts(chunk, name).unique().to_pylist())
            self._require_few(name, values, chunk.source)
        missing = before.missing_columns(chunk)
        if self._guards is not None:
            self._guards.require_whole(chunk, missing)
        encoded, self.encoding = before.learn(chunk, MAX_FEATURES, lenient=True)
        new = None if allow_new else self.encoding.find_new(before)
        if new is not None:
            raise DataError(f"{chunk.source}: feature {new.name!r} was never learned; correct it")
        self._kinds.update(self.encoding.columns.read(self.encoding.kinds))
        if self._guards is not None:
            self._guards.notice_columns(chunk, missing, before, self.encoding, self._has_earlier)
        X, y, weight, kept = encoded.X, encoded.y, encoded.weight, encoded.kept
        index, columns = np.zeros((len(y), 0), np.intp), self.encoding.code_columns
        if columns is not None:
            X, index = columns.split(X)
        if is_sparse(X) and X.shape[1] <= MAX_DENSE_FEATURES:
            X = X.toarray()
        bounds, segment = self._buckets(chunk, kept), self._segment_numbers(chunk, kept)
        self._encoded.append(EncodedRows(X, y, weight, index, *bounds, segment))
        return kept

    @property
    def is_full(self) -> bool:
        """True if the rows fill a batch."""
        rows = sum(len(part.y) for part in self._encoded)
        return rows >= BATCH_ROWS or rows * max(len(self.encoding.features), 1) >= BATCH_VALUES

    def _buckets(self, chunk: Chunk, kept: Flags) -> tuple[Counts, Counts]:
        """Return the start and end of the bucket of each row."""
        settings, dropped = self.metadata.settings, self.metadata.dropped
        name = settings.timestamp
        t = times(chunk, name, kept, self.encoding.columns.time_format)
        is_fine = settings.every in ("minute", "hour")
        if self._is_first and is_fine and len(t) > 1 and not (t % time_buckets.DAY).any():
            raise DataError(
                f"{chunk.source}: column {name!r} contains days without a time of day, and "
                f"buckets of one {settings.every} are finer than that",
                Suggestion("use {}", "every", "day"),
            )
        self._is_first = False
        if dropped is not None and len(t) and t.min() < dropped:
            first, until = time_buckets.text(t.min()), time_buckets.text(dropped)
            raise chunk.error(
                int(np.flatnonzero(kept)[int(t.argmin())]),
                f"{first} in column {name!r} is before {until}, until when everything was dropped; "
                "leave such rows out",
            )
        return time_buckets.bucket_bounds(t, settings.every, self.metadata.coarse)

    def _segment_numbers(self, chunk: Chunk, kept: Flags) -> Counts:
        """Return the numbers of the segments of the rows."""
        codes = np.zeros(chunk.rows, dtype=np.int64)
        values: list[tuple[str | None, ...]] = [()]
        for name in self.metadata.settings.by:
            coded = texts(chunk, name).dictionary_encode()
            own = [*coded.dictionary.to_pylist(), None]
            code = coded.indices.fill_null(len(own) - 1).to_numpy(zero_copy_only=False)
            combined, codes = np.unique(codes * len(own) + code, return_inverse=True)
            values = [(*values[i // len(own)], own[i % len(own)]) for i in combined.tolist()]
        codes = codes[kept]
        numbers = np.zeros(len(values), dtype=np.int64)
        for i in np.unique(codes).tolist():
            numbers[i] = self._segments.setdefault(values[i], len(self._segments))
        result: Counts = numbers[codes]
        return result

    def _require_few(self, name: str, values: set[str | None], source: str) -> None:
        """Raise if a column has more values than segments may be made of."""
        limit = self.metadata.settings.max_values
        if len(values) > limit:
            raise DataError(
                f"{source}: column {name!r} has more than {limit:,} values, each of them a segment",
                Suggestion("make segments of another column", "by"),
                Suggestion("allow more of them", "max_values"),
            )

    def group(
        self, packed: list[StoredCell] | None = None
    ) -> dict[Key, tuple[int, int, Moments, StoredCell | None]]:
        """Return end, rows and moments of the new rows of each cell, and the cell in the file.

        Small cells that are not in the file are added to ``packed``, if it is given, instead.
        """
        parts, self._encoded = [part for part in self._encoded if len(part.y)], []
        if not parts:
            return {}
        d = len(self.encoding.features)
        if not d:
            raise DataError("no column is left to learn from")
        rows, labels, weights, codes_of, *columns = zip(*parts, strict=True)
        start, stop, segment = map(np.concatenate, columns)
        weight = None if weights[0] is None else np.concatenate(weights)
        classes, codes = np.unique(np.concatenate(labels), return_inverse=True)
        numbers = [self._labels.setdefault(one, len(self._labels)) for one in classes.tolist()]
        label = np.array(numbers)[codes]
        order = np.lexsort((label, segment, start))
        keys = np.column_stack([start, segment, label])[order]
        ends = np.flatnonzero((keys[1:] != keys[:-1]).any(axis=1)) + 1
        ends = np.concatenate([[0], ends, [len(order)]])
        X, stop = _concatenate(rows, d)[order], stop[order]
        count = len(self.encoding.vocabularies)
        index = _concatenate([one + 1 for one in codes_of], count)[order].astype(np.intp) - 1
        weight = None if weight is None else weight[order]
        names, result = _array(self._labels), {}
        stored = self._read_stored(int(keys[0, 0]), int(keys[-1, 0]))
        places = [Key(*key) for key in keys[ends[:-1]].tolist()]
        is_packed = np.zeros(len(places), dtype=bool)
        if packed is not None and weight is None and not count and isinstance(X, np.ndarray):
            is_new = [key not in stored for key in places]
            is_packed = (np.diff(ends) <= MAX_PACKED_ROWS) & np.array(is_new)
            some = list(compress(places, is_packed))
            at, bounds = ends[:-1][is_packed], np.diff(ends)[is_packed].cumsum()
            mine = X[np.repeat(is_packed, np.diff(ends))]
            bounds = np.concatenate([[0], bounds])
            packed.extend(StoredCell.pack_groups(some, stop[at].tolist(), mine, bounds))
        for g in np.flatnonzero(~is_packed).tolist():
            key, i, j = places[g], int(ends[g]), int(ends[g + 1])
            own, before, anchor = names[key.label : key.label + 1], stored.get(key), None
            if before is not None:
                anchor = np.zeros(d)
                anchor[: before.d] = np.frombuffer(before.data, count=before.d)
            w = None if weight is None else weight[i:j]
            many = index[i:j] if count else None
            moments = Moments.of_groups(
                X[i:j], [np.arange(j - i)], own, w, anchor=anchor, index=many
            )
            if moments.n[0] > 0:
                require_light(moments)
                result[key] = (int(stop[i]), j - i, moments, before)
        return result

    def _read_stored(self, first: int, last: int) -> dict[Key, StoredCell]:
        """Return the cells of the file whose buckets begin between two times."""
        return {}


def _concatenate(parts: Sequence[Rows], d: int) -> Rows:
    """Return rows as one matrix; the rows read first may have fewer features."""
    if any(is_sparse(part) for part in parts):
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


class PartialAggregator(RowGrouper):
    """Cells in memory of the rows of one partition, whose features were learned before."""

    def __init__(self, metadata: LedgerMetadata) -> None:
        super().__init__(replace(metadata, records=Records()))
        self.cells: dict[CellKey, PartialCell] = {}
        self.dropped = 0  # rows with missing values
        self.content = 0  # hash of the rows, if a column has many categories

    def learn(self, chunk: Chunk) -> None:
        """Learn the rows of a chunk."""
        self.dropped += int((~self.add(chunk)).sum())
        if self.encoding.vocabularies:
            self.content += hash_rows(self._encoded[-1], self.encoding)
        if self.is_full:
            self.flush()

    def flush(self) -> None:
        """Add the rows to their cells."""
        groups = self.group()
        segments, labels = list(self._segments), list(self._labels)
        for key, (stop, rows, moments, _) in groups.items():
            place = CellKey(key.start, segments[key.segment], labels[key.label])
            cell = PartialCell(stop, rows, moments)
            if place in self.cells:
                self.cells[place].append(cell)
            else:
                self.cells[place] = cell


def hash_rows(rows: EncodedRows, encoding: ColumnEncoder) -> int:
    """Return the sum of hashes of rows, by the names of their features and categories."""

    def numbers(texts: Iterable[Any]) -> NDArray[np.uint64]:
        return np.array(
            [xxh3_64_intdigest(repr(one).encode()) | 1 for one in texts], dtype=np.uint64
        )

    labels, label = np.unique(rows.y, return_inverse=True)
    start, at = np.unique(rows.start, return_inverse=True)
    total = 3 * numbers(labels.tolist())[label] + 5 * numbers(start.tolist())[at]
    for (name, one), index in zip(encoding.vocabularies.items(), rows.categories.T, strict=True):
        codes, at = np.unique(index, return_inverse=True)
        values = (one.value(code) for code in codes.tolist())
        total += numbers((name, value) for value in values)[at]
    X = rows.X
    bits = sp.csr_array(X)
    bits = sp.csr_array((bits.data.view(np.uint64), bits.indices, bits.indptr), shape=X.shape)
    total += bits @ numbers(feature.name for feature in encoding.features[: X.shape[1]])
    if rows.weight is not None:
        total += 7 * rows.weight.view(np.uint64)
    total = (total ^ (total >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    return int((total ^ (total >> np.uint64(29))).sum())


def hash_cells(
    cells: Mapping[CellKey, PartialCell], names: list[str], content: int | None = None
) -> str:
    """Return a hash of the rows of cells, independent of their partitions and their order.

    ``content`` is the sum of the hashes of the rows, if a column has many categories.
    """
    order = sorted(range(len(names)), key=names.__getitem__)
    sums = xxh3_128(b"" if content is None else str(content % 2**64).encode())
    for key in sorted(cells, key=lambda one: (one.start, json.dumps(one[1:]))):
        cell = cells[key]
        hashes = cell.moments.row_hashes[0]
        used = [(names[j], hashes[:, 1 + j].tolist()) for j in order if hashes[:, 1 + j].any()]
        values = [*key, cell.stop, cell.rows, hashes[:, 0].tolist(), used]
        sums.update(json.dumps(values).encode())
    return sums.hexdigest()


class CellWriter(RowGrouper):
    """Writer of rows into the cells of a ledger, within a transaction; a ``Learner`` of inputs."""

    window: Window | None = None  # a ledger has no progressive scores

    def __init__(self, file: File, metadata: LedgerMetadata) -> None:
        super().__init__(metadata)
        self.file, self.path, self.records = file, file.path, metadata.records
        self.formerly: dict[str, str] = {}
        self._key, self._record = "", Record()
        self.pending_rows = 0  # rows of the input that are not in their cells yet
        self._is_unsaved = False

    # Learning: a batch is recorded when it is complete, and saved in one transaction

    def chunks(self, source: Source, key: str, after: ReadPosition) -> Iterator[Chunk]:
        """Return the chunks of the next input, after the rows of earlier inputs were saved."""
        self.finish()
        self.save()
        self._key, self._record = key, self.records.get(key, Record())
        self._has_earlier = self.records.has_other_rows(key)
        return self.read(source, after)

    def learn(
        self, chunk: Chunk, key: str, allow_overlap: bool = False, *, needs_scores: bool = False
    ) -> list[ScoredRows]:
        """Learn a chunk, without scores."""
        if not self._record.mark.rows and not self.pending_rows:
            self.records.check_new(chunk, key, allow_overlap)
            self._record = Record(starts=chunk.starts)
        dropped = self._record.dropped + int((~self.add(chunk)).sum())
        self._record = replace(self._record, mark=chunk.mark, dropped=dropped)
        self.pending_rows += chunk.rows
        if self.is_full or chunk.last:
            self.flush()
        return []

    def flush(self) -> None:
        """Add the rows of a batch to their cells, and record them."""
        written = list[StoredCell]()
        with one_thread():  # no bit depends on the number of cores
            for key, (stop, rows, more, stored) in self.group(written).items():
                written.append(self._append(key, PartialCell(stop, rows, more), stored))
        self.file.put_cells(written)
        self.records[self._key] = self._record
        self._is_unsaved |= self.pending_rows > 0
        self.pending_rows = 0

    def finish(self) -> bool:
        """Flush the last rows; return whether there is something to save."""
        if self.pending_rows:
            self.flush()
        return self._is_unsaved

    def save(self) -> None:
        """Commit the cells and records that were written."""
        if self._is_unsaved:
            self.write_metadata()
            self.file.commit()
            self._is_unsaved = False

    def _append(self, key: Key, more: PartialCell, stored: StoredCell | None) -> StoredCell:
        """Return a cell with more rows, as it will be stored."""
        cell = more
        if stored is not None:
            cell = PartialCell(stored.stop, stored.rows, self._moments(stored))
            cell.append(more)
        return StoredCell.pack(key, cell.stop, cell.rows, cell.moments)

    def _read_stored(self, first: int, last: int) -> dict[Key, StoredCell]:
        heads = self.file.heads(first, last).cells
        return {cell.key: cell for cell in self.file.block(heads).cells()}

    def _moments(self, cell: StoredCell) -> Moments:
        label = _array(self._labels)[cell.label : cell.label + 1]
        sizes = [one.size for one in self.encoding.vocabularies.values()]
        return cell.moments(label, len(self.encoding.features), sizes)

    def write_metadata(self) -> None:
        """Write the metadata with the features, labels and segments of the rows."""
        self.metadata.encoding = self.encoding
        self.metadata.labels, self.metadata.segments = list(self._labels), list(self._segments)
        self.metadata.write(self.file)

    # Unlearning

    def subtract(
        self, source: Source, record: Record | None, where: RowFilter | None, watch: Watch
    ) -> list[int]:
        """Read the rows of one input that are to be subtracted; return their indices."""
        result: list[int] = []
        until = None if record is None else record.mark.rows
        for chunk in self.read(source, ReadPosition(), until, where):
            rows = np.arange(chunk.first - 1, chunk.first - 1 + chunk.rows)
            chosen = np.ones(chunk.rows, dtype=bool) if where is None else where.select(chunk)
            if record is not None:
                chosen &= (rows < record.mark.rows) & ~records.contains(record.gone, rows)
            if self.metadata.dropped is not None and chosen.any():
                name, form = self.metadata.settings.timestamp, self.encoding.columns.time_format
                chosen[chosen] = times(chunk, name, chosen, form) >= self.metadata.dropped
            watch(source, chunk.rows)
            if chosen.any():
                kept = self.add(chunk.only(chosen), allow_new=False)
                result += rows[chosen][kept].tolist()
        return result

    def remove(self) -> None:
        """Subtract the rows that were read from their cells."""
        written, removed = [], []
        with one_thread():
            for key, (_, rows, less, stored) in self.group().items():
                if stored is None or stored.rows < rows:
                    learned = 0 if stored is None else stored.rows
                    raise DataError(
                        f"cannot unlearn {rows:,} rows of class {less.labels[0].item()!r} in the "
                        f"bucket of {time_buckets.text(key.start)}: {learned:,} were learned. "
                        "Nothing was unlearned"
                    )
                left = self._difference(stored, less)
                if left.n[0] > 0 and stored.rows > rows:
                    written.append(StoredCell.pack(key, stored.stop, stored.rows - rows, left))
                else:
                    removed.append(key)
        self.file.put_cells(written, removed)

    def _difference(self, stored: StoredCell, less: Moments) -> Moments:
        """Return a cell without some rows, if enough digits are left."""
        try:
            return self._moments(stored).subtract(less)
        except PrecisionError as error:
            if error.feature is None:
                raise DataError(f"{error}. Nothing was unlearned") from None
            name = self.encoding.features[error.feature].name
            raise DataError(precision_error(name)) from None

    # Changes of the ledger, each in one transaction or more

    def learn_all(
        self,
        inputs: list[Input],
        stop: Callable[[], bool],
        watch: Watch,
        allow_overlap: bool,
        allow_new_columns: bool,
    ) -> tuple[dict[str, int], list[Message]]:
        """Learn the new rows of several inputs; return their number for each input, and messages.

        Everything is written after each file and after ``EVERY`` rows, and a frame in one
        transaction. After an error the rows written before stay.
        """
        self._guards = Guards(self.path, allow_new_columns=allow_new_columns)
        are_frames = all(isinstance(source, FrameSource) for source, _ in inputs)

        def after_chunk(source: Source, chunk: Chunk, _: Any) -> None:
            watch(source, chunk.rows)

        with self.file.writing():
            every = math.inf if are_frames else EVERY
            new = learn_inputs(self, inputs, every, stop, after_chunk, allow_overlap)
        for key in list(new)[-1:]:
            new[key] -= self.pending_rows  # of a batch that a signal has interrupted
        return new, list(self._guards.notes.values())

    def learn_cells(
        self,
        cells: Mapping[CellKey, PartialCell],
        encoding: ColumnEncoder,
        dropped: int = 0,
        name: str | None = None,
        row_hash: int | None = None,
    ) -> int:
        """Learn cells of other processes with the features of an encoder; return the new rows.

        ``row_hash`` is the sum of the hashes of the rows, if a column has many categories.
        """
        rows = sum(cell.rows for cell in cells.values())
        content = hash_cells(cells, [feature.name for feature in encoding.features], row_hash)
        if not rows or any(one.mark.hash == content for one in self.records.values()):
            return 0
        name = name or f"frame {content}"
        if name in self.records:
            raise DataError(
                f"{name!r} was learned before, with other rows; give this frame another name"
            )
        self.encoding = encoding
        with self.file.writing():
            written, stored = [], dict[int, dict[Key, StoredCell]]()
            for place, cell in cells.items():
                if place.start not in stored:  # cells come by time: one bucket is in memory
                    stored = {place.start: self._read_stored(place.start, place.start)}
                segment = self._segments.setdefault(place.segment, len(self._segments))
                label = self._labels.setdefault(place.label, len(self._labels))
                key = Key(place.start, segment, label)
                written.append(self._append(key, cell, stored[key.start].get(key)))
            for at, column in enumerate(self.metadata.settings.by):
                self._require_few(column, {segment[at] for segment in self._segments}, name)
            self.file.put_cells(written)
            self.records[name] = Record(ReadPosition(rows + dropped, 0, content), (), dropped)
            self.write_metadata()
        return rows

    def unlearn(self, inputs: list[Input], where: RowFilter | None, watch: Watch) -> dict[str, int]:
        """Subtract rows of inputs, all of them or none; return the number for each input.

        A file must have been learned; a frame need not. Without ``where`` all rows are subtracted,
        and the record is deleted. With ``where`` rows that meet the condition are subtracted, and
        the record contains their numbers. Rows that were unlearned or dropped before do not count.
        """
        result: dict[str, int] = {}
        learned = self.records
        with self.file.writing():
            for source, key in inputs:
                is_known = learned.identify(source, key, self.encoding, self.path) is not None
                if os.path.isfile(source.path) and not is_known:
                    raise DataError(
                        f"{source.name} was never learned, under this or any other name; the "
                        f"learned inputs are {records.format_inputs(learned)}"
                    )
                record = learned[key] if is_known else None
                if record is not None:
                    source.verify(record.mark, self.encoding.columns.is_needed)
                rows = self.subtract(source, record, where, watch)
                result[key] = len(rows)
                if record is not None and where is not None:
                    learned[key] = replace(record, gone=records.add_rows(record.gone, rows))
                elif record is not None:
                    del learned[key]
            self.remove()
            self._drop_categories()
            self.metadata.write(self.file)
        return result

    def _drop_categories(self) -> None:
        """Drop the categories that no cell has; the last ones get their codes."""
        encoding, sizes = self.metadata.encoding, self.metadata.sizes
        if not sizes:
            return
        origin, stay = np.zeros(self.metadata.width), [np.zeros(size, bool) for size in sizes]
        for block in self._all_blocks():
            categories = block.categories(origin, sizes)
            for b, one in enumerate(stay):
                one[categories.parts[b,].code] = True
        if all(one.all() for one in stay):
            return
        codes, vocabularies = [], {}
        for (name, before), one in zip(encoding.vocabularies.items(), stay, strict=True):
            code, values, left = np.arange(len(one)), before.values, int(one.sum())
            last = np.flatnonzero(one[left:]) + left
            code[last] = np.flatnonzero(~one[:left])
            for i, j in zip(last.tolist(), code[last].tolist(), strict=True):
                values[j] = values[i]
            codes.append(code)
            vocabularies[name] = Vocabulary.of(values[:left], 0)
        moved = []
        for block in self._all_blocks():
            parts, cells = block.categories(origin, sizes).parts, block.cells()
            changed = [
                parts[b,].cell[code[parts[b,].code] != parts[b,].code]
                for b, code in enumerate(codes)
            ]
            for i in np.unique(np.concatenate(changed)).tolist():
                moments = self._moments(cells[i])
                assert moments.categories is not None
                for b, code in enumerate(codes):
                    moments.categories = moments.categories.reindex_codes(b, code, len(code))
                moved.append(StoredCell.pack(cells[i].key, cells[i].stop, cells[i].rows, moments))
        self.file.put_cells(moved)
        self.file.erase_deleted()  # such as the list with the names of these categories
        self.encoding = self.metadata.encoding = replace(encoding, vocabularies=vocabularies)

    def _all_blocks(self) -> Iterator[Block]:
        """Yield all cells, some at a time, as this transaction has them."""
        heads = self.file.heads(-(2**62), 2**62).cells
        for label in np.unique(heads["label"]).tolist():
            yield from self.file.blocks(pick(heads, heads["label"] == label))

    def rollup(self, until: int, every: str) -> int:
        """Merge whole coarse buckets before a point in time; return the decrease of cells."""
        end = time_buckets.bucket_of(until, every)[0]
        labels, d, sizes = self.metadata.label_array(), self.metadata.width, self.metadata.sizes
        with self.file.writing():
            heads = self.file.index().cells
            heads = heads[heads["stop"] <= end]
            start = time_buckets.bucket_start(heads["start"].astype(float), every)
            stop = time_buckets.bucket_stop(start, every)
            size = heads["stop"] - heads["start"]
            is_finer = (heads["stop"] <= stop) & (size < stop - start)
            finer = self.file.block(heads[is_finer]).cells()
            bounds = zip(start[is_finer].tolist(), stop[is_finer].tolist(), strict=True)
            target = {
                cell.key: (Key(first, cell.segment, cell.label), last)
                for cell, (first, last) in zip(finer, bounds, strict=True)
            }
            merged: list[StoredCell] = []
            finer.sort(key=lambda cell: (target[cell.key], cell.start))
            for (key, last), group in groupby(finer, key=lambda cell: target[cell.key]):
                own = list(group)
                label = labels[key.label : key.label + 1]
                total = own[0].moments(label, d, sizes)
                for cell in own[1:]:
                    total.append(cell.moments(label, d, sizes))
                merged.append(StoredCell.pack(key, last, sum(cell.rows for cell in own), total))
            self.file.put_cells(merged, [cell.key for cell in finer])
            if finer or (end, every) not in self.metadata.coarse:
                kept = [one for one in self.metadata.coarse if one[1] != every or one[0] > end]
                if not any(one[1] == every for one in kept):
                    kept.append((end, every))
                self.metadata.coarse = kept
                self.metadata.write(self.file)
        self.file.shrink()
        return len(finer) - len(merged)

    def drop(self, until: int) -> int:
        """Drop the cells before a point in time; return their number.

        Records of inputs stay, so that the rows are not learned again.
        """
        with self.file.writing():
            heads = self.file.index().cells
            require_whole(heads["start"], heads["stop"], until, "until")
            old = heads[heads["stop"] <= until]
            self.file.put_cells((), [Key(*key) for key in old[list(Key._fields)].tolist()])
            self._drop_categories()
            before = self.metadata.dropped
            self.metadata.dropped = until if before is None else max(before, until)
            self.metadata.write(self.file)
        self.file.shrink()
        return len(old)
