"""Learning into a file, each row exactly once, whatever happens on the way.

A model file says of each input how many of its rows were learned and what their hash was. Chunks
end where the rows say, never where somebody stopped, so that a run that was killed and started
again ends with the bytes of one that was not.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from counterpoise.arrays import Counts, Matrix
from counterpoise.choosing.classifier import ChoosingClassifier
from counterpoise.classifier import BalancedRidgeClassifier
from counterpoise.encoding.columns import Columns
from counterpoise.encoding.encoding import Encoded, Encoding
from counterpoise.encoding.limits import MOST, require_declared
from counterpoise.encoding.reading import labels
from counterpoise.errors import Message, Remedy
from counterpoise.exact.blas import one_thread
from counterpoise.exact.filling import Fill
from counterpoise.exact.progressive_calibration import SORTED
from counterpoise.jobs.begin import MAPS, begun, made, resumed, source_of, typed, widened
from counterpoise.jobs.file import save
from counterpoise.jobs.guards import Guards
from counterpoise.jobs.known import recognised, require_unknown
from counterpoise.jobs.models import Model, has_sorted_labels, taught, telling
from counterpoise.jobs.outlying import Outlying
from counterpoise.jobs.recent import moved_on, scored
from counterpoise.jobs.store import PENDING, Apart, Record, Stored, Window, input_key
from counterpoise.streams import Chunk, DataError, Mark, Source
from counterpoise.streams.bytes import lasting
from counterpoise.streams.prefetch import ahead

SomeChunk = TypeVar("SomeChunk", bound=Chunk)
CHUNK_ROWS = 8192
PATIENCE = 0.1  # seconds that a signal may come later than the end of the pipe that it broke


class Learner:
    """A model, how columns become its features, and what it has learned from where.

    Parameters
    ----------
    path : str
        The model file; it need not exist.
    columns : mapping
        What is wanted of the columns: those fields of Columns that somebody has named.
    options : mapping
        Parameters of the classifier that somebody has named; the keys of dicts by label are text.
        ``features`` may also be "auto", for a model that chooses, or the path of a model file, with
        a separator in it, whose map, and whose ridge unless one is named, it is to begin with.
    chunk_rows : int, optional
        Rows learned at a time.
    positive : str, optional
        The class that alerts are about, as it is written.
    new_class : bool, default=False
        Whether a model that is no longer young may learn a label that it does not know.
    new_columns : bool, default=False
        Whether tables may have columns that were not learned, or lack some that were.
    allow_future : bool, default=False
        Whether rows that decay by the clock may have times after now.

    Attributes
    ----------
    model : BalancedRidgeClassifier, ChoosingClassifier or None
        None while nothing was learned.
    encoding : Encoding
        How columns become features.
    records : dict of str to Record
        By path, relative to the folder of the model file. Inputs are known by their content; their
        paths are for people.
    positive : label, optional
        The class that alerts are about, once it is known.
    settled : int
        Rows that were read when a run last ended: a run that was cut short is not over.
    recent : ndarray of shape (m, problems), optional
        How the rows that were learned last stand.
    window : Window or None
        What a metrics file does not say yet; it is saved with the model.
    held : ndarray of shape (d,), optional
        Learned rows that have a value for each feature; None if somebody has not counted.
    forgotten : int
        Rows that were read and forgotten since.
    apart : Apart
        Rows that were learned or taken back apart from the inputs.
    outlying : Outlying
        Values far from everything that was learned before them.
    notes : dict of Message
        What somebody should be told at the end, by subject.
    formerly : dict of str to str
        Other paths under which inputs of this run were known.
    """

    def __init__(
        self,
        path: str,
        columns: Mapping[str, Any],
        options: Mapping[str, Any],
        chunk_rows: int | None = None,
        positive: str | None = None,
        new_class: bool = False,
        new_columns: bool = False,
        allow_future: bool = False,
    ) -> None:
        guards = Guards(path, positive, new_class, new_columns, allow_future)
        self._begin(path, options, guards)
        borrowed = source_of(self._options)
        if os.path.exists(path):
            stored, self._amended = resumed(path, columns, self._options, chunk_rows, borrowed)
            self.take_up(stored)
        else:
            self.encoding = begun(columns, self._options, borrowed)
            self.chunk_rows = chunk_rows or CHUNK_ROWS
        if self.encoding.columns.classes:
            classes = self.encoding.columns.classes
            self._guards.require_named(self._all_options(), classes, path)

    def _begin(self, path: str, options: Mapping[str, Any], guards: Guards) -> None:
        """Begin with nothing learned."""
        self.path, self._options, self._guards = path, dict(options), guards
        self.model: Model | None = None
        self.records: dict[str, Record] = {}
        self.positive: Any = None
        self.settled = 0
        self.recent: Matrix | None = None
        self.held: Counts | None = np.zeros(0, dtype=np.int64)
        self.forgotten, self.apart = 0, Apart()
        self.outlying = Outlying()
        self.formerly: dict[str, str] = {}
        self._classes: list[Any] = []
        self._amended = False
        self.window: Window | None = None
        self._calibrates = True  # progressively, where the model does

    @property
    def notes(self) -> dict[Any, Message]:
        """What the user should be told at the end, by subject."""
        return self._guards.notes

    @property
    def rows(self) -> int:
        """Rows read so far, those dropped included."""
        return sum(record.mark.rows for record in self.records.values())

    @property
    def ever(self) -> int:
        """Rows that were ever read, those forgotten included: a number that never falls."""
        return self.rows + self.forgotten

    def key(self, path: str, stdin_name: str | None = None) -> str:
        """Return the name of an input in the records: its path relative to the model's folder."""
        if path == "-":
            return f"- {stdin_name}" if stdin_name else "-"
        return input_key(path, self.path)

    def identify(
        self, source: Source, key: str, present: Mapping[str, Source] | None = None
    ) -> bool:
        """Find the record of an input by its content, and let it have the path that it has now.

        ``key`` is that path, as :meth:`key` gives it; ``present`` are the inputs of the same
        command by path, which keep their records. Return whether the input was learned, wholly or
        in part.
        """
        folder = os.path.dirname(os.path.realpath(self.path))
        other = recognised(source, key, self.records, self.encoding, folder, present)
        if other is not None and other != key:
            displaced = other if not other.startswith("-") else f"{key} before"
            swap = {other: key, key: displaced}
            self.records = {swap.get(name, name): one for name, one in self.records.items()}
            self.formerly[key] = other
        return other is not None

    def chunks(self, source: Source, key: str, stop: Callable[[], bool]) -> Iterator[Chunk]:
        """Read what is new in an input.

        ``stop`` is asked whether to end, at chunk ends and while nothing comes. After it has said
        yes no chunk follows, least of all what is left of a pipe that has ended.
        """
        mark = self.records.get(key, Record()).mark
        columns = self.encoding.columns
        self._kinds = columns.read({**columns.told, **self.encoding.kinds})
        chunks = source.chunks(self.chunk_rows, mark, self._kinds, columns.wanted)
        patience = 0.0 if lasting(source.path) else PATIENCE
        try:
            for chunk in ahead(chunks, stop=stop):
                if chunk.last and _asked_soon(stop, patience):
                    return
                yield chunk
        except ValueError:
            if not _asked_soon(stop, patience):
                raise

    def encode(self, chunk: Chunk, key: str, allow_overlap: bool = False) -> Encoded:
        """Turn a chunk into rows of features, and make the model ready for them.

        ``key`` is the name of their input in the records; with ``allow_overlap`` the input may
        begin like another one that was learned.
        """
        if key not in self.records and not allow_overlap:
            require_unknown(chunk, self.records)
        if key in self.records and self.records[key].times > 1:
            raise DataError(
                f"{chunk.source} has grown, but its rows count {self.records[key].times} times "
                "since models were merged; put the new rows into a file of their own"
            )
        lacking = self.encoding.lacking(chunk)
        self._guards.require_whole(chunk, lacking)
        encoded, self._next = self.encoding.learn(chunk, self._room(), lenient=bool(lacking))
        if key != PENDING:  # which were checked when they came
            self._guards.require_past(chunk, encoded, self.encoding.columns.clock)
        others = any(record.mark.rows for record in self._others(key))
        self._guards.notice_columns(chunk, lacking, self.encoding, self._next, others)
        fitted = self.model is not None and self.model.__sklearn_is_fitted__()
        known = self.model.classes_.tolist() if self.model is not None and fitted else []
        declared = self.encoding.columns.classes
        self._guards.require_labels(
            chunk, encoded, known, self._all_options(), declared, self.settled
        )
        self._prepare(chunk, encoded, self._next)
        if self.model is not None and fitted:
            self.outlying.look(
                telling(self.model), self._next.features, encoded.X, encoded.kept, chunk
            )
        for subject, text in encoded.notes.items():
            self.notes.setdefault(subject, text.after(f"warning: {chunk.source}: "))
        if self.encoding.columns.missing == "mean":
            self._guards.note_blank(encoded.blank)
        return encoded

    def learn(self, chunk: Chunk, key: str, encoded: Encoded) -> None:
        """Learn a chunk of the input ``key`` that was just encoded."""
        if encoded.X.shape[0] and self.model is not None:
            found = scored(self.model, self.rows, encoded, self.chunk_rows)
            was_sorted = has_sorted_labels(self.model)
            taught(self.model, encoded.X, encoded.y, encoded.weight, encoded.t, self._calibrates)
            if has_sorted_labels(self.model) and not was_sorted:
                self.notes["order"] = Message(f"warning: {chunk.source}: {SORTED}")
            self._classes, before = self.model.classes_.tolist(), self._classes
            window = self.recent if self._classes == before else None
            rows = self.rows + chunk.rows
            self.recent = moved_on(window, found, self._classes, rows)
        if self.held is not None:
            more = encoded.held.copy()
            more[: len(self.held)] += self.held
            self.held = more
        self.encoding = self._next
        self._kinds.update(self.encoding.columns.read(self.encoding.kinds))
        known = self.records.get(key, Record(starts=chunk.starts))
        dropped = known.dropped + int((~encoded.kept).sum())
        self.records[key] = replace(known, mark=chunk.mark, dropped=dropped)
        if chunk.store_mark is not None:
            self.set_store_mark(chunk.store_mark)

    @property
    def store_mark(self) -> Mark:
        """Mark of the store of pending events as the saved model has it."""
        known = self.records.get(PENDING) if self.model is not None else None
        return Mark() if known is None else known.mark

    def set_store_mark(self, mark: Mark) -> None:
        """Record the mark of the store of pending events."""
        known = self.records.get(PENDING, Record(starts=(mark.hash,)))
        self.records[PENDING] = replace(known, mark=mark)

    def check_events(self, encoding: Encoding, chunk: Chunk, has_earlier: bool) -> Encoding:
        """Raise if events cannot be learned with any label; return the encoding after them.

        ``encoding`` has the types of all columns of events before them, ``has_earlier`` says
        whether there were other inputs.
        """
        label = encoding.columns.label
        if label in (chunk.offered or chunk.columns):
            raise DataError(
                f"{chunk.source} has the column {label!r}, which is to come with the labels",
                Remedy("leave it out"),
                Remedy("learn the file as labeled rows: leave {} out", "id"),
            )
        probe = with_any_label(chunk, encoding.columns)
        lacking = encoding.lacking(probe)
        if chunk.table:
            named = dict.fromkeys([*lacking, *encoding.kinds])
            lacking = [c for c in named if c not in chunk.offered and encoding.columns.feature(c)]
        self._guards.require_whole(chunk, lacking)
        before = replace(encoding, labels="text")
        encoded, after = before.learn(probe, self._room(), lenient=bool(lacking))
        self._guards.require_past(chunk, encoded, encoding.columns.clock)
        self._guards.notice_columns(chunk, lacking, before, after, has_earlier)
        return replace(after, labels=encoding.labels)

    def check_labels(self, chunk: Chunk) -> None:
        """Raise if labels that come without their events cannot be learned."""
        columns, kept = self.encoding.columns, np.ones(chunk.rows, dtype=bool)
        _, y, _ = labels(columns, chunk, self.encoding.labels)
        require_declared(columns, chunk, y, kept)
        fitted = self.model is not None and self.model.__sklearn_is_fitted__()
        known = self.model.classes_.tolist() if self.model is not None and fitted else []
        encoded = Encoded(np.empty((chunk.rows, 0)), y, None, kept, {})
        self._guards.require_labels(
            chunk, encoded, known, self._all_options(), columns.classes, self.settled
        )

    def finish(self) -> bool:
        """Close a run that was not cut short: what was learned until now is no longer new.

        Return whether there is something to save.
        """
        before = self.settled, self.positive
        self.settled = self.rows
        if self.model is None or not self.model.__sklearn_is_fitted__():
            self.positive = None
            return self._amended or before != (self.settled, self.positive)
        counts = dict(
            zip(self.model.classes_.tolist(), self.model.class_count_.tolist(), strict=True)
        )
        by_name = {str(label): label for label in counts}
        if self._guards.positive in by_name:
            self.positive = by_name[self._guards.positive]
        elif self.positive not in counts:
            self.positive = rarest(counts) if len(counts) > 1 else None
        if self.positive != before[1] and self.positive is not None:
            self.notes["positive"] = Message(
                f"the positive class is {str(self.positive)!r}",
                Remedy("choose another", "positive"),
            )
        self._guards.note_unseen(self._all_options(), list(by_name))
        return self._amended or before != (self.settled, self.positive)

    def save(self) -> None:
        """Write the model file."""
        if self.model is not None:
            save(self.path, self.stored())

    def stored(self) -> Stored:
        """Return what a file is to hold of a model that there is."""
        assert self.model is not None
        return Stored(
            self.model,
            self.encoding,
            self.records,
            self.chunk_rows,
            self.positive,
            self.settled,
            self.recent,
            self.window,
            self._all_held(),
            self.forgotten,
            self.apart,
        )

    def take_up(self, stored: Stored) -> None:
        """Go on where a file left off."""
        self.model, self.encoding, self.records = stored.model, stored.encoding, stored.records
        self.chunk_rows, self.window = stored.chunk_rows, stored.window
        self.held, self.forgotten, self.apart = stored.held, stored.forgotten, stored.apart
        self.positive, self.settled = stored.positive, stored.settled
        self.recent, self._classes = stored.recent, stored.model.classes_.tolist()

    def _all_options(self) -> Mapping[str, Any]:
        """Return the options of the model, or those that it will have."""
        return self._options if self.model is None else self.model.get_params(deep=False)

    def _all_held(self) -> Counts | None:
        """What is held of every feature, also of those that a borrowed map begins with."""
        if self.held is None:
            return None
        return np.pad(self.held, (0, len(self.encoding.features) - len(self.held)))

    def _room(self) -> float:
        """Features of which the moments of one class, and those of a chunk, have room."""
        limit = self._options.get("memory_limit", BalancedRidgeClassifier().memory_limit)
        return math.sqrt((limit if self.model is None else self.model.memory_limit) / 16.0)

    def _others(self, key: str) -> list[Record]:
        """Return the records of inputs that came before the one of this name."""
        return [record for name, record in self.records.items() if name != key]

    def _made(self, encoding: Encoding) -> Model:
        """Return a model that has learned nothing yet."""
        return made(typed(self._options, encoding.labels), encoding.columns)

    def _prepare(self, chunk: Chunk, encoded: Encoded, encoding: Encoding) -> None:
        """Make the model ready to look at these rows, and to learn them."""
        names = [feature.name for feature in encoding.features]
        if self.model is not None:
            self.model.widen(names)
        if not encoded.X.shape[0]:
            return
        if not names:
            raise DataError(f"{chunk.source}: no column is left to learn from")
        if self.model is None:
            for option in MAPS & self._options.keys():
                self._options[option] = widened(self._options[option], names)
            self.model = self._made(encoding)
        self.model.fill_in(Fill.of(*encoding.fill))
        if isinstance(self.model, ChoosingClassifier):
            self.model.name_in_warnings(names)
        known = self.model.classes_.tolist() if hasattr(self.model, "classes_") else []
        if len({*known, *np.unique(encoded.y).tolist()}) > MOST:
            raise DataError(
                f"{chunk.source}: column {encoding.columns.label!r} has more than {MOST:,} "
                "different labels; is it the right column?"
            )


