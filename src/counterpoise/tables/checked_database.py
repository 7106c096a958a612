"""SQLite file in which every row has a checksum and every table a digest.

A changed byte, field or row is detected when the file is opened, or when the value is read. No
damaged byte is returned. Deleted content is overwritten with zeros.
"""

from __future__ import annotations

import copy
import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from xxhash import xxh3_64_digest, xxh3_128_hexdigest

from counterpoise.errors import DataError

STATE = "state"
MAX_VARIABLES = 500  # of one SQL statement
MODULUS = 1 << 64
PRIVATE = 0o600
# By the primary result code of SQLite, see https://sqlite.org/rescode.html
PROBLEMS = {
    13: "cannot be written: the disk is full; free space and run the command again",
    10: "cannot be read or written ({}); free space or correct the disk, and run the command again",
    **dict.fromkeys((5, 6), "is in use by another process; wait until it has ended"),
    **dict.fromkeys((3, 8, 14, 23), "cannot be opened for writing ({}); correct its permissions"),
}


class StorageError(DataError):
    """A database that cannot be read or written, or is damaged."""


class CheckedDatabase:
    """Tables whose rows are verified."""

    def __init__(
        self, path: str, tables: Mapping[str, Sequence[str]], state: Mapping[str, Any]
    ) -> None:
        self.path, self._tables = path, {**tables, STATE: ("key", "value")}
        self._lock = threading.RLock()  # a thread reads ahead
        self._sql = {name: _create(name, columns) for name, columns in self._tables.items()}
        self.state: dict[str, Any] = {}
        with self._sqlite_errors():
            if not os.path.exists(path):
                self._make(state)
            self._base = self._connect(path)
            try:
                self._base.execute("PRAGMA journal_mode = WAL").fetchone()
                self._verify()
            except BaseException:
                self._base.close()
                raise

    def close(self) -> None:
        """Close the database."""
        with self._lock, self._sqlite_errors():
            self._base.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Change rows and state together, or not at all."""
        with self._lock, self._sqlite_errors():
            before = copy.deepcopy(self.state)
            self._base.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._write_state()
                self._base.execute("COMMIT")
            except BaseException:
                self.state = before
                with suppress(sqlite3.Error):
                    self._base.execute("ROLLBACK")
                raise

    def compact(self) -> None:
        """Rewrite the file without unused space, and empty the log of changes."""
        with self._lock, self._sqlite_errors():
            self._base.execute("VACUUM")
            self.checkpoint()

    def checkpoint(self) -> None:
        """Empty the log of changes, which may have deleted rows."""
        with self._lock, self._sqlite_errors():
            self._base.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    # Rows

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        return int(self.state["tables"][table][0])

    def insert(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert rows, inside a transaction."""
        summed = [(*row, _checksum(table, row)) for row in rows]
        self._base.executemany(self._insertion(table), summed)
        self._add(table, (row[-1] for row in summed), 1)

    def delete(self, table: str, keys: Iterable[Any]) -> None:
        """Delete the rows of some keys, inside a transaction; unknown keys do not matter."""
        rows = self.select(table, keys)
        key = self._tables[table][0]
        self._base.executemany(f"DELETE FROM {table} WHERE {key} = ?", [(one,) for one in rows])
        self._add(table, (_checksum(table, row) for row in rows.values()), -1)

    def select(self, table: str, keys: Iterable[Any] | None = None) -> dict[Any, tuple[Any, ...]]:
        """Return the rows of some keys, or all in the order of the keys, by key."""
        columns = self._tables[table]
        listed = f"SELECT {', '.join(columns)}, checksum FROM {table}"
        with self._lock, self._sqlite_errors():
            if keys is None:
                found = self._base.execute(f"{listed} ORDER BY {columns[0]}").fetchall()
            else:
                wanted, found = list(keys), []
                for at in range(0, len(wanted), MAX_VARIABLES):
                    part = wanted[at : at + MAX_VARIABLES]
                    query = f"{listed} WHERE {columns[0]} IN ({', '.join('?' * len(part))})"
                    found += self._base.execute(query, part).fetchall()
        for row in found:
            if row[-1] != _checksum(table, row[:-1]):
                raise self._row_error(table)
        return {row[0]: row[:-1] for row in found}

    def column(self, table: str, name: str) -> list[tuple[Any, ...]]:
        """Return the values of one column, without a check of their rows."""
        with self._lock, self._sqlite_errors():
            return self._base.execute(f"SELECT {name} FROM {table}").fetchall()

    def damage_error(self, reason: str) -> DataError:
        """Return the error about a damaged database."""
        return StorageError(
            f"{self.path} is damaged: {reason}; restore it and its model from one backup, or move "
            "it away to continue without its events"
        )

    def _row_error(self, table: str) -> DataError:
        return self.damage_error(f"a row of the table {table!r} does not match its checksum")

    # Opening

    def _connect(self, path: str) -> sqlite3.Connection:
        base = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            for pragma in ("secure_delete = ON", "synchronous = FULL", "trusted_schema = OFF"):
                base.execute(f"PRAGMA {pragma}")
        except BaseException:
            base.close()
            raise
        return base

    def _make(self, state: Mapping[str, Any]) -> None:
        """Create the database under another name first, so that the file is always complete."""
        new = f"{self.path}.new"
        with suppress(FileNotFoundError):
            os.unlink(new)
        os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))
        self._base = self._connect(new)
        try:
            self._base.execute("BEGIN")
            for sql in self._sql.values():
                self._base.execute(sql)
            self.state = {**state, "tables": {name: [0, 0] for name in self._tables}}
            self._write_state()
            self._base.execute("COMMIT")
        finally:
            self._base.close()
        os.replace(new, self.path)

    def _verify(self) -> None:
        """Raise unless the structure, all rows and their number are as they were written."""
        found = self._base.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        if sorted(found) != sorted(("table", name, sql) for name, sql in self._sql.items()):
            raise self.damage_error("it does not have the tables of a store of pending events")
        reason = self._base.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if reason != "ok":
            raise self.damage_error(str(reason).replace("\n", " "))
        states = self.select(STATE)
        if list(states) != [STATE]:
            raise self.damage_error("its state is missing")
        self.state = json.loads(states[STATE][1])
        for table, columns in self._tables.items():
            if table == STATE:
                continue
            number, total = 0, 0
            listed = [name for name in columns if name != "data"]
            for row in self._base.execute(f"SELECT {', '.join(listed)}, checksum FROM {table}"):
                is_small = len(listed) == len(columns)  # bytes are verified when they are read
                right = _checksum(table, row[:-1]) if is_small else row[-1]
                if type(row[-1]) is not int or row[-1] != right:
                    raise self._row_error(table)
                number, total = number + 1, (total + row[-1]) % MODULUS
            if [number, total] != self.state["tables"][table]:
                raise self.damage_error(f"rows of the table {table!r} are missing or were added")

    def _write_state(self) -> None:
        row = (STATE, json.dumps(self.state))
        self._base.execute("DELETE FROM state")
        self._base.execute(self._insertion(STATE), (*row, _checksum(STATE, row)))

    def _insertion(self, table: str) -> str:
        """Return the SQL that inserts a row with its checksum."""
        columns = (*self._tables[table], "checksum")
        return (
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        )

    def _add(self, table: str, checksums: Iterable[int], sign: int) -> None:
        number, total = self.state["tables"][table]
        for one in checksums:
            number, total = number + sign, (total + sign * one) % MODULUS
        self.state["tables"][table] = [number, total]

    @contextmanager
    def _sqlite_errors(self) -> Iterator[None]:
        """Raise errors of SQLite as DataError with a remedy."""
        try:
            yield
        except sqlite3.Error as error:
            problem = PROBLEMS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
            if problem is not None:
                raise StorageError(f"{self.path} {problem.format(error)}") from None
            raise self.damage_error(str(error)) from None
        except OSError as error:
            raise StorageError(
                f"{self.path} cannot be written: {error.strerror or error}"
            ) from None


def _create(table: str, columns: Sequence[str]) -> str:
    """Return the SQL that creates a table; its key is an integer if it is called ``n``."""
    kind, option = ("INTEGER", "") if columns[0] == "n" else ("TEXT", " WITHOUT ROWID")
    listed = [f"{columns[0]} {kind} PRIMARY KEY NOT NULL", "checksum INTEGER NOT NULL"]
    return f"CREATE TABLE {table} ({', '.join([*listed, *columns[1:]])}){option}"


def _checksum(table: str, row: Sequence[Any]) -> int:
    """Return the checksum of the values of a row as a signed integer of 64 bits."""
    plain = [xxh3_128_hexdigest(one) if isinstance(one, bytes) else one for one in row]
    return int.from_bytes(xxh3_64_digest(repr((table, *plain)).encode()), "big", signed=True)
