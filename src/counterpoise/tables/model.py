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
from dataclasses import asdict, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from counterpoise.arrays import Counts, Matrix, one_thread
from counterpoise.encoding.column_values import MAX_CATEGORIES, labels, require_declared
from counterpoise.encoding.columns import Columns
from counterpoise.encoding.encoder import ColumnEncoder, EncodedChunk
from counterpoise.engine.progressive_calibration import SORTED
from counterpoise.errors import DataError, Message, OptionValue, Suggestion
from counterpoise.estimators.auto import AutoClassifier
from counterpoise.estimators.balanced_ridge import BalancedRidgeClassifier
from counterpoise.feature_maps import FittedMap
from counterpoise.feature_maps.fitted import feature_map_name
from counterpoise.modelfile.engines import options_of, plain_options
from counterpoise.moments.decay import Decay
from counterpoise.readers.byte_source import is_regular_file
from counterpoise.readers.chunk import Chunk, ReadPosition, Source
from counterpoise.readers.prefetch import prefetch
from counterpoise.solver.imputation import MeanImputation
from counterpoise.tables.guards import Guards, OutlierCounter
from counterpoise.tables.model_dispatch import (
    Model,
    has_sorted_labels,
    learn_rows,
    model_for_prediction,
    reference_state,
)
from counterpoise.tables.model_io import save, stored_model
from counterpoise.tables.records import (
    PENDING,
    Record,
    Stored,
    UnfiledRows,
    Window,
    check_not_learned,
    find_known_input,
    fits,
    input_key,
    require_learned,
)
from counterpoise.tables.score_window import push_scores, scored

NEW_FILE_REMEDY = Suggestion("learn into a new file")
AUTO = "auto"
MAPS = {"feature_map", "candidates"}  # options that may hold maps which are fixed


def new_model(options: Mapping[str, Any], columns: Columns) -> Model:
    """Return a model that has learned nothing yet; ``feature_map="auto"`` averages."""
    if options.get("feature_map") != AUTO:
        return BalancedRidgeClassifier(**options)
    _require_open(options)
    if columns.clock is not None:
        raise DataError("a model that chooses fades by rows", Suggestion("leave {} out", "clock"))
    return AutoClassifier(**{k: v for k, v in options.items() if k != "feature_map"})


def source_of(options: dict[str, Any]) -> str | None:
    """Return the model file, if there is one, whose maps a new model begins with.

    It is named by ``features``, which then says only whether the model chooses, or is gone.
    """
    given = options.get("feature_map")
    if not isinstance(given, str) or not os.path.dirname(given):
        return None
    path = given.removeprefix(f"{AUTO}:")
    if path == given:
        del options["feature_map"]
    else:
        options["feature_map"] = AUTO
    return path


def widened(given: Any, names: list[str]) -> Any:
    """Return maps, or one, for features of these names, if they are fixed for fewer."""
    if isinstance(given, tuple):
        return tuple(widened(one, names) for one in given)
    if isinstance(given, FittedMap) and len(given.mean) < len(names):
        return given.placed(np.arange(len(given.mean)), names)[0]
    return given


def new_encoder(
    columns: Mapping[str, Any], options: dict[str, Any], source: str | None
) -> ColumnEncoder:
    """Return how columns become features in a new model.

    ``columns`` holds the fields of Columns that the user has set. If ``source`` is given, the new
    model begins with the map of that model file, and ``options`` get what comes with it.
    """
    like = None if source is None else _reuse_map_from(source, options)
    if like is not None:
        columns = {**asdict(like.columns), **columns}
    require_label(columns)
    encoding = ColumnEncoder(Columns(**columns))
    if like is not None:
        encoding = replace(encoding, kinds=like.kinds, features=like.features, bases=like.bases)
        _require_alike(encoding, like.columns, str(source))
    model = new_model(options, encoding.columns)
    model.check()
    require_clock(model, encoding.columns)
    return encoding


def require_label(columns: Mapping[str, Any]) -> None:
    """Raise unless the fields of Columns that the user has set name the label."""
    if not columns.get("label"):
        raise DataError(
            "no column is named as the label",
            Suggestion("name the column that holds the labels", "label"),
        )


def require_clock(model: Model, columns: Columns) -> None:
    """Raise unless a half-life that is a time goes with a column of times, and none without."""
    timed = Decay.parse(model.half_life).is_timed
    if timed and columns.clock is None:
        raise DataError(
            f"a half-life of {model.half_life} needs the time of each row",
            Suggestion("name its column", "clock"),
        )
    if columns.clock is not None and not timed:
        raise DataError(
            (OptionValue("clock"), " says by which time rows fade, and no half-life is a time"),
            Suggestion("give a time such as 7d", "half_life"),
            Suggestion("leave {} out", "clock"),
        )


