"""Tables and queries of databases as inputs, read as a file is or in the order of a cursor.

A cursor is a column that only grows. A model records the rows that it has learned in ranges of the
cursor, each with the number of its rows and the sum of their hashes. So a changed past is noticed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from errno import ENOENT
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest, xxh3_128_hexdigest

from counterpoise.arrays import Counts
from counterpoise.errors import DataError, Suggestion, suggest
from counterpoise.readers.byte_source import cannot_read
from counterpoise.readers.chunk import (
    MAX_RANGES,
    Chunk,
    CursorPosition,
    CursorRange,
    ReadPosition,
    drop_remedy,
    require_different,
)
from counterpoise.readers.columnar import STRING, ColumnarSource, ColumnHashes, arrays_of
from counterpoise.readers.database import (
    DATE,
    INTEGER,
    UTC_TIME,
    Session,
    hide_password,
    open_session,
    public_address,
    quote_name,
    split_address,
)

MAX_LISTED_TABLES = 20  # in a message
MAX_SHOWN = 60, 300  # characters of a query and of a reason in messages
CONVERT = Suggestion("convert them to text or numbers with {}", "query")
HALF, MISSING = np.uint64(32), np.uint64(0x9E3779B97F4A7C15)
MIXERS = np.array([0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Hashes = NDArray[np.uint64]


class DatabaseRows(NamedTuple):
    """Rows of a database: of a table or of a query, perhaps in the order of a cursor."""

    table: str | None = None
    query: str | None = None
    cursor: str | None = None
    allow_changed_past: bool = False


class DatabaseSource(ColumnarSource):
    """Rows of a table or of a query, in one transaction.

    Without a cursor the rows before a mark are identified as in a file: read again, in their order.
    """

    is_foreign = True

    def __init__(self, address: str, rows: DatabaseRows) -> None:
        place, (table, query, cursor, allow_changed_past) = public_address(address), rows
        if (table is None) == (query is None):
            problem = "a table and a query cannot be combined" if table else "which rows to read"
            raise DataError(
                f"{place}: {problem}",
                Suggestion("name a table", "table"),
                Suggestion("select rows", "query"),
            )
        query = None if query is None else query.strip().rstrip(";").rstrip()
        kind, text = ("table", table) if query is None else ("query", " ".join(query.split()))
        shown = str(text)[: MAX_SHOWN[0]] + ("..." if len(str(text)) > MAX_SHOWN[0] else "")
        super().__init__(f"{place}?{kind}={query or table}", f"{place}?{kind}={shown}")
        self._address, self._table, self._query = address, table, query
        self._cursor, self._allow_changed_past = cursor, allow_changed_past
        self._kind = INTEGER  # of the cursor
        self._last: int | None = None  # its value in the last row
        self._past: _Past | None = None
        self._wanted: Callable[[str], bool] = lambda name: True

    def chunks(
        self,
        rows: int,
        after: ReadPosition,
        kinds: Mapping[str, str],
        wanted: Callable[[str], bool],
        until: int | None = None,
    ) -> Iterator[Chunk]:
        """Read the rows after a mark."""
        self._wanted, learned = wanted, after.cursor
        if learned is None and self._cursor is not None and after.rows:
            raise DataError(
                f"{self.name} was learned without a cursor", Suggestion("leave {} out", "cursor")
            )
        if learned is not None and self._cursor not in (None, learned.column):
            raise DataError(
                f"{self.name} was learned by the cursor {learned.column!r}",
                Suggestion("use it", "cursor", learned.column),
            )
        if learned is not None:
            self._cursor = learned.column
        self._past = None if self._cursor is None else _Past(learned)
        return super().chunks(rows, after, kinds, wanted, until)

    def verify(self, after: ReadPosition, wanted: Callable[[str], bool]) -> None:
        """Raise if the rows before a mark have changed; later rows do not matter."""
        if after.cursor is not None and not after.cursor.is_as_learned:
            raise DataError(
                f"{self.name}: a change of its learned rows was accepted, so they cannot be read "
                "as they were learned; learn a new model"
            )
        super().verify(after, wanted)

    # The transaction, in the thread that reads

    def _batches(self, wanted: Callable[[str], bool]) -> Iterator[pa.RecordBatch]:
        before, file, _ = split_address(self._address)
        if before != self._address and not os.path.isfile(file):
            raise cannot_read(self.name, FileNotFoundError(ENOENT, os.strerror(ENOENT)))
        with self._reporting(Suggestion("check the address, the server and the password")):
            session = open_session(self._address)
        with closing(session):
            with self._reporting(Suggestion("correct the query, or the rights of the user")):
                relation, table = self._relation(session)
                names = session.names(relation)
                require_different(names, self.name)
                columns = self._select(names, wanted) or names[:1]
                if self._cursor is not None:
                    columns = list(dict.fromkeys([*columns, self._require_cursor(names)]))
                types = dict(zip(columns, session.types(relation, table, columns), strict=True))
                self._require_types(session, types)
            with self._reporting(Suggestion("check the database; the same command continues")):
                for where, order in self._parts(session, relation):
                    yield from session.select(types, relation, where, order)

    def _parts(self, session: Session, relation: str) -> Iterator[tuple[str, str]]:
        """Yield conditions and orders of the rows: those of the past, and new ones."""
        if self._cursor is None:
            yield "", ""
            return
        assert self._past is not None
        column, last = quote_name(self._cursor), self._past.last
        if session.has_rows(relation, f" where {column} is null"):
            raise DataError(
                f"{self.name}: column {self._cursor!r} has rows without a value, which a cursor "
                "cannot have",
                Suggestion("choose another column", "cursor"),
            )
        if last is not None:
            value = _to_sql(last, self._kind)
            yield f" where {column} <= {value}", ""
            yield f" where {column} > {value}", f" order by {column}"
        else:
            yield "", f" order by {column}"

    @contextmanager
    def _reporting(self, advice: Suggestion) -> Iterator[None]:
        """Raise the errors of a driver as errors about the input, without a password."""
        problem = None  # raised without the driver's error, which would keep its objects
        try:
            yield
        except DataError:
            raise
        except Exception as error:
            module = type(error).__module__.partition(".")[0].lstrip("_")
            is_driver = module.startswith("adbc") or module == "duckdb"
            if not is_driver and not isinstance(error, (pa.ArrowException, OSError)):
                raise
            details = dict(getattr(error, "details", None) or ())
            text = details.get(b"PG_DIAG_MESSAGE_PRIMARY", b"").decode(errors="replace")
            for end in ("\n\n", "\nquery: ", "\nLINE "):
                text = text or str(error).partition(end)[0]
            text = hide_password(text, self._address)[: MAX_SHOWN[1]]
            problem = DataError(f"{self.name} cannot be read: {text}", advice)
        if problem is not None:
            raise problem

    def _relation(self, session: Session) -> tuple[str, str | None]:
        """Return the rows as SQL, and the name of the table, which must be in the catalog."""
        if self._query is not None:
            return f"({self._query}\n) as counterpoise_rows", None
        found, wanted = session.tables(), str(self._table)
        names = [name if is_enough else f"{schema}.{name}" for schema, name, is_enough in found]
        full = [f"{schema}.{name}" for schema, name, _ in found]
        for known in (names, full):
            if wanted in known:
                schema, name, _ = found[known.index(wanted)]
                return f"{quote_name(schema)}.{quote_name(name)}", name
        more = len(names) - MAX_LISTED_TABLES
        listed = ", ".join(names[:MAX_LISTED_TABLES]) + (f" and {more:,} more" if more > 0 else "")
        raise DataError(
            f"{public_address(self._address)} has no table {wanted!r} (tables: {listed or 'none'})",
            *(suggest(wanted, names) or [Suggestion("name another", "table")]),
        )

    def _require_cursor(self, names: list[str]) -> str:
        """Return the cursor; raise if it is not a column."""
        assert self._cursor is not None
        if self._cursor not in names:
            raise DataError(
                f"{self.name}: no column {self._cursor!r} (columns: {', '.join(names)})",
                *(suggest(self._cursor, names) or [Suggestion("name another", "cursor")]),
            )
        return self._cursor

    def _require_types(self, session: Session, types: Mapping[str, str]) -> None:
        """Raise if a column has a type that cannot be learned, or that a cursor cannot have."""
        for name, kind in types.items():
            if name == self._cursor:
                if kind not in session.cursors:
                    raise DataError(
                        f"{self.name}: column {name!r} has values of type {kind}; a cursor has "
                        "integers, dates or times",
                        Suggestion("choose another column", "cursor"),
                    )
                self._kind = session.cursors[kind]
            elif kind not in session.casts:
                raise DataError(
                    f"{self.name}, column {name!r}: values of type {kind} cannot be learned",
                    CONVERT,
                    drop_remedy(name),
                )

    # Exactly once, in the thread that learns

    def _skip_past(self, table: pa.Table, after: ReadPosition, hashes: ColumnHashes) -> pa.Table:
        """Return the rows after a mark; raise if those before it have changed."""
        if self._past is None:
            return super()._skip_past(table, after, hashes)
        values = _cursor_values(table[self._cursor])
        if not len(values):
            return table
        if self._past.last is not None and values[0] <= self._past.last:
            self._past.add(values, self._hash_rows(table, values))
            return table.slice(0, 0)
        self._end_past(after)
        before = values[:1] - 1 if self._last is None else np.array([self._last])
        same = np.diff(values, prepend=before) <= 0
        if same.any():
            value = _to_text(int(values[same.argmax()]), self._kind)
            raise DataError(
                f"{self.name}: several rows have {value} in column {self._cursor!r}, and a cursor "
                "has another value in each row",
                Suggestion("choose another column", "cursor"),
            )
        self._last = int(values[-1])
        return table

    def _end_past(self, after: ReadPosition) -> None:
        """Raise if the rows before a mark have changed, unless that is allowed."""
        if self._past is None:
            super()._end_past(after)
        elif not self._past.is_over:
            self._past.is_over, self._last, self._rows = True, self._past.last, after.rows
            changed = self._past.changed_ranges()
            if changed and not self._allow_changed_past:
                raise self._past_changed_error(changed)
            self._past.accept(changed)

    def _past_changed_error(self, changed: list[int]) -> DataError:
        """Return the error about ranges that are not as they were learned."""
        assert self._past is not None
        at, ranges = changed[0], self._past.ranges
        last, rows, _ = ranges[at]
        first = f"after {_to_text(ranges[at - 1].last, self._kind)} and " if at else ""
        more = f", and of {len(changed) - 1} other ranges" if len(changed) > 1 else ""
        return DataError(
            f"{self.name} has changed: {rows:,} rows were learned with {self._cursor!r} {first}up "
            f"to {_to_text(last, self._kind)}, and now they are {self._past.counts[at]:,} rows or "
            f"have other values{more}",
            Suggestion("restore them"),
            Suggestion("accept that the model has learned them as they were", "allow_changed_past"),
        )

    def _chunk(self, table: pa.Table, hashes: ColumnHashes) -> Chunk:
        if self._past is None or self._cursor is None:
            return super()._chunk(table, hashes)
        values = _cursor_values(table[self._cursor])
        self._past.append(values, self._hash_rows(table, values))
        if not self._wanted(self._cursor):
            table = table.drop_columns([self._cursor])
        chunk = super()._chunk(table, hashes)
        mark = self._past.position(self._cursor)
        digest = xxh3_128_hexdigest(repr(mark).encode())
        return replace(chunk, mark=ReadPosition(chunk.mark.rows, 0, digest, cursor=mark))

    def _hash_rows(self, table: pa.Table, values: Counts) -> Hashes:
        """Return a hash of each row (n,), of its cursor and of the columns that are learned."""
        columns = self._select_hashed(arrays_of(table))
        names = sorted(name for name in columns if self._wanted(name))
        total, part = values.view(np.uint64) * MIXERS[0], np.empty(len(values), dtype=np.uint64)
        for name in names:
            bits = _bits(columns[name])
            np.right_shift(bits, HALF, out=part)
            part ^= bits
            part *= np.uint64(xxh3_64_intdigest(name.encode()) | 1)
            total += part
        for mixer in MIXERS:  # as SplitMix64
            total = (total ^ (total >> HALF)) * mixer
        hashes: Hashes = total ^ (total >> HALF)
        return hashes


class _Past:
    """Rows of a table that were learned, by ranges of its cursor, and what is there now."""

    def __init__(self, learned: CursorPosition | None) -> None:
        self.ranges = () if learned is None else learned.ranges
        self.is_as_learned = learned is None or learned.is_as_learned
        self.is_over = False
        self.last = self.ranges[-1].last if self.ranges else None
        self.counts = np.zeros(len(self.ranges), dtype=np.int64)
        self._sums = np.zeros(len(self.ranges), dtype=np.uint64)

    def add(self, values: Counts, hashes: Hashes) -> None:
        """Add rows of the table, with values of the cursor (n,) and hashes (n,), in any order."""
        at = np.searchsorted([one.last for one in self.ranges], values)
        self.counts += np.bincount(at, minlength=len(self.ranges))
        np.add.at(self._sums, at, hashes)

    def changed_ranges(self) -> list[int]:
        """Return which ranges are not as they were learned."""
        return [i for i, one in enumerate(self.ranges) if self._present(i) != one]

    def _present(self, i: int) -> CursorRange:
        """Return a range as it is now."""
        return CursorRange(self.ranges[i].last, int(self.counts[i]), f"{int(self._sums[i]):016x}")

    def accept(self, changed: list[int]) -> None:
        """Replace ranges by what is there now."""
        self.is_as_learned = self.is_as_learned and not changed
        self.ranges = tuple(map(self._present, range(len(self.ranges))))

    def append(self, values: Counts, hashes: Hashes) -> None:
        """Append a range of learned rows, and merge the smallest two neighbors if it is one more.

        The ranges depend on the chunks alone, and not on where a run was interrupted.
        """
        total = int(np.add.reduce(hashes, dtype=np.uint64))
        ranges = [*self.ranges, CursorRange(int(values[-1]), len(values), f"{total:016x}")]
        if len(ranges) > MAX_RANGES:
            i = min(range(MAX_RANGES), key=lambda i: ranges[i].rows + ranges[i + 1].rows)
            (_, rows, one), (last, more, two) = ranges[i : i + 2]
            total = (int(one, 16) + int(two, 16)) % 2**64
            ranges[i : i + 2] = [CursorRange(last, rows + more, f"{total:016x}")]
        self.ranges = tuple(ranges)

    def position(self, column: str) -> CursorPosition:
        """Return the position after these rows."""
        return CursorPosition(column, self.ranges, self.is_as_learned)


def _cursor_values(column: pa.ChunkedArray) -> Counts:
    """Return the values of a cursor as integers (n,): times in microseconds, dates in days."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    elif pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    values: Counts = column.cast(pa.int64()).to_numpy()
    return values


