"""Delayed labels: inputs that are joined with the store of pending events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.arrays import Flags
from counterpoise.encoding import cell_parsing
from counterpoise.encoding.columns import Columns, by_option
from counterpoise.errors import DataError, OptionValue, Suggestion
from counterpoise.readers.chunk import Chunk, ReadPosition, Source
from counterpoise.readers.columnar import ColumnarSource
from counterpoise.tables.estimator import NEW_FILE_REMEDY, shown
from counterpoise.tables.event_store import EventStore, JoinedChunk
from counterpoise.tables.model import TableModel
from counterpoise.tables.records import Record, column_of, duplicate_id_error, ids_of
from counterpoise.tables.scoring import CHUNK_ROWS


class PendingRows:
    """Events of a store whose labels have come: a source of rows."""

    def __init__(self, store: EventStore) -> None:
        self.store = store
        self.path, self.name, self.left = store.path, store.path, False

    def done(self) -> tuple[int, int]:
        """Return that the progress is unknown."""
        return 0, 0

    def verify(self, after: ReadPosition, wanted: Callable[[str], bool]) -> None:
        """Do nothing: the store compares its mark with that of the model when it is settled."""

    def starts(self, wanted: Callable[[str], bool]) -> tuple[str, ...]:
        """Return that the rows are not recognized by their content."""
        return ()

    def chunks(
        self,
        rows: int,
        after: ReadPosition,
        kinds: Mapping[str, str],
        wanted: Callable[[str], bool],
        until: int | None = None,
    ) -> Iterator[Chunk]:
        """Return the rows that are ready; those before the mark are not in the store anymore."""
        yield from self.store.joined(wanted)


class _Wrapped:
    """Another source, whose chunks are changed."""

    def __init__(self, source: Source, store: EventStore) -> None:
        self.source, self.store = source, store
        self.path, self.name = source.path, source.name

    @property
    def left(self) -> bool:
        """Whether a last line without a line end was left for later."""
        return self.source.left

    @left.setter
    def left(self, value: bool) -> None:
        self.source.left = value

    def done(self) -> tuple[int, int]:
        """Bytes read so far, and the size."""
        return self.source.done()

    def verify(self, after: ReadPosition, wanted: Callable[[str], bool]) -> None:
        """Raise if the rows before a mark have changed."""
        self.source.verify(after, wanted)

    def starts(self, wanted: Callable[[str], bool]) -> tuple[str, ...]:
        """Hashes of the first rows."""
        return self.source.starts(wanted)

    def _with_ids(self, wanted: Callable[[str], bool]) -> Callable[[str], bool]:
        """Return a condition on columns that the id also meets; no mark depends on it."""
        name = self.store.id
        if isinstance(self.source, ColumnarSource) and not wanted(name):
            self.source.unhashed = frozenset({name})
        return lambda column: column == name or wanted(column)


class LabeledRows(_Wrapped):
    """Labeled rows next to a store: each id is learned once, here or there."""

    def __init__(self, source: Source, store: EventStore, key: str) -> None:
        super().__init__(source, store)
        self.key = key

    def chunks(
        self,
        rows: int,
        after: ReadPosition,
        kinds: Mapping[str, str],
        wanted: Callable[[str], bool],
        until: int | None = None,
    ) -> Iterator[Chunk]:
        """Read rows, and plan in the store to learn their ids."""
        name, label = self.store.id, self.store.label or ""
        for chunk in self.source.chunks(rows, after, kinds, self._with_ids(wanted), until):
            if name in chunk.columns and label in chunk.columns:
                texts = cell_parsing.texts(chunk, label).to_pylist()
                mark = self.store.claim_ids(chunk, self.key, texts)
                columns = {c: v for c, v in chunk.columns.items() if c != name or wanted(c)}
                absent = {c: v for c, v in chunk.absent.items() if c in columns}
                chunk = replace(chunk, columns=columns, absent=absent, store_mark=mark)
            yield chunk


class LearnedEvents(_Wrapped):
    """Events of a file that were learned, with their present labels, to be unlearned."""

    def __init__(self, source: Source, store: EventStore, record: Record) -> None:
        super().__init__(source, store)
        self.record = record

    def chunks(
        self,
        rows: int,
        after: ReadPosition,
        kinds: Mapping[str, str],
        wanted: Callable[[str], bool],
        until: int | None = None,
    ) -> Iterator[JoinedChunk]:
        """Read all events that the store has read, with labels; those not learned have none."""
        name, label = self.store.id, self.store.label or ""
        self.source.verify(self.record.mark, lambda column: True)
        every = self._with_ids(wanted)
        for chunk in self.source.chunks(rows, ReadPosition(), {}, every, self.record.mark.rows):
            chunk = chunk.head(self.record.mark.rows - chunk.first + 1)
            ids = ids_of(chunk, name)
            found = self.store.learned(ids)
            texts = [found[one].label if one in found else None for one in ids]
            column = pa.array(texts, pa.string())
            here = np.array([one in found and not found[one].input for one in ids], dtype=bool)
            yield JoinedChunk(
                **{f.name: getattr(chunk, f.name) for f in fields(Chunk)}
                | {
                    "columns": {**chunk.columns, label: column},
                    "offered": (*chunk.offered, label) if chunk.table else (),
                    "kinds": self.store.kinds,
                },
                ids=tuple(ids),
                positions=tuple(range(chunk.rows)),
                learned=tuple(here.tolist()),
                inputs=tuple(found[one].input if one in found else "" for one in ids),
            )


@dataclass(frozen=True)
class NewLabels:
    """New labels of rows: one label for all, or one for each id."""

    label: Any = None  # the label of all rows
    by_id: Mapping[str, Any] | None = None  # labels by id instead; other rows stay as they are
    id: str | None = None  # column of the ids

    def of(self, chunk: Chunk) -> tuple[Flags, list[Any]]:
        """Return which rows get a label, (rows,), and the labels."""
        if self.by_id is None:
            return np.ones(chunk.rows, dtype=bool), [self.label] * chunk.rows
        labels = [self.by_id.get(one) for one in ids_of(chunk, self.id or "")]
        return np.array([label is not None for label in labels], dtype=bool), labels


def read_labels(
    source: Source,
    id: str,  # noqa: A002
    label: str,
    known: Mapping[str, Any],
) -> tuple[NewLabels, dict[str, str]]:
    """Read new labels by id, which must be labels that are known, by their text.

    Return them, and the row of each id.
    """
    labels, rows = dict[str, Any](), dict[str, str]()
    for chunk in source.chunks(CHUNK_ROWS, ReadPosition(), {}, lambda name: name in (id, label)):
        column_of(chunk, label, "label")
        texts = cell_parsing.texts(chunk, label).to_pylist()
        for row, (one, text) in enumerate(zip(ids_of(chunk, id), texts, strict=True)):
            if one in labels:
                raise duplicate_id_error(chunk, row, id, one, rows[one])
            if text not in known:
                raise chunk.error(
                    row,
                    f"label {text!r} is not one of {', '.join(known)}",
                    Suggestion("correct it"),
                )
            labels[one], rows[one] = known[text], f"{chunk.source}, row {chunk.first + row}"
    return NewLabels(by_id=labels, id=id), rows


def merge_settings(
    store: EventStore,
    columns: Mapping[str, Any],
    options: Mapping[str, Any],
    more: Mapping[str, Any],
) -> dict[str, dict[str, Any]]:
    """Return the settings of a model that the first labels will create.

    They are those that came with earlier events, to which these must not be contrary. ``more`` has
    the settings of the run that the model keeps.
    """
    given = {"columns": dict(columns), "options": dict(options), "more": dict(more)}
    before = store.settings
    if before is None:
        return given
    default = Columns(label="").by_option()
    result: dict[str, dict[str, Any]] = {}
    for group, values in given.items():
        known = {name: _tupled(value) for name, value in before[group].items()}
        earlier = by_option(known)
        for name, value in by_option(values).items():
            then = earlier.get(name, default.get(name))
            if name not in ("drop", "classes", "positive") and value != then:
                text = f" is {shown(value)}, but {store.path} was created with {shown(then)}"
                if then is None:
                    text = f" is {shown(value)}, but {store.path} was created without it"
                raise DataError(
                    (OptionValue(name), text), Suggestion("leave the option out"), NEW_FILE_REMEDY
                )
        roles = {**known.pop("roles", {}), **values.get("roles", {})}
        result[group] = {**known, **values, **({"roles": roles} if roles else {})}
    return result


def checker(learner: TableModel, store: EventStore) -> Callable[[Chunk], dict[str, str]]:
    """Return a check of the events of one input; it returns the types of their columns."""
    encoding = replace(learner.encoding, kinds={**store.kinds, **learner.encoding.kinds})
    has_earlier = bool(encoding.kinds)

    def check(chunk: Chunk) -> dict[str, str]:
        nonlocal encoding
        encoding = learner.check_events(encoding, chunk, has_earlier)
        return encoding.kinds

    return check


def _tupled(value: Any) -> Any:
    """Return a setting as the command line gives it: JSON has lists only."""
    return tuple(value) if isinstance(value, list) else value
