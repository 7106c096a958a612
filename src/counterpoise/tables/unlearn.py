"""Unlearning and relabeling: rows are read again, subtracted, and learned with new labels."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from counterpoise.arrays import Counts, Flags
from counterpoise.encoding import cell_parsing
from counterpoise.encoding.encoder import ColumnEncoder, EncodedChunk
from counterpoise.engine.ridge import RidgeModel
from counterpoise.errors import DataError
from counterpoise.moments.moments import Moments
from counterpoise.readers.byte_source import is_regular_file
from counterpoise.readers.chunk import Chunk, ReadPosition, Source, input_changed_error
from counterpoise.readers.columnar import ColumnarSource
from counterpoise.solver.imputation import MeanImputation
from counterpoise.tables import records
from counterpoise.tables.delayed_labels import LearnedEvents, NewLabels
from counterpoise.tables.estimator import as_ridge
from counterpoise.tables.event_store import EventStore, JoinedChunk
from counterpoise.tables.model import TableModel
from counterpoise.tables.records import Record, RowFilter, UnfiledRows, cannot_unlearn_error

Watch = Callable[[Source, int], None]


@dataclass(eq=False)
class RemovedRows:
    """Rows that were read again, to be subtracted."""

    moments: Moments | None  # their moments; None of no row
    held: Counts  # number of these rows that have a value for each feature
    places: list[int] = field(default_factory=list)  # their positions within the input, from 0
    given: list[Any] = field(default_factory=list)  # their labels in the input
    # their new labels, if they are to be learned again
    labels: list[Any] = field(default_factory=list)
    # rows, new labels and weights, if they are to be learned again
    again: list[tuple[Any, Any, Any]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)  # their ids, if there are any
    # ids of all rows that are meant, also of those that were not learned
    named: list[str] = field(default_factory=list)
    # ids of all events that are meant and were learned with delayed labels
    learned: list[str] = field(default_factory=list)
    # ids that were learned from labeled inputs, with the names of these inputs
    elsewhere: dict[str, str] = field(default_factory=dict)
    mark: ReadPosition = field(default_factory=ReadPosition)  # read position at the end
    problem: DataError | None = None  # reason why the rows of a pipe cannot be subtracted


class StoreChange:
    """Changes of the store of pending events that go with changes of the model."""

    def __init__(self, store: EventStore | None) -> None:
        self.store = store
        self._erase: dict[str, None] = {}
        self._relabel: dict[str, str] = {}
        self._revise: dict[str, str] = {}
        self._drop: list[str] = []
        self._elsewhere: dict[str, str] = {}
        self._from_files: set[str] = set()
        self._from_events: set[str] = set()

    @property
    def found(self) -> set[str]:
        """Ids of learned rows that were meant, as far as inputs have ids."""
        return self._from_files | self._from_events

    @property
    def id(self) -> str | None:
        """Column of the ids."""
        return None if self.store is None else self.store.id

    def erase(self, ids: Iterable[str]) -> None:
        """Erase ids, their pending events and their labels."""
        self._erase |= dict.fromkeys(ids)

    def of_file(self, taken: RemovedRows, is_erased: bool = True) -> None:
        """Note the ids of labeled rows that were unlearned or relabeled."""
        if is_erased:
            self.erase(taken.named)
        self._from_files |= set(taken.named)

    def of_events(self, taken: RemovedRows, is_erased: bool) -> None:
        """Note the ids of rows that were unlearned or relabeled."""
        self._elsewhere |= taken.elsewhere
        self._from_events |= set(taken.learned)
        if is_erased:
            self.erase(one for one in taken.named if one not in taken.elsewhere)
        else:
            pairs = zip(taken.ids, taken.labels, strict=True)
            self._relabel |= {one: str(label) for one, label in pairs}

    def revise_waiting(self, new: NewLabels, rows: Mapping[str, str]) -> int:
        """Replace labels that wait for their events where no learned row was found.

        ``rows`` has the row of each new label. Raise if an id is unknown; return the number of
        labels that were replaced.
        """
        left = [one for one in rows if one not in self.found]
        waiting = [] if self.store is None else self.store.waiting(left)
        for one in left:
            if one not in waiting:
                raise DataError(
                    f"{rows[one]}: no learned row of the named files has {new.id} {one!r}; name "
                    "the file of its event, or leave the label out"
                )
        self._revise |= {one: str((new.by_id or {})[one]) for one in waiting}
        return len(waiting)

    def drop_input(self, key: str) -> None:
        """Let an input of events be unknown, so that it can be added again."""
        self._drop.append(key)

    def plan(self, learner: TableModel) -> None:
        """Record the changes in the store and in the model, which is not saved yet."""
        for one, key in self._elsewhere.items():
            if one not in self._from_files:
                raise DataError(f"{self.id} {one!r} was learned from {key}; name this file too")
        if self.store is None:
            return
        change = {
            "erase": self.store.known(self._erase),
            "relabel": self._relabel,
            "revise": self._revise,
            "drop": self._drop,
        }
        if any(change.values()):
            digest = self.store.plan(change)
            learner.set_store_mark(replace(learner.store_mark, hash=digest))


def unlearn(
    learner: TableModel, source: Source, key: str, watch: Watch, change: StoreChange
) -> int:
    """Subtract the rows of an input, as if they had never been learned, and return their number.

    The input must still begin as it did. The learner is changed only if all goes well, and not
    saved; ``watch`` gets the number of rows of each chunk.
    """
    record = _recorded(learner, source, key)
    model = require_unlearnable(learner)
    learner.window = None  # it may be about these rows
    taken = reread_rows(learner, source, record, None, watch, id=change.id)
    known = model.labels.tolist()
    _subtract(learner, model, taken, record.times)
    change.of_file(taken)
    del learner.records[key]
    learner.unlearned += record.mark.rows
    _drop_unused(learner, known)
    learner.finish()
    return record.mark.rows - records.count(record.gone)


def unlearn_where(
    learner: TableModel,
    source: Source,
    key: str,
    where: RowFilter | None,
    watch: Watch,
    change: StoreChange,
    new: NewLabels | None = None,
) -> int:
    """Subtract the rows of an input that are meant, and return their number.

    Those that were taken back before do not count again. With ``new`` they are learned again with
    these labels instead of their present ones; rows that have them are left as they are.
    """
    record = _recorded(learner, source, key)
    model = require_unlearnable(learner)
    ids = change.id if new is None or new.id is None else new.id
    taken = reread_rows(learner, source, record, where, watch, new, ids)
    change.of_file(taken, is_erased=new is None)
    places = taken.places if new is None else []
    learner.records[key] = replace(
        record,
        gone=records.add_rows(record.gone, places),
        relabeled=_relabeled(record, taken),
    )
    _exchange(learner, model, taken, record.times)
    return len(taken.places)


def unlearn_events(
    learner: TableModel,
    source: LearnedEvents,
    where: RowFilter | None,
    watch: Watch,
    change: StoreChange,
    new: NewLabels | None = None,
) -> int:
    """Subtract those events that are meant and were learned with delayed labels.

    Pending ones are erased with them. With ``new`` they are learned again with these labels.
    Return the number of rows that were subtracted.
    """
    model = require_unlearnable(learner)
    taken = reread_rows(learner, source, None, where, watch, new)
    if taken.problem is not None:
        raise taken.problem
    change.of_events(taken, is_erased=new is None)
    if new is None:
        rows = learner.apart.rows - len(taken.places)
        learner.apart = replace(learner.apart, rows=rows)
    _exchange(learner, model, taken, 1)
    return len(taken.places)


def unlearn_pipe(
    learner: TableModel, source: Source, where: RowFilter | None, watch: Watch, change: StoreChange
) -> int:
    """Subtract rows that come from a pipe, with their labels, and return their number.

    If they are all that was learned from standard input under a name, its record goes too. Else
    their hash is kept, so that the same rows are not taken back twice.
    """
    model = require_unlearnable(learner)
    taken = reread_rows(learner, source, None, where, watch, id=change.id)
    digest = f"{taken.mark.hash} {'' if where is None else sorted(where.values.items())}".strip()
    if digest in learner.apart.hashes:
        raise DataError(f"{source.name}: these rows were unlearned before; nothing was changed")
    if taken.problem is not None:
        raise taken.problem
    if taken.moments is None:
        return 0
    learner.window = None
    known = model.labels.tolist()
    whole = [
        key
        for key, record in learner.records.items()
        if key.startswith("-")
        and where is None
        and (record.mark.rows, record.mark.hash) == (taken.mark.rows, taken.mark.hash)
        and record.times == 1
        and not record.gone
    ]
    _subtract(learner, model, taken, 1)
    change.of_file(taken)
    if whole:
        learner.unlearned += learner.records.pop(whole[0]).mark.rows
    else:
        rows, hashes = learner.apart.rows - len(taken.places), learner.apart.hashes
        learner.apart = UnfiledRows(rows, (*hashes, digest))
    _drop_unused(learner, known)
    learner.finish()
    return len(taken.places)


def require_unlearnable(learner: TableModel) -> RidgeModel:
    """Return the model, or raise if rows cannot be taken back."""
    if learner.model is None:
        raise DataError(f"{learner.path} has learned nothing")
    model = as_ridge(learner.model)
    if model is None:
        raise cannot_unlearn_error(learner.path)
    model.require_unlearnable()
    return model


def labels_by_text(learner: TableModel) -> dict[str, Any]:
    """Return the labels that rows may have, by their text: those learned and those declared."""
    encoding = learner.encoding
    kind = int if encoding.labels == "int" else str
    declared = {label: kind(label) for label in encoding.columns.classes}
    return {str(label): label for label in require_unlearnable(learner).labels.tolist()} | declared


def reread_rows(
    learner: TableModel,
    source: Source,
    record: Record | None,
    where: RowFilter | None,
    watch: Watch,
    new: NewLabels | None = None,
    id: str | None = None,  # noqa: A002
) -> RemovedRows:
    """Read the rows of an input that are to be subtracted, with their present labels.

    ``record`` has the rows that were learned, and those that were taken back or relabeled; None of
    a pipe and of events. ``where`` selects rows; None for all. Rows that have their label of
    ``new`` stay. ``id`` is the column of the ids, if the input may have one.
    """
    model, encoding = learner.model, learner.encoding
    assert isinstance(model, RidgeModel)
    columns, d = encoding.columns, len(encoding.features)
    if record is not None:
        source.verify(record.mark, columns.is_needed)
    named = {id, None if new is None else new.id, *(() if where is None else where.values)}

    def wanted(name: str) -> bool:
        return columns.is_needed(name) or name in named

    if isinstance(source, ColumnarSource):  # the hash is that of the learned columns
        source.unhashed = frozenset(name for name in named if name and not columns.is_needed(name))
    until = None if record is None else record.mark.rows
    result = RemovedRows(None, np.zeros(d, dtype=np.int64))
    kinds = columns.read(encoding.kinds)
    kinds = kinds if where is None else where.kinds(kinds)
    for chunk in source.chunks(learner.chunk_rows, ReadPosition(), kinds, wanted, until):
        result.mark = chunk.mark
        watch(source, chunk.rows)
        places = _places(chunk)
        meant = np.ones(chunk.rows, dtype=bool) if where is None else where.of(chunk)
        labels: list[Any] = []
        if new is not None:
            has_label, labels = new.of(chunk)
            meant &= has_label
        if record is not None:
            meant &= places < record.mark.rows
        _note_ids(result, chunk, meant, id)
        if isinstance(chunk, JoinedChunk):
            meant &= np.array(chunk.learned, dtype=bool)
        if record is not None:
            meant &= ~records.contains(record.gone, places)
        if not meant.any():
            continue
        encoded, after = encoding.learn(chunk.only(meant), lenient=True)
        if encoded.held[d:].any() or (after.labels == "int") != (encoding.labels == "int"):
            if record is not None:
                raise input_changed_error(source.name, record.mark)
            result.problem = result.problem or DataError(
                f"{source.name}, row {chunk.first + int(meant.argmax())} or one after it: it has "
                "a category or a column that was never learned; give rows as they were learned"
            )
            continue  # to its end: the same rows may have been unlearned before
        if labels:
            at = np.flatnonzero(meant)[encoded.kept]
            y = _present(encoded.y, places[at], record)
            meant[:] = False
            meant[[i for i, now in zip(at.tolist(), y, strict=True) if now != labels[i]]] = True
            if not meant.any():
                continue
            encoded, _ = encoding.learn(chunk.only(meant), lenient=True)
        if not encoded.X.shape[0]:
            continue
        at = np.flatnonzero(meant)[encoded.kept]
        X, present = encoded.X[:, :d], np.array(_present(encoded.y, places[at], record))
        moments = model.moments_of(X, present, encoded.weight)
        result.moments = moments if result.moments is None else result.moments.append(moments)
        result.held += encoded.held[:d]
        result.places += places[at].tolist()
        result.given += encoded.y.tolist()
        if isinstance(chunk, JoinedChunk):
            result.ids += [chunk.ids[i] for i in at.tolist()]
        if labels:
            result.labels += [labels[i] for i in at.tolist()]
            result.again.append((X, np.array([labels[i] for i in at.tolist()]), encoded.weight))
    return result


def _note_ids(taken: RemovedRows, chunk: Chunk, meant: Flags, id: str | None) -> None:  # noqa: A002
    """Note the ids of rows that are meant, and of those that were learned from labeled inputs."""
    if isinstance(chunk, JoinedChunk):
        for i in np.flatnonzero(meant).tolist():
            taken.named.append(chunk.ids[i])
            if chunk.learned[i]:
                taken.learned.append(chunk.ids[i])
            if chunk.inputs[i]:
                taken.elsewhere[chunk.ids[i]] = chunk.inputs[i]
    elif id in chunk.columns and meant.any():
        texts = cell_parsing.texts(chunk.only(meant), str(id)).to_pylist()
        taken.named += [text for text in texts if text]


def _present(y: Any, places: Any, record: Record | None) -> list[Any]:
    """Return the present labels of rows: those of the input, or those that they got since."""
    labels: list[Any] = y.tolist()
    for label, ranges in () if record is None else record.relabeled:
        for i in np.flatnonzero(records.contains(ranges, places)).tolist():
            labels[i] = label
    return labels


def _relabeled(record: Record, taken: RemovedRows) -> Any:
    """Return which rows have another label than the input has, by their present label."""
    result = {label: records.without(ranges, taken.places) for label, ranges in record.relabeled}
    for label in dict.fromkeys(taken.labels):
        rows = zip(taken.places, taken.given, taken.labels, strict=True)
        places = [place for place, given, now in rows if now == label != given]
        result[label] = records.add_rows(result.get(label, ()), places)
    return tuple((label, ranges) for label, ranges in result.items() if ranges)


def _exchange(learner: TableModel, model: RidgeModel, taken: RemovedRows, times: int) -> None:
    """Subtract rows, and learn them again if they have new labels."""
    if taken.moments is None:
        return
    learner.window = None
    known = model.labels.tolist()
    _subtract(learner, model, taken, times)
    for X, labels, weight in taken.again:
        weight = np.ones(X.shape[0]) if weight is None else weight
        model.learn(X, labels, times * weight, calibrate=False)
    if taken.again and learner.held is not None:
        learner.held = learner.held + times * taken.held
    _drop_unused(learner, known)
    learner.finish()


def _recorded(learner: TableModel, source: Source, key: str) -> Record:
    """Return the record of an input; raise if it was not learned, or cannot be read again."""
    if key.startswith("-"):
        raise DataError("standard input cannot be read twice; unlearn needs a file")
    if os.path.exists(source.path) and not is_regular_file(source.path):
        raise DataError(f"{source.name} cannot be read twice; unlearn needs a file")
    if learner.model is None or not learner.identify(source, key):
        known = ", ".join(learner.records) or "nothing"
        raise DataError(
            f"{source.name} was never learned, under this or any other name; the learned inputs "
            f"are {known}"
        )
    return learner.records[key]


def _subtract(learner: TableModel, model: RidgeModel, taken: RemovedRows, times: int) -> None:
    """Take rows back from the moments and the counts."""
    if taken.moments is not None:
        names = [feature.name for feature in learner.encoding.features]
        model.unlearn(repeated(taken.moments, times), names)
    if learner.held is not None:
        learner.held = learner.held - times * taken.held


def _drop_unused(learner: TableModel, known: list[Any]) -> None:
    """Leave out what no row has any more."""
    model = learner.model
    assert isinstance(model, RidgeModel)
    if learner.held is not None:
        at = model.drop_features(learner.held <= 0)
        learner.held, learner.encoding = learner.held[at], learner.encoding.only(at)
        model.set_imputation(MeanImputation.of(*learner.encoding.fill))
    if model.labels.tolist() != known:
        learner.recent = None


def subtract_encoded(
    learner: TableModel,
    rows: Iterable[tuple[EncodedChunk, ColumnEncoder]],
    times: int,
    strange: DataError,
) -> None:
    """Subtract encoded rows, with their encoding, which count so many times.

    Records stay as they are; the model is changed only if all rows can be subtracted. ``strange``
    is raised if rows have features or labels that were never learned.
    """
    model, encoding = as_ridge(learner.model), learner.encoding
    if model is None:
        raise cannot_unlearn_error(learner.path)
    known, d = model.labels.tolist(), len(encoding.features)
    taken = RemovedRows(None, np.zeros(d, dtype=np.int64))
    for encoded, after in rows:
        if encoded.held[d:].any() or (after.labels == "int") != (encoding.labels == "int"):
            raise strange
        taken.held += encoded.held[:d]
        if encoded.X.shape[0]:
            part = model.moments_of(encoded.X[:, :d], encoded.y, encoded.weight)
            taken.moments = part if taken.moments is None else taken.moments.append(part)
    _subtract(learner, model, taken, times)
    learner.window = None  # it may be about these rows
    _drop_unused(learner, known)


def _places(chunk: Chunk) -> Any:
    """Return the positions of rows within their input, from 0, of shape (rows,)."""
    return np.arange(chunk.first - 1, chunk.first - 1 + chunk.rows)


def repeated(moments: Moments, times: int) -> Moments:
    """Return the moments of rows that count so many times, by doubling."""
    if times == 1:
        return moments
    half = repeated(moments, times // 2)
    twice = half + half
    return twice + moments if times % 2 else twice