def _to_text(value: int, kind: str) -> str:
    """Return a value of a cursor as text."""
    if kind == INTEGER:
        return f"{value}"
    if kind == DATE:
        return (EPOCH + timedelta(days=value)).date().isoformat()
    return (EPOCH + timedelta(microseconds=value)).replace(tzinfo=None).isoformat(" ")


def _to_sql(value: int, kind: str) -> str:
    """Return a value of a cursor as SQL."""
    zone = "+00" if kind == UTC_TIME else ""
    return f"{value}" if kind == INTEGER else f"{kind} '{_to_text(value, kind)}{zone}'"


def _bits(column: pa.Array) -> Hashes:
    """Return 64 bits for each value of a plain column, (n,)."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), dtype=np.uint64)
    if kind == STRING:
        coded = column.dictionary_encode()
        texts = coded.dictionary.cast(pa.binary()).to_pylist()
        found = np.array([0, *map(xxh3_64_intdigest, texts)], dtype=np.uint64)
        taken: Hashes = found[pc.add(coded.indices, 1).fill_null(0).to_numpy()]
        return taken
    if pa.types.is_temporal(kind):
        column = column.view(f"int{kind.bit_width}")
    filled = column
    if column.null_count:
        filled = column.fill_null(False if pa.types.is_boolean(kind) else 0)
    is_large = pa.types.is_floating(kind) or pa.types.is_uint64(kind)
    values: Hashes = (filled if is_large else filled.cast(pa.int64())).to_numpy().view(np.uint64)
    if column.null_count:
        values = np.where(column.is_null().to_numpy(zero_copy_only=False), MISSING, values)
    return values
