"""Unlearning and relabeling: rows are read again, subtracted, and learned with new labels."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from counterpoise.arrays import Counts, Flags, Vector, is_sparse, one_thread
from counterpoise.encoding import cell_parsing
from counterpoise.encoding.encoder import ColumnEncoder, EncodedChunk
from counterpoise.engine.ridge import RidgeModel
from counterpoise.errors import DataError
from counterpoise.moments.moments import Moments
from counterpoise.readers.byte_source import is_regular_file
from counterpoise.readers.chunk import Chunk, ReadPosition, Source, input_changed_error
from counterpoise.solver.imputation import MeanImputation
from counterpoise.tables import records
from counterpoise.tables.delayed_labels import NewLabels, read_learned_events
from counterpoise.tables.estimator import as_ridge
from counterpoise.tables.event_database import LABELS, EventDatabase, JoinedChunk
from counterpoise.tables.model import TableModel, scale_weights
from counterpoise.tables.records import Record, RowFilter, UnfiledRows, cannot_unlearn_error
from counterpoise.tables.scoring import select_rows


class StoreChange:
    """Changes of the store of pending events that belong to changes of the model."""

    def __init__(self, store: EventDatabase | None) -> None:
        self.store = store
        self.id = None if store is None else store.id  # column of the ids
        self.matched_rows = 0  # rows that met the conditions, whether they are changed or not
        self._learned: set[str] = set()  # ids of the learned rows of the named files
        self._labeled: set[str] = set()  # those of labeled files
        self._elsewhere: dict[str, str] = {}  # names of labeled inputs of events, by id
        self._erase: dict[str, None] = {}
        self._relabel: dict[str, str] = {}
        self._revise: dict[str, str] = {}
        self._drop: list[str] = []

    def erase(self, ids: Iterable[str]) -> None:
        """Erase ids, their pending events and their labels."""
        self._erase |= dict.fromkeys(ids)

    def relabel(self, labels: Mapping[str, Any]) -> None:
        """Replace the labels of learned events, by id."""
        self._relabel |= {one: str(label) for one, label in labels.items()}

    def drop_input(self, key: str) -> None:
        """Remove the record of an input of events, so that the input can be added again."""
        self._drop.append(key)

    def add_events(self, chunk: JoinedChunk, selected: Flags, is_relabeled: bool) -> None:
        """Add selected events (rows,); unless they are relabeled, they are erased."""
        for row in np.flatnonzero(selected).tolist():
            if chunk.inputs[row]:
                self._elsewhere[chunk.ids[row]] = chunk.inputs[row]
            elif not is_relabeled:
                self._erase[chunk.ids[row]] = None
            if chunk.is_learned[row]:
                self._learned.add(chunk.ids[row])

    def add_labeled(self, ids: list[str], is_relabeled: bool) -> None:
        """Add the ids of rows of a labeled input; unless they are relabeled, they are erased."""
        self._learned.update(ids)
        self._labeled.update(ids)
        if not is_relabeled:
            self.erase(ids)

    def revise_waiting(self, new: NewLabels, rows: Mapping[str, str]) -> int:
        """Replace waiting labels for which no learned row was found, and return their number.

        ``rows`` has the row of each new label. Raise if an id is unknown.
        """
        others = [one for one in rows if one not in self._learned]
        waiting = [] if self.store is None else self.store.find(others, LABELS)
        for one in others:
            if one not in waiting:
                raise DataError(
                    f"{rows[one]}: no learned row of the named files has {new.id} {one!r}; name "
                    "the file of its event, or leave the label out"
                )
        self._revise |= {one: str((new.by_id or {})[one]) for one in waiting}
        return len(waiting)

    def plan(self, learner: TableModel) -> None:
        """Record the changes in the store, and in the model, which is not saved yet."""
        for one, key in self._elsewhere.items():
            if one not in self._labeled:
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


@dataclass(eq=False)
class RemovedRows:
    """Rows that were read again, to be subtracted."""

    held: Counts  # number of rows that have a value for each feature, unless rows are relabeled
    # number of rows that have a category, by column with many of them
    category_rows: Counter[str] = field(default_factory=Counter)
    moments: Moments | None = None  # None of no row
    positions: list[int] = field(default_factory=list)  # within the input, from 0
    labels: list[Any] = field(default_factory=list)  # in the input
    new_labels: list[Any] = field(default_factory=list)
    # features, new labels and weights of rows that are learned again
    relabeled: list[tuple[Any, Any, Any]] = field(default_factory=list)
    mark: ReadPosition = field(default_factory=ReadPosition)  # read position at the end
    problem: DataError | None = None  # reason why the rows cannot be subtracted

    def append(self, model: RidgeModel, encoded: EncodedChunk, names: Any, labels: Any) -> None:
        """Add the moments of encoded rows with their present labels (n,).

        ``names`` are those of the columns of codes.
        """
        d = len(self.held)
        self.held += encoded.held[:d]
        X = encoded.X
        for b, name in enumerate(names):
            codes = X[:, [X.shape[1] - len(names) + b]]
            self.category_rows[name] += codes.nnz if is_sparse(codes) else int((codes > 0).sum())
        if X.shape[0]:
            part = model.moments_of(X, labels, encoded.weight)
            self.moments = part if self.moments is None else self.moments.append(part)

    def append_chunk(
        self,
        learner: TableModel,
        chunk: Chunk,
        selected: Flags,
        record: Record | None,
        new_labels: list[Any],
    ) -> list[int]:
        """Add selected rows that do not have their new label yet, and return their indices.

        ``record`` has the labels that rows got since; None of a pipe and of events.
        """
        encoding, model = learner.encoding, learner.model
        assert isinstance(model, RidgeModel)
        encoded, after = encoding.learn(chunk.only(selected), lenient=True)
        if _is_unknown(encoding, encoded, after):
            if record is not None:
                raise input_changed_error(chunk.source, record.mark)
            self.problem = self.problem or DataError(
                f"{chunk.source}, row {chunk.first + int(selected.argmax())} or one after it: it "
                "has a category or a column that was never learned; give rows as they were learned"
            )
            return []
        rows = np.flatnonzero(selected)[encoded.kept]
        y = _present_labels(encoded.y, chunk.first - 1 + rows, record)
        if new_labels:
            pairs = zip(rows.tolist(), y, strict=True)
            differs = np.array([label != new_labels[row] for row, label in pairs], dtype=bool)
            rows, encoded = rows[differs], select_rows(encoded, differs)
            y = np.array(y)[differs].tolist()
        found: list[int] = rows.tolist()
        if found:
            self.append(model, encoded, encoding.vocabularies, np.array(y))
            self.positions += (chunk.first - 1 + rows).tolist()
            self.labels += encoded.y.tolist()
        if found and new_labels:
            labels = [new_labels[row] for row in found]
            self.new_labels += labels
            self.relabeled.append((encoded.X, np.array(labels), encoded.weight))
        return found


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
    is_pipe, is_relabeled = key.startswith("-"), new is not None
    record = _find_record(learner, source, key) if events is None and not is_pipe else None
    require_unlearnable(learner)
    id = change.id if new is None or new.id is None else new.id  # noqa: A001
    removed = RemovedRows(np.zeros(len(learner.encoding.features), dtype=np.int64))
    for chunk in _read_again(learner, source, change.store, where, {id, change.id}, record, events):
        watch(source, chunk.rows)
        removed.mark = chunk.mark
        selected = np.ones(chunk.rows, dtype=bool) if where is None else where.select(chunk)
        change.matched_rows += int(selected.sum())
        labels: list[Any] = []
        if new is not None:
            has_label, labels = new.find(chunk)
            selected &= has_label
        positions = chunk.first - 1 + np.arange(chunk.rows)
        if record is not None:
            selected &= positions < record.mark.rows
        if isinstance(chunk, JoinedChunk):
            change.add_events(chunk, selected, is_relabeled)
            selected &= np.array(chunk.is_learned, dtype=bool)
        elif id in chunk.columns and selected.any():
            texts = cell_parsing.texts(chunk.only(selected), str(id)).to_pylist()
            change.add_labeled(list(filter(None, texts)), is_relabeled)
        if record is not None:
            selected &= ~records.contains(record.gone, positions)
        if selected.any():
            rows = removed.append_chunk(learner, chunk, selected, record, labels)
            if isinstance(chunk, JoinedChunk) and is_relabeled:
                change.relabel({chunk.ids[row]: labels[row] for row in rows})
    digest = f"{removed.mark.hash} {'' if where is None else sorted(where.values.items())}".strip()
    # An input that was read to its end may be one that was unlearned before.
    if is_pipe and digest in learner.apart.hashes:
        raise DataError(f"{source.name}: these rows were unlearned before; nothing was changed")
    if removed.problem is not None:
        raise removed.problem
    is_complete = record is not None and where is None and not is_relabeled
    if removed.moments is None and not is_complete:
        return 0
    _subtract(learner, removed, 1 if record is None else record.times)
    rows_removed = len(removed.positions)
    if record is None:
        if not is_relabeled:
            _unlearn_unfiled(learner, removed, digest if is_pipe else None, where)
    elif is_complete:
        del learner.records[key]
        learner.unlearned += record.mark.rows
        rows_removed = record.mark.rows - records.count(record.gone)
    elif is_relabeled:
        learner.records[key] = replace(record, relabeled=_relabeled_ranges(record, removed))
    else:
        gone = records.add_rows(record.gone, removed.positions)
        relabeled = _relabeled_ranges(record, removed)
        learner.records[key] = replace(record, gone=gone, relabeled=relabeled)
    learner.finish()
    return rows_removed


def _find_record(learner: TableModel, source: Source, key: str) -> Record:
    """Return the record of an input; raise if it was not learned, or cannot be read again."""
    if os.path.exists(source.path) and not is_regular_file(source.path):
        raise DataError(f"{source.name} cannot be read twice; unlearn needs a file")
    if learner.model is None or not learner.identify(source, key):
        raise DataError(
            f"{source.name} was never learned, under this or any other name; the learned inputs "
            f"are {records.format_inputs(learner.records)}"
        )
    return learner.records[key]


def _read_again(
    learner: TableModel,
    source: Source,
    store: EventDatabase | None,
    where: RowFilter | None,
    ids: set[str | None],
    record: Record | None,
    events: Record | None,
) -> Iterator[Chunk]:
    """Read an input again, with the columns that select rows and those of ids, if any."""
    columns, rows = learner.encoding.columns, learner.chunk_rows
    if record is not None:
        source.verify(record.mark, columns.is_needed)
    if events is not None:
        source.verify(events.mark, lambda name: True)
    wanted = records.read_also(
        source, columns.is_needed, [*ids, *(() if where is None else where.values)]
    )
    if events is not None:
        assert store is not None
        return read_learned_events(source, store, events, rows, wanted)
    kinds = columns.read(learner.encoding.kinds)
    kinds = kinds if where is None else where.kinds(kinds)
    until = None if record is None else record.mark.rows
    return source.chunks(rows, ReadPosition(), kinds, wanted, until)


def _unlearn_unfiled(
    learner: TableModel, removed: RemovedRows, digest: str | None, where: RowFilter | None
) -> None:
    """Record that events, or rows of a pipe with a digest, were unlearned.

    If they are all that was learned from standard input under a name, its record is removed. Else
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


