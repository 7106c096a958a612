"""Events that wait for their labels, labels that wait for their events, and learned ids.

The store is an SQLite file next to the model. Two files cannot change in one moment, so the model
decides. Before rows are learned or unlearned, the store records the planned change as a *step* with
a digest; the digest is part of the saved model. :meth:`EventStore.settle` compares the two: it
carries out the steps that the model contains and drops all others. A process that is killed at any
moment therefore loses no row, and no row is learned twice.

A row is deleted from the file when it is learned, erased or expired.
"""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import compress, groupby
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.ipc
from xxhash import xxh3_128_hexdigest

from counterpoise.arrays import Flags
from counterpoise.encoding import cell_parsing
from counterpoise.errors import DataError, OptionValue, Suggestion
from counterpoise.readers.chunk import Chunk, ReadPosition, Source
from counterpoise.tables.checked_database import CheckedDatabase
from counterpoise.tables.records import (
    IdRows,
    Record,
    duplicate_id_error,
    ids_of,
    is_prefix,
    texts_of,
)

SUFFIX = ".pending"
VERSION = 1
ABSENT = "\x00absent\x00"  # before the name of a column: rows that do not have it
POSITION = "\x00position"  # of a row in its chunk
EVENTS, LABELS, LEARNED = "events", "labels", "learned"


class Batch(NamedTuple):
    """Description of the rows of one chunk that were stored."""

    n: int
    kind: str  # EVENTS or LABELS
    source: str
    first: int  # number of the first row within the input
    format: str  # JSON of what the chunk was like, except for its columns
    added: float  # time in seconds
    input: str  # name of the input
    mark: str  # JSON of the record of the input after these rows


class StoredRow(NamedTuple):
    """Pending event, or label that waits."""

    id: str
    batch: int
    position: int  # in the batch
    label: str = ""  # as text


class LearnedLabel(NamedTuple):
    """Label of a learned event."""

    label: str | None  # the present label as text; empty if the record of the input has it
    input: str  # name of the labeled input; empty if the event and its label came separately


TABLES = {
    "inputs": ("key", "kind", "mark"),
    "batches": Batch._fields,
    "contents": ("n", "data"),
    EVENTS: StoredRow._fields[:3],
    LABELS: StoredRow._fields,
    LEARNED: ("id", *LearnedLabel._fields),
    "steps": ("n", "digest", "change"),
}
INITIAL_STATE: dict[str, Any] = {
    "version": VERSION,
    "id": None,
    "mark": None,
    "batch": 0,
    "committed": 0,
    "is_stale": False,
    "kinds": {},
    "settings": None,
    "expire": None,
}


@dataclass(frozen=True, eq=False)
class JoinedChunk(Chunk):
    """Events with their labels."""

    ids: tuple[str, ...] = ()  # id of each row
    # input and row of each event, where the positions are those of labels
    origins: tuple[str, ...] = ()
    is_learned: tuple[bool, ...] = ()  # whether the store has the label that was learned
    inputs: tuple[str, ...] = ()  # labeled input from which a row was learned instead, or empty

    def only(self, rows: Flags) -> JoinedChunk:
        """Return some rows (rows,), with the same mark."""
        names = ("ids", "origins", "is_learned", "inputs")
        values: Any = {name: tuple(compress(getattr(self, name), rows)) for name in names}
        return replace(cast("JoinedChunk", super().only(rows)), **values)

    def row_name(self, row: int) -> str:
        """Return the input and the number of a label and of its event."""
        return super().row_name(row) + (f" ({self.origins[row]})" if self.origins else "")


def pending_path(model: str) -> str:
    """Return the path of the store of a model: next to it."""
    return (os.path.realpath(model) if os.path.islink(model) else model) + SUFFIX


def has_store(model: str) -> bool:
    """Return whether a store exists next to a model."""
    return os.path.lexists(pending_path(model))