def resume(
    path: str,
    columns: Mapping[str, Any],
    options: Mapping[str, Any],
    chunk_rows: int | None,
    source: str | None,
) -> tuple[Stored, bool]:
    """Return a model that goes on learning, and whether its columns were amended.

    What the user has set must be as it was, except for what may change on the way. ``source`` is a
    model file that it is said to have begun with.
    """
    stored = stored_model(path)
    before = stored.encoding.columns
    wanted = _changed(stored, columns, path)
    if wanted.drop != before.drop:
        columns = {**columns, "drop": wanted.drop}
    options = _named(typed(options, stored.encoding.labels))
    params = _named(stored.model.get_params(deep=False))
    if params["feature_map"] == AUTO:
        _require_open(options)
    # Apart: a model that chooses has an option of its own called drop.
    for now, then in (
        (columns, asdict(wanted)),
        (options, params),
        (
            {} if chunk_rows is None else {"chunk_rows": chunk_rows},
            {"chunk_rows": stored.chunk_rows},
        ),
    ):
        for name, value in now.items():
            if value != then[name]:
                text = f" is {shown(value)}, but {path} was learned with {shown(then[name])}"
                raise DataError(
                    (OptionValue(name), text), Suggestion("leave the option out"), NEW_FILE_REMEDY
                )
    if source is not None:
        _require_same_map(stored.model, path, source, options.get("feature_map") == AUTO)
    encoding = replace(stored.encoding, columns=wanted)
    return replace(stored, encoding=encoding), wanted != before


def typed(options: Mapping[str, Any], labels: str | None) -> dict[str, Any]:
    """Return options with the keys of dicts by label as the labels are, "int" or "text"."""
    result = dict(options)
    for name in ("class_weight", "class_factors", "half_life"):
        value = result.get(name)
        if isinstance(value, Mapping) and labels == "int":
            try:
                result[name] = {int(key): number for key, number in value.items()}
            except ValueError:
                raise DataError(
                    (OptionValue(name), f" names {list(value)}, but labels are whole numbers")
                ) from None
    maps = {name: result.pop(name) for name in MAPS & result.keys()}
    return {**options_of(plain_options(result), result), **maps}