def _is_unknown(encoding: ColumnEncoder, encoded: EncodedChunk, after: ColumnEncoder) -> bool:
    """Return whether rows have features or labels of a type that were never learned."""
    has_new = bool(encoded.held[len(encoding.features) :].any())
    before = encoding.vocabularies
    for name, vocabulary in after.vocabularies.items():
        has_new = has_new or name not in before or vocabulary.size > before[name].size
    return bool(has_new) or (after.labels == "int") != (encoding.labels == "int")


def _present_labels(y: Any, positions: Any, record: Record | None) -> list[Any]:
    """Return the present labels of rows: those of the input, or those that they got since."""
    labels: list[Any] = y.tolist()
    for label, ranges in () if record is None else record.relabeled:
        for i in np.flatnonzero(records.contains(ranges, positions)).tolist():
            labels[i] = label
    return labels


def _relabeled_ranges(record: Record, removed: RemovedRows) -> Any:
    """Return the rows that have another label than the input has, by their present label."""
    result = {
        label: records.remove_rows(ranges, removed.positions) for label, ranges in record.relabeled
    }
    for label in dict.fromkeys(removed.new_labels):
        rows = zip(removed.positions, removed.labels, removed.new_labels, strict=True)
        changed = [position for position, before, now in rows if now == label != before]
        result[label] = records.add_rows(result.get(label, ()), changed)
    return tuple((label, ranges) for label, ranges in result.items() if ranges)