class EventStore:
    r"""Pending events by id, labels that wait for their events, and learned ids.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from counterpoise.tables.event_store import EventStore
    >>> from counterpoise.readers import source
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "monday.csv").write_text("payment,amount\n1,12.5\n2,980\n")
    >>> _ = (folder / "labels.csv").write_text("payment,fraud\n2,yes\n3,no\n")
    >>> store = EventStore(str(folder / "model.pending"), id="payment")
    >>> store.label, never = "fraud", lambda: False
    >>> monday, labels = (source(str(folder / f"{name}.csv")) for name in ("monday", "labels"))
    >>> store.add("events", monday, "monday", 8192, never, lambda chunk: {})
    2
    >>> store.add("labels", labels, "labels", 8192, never, lambda chunk: None)
    2
    >>> for chunk in store.join(lambda name: True):  # learn it, and save the model with its mark
    ...     print(chunk.ids, chunk.columns["fraud"].to_pylist())
    ('2',) ['yes']
    >>> store.settle(chunk.mark, is_finished=True)
    >>> len(store), store.waiting_labels, store.find_learned(["2"])
    (1, 1, {'2': LearnedLabel(label='yes', input='')})
    >>> store.close()
    """

    def __init__(self, path: str, id: str | None = None) -> None:  # noqa: A002
        self.path = path
        if id is None and not os.path.lexists(path):
            raise DataError(
                f"{path.removesuffix(SUFFIX)} has no pending events",
                Suggestion("name the column that joins events and labels", "id"),
            )
        self._base = CheckedDatabase(path, TABLES, {**INITIAL_STATE, "id": id})
        state = self._base.state
        try:
            if state.get("version") != VERSION:
                raise DataError(f"{path} was written by another version of counterpoise")
            if id not in (None, state["id"]):
                raise DataError(
                    (OptionValue("id"), f" is {id}, but {path} joins by {state['id']!r}"),
                    Suggestion("leave the option out"),
                )
        except DataError:
            self._base.close()
            raise
        self.id: str = state["id"]
        self.label = ""  # column of the labels
        self._claimed: set[str] = set()  # ids of steps since the last settlement
        steps = self._base.select("steps")
        self._tip = max(steps.values())[1] if steps else self._mark[0]

    def __enter__(self) -> EventStore:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Close the store, and delete it if nothing was ever stored."""
        is_empty = self.is_empty
        self._base.close()
        if is_empty:
            os.unlink(self.path)

    @property
    def is_empty(self) -> bool:
        """True if nothing was ever stored."""
        return not self._base.state["batch"] and not any(map(self._base.count, TABLES))

    def __len__(self) -> int:
        """Return the number of pending events."""
        return self._base.count(EVENTS)

    @property
    def learned_ids(self) -> int:
        """Number of ids of events that were learned."""
        return self._base.count(LEARNED)

    @property
    def waiting_labels(self) -> int:
        """Number of labels whose event did not come yet."""
        return self._base.count(LABELS)

    @property
    def kinds(self) -> dict[str, str]:
        """Types of the columns of all events that were ever added."""
        return dict(self._base.state["kinds"])

    @property
    def settings(self) -> Any:
        """Options of the model that the first labels will create; None if it exists."""
        return self._base.state["settings"]

    @property
    def expire_after(self) -> Any:
        """Seconds after which pending events and labels are deleted; None for never."""
        return self._base.state["expire"]

    @property
    def event_inputs(self) -> list[str]:
        """Names of the inputs of events."""
        return [key for key, kind, _ in self._base.select("inputs").values() if kind == EVENTS]

    def set_options(self, settings: Mapping[str, Any] | None, expire: float | None) -> None:
        """Store the options of a model that does not exist yet, and the time to expire."""
        state = self._base.state
        changed = {"settings": json.loads(json.dumps(settings)), "expire": expire}
        if not changed.items() <= state.items():
            with self._base.transaction():
                state |= changed

    # Inputs

    def find_input(self, source: Source, key: str) -> tuple[str, str, Record] | None:
        """Return name, kind and record of an input, whose name is ``key`` now, by its content.

        The name identifies an input that can be read only once, and one that has changed. None if
        it is unknown.
        """
        inputs = self._base.select("inputs")
        if os.path.isfile(source.path):
            kinds = {kind for _, kind, _ in inputs.values()}
            starts = {kind: source.starts(self._column_filter(kind)) for kind in kinds}
            for name in sorted(inputs, key=lambda name: name != key):
                _, kind, text = inputs[name]
                record = _unpack(text)
                if is_prefix(record, source, starts[kind], self._column_filter(kind)):
                    return name, kind, record
        if key not in inputs:
            return None
        return key, inputs[key][1], _unpack(inputs[key][2])

    def add(
        self,
        kind: str,
        source: Source,
        key: str,
        rows: int,
        stop: Callable[[], bool],
        check: Callable[[Chunk], dict[str, str] | None],
    ) -> int:
        """Add the new events or labels of an input in chunks of ``rows`` rows; return their number.

        ``check`` raises if a chunk cannot be learned, and returns the types of columns of events.
        A label is committed when the model has learned it or a later one, or the run has ended.
        """
        key, before, record = self.find_input(source, key) or (key, kind, Record())
        if before != kind:
            raise DataError(
                f"{source.name} was given as {before} before; give it as {before} again"
            )
        new = 0
        for chunk in source.chunks(rows, record.mark, {}, self._column_filter(kind)):
            if stop():
                break
            if chunk.entries is not None:
                raise DataError(f"{chunk.source} is LIBSVM, whose rows have no ids to join by")
            texts = [""] * chunk.rows if kind == EVENTS else texts_of(chunk, self.label, "label")
            ids = IdRows().add(chunk, self.id)
            self._require_new(chunk, ids, kind)
            kinds = check(chunk)
            record = replace(record, mark=chunk.mark, starts=record.starts or chunk.starts)
            with self._base.transaction():
                n = self._base.state["batch"] = self._base.state["batch"] + 1
                rows_of = zip(ids, [n] * len(ids), range(len(ids)), texts, strict=True)
                self._add_batch(kind, chunk, key, record, list(map(StoredRow._make, rows_of)))
                if kind == EVENTS:
                    self._set_input(key, EVENTS, _pack(record))
                    self._base.state["kinds"] |= kinds or {}
            new += chunk.rows
        return new

    def _column_filter(self, kind: str) -> Callable[[str], bool]:
        """Return a function that selects the columns to read."""
        return lambda name: kind == EVENTS or name in (self.id, self.label)

    def _require_new(self, chunk: Chunk, ids: list[str], kind: str) -> None:
        """Raise if an id was stored or learned before."""
        learned, stored = self._base.select(LEARNED, ids), self._rows(kind, ids)
        for row, one in enumerate(ids):
            if one not in learned and one not in stored:
                continue
            origin = self._origins([stored[one]])[0] if one in stored else ""
            if kind == EVENTS:
                before = "an event that was learned" if one in learned else origin
                raise duplicate_id_error(chunk, row, self.id, one, before)
            relabel = Suggestion("change a label with counterpoise relabel")
            text = f"{self.id} {one!r} has its label already{f' in {origin}' if origin else ''}"
            raise chunk.error(row, text, Suggestion("leave the row out"), relabel)

    def _add_batch(
        self, kind: str, chunk: Chunk, key: str, record: Record, rows: list[StoredRow]
    ) -> None:
        """Store the rows of a chunk, inside a transaction."""
        n, form = rows[0].batch, dict[str, Any](cells=chunk.cells)
        if kind == LABELS:
            form["type"] = _label_type(chunk.columns[self.label].type)
        else:
            columns = dict(chunk.columns)
            columns |= {f"{ABSENT}{name}": pa.array(flags) for name, flags in chunk.absent.items()}
            form |= {"table": chunk.table, "offered": chunk.offered}
            form["categorical"] = sorted(chunk.categorical)
            form["types"] = [f"{name}: {column.type}" for name, column in columns.items()]
            table = pa.table({**columns, POSITION: pa.array(range(chunk.rows), pa.int32())})
            self._base.insert("contents", [(n, to_bytes(table))])
        batch = Batch(
            n, kind, chunk.source, chunk.first, json.dumps(form), time.time(), key, _pack(record)
        )
        self._base.insert("batches", [batch])
        self._base.insert(kind, [row[: len(TABLES[kind])] for row in rows])

    def _set_input(self, key: str, kind: str, text: str | None) -> None:
        self._base.delete("inputs", [key])
        if text is not None:
            self._base.insert("inputs", [(key, kind, text)])

    # Rows that are ready to be learned

    def join(self, wanted: Callable[[str], bool]) -> Iterator[JoinedChunk]:
        """Join labels with their events, in the order of the labels, and plan to learn the rows.

        A chunk has events of one format with the same columns, as a file would have them.
        """
        rows, batches = self._mark[1], self._batches()
        waiting = sorted(self._rows(LABELS).values(), key=lambda row: row[1:3])
        for n, labels in groupby(waiting, key=lambda row: row.batch):
            free = [row for row in labels if row.id not in self._claimed]
            events = self._rows(EVENTS, [row.id for row in free])
            groups: dict[str, list[StoredRow]] = {}
            for row in free:
                if row.id in events:
                    groups.setdefault(batches[events[row.id].batch].format, []).append(row)
            for form, group in groups.items():
                rows += len(group)
                digest = self.plan({"learn": {row.id: row.label for row in group}, "input": ""}, n)
                found, mark = [events[row.id] for row in group], ReadPosition(rows, 0, digest)
                yield self._join(batches[n], group, found, json.loads(form), wanted, mark)

    def _join(
        self,
        batch: Batch,
        labels: list[StoredRow],
        events: list[StoredRow],
        form: Mapping[str, Any],
        wanted: Callable[[str], bool],
        mark: ReadPosition,
    ) -> JoinedChunk:
        tables, index = [], dict[tuple[int, int], int]()
        for n in sorted({row.batch for row in events}):
            table = self._read(n)
            index |= {(n, at): len(index) + k for k, at in enumerate(table[POSITION].to_pylist())}
            tables.append(table)
        order = pa.array([index[row.batch, row.position] for row in events], pa.int64())
        table = pa.concat_tables(tables).take(order)
        names = [name for name in table.column_names if not name.startswith("\x00")]
        columns = {name: table[name].combine_chunks() for name in names if wanted(name)}
        columns[self.label] = _label_array(labels, json.loads(batch.format), form["cells"])
        return JoinedChunk(
            batch.source,
            batch.first,
            len(events),
            columns,
            mark,
            cells=form["cells"],
            table=form["table"],
            offered=(*form["offered"], self.label) if form["table"] else (),
            absent={
                name: np.asarray(table[ABSENT + name].to_numpy(), dtype=bool)
                for name in columns
                if ABSENT + name in table.column_names
            },
            names=() if form["table"] else (*names, self.label),
            starts=(mark.hash,),
            categorical=frozenset(form["categorical"]),
            kinds=self.kinds,
            is_checked=True,
            positions=tuple(row.position for row in labels),
            ids=tuple(row.id for row in events),
            origins=tuple(self._origins(events)),
        )

    def claim(
        self, chunks: Iterable[Chunk], key: str, wanted: Callable[[str], bool]
    ) -> Iterator[Chunk]:
        """Plan to learn the chunks of a labeled input that has ids, and yield them.

        Their pending events and labels are deleted then. Raises if an id was learned before.
        """
        for chunk in chunks:
            if self.id in chunk.columns and self.label in chunk.columns:
                mark = self._claim_ids(chunk, key)
                columns = {c: v for c, v in chunk.columns.items() if c != self.id or wanted(c)}
                absent = {c: v for c, v in chunk.absent.items() if c in columns}
                chunk = replace(chunk, columns=columns, absent=absent, store_mark=mark)
            yield chunk

    def _claim_ids(self, chunk: Chunk, key: str) -> ReadPosition:
        """Plan to learn the rows of a labeled chunk; return the mark of the store."""
        ids, labels = ids_of(chunk, self.id), cell_parsing.texts(chunk, self.label).to_pylist()
        learned, waiting = self._base.select(LEARNED, ids), self._rows(LABELS, ids)
        seen = self._claimed | learned.keys()
        for row, (one, label) in enumerate(zip(ids, labels, strict=True)):
            if one in seen:
                remedies = Suggestion("leave the row out"), Suggestion("correct its id")
                raise chunk.error(row, f"{self.id} {one!r} was learned already", *remedies)
            seen.add(one)
            other = waiting.get(one)
            if other is not None and other.label != label:
                origin = self._origins([other])[0]
                text = f"{self.id} {one!r} has the label {label!r} here and {other.label!r} in"
                raise chunk.error(row, f"{text} {origin}", Suggestion("correct the label"))
        digest = self.plan({"learn": dict.fromkeys(ids, ""), "input": key}, 0)
        return ReadPosition(self._mark[1], 0, digest)

    # Learned, pending and waiting ids

    def find_learned(self, ids: Iterable[str]) -> dict[str, LearnedLabel]:
        """Return the labels of those of some ids that were learned."""
        return {one: LearnedLabel(*row[1:]) for one, row in self._base.select(LEARNED, ids).items()}

    def find(self, ids: Iterable[str], *kinds: str) -> list[str]:
        """Return those of some ids that are in the store: pending, with a label, or learned."""
        wanted = list(ids)
        found = [self._base.select(kind, wanted) for kind in kinds or (EVENTS, LABELS, LEARNED)]
        return [one for one in wanted if any(one in rows for rows in found)]

    def find_pending(self, matches: Callable[[Mapping[str, Any], int], Flags]) -> list[str]:
        """Return the ids of pending events by a function of columns and their number of rows."""
        result: list[str] = []
        ids = {(row.batch, row.position): one for one, row in self._rows(EVENTS).items()}
        for n in dict.fromkeys(n for n, _ in sorted(ids)):
            table = self._read(n)
            columns = {name: table[name].combine_chunks() for name in table.column_names}
            positions = table[POSITION].to_numpy()[matches(columns, table.num_rows)]
            result += [ids[n, position] for position in positions.tolist()]
        return result

    # Steps

    def plan(self, change: Mapping[str, Any], batch: int = 0) -> str:
        """Record a planned change of the model; return the digest that the model gets.

        ``change`` maps ``learn`` to labels by id, with the name of their ``input``; ``relabel`` to
        labels by id; ``revise`` to waiting labels, by id; ``erase`` to ids; or ``drop`` to names
        of inputs. ``batch`` is that of the labels.
        """
        # The digest does not depend on the batch, whose number differs after an interruption.
        digest: str = xxh3_128_hexdigest(
            f"{self._tip}{json.dumps(change, sort_keys=True)}".encode()
        )
        with self._base.transaction():
            number, step = self._base.count("steps") + 1, json.dumps([batch, change])
            self._base.insert("steps", [(number, digest, step)])
        self._tip = digest
        self._claimed |= set(change.get("learn", ()))
        return digest

    def settle(self, mark: ReadPosition, is_finished: bool = False) -> None:
        """Carry out the planned changes that the saved model contains, and drop all others.

        ``mark`` is that of the store in the records of the saved model. Labels of an interrupted
        run are dropped from the first one on that the model did not learn, and are read again.
        """
        base = self._base
        steps = list(base.select("steps").values())
        if base.state["mark"] is None and not steps:
            with base.transaction():
                base.state["mark"] = [mark.hash, mark.rows]
        digests = [self._mark[0], *(digest for _, digest, _ in steps)]
        if mark.hash not in digests:
            model = self.path.removesuffix(SUFFIX)
            raise DataError(
                f"{self.path} belongs to another state of {model}; restore both from one backup, "
                "or move it away to continue without its events"
            )
        done = [json.loads(change) for _, _, change in steps[: digests.index(mark.hash)]]
        if done or steps or is_finished or self._uncommitted_batches():
            with base.transaction():
                last = max([base.state["committed"], *(batch for batch, _ in done)])
                self._commit(base.state["batch"] if is_finished else last)
                self._carry_out([change for _, change in done])
                base.delete("steps", [row[0] for row in steps])
                lost = {batch.n for batch in self._uncommitted_batches()}
                self._remove(LABELS, [o for o, r in self._rows(LABELS).items() if r.batch in lost])
                base.state["mark"] = [mark.hash, mark.rows]
                base.state["is_stale"] |= bool(steps or lost)
        self._tip, self._claimed = mark.hash, set()

    @property
    def _mark(self) -> tuple[str, int]:
        digest, rows = self._base.state["mark"] or ("", 0)
        return digest, rows

    def _uncommitted_batches(self) -> list[Batch]:
        """Return the batches of labels of a run that did not end."""
        last = self._base.state["committed"]
        return [one for one in self._batches().values() if one.kind == LABELS and one.n > last]

    def _commit(self, last: int) -> None:
        """Record that labels of batches up to the last one are read."""
        for batch in self._uncommitted_batches():
            if batch.n <= last:
                self._set_input(batch.input, LABELS, batch.mark)
        self._base.state["committed"] = last

    def _carry_out(self, changes: list[Mapping[str, Any]]) -> None:
        """Change the ids as the model has changed, inside a transaction."""
        base = self._base
        learned: dict[str, tuple[str, str, str]] = {}
        removed: dict[str, None] = {}
        for change in changes:
            key = change.get("input", "")
            learned |= {o: (o, label, key) for o, label in change.get("learn", {}).items()}
            learned |= {o: (o, label, "") for o, label in change.get("relabel", {}).items()}
            removed |= dict.fromkeys([*change.get("learn", ()), *change.get("erase", ())])
            for one in change.get("erase", ()):
                learned.pop(one, None)
            revised = change.get("revise", {})
            waiting = self._rows(LABELS, revised)
            base.delete(LABELS, waiting)
            base.insert(LABELS, [r._replace(label=revised[o]) for o, r in waiting.items()])
            for name in change.get("drop", ()):
                self._set_input(name, EVENTS, None)
        self._remove(EVENTS, removed)
        self._remove(LABELS, removed)
        base.delete(LEARNED, {**removed, **learned})
        base.insert(LEARNED, list(learned.values()))

    # Deleting

    def erase_pending(self, ids: Iterable[str]) -> None:
        """Delete pending events and waiting labels of some ids, which no model has learned."""
        self._remove_unlearned({kind: list(ids) for kind in (EVENTS, LABELS)})

    def expire(self, before: float) -> tuple[int, int]:
        """Delete events and labels that came before a time in seconds; return their numbers."""
        old = {n for n, batch in self._batches().items() if batch.added < before}
        ids = {
            kind: [one for one, row in self._rows(kind).items() if row.batch in old]
            for kind in (EVENTS, LABELS)
        }
        if any(ids.values()):
            self._remove_unlearned(ids)
        return len(ids[EVENTS]), len(ids[LABELS])

    def _remove_unlearned(self, ids: Mapping[str, Iterable[str]]) -> None:
        """Delete pending events and waiting labels, by kind."""
        with self._base.transaction():
            for kind, some in ids.items():
                self._remove(kind, some)
            self._base.state["is_stale"] = True

    def compact(self) -> None:
        """Rewrite the file, so that nothing is left of deleted rows."""
        if self._base.state["is_stale"]:
            self._base.compact()
            with self._base.transaction():
                self._base.state["is_stale"] = False

    def _remove(self, kind: str, ids: Iterable[str]) -> None:
        """Delete rows, their contents and batches without rows, inside a transaction."""
        base, rows = self._base, self._rows(kind, ids)
        base.delete(kind, rows)
        positions: dict[int, list[int]] = {}
        for row in rows.values():
            positions.setdefault(row.batch, []).append(row.position)
        if kind == LABELS and rows:
            used = {row.batch for row in self._rows(LABELS).values()}
            base.delete("batches", positions.keys() - used)
            return
        for n, removed in positions.items():
            table = self._read(n)
            others = table.filter(~np.isin(table[POSITION].to_numpy(), removed))
            base.delete("contents", [n])
            if others.num_rows:
                base.insert("contents", [(n, to_bytes(others))])
            else:
                base.delete("batches", [n])

    # Reading

    def _rows(self, kind: str, ids: Iterable[str] | None = None) -> dict[str, StoredRow]:
        return {one: StoredRow(*row) for one, row in self._base.select(kind, ids).items()}

    def _batches(self, numbers: Iterable[int] | None = None) -> dict[int, Batch]:
        return {n: Batch(*row) for n, row in self._base.select("batches", numbers).items()}

    def _read(self, n: int) -> pa.Table:
        """Return the events of a batch, verified."""
        found = self._base.select("contents", [n])
        if n not in found:
            raise self._base.damage_error("a batch of rows is missing")
        try:  # after the checksum: no damaged byte reaches Arrow
            table = pa.ipc.open_stream(found[n][1]).read_all()
            table.validate(full=True)
        except pa.ArrowException as error:
            raise self._base.damage_error(str(error)) from None
        return table

    def _origins(self, rows: list[StoredRow]) -> list[str]:
        """Return input and row of events or labels."""
        batches = self._batches({row.batch for row in rows})
        of = [(batches[row.batch], row.position) for row in rows]
        return [f"{batch.source}, row {batch.first + position}" for batch, position in of]


def _pack(record: Record) -> str:
    return json.dumps({"mark": asdict(record.mark), "starts": record.starts})


def _unpack(text: str) -> Record:
    plain = json.loads(text)
    return Record(ReadPosition(**plain["mark"]), tuple(plain["starts"]))


def to_bytes(table: pa.Table) -> bytes:
    """Return a table as the bytes of an Arrow stream."""
    out = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(out, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())
    return out.getvalue()


def _label_type(kind: pa.DataType) -> str:
    """Return the type of a column of labels: "bool", "number" or "text"."""
    if pa.types.is_boolean(kind):
        return "bool"
    return "number" if pa.types.is_integer(kind) or pa.types.is_floating(kind) else "text"


def _label_array(rows: list[StoredRow], form: Mapping[str, Any], cells: bool) -> pa.Array:
    """Return labels as their file had them; text of a text file as the events have numbers."""
    labels = pa.array([row.label for row in rows], pa.string())
    if form["type"] == "bool":
        return labels.cast(pa.bool_())
    if form["type"] != "number" and (cells or not form["cells"]):
        return labels
    chunk = Chunk("", 1, len(rows), {"label": labels}, ReadPosition(), cells=True)
    if cell_parsing.kind_of(chunk, "label") != "number":
        return labels
    try:
        return labels.cast(pa.int64())
    except pa.ArrowInvalid:
        return labels
