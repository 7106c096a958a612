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
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.ipc
from xxhash import xxh3_128_hexdigest

from counterpoise.arrays import Flags
from counterpoise.encoding import cell_parsing
from counterpoise.errors import DataError, OptionValue, Suggestion, Words
from counterpoise.readers.chunk import Chunk, ReadPosition, Source
from counterpoise.tables.checked_database import CheckedDatabase
from counterpoise.tables.records import Record, column_of, duplicate_id_error, ids_of, is_prefix

SUFFIX = ".pending"
VERSION = 1
ABSENT = "\x00absent\x00"  # before the name of a column: rows that do not have it
POSITION = "\x00position"  # of a row in its chunk
EVENTS, LABELS = "events", "labels"
TABLES = {
    "inputs": ("key", "kind", "mark"),
    "batches": ("n", "kind", "source", "first", "format", "added", "input", "mark"),
    "contents": ("n", "data"),
    EVENTS: ("id", "batch", "position"),
    LABELS: ("id", "batch", "position"),
    "learned": ("id", "label", "input"),
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
    # position of each row in its input, counted from 0 at ``first``
    positions: tuple[int, ...] = ()
    # input and row of each event, where the positions are those of labels
    origins: tuple[str, ...] = ()
    # whether the model has learned the row with its label by the store, where some were not
    learned: tuple[bool, ...] = ()
    inputs: tuple[str, ...] = ()  # labeled input from which a row was learned instead, or empty

    def only(self, rows: Flags) -> JoinedChunk:
        """Return the rows that are meant, with the same mark."""
        at = np.flatnonzero(rows).tolist()
        part = super().only(rows)
        assert isinstance(part, JoinedChunk)
        return replace(
            part,
            ids=_taken(self.ids, at),
            positions=_taken(self.positions, at),
            origins=_taken(self.origins, at),
            learned=_taken(self.learned, at),
            inputs=_taken(self.inputs, at),
        )

    def error(self, row: int, problem: Words, *remedies: Suggestion) -> DataError:
        """Return the error about a row, with the label and the event."""
        where = f"{self.source}, row {self.first + self.positions[row]}"
        where += f" ({self.origins[row]}): " if self.origins else ": "
        parts = (problem,) if isinstance(problem, str) else problem
        return DataError((where, *parts), *remedies)


def pending_path(model: str) -> str:
    """Return the path of the store of a model: next to it."""
    return (os.path.realpath(model) if os.path.islink(model) else model) + SUFFIX


def has_store(model: str) -> bool:
    """Return whether a store exists next to a model."""
    return os.path.lexists(pending_path(model))


class Learned(NamedTuple):
    """Label of a learned event."""

    label: str  # the present label as text; empty if the record of the input has it
    input: str  # name of the labeled input; empty if the event and its label came separately


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
    >>> store.add_events(monday, "monday", 8192, never, lambda chunk: {})
    2
    >>> store.add_labels(labels, "labels", 8192, never, lambda chunk: None)
    2
    >>> for chunk in store.joined(lambda name: True):  # learn it, and save the model with its mark
    ...     print(chunk.ids, chunk.columns["fraud"].to_pylist())
    ('2',) ['yes']
    >>> store.settle(chunk.mark, is_finished=True)
    >>> len(store), store.waiting_labels, store.learned(["2"])
    (1, 1, {'2': Learned(label='yes', input='')})
    >>> store.close()
    """

    def __init__(self, path: str, id: str | None = None) -> None:  # noqa: A002
        self.path = path
        if id is None and not os.path.lexists(path):
            model = path.removesuffix(SUFFIX)
            raise DataError(
                f"{model} has no pending events",
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
        self.label: str | None = None
        self._claimed: set[str] = set()  # ids of steps since the last settlement
        steps = self._base.select("steps")
        self._tip = max(steps.values())[1] if steps else (state["mark"] or ["", 0])[0]

    def __enter__(self) -> EventStore:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Close the store, and delete it if nothing was ever stored."""
        is_new = not self._base.state["batch"] and not any(map(self._base.count, TABLES))
        self._base.close()
        if is_new:
            os.unlink(self.path)

    def __len__(self) -> int:
        """Return the number of pending events."""
        return self._base.count(EVENTS)

    @property
    def learned_ids(self) -> int:
        """Number of ids of events that were learned."""
        return self._base.count("learned")

    @property
    def waiting_labels(self) -> int:
        """Number of labels whose event did not come yet."""
        return self._base.count(LABELS)

    @property
    def kinds(self) -> dict[str, str]:
        """Types of the columns of all events that were ever added."""
        return dict(self._base.state["kinds"])

    @property
    def settings(self) -> dict[str, Any] | None:
        """Options of the model that the first labels will create; None if it exists."""
        value: dict[str, Any] | None = self._base.state["settings"]
        return value

    @property
    def expire_after(self) -> float | None:
        """Seconds after which pending events and labels are deleted; None for never."""
        value: float | None = self._base.state["expire"]
        return value

    @property
    def event_inputs(self) -> list[str]:
        """Names of the inputs of events."""
        return [key for key, kind, _ in self._base.select("inputs").values() if kind == EVENTS]

    def set_options(self, settings: Mapping[str, Any] | None, expire: float | None) -> None:
        """Store the options of a model that does not exist yet, and the time to expire."""
        state = self._base.state
        plain = json.loads(json.dumps(settings))
        if (plain, expire) != (state["settings"], state["expire"]):
            with self._base.transaction():
                self._base.state |= {"settings": plain, "expire": expire}

    # Inputs

    def find_input(self, source: Source, key: str) -> tuple[str, str, Record] | None:
        """Return name, kind and record of an input by its content; None if it is unknown.

        ``key`` is its name now. A name is enough for an input that can be read only once.
        """
        inputs = self._base.select("inputs")
        if not os.path.isfile(source.path):
            return self._record(inputs[key]) if key in inputs else None
        starts = {
            kind: source.starts(self._wanted(kind)) for kind in {r[1] for r in inputs.values()}
        }
        for name in sorted(inputs, key=lambda name: name != key):
            _, kind, record = self._record(inputs[name])
            if is_prefix(record, source, starts[kind], self._wanted(kind)):
                return name, kind, record
        return self._record(inputs[key]) if key in inputs else None  # it has changed

    def add_events(
        self,
        source: Source,
        key: str,
        rows: int,
        stop: Callable[[], bool],
        check: Callable[[Chunk], dict[str, str]],
    ) -> int:
        """Add the new events of an input in chunks of ``rows`` rows; return their number.

        ``check`` raises if a chunk cannot be learned, and returns the types of its columns.
        """
        key, record = self._resumed(source, key, EVENTS)
        new = 0
        for chunk in source.chunks(rows, record.mark, {}, self._wanted(EVENTS)):
            if stop():
                break
            if chunk.entries is not None:
                raise DataError(f"{chunk.source} is LIBSVM, whose rows have no ids to join by")
            ids = ids_of(chunk, self.id)
            self._require_new(chunk, ids, EVENTS)
            kinds = check(chunk)
            record = replace(record, mark=chunk.mark, starts=record.starts or chunk.starts)
            columns = dict(chunk.columns)
            columns |= {f"{ABSENT}{name}": pa.array(flags) for name, flags in chunk.absent.items()}
            with self._base.transaction():
                form = {name: getattr(chunk, name) for name in ("cells", "table", "offered")}
                form["categorical"] = sorted(chunk.categorical)
                form["types"] = [f"{name}: {column.type}" for name, column in columns.items()]
                self._add_batch(EVENTS, chunk, columns, form, key, record, ids)
                self._set_input(key, EVENTS, record)
                self._base.state["kinds"] |= kinds
            new += chunk.rows
        return new

    def add_labels(
        self,
        source: Source,
        key: str,
        rows: int,
        stop: Callable[[], bool],
        check: Callable[[Chunk], None],
    ) -> int:
        """Add the new labels of an input in chunks of ``rows`` rows; return their number.

        ``check`` raises if labels of a chunk cannot be learned. Labels count once the model has
        learned one of them or a later one, or the run has ended.
        """
        label = self.label or ""
        key, record = self._resumed(source, key, LABELS)
        new = 0
        for chunk in source.chunks(rows, record.mark, {}, self._wanted(LABELS)):
            if stop():
                break
            column = column_of(chunk, label, "label")
            ids = ids_of(chunk, self.id)
            self._require_new(chunk, ids, LABELS)
            if column.null_count:
                row = int(column.is_null().to_numpy(zero_copy_only=False).argmax())
                raise chunk.error(
                    row, f"no label in column {label!r}", Suggestion("fill it in or drop the row")
                )
            check(chunk)
            record = replace(record, mark=chunk.mark, starts=record.starts or chunk.starts)
            columns = {"id": pa.array(ids, pa.string()), "label": column}
            with self._base.transaction():
                form = {"cells": chunk.cells}
                self._add_batch(LABELS, chunk, columns, form, key, record, ids)
            new += chunk.rows
        return new

    def _resumed(self, source: Source, key: str, kind: str) -> tuple[str, Record]:
        found = self.find_input(source, key)
        if found is None:
            return key, Record()
        if found[1] != kind:
            raise DataError(
                f"{source.name} was given as {found[1]} before; give it as {found[1]} again"
            )
        return found[0], found[2]

    def _wanted(self, kind: str) -> Callable[[str], bool]:
        named = None if kind == EVENTS else {self.id, self.label}
        return lambda name: named is None or name in named

    def _require_new(self, chunk: Chunk, ids: list[str], kind: str) -> None:
        """Raise if an id occurs twice, or was stored or learned before."""
        first: dict[str, int] = {}
        for row, one in enumerate(ids):
            if one in first:
                before = f"{chunk.source}, row {chunk.first + first[one]}"
                raise duplicate_id_error(chunk, row, self.id, one, before)
            first[one] = row
        learned = self._base.select("learned", ids)
        stored = self._base.select(kind, ids)
        for one in ids:
            if kind == LABELS and (one in learned or one in stored):
                origin = f" in {self._origins([stored[one]])[0]}" if one in stored else ""
                raise chunk.error(
                    first[one],
                    f"{self.id} {one!r} has its label already{origin}",
                    Suggestion("leave the row out"),
                    Suggestion("change a label with counterpoise relabel"),
                )
            if one in learned:
                raise duplicate_id_error(
                    chunk, first[one], self.id, one, "an event that was learned"
                )
            if one in stored:
                raise duplicate_id_error(
                    chunk, first[one], self.id, one, self._origins([stored[one]])[0]
                )

    def _add_batch(
        self,
        kind: str,
        chunk: Chunk,
        columns: Mapping[str, Any],
        form: Mapping[str, Any],
        key: str,
        record: Record,
        ids: list[str],
    ) -> None:
        n = self._base.state["batch"] = self._base.state["batch"] + 1
        table = pa.table({**columns, POSITION: pa.array(range(chunk.rows), pa.int32())})
        row = (
            n, kind, chunk.source, chunk.first, json.dumps(form), time.time(), key, _packed(record),
        )  # fmt: skip
        self._base.insert("batches", [row])
        self._base.insert("contents", [(n, bytes_of(table))])
        self._base.insert(kind, [(one, n, position) for position, one in enumerate(ids)])

    def _set_input(self, key: str, kind: str, record: Record | None) -> None:
        self._base.delete("inputs", [key])
        if record is not None:
            self._base.insert("inputs", [(key, kind, _packed(record))])

    def _record(self, row: tuple[Any, ...]) -> tuple[str, str, Record]:
        key, kind, text = row
        plain = json.loads(text)
        return key, kind, Record(ReadPosition(**plain["mark"]), tuple(plain["starts"]))

    # Rows that are ready to be learned

    def joined(self, wanted: Callable[[str], bool]) -> Iterator[JoinedChunk]:
        """Join labels with their events, in the order of the labels, and plan to learn the rows.

        A chunk has events of one format with the same columns, as a file would have them.
        """
        rows, label = self._mark[1], self.label or ""
        for n in [row[0] for row in self._base.select("batches").values() if row[1] == LABELS]:
            batch, table = self._read(n)
            ids = table["id"].to_pylist()
            events = self._base.select(EVENTS, [one for one in ids if one not in self._claimed])
            groups: dict[str, list[int]] = {}
            batches = self._base.select("batches", {row[1] for row in events.values()})
            for at, one in enumerate(ids):
                if one in events:
                    groups.setdefault(batches[events[one][1]][4], []).append(at)
            texts = cell_parsing.texts(bare_chunk(table["label"]), "label").to_pylist()
            for form, group in groups.items():
                rows += len(group)
                learn = {ids[at]: texts[at] for at in group}
                digest = self.plan({"learn": learn, "input": ""}, n)
                found = [events[ids[at]] for at in group]
                labels = whole(table["label"].take(pa.array(group, pa.int64())))
                if json.loads(batch[4])["cells"] and not json.loads(form)["cells"]:
                    labels = as_numbers(labels)
                yield self._joined_chunk(
                    batch, json.loads(form), found, {label: labels}, wanted,
                    ReadPosition(rows, 0, digest), tuple(table[POSITION].take(group).to_pylist()),
                )  # fmt: skip

    def _joined_chunk(
        self,
        batch: tuple[Any, ...],
        form: Mapping[str, Any],
        events: list[tuple[Any, ...]],
        label: Mapping[str, pa.Array],
        wanted: Callable[[str], bool],
        mark: ReadPosition,
        positions: tuple[int, ...],
    ) -> JoinedChunk:
        tables, index, offset = [], dict[tuple[int, int], int](), 0
        for n in sorted({row[1] for row in events}):
            table = self._read(n)[1]
            index |= {(n, at): offset + k for k, at in enumerate(table[POSITION].to_pylist())}
            tables.append(table)
            offset += table.num_rows
        order = pa.array([index[row[1], row[2]] for row in events], pa.int64())
        table = pa.concat_tables(tables).take(order)
        names = [name for name in table.column_names if not name.startswith("\x00")]
        columns = {name: whole(table[name]) for name in names if wanted(name)}
        absent = {
            name: np.asarray(table[ABSENT + name].to_numpy(), dtype=bool)
            for name in columns
            if ABSENT + name in table.column_names
        }
        (column,) = label
        offered = tuple(form["offered"])
        return JoinedChunk(
            batch[2],
            batch[3],
            len(events),
            {**columns, **label},
            mark,
            cells=form["cells"],
            table=form["table"],
            offered=(*offered, column) if form["table"] else (),
            absent=absent,
            names=() if form["table"] else (*names, column),
            starts=(mark.hash,),
            categorical=frozenset(form["categorical"]),
            kinds=self.kinds,
            is_checked=True,
            ids=tuple(row[0] for row in events),
            positions=positions,
            origins=tuple(self._origins(events)),
        )

    def claim_ids(self, chunk: Chunk, key: str, labels: Iterable[str | None]) -> ReadPosition:
        """Plan to learn the rows of a labeled chunk that has ids; return the mark of the store.

        Their pending events and labels are deleted then. Raises if an id was learned before.
        """
        ids = ids_of(chunk, self.id)
        learned, waiting = self._base.select("learned", ids), self._base.select(LABELS, ids)
        seen = set(self._claimed)
        for row, (one, label) in enumerate(zip(ids, labels, strict=True)):
            if one in learned or one in seen:
                raise chunk.error(
                    row,
                    f"{self.id} {one!r} was learned already",
                    Suggestion("leave the row out"),
                    Suggestion("correct its id"),
                )
            seen.add(one)
            if one in waiting and self._label_of(waiting[one]) != label:
                raise chunk.error(
                    row,
                    f"{self.id} {one!r} has the label {label!r} here and "
                    f"{self._label_of(waiting[one])!r} in {self._origins([waiting[one]])[0]}",
                    Suggestion("correct the label"),
                )
        digest = self.plan({"learn": dict.fromkeys(ids, ""), "input": key}, 0)
        return ReadPosition(self._mark[1], 0, digest)

    # What was learned

    def learned(self, ids: Iterable[str]) -> dict[str, Learned]:
        """Return the labels of those of some ids that were learned."""
        found = self._base.select("learned", ids)
        return {one: Learned(label, key) for one, label, key in found.values()}

    def known(self, ids: Iterable[str]) -> list[str]:
        """Return those of some ids that are in the store, learned or not."""
        wanted = list(ids)
        found = [self._base.select(table, wanted) for table in (EVENTS, LABELS, "learned")]
        return [one for one in wanted if any(one in rows for rows in found)]

    def waiting(self, ids: Iterable[str]) -> list[str]:
        """Return those of some ids whose label waits for its event."""
        return list(self._base.select(LABELS, ids))

    def find_pending(self, matches: Callable[[pa.Table], Flags]) -> list[str]:
        """Return the ids of pending events of which a function of a table is true."""
        result: list[str] = []
        position = {row[1:]: one for one, row in self._base.select(EVENTS).items()}
        for n, batch in self._base.select("batches").items():
            if batch[1] == EVENTS:
                table = self._read(n)[1]
                positions = table[POSITION].to_numpy()[matches(table)].tolist()
                result += [position[n, at] for at in positions]
        return result

    def plan(self, change: Mapping[str, Any], batch: int = 0) -> str:
        """Record a change of the model that is to come; return the digest that the model gets.

        ``change`` maps ``learn`` to labels by id, with the name of their ``input``; ``relabel`` to
        labels by id; ``revise`` to labels that wait, by id; ``erase`` to ids; or ``drop`` to names
        of inputs. ``batch`` is that of the labels.
        """
        text = json.dumps(change, sort_keys=True)
        digest: str = xxh3_128_hexdigest(f"{self._tip}{text}".encode())
        with self._base.transaction():
            number = self._base.count("steps") + 1
            self._base.insert("steps", [(number, digest, json.dumps([batch, text]))])
        self._tip = digest
        self._claimed |= set(change.get("learn", ()))
        return digest

    def settle(self, mark: ReadPosition, is_finished: bool = False) -> None:
        """Carry out the planned changes that the saved model contains, and drop all others.

        ``mark`` is that of the store in the records of the model as it is saved. Labels of a run
        that was interrupted are dropped from the first one on that the model did not learn, to be
        read again.
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
        if done or steps or is_finished or self._uncommitted():
            with base.transaction():
                self._commit(max([base.state["committed"], *(batch for batch, _ in done)]))
                if is_finished:
                    self._commit(base.state["batch"])
                self._carry_out([json.loads(text) for _, text in done])
                base.delete("steps", [row[0] for row in steps])
                lost = self._uncommitted()
                self._remove(LABELS, [o for o, r in base.select(LABELS).items() if r[1] in lost])
                base.state["mark"] = [mark.hash, mark.rows]
                base.state["is_stale"] |= bool(steps or lost)
        self._tip, self._claimed = mark.hash, set()

    @property
    def _mark(self) -> tuple[str, int]:
        digest, rows = self._base.state["mark"] or ("", 0)
        return digest, rows

    def _uncommitted(self) -> list[int]:
        """Return the batches of labels of a run that did not end."""
        last = self._base.state["committed"]
        rows = self._base.select("batches").values()
        return [row[0] for row in rows if row[1] == LABELS and row[0] > last]

    def _commit(self, last: int) -> None:
        """Let the labels of batches up to the last one count."""
        for row in self._base.select(
            "batches", [n for n in self._uncommitted() if n <= last]
        ).values():
            _, _, record = self._record((row[6], LABELS, row[7]))
            self._set_input(row[6], LABELS, record)
        self._base.state["committed"] = last

    def _carry_out(self, changes: list[Mapping[str, Any]]) -> None:
        """Change the ids as the model has changed, inside a transaction."""
        learned: dict[str, tuple[str, str, str]] = {}
        gone: dict[str, None] = {}
        for change in changes:
            key = change.get("input", "")
            learned |= {o: (o, label, key) for o, label in change.get("learn", {}).items()}
            learned |= {o: (o, label, "") for o, label in change.get("relabel", {}).items()}
            gone |= dict.fromkeys([*change.get("learn", ()), *change.get("erase", ())])
            for one in change.get("erase", ()):
                learned.pop(one, None)
            for one, label in change.get("revise", {}).items():
                self._revise(one, label)
            for name in change.get("drop", ()):
                self._set_input(name, EVENTS, None)
        self._remove(EVENTS, gone)
        self._remove(LABELS, gone)
        self._base.delete("learned", {**gone, **learned})
        self._base.insert("learned", list(learned.values()))

    def _revise(self, one: str, label: str) -> None:
        """Replace a label that waits for its event, inside a transaction."""
        for _, n, position in self._base.select(LABELS, [one]).values():
            table = self._read(n)[1]
            column = table["label"]
            values: list[Any] = column.to_pylist()
            text = pa.array([label], pa.string())
            if not pa.types.is_boolean(column.type) and not pa.types.is_string(column.type):
                text = text.cast(pa.float64())
            at = table[POSITION].to_pylist().index(position)
            values[at] = text.cast(column.type)[0].as_py()
            index = table.column_names.index("label")
            table = table.set_column(index, "label", pa.array(values, column.type))
            self._base.delete("contents", [n])
            self._base.insert("contents", [(n, bytes_of(table))])

    # Deleting

    def erase_pending(self, ids: Iterable[str]) -> None:
        """Delete pending events and labels that wait, which no model has learned."""
        wanted = list(ids)
        with self._base.transaction():
            self._remove(EVENTS, wanted)
            self._remove(LABELS, wanted)
            self._base.state["is_stale"] = True

    def expire(self, before: float) -> tuple[int, int]:
        """Delete events and labels that came before a time; return the numbers of both.

        ``before`` is in seconds since 1970.
        """
        numbers = []
        old = {n for n, row in self._base.select("batches").items() if row[5] < before}
        for kind in (EVENTS, LABELS):
            ids = [one for one, row in self._base.select(kind).items() if row[1] in old]
            numbers.append(len(ids))
            if ids:
                with self._base.transaction():
                    self._remove(kind, ids)
                    self._base.state["is_stale"] = True
        return numbers[0], numbers[1]

    def compact(self) -> None:
        """Rewrite the file, so that nothing is left of deleted rows."""
        if self._base.state["is_stale"]:
            self._base.compact()
            with self._base.transaction():
                self._base.state["is_stale"] = False

    def _remove(self, kind: str, ids: Iterable[str]) -> None:
        """Delete rows and their contents, inside a transaction."""
        base = self._base
        rows = base.select(kind, ids)
        base.delete(kind, rows)
        gone: dict[int, list[int]] = {}
        for _, n, position in rows.values():
            gone.setdefault(n, []).append(position)
        for n, positions in gone.items():
            table = self._read(n)[1]
            left = table.filter(~np.isin(table[POSITION].to_numpy(), positions))
            base.delete("contents", [n])
            if left.num_rows:
                base.insert("contents", [(n, bytes_of(left))])
            else:
                base.delete("batches", [n])

    # Reading

    def _read(self, n: int) -> tuple[tuple[Any, ...], pa.Table]:
        """Return a batch: its description, and its rows, verified."""
        batches, found = self._base.select("batches", [n]), self._base.select("contents", [n])
        if n not in batches or n not in found:
            raise self._base.damaged("a batch of rows is missing")
        try:  # after the checksum: no damaged byte reaches Arrow
            table = pa.ipc.open_stream(found[n][1]).read_all()
            table.validate(full=True)
        except pa.ArrowException as error:
            raise self._base.damaged(str(error)) from None
        return batches[n], table

    def _origins(self, rows: list[tuple[Any, ...]]) -> list[str]:
        """Return input and row of events or labels."""
        batches = self._base.select("batches", {n for _, n, _ in rows})
        return [f"{batches[n][2]}, row {batches[n][3] + at}" for _, n, at in rows]

    def _label_of(self, row: tuple[Any, ...]) -> str:
        """Return a label that waits, as text."""
        _, n, position = row
        table = self._read(n)[1]
        at = table[POSITION].to_pylist().index(position)
        text: str = cell_parsing.texts(bare_chunk(table["label"]), "label")[at].as_py()
        return text


def _packed(record: Record) -> str:
    return json.dumps({"mark": asdict(record.mark), "starts": record.starts})


def _taken(values: tuple[Any, ...], at: list[int]) -> tuple[Any, ...]:
    return tuple(values[i] for i in at) if values else ()


def bytes_of(table: pa.Table) -> bytes:
    """Return a table as the bytes of an Arrow stream."""
    out = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(out, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())
    return out.getvalue()


def whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def bare_chunk(column: pa.ChunkedArray) -> Chunk:
    """Return a chunk of labels alone."""
    return Chunk("", 1, len(column), {"label": whole(column)}, ReadPosition(), cells=True)


def as_numbers(labels: pa.Array) -> pa.Array:
    """Return labels of a text file as integers, if they are, for events that are not text."""
    chunk = Chunk("", 1, len(labels), {"label": labels}, ReadPosition(), cells=True)
    try:
        return (
            labels.cast(pa.int64()) if cell_parsing.kind_of(chunk, "label") == "number" else labels
        )
    except pa.ArrowInvalid:
        return labels