def _subtract(learner: TableModel, removed: RemovedRows, times: int) -> None:
    """Subtract rows from the moments and the counts, and learn them again with new labels.

    Features and classes that no row has any more are removed.
    """
    model = learner.model
    assert isinstance(model, RidgeModel)
    old_classes = model.labels.tolist()
    learner.window = None  # it may be about these rows
    if removed.moments is not None:
        names = [feature.name for feature in learner.encoding.features]
        model.unlearn(repeat_moments(removed.moments, times), names)
    for X, labels, weight in removed.relabeled:
        weight = np.ones(X.shape[0]) if weight is None else weight
        model.learn(X, labels, times * weight, calibrate=False)
    if learner.held is not None:
        if not removed.relabeled:
            learner.held = learner.held - times * removed.held
        at = model.drop_features(learner.held <= 0)
        learner.held, learner.encoding = learner.held[at], learner.encoding.only(at)
        if learner.encoding.vocabularies and not removed.relabeled:
            counts = {name: times * n for name, n in removed.category_rows.items()}
            stay = model.drop_categories()
            learner.encoding = learner.encoding.without_categories(counts, stay)
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
    model, encoding, n = require_unlearnable(learner), learner.encoding, 0
    removed = RemovedRows(np.zeros(len(encoding.features), dtype=np.int64))
    for encoded, after in rows:
        if _is_unknown(encoding, encoded, after):
            raise unknown
        removed.append(model, encoded, encoding.vocabularies, encoded.y)
        n += len(encoded.kept)
    _subtract(learner, removed, 1)
    return n


