"""The file: cells, their columns, and what was learned from where, in one SQLite database.

Everything that belongs together is written in one transaction, so that whoever is killed leaves the
file before it or after it. Each cell has a checksum. One process writes at a time; it says so in
the file, for those who wait.

Two tables have the same columns: the cells, and their totals over all segments of a bucket, which
have the segment ALL.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from counterpoise.errors import DataError, Remedy
from counterpoise.jobs.lock import BusyError, locked, require_file
from counterpoise.ledger.cells import Block, Key, Row

MARK = 0x43504C47  # by which SQLite's header knows a ledger
VERSION = 2
MAPPED = 1 << 30  # bytes of the file that are read without being copied first
SCHEMA = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE labels (id INTEGER PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE segments (id INTEGER PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE inputs (name TEXT PRIMARY KEY, place INTEGER NOT NULL, value TEXT NOT NULL)",
    *(
        f"CREATE TABLE {table} (start INTEGER NOT NULL, stop INTEGER NOT NULL, "
        "segment INTEGER NOT NULL, label INTEGER NOT NULL, rows INTEGER NOT NULL, n REAL NOT NULL, "
        "rest REAL NOT NULL, lightest REAL NOT NULL, d INTEGER NOT NULL, "
        "removed INTEGER NOT NULL, digest BLOB NOT NULL, data BLOB NOT NULL, "
        "PRIMARY KEY (start, segment, label))"
        for table in ("cells", "totals")
    ),
    *(
        f"CREATE INDEX {table}_heads ON {table} (label, start, segment, stop, rows, d, n)"
        for table in ("cells", "totals")
    ),
)
BLOCK = 128  # cells that are read at a time: more would not stay in the cache
FIELDS = "start, stop, segment, label, rows, n, rest, lightest, d, removed, digest, data"
SUMMED = "start, n, lightest, d, removed, digest, data"
DAMAGED = ("malformed", "not a database", "file is encrypted", "corrupt")


class File:
    """A ledger's file. Nothing is read or written before it is asked for."""

    def __init__(self, path: str) -> None:
        self.path = path
        require_file(path)
        self.new = _size(path) == 0
        self.touched: set[int] = set()  # where buckets begin whose cells a transaction has written
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
    def alone(self, wait: float) -> Iterator[None]:
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
            try:
                yield
                base.execute("COMMIT")
            except BaseException:
                if base.in_transaction:
                    base.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One state of the file, whoever writes meanwhile."""
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

    def get(self, name: str) -> Any:
        """A value of the ledger as a whole; None if it has none."""
        found = self._base().execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if found is None else json.loads(found[0])

    def put(self, name: str, value: Any) -> None:
        """Write a value of the ledger as a whole."""
        text = json.dumps(value)
        self._base().execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, text))

    def values(self, table: str) -> list[Any]:
        """All labels, or all segments, in the order of their numbers."""
        rows = self._base().execute(f"SELECT id, value FROM {table} ORDER BY id").fetchall()
        if [number for number, _ in rows] != list(range(len(rows))):
            raise self._damaged(f"its {table} are not numbered")
        return [json.loads(value) for _, value in rows]

    def append(self, table: str, first: int, values: Sequence[Any]) -> None:
        """Write more labels or segments."""
        rows = [(first + i, json.dumps(value)) for i, value in enumerate(values)]
        self._base().executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)

    def inputs(self) -> dict[str, Any]:
        """What was learned from where."""
        found = self._base().execute("SELECT name, value FROM inputs ORDER BY place").fetchall()
        return {name: json.loads(value) for name, value in found}

    def put_inputs(self, inputs: dict[str, Any]) -> None:
        """Write what was learned from where."""
        base = self._base()
        base.execute("DELETE FROM inputs")
        rows = [(name, i, json.dumps(value)) for i, (name, value) in enumerate(inputs.items())]
        base.executemany("INSERT INTO inputs VALUES (?, ?, ?)", rows)

    def cells(
        self, where: str = "1", values: Sequence[Any] = (), table: str = "cells"
    ) -> list[Row]:
        """Cells, by class and then by time. SQLite would sort them with all their bytes."""
        query = f"SELECT {FIELDS} FROM {table} WHERE {where}"
        rows = [Row._make(found) for found in self._base().execute(query, values)]
        self._require_as_written(Block.of(rows))
        rows.sort(key=lambda row: (row.label, row.start, row.segment))
        return rows

    def cell(self, key: Key, table: str = "cells") -> Row | None:
        """One cell, if it is there."""
        where = "start = ? AND segment = ? AND label = ?"
        return next(iter(self.cells(where, key, table)), None)

    def blocks(self, table: str, where: str, values: Sequence[Any]) -> Iterator[Block]:
        """Cells by time, some at a time; what no sum asks for is 0."""
        query = f"SELECT {SUMMED} FROM {table} WHERE {where} ORDER BY start, segment"
        found = self._base().execute(query, values)
        while rows := found.fetchmany(BLOCK):
            start, n, lightest, d, removed, digest, data = zip(*rows, strict=True)
            no = (0,) * len(rows)
            block = Block(start, no, no, no, no, n, no, lightest, d, removed, digest, data)
            self._require_as_written(block)
            yield block

    def heads(
        self, what: str, table: str, where: str, values: Sequence[Any], by: str = ""
    ) -> list[Any]:
        """What is asked of cells, without their moments."""
        query = f"SELECT {what} FROM {table} INDEXED BY {table}_heads WHERE {where} {by}"
        return self._base().execute(query, values).fetchall()

    def _require_as_written(self, block: Block) -> None:
        if not block.as_written:
            raise self._damaged("a cell is not as it was written")

    def sizes(self) -> tuple[int, int]:
        """How many cells there are, and their bytes."""
        count, size = (
            self._base().execute("SELECT COUNT(*), SUM(LENGTH(data)) FROM cells").fetchone()
        )
        return int(count), int(size or 0)

    def size(self) -> int:
        """Bytes of the file."""
        base = self._base()
        pages, size = (base.execute(f"PRAGMA page_{x}").fetchone()[0] for x in ("count", "size"))
        return int(pages * size)

    def number(self, where: str = "1", values: Sequence[Any] = ()) -> int:
        """How many cells there are under a condition."""
        query = f"SELECT COUNT(*) FROM cells WHERE {where}"
        return int(self._base().execute(query, values).fetchone()[0])

    def counted(self) -> list[tuple[int, int, int, int, int, float]]:
        """Start, end, segment, class, rows and weight of every cell, by class and by time."""
        query = (
            "SELECT start, stop, segment, label, rows, n FROM cells ORDER BY label, start, segment"
        )
        return self._base().execute(query).fetchall()

    def put_cells(self, rows: Sequence[Row]) -> None:
        """Write cells."""
        self.touched.update(row.start for row in rows)
        self._put("cells", rows)

    def remove_cells(self, where: str, values: Sequence[Any]) -> int:
        """Remove cells, and return how many."""
        base = self._base()
        query = f"SELECT DISTINCT start FROM cells WHERE {where}"
        self.touched.update(start for (start,) in base.execute(query, values))
        return base.execute(f"DELETE FROM cells WHERE {where}", values).rowcount

    def put_totals(self, start: int, rows: Sequence[Row]) -> None:
        """Write the totals of a bucket, in place of those that it has."""
        self._base().execute("DELETE FROM totals WHERE start = ?", (start,))
        self._put("totals", rows)

    def _put(self, table: str, rows: Sequence[Row]) -> None:
        marks = ", ".join("?" * len(Row._fields))
        query = f"INSERT OR REPLACE INTO {table} ({FIELDS}) VALUES ({marks})"
        self._base().executemany(query, rows)

    def shrink(self) -> None:
        """Give room that is free back to the disk."""
        with self._told():
            self._base().execute("VACUUM")

    def settle(self) -> None:
        """Move what was written from the log beside the file into the file, if nobody reads."""
        with self._told():
            self._base().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    # Inside

    def _base(self, new: bool = False) -> sqlite3.Connection:
        """The connection. Only who keeps others away may make a new file."""
        if self._connection is None:
            self._identity = identity(self.path)
            where = f"{Path(self.path).absolute().as_uri()}?mode={'rwc' if new else 'rw'}"
            self._connection = sqlite3.connect(
                where, timeout=60.0, isolation_level=None, check_same_thread=False, uri=True
            )
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute(f"PRAGMA mmap_size = {MAPPED}")
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
        with self.reading():  # at once, for somebody may be making it
            base = self._base()
            mark = base.execute("PRAGMA application_id").fetchone()[0]
            version = base.execute("PRAGMA user_version").fetchone()[0]
            tables = base.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
        if mark != MARK and not tables:  # killed while it was made
            self.new = True
        elif mark != MARK:
            raise DataError(f"{self.path} is not a ledger; name another file")
        elif version != VERSION:
            raise DataError(
                f"{self.path} is a ledger of version {version}; this program reads version "
                f"{VERSION}; use the program that wrote it"
            )

    def _writer(self) -> str:
        try:
            with self.reading():
                found = self.get("writer")
        except (sqlite3.Error, ValueError):
            found = None
        return f"{found['who']} since {found['since']}" if found else "another process"

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What SQLite has to say, in our words."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            said = str(error)
            if any(word in said for word in DAMAGED):
                raise self._damaged(said) from None
            if "full" in said:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path) from None
            if "readonly" in said:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), self.path) from None
            if "locked" in said:
                raise BusyError(
                    f"{self.path} is being written by {self._writer()}; try again when it has ended"
                ) from None
            raise OSError(errno.EIO, said, self.path) from None

    def _damaged(self, why: str) -> DataError:
        return DataError(
            f"{self.path} is not a ledger, or is damaged ({why})",
            Remedy("restore it from a copy, or learn the files anew"),
        )


def _size(path: str) -> int:
    """Bytes of a file; 0 if there is none, or none any more."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def identity(path: str) -> tuple[int, ...]:
    """Which file has a name now; nothing if none has."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return ()
    return found.st_dev, found.st_ino
