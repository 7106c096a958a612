"""A model and its pending events: predict now, learn when the label comes, lose nothing.

Ids and rows are committed in one transaction of the store, together with a log of what the model
has learned since its file was saved. Predictions and changes are made by one process at a time.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.ipc
from xxhash import xxh3_128_hexdigest

from counterpoise.atomic_write import lock_file
from counterpoise.errors import DataError, Suggestion, finite
from counterpoise.readers.chunk import Chunk, ReadPosition
from counterpoise.tables.alerts import Alerts
from counterpoise.tables.delayed_labels import PendingRows, drop_id
from counterpoise.tables.event_chunks import (
    ENCODER,
    SINGLE_FORM,
    chunk_of_events,
    conflict,
    hash_event,
    id_of,
    is_same_event,
    pack_chunk,
    require_no_label,
    require_object,
    row_error,
    texts_by_id,
    to_bytes,
    unpack_chunk,
    with_labels,
)
from counterpoise.tables.event_database import (
    ALONE,
    EVENTS,
    KEPT,
    LABELS,
    LEARNED,
    LOG,
    ROWS,
    SINGLE,
    Batch,
    EventDatabase,
    EventRow,
    LearnedLabel,
    LogEntry,
    StoredRow,
    form_of,
    pending_path,
)
from counterpoise.tables.guards import label_text
from counterpoise.tables.model import TableModel
from counterpoise.tables.predict import Predictor
from counterpoise.tables.records import PENDING
from counterpoise.tables.unlearn import subtract_events

PLACE = "the input"  # in messages
MAX_SHORT = 1_000  # rows of a change that is not compressed
# What became of a label
WAITING, REVISED, UNCHANGED, IGNORED = "waiting", "revised", "unchanged", "ignored"


@dataclass(frozen=True)
class PredictionSettings:
    """Settings of the predictions of a store."""

    alerts: Alerts | None = None  # the rule that decides which events get an alert
    explain: int = 0  # columns that contribute most
    explore: float = 0.0  # share of alerts that are dropped, so that their labels come
    positive: str | None = None  # the class of the alerts


class NewLabel(NamedTuple):
    """Label that was given, checked."""

    id: str
    label: Any  # as the model has it
    event: str | None  # the event as a JSON object, if it was given too


class Learning(NamedTuple):
    """Event that is learned now."""

    row: StoredRow  # where it is
    label: Any
    event: str  # as a JSON object, if it came alone
    weight: float


class EventStore:
    r"""A model, its pending events by id, and labels that wait for their events.

    Every change is complete on the disk when its method returns, or did not happen. An event is
    learned exactly once, when it and its label exist. If the process is killed, the model is
    rebuilt bit-identically from its last saved file and the log in the store. The store is a file
    next to the model, which the commands ``learn``, ``unlearn`` and ``relabel`` use too. Both files
    are locked while they are open.

    Parameters
    ----------
    model : str
        The model file, which has learned rows of at least two classes.
    id : str, optional
        The column that joins events and labels. A new store requires it.
    keep : bool, default=False
        Whether events are kept when they are learned, so that their labels can be revised and they
        can be erased by id alone. Otherwise this requires the event again.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pyarrow as pa
    >>> from counterpoise import EventStore, TableClassifier
    >>> table = pa.table({"amount": [1.0, 2.0, 8.0, 9.0], "fraud": ["no", "no", "yes", "yes"]})
    >>> path = str(pathlib.Path(tempfile.mkdtemp()) / "fraud.safetensors")
    >>> TableClassifier().fit(table, "fraud").save(path)
    >>> with EventStore(path, id="payment") as store:
    ...     (answer,) = store.predict([{"payment": "p1", "amount": 7.5}])
    ...     print(answer["prediction"], len(store))
    ...     print(store.label([{"payment": "p1", "fraud": "no"}]), len(store))
    ...     print(store.label([{"payment": "p2", "fraud": "yes"}]), store.waiting_labels)
    yes 1
    ['learned'] 0
    ['waiting'] 1
    """

    def __init__(self, model: str, id: str | None = None, keep: bool = False) -> None:  # noqa: A002
        self.keep = keep
        self._path, self._settings = model, PredictionSettings()
        self._predictor: tuple[str, Predictor] | None = None  # of a version of the model
        self._is_grouped = False
        self._is_torn = False  # whether a change of the model was not completed
        # gets each label whose event was predicted, with the answer that was given
        self.on_label: Callable[[Mapping[str, Any], Any], None] = lambda answer, label: None
        with ExitStack() as stack:
            if not os.path.exists(model):
                TableModel.load(model)  # which raises
            stack.enter_context(lock_file(model))
            self._store = EventDatabase(pending_path(model), id)
            self._base = self._store.base
            stack.callback(self._store.close)
            learner = self._read_model()
            recover(self._store, learner)
            if len(learner.classes) < 2:
                raise DataError(
                    f"{model} has learned rows of one class only; learn rows of another class first"
                )
            self._learner: TableModel | None = learner
            self._open = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __len__(self) -> int:
        """Return the number of pending events."""
        return len(self._store)

    def close(self) -> None:
        """Save the model, if it has changed, and close the store."""
        stack, self._open = self._open, ExitStack()
        with stack:
            if self._learner is not None and self.unsaved_changes:
                self.save()

    @property
    def model(self) -> TableModel:
        """The model with its columns."""
        if self._learner is None:
            raise DataError(f"{self._path} cannot be read again; start again")
        return self._learner

    @property
    def id(self) -> str:
        """Column that joins events and labels."""
        return self._store.id

    @property
    def learned_ids(self) -> int:
        """Number of ids of events that were learned."""
        return self._store.learned_ids

    @property
    def waiting_labels(self) -> int:
        """Number of labels whose event did not come yet."""
        return self._store.waiting_labels

    @property
    def version(self) -> str:
        """Version of the model: a hash of all that was learned through the store, in order."""
        return version_of(self.model)

    @property
    def quality(self) -> dict[tuple[Any, Any], int]:
        """Numbers of labels by label and prediction, as it was given."""
        return {(true, predicted): n for true, predicted, n in self._base.state["quality"]}

    @property
    def unsaved_changes(self) -> int:
        """Number of changes in the log, which the model file does not contain yet."""
        return self._base.count(LOG)

    def set_predictions(self, settings: PredictionSettings) -> None:
        """Set what answers contain.

        Parameters
        ----------
        settings : PredictionSettings
            The rule of alerts, if there is one, how many columns that contribute most are named,
            and the share of alerts that are dropped at random, so that labels come for them. The
            rows of dropped alerts are learned with the weight 1 / share, and rows of other alerts
            are not learned.
        """
        if not 0.0 <= settings.explore < 1.0:
            raise DataError(f"explore must be at least 0 and below 1; got {settings.explore:g}")
        if settings.explore and settings.alerts is None:
            raise DataError("explore requires a rule of alerts")
        self._settings = settings
        self._predictor = None

    # Transactions

    @contextmanager
    def group(self) -> Iterator[None]:
        """Commit all changes inside the context in one transaction.

        If it cannot be committed, the store and the model are as they were before.

        Yields
        ------
        None
        """
        if self._is_grouped:
            yield
            return
        before = self.version
        self._is_grouped, self._is_torn = True, False
        try:
            with self._base.transaction():
                yield
                if self._is_torn:
                    raise DataError(
                        f"{self._store.path}: a change was not completed; send it again"
                    )
        except BaseException:
            if self._is_torn or self.version != before:
                self._rebuild()
            raise
        finally:
            self._is_grouped = False

    def save(self) -> None:
        """Save the model file, and empty the log that it contains now."""
        model = self.model
        model.finish()
        model.save()
        self._store.settle(model.store_mark)
        self._base.checkpoint()

    def _read_model(self) -> TableModel:
        columns = drop_id({}, self.id, self._path)
        return TableModel.open(self._path, columns, {}).require_learned()

    def _rebuild(self) -> None:
        """Read the model file, and repeat the log."""
        self._predictor, self._learner = None, None
        learner = self._read_model()
        repeat_log(self._store, learner)
        self._learner, self._is_torn = learner, False

    def _change_model(self, kind: str, chunk: Chunk, weights: list[float], new: Any = None) -> None:
        """Change the model by rows with their labels, and add the change to the log.

        ``kind`` is "learn" or "unlearn", and ``new`` are labels with which rows are learned again.
        """
        model, base = self.model, self._base
        form, columns = pack_chunk(chunk)
        given = None if all(weight == 1.0 for weight in weights) else weights
        change = {"kind": kind, "form": form, "weights": given, "new": new}
        text, data = (
            json.dumps(change),
            to_bytes(pa.table(columns), is_short=chunk.rows < MAX_SHORT),
        )
        before = model.store_mark.hash
        digest = xxh3_128_hexdigest(f"{before}{text}{xxh3_128_hexdigest(data)}".encode())
        try:
            _apply(model, chunk, change, digest)
        except BaseException:
            if model.store_mark.hash != before or self._is_torn:
                self._is_torn = True
            else:
                self._rebuild()  # features may have been added
            raise
        self._is_torn = True  # until all of the change is written
        base.state["logged"] += 1
        base.insert(LOG, [LogEntry(base.state["logged"], digest, text, data)])

    # Predictions

    def predict(self, events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Predict events and store them, with their answers, until their labels come.

        Parameters
        ----------
        events : sequence of dict
            The id and the features of each event. An id that is pending with the same features
            gets the same answer again.

        Returns
        -------
        list of dict
            For each event its id and the columns of ``counterpoise predict``: ``prediction``,
            ``score``, ``proba_balanced_...`` and ``proba_stream_...`` of each class, ``alert`` if
            there is a rule, ``reason_1``, ``share_1`` and so on, and the version of the ``model``.
        """
        return [json.loads(text) for text in self.predict_texts(events)]

    def predict_texts(self, events: Sequence[Mapping[str, Any]]) -> list[str]:
        """Predict events as :meth:`predict` does, and return the answers as JSON."""
        texts = texts_by_id(self.id, events)
        before, learned = self._store.stored_rows(EVENTS, texts), self._store.find_learned(texts)
        rows = self._store.find_rows(before) if before else {}
        for k, (one, text) in enumerate(texts.items()):
            if one in learned:
                raise conflict(k, f"{self.id} {one!r} was learned already; give a new id")
            if one in before and (one not in rows or not is_same_event(rows[one].event, text)):
                origin = f" in {self._store.origins([before[one]])[0]}" if one not in rows else ""
                text = f"{self.id} {one!r} was given with other features{origin}; give a new id"
                raise conflict(k, text)
        new = {one: text for one, text in texts.items() if one not in rows}
        answers = {one: row.answer for one, row in rows.items()}
        if new:
            with self.group():
                given = events if len(new) == len(events) else None
                added = self._predict_new(new, given)
                self._base.insert(ROWS, added)
                answers |= {row.id: row.answer for row in added}
                self._learn_waiting({row.id: row for row in added})
        return [answers[one] for one in texts]

    def _predict_new(
        self, texts: Mapping[str, str], events: Sequence[Mapping[str, Any]] | None
    ) -> list[EventRow]:
        """Return new events, perhaps parsed already, with their answers."""
        version, model = self.version, self.model
        if self._predictor is None or self._predictor[0] != version:
            self._predictor = version, predictor_of(model, self._settings)
        rows = answer_events(self._predictor[1], model, self.id, texts, events)
        explore = self._settings.explore
        return [explore_alert(row, explore) for row in rows] if explore else rows

    # Labels

    def label(self, labels: Sequence[Mapping[str, Any]]) -> list[str]:
        """Learn events whose labels have come, and correct labels.

        Parameters
        ----------
        labels : sequence of dict
            The id and the label of each event. To correct the label of an event that was learned
            and not kept, the dict also has all features of the event.

        Returns
        -------
        list of str
            For each label "learned", "waiting" (its event did not come yet), "revised",
            "unchanged", or "ignored" (its event had an alert, and alerts are explored).
        """
        given, events, name = list[NewLabel](), False, self._store.label
        for k, row in enumerate(labels):
            require_object(k, row)
            if name not in row:
                raise row_error(k, f"no label in field {name!r}; give it", name)
            given.append(NewLabel(id_of(self.id, k, row), self._typed_label(k, row[name]), None))
            events = events or len(row) > 2
        if events:
            rest = [{n: v for n, v in row.items() if n != name} for row in labels]
            texts = texts_by_id(self.id, rest)
            given = [
                one._replace(event=texts[one.id] if len(row) > 1 else None)
                for one, row in zip(given, rest, strict=True)
            ]
        return self._change_labels(given)

    def learn(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Learn events that have their labels already.

        Parameters
        ----------
        rows : sequence of dict
            The id, the features and the label of each event.

        Returns
        -------
        list of str
            As of :meth:`label`.
        """
        for k, row in enumerate(rows):
            require_object(k, row)
            if not set(row) - {self.id, self._store.label}:
                raise row_error(k, "an event without features; give them")
        return self.label(rows)

    def _change_labels(self, given: Sequence[NewLabel]) -> list[str]:
        ids = [one.id for one in given]
        if len(set(ids)) < len(ids):
            twice = next(one for one, n in Counter(ids).items() if n > 1)
            raise row_error(ids.index(twice), f"{self.id} {twice!r} occurs twice", self.id)
        learned, waiting = self._store.find_learned(ids), self._store.stored_rows(LABELS, ids)
        pending, rows = self._store.stored_rows(EVENTS, ids), self._store.find_rows(ids)
        now, later, results = list[Learning](), dict[str, str](), list[str]()
        revised = list[tuple[NewLabel, LearnedLabel, str]]()
        for k, one in enumerate(given):
            text, row = label_text(one.label), pending.get(one.id)
            if one.id in learned:
                before = learned[one.id]
                if before.label == text:
                    results.append(UNCHANGED)
                    continue
                revised.append((one, before, self._learned_event(k, one, before)))
                results.append(REVISED)
                continue
            if row is not None:
                stored = rows.get(one.id)
                if one.event is not None and not (
                    stored and is_same_event(stored.event, one.event)
                ):
                    raise conflict(k, f"{self.id} {one.id!r} was given with other features")
                weight = 1.0 if stored is None else stored.weight
                event = "" if stored is None else stored.event
                now.append(Learning(row, one.label, event, weight))
            elif one.event is not None:
                alone = StoredRow(one.id, SINGLE, 0)
                now.append(Learning(alone, one.label, one.event, 1.0))
            else:
                is_known = one.id in waiting and waiting[one.id].label == text
                results.append(UNCHANGED if is_known else WAITING)
                if not is_known:
                    later[one.id] = text
                    results[-1] = REVISED if one.id in waiting else WAITING
                continue
            results.append(IGNORED if now[-1].weight == 0.0 else "learned")
        with self.group():
            self._learn(now)
            self._revise(revised)
            if later:
                self._add_waiting(later)
            self._is_torn = False
        return results

    def _learned_event(self, k: int, one: NewLabel, before: LearnedLabel) -> str:
        """Return an event that was learned, to be unlearned or learned with another label."""
        kept = self._base.select(KEPT, [one.id])
        event = kept[one.id][1] if one.id in kept else one.event
        if before.input or not before.features:
            raise conflict(k, f"{self.id} {one.id!r} was learned from a file; use the shell")
        if event is None:
            text = f"the features of {self.id} {one.id!r} were deleted when it was learned"
            raise conflict(k, f"{text}; give them again")
        if hash_event(event) != before.features:
            raise conflict(k, f"{self.id} {one.id!r} was learned with other features")
        return event

    def _learn(self, rows: Sequence[Learning]) -> None:
        """Learn events, and delete them from the pending ones, inside a transaction."""
        if not rows:
            return
        batches = self._store.batches({one.row.batch for one in rows} - {SINGLE})
        forms: dict[str, list[Learning]] = {}
        for one in rows:
            if one.weight:
                forms.setdefault(form_of(one.row, batches), []).append(one)
        answers = {
            one: row.answer for one, row in self._store.find_rows(r.row.id for r in rows).items()
        }
        for form, group in forms.items():
            chunk = self._labeled_chunk(json.loads(form), group)
            self._change_model("learn", chunk, [one.weight for one in group])
        base, ids = self._base, [one.row.id for one in rows]
        self._store.remove(EVENTS, ids)
        self._store.remove(LABELS, ids)
        learned = [
            (r.row.id, label_text(r.label), "", hash_event(r.event) if r.event else "", r.weight)
            for r in rows
        ]
        base.insert(LEARNED, learned)
        if self.keep:
            base.insert(KEPT, [(r.row.id, r.event) for r in rows if r.event])
        self._count_quality((answers[r.row.id], r.label) for r in rows if r.row.id in answers)

    def _labeled_chunk(self, form: Mapping[str, Any], rows: Sequence[Learning]) -> Chunk:
        """Return events of one form with their labels."""
        encoding = self.model.encoding
        columns = encoding.columns
        if form == SINGLE_FORM:
            kinds = columns.read({**columns.explicit_types, **encoding.kinds})
            events = [one.event for one in rows]
            chunk = chunk_of_events(events, PLACE, kinds, columns.is_needed)
            self._require_known(chunk)
        else:
            chunk = self._store.read_events([one.row for one in rows], form, columns.is_needed)
        labels = [one.label for one in rows]
        return with_labels(chunk, self._store.label, _label_column(labels, encoding.labels))

    def _require_known(self, chunk: Chunk) -> None:
        """Raise if events have columns that the model has not learned."""
        unknown = self.model.encoding.unknown_columns(chunk)
        if unknown:
            raise DataError(
                f"{PLACE} has a column {unknown[0]!r}, which the model has not learned",
                Suggestion("correct the name"),
            )

    def _learn_waiting(self, added: Mapping[str, EventRow]) -> None:
        """Learn new events whose labels came before them, inside a transaction."""
        waiting = self._store.stored_rows(LABELS, added) if self._base.count(LABELS) else {}
        by_text = self._labels_by_text()
        now = [
            Learning(
                StoredRow(one, SINGLE, 0), by_text[row.label], added[one].event, added[one].weight
            )
            for one, row in waiting.items()
        ]
        self._learn(now)
        self._is_torn = False

    def _revise(self, rows: Sequence[tuple[NewLabel, LearnedLabel, str]]) -> None:
        """Replace labels of learned events, inside a transaction."""
        by_text = self._labels_by_text()
        found = [row for row in rows if row[1].weight]
        if found:
            self._change_model(
                "unlearn",
                self._labeled_chunk(SINGLE_FORM, _as_learned(found, by_text)),
                [before.weight for _, before, _ in found],
                [one.label for one, _, _ in found],
            )
        self._base.delete(LEARNED, [one.id for one, _, _ in rows])
        self._base.insert(
            LEARNED, [(o.id, *b._replace(label=label_text(o.label))) for o, b, _ in rows]
        )

    def _add_waiting(self, labels: Mapping[str, str]) -> None:
        """Store labels whose events did not come yet, inside a transaction."""
        base = self._base
        n = base.state["batch"] = base.state["committed"] = base.state["batch"] + 1
        kind = {"int": "number", "bool": "bool"}.get(self.model.encoding.labels or "", "text")
        form = json.dumps({"cells": False, "type": kind})
        self._store.remove(LABELS, labels)
        base.insert("batches", [Batch(n, LABELS, ALONE, 1, form, time.time(), "", "")])
        rows = enumerate(labels.items())
        base.insert(LABELS, [StoredRow(one, n, at, text) for at, (one, text) in rows])

    def _count_quality(self, pairs: Iterable[tuple[str, Any]]) -> None:
        """Count labels by the predictions that were given, inside a transaction."""
        counts = Counter(self.quality)
        for text, label in pairs:
            answer = json.loads(text) or {}
            counts[label, answer.get("prediction")] += 1
            self.on_label(answer, label)
        self._base.state["quality"] = [[*pair, n] for pair, n in counts.items()]

    # Erasure

    def erase(self, ids: Sequence[str]) -> list[str | None]:
        """Erase events and their labels, and unlearn them exactly if they were learned.

        Nothing is left of them in the model file and the store, which is rewritten.

        Parameters
        ----------
        ids : sequence of str
            The ids. An event that was learned and not kept cannot be erased by its id alone; use
            the command ``unlearn`` with the file of the events.

        Returns
        -------
        list of str or None
            For each id "pending", "waiting" (a label without an event) or "learned"; None if it is
            unknown.
        """
        with self.group():
            results = self._erase(list(dict.fromkeys(ids)))
        if any(one is not None for one in results.values()):
            self.save()
            self._store.compact()
        return [results[one] for one in ids]

    def _erase(self, ids: list[str]) -> dict[str, str | None]:
        learned, pending = self._store.find_learned(ids), self._store.stored_rows(EVENTS, ids)
        waiting = self._store.stored_rows(LABELS, ids)
        events = [
            (
                NewLabel(one, None, None),
                before,
                self._learned_event(k, NewLabel(one, "", None), before),
            )
            for k, (one, before) in enumerate(learned.items())
        ]
        found = [row for row in events if row[1].weight]
        if found:
            chunk = self._labeled_chunk(SINGLE_FORM, _as_learned(found, self._labels_by_text()))
            self._change_model("unlearn", chunk, [before.weight for _, before, _ in found])
        self._store.remove(EVENTS, pending)
        self._store.remove(LABELS, waiting)
        for table in (LEARNED, KEPT):
            self._base.delete(table, learned)
        self._base.state["is_stale"] = True
        self._is_torn = False
        names = (learned, "learned"), (pending, "pending"), (waiting, WAITING)
        return {one: next((n for found, n in names if one in found), None) for one in ids}

    def find_pending(self, ids: Sequence[str]) -> list[str]:
        """Return those of some ids whose events wait for their labels.

        Parameters
        ----------
        ids : sequence of str
            The ids.

        Returns
        -------
        list of str
            Those that are pending.
        """
        pending = self._store.stored_rows(EVENTS, ids)
        return [one for one in ids if one in pending]

    def pending_times(self) -> list[float]:
        """Return the times at which pending events came alone.

        Returns
        -------
        list of float
            Seconds since 1970.
        """
        return self._store.pending_times()

    def expire(self, before: float) -> tuple[int, int]:
        """Delete pending events and waiting labels that came before a time.

        Parameters
        ----------
        before : float
            The time in seconds since 1970.

        Returns
        -------
        events : int
            How many were deleted.
        labels : int
            How many were deleted.
        """
        return self._store.expire(before)

    # Labels

    def _labels_by_text(self) -> dict[str, Any]:
        model = self.model
        kind = int if model.encoding.labels == "int" else str
        declared = {label: kind(label) for label in model.encoding.columns.classes}
        return {str(label): label for label in model.classes} | declared

    def _typed_label(self, k: int, value: Any) -> Any:
        """Return a label as the model has it."""
        known = self._labels_by_text()
        text = label_text(value) if isinstance(value, (str, bool, int)) else None
        if text not in known:
            shown = ascii(value)[:60]
            raise row_error(
                k,
                f"label {shown} is not one of {', '.join(map(repr, known))}; correct it",
                self._store.label,
            )
        return known[text]


def predictor_of(model: TableModel, settings: PredictionSettings) -> Predictor:
    """Return the predictor of a model."""
    model.choose_positive(settings.positive)
    return Predictor(model, model.positive, settings.alerts, (), False, settings.explain)


def answer_events(
    predictor: Predictor,
    model: TableModel,
    id: str,  # noqa: A002
    texts: Mapping[str, str],
    events: Sequence[Mapping[str, Any]] | None = None,
) -> list[EventRow]:
    """Return events, given by id, with their answers; raise if they cannot be learned.

    ``events`` are the same events, if they were parsed before.
    """
    columns = model.encoding.columns
    kinds = columns.read(model.encoding.kinds)
    chunk = chunk_of_events(list(texts.values()), PLACE, kinds, predictor.is_needed, events)
    if columns.label in chunk.names:
        require_no_label(texts, columns.label)
    predictor.unknown.clear()
    predictor.blank.clear()
    table = predictor.table(chunk)
    is_plain = columns.timestamp is None and columns.weight is None and not chunk.absent
    if not is_plain or predictor.unknown or predictor.blank or predictor.skipped:
        model.check_events(model.encoding, chunk, has_earlier=True)
    now, version = time.time(), version_of(model)
    return [
        EventRow(one, now, text, _encode({id: one, **answer, "model": version}))
        for (one, text), answer in zip(texts.items(), table.to_pylist(), strict=True)
    ]


def _encode(answer: dict[str, Any]) -> str:
    """Return an answer as JSON, with null for numbers that are not finite."""
    try:
        return ENCODER.encode(answer)
    except ValueError:
        return ENCODER.encode(finite(answer))


def explore_alert(row: EventRow, share: float) -> EventRow:
    """Return an event whose alert may be dropped: always the same for an id."""
    answer = json.loads(row.answer)
    if not answer["alert"]:
        return row
    chance = int(xxh3_128_hexdigest(f"explore {row.id}".encode())[:13], 16) / 16.0**13
    is_explored = chance < share
    answer |= {"alert": not is_explored, "explored": is_explored, "explore": share}
    weight = 1.0 / share if is_explored else 0.0
    return row._replace(answer=json.dumps(answer), weight=weight)


def version_of(model: TableModel) -> str:
    """Return a hash of all that a model has learned through its store, in order."""
    return model.store_mark.hash[:16] or "0" * 16


def recover(store: EventDatabase, learner: TableModel) -> int:
    """Let a model learn the log of its store, and save it; return the number of changes."""
    store.label = learner.encoding.columns.label
    store.settle(learner.store_mark)
    changes = repeat_log(store, learner)
    if changes:
        learner.finish()
        learner.save()
        store.settle(learner.store_mark)
    return changes


def repeat_log(store: EventDatabase, learner: TableModel) -> int:
    """Let a model learn the log of its store; return the number of changes."""
    changes = 0
    for entry in store.log_entries():
        table, change = pa.ipc.open_stream(entry.data).read_all(), json.loads(entry.change)
        chunk = unpack_chunk(change["form"], table, PLACE, lambda name: True)
        _apply(learner, chunk, change, entry.digest)
        changes += 1
    return changes


def _apply(learner: TableModel, chunk: Chunk, change: Mapping[str, Any], digest: str) -> None:
    """Change a model by rows with their labels."""
    weights = change["weights"]
    weight = None if weights is None else np.array(weights)
    before = learner.store_mark
    if change["kind"] == "unlearn":
        subtract_events(learner, chunk, weight, change["new"])
        learner.set_store_mark(replace(before, hash=digest))
        return
    mark = ReadPosition(before.rows + chunk.rows, 0, digest)
    chunk = replace(chunk, mark=mark, starts=(digest,))
    for one in learner.chunks(PendingRows(lambda wanted: iter([chunk]), PLACE), PENDING, before):
        learner.learn(one, PENDING, weight=weight)


def _as_learned(
    rows: Sequence[tuple[NewLabel, LearnedLabel, str]], labels: Mapping[str, Any]
) -> list[Learning]:
    """Return learned events with the labels that they have."""
    return [
        Learning(StoredRow(one.id, SINGLE, 0), labels[str(before.label)], event, before.weight)
        for one, before, event in rows
    ]


def _label_column(labels: Sequence[Any], kind: str | None) -> pa.Array:
    """Return labels of a model as a column."""
    return pa.array(labels, pa.int64() if kind == "int" else pa.string())