def subtract_events(
    learner: TableModel, chunk: Chunk, weight: Vector | None, new_labels: list[Any] | None
) -> None:
    """Subtract events with their labels and weights (rows,), or learn them with new labels.

    Raise, and leave the model unchanged, if it cannot have learned them.
    """
    model, encoding = require_unlearnable(learner), learner.encoding
    removed = RemovedRows(np.zeros(len(encoding.features), dtype=np.int64))
    encoded, after = encoding.learn(chunk, lenient=True)
    if _is_unknown(encoding, encoded, after):
        raise DataError(f"{chunk.source}: an event has values that were never learned")
    encoded = scale_weights(encoded, weight)
    removed.append(model, encoded, encoding.vocabularies, encoded.y)
    if new_labels is not None:
        labels = np.array(new_labels)[encoded.kept]
        removed.relabeled.append((encoded.X, labels, encoded.weight))
    with one_thread():
        _subtract(learner, removed, 1)
    if new_labels is None:
        rows = learner.apart.rows - int(encoded.kept.sum())
        learner.apart = UnfiledRows(rows, learner.apart.hashes)
    learner.finish()


def repeat_moments(moments: Moments, times: int) -> Moments:
    """Return the moments of rows that count ``times`` times, by doubling."""
    if times == 1:
        return moments
    half = repeat_moments(moments, times // 2)
    twice = half + half
    return twice + moments if times % 2 else twice
