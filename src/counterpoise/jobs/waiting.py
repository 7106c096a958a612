"""Events that wait for their labels, in a database beside the model.

An event waits from the moment that it was read until a row with its label was learned, and it is
learned exactly once. Two files cannot be written at one moment, so one of them decides: the model.
A row of labels *claims* its event and says how many rows of labels will have been learned with it.
Whoever opens the database later asks the model how many there are. A claim that was honoured lets
its event go; one that was not, because somebody was killed, is void.

The database remembers the ids of learned events, so that none is learned twice.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.arrays import Flags
from counterpoise.errors import DataError, Remedy, Setting
from counterpoise.jobs.ids import ids_of, twice
from counterpoise.jobs.packed import blanked, bytes_of, packed, shape_of, unpacked
from counterpoise.jobs.store import Record, input_key
from counterpoise.jobs.waiting_tables import TABLES
from counterpoise.streams import Chunk, Mark, Source

ENDING = ".waiting"
VERSION = "1"


def waiting_path(model: str) -> str:
    """Return where the events of a model wait: beside it."""
    return os.path.realpath(model) + ENDING


def waits_beside(model: str) -> bool:
    """Return whether there is a database of waiting events beside a model."""
    return os.path.exists(waiting_path(model))


class Waiting:
    """Events that wait for their labels, by id.

    Parameters
    ----------
    model : str
        The model file. The database is beside it, and is made if need be.
    id : str, optional
        Column of the ids; None if the database is there and knows it.

    Attributes
    ----------
    id : str
        Column of the ids.
    """

    def __init__(self, model: str, id: str | None = None) -> None:  # noqa: A002
        self.model, self.path = model, waiting_path(model)
        self._lock = threading.RLock()  # a thread reads ahead
        if id is None and not os.path.exists(self.path):
            raise DataError(
                f"no events wait beside {model}", Remedy("name the column that joins them", "id")
            )
        try:
            self._base = sqlite3.connect(self.path, check_same_thread=False)
            self._base.execute("PRAGMA secure_delete = ON")
            self._base.execute("PRAGMA synchronous = FULL")
            with self._base:
                self._base.executescript(TABLES)
            known = self._meta()
        except sqlite3.DatabaseError as error:
            raise DataError(
                f"{self.path} is not a database of waiting events ({error}); move it away"
            ) from None
        if known.get("version", VERSION) != VERSION:
            raise DataError(f"{self.path} was made by another version of counterpoise")
        if id is not None and known.get("id", id) != id:
            self.close()
            raise DataError(
                (Setting("id"), f" is {id}, but {self.path} joins by {known['id']!r}"),
                Remedy("leave the option out"),
            )
        self.id: str = known.get("id") or id or ""
        with self._base:
            self._note(version=VERSION, id=self.id)

    def __enter__(self) -> Waiting:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self._base.close()

    # What the model has learned

    def settle(self, records: Mapping[str, Record], ever: int) -> None:
        """Let go of the events that the model has learned, and void all other claims.

        ``records`` are the inputs of the model as it is saved, and ``ever`` the rows that it has
        ever read.
        """
        before = int(self._meta().get("ever", "0"))
        if ever < before:
            raise DataError(
                f"{self.path} belongs to a later state of {self.model}, which had read {before:,} "
                f"rows and not {ever:,}; restore both from one moment, or remove it to begin anew"
            )
        with self._lock, self._base as base:
            for (claim,) in base.execute(
                "SELECT DISTINCT claim FROM events WHERE claim IS NOT NULL"
            ).fetchall():
                done = records[claim].mark.rows if claim in records else 0
                base.execute(
                    "UPDATE events SET batch = NULL, place = NULL, claim = NULL, at = NULL "
                    "WHERE claim = ? AND at <= ?",
                    (claim, done),
                )
            base.execute("UPDATE events SET claim = NULL, at = NULL WHERE claim IS NOT NULL")
            self._sweep()
            self._note(ever=str(ever))

    # Events in

    def take(
        self,
        source: Source,
        key: str,
        rows: int,
        stop: Callable[[], bool],
        check: Callable[[Chunk], None],
        only: Callable[[Chunk], Flags] | None = None,
    ) -> int:
        """Store what is new in an input, by chunks of so many rows, and return the number of rows.

        ``check`` raises if rows of a chunk could not be learned; ``only`` says which ones to store.
        """
        key = self._renamed(source, key)
        new = 0
        record = self.records().get(key, Record())
        for chunk in source.chunks(rows, record.mark, {}, _every):
            if stop():
                break
            if only is not None:
                chunk = chunk.only(only(chunk))
            ids = ids_of(chunk, self.id)
            self._require_alike(chunk)
            check(chunk)
            with self._base as base:
                self._insert(chunk, ids)
                record = replace(record, mark=chunk.mark, starts=record.starts or chunk.starts)
                mark = asdict(record.mark)
                base.execute(
                    "INSERT OR REPLACE INTO inputs VALUES (?, ?, ?, ?, ?, ?)",
                    (key, *mark.values(), json.dumps(record.starts)),
                )
            new += chunk.rows
        return new

    def _insert(self, chunk: Chunk, ids: list[str]) -> None:
        base = self._base
        place: dict[str, int] = {}
        for row, one in enumerate(ids):
            if one in place:
                before = f"{chunk.source}, row {chunk.first + place[one]}"
                raise twice(chunk, row, self.id, one, before)
            place[one] = row
        for one, batch, at in self._found(ids):
            if batch is None:
                before = "an event that was learned"
            else:
                source, first = base.execute(
                    "SELECT source, first FROM batches WHERE n = ?", (batch,)
                ).fetchone()
                before = f"{source}, row {first + at}"
            raise twice(chunk, place[one], self.id, one, before)
        made = base.execute(
            "INSERT INTO batches (source, first, data) VALUES (?, ?, ?)",
            (chunk.source, chunk.first, packed(chunk)),
        )
        base.executemany(
            "INSERT INTO events VALUES (?, ?, ?, NULL, NULL)",
            [(one, made.lastrowid, row) for one, row in place.items()],
        )

    def _renamed(self, source: Source, key: str) -> str:
        """The name of an input in the records: its own, or that under which it is known."""
        records = self.records()
        if not os.path.isfile(source.path) or not records:
            return key
        starts = source.starts(_every)
        if key in records and records[key].begins_like(starts):
            return key
        for other, record in records.items():
            if record.begins_like(starts):
                try:
                    source.verify(record.mark, _every)
                except DataError:
                    continue
                return other
        return key

    def _require_alike(self, chunk: Chunk) -> None:
        """Raise if events have other columns than those that wait, or come in another format."""
        known = self._meta().get("shape")
        shape = shape_of(chunk, None if known is None else json.loads(known))
        if known is None:
            with self._base:
                self._note(shape=json.dumps(shape))

    # Events out

    def claimed(
        self, labels: Chunk, ids: Sequence[str], claim: str, lenient: bool
    ) -> tuple[pa.Table, dict[str, Any], list[str]]:
        """Claim the events of rows of labels, and return them in this order.

        ``claim`` is the name of the labels in the records of the model. Returns the table of the
        events, what is known of its shape, and where each event came from. With ``lenient`` rows
        whose event is unknown are left out.
        """
        if "shape" not in self._meta():
            raise DataError(
                f"{labels.source} holds labels, but no event was ever given; give their files too"
            )
        with self._lock:
            return self._claimed(labels, ids, claim, lenient)

    def _claimed(
        self, labels: Chunk, ids: Sequence[str], claim: str, lenient: bool
    ) -> tuple[pa.Table, dict[str, Any], list[str]]:
        found = {one: (batch, place) for one, batch, place in self._found(ids)}
        places: list[tuple[int, int]] = []
        kept, seen = [], dict[str, int]()
        for row, one in enumerate(ids):
            batch, place = found.get(one, (None, None))
            if one in seen:
                raise twice(labels, row, self.id, one, f"{labels.source}, row {seen[one]}")
            seen[one] = labels.first + row
            if batch is None or place is None:
                if lenient and one not in found:
                    continue
                raise labels.error(row, *self._strange(one, one in found))
            places.append((batch, place))
            kept.append(row)
        with self._base as base:
            claims = [(claim, labels.mark.rows, ids[row]) for row in kept]
            base.executemany("UPDATE events SET claim = ?, at = ? WHERE id = ?", claims)
        table, origins = self._rows(places)
        table = table.append_column("\x00row", pa.array(kept, pa.int64()))
        return table, json.loads(self._meta().get("shape", "{}")), origins

    def _strange(self, one: str, learned: bool) -> tuple[Any, ...]:
        if learned:
            return (
                f"{self.id} {one!r} has its label already",
                Remedy("leave the row out"),
                Remedy("change a label with counterpoise relabel"),
            )
        return (
            f"no event has {self.id} {one!r}",
            Remedy("give the file of its event too"),
            Remedy("leave out labels of unknown events", "skip_unknown_ids", True),
        )

    def _rows(self, places: list[tuple[int, int]]) -> tuple[pa.Table, list[str]]:
        """Events at places, in order."""
        batches = sorted({batch for batch, _ in places})
        tables, offset = [], 0
        start: dict[tuple[int, int], int] = {}
        names: dict[tuple[int, int], str] = {}
        for batch in batches:
            source, first, data = self._base.execute(
                "SELECT source, first, data FROM batches WHERE n = ?", (batch,)
            ).fetchone()
            mine = sorted({place for b, place in places if b == batch})
            tables.append(unpacked(data).take(pa.array(mine, pa.int64())))
            start |= {(batch, place): offset + k for k, place in enumerate(mine)}
            names |= {(batch, place): f"{source}, row {first + place}" for place in mine}
            offset += len(mine)
        if not tables:
            return pa.table({}), []
        try:
            whole = pa.concat_tables(tables, promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise DataError(f"events of one id column differ in their types: {error}") from None
        order = pa.array([start[place] for place in places], pa.int64())
        return whole.take(order).combine_chunks(), [names[place] for place in places]

    def _found(self, ids: Iterable[str]) -> list[tuple[str, int | None, int | None]]:
        """Id, batch and place of those of some ids that are known and not claimed."""
        result: list[tuple[str, int | None, int | None]] = []
        ids = list(ids)
        for at in range(0, len(ids), 500):
            part = ids[at : at + 500]
            marks = ", ".join("?" * len(part))
            for one, batch, place, claim in self._base.execute(
                f"SELECT id, batch, place, claim FROM events WHERE id IN ({marks})", part
            ):
                result.append((one, None, None) if claim is not None else (one, batch, place))
        return result

    # Events looked at, and taken back

    def __len__(self) -> int:
        """Return how many events wait."""
        query = "SELECT count(*) FROM events WHERE batch IS NOT NULL"
        return int(self._base.execute(query).fetchone()[0])

    def records(self) -> dict[str, Record]:
        """Return how far each input was read, by name."""
        return {
            key: Record(Mark(rows, size, digest, bool(cut)), tuple(json.loads(starts)))
            for key, rows, size, digest, cut, starts in self._base.execute("SELECT * FROM inputs")
        }

    def forget(self, matches: Callable[[pa.Table], Any]) -> int:
        """Drop the waiting events for which a function of a table says so, and return their number.

        What is left here of learned events goes too, but for their ids.
        """
        gone = 0
        with self._base as base:
            for n, data in base.execute("SELECT n, data FROM batches").fetchall():
                table = unpacked(data)
                at = np.flatnonzero(matches(table))
                for place in at.tolist():
                    gone += base.execute(
                        "DELETE FROM events WHERE batch = ? AND place = ?", (n, place)
                    ).rowcount
                if len(at):  # the row itself must go too, not only the way to it
                    kept = pa.array(~np.isin(np.arange(table.num_rows), at))
                    blank = [blanked(column, kept) for column in table.columns]
                    data = bytes_of(pa.table(blank, names=table.column_names))
                    base.execute("UPDATE batches SET data = ? WHERE n = ?", (data, n))
            self._sweep()
        return gone

    def ids(self) -> list[str]:
        """Return all ids that are known, of events that wait or were learned."""
        return [one for (one,) in self._base.execute("SELECT id FROM events ORDER BY id")]

    def erase(self, ids: Iterable[str]) -> None:
        """Forget that learned events had these ids."""
        with self._base as base:
            base.executemany(
                "DELETE FROM events WHERE id = ? AND batch IS NULL", [(one,) for one in ids]
            )

    def joined(self, key: str) -> bool:
        """Return whether rows of an input of labels were ever joined with events."""
        return f"labels {key}" in self._meta()

    def note_labels(self, key: str) -> None:
        """Remember that an input holds labels."""
        with self._base:
            self._note(**{f"labels {key}": "1"})

    # Within

    def _sweep(self) -> None:
        self._base.execute(
            "DELETE FROM batches WHERE n NOT IN "
            "(SELECT DISTINCT batch FROM events WHERE batch IS NOT NULL)"
        )

    def _meta(self) -> dict[str, str]:
        return dict(self._base.execute("SELECT key, value FROM meta"))

    def _note(self, **values: str) -> None:
        self._base.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())


def events_key(path: str, model: str, stdin_name: str | None) -> str:
    """Return the name of an input of events."""
    if path == "-":
        return f"- {stdin_name}" if stdin_name else "-"
    return input_key(path, model)


def _every(_: str) -> bool:
    return True