def with_any_label(chunk: SomeChunk, columns: Columns) -> SomeChunk:
    """Return events as rows with some label, so that they can be checked without their own."""
    kept = {name: column for name, column in chunk.columns.items() if columns.wanted(name)}
    text = columns.classes[0] if columns.classes else "0"
    kept[columns.label] = pa.array([text] * chunk.rows, pa.string())
    return replace(
        chunk,
        columns=kept,
        offered=(*chunk.offered, columns.label) if chunk.table else (),
        absent={name: flags for name, flags in chunk.absent.items() if name in kept},
    )


def _asked_soon(stop: Callable[[], bool], patience: float) -> bool:
    """Whether to end, if need be after a moment.

    Ctrl-C and the like go to a whole pipeline. Whoever writes into it is gone at once, perhaps in
    the middle of a row, and the end of the pipe may be noticed here before the signal is.
    """
    until = time.monotonic() + patience
    while not stop():
        if time.monotonic() >= until:
            return False
        time.sleep(0.01)
    return True


def rarest(counts: Mapping[Any, float]) -> Any:
    """Return the label of the rarest class by its rows; of equals the last."""
    return min(reversed(list(counts)), key=lambda label: counts[label])


def learn(
    learner: Learner,
    inputs: Iterable[tuple[Source, str]],
    checkpoint_every: int,
    stop: Callable[[], bool],
    watch: Callable[[Source, Chunk, Encoded], None],
    allow_overlap: bool = False,
    before_save: Callable[[bool], None] = lambda last: None,
) -> dict[str, int]:
    """Learn what is new in several inputs, saving now and then, and at the end.

    ``inputs`` are sources with their names in the records. The model is saved every
    ``checkpoint_every`` rows, rounded up to whole chunks; ``stop`` says whether to save and end
    now. ``watch`` is told of each chunk before it is learned, and ``before_save``, before each save
    and at the end, whether nothing is left to be learned. Return the new rows of each input.
    """
    new: dict[str, int] = {}
    unsaved = 0
    inputs = list(inputs)
    present = {key: source for source, key in inputs}
    for source, key in inputs:
        if stop():
            break
        new[key] = 0
        if not (allow_overlap or key.startswith("-")):
            learner.identify(source, key, present)
        for chunk in learner.chunks(source, key, stop):
            encoded = learner.encode(chunk, key, allow_overlap)
            watch(source, chunk, encoded)
            # One thread: others parse meanwhile, and no bit depends on the number of cores.
            with one_thread():
                learner.learn(chunk, key, encoded)
            new[key] += chunk.rows
            unsaved += chunk.rows
            if unsaved >= checkpoint_every:
                before_save(False)
                learner.save()
                unsaved = 0
    window, over = learner.window, not stop()
    before_save(over)
    finished = over and learner.finish()
    if unsaved or finished or learner.window != window:
        learner.save()
    return new