def shown(value: Any) -> str:
    """Return the value of an option in words."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={number}" for key, number in value.items()) or "nothing"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(str, value)) or "nothing"
    return "none" if value is None else str(value)


# Beginning with the map of another model


def _reuse_map_from(path: str, options: dict[str, Any]) -> ColumnEncoder:
    """Let options begin with what another model file has fixed, and return its encoding."""
    stored = require_learned(stored_model(path), path)
    if options.get("feature_map") == AUTO:
        options["candidates"] = _maps(stored.model, path)
        return stored.encoding
    model = model_for_prediction(stored)
    for name in ("ridge", "multi_class", "pooled_rows"):
        options.setdefault(name, getattr(model, name))
    if stored.model is model and model.feature_map_ is None:
        raise DataError(f"{path} has no map of the features to begin with; leave it out")
    if model.state_.warmup is not None:
        raise DataError(f"the map of {path} is not fixed yet; let it learn more rows")
    options["feature_map"] = model.feature_map_
    return stored.encoding


def _maps(model: Model, path: str) -> tuple[Any, ...]:
    """The candidates of a model that chooses, with their maps, which must be fixed."""
    if not isinstance(model, AutoClassifier):
        raise DataError(
            f"{path} does not choose, so it has no maps to choose among",
            Suggestion("take its own map, if it has one: {}", "feature_map", path),
        )
    if not model.candidates_.calm:
        raise DataError(f"the maps of {path} are not fixed yet; let it learn more rows")
    return model.maps_


def _require_alike(encoding: ColumnEncoder, theirs: Columns, path: str) -> None:
    """Raise if columns are not wanted as the map that was borrowed knows them."""
    mine, kinds = encoding.columns, encoding.kinds
    strange = [f.column for f in encoding.features if not fits(f, encoding)]
    strange += [name for name, kind in mine.told.items() if kinds.get(name, kind) != kind]
    for name, buckets in theirs.hashed.items():
        if (mine.hashed.get(name), mine.seed) != (buckets, theirs.seed):
            strange.append(name)
    if strange:
        raise DataError(
            f"column {strange[0]!r} is a feature of the map of {path}, and the options say "
            "otherwise; leave them out, or learn without that map"
        )


def _require_same_map(model: Model, path: str, source: str, chooses: bool) -> None:
    """Raise if the map of another file, if it still exists, is not what was begun with.

    A model that chooses begins with all maps.
    """
    if not os.path.exists(source) or os.path.samefile(source, path):
        return
    stored = require_learned(stored_model(source), source)
    mine: tuple[Any, ...]
    if isinstance(model, AutoClassifier):
        mine, theirs = model.maps_, _maps(stored.model, source) if chooses else ()
    else:
        mine, theirs = (model.feature_map,), (model_for_prediction(stored).feature_map_,)
    if [*map(_begins, mine)] == [*map(_begins, theirs)]:
        return
    raise DataError(
        f"{path} did not begin with the map that {source} has now",
        Suggestion("leave {} out", "feature_map"),
        NEW_FILE_REMEDY,
    )


def _begins(one: Any) -> Any:
    """What a map was fixed with: features that came later do not matter."""
    if not isinstance(one, FittedMap):
        return one
    first = slice(one.first)
    return one.map.text, one.first, one.mean[first].tolist(), one.deviation[first].tolist()


# Options that were stored


def _changed(stored: Stored, columns: Mapping[str, Any], path: str) -> Columns:
    """Return the columns as they are wanted now, with what may change on the way."""
    before = stored.encoding.columns
    known = stored.model.classes_.tolist()
    classes = columns.get("classes", before.classes)
    if classes and not {str(label) for label in known} <= set(classes):
        text = f" is {shown(classes)}, but {path} has learned {', '.join(map(str, known))}"
        raise DataError(
            (OptionValue("classes"), text), Suggestion("name these too"), NEW_FILE_REMEDY
        )
    more = [name for name in columns.get("drop", ()) if name not in before.drop]
    seen = [name for name in more if stored.encoding.knows(name)]
    # A column that was never learned can be left out at any time.
    drop = before.drop if seen else tuple(sorted({*before.drop, *more}))
    return replace(before, classes=classes, drop=drop)


def _require_open(options: Mapping[str, Any]) -> None:
    """Raise if an option decides what a model that chooses decides by itself."""
    factors = (" balances the classes, with ", OptionValue("class_factors"), " if you like")
    given = set(options)
    for name, what in (
        ("ridge", (" chooses the ridge",)),
        ("multi_class", (" tells all classes apart at once",)),
        ("pooled_rows", (" chooses the boundaries",)),
        ("scale", (" scales by itself",)),
        ("class_weight", factors),
        ("fit_intercept", (" has a constant",)),
        ("calibrate", (" does not calibrate",)),
    ):
        if name in given:
            raise DataError(
                (OptionValue("feature_map", AUTO), *what), Suggestion("leave {} out", name)
            )


def _named(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the map by its name, to be compared."""
    result = dict(options)
    if "candidates" in result:
        result["feature_map"] = AUTO
    elif result.get("feature_map") not in (None, AUTO):
        result["feature_map"] = feature_map_name(result["feature_map"])
    return result


