"""Ledger file: cells, their columns and records of inputs in one SQLite database.

Everything that belongs together is written in one transaction: a killed process leaves the file as
it was before the transaction or after it. One process writes at a time; its name is in the file.

The table ``cells`` has the data of each cell, and of the totals over all segments of each bucket,
which have the segment ALL. The table ``heads`` has the heads of both, one row for each bucket.
Three checks detect a change of the file: the checksum of a cell covers head and data, the digest
has the sum of the hashes of all heads, and a hash of everything else. Every query reads all heads
and compares them with the digest, which detects deleted, added and exchanged cells as well.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from xxhash import xxh3_128_hexdigest, xxh3_128_intdigest

from counterpoise.arrays import Labels, one_thread
from counterpoise.atomic_write import lock_file, require_file
from counterpoise.errors import BusyError, DataError, Suggestion
from counterpoise.ledger.cells import (
    ALL,
    HEAD,
    Block,
    BucketIndex,
    Index,
    Key,
    StoredCell,
    heads_of,
    pick,
    sum_bucket,
)

MAX_BUCKETS = (1 << 31) - 1
MAX_VALUES = 100  # of the table meta
SUMS = 1 << 128  # hashes of heads are added modulo this


@dataclass(frozen=True)
class Digest:
    """Digest of a ledger, which changes with everything in it."""

    buckets: int = 0  # number of buckets
    heads: int = 0  # sum of the hashes of their heads, modulo 2**128
    values: str = ""  # hash of everything except the cells

    @property
    def text(self) -> str:
        """Digest as it is stored."""
        return json.dumps([self.buckets, f"{self.heads:032x}", self.values])

    @classmethod
    def read(cls, text: str) -> Digest:
        """Return the digest of a text; raise ValueError if it is not one."""
        buckets, heads, values = json.loads(text)
        result = cls(buckets, int(heads, 16), values)
        if result.text != text or type(buckets) is not int or not 0 <= buckets < MAX_BUCKETS:
            raise ValueError("its digest is not one")
        return result


def hash_values(values: Mapping[str, str]) -> str:
    """Return the hash of JSON texts by name."""
    return xxh3_128_hexdigest(json.dumps(sorted(values.items())).encode())


def hash_heads(bucket: tuple[int, bytes]) -> int:
    """Return the hash of the heads of a bucket, with its start."""
    return xxh3_128_intdigest(bucket[1], bucket[0] % (1 << 64))


APPLICATION_ID = 0x43504C47  # of a ledger, in the header of SQLite
VERSION = 4
PAGE_BYTES = 1 << 14  # of the file: a page has several cells, and fewer pages are written
MAPPED_BYTES = 1 << 30  # of the file that are read without being copied first
PRAGMAS = (
    "synchronous = FULL",
    f"mmap_size = {MAPPED_BYTES}",
    "trusted_schema = OFF",
    "cell_size_check = ON",
)
SCHEMA = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE heads (start INTEGER PRIMARY KEY, data BLOB NOT NULL)",
    "CREATE TABLE cells (label INTEGER NOT NULL, start INTEGER NOT NULL, segment INTEGER NOT NULL, "
    "data BLOB NOT NULL, PRIMARY KEY (label, start, segment))",
)
ERROR_NUMBERS = {  # of the system, by the beginning of the name of an error of SQLite
    errno.ENOSPC: ("SQLITE_FULL",),
    errno.EACCES: ("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN"),
    errno.EIO: ("SQLITE_IOERR",),
}
BLOCK = 128  # cells that are read at a time: more would not stay in the cache
TIMEOUT = 60  # seconds to wait for another connection
MAX_LISTED_SEGMENTS = 10_000  # segments that a condition of SQL lists
DIGEST = "digest"  # name of the digest in the table meta
UNSEALED = (DIGEST, "writer")  # names in the table meta that the digest does not cover
CONTENTS = (  # a new file has none of these rows
    f"SELECT 1 FROM meta WHERE name NOT IN {UNSEALED} LIMIT 1",
    *(f"SELECT 1 FROM {table} LIMIT 1" for table in ("heads", "cells")),
)


class File:
    """File of a ledger."""

    def __init__(self, path: str) -> None:
        self.path = path
        require_file(path)
        self.new = not (os.path.exists(path) and os.path.getsize(path))
        self._touched: set[int] = set()  # starts of buckets whose cells a transaction has written
        self._digest = Digest()  # as of the transaction that writes
        self._is_sealed = True
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, ...] = ()
        if not self.new:
            self._require_ours()

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def remove(self) -> None:
        """Remove a file in which nothing was ever written, while other writers are locked out."""
        self.close()
        for ending in ("-wal", "-shm", ""):
            with suppress(FileNotFoundError):
                os.unlink(self.path + ending)
        self.new = True

    @contextmanager
    def exclusive(self, wait: float) -> Iterator[None]:
        """Lock out other writers; wait this many seconds for them before an error names them."""
        with ExitStack() as stack:
            try:
                stack.enter_context(lock_file(self.path, wait))
            except BusyError:
                raise BusyError(
                    f"{self.path} is being written by {self._writer()}; waited {wait:g} seconds; "
                    "try again when it has ended"
                ) from None
            self._close_if_removed()
            self._make()
            who = f"process {os.getpid()} on {socket.gethostname()}"
            since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            with self.writing():
                self.put("writer", json.dumps({"who": who, "since": since}))
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write everything within this, or nothing since the last :meth:`commit`."""
        with self._translate_errors():
            base = self._base()
            self._begin()
            try:
                yield
                self.commit(is_last=True)
            except BaseException:
                if base.in_transaction:
                    base.execute("ROLLBACK")
                raise

    def _begin(self) -> None:
        self._base().execute("BEGIN IMMEDIATE")
        self._touched.clear()
        self._is_sealed = True
        self._digest = self.digest() or Digest()

    def commit(self, is_last: bool = False) -> None:
        """Commit the changes within :meth:`writing`, and begin the next ones."""
        assert self._is_sealed, "cells were written without a digest"
        self._base().execute("COMMIT")
        if not is_last:
            self._begin()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read one state of the file, independent of other writers."""
        with self._translate_errors():
            if self._base().in_transaction:
                yield
                return
            self._close_if_removed()
            base = self._base()
            base.execute("BEGIN")
            try:
                yield
            finally:
                if base.in_transaction:
                    base.execute("COMMIT")

    # What is in it

    def digest(self) -> Digest | None:
        """Return the digest, which identifies a state of the ledger; None of an empty file."""
        row = self._base().execute("SELECT value FROM meta WHERE name = ?", (DIGEST,)).fetchone()
        if row is None:
            if any(self._base().execute(query).fetchone() is not None for query in CONTENTS):
                raise self.damage_error("its digest is missing")
            return None
        try:
            return Digest.read(row[0])
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise self.damage_error("its digest cannot be read") from None

    def is_empty(self) -> bool:
        """Return whether nothing was ever written into the file."""
        with self.reading():
            return self.digest() is None

    def values(self) -> dict[str, Any]:
        """Return everything except the cells, if it agrees with the digest."""
        digest = self.digest()
        if digest is None:
            raise self.damage_error("it has no digest")
        rows = self._rows("SELECT name, value FROM meta ORDER BY name", MAX_VALUES)
        try:
            texts = {name: text for name, text in rows if name not in UNSEALED}
            if hash_values(texts) == digest.values:
                return {name: json.loads(text) for name, text in texts.items()}
        except (ValueError, TypeError, RecursionError):
            pass
        raise self.damage_error("its settings, columns, labels, segments or inputs have changed")

    def put(self, name: str, text: str) -> None:
        """Write a value of the ledger as a whole, as JSON."""
        self._base().execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, text))

    def put_values(self, values: Mapping[str, Any]) -> None:
        """Write everything except the cells, and the digest, as the last step of a transaction."""
        texts = {name: json.dumps(value) for name, value in values.items()}
        self._digest = replace(self._digest, values=hash_values(texts))
        for name, text in (*texts.items(), (DIGEST, self._digest.text)):
            self.put(name, text)
        self._is_sealed = True

    def _rows(self, query: str, count: int) -> list[Any]:
        """Return all rows of a query; raise if there are more than ``count`` of them."""
        rows = self._base().execute(query).fetchmany(count + 1)
        if len(rows) > count:
            raise self.damage_error("a table has more rows than were written")
        return rows

    # Cells

    def index(self) -> Index:
        """Return the heads of all cells and totals, if they agree with the digest."""
        digest = self.digest() or Digest()
        rows = self._rows("SELECT start, data FROM heads ORDER BY start", digest.buckets)
        heads = self._join_heads(rows)
        if len(rows) != digest.buckets or sum(map(hash_heads, rows)) % SUMS != digest.heads:
            raise self.damage_error("the heads of its cells have changed")
        return Index.of(heads)

    def heads(self, first: int, last: int) -> Index:
        """Return the heads of buckets that begin between two times.

        They are not compared with the digest, unlike in :meth:`index`.
        """
        query = "SELECT start, data FROM heads WHERE start BETWEEN ? AND ?"
        return Index.of(self._join_heads(self._base().execute(query, (first, last)).fetchall()))

    def _join_heads(self, rows: Sequence[tuple[Any, Any]]) -> BucketIndex:
        """Return the heads of several buckets as one array."""
        for start, data in rows:
            if type(start) is not int or type(data) is not bytes or len(data) % HEAD.itemsize:
                raise self.damage_error("the heads of a bucket are incomplete")
        heads = np.frombuffer(b"".join(data for _, data in rows), dtype=HEAD)
        sizes = [len(data) // HEAD.itemsize for _, data in rows]
        if not np.array_equal(heads["start"], np.repeat([start for start, _ in rows], sizes)):
            raise self.damage_error("a cell is in another bucket")
        return heads

    def blocks(self, heads: BucketIndex) -> Iterator[Block]:
        """Yield cells of one class, by time and segment, some at a time; each is verified."""
        keys = list(zip(heads["start"].tolist(), heads["segment"].tolist(), strict=True))
        if not keys:
            return
        where = "label = ? AND start BETWEEN ? AND ?"
        segments = np.unique(heads["segment"]).tolist()
        if len(segments) <= MAX_LISTED_SEGMENTS:
            where += f" AND segment IN ({', '.join(map(str, segments))})"
        query = f"SELECT start, segment, data FROM cells WHERE {where} ORDER BY start, segment"
        cursor = self._base().execute(query, (int(heads["label"][0]), keys[0][0], keys[-1][0]))
        i = 0
        while i < len(keys):
            batch = cursor.fetchmany(BLOCK)
            wanted = set(keys[i : i + len(batch)])
            rows = [row for row in batch if row[:2] in wanted]
            if not batch or [row[:2] for row in rows] != keys[i : i + len(rows)]:
                raise self.damage_error("a cell is missing")
            if rows:
                block = Block(heads[i : i + len(rows)], [row[2] for row in rows])
                if set(map(type, block.data)) != {bytes} or not block.is_intact():
                    raise self.damage_error("a cell is not as it was written")
                yield block
                i += len(rows)

    def block(self, heads: BucketIndex) -> Block:
        """Return cells in the order of the index; each is verified."""
        parts = []
        for label in np.unique(heads["label"]).tolist():
            parts += list(self.blocks(pick(heads, heads["label"] == label)))
        whole = np.concatenate([part.heads for part in parts]) if parts else heads
        return Block(whole, [data for part in parts for data in part.data])

    def size(self) -> int:
        """Return the bytes of the file."""
        base = self._base()
        pages, size = (base.execute(f"PRAGMA page_{x}").fetchone()[0] for x in ("count", "size"))
        return int(pages * size)

    def put_cells(self, cells: Sequence[StoredCell], removed: Sequence[Key] = ()) -> None:
        """Remove cells, and then write others, each with its head."""
        base = self._base()
        query = "DELETE FROM cells WHERE label = ? AND start = ? AND segment = ?"
        base.executemany(query, [(key.label, key.start, key.segment) for key in removed])
        query = "INSERT OR REPLACE INTO cells VALUES (?, ?, ?, ?)"
        base.executemany(query, [(one.label, one.start, one.segment, one.data) for one in cells])
        changes: dict[int, dict[tuple[int, int], StoredCell | None]] = {}
        for key in removed:
            changes.setdefault(key.start, {})[key.segment, key.label] = None
        for one in cells:
            changes.setdefault(one.start, {})[one.segment, one.label] = one
        for start in sorted(changes):
            self._put_heads(start, changes[start])
        self._touched.update(changes)

    def put_totals(self, labels: Labels, d: int, sizes: Sequence[int]) -> None:
        """Replace the totals of the buckets whose cells the transaction has written."""
        with one_thread():
            for start in sorted(self._touched):
                old = self.heads(start, start)
                totals = list(sum_bucket(self.block(old.cells), labels, d, sizes))
                keys = [Key(start, ALL, label) for label in old.totals["label"].tolist()]
                self.put_cells(totals, keys)
        self._touched.clear()

    def _put_heads(self, start: int, changes: Mapping[tuple[int, int], StoredCell | None]) -> None:
        """Change the heads of a bucket, by segment and class, and the digest with them."""
        base, digest = self._base(), self._digest
        old = base.execute("SELECT start, data FROM heads WHERE start = ?", (start,)).fetchall()
        found: dict[Any, Any] = {
            (head[2], head[3]): head for head in self._join_heads(old).tolist()
        }
        found.update(changes)
        heads = heads_of([found[key] for key in sorted(found) if found[key] is not None])
        new = [(start, heads.tobytes())] if len(heads) else []
        base.execute("DELETE FROM heads WHERE start = ?", (start,))
        base.executemany("INSERT INTO heads VALUES (?, ?)", new)
        total = digest.heads - sum(map(hash_heads, old)) + sum(map(hash_heads, new))
        buckets = digest.buckets - len(old) + len(new)
        self._digest = replace(digest, buckets=buckets, heads=total % SUMS)
        self._is_sealed = False

    def check(self) -> None:
        """Raise unless SQLite finds every page, table and index in order, and no other cell."""
        found = self._base().execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise self.damage_error(str(found))
        index = self.index()
        count = self._base().execute("SELECT COUNT(*) FROM cells").fetchone()[0]
        heads = len(index.cells) + len(index.totals)
        if count != heads:
            raise self.damage_error(
                f"it has {count:,} cells and totals, and {heads:,} heads of them"
            )

    def erase_deleted(self) -> None:
        """Overwrite what this connection deletes from now on."""
        self._base().execute("PRAGMA secure_delete = ON")

    def shrink(self) -> None:
        """Return unused space to the disk."""
        with self._translate_errors():
            self._base().execute("VACUUM")

    def checkpoint(self) -> None:
        """Move what was written from the log into the file, unless a query reads."""
        with self._translate_errors():
            base = self._base()
            base.execute("PRAGMA busy_timeout = 0")
            base.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            base.execute(f"PRAGMA busy_timeout = {1000 * TIMEOUT}")

    # Inside

    def _base(self, new: bool = False) -> sqlite3.Connection:
        """Return the connection; a new file may be created by the process that has the lock."""
        if self._connection is None:
            self._identity = identity(self.path)
            where = f"{Path(self.path).absolute().as_uri()}?mode={'rwc' if new else 'rw'}"
            self._connection = sqlite3.connect(
                where, timeout=TIMEOUT, isolation_level=None, check_same_thread=False, uri=True
            )
            for pragma in PRAGMAS:
                self._connection.execute(f"PRAGMA {pragma}")
            if new:
                self._identity = identity(self.path)
        return self._connection

    def _close_if_removed(self) -> None:
        """Close a file that the process that created it has removed."""
        if not self._identity or self._identity != identity(self.path):
            self.close()

    def _make(self) -> None:
        """Create an empty ledger, unless another process has done so meanwhile."""
        with self._translate_errors():
            base = self._base(new=True)
            if base.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
                base.execute(f"PRAGMA page_size = {PAGE_BYTES}")
                base.execute("PRAGMA journal_mode = WAL")
                pragmas = (f"application_id = {APPLICATION_ID}", f"user_version = {VERSION}")
                created = (*SCHEMA, *(f"PRAGMA {pragma}" for pragma in pragmas))
                for statement in ("BEGIN IMMEDIATE", *created, "COMMIT"):
                    base.execute(statement)
            self.new = False

    def _require_ours(self) -> None:
        with self.reading():  # in one transaction: another process may be creating it
            base = self._base()
            application = base.execute("PRAGMA application_id").fetchone()[0]
            version = base.execute("PRAGMA user_version").fetchone()[0]
            schema = base.execute(OBJECTS).fetchmany(len(_schema()) + 1)
        if application != APPLICATION_ID and not schema:  # killed while it was created
            self.new = True
        elif application != APPLICATION_ID:
            raise DataError(f"{self.path} is not a ledger; name another file")
        elif version != VERSION:
            raise DataError(
                f"{self.path} is a ledger of version {version}; this program reads version "
                f"{VERSION}; use the program that wrote it"
            )
        elif schema != _schema():
            raise self.damage_error("its tables are not those of a ledger")

    def _writer(self) -> str:
        query = "SELECT value FROM meta WHERE name = 'writer'"
        try:
            with self.reading():
                found = json.loads(self._base().execute(query).fetchone()[0])
            return f"{found['who']} since {found['since']}"
        except (sqlite3.Error, OSError, ValueError, TypeError, KeyError, RecursionError):
            return "another process"

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise errors of SQLite as errors of this package."""
        try:
            yield
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            for code, names in ERROR_NUMBERS.items():
                if name.startswith(names):
                    raise OSError(code, os.strerror(code), self.path) from None
            if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                raise BusyError(
                    f"{self.path} is being written by {self._writer()}; try again when it has ended"
                ) from None
            if name.startswith("SQLITE_NOMEM"):
                raise MemoryError from None
            raise self.damage_error(str(error)) from None
        except UnicodeDecodeError:  # in a message of SQLite, which quotes the file
            raise self.damage_error("a name in it is not text") from None

    def damage_error(self, why: str) -> DataError:
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


def identity(path: str) -> tuple[int, ...]:
    """Return the identity of the file of a name; nothing if it does not exist."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return ()
    return found.st_dev, found.st_ino
