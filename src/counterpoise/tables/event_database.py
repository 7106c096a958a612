"""Events that wait for their labels, labels that wait for their events, and learned ids.

The store is an SQLite file next to the model. Two files cannot change in one moment, so one of them
decides.

- *Steps*, for inputs that can be read again: the model decides. Before rows are learned or
  unlearned, the store records the planned change with a digest, which is part of the saved model.
  :meth:`EventDatabase.settle` compares the two. It carries out the steps that the model contains
  and drops all others.
- The *log*, for rows that come only once: the store decides. Ids, rows and a digest of a change
  are committed in one transaction. The entry is deleted when a saved model contains it. Until then
  the model learns it again from the log.

A process that is killed at any moment therefore loses no row, and no row is learned twice. A row is
deleted from the file when it is learned, erased or expired.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import compress, groupby
from typing import Any, NamedTuple, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.ipc
from xxhash import xxh3_128_hexdigest

from counterpoise.arrays import Flags
from counterpoise.encoding import cell_parsing
from counterpoise.errors import DataError, OptionValue, Suggestion
from counterpoise.readers.chunk import Chunk, ReadPosition, Source
from counterpoise.tables.checked_database import CheckedDatabase
from counterpoise.tables.event_chunks import (
    SINGLE_FORM,
    chunk_of_events,
    label_array,
    label_type,
    pack_chunk,
    to_bytes,
    unpack_chunk,
    with_labels,
)
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
POSITION = "\x00position"  # of a row in its chunk
EVENTS, LABELS, LEARNED = "events", "labels", "learned"
ROWS, KEPT, LOG = "rows", "kept", "log"
SINGLE = 0  # instead of the batch of an event that came alone
ALONE = "an event that came alone"


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
    features: str = ""  # hash of the features of an event that came alone
    weight: float = 1.0  # with which it was learned; 0 if it was not


class EventRow(NamedTuple):
    """Pending event that came alone, as it was given."""

    id: str
    added: float  # time in seconds
    event: str  # JSON object
    answer: str = "null"  # JSON of the prediction that was given
    weight: float = 1.0  # with which it will be learned; 0 if it will not


class LogEntry(NamedTuple):
    """Change of the model that the saved model may not contain yet."""

    n: int
    digest: str  # of this entry and all earlier ones
    change: str  # JSON of what is done with the rows
    data: bytes  # the rows, as the bytes of an Arrow stream


TABLES = {
    "inputs": ("key", "kind", "mark"),
    "batches": Batch._fields,
    "contents": ("n", "data"),
    EVENTS: StoredRow._fields[:3],
    LABELS: StoredRow._fields,
    LEARNED: ("id", *LearnedLabel._fields),
    "steps": ("n", "digest", "change"),
    ROWS: EventRow._fields,
    KEPT: ("id", "event"),
    LOG: LogEntry._fields,
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
    "logged": 0,
    "quality": [],  # numbers of labels by label and the prediction that was given
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


class EventDatabase:
    r"""Pending events by id, labels that wait for their events, and learned ids.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from counterpoise.tables.event_database import EventDatabase
    >>> from counterpoise.readers import source
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "monday.csv").write_text("payment,amount\n1,12.5\n2,980\n")
    >>> _ = (folder / "labels.csv").write_text("payment,fraud\n2,yes\n3,no\n")
    >>> store = EventDatabase(str(folder / "model.pending"), id="payment")
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
    (1, 1, {'2': LearnedLabel(label='yes', input='', features='', weight=1.0)})
    >>> store.close()
    """

    def __init__(self, path: str, id: str | None = None) -> None:  # noqa: A002
        self.path = path
        if id is None and not os.path.lexists(path):
            raise DataError(
                f"{path.removesuffix(SUFFIX)} has no pending events",
                Suggestion("name the column that joins events and labels", "id"),
            )
        self.base = CheckedDatabase(path, TABLES, {**INITIAL_STATE, "id": id})
        state = self.base.state
        try:
            if state.get("version") != VERSION:
                raise DataError(f"{path} was written by another version of counterpoise")
            if id not in (None, state["id"]):
                raise DataError(
                    (OptionValue("id"), f" is {id}, but {path} joins by {state['id']!r}"),
                    Suggestion("leave the option out"),
                )
        except DataError:
            self.base.close()
            raise
        self.id: str = state["id"]
        self.label = ""  # column of the labels
        self._claimed: set[str] = set()  # ids of steps since the last settlement
        steps = self.base.select("steps")
        self._tip = max(steps.values())[1] if steps else self._mark[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Close the store, and delete it if nothing was ever stored."""
        is_empty = self.is_empty
        self.base.close()
        if is_empty:
            os.unlink(self.path)

    @property
    def is_empty(self) -> bool:
        """True if nothing was ever stored."""
        return not self.base.state["batch"] and not any(map(self.base.count, TABLES))

    def __len__(self) -> int:
        """Return the number of pending events."""
        return self.base.count(EVENTS) + self.base.count(ROWS)

    @property
    def learned_ids(self) -> int:
        """Number of ids of events that were learned."""
        return self.base.count(LEARNED)

    @property
    def waiting_labels(self) -> int:
        """Number of labels whose event did not come yet."""
        return self.base.count(LABELS)

    @property
    def kinds(self) -> dict[str, str]:
        """Types of the columns of all events that were ever added."""
        return dict(self.base.state["kinds"])

    @property
    def settings(self) -> Any:
        """Options of the model that the first labels will create; None if it exists."""
        return self.base.state["settings"]

    @property
    def expire_after(self) -> Any:
        """Seconds after which pending events and labels are deleted; None for never."""
        return self.base.state["expire"]

    @property
    def event_inputs(self) -> list[str]:
        """Names of the inputs of events."""
        return [key for key, kind, _ in self.base.select("inputs").values() if kind == EVENTS]

    def set_options(self, settings: Mapping[str, Any] | None, expire: float | None) -> None:
        """Store the options of a model that does not exist yet, and the time to expire."""
        state = self.base.state
        changed = {"settings": json.loads(json.dumps(settings)), "expire": expire}
        if not changed.items() <= state.items():
            with self.base.transaction():
                state |= changed

    # Inputs

    def find_input(self, source: Source, key: str) -> tuple[str, str, Record] | None:
        """Return name, kind and record of an input, whose name is ``key`` now, by its content.

        The name identifies an input that can be read only once, and one that has changed. None if
        it is unknown.
        """
        inputs = self.base.select("inputs")
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
            with self.base.transaction():
                n = self.base.state["batch"] = self.base.state["batch"] + 1
                rows_of = zip(ids, [n] * len(ids), range(len(ids)), texts, strict=True)
                self._add_batch(kind, chunk, key, record, list(map(StoredRow._make, rows_of)))
                if kind == EVENTS:
                    self._set_input(key, EVENTS, _pack(record))
                    self.base.state["kinds"] |= kinds or {}
            new += chunk.rows
        return new

    def _column_filter(self, kind: str) -> Callable[[str], bool]:
        """Return a function that selects the columns to read."""
        return lambda name: kind == EVENTS or name in (self.id, self.label)

    def _require_new(self, chunk: Chunk, ids: list[str], kind: str) -> None:
        """Raise if an id was stored or learned before."""
        learned, stored = self.base.select(LEARNED, ids), self.stored_rows(kind, ids)
        for row, one in enumerate(ids):
            if one not in learned and one not in stored:
                continue
            origin = self.origins([stored[one]])[0] if one in stored else ""
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
            form["type"] = label_type(chunk.columns[self.label].type)
        else:
            form, table = pack_chunk(chunk)
            form["types"] = [f"{name}: {column.type}" for name, column in table.items()]
            table[POSITION] = pa.array(range(chunk.rows), pa.int32())
            self.base.insert("contents", [(n, to_bytes(pa.table(table)))])
        batch = Batch(
            n, kind, chunk.source, chunk.first, json.dumps(form), time.time(), key, _pack(record)
        )
        self.base.insert("batches", [batch])
        self.base.insert(kind, [row[: len(TABLES[kind])] for row in rows])

    def _set_input(self, key: str, kind: str, text: str | None) -> None:
        self.base.delete("inputs", [key])
        if text is not None:
            self.base.insert("inputs", [(key, kind, text)])

    # Rows that are ready to be learned

    def join(self, wanted: Callable[[str], bool]) -> Iterator[JoinedChunk]:
        """Join labels with their events, in the order of the labels, and plan to learn the rows.

        A chunk has events of one format with the same columns, as a file would have them.
        """
        rows, batches = self._mark[1], self.batches()
        waiting = sorted(self.stored_rows(LABELS).values(), key=lambda row: row[1:3])
        for n, labels in groupby(waiting, key=lambda row: row.batch):
            free = [row for row in labels if row.id not in self._claimed]
            events = self.stored_rows(EVENTS, [row.id for row in free])
            groups: dict[str, list[StoredRow]] = {}
            for row in free:
                if row.id in events:
                    groups.setdefault(form_of(events[row.id], batches), []).append(row)
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
        chunk = self.read_events(events, form, wanted)
        found = label_array([row.label for row in labels], json.loads(batch.format), form["cells"])
        chunk = with_labels(chunk, self.label, found)
        values: dict[str, Any] = {f.name: getattr(chunk, f.name) for f in fields(Chunk)}
        values |= {"source": batch.source, "first": batch.first, "mark": mark}
        values |= {"starts": (mark.hash,), "kinds": self.kinds, "is_checked": True}
        values |= {"positions": tuple(row.position for row in labels)}
        ids, origins = tuple(row.id for row in events), tuple(self.origins(events))
        return JoinedChunk(**values, ids=ids, origins=origins)

    def read_events(
        self, events: Sequence[StoredRow], form: Mapping[str, Any], wanted: Callable[[str], bool]
    ) -> Chunk:
        """Return pending events of one form, in this order, with the columns that are needed."""
        if events[0].batch == SINGLE:
            rows = self.find_rows([row.id for row in events])
            texts = [rows[row.id].event for row in events]
            return chunk_of_events(texts, self.path, {}, wanted)
        tables, index = [], dict[tuple[int, int], int]()
        for n in sorted({row.batch for row in events}):
            table = self._read(n)
            index |= {(n, at): len(index) + k for k, at in enumerate(table[POSITION].to_pylist())}
            tables.append(table)
        order = pa.array([index[row.batch, row.position] for row in events], pa.int64())
        table = pa.concat_tables(tables).take(order).drop_columns([POSITION])
        return unpack_chunk(form, table, self.path, wanted)

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
        ids, labels = (
            ids_of(chunk, self.id),
            cell_parsing.texts(chunk, self.label).to_pylist(),
        )
        learned, waiting = self.base.select(LEARNED, ids), self.stored_rows(LABELS, ids)
        seen = self._claimed | learned.keys()
        for row, (one, label) in enumerate(zip(ids, labels, strict=True)):
            if one in seen:
                remedies = Suggestion("leave the row out"), Suggestion("correct its id")
                raise chunk.error(row, f"{self.id} {one!r} was learned already", *remedies)
            seen.add(one)
            other = waiting.get(one)
            if other is not None and other.label != label:
                origin = self.origins([other])[0]
                text = f"{self.id} {one!r} has the label {label!r} here and {other.label!r} in"
                raise chunk.error(row, f"{text} {origin}", Suggestion("correct the label"))
        digest = self.plan({"learn": dict.fromkeys(ids, ""), "input": key}, 0)
        return ReadPosition(self._mark[1], 0, digest)

    # Learned, pending and waiting ids

    def find_learned(self, ids: Iterable[str]) -> dict[str, LearnedLabel]:
        """Return the labels of those of some ids that were learned."""
        return {one: LearnedLabel(*row[1:]) for one, row in self.base.select(LEARNED, ids).items()}

    def find(self, ids: Iterable[str], *kinds: str) -> list[str]:
        """Return those of some ids that are in the store: pending, with a label, or learned."""
        wanted = list(ids)
        found = [
            self.base.select(kind, wanted) for kind in kinds or (EVENTS, ROWS, LABELS, LEARNED)
        ]
        return [one for one in wanted if any(one in rows for rows in found)]

    def find_pending(self, matches: Callable[[Mapping[str, Any], int], Flags]) -> list[str]:
        """Return the ids of pending events by a function of columns and their number of rows."""
        alone = {one: row.event for one, row in self.find_rows().items()}
        result = _match(alone, self.path, matches)
        ids = {
            (row.batch, row.position): one
            for one, row in self.stored_rows(EVENTS).items()
            if row.batch != SINGLE
        }
        for n in dict.fromkeys(n for n, _ in sorted(ids)):
            table = self._read(n)
            columns = {name: table[name].combine_chunks() for name in table.column_names}
            positions = table[POSITION].to_numpy()[matches(columns, table.num_rows)]
            result += [ids[n, position] for position in positions.tolist()]
        return result

    def find_kept(self, matches: Callable[[Mapping[str, Any], int], Flags]) -> list[str]:
        """Return the ids of learned events that were kept, as :meth:`find_pending` does."""
        return _match(
            {one: row[1] for one, row in self.base.select(KEPT).items()}, self.path, matches
        )

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
        with self.base.transaction():
            number, step = self.base.count("steps") + 1, json.dumps([batch, change])
            self.base.insert("steps", [(number, digest, step)])
        self._tip = digest
        self._claimed |= set(change.get("learn", ()))
        return digest

    def settle(self, mark: ReadPosition, is_finished: bool = False) -> None:
        """Carry out the planned changes that the saved model contains, and drop all others.

        ``mark`` is that of the store in the records of the saved model. Labels of an interrupted
        run are dropped from the first one on that the model did not learn, and are read again.
        """
        base = self.base
        steps = list(base.select("steps").values())
        if base.state["mark"] is None and not steps:
            with base.transaction():
                base.state["mark"] = [mark.hash, mark.rows]
        log = [(n, digest) for n, digest, *_ in base.select(LOG).values()]
        learned = [n for n, digest in log if digest == mark.hash]
        if learned:  # the saved model contains these entries
            with base.transaction():
                base.delete(LOG, [n for n, _ in log if n <= learned[0]])
                base.state["mark"] = [mark.hash, mark.rows]
                base.state["is_stale"] = True
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
                self.remove(
                    LABELS, [o for o, r in self.stored_rows(LABELS).items() if r.batch in lost]
                )
                base.state["mark"] = [mark.hash, mark.rows]
                base.state["is_stale"] |= bool(steps or lost)
        self._tip, self._claimed = mark.hash, set()

    def log_entries(self) -> Iterator[LogEntry]:
        """Yield the changes that the saved model does not contain, in order."""
        for n in sorted(self.base.select(LOG)) if self.base.count(LOG) else ():
            yield LogEntry(*self.base.select(LOG, [n])[n])

    @property
    def _mark(self) -> tuple[str, int]:
        digest, rows = self.base.state["mark"] or ("", 0)
        return digest, rows

    def _uncommitted_batches(self) -> list[Batch]:
        """Return the batches of labels of a run that did not end."""
        last = self.base.state["committed"]
        return [one for one in self.batches().values() if one.kind == LABELS and one.n > last]

    def _commit(self, last: int) -> None:
        """Record that labels of batches up to the last one are read."""
        for batch in self._uncommitted_batches():
            if batch.n <= last:
                self._set_input(batch.input, LABELS, batch.mark)
        self.base.state["committed"] = last

    def _carry_out(self, changes: list[Mapping[str, Any]]) -> None:
        """Change the ids as the model has changed, inside a transaction."""
        base = self.base
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
            waiting = self.stored_rows(LABELS, revised)
            base.delete(LABELS, waiting)
            base.insert(LABELS, [r._replace(label=revised[o]) for o, r in waiting.items()])
            for name in change.get("drop", ()):
                self._set_input(name, EVENTS, None)
        self.remove(EVENTS, removed)
        self.remove(LABELS, removed)
        base.delete(LEARNED, {**removed, **learned})
        base.delete(KEPT, removed)
        base.insert(LEARNED, [(*row, "", 1.0) for row in learned.values()])

    # Deleting

    def erase_pending(self, ids: Iterable[str]) -> None:
        """Delete pending events and waiting labels of some ids, which no model has learned."""
        self._remove_unlearned({kind: list(ids) for kind in (EVENTS, LABELS)})

    def expire(self, before: float) -> tuple[int, int]:
        """Delete events and labels that came before a time in seconds; return their numbers."""
        old = {n for n, batch in self.batches().items() if batch.added < before}
        ids = {
            kind: [one for one, row in self.stored_rows(kind).items() if row.batch in old]
            for kind in (EVENTS, LABELS)
        }
        ids[EVENTS] += [one for one, row in self.find_rows().items() if row.added < before]
        if any(ids.values()):
            self._remove_unlearned(ids)
        return len(ids[EVENTS]), len(ids[LABELS])

    def _remove_unlearned(self, ids: Mapping[str, Iterable[str]]) -> None:
        """Delete pending events and waiting labels, by kind."""
        with self.base.transaction():
            for kind, some in ids.items():
                self.remove(kind, some)
            self.base.state["is_stale"] = True

    def compact(self) -> None:
        """Rewrite the file, so that nothing is left of deleted rows."""
        if self.base.state["is_stale"]:
            self.base.compact()
            with self.base.transaction():
                self.base.state["is_stale"] = False

    def remove(self, kind: str, ids: Iterable[str]) -> None:
        """Delete rows, their contents and batches without rows, inside a transaction."""
        base, rows = self.base, self.stored_rows(kind, ids)
        base.delete(kind, rows)
        positions: dict[int, list[int]] = {}
        for row in rows.values():
            positions.setdefault(row.batch, []).append(row.position)
        if kind == EVENTS and positions.pop(SINGLE, []):
            base.delete(ROWS, [one for one, row in rows.items() if row.batch == SINGLE])
        if kind == LABELS and rows:
            used = {row.batch for row in self.stored_rows(LABELS).values()}
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

    def pending_times(self) -> list[float]:
        """Return the times at which pending events came alone, in seconds."""
        return [added for (added,) in self.base.column(ROWS, "added")]

    def stored_rows(self, kind: str, ids: Iterable[str] | None = None) -> dict[str, StoredRow]:
        """Return the pending events, or the labels that wait, of some ids, or all of them."""
        some = None if ids is None else list(ids)
        found = {one: StoredRow(*row) for one, row in self.base.select(kind, some).items()}
        if kind == EVENTS and self.base.count(ROWS):
            alone = self.base.select(ROWS, some)
            found |= {one: StoredRow(one, SINGLE, 0) for one in alone}
        return found

    def find_rows(self, ids: Iterable[str] | None = None) -> dict[str, EventRow]:
        """Return those of some ids that are pending events which came alone, or all of them."""
        return {one: EventRow(*row) for one, row in self.base.select(ROWS, ids).items()}

    def batches(self, numbers: Iterable[int] | None = None) -> dict[int, Batch]:
        """Return the batches of some numbers, or all of them."""
        return {n: Batch(*row) for n, row in self.base.select("batches", numbers).items()}

    def _read(self, n: int) -> pa.Table:
        """Return the events of a batch, verified."""
        found = self.base.select("contents", [n])
        if n not in found:
            raise self.base.damage_error("a batch of rows is missing")
        try:  # after the checksum: no damaged byte reaches Arrow
            table = pa.ipc.open_stream(found[n][1]).read_all()
            table.validate(full=True)
        except pa.ArrowException as error:
            raise self.base.damage_error(str(error)) from None
        return table

    def origins(self, rows: list[StoredRow]) -> list[str]:
        """Return input and row of events or labels."""
        batches = self.batches({row.batch for row in rows})
        of = [(batches.get(row.batch), row.position) for row in rows]
        return [
            ALONE if batch is None else f"{batch.source}, row {batch.first + position}"
            for batch, position in of
        ]


def _pack(record: Record) -> str:
    return json.dumps({"mark": record.mark.plain(), "starts": record.starts})


def _unpack(text: str) -> Record:
    plain = json.loads(text)
    return Record(ReadPosition(**plain["mark"]), tuple(plain["starts"]))


def _match(
    events: Mapping[str, str],
    source: str,
    matches: Callable[[Mapping[str, Any], int], Flags],
) -> list[str]:
    """Return the ids of events that came alone and meet a condition."""
    if not events:
        return []
    chunk = chunk_of_events(list(events.values()), source, {}, lambda name: True)
    return list(compress(events, matches(chunk.columns, chunk.rows)))


def form_of(row: StoredRow, batches: Mapping[int, Batch]) -> str:
    """Return the form of the batch of an event, or of events that came alone."""
    return json.dumps(SINGLE_FORM) if row.batch == SINGLE else batches[row.batch].format