SomeChunk = TypeVar("SomeChunk", bound=Chunk)
CHUNK_ROWS = 8192
SIGNAL_GRACE_SECONDS = (
    0.1  # seconds that a signal may come later than the end of the pipe that it broke
)


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
    allow_new_classes : bool, default=False
        Whether a model that is no longer young may learn a label that it does not know.
    allow_new_columns : bool, default=False
        Whether tables may have columns that were not learned, or lack some that were.
    allow_future : bool, default=False
        Whether rows that decay by the clock may have times after now.

    Attributes
    ----------
    model : BalancedRidgeClassifier, AutoClassifier or None
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
    unlearned : int
        Rows that were read and unlearned since.
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
        allow_new_classes: bool = False,
        allow_new_columns: bool = False,
        allow_future: bool = False,
    ) -> None:
        guards = Guards(path, positive, allow_new_classes, allow_new_columns, allow_future)
        self._begin(path, options, guards)
        borrowed = source_of(self._options)
        if os.path.exists(path):
            stored, self._amended = resume(path, columns, self._options, chunk_rows, borrowed)
            self.take_up(stored)
        else:
            self.encoding = new_encoder(columns, self._options, borrowed)
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
        self.unlearned, self.apart = 0, UnfiledRows()
        self.outlying = OutlierCounter()
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
        """Rows that were ever read, those unlearned included: a number that never falls."""
        return self.rows + self.unlearned

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
        other = find_known_input(source, key, self.records, self.encoding, folder, present)
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
        patience = 0.0 if is_regular_file(source.path) else SIGNAL_GRACE_SECONDS
        try:
            for chunk in prefetch(chunks, stop=stop):
                if chunk.last and _asked_soon(stop, patience):
                    return
                yield chunk
        except ValueError:
            if not _asked_soon(stop, patience):
                raise

    def encode(self, chunk: Chunk, key: str, allow_overlap: bool = False) -> EncodedChunk:
        """Turn a chunk into rows of features, and make the model ready for them.

        ``key`` is the name of their input in the records; with ``allow_overlap`` the input may
        begin like another one that was learned.
        """
        if key not in self.records and not allow_overlap:
            check_not_learned(chunk, self.records)
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
                reference_state(self.model), self._next.features, encoded.X, encoded.kept, chunk
            )
        for subject, text in encoded.notes.items():
            self.notes.setdefault(subject, text.after(f"warning: {chunk.source}: "))
        if self.encoding.columns.missing == "mean":
            self._guards.note_blank(encoded.blank)
        return encoded

    def learn(self, chunk: Chunk, key: str, encoded: EncodedChunk) -> None:
        """Learn a chunk of the input ``key`` that was just encoded."""
        if encoded.X.shape[0] and self.model is not None:
            found = scored(self.model, self.rows, encoded, self.chunk_rows)
            was_sorted = has_sorted_labels(self.model)
            learn_rows(
                self.model, encoded.X, encoded.y, encoded.weight, encoded.t, self._calibrates
            )
            if has_sorted_labels(self.model) and not was_sorted:
                self.notes["order"] = Message(f"warning: {chunk.source}: {SORTED}")
            self._classes, before = self.model.classes_.tolist(), self._classes
            window = self.recent if self._classes == before else None
            rows = self.rows + chunk.rows
            self.recent = push_scores(window, found, self._classes, rows)
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
    def store_mark(self) -> ReadPosition:
        """Mark of the store of pending events as the saved model has it."""
        known = self.records.get(PENDING) if self.model is not None else None
        return ReadPosition() if known is None else known.mark

    def set_store_mark(self, mark: ReadPosition) -> None:
        """Record the mark of the store of pending events."""
        known = self.records.get(PENDING, Record(starts=(mark.hash,)))
        self.records[PENDING] = replace(known, mark=mark)

    def check_events(
        self, encoding: ColumnEncoder, chunk: Chunk, has_earlier: bool
    ) -> ColumnEncoder:
        """Raise if events cannot be learned with any label; return the encoding after them.

        ``encoding`` has the types of all columns of events before them, ``has_earlier`` says
        whether there were other inputs.
        """
        label = encoding.columns.label
        if label in (chunk.offered or chunk.columns):
            raise DataError(
                f"{chunk.source} has the column {label!r}, which is to come with the labels",
                Suggestion("leave it out"),
                Suggestion("learn the file as labeled rows: leave {} out", "id"),
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
        encoded = EncodedChunk(np.empty((chunk.rows, 0)), y, None, kept, {})
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
            self.positive = rarest_class(counts) if len(counts) > 1 else None
        if self.positive != before[1] and self.positive is not None:
            self.notes["positive"] = Message(
                f"the positive class is {str(self.positive)!r}",
                Suggestion("choose another", "positive"),
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
            self.unlearned,
            self.apart,
        )

    def take_up(self, stored: Stored) -> None:
        """Go on where a file left off."""
        self.model, self.encoding, self.records = stored.model, stored.encoding, stored.records
        self.chunk_rows, self.window = stored.chunk_rows, stored.window
        self.held, self.unlearned, self.apart = stored.held, stored.unlearned, stored.apart
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

    def _made(self, encoding: ColumnEncoder) -> Model:
        """Return a model that has learned nothing yet."""
        return new_model(typed(self._options, encoding.labels), encoding.columns)

    def _prepare(self, chunk: Chunk, encoded: EncodedChunk, encoding: ColumnEncoder) -> None:
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
        self.model.fill_in(MeanImputation.of(*encoding.fill))
        if isinstance(self.model, AutoClassifier):
            self.model.name_in_warnings(names)
        known = self.model.classes_.tolist() if hasattr(self.model, "classes_") else []
        if len({*known, *np.unique(encoded.y).tolist()}) > MAX_CATEGORIES:
            raise DataError(
                f"{chunk.source}: column {encoding.columns.label!r} has more than "
                f"{MAX_CATEGORIES:,} "
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


def rarest_class(counts: Mapping[Any, float]) -> Any:
    """Return the label of the rarest class by its rows; of equals the last."""
    return min(reversed(list(counts)), key=lambda label: counts[label])


def learn(
    learner: Learner,
    inputs: Iterable[tuple[Source, str]],
    checkpoint_every: int,
    stop: Callable[[], bool],
    watch: Callable[[Source, Chunk, EncodedChunk], None],
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
