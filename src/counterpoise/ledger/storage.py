"""Ledger file: cells, their columns and records of inputs in one SQLite database.

Everything that belongs together is written in one transaction: a killed process leaves the file as
it was before the transaction or after it. One process writes at a time; its name is in the file.

``cells`` has the data of each cell, and ``totals`` their sums over all segments of a bucket, with
the segment ALL. ``heads`` has the heads of both, bucket by bucket. Three checks detect a change of
the file: the checksum of a cell covers head and data, the digest has the sum of the hashes of all
heads, and a hash of everything else. Every query reads all heads and compares them with the digest,
so that deleted, added and exchanged cells are detected as well.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from operator import lt
from pathlib import Path
from typing import Any

import numpy as np
from xxhash import xxh3_128_hexdigest, xxh3_128_intdigest

from counterpoise.atomic_write import locked, require_file
from counterpoise.errors import BusyError, DataError, Suggestion
from counterpoise.ledger.cells import ALL, HEAD, Block, BucketIndex, Index, Key, Row, heads_of, pick

MAX_COUNT = (1 << 31) - 1  # rows of a table
SUMS = 1 << 128  # hashes of heads are added modulo this


@dataclass
class Contents:
    """Contents of a ledger except the cells: values as JSON has them."""

    meta: dict[str, Any] = field(default_factory=dict)  # settings, columns and counters
    labels: list[Any] = field(default_factory=list)  # values by number
    segments: list[Any] = field(default_factory=list)
    inputs: dict[str, Any] = field(default_factory=dict)  # records of what was learned

    @property
    def hash(self) -> str:
        """Hash of all of it."""
        texts = [
            sorted((name, json.dumps(value)) for name, value in self.meta.items()),
            list(map(json.dumps, self.labels)),
            list(map(json.dumps, self.segments)),
            [(name, json.dumps(value)) for name, value in self.inputs.items()],
        ]
        return xxh3_128_hexdigest(json.dumps(texts).encode())


@dataclass(frozen=True)
class Digest:
    """Digest of a whole ledger."""

    buckets: int = 0  # number of buckets
    heads: int = 0  # sum of the hashes of their heads, modulo 2**128
    counts: tuple[int, int, int] = (0, 0, 0)  # numbers of labels, segments and inputs
    contents: str = ""  # hash of everything except the cells

    @property
    def text(self) -> str:
        """Digest as it is stored."""
        return json.dumps([self.buckets, f"{self.heads:032x}", *self.counts, self.contents])

    @classmethod
    def read(cls, text: str) -> Digest:
        """Return the digest of a text; raise ValueError if it is not one."""
        buckets, heads, labels, segments, inputs, contents = json.loads(text)
        result = cls(int(buckets), int(heads, 16), (labels, segments, inputs), contents)
        counts = (result.buckets, *result.counts)
        if result.text != text or any(type(one) is not int or not 0 <= one < MAX_COUNT
                                      for one in counts):  # fmt: skip
            raise ValueError("its digest is not one")
        return result


def hash_heads(bucket: tuple[int, bytes]) -> int:
    """Return the hash of the heads of a bucket, with its start."""
    return xxh3_128_intdigest(bucket[1], bucket[0] % (1 << 64))


MARK = 0x43504C47  # by which SQLite's header knows a ledger
VERSION = 3
MAPPED = 1 << 30  # bytes of the file that are read without being copied first
SCHEMA = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE labels (id INTEGER PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE segments (id INTEGER PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE inputs (name TEXT PRIMARY KEY, place INTEGER NOT NULL, value TEXT NOT NULL) "
    "WITHOUT ROWID",
    "CREATE TABLE heads (start INTEGER PRIMARY KEY, data BLOB NOT NULL)",
    *(
        f"CREATE TABLE {table} (label INTEGER NOT NULL, start INTEGER NOT NULL, "
        "segment INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (label, start, segment))"
        for table in ("cells", "totals")
    ),
)
BLOCK = 128  # cells that are read at a time: more would not stay in the cache
TIMEOUT = 60  # seconds to wait for another connection
MAX_LISTED_SEGMENTS = 10_000  # segments that a condition of SQL lists
DIGEST = "digest"  # name of the digest in the table meta
UNSEALED = (DIGEST, "writer")  # names in the table meta that the digest does not cover
CONTENTS = (  # a new file has none of these rows
    f"SELECT 1 FROM meta WHERE name NOT IN {UNSEALED} LIMIT 1",
    *(
        f"SELECT 1 FROM {table} LIMIT 1"
        for table in ("labels", "segments", "inputs", "heads", "cells", "totals")
    ),
)


class File:
    """A ledger's file. Nothing is read or written before it is asked for."""

    def __init__(self, path: str) -> None:
        self.path = path
        require_file(path)
        self.new = _size(path) == 0
        self.touched: set[int] = set()  # where buckets begin whose cells a transaction has written
        self._digest = Digest()  # as of the transaction that writes
        self._is_sealed = True
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, ...] = ()
        if not self.new:
            self._require_ours()

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def remove(self) -> None:
        """Remove a file in which nothing was ever written, while others are kept away."""
        self.close()
        for ending in ("-wal", "-shm", ""):
            with suppress(FileNotFoundError):
                os.unlink(self.path + ending)
        self.new = True

    @contextmanager
    def exclusive(self, wait: float) -> Iterator[None]:
        """Keep other writers away; wait for them so many seconds, and then say who it is."""
        end = time.monotonic() + wait
        while True:
            lock = locked(self.path)
            try:
                lock.__enter__()
                break
            except BusyError:
                if time.monotonic() >= end:
                    raise BusyError(
                        f"{self.path} is being written by {self._writer()}; waited {wait:g} "
                        "seconds; try again when it has ended"
                    ) from None
                time.sleep(0.05)
        try:
            self._let_go_of_removed()
            self._make()
            who = f"process {os.getpid()} on {socket.gethostname()}"
            since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            with self.writing():
                self.put("writer", {"who": who, "since": since})
            yield
        finally:
            lock.__exit__(None, None, None)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """All that is written within this, or nothing."""
        with self._told():
            base = self._base()
            base.execute("BEGIN IMMEDIATE")
            self.touched.clear()
            self._is_sealed = True
            try:
                self._digest = self.digest() or Digest()
                yield
                assert self._is_sealed, "cells were written without a digest"
                base.execute("COMMIT")
            except BaseException:
                if base.in_transaction:
                    base.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read one state of the file, independent of other writers."""
        with self._told():
            if self._base().in_transaction:
                yield
                return
            self._let_go_of_removed()
            base = self._base()
            base.execute("BEGIN")
            try:
                yield
            finally:
                if base.in_transaction:
                    base.execute("COMMIT")

    # What is in it

    def digest_text(self) -> str | None:
        """Return the digest as it is stored, which changes with everything; None if there is none.

        It identifies a state of the ledger.
        """
        found = self._base().execute("SELECT value FROM meta WHERE name = ?", (DIGEST,)).fetchone()
        if found is None:
            self._require_empty()
            return None
        if not isinstance(found[0], str):
            raise self.damaged("its digest is not text")
        return str(found[0])

    def _require_empty(self) -> None:
        """Raise if a file without a digest has contents: it is damaged, and not new."""
        for query in CONTENTS:
            if self._base().execute(query).fetchone() is not None:
                raise self.damaged("its digest is missing")

    def digest(self) -> Digest | None:
        """Return the digest of the whole; None of an empty file."""
        text = self.digest_text()
        if text is None:
            return None
        try:
            return Digest.read(text)
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise self.damaged("its digest cannot be read") from None

    def contents(self) -> Contents:
        """Return everything except the cells, if it agrees with the digest."""
        digest = self.digest()
        if digest is None:
            raise self.damaged("it has no digest")
        labels, segments, inputs = digest.counts
        meta = {
            name: value
            for name, value in self._listed("SELECT name, value FROM meta ORDER BY name", 100)
            if name not in UNSEALED
        }
        numbered = []
        for table, count in (("labels", labels), ("segments", segments)):
            rows = self._listed(f"SELECT id, value FROM {table} ORDER BY id", count)
            if [number for number, _ in rows] != list(range(count)):
                raise self.damaged(f"its {table} are not complete")
            numbered.append([value for _, value in rows])
        rows = self._listed("SELECT name, value FROM inputs ORDER BY place", inputs)
        try:
            result = Contents(
                {name: json.loads(text) for name, text in meta.items()},
                [json.loads(text) for text in numbered[0]],
                [json.loads(text) for text in numbered[1]],
                {name: json.loads(text) for name, text in rows},
            )
            is_same = result.hash == digest.contents and len(result.inputs) == inputs
        except (ValueError, TypeError, RecursionError):
            is_same = False
        if not is_same:
            raise self.damaged("its settings, columns, labels, segments or inputs have changed")
        return result

    def put(self, name: str, value: Any) -> None:
        """Write a value of the ledger as a whole."""
        text = json.dumps(value)
        self._base().execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, text))

    def put_contents(self, contents: Contents, labels: int, segments: int) -> None:
        """Write everything except the cells, and the digest; so many labels and segments are old.

        This is the last step of a transaction that writes.
        """
        for name, value in contents.meta.items():
            self.put(name, value)
        self._append("labels", labels, contents.labels[labels:])
        self._append("segments", segments, contents.segments[segments:])
        self.put_inputs(contents.inputs)
        counts = len(contents.labels), len(contents.segments), len(contents.inputs)
        digest = Digest(self._digest.buckets, self._digest.heads, counts, contents.hash)
        self._base().execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (DIGEST, digest.text))
        self._digest, self._is_sealed = digest, True

    def put_inputs(self, inputs: Mapping[str, Any]) -> None:
        """Write what was learned from where."""
        base = self._base()
        base.execute("DELETE FROM inputs")
        rows = [(name, i, json.dumps(value)) for i, (name, value) in enumerate(inputs.items())]
        base.executemany("INSERT INTO inputs VALUES (?, ?, ?)", rows)

    def _append(self, table: str, first: int, values: Sequence[Any]) -> None:
        rows = [(first + i, json.dumps(value)) for i, value in enumerate(values)]
        self._base().executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)

    def _listed(self, query: str, count: int) -> list[Any]:
        """Return all rows of a query; raise if there are more than ``count`` of them."""
        rows = self._base().execute(query).fetchmany(count + 1)
        if len(rows) > count:
            raise self.damaged("a table has more rows than were written")
        return rows

    # Cells

    def index(self) -> Index:
        """Return the heads of all cells and totals, if they agree with the digest."""
        digest = self.digest() or Digest()
        rows = self._listed("SELECT start, data FROM heads ORDER BY start", digest.buckets)
        heads = self._joined(rows)
        if len(rows) != digest.buckets or sum(map(hash_heads, rows)) % SUMS != digest.heads:
            raise self.damaged("the heads of its cells have changed")
        return Index.of(heads)

    def heads(self, first: int, last: int) -> Index:
        """Return the heads of buckets that begin between two times.

        They are not compared with the digest, unlike in :meth:`index`.
        """
        query = "SELECT start, data FROM heads WHERE start BETWEEN ? AND ?"
        return Index.of(self._joined(self._base().execute(query, (first, last)).fetchall()))

    def _joined(self, rows: Sequence[tuple[Any, Any]]) -> BucketIndex:
        """Return the heads of several buckets as one array."""
        for start, data in rows:
            if type(start) is not int or type(data) is not bytes or len(data) % HEAD.itemsize:
                raise self.damaged("the heads of a bucket are incomplete")
        heads = np.frombuffer(b"".join(data for _, data in rows), dtype=HEAD)
        sizes = [len(data) // HEAD.itemsize for _, data in rows]
        if not np.array_equal(heads["start"], np.repeat([start for start, _ in rows], sizes)):
            raise self.damaged("a cell is in another bucket")
        return heads

    def blocks(self, table: str, heads: BucketIndex) -> Iterator[Block]:
        """Yield cells of one class, by time and segment, some at a time; each is verified."""
        keys = list(zip(heads["start"].tolist(), heads["segment"].tolist(), strict=True))
        if not keys:
            return
        where = "label = ? AND start BETWEEN ? AND ?"
        segments = np.unique(heads["segment"]).tolist()
        if len(segments) <= MAX_LISTED_SEGMENTS:
            where += f" AND segment IN ({', '.join(map(str, segments))})"
        query = f"SELECT start, segment, data FROM {table} WHERE {where} ORDER BY start, segment"
        found = self._base().execute(query, (int(heads["label"][0]), keys[0][0], keys[-1][0]))
        i, before = 0, (-np.inf, -np.inf)
        while i < len(keys):
            rows = found.fetchmany(BLOCK)
            mine = [(start, segment) for start, segment, _ in rows]
            data = [value for _, _, value in rows]
            try:
                is_sorted = all(map(lt, [before, *mine], mine))
            except TypeError:
                is_sorted = False
            if not (rows and is_sorted):
                raise self.damaged("a cell is missing")
            before = mine[-1]
            if mine != keys[i : i + len(mine)]:  # others lie between them
                wanted = set(keys[i : i + len(mine)])
                data = [value for key, value in zip(mine, data, strict=True) if key in wanted]
                mine = [key for key in mine if key in wanted]
                if mine != keys[i : i + len(mine)]:
                    raise self.damaged("a cell is missing")
            if mine:
                yield self._verified(Block(heads[i : i + len(mine)], data))
                i += len(mine)

    def block(self, table: str, heads: BucketIndex) -> Block:
        """Return cells in the order of the index; each is verified."""
        parts = []
        for label in np.unique(heads["label"]).tolist():
            parts += list(self.blocks(table, pick(heads, heads["label"] == label)))
        whole = np.concatenate([part.heads for part in parts]) if parts else heads
        return Block(whole, [data for part in parts for data in part.data])

    def cell(self, key: Key) -> Row | None:
        """Return one cell, if it exists."""
        heads = self.heads(key.start, key.start).cells
        mine = heads[(heads["segment"] == key.segment) & (heads["label"] == key.label)]
        return next(iter(self.block("cells", mine).rows()), None)

    def _verified(self, block: Block) -> Block:
        if set(map(type, block.data)) != {bytes} or not block.is_intact:
            raise self.damaged("a cell is not as it was written")
        return block

    def size(self) -> int:
        """Return the bytes of the file."""
        base = self._base()
        pages, size = (base.execute(f"PRAGMA page_{x}").fetchone()[0] for x in ("count", "size"))
        return int(pages * size)

    def put_cells(self, rows: Sequence[Row]) -> None:
        """Write cells."""
        self.touched.update(row.start for row in rows)
        self._put("cells", rows)

    def remove_cells(self, keys: Sequence[Key]) -> None:
        """Remove cells."""
        self.touched.update(key.start for key in keys)
        self._put("cells", (), keys)

    def put_totals(self, start: int, rows: Sequence[Row]) -> None:
        """Write the totals of a bucket, in place of those that it has."""
        old = self.heads(start, start).totals
        keys = [Key(start, ALL, label) for label in old["label"].tolist()]
        self._put("totals", rows, keys)

    def _put(self, table: str, rows: Sequence[Row], gone: Sequence[Key] = ()) -> None:
        """Remove cells, and then write others, each with its head."""
        base = self._base()
        query = f"DELETE FROM {table} WHERE label = ? AND start = ? AND segment = ?"
        base.executemany(query, [(key.label, key.start, key.segment) for key in gone])
        query = f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?, ?)"
        base.executemany(query, [(row.label, row.start, row.segment, row.data) for row in rows])
        changes: list[tuple[int, int, int, Row | None]] = [(*key, None) for key in gone]
        changes += [(*row.key, row) for row in rows]
        changes.sort(key=lambda change: change[0])  # what is removed stays before what is written
        for start, mine in groupby(changes, key=lambda change: change[0]):
            self._put_heads(start, {change[1:3]: change[3] for change in mine})

    def _put_heads(self, start: int, changes: Mapping[tuple[int, int], Row | None]) -> None:
        """Change the heads of a bucket, by segment and class, and the digest with them."""
        base, digest = self._base(), self._digest
        old = base.execute("SELECT start, data FROM heads WHERE start = ?", (start,)).fetchall()
        known: dict[tuple[int, int], Any] = {
            (head[2], head[3]): head for head in self._joined(old).tolist()
        }
        known.update(changes)
        heads = heads_of([known[key] for key in sorted(known) if known[key] is not None])
        new = [(start, heads.tobytes())] if len(heads) else []
        base.execute("DELETE FROM heads WHERE start = ?", (start,))
        base.executemany("INSERT INTO heads VALUES (?, ?)", new)
        total = digest.heads - sum(map(hash_heads, old)) + sum(map(hash_heads, new))
        buckets = digest.buckets - len(old) + len(new)
        self._digest = Digest(buckets, total % SUMS, digest.counts, digest.contents)
        self._is_sealed = False

    def check(self) -> None:
        """Raise unless SQLite finds every page, table and index in order, and no other cell."""
        found = self._base().execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise self.damaged(str(found))
        index = self.index()
        for table, heads in (("cells", index.cells), ("totals", index.totals)):
            count = self._base().execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]
            if count != len(heads):
                raise self.damaged(f"its {table} have {count:,} rows; their heads {len(heads):,}")

    def shrink(self) -> None:
        """Give room that is free back to the disk."""
        with self._told():
            self._base().execute("VACUUM")

    def checkpoint(self) -> None:
        """Move what was written from the log into the file, unless a query reads."""
        with self._told():
            base = self._base()
            base.execute("PRAGMA busy_timeout = 0")
            base.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            base.execute(f"PRAGMA busy_timeout = {1000 * TIMEOUT}")

    # Inside

    def _base(self, new: bool = False) -> sqlite3.Connection:
        """The connection. Only who keeps others away may make a new file."""
        if self._connection is None:
            self._identity = identity(self.path)
            where = f"{Path(self.path).absolute().as_uri()}?mode={'rwc' if new else 'rw'}"
            self._connection = sqlite3.connect(
                where, timeout=TIMEOUT, isolation_level=None, check_same_thread=False, uri=True
            )
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute(f"PRAGMA mmap_size = {MAPPED}")
            self._connection.execute("PRAGMA trusted_schema = OFF")
            self._connection.execute("PRAGMA cell_size_check = ON")
            if new:
                self._identity = identity(self.path)
        return self._connection

    def _let_go_of_removed(self) -> None:
        """Let go of a file that whoever had begun it has removed."""
        if not self._identity or self._identity != identity(self.path):
            self.close()

    def _make(self) -> None:
        """Make an empty ledger, unless somebody has done so meanwhile."""
        with self._told():
            base = self._base(new=True)
            if base.execute("PRAGMA application_id").fetchone()[0] == MARK:
                self.new = False
                return
            base.execute("PRAGMA journal_mode = WAL")
            base.execute("BEGIN IMMEDIATE")
            for table in SCHEMA:
                base.execute(table)
            base.execute(f"PRAGMA application_id = {MARK}")
            base.execute(f"PRAGMA user_version = {VERSION}")
            base.execute("COMMIT")
            self.new = False

    def _require_ours(self) -> None:
        with self.reading():  # in one transaction: another process may be creating it
            base = self._base()
            mark = base.execute("PRAGMA application_id").fetchone()[0]
            version = base.execute("PRAGMA user_version").fetchone()[0]
            schema = base.execute(OBJECTS).fetchmany(len(_schema()) + 1)
        if mark != MARK and not schema:  # killed while it was made
            self.new = True
        elif mark != MARK:
            raise DataError(f"{self.path} is not a ledger; name another file")
        elif version != VERSION:
            raise DataError(
                f"{self.path} is a ledger of version {version}; this program reads version "
                f"{VERSION}; use the program that wrote it"
            )
        elif schema != _schema():
            raise self.damaged("its tables are not those of a ledger")

    def _writer(self) -> str:
        query = "SELECT value FROM meta WHERE name = 'writer'"
        try:
            with self.reading():
                found = json.loads(self._base().execute(query).fetchone()[0])
            return f"{found['who']} since {found['since']}"
        except (sqlite3.Error, OSError, ValueError, TypeError, KeyError, RecursionError):
            return "another process"

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Raise errors of SQLite as errors of this package."""
        try:
            yield
        except sqlite3.Error as error:
            name, text = getattr(error, "sqlite_errorname", ""), str(error)
            if name.startswith("SQLITE_FULL"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path) from None
            if name.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN")):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), self.path) from None
            if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                raise BusyError(
                    f"{self.path} is being written by {self._writer()}; try again when it has ended"
                ) from None
            if name.startswith("SQLITE_NOMEM"):
                raise MemoryError from None
            if name.startswith("SQLITE_IOERR"):
                raise OSError(errno.EIO, text, self.path) from None
            raise self.damaged(text) from None
        except UnicodeDecodeError:  # in a message of SQLite, which quotes the file
            raise self.damaged("a name in it is not text") from None

    def damaged(self, why: str) -> DataError:
        """Return the error of a file that is not as it was written."""
        return DataError(
            f"{self.path} is not a ledger, or is damaged ({why})",
            Suggestion("restore it from a copy, or learn the files again"),
        )


OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"


@cache
def _schema() -> list[tuple[str, str, str, str | None]]:
    """Return the objects that a ledger has, as SQLite lists them."""
    base = sqlite3.connect(":memory:")
    for table in SCHEMA:
        base.execute(table)
    found = base.execute(OBJECTS).fetchall()
    base.close()
    return found


def _size(path: str) -> int:
    """Return the bytes of a file; 0 if it does not exist."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def identity(path: str) -> tuple[int, ...]:
    """Return the identity of the file of a name; nothing if it does not exist."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return ()
    return found.st_dev, found.st_ino
