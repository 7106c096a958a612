"""Unlearning and relabeling: rows are read again, subtracted, and learned with new labels."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from counterpoise.solver.imputation import MeanImputation
from counterpoise.tables import records
from counterpoise.tables.delayed_labels import NewLabels, learned_events
from counterpoise.tables.estimator import as_ridge
from counterpoise.tables.event_store import LABELS, EventStore, JoinedChunk
from counterpoise.tables.model import TableModel
from counterpoise.tables.records import Record, RowFilter, UnfiledRows, cannot_unlearn_error


@dataclass(eq=False)
class RemovedRows:
    """Rows that were read again, to be subtracted."""

    held: Counts  # number of these rows that have a value for each feature
    moments: Moments | None = None  # their moments; None of no row
    positions: list[int] = field(default_factory=list)  # within the input, from 0
    labels: list[Any] = field(default_factory=list)  # their labels in the input
    # their new labels, and rows, new labels and weights, if they are to be learned again
    new_labels: list[Any] = field(default_factory=list)
    again: list[tuple[Any, Any, Any]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)  # of events
    # ids of all rows that are meant, also of those that were not learned
    named_ids: list[str] = field(default_factory=list)
    # ids of all rows that are meant and were learned from this input
    learned_ids: set[str] = field(default_factory=set)
    # ids that were learned from labeled inputs, with the names of these inputs
    elsewhere: dict[str, str] = field(default_factory=dict)
    mark: ReadPosition = field(default_factory=ReadPosition)  # read position at the end
    problem: DataError | None = None  # reason why the rows cannot be subtracted

    def append(self, model: RidgeModel, encoded: EncodedChunk, labels: Any) -> None:
        """Add the moments of encoded rows (n, d) with their present labels (n,)."""
        d = len(self.held)
        self.held += encoded.held[:d]
        if encoded.X.shape[0]:
            part = model.moments_of(encoded.X[:, :d], labels, encoded.weight)
            self.moments = part if self.moments is None else self.moments.append(part)


class StoreChange:
    """Changes of the store of pending events that go with changes of the model."""

    def __init__(self, store: EventStore | None) -> None:
        self.store = store
        self.id = None if store is None else store.id  # column of the ids
        self.found: set[str] = set()  # ids of learned rows that were meant
        self._erase: dict[str, None] = {}
        self._relabel: dict[str, str] = {}
        self._revise: dict[str, str] = {}
        self._drop: list[str] = []
        self._elsewhere: dict[str, str] = {}
        self._from_files: set[str] = set()

    def erase(self, ids: Iterable[str]) -> None:
        """Erase ids, their pending events and their labels."""
        self._erase |= dict.fromkeys(ids)

    def add(self, removed: RemovedRows, is_relabeled: bool, is_file: bool) -> None:
        """Add the ids of rows, labeled ones of a file or events, that were changed."""
        self.found |= removed.learned_ids
        self._elsewhere |= removed.elsewhere
        if is_file:
            self._from_files |= removed.learned_ids
        if not is_relabeled:
            self.erase(one for one in removed.named_ids if one not in removed.elsewhere)
        elif not is_file:
            pairs = zip(removed.ids, removed.new_labels, strict=True)
            self._relabel |= {one: str(label) for one, label in pairs}

    def revise_waiting(self, new: NewLabels, rows: Mapping[str, str]) -> int:
        """Replace labels that wait for their events where no learned row was found.

        ``rows`` has the row of each new label. Raise if an id is unknown; return the number of
        labels that were replaced.
        """
        left = [one for one in rows if one not in self.found]
        waiting = [] if self.store is None else self.store.find(left, LABELS)
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
            "erase": self.store.find(self._erase),
            "relabel": self._relabel,
            "revise": self._revise,
            "drop": self._drop,
        }
        if any(change.values()):
            digest = self.store.plan(change)
            learner.set_store_mark(replace(learner.store_mark, hash=digest))


def unlearn(
    learner: TableModel,
    source: Source,
    key: str,
    watch: Callable[[Source, int], None],
    change: StoreChange,
    where: RowFilter | None = None,
    new: NewLabels | None = None,
    events: Record | None = None,
) -> int:
    """Subtract rows of an input, as if they had never been learned, and return their number.

    ``where`` selects rows; those that were unlearned before do not count again. With ``new``, rows
    are learned again with these labels, and rows that have them are left as they are. ``events``
    is the record of an input of events, which were learned with delayed labels, in the store of
    ``change``; pending ones are erased with them. The learner is changed only if all goes well, and
    not saved; ``watch`` gets the number of rows of each chunk.
    """
    is_pipe = key.startswith("-")
    is_file = events is None and not is_pipe
    record = _recorded(learner, source, key) if is_file else None
    model = require_unlearnable(learner)
    id = change.id if new is None or new.id is None else new.id  # noqa: A001
    named = [id, change.id, *(() if where is None else where.values)]
    chunks = _chunks(learner, source, change, where, named, record, events)
    removed = reread_rows(learner, source, chunks, record, where, watch, new, id)
    digest = f"{removed.mark.hash} {'' if where is None else sorted(where.values.items())}".strip()
    if is_pipe and digest in learner.apart.hashes:
        raise DataError(f"{source.name}: these rows were unlearned before; nothing was changed")
    if removed.problem is not None:
        raise removed.problem
    is_whole = where is None and new is None
    if removed.moments is None and (is_pipe or not is_whole or record is None):
        if not is_pipe:
            change.add(removed, new is not None, is_file)
        return 0
    learner.window = None  # it may be about these rows
    old_classes, times = model.labels.tolist(), 1 if record is None else record.times
    _subtract(learner, model, removed, times)
    change.add(removed, new is not None, events is None)
    rows = len(removed.positions)
    if record is None:
        if new is None:
            _unlearn_unfiled(learner, removed, digest if is_pipe else None, where)
    elif is_whole:
        del learner.records[key]
        learner.unlearned += record.mark.rows
        rows = record.mark.rows - records.count(record.gone)
    else:
        gone = records.add_rows(record.gone, removed.positions) if new is None else record.gone
        relabeled = _relabeled(record, removed)
        learner.records[key] = replace(record, gone=gone, relabeled=relabeled)
    _drop_unused(learner, old_classes)
    learner.finish()
    return rows


def _unlearn_unfiled(
    learner: TableModel, removed: RemovedRows, digest: str | None, where: RowFilter | None
) -> None:
    """Record that events, or rows of a pipe with a digest, were unlearned.

    If they are all that was learned from standard input under a name, its record goes too. Else
    their hash is stored, so that the same rows are not unlearned twice.
    """
    mark = removed.mark.rows, removed.mark.hash
    for key, record in learner.records.items() if digest is not None and where is None else ():
        is_same = (record.mark.rows, record.mark.hash) == mark
        if key.startswith("-") and is_same and record.times == 1 and not record.gone:
            learner.unlearned += learner.records.pop(key).mark.rows
            return
    hashes = learner.apart.hashes if digest is None else (*learner.apart.hashes, digest)
    learner.apart = UnfiledRows(learner.apart.rows - len(removed.positions), hashes)


def require_unlearnable(learner: TableModel) -> RidgeModel:
    """Return the model, or raise if rows cannot be unlearned."""
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


def _chunks(
    learner: TableModel,
    source: Source,
    change: StoreChange,
    where: RowFilter | None,
    named: list[str | None],
    record: Record | None,
    events: Record | None,
) -> Iterator[Chunk]:
    """Read an input of which rows are to be unlearned, with the columns that select them."""
    encoding, rows = learner.encoding, learner.chunk_rows
    if record is not None:
        source.verify(record.mark, encoding.columns.is_needed)
    if events is not None:
        source.verify(events.mark, lambda name: True)
    wanted = records.read_also(source, encoding.columns.is_needed, named)
    if events is not None:
        assert change.store is not None
        return learned_events(source, change.store, events, rows, wanted)
    kinds = encoding.columns.read(encoding.kinds)
    kinds = kinds if where is None else where.kinds(kinds)
    until = None if record is None else record.mark.rows
    return source.chunks(rows, ReadPosition(), kinds, wanted, until)


def reread_rows(
    learner: TableModel,
    source: Source,
    chunks: Iterable[Chunk],
    record: Record | None,
    where: RowFilter | None,
    watch: Callable[[Source, int], None],
    new: NewLabels | None,
    id: str | None,  # noqa: A002
) -> RemovedRows:
    """Collect the rows of chunks that are to be subtracted, with their present labels.

    ``record`` has the rows that were learned, and those that were unlearned or relabeled; None of
    a pipe and of events. Rows that have their label of ``new`` stay. ``id`` is the column of the
    ids, if the input may have one.
    """
    model, encoding = learner.model, learner.encoding
    assert isinstance(model, RidgeModel)
    d = len(encoding.features)
    result = RemovedRows(np.zeros(d, dtype=np.int64))
    for chunk in chunks:
        result.mark = chunk.mark
        watch(source, chunk.rows)
        positions = np.arange(chunk.first - 1, chunk.first - 1 + chunk.rows)
        meant = np.ones(chunk.rows, dtype=bool) if where is None else where.of(chunk)
        labels: list[Any] = []
        if new is not None:
            has_label, labels = new.of(chunk)
            meant &= has_label
        if record is not None:
            meant &= positions < record.mark.rows
        _add_ids(result, chunk, meant, id)
        if isinstance(chunk, JoinedChunk):
            meant &= np.array(chunk.learned, dtype=bool)
        if record is not None:
            meant &= ~records.contains(record.gone, positions)
        if not meant.any():
            continue
        encoded, after = encoding.learn(chunk.only(meant), lenient=True)
        if _is_unknown(encoding, encoded, after):
            if record is not None:
                raise input_changed_error(source.name, record.mark)
            result.problem = result.problem or DataError(
                f"{source.name}, row {chunk.first + int(meant.argmax())} or one after it: it has "
                "a category or a column that was never learned; give rows as they were learned"
            )
            continue  # to its end: the same rows may have been unlearned before
        if labels:
            at = np.flatnonzero(meant)[encoded.kept]
            y = _present(encoded.y, positions[at], record)
            meant[:] = False
            meant[[i for i, now in zip(at.tolist(), y, strict=True) if now != labels[i]]] = True
            if not meant.any():
                continue
            encoded, _ = encoding.learn(chunk.only(meant), lenient=True)
        at = np.flatnonzero(meant)[encoded.kept]
        if not len(at):
            continue
        result.append(model, encoded, np.array(_present(encoded.y, positions[at], record)))
        result.positions += positions[at].tolist()
        result.labels += encoded.y.tolist()
        if isinstance(chunk, JoinedChunk):
            result.ids += [chunk.ids[i] for i in at.tolist()]
        if labels:
            more = [labels[i] for i in at.tolist()]
            result.new_labels += more
            result.again.append((encoded.X[:, :d], np.array(more), encoded.weight))
    return result


def _is_unknown(encoding: ColumnEncoder, encoded: EncodedChunk, after: ColumnEncoder) -> bool:
    """Return whether rows have features or labels of a type that were never learned."""
    has_new = encoded.held[len(encoding.features) :].any()
    return bool(has_new) or (after.labels == "int") != (encoding.labels == "int")


def _add_ids(removed: RemovedRows, chunk: Chunk, meant: Flags, id: str | None) -> None:  # noqa: A002
    """Add the ids of rows that are meant, and of those that were learned from labeled inputs."""
    if isinstance(chunk, JoinedChunk):
        for i in np.flatnonzero(meant).tolist():
            removed.named_ids.append(chunk.ids[i])
            if chunk.learned[i]:
                removed.learned_ids.add(chunk.ids[i])
            if chunk.inputs[i]:
                removed.elsewhere[chunk.ids[i]] = chunk.inputs[i]
    elif id in chunk.columns and meant.any():
        texts = cell_parsing.texts(chunk.only(meant), str(id)).to_pylist()
        removed.named_ids += filter(None, texts)
        removed.learned_ids.update(filter(None, texts))


def _present(y: Any, positions: Any, record: Record | None) -> list[Any]:
    """Return the present labels of rows: those of the input, or those that they got since."""
    labels: list[Any] = y.tolist()
    for label, ranges in () if record is None else record.relabeled:
        for i in np.flatnonzero(records.contains(ranges, positions)).tolist():
            labels[i] = label
    return labels


def _relabeled(record: Record, removed: RemovedRows) -> Any:
    """Return which rows have another label than the input has, by their present label."""
    result = {
        label: records.without(ranges, removed.positions) for label, ranges in record.relabeled
    }
    for label in dict.fromkeys(removed.new_labels):
        rows = zip(removed.positions, removed.labels, removed.new_labels, strict=True)
        changed = [position for position, before, now in rows if now == label != before]
        result[label] = records.add_rows(result.get(label, ()), changed)
    return tuple((label, ranges) for label, ranges in result.items() if ranges)


def _recorded(learner: TableModel, source: Source, key: str) -> Record:
    """Return the record of an input; raise if it was not learned, or cannot be read again."""
    if os.path.exists(source.path) and not is_regular_file(source.path):
        raise DataError(f"{source.name} cannot be read twice; unlearn needs a file")
    if learner.model is None or not learner.identify(source, key):
        raise DataError(
            f"{source.name} was never learned, under this or any other name; the learned inputs "
            f"are {', '.join(learner.records) or 'nothing'}"
        )
    return learner.records[key]


def _subtract(learner: TableModel, model: RidgeModel, removed: RemovedRows, times: int) -> None:
    """Subtract rows from the moments and the counts, and learn them again with new labels."""
    if removed.moments is not None:
        names = [feature.name for feature in learner.encoding.features]
        model.unlearn(repeated(removed.moments, times), names)
    for X, labels, weight in removed.again:
        weight = np.ones(X.shape[0]) if weight is None else weight
        model.learn(X, labels, times * weight, calibrate=False)
    if learner.held is not None and not removed.again:
        learner.held = learner.held - times * removed.held


def _drop_unused(learner: TableModel, old_classes: list[Any]) -> None:
    """Remove features and scores of classes that no row has any more."""
    model = learner.model
    assert isinstance(model, RidgeModel)
    if learner.held is not None:
        at = model.drop_features(learner.held <= 0)
        learner.held, learner.encoding = learner.held[at], learner.encoding.only(at)
        model.set_imputation(MeanImputation.of(*learner.encoding.fill))
    if model.labels.tolist() != old_classes:
        learner.recent = None


def subtract_encoded(
    learner: TableModel, rows: Iterable[tuple[EncodedChunk, ColumnEncoder]], unknown: DataError
) -> int:
    """Subtract encoded rows, with their encoding, and return their number, those dropped included.

    Records stay as they are; the model is changed only if all rows can be subtracted. ``unknown``
    is raised if rows have features or labels that were never learned.
    """
    model, encoding = as_ridge(learner.model), learner.encoding
    if model is None:
        raise cannot_unlearn_error(learner.path)
    old_classes, n = model.labels.tolist(), 0
    removed = RemovedRows(np.zeros(len(encoding.features), dtype=np.int64))
    for encoded, after in rows:
        if _is_unknown(encoding, encoded, after):
            raise unknown
        removed.append(model, encoded, encoded.y)
        n += len(encoded.kept)
    _subtract(learner, model, removed, 1)
    learner.window = None  # it may be about these rows
    _drop_unused(learner, old_classes)
    return n


def repeated(moments: Moments, times: int) -> Moments:
    """Return the moments of rows that count ``times`` times, by doubling."""
    if times == 1:
        return moments
    half = repeated(moments, times // 2)
    twice = half + half
    return twice + moments if times % 2 else twice
