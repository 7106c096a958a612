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
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from counterpoise.arrays import Counts, Matrix
from counterpoise.choosing.classifier import ChoosingClassifier
from counterpoise.classifier import BalancedRidgeClassifier
from counterpoise.encoding.columns import Columns
from counterpoise.encoding.encoding import MOST, Encoded, Encoding
from counterpoise.errors import Message, Remedy, Setting
from counterpoise.features import FixedMap
from counterpoise.features.given import text_of
from counterpoise.jobs.known import recognised
from counterpoise.jobs.outlying import Outlying
from counterpoise.jobs.recent import moved_on, scored
from counterpoise.jobs.store import (
    Model,
    Record,
    Stored,
    Window,
    answering,
    fits,
    input_key,
    require_learned,
    save,
    stored_model,
    taught,
)
from counterpoise.modelfile.options import options_of, plain_options
from counterpoise.streams import Chunk, DataError, Source
from counterpoise.streams.bytes import lasting
from counterpoise.streams.prefetch import ahead

CHUNK_ROWS = 8192
SETTLED = 1000  # rows after which a new label is more likely a mistake
ANEW = Remedy("learn into a new file")
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
    ) -> None:
        self.path = path
        self.model: Model | None = None
        self.records: dict[str, Record] = {}
        self.positive: Any = None
        self.settled = 0
        self.recent: Matrix | None = None
        self.held: Counts | None = np.zeros(0, dtype=np.int64)
        self.forgotten = 0
        self.outlying = Outlying()
        self.notes: dict[Any, Message] = {}
        self.formerly: dict[str, str] = {}
        self._classes: list[Any] = []
        self._amended = False
        self._positive, self._new_class, self._new_columns = positive, new_class, new_columns
        self.window: Window | None = None
        self._options = dict(options)
        source = self._options.get("features")
        borrowed = source if isinstance(source, str) and os.path.dirname(source) else None
        if os.path.exists(path):
            if borrowed is not None:
                del self._options["features"]
            self._resume(columns, self._options, chunk_rows)
            if borrowed is not None:
                self._require_same_map(borrowed)
        else:
            like = None if borrowed is None else self._borrowed(borrowed)
            if like is not None:
                columns = {**asdict(like.columns), **columns}
            if not columns.get("label"):
                raise DataError(
                    "no column is named as the label",
                    Remedy("say which column holds the labels, with {}", "label"),
                )
            self.encoding = Encoding(Columns(**columns))
            if like is not None:
                self.encoding = replace(self.encoding, kinds=like.kinds, features=like.features)
                self._require_alike(like.columns, str(borrowed))
            self.chunk_rows = chunk_rows or CHUNK_ROWS
            made(self._options, self.encoding.columns).check()
        if self.encoding.columns.classes:
            self._require_named(self.encoding.columns.classes, self.path)

    @property
    def rows(self) -> int:
        """Rows read so far, those dropped included."""
        return sum(record.mark.rows for record in self.records.values())

    @property
    def ever(self) -> int:
        """Rows that were ever read, those forgotten included: a number that never falls."""
        return self.rows + self.forgotten

    def key(self, path: str, stdin_name: str | None = None) -> str:
        """What an input is called in the records.

        Parameters
        ----------
        path : str
            Its path, or ``-``.
        stdin_name : str, optional
            Name of standard input.

        Returns
        -------
        str
            The path relative to the folder of the model.
        """
        if path == "-":
            return f"- {stdin_name}" if stdin_name else "-"
        return input_key(path, self.path)

    def identify(
        self, source: Source, key: str, present: Mapping[str, Source] | None = None
    ) -> bool:
        """Find the record of an input by its content, and let it have the path that it has now.

        Parameters
        ----------
        source : Source
            The input, a file.
        key : str
            Its path, as :meth:`key` gives it.
        present : mapping, optional
            Inputs of the same command by path: they keep their records.

        Returns
        -------
        bool
            Whether it was learned, wholly or in part.
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

        Parameters
        ----------
        source : Source
            The input.
        key : str
            Its name in the records.
        stop : callable
            Asked whether to end, at chunk ends and while nothing comes.

        Yields
        ------
        Chunk
            None after ``stop`` has said yes, least of all what is left of a pipe that has ended.
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
        """Make rows of features of a chunk, and the model ready for them.

        Parameters
        ----------
        chunk : Chunk
            The rows.
        key : str
            Name of their input in the records.
        allow_overlap : bool, default=False
            Whether the input may begin like another one that was learned.

        Returns
        -------
        Encoded
        """
        if key not in self.records and not allow_overlap:
            self._require_unknown(chunk)
        if key in self.records and self.records[key].times > 1:
            raise DataError(
                f"{chunk.source} has grown, but its rows count {self.records[key].times} times "
                "since models were merged; put the new rows into a file of their own"
            )
        lacking = self.encoding.lacking(chunk)
        if lacking and not self._new_columns:
            self._require_schema(chunk, lacking[0], "lacks", "which the model has learned")
        encoded, self._next = self.encoding.learn(chunk, self._room(), lenient=bool(lacking))
        self._notice_columns(chunk, key, lacking)
        self._require_labels(chunk, encoded)
        self._prepare(chunk, encoded, self._next)
        if self.model is not None and self.model.__sklearn_is_fitted__():
            self.outlying.look(self.model, self._next.features, encoded.X, encoded.kept, chunk)
        for subject, text in encoded.notes.items():
            self.notes.setdefault(subject, text.after(f"warning: {chunk.source}: "))
        return encoded

    def learn(self, chunk: Chunk, key: str, encoded: Encoded) -> None:
        """Learn a chunk that was just encoded.

        Parameters
        ----------
        chunk : Chunk
            The rows.
        key : str
            Name of their input in the records.
        encoded : Encoded
            The same as rows of features.
        """
        if encoded.X.shape[0] and self.model is not None:
            found = scored(self.model, self.rows, encoded, self.chunk_rows)
            taught(self.model, encoded.X, encoded.y, encoded.weight)
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

    def finish(self) -> bool:
        """Close a run that was not cut short: what was learned until now is no longer new.

        Returns
        -------
        bool
            Whether there is something to save.
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
        if self._positive in by_name:
            self.positive = by_name[self._positive]
        elif self.positive not in counts:
            self.positive = rarest(counts) if len(counts) > 1 else None
        if self.positive != before[1] and self.positive is not None:
            self.notes["positive"] = Message(
                f"the positive class is {str(self.positive)!r}",
                Remedy("{} says otherwise", "positive"),
            )
        for option, names in self._named().items():
            for name in names:
                if name not in by_name:
                    text = f" names the class {name!r}, and no row has it yet; the classes are "
                    self.notes[option, name] = Message(
                        ("warning: ", Setting(option), text, ", ".join(by_name))
                    )
        return self._amended or before != (self.settled, self.positive)

    def save(self) -> None:
        """Write the model file."""
        if self.model is not None:
            stored = Stored(
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
            )
            save(self.path, stored)

    # Within

    def _all_held(self) -> Counts | None:
        """What is held of every feature, also of those that a borrowed map begins with."""
        if self.held is None:
            return None
        return np.pad(self.held, (0, len(self.encoding.features) - len(self.held)))

    def _room(self) -> float:
        """Features of which the moments of one class, and those of a chunk, have room."""
        limit = self._options.get("memory_limit", BalancedRidgeClassifier().memory_limit)
        return math.sqrt((limit if self.model is None else self.model.memory_limit) / 16.0)

    def _named(self) -> dict[str, list[str]]:
        """Classes that options name, by option."""
        options = self._options if self.model is None else self.model.get_params(deep=False)
        named = {} if self._positive is None else {"positive": [self._positive]}
        for name in ("costs", "class_weight"):
            if isinstance(options.get(name), Mapping):
                named[name] = [str(label) for label in options[name]]
        return named

    def _require_named(self, known: Iterable[Any], where: str) -> None:
        """Raise if an option names a class that is none of these."""
        labels = [str(label) for label in known]
        for option, names in self._named().items():
            strange = [name for name in names if name not in labels]
            if strange:
                text = f" names the class {strange[0]!r}, and the classes are {', '.join(labels)}"
                raise DataError(
                    (f"{where}: ", Setting(option), text),
                    Remedy("correct it"),
                    Remedy("name them all with {} if it is to come later", "classes"),
                )

    def _require_labels(self, chunk: Chunk, encoded: Encoded) -> None:
        """Raise if a label is new where none should be, or an option names none of the labels."""
        known = []
        if self.model is not None and self.model.__sklearn_is_fitted__():
            known = self.model.classes_.tolist()
        labels = np.unique(encoded.y).tolist()
        declared = self.encoding.columns.classes
        if not known or self._positive is not None:
            everything = {*map(str, known), *map(str, labels)}
            if len(everything) > 1 and not declared:
                self._require_named(sorted(everything), chunk.source)
        new = [label for label in labels if label not in known]
        if len(known) < 2 or not new or declared:
            return
        row = int(np.flatnonzero(encoded.kept)[np.isin(encoded.y, new).argmax()])
        text = f"label {str(new[0])!r} is new"
        if self.settled >= SETTLED and not self._new_class:
            raise chunk.error(
                row,
                f"{text}: {self.path} has learned {self.settled:,} rows of "
                f"{', '.join(map(str, known[:6]))}{' and more' * (len(known) > 6)}",
                Remedy("correct it"),
                Remedy("learn new classes", "new_class", True),
            )
        if self.settled:
            for label in new:
                row = int(np.flatnonzero(encoded.kept)[np.isin(encoded.y, [label]).argmax()])
                self.notes["label", label] = Message(
                    f"warning: {chunk.source}, row {chunk.first + row}: label {str(label)!r} is a "
                    f"new class beside {', '.join(map(str, known[:6]))}"
                )

    def _require_schema(self, chunk: Chunk, name: str, verb: str, what: str) -> None:
        both = "if tables of both kinds are to be learned, with 0 where a column is not, say {}"
        remedies = [Remedy(both, "new_columns", True)]
        if verb == "has":
            remedies.append(Remedy("leave the column out", "drop", [name]))
        raise DataError(f"{chunk.source} {verb} column {name!r}, {what}", *remedies)

    def _notice_columns(self, chunk: Chunk, key: str, lacking: list[str]) -> None:
        """Raise if a table has other columns than those before, or say so if it may."""
        columns = dict.fromkeys((*self._next.kinds, *(f.column for f in self._next.features)))
        new = [name for name in columns if not self.encoding.knows(name)]
        before = any(one.mark.rows for name, one in self.records.items() if name != key)
        if not before or chunk.entries is not None:
            return
        if not chunk.table:  # rows need not have every field, but one with another name is told of
            if new:
                listed = ", ".join(map(repr, new[:5])) + " and more" * (len(new) > 5)
                self.notes.setdefault(
                    ("fields", chunk.source),
                    Message(f"{chunk.source}: new fields, 0 in all rows before: {listed}"),
                )
            return
        if new and not self._new_columns:
            self._require_schema(chunk, new[0], "has", "which the files before do not have")
        for names, text in ((new, "new, and 0 in all rows before"), (lacking, "not there, and 0")):
            for name in names:
                self.notes.setdefault(
                    ("column", name, text), Message(f"{chunk.source}: column {name!r} is {text}")
                )

    def _prepare(self, chunk: Chunk, encoded: Encoded, encoding: Encoding) -> None:
        """Make the model ready to look at these rows, and to learn them."""
        d = len(encoding.features)
        if self.model is not None:
            self.model.widen([feature.name for feature in encoding.features])
        if not encoded.X.shape[0]:
            return
        if not d:
            raise DataError(f"{chunk.source}: no column is left to learn from")
        if self.model is None:
            given = self._options.get("features")
            if isinstance(given, FixedMap) and len(given.mean) < d:
                names = [feature.name for feature in encoding.features]
                self._options["features"] = given.placed(np.arange(len(given.mean)), names)[0]
            self.model = made(_typed(self._options, encoding.labels), encoding.columns)
        known = self.model.classes_.tolist() if hasattr(self.model, "classes_") else []
        if len({*known, *np.unique(encoded.y).tolist()}) > MOST:
            raise DataError(
                f"{chunk.source}: column {encoding.columns.label!r} has more than {MOST:,} "
                "different labels; is it the right one?"
            )

    def _borrowed(self, path: str) -> Encoding | None:
        """Let options begin with what another model file has fixed, and return its encoding."""
        stored = require_learned(stored_model(path), path)
        model = answering(stored)
        self._options.setdefault("ridge", model.ridge)
        if stored.model is model and model.features_ is None:
            raise DataError(f"{path} has no map of the features to begin with; leave it out")
        if model.state_.warmup is not None:
            raise DataError(f"the map of {path} is not fixed yet; let it learn more rows")
        self._options["features"] = model.features_
        return stored.encoding

    def _require_alike(self, theirs: Columns, path: str) -> None:
        """Raise if columns are not wanted as the map that was borrowed knows them."""
        mine, kinds = self.encoding.columns, self.encoding.kinds
        strange = [f.column for f in self.encoding.features if not fits(f, self.encoding)]
        strange += [name for name, kind in mine.told.items() if kinds.get(name, kind) != kind]
        for name, buckets in theirs.hashed.items():
            if (mine.hashed.get(name), mine.seed) != (buckets, theirs.seed):
                strange.append(name)
        if strange:
            raise DataError(
                f"column {strange[0]!r} is a feature of the map of {path}, and the options say "
                "otherwise; leave them out, or learn without that map"
            )

    def _require_same_map(self, path: str) -> None:
        """Raise if the map of another file, if it is still there, is not what was begun with."""
        if not os.path.exists(path) or os.path.samefile(path, self.path) or self.model is None:
            return
        fixed = getattr(self.model, "features", AUTO)
        other = answering(require_learned(stored_model(path), path)).features_
        if fixed is other is None:
            return
        if isinstance(fixed, FixedMap) and other is not None:
            first = slice(fixed.first)  # later features do not matter
            mine, theirs = (
                (one.map.text, one.first, one.mean[first].tolist(), one.deviation[first].tolist())
                for one in (fixed, other)
            )
            if mine == theirs:
                return
        raise DataError(
            f"{self.path} was not begun with the map that {path} has now",
            Remedy("leave {} out", "features"),
            ANEW,
        )

    def _require_unknown(self, chunk: Chunk) -> None:
        for other, record in self.records.items():
            if record.begins_like(chunk.starts):
                raise DataError(
                    f"{chunk.source} begins with the same rows as {other}, which was learned "
                    "before",
                    Remedy("if they are to be learned again, say {}", "allow_overlap", True),
                )

    def _resume(
        self, columns: Mapping[str, Any], options: Mapping[str, Any], chunk_rows: int | None
    ) -> None:
        stored = stored_model(self.path)
        self.model, self.encoding, self.records = stored.model, stored.encoding, stored.records
        self.chunk_rows, self.window = stored.chunk_rows, stored.window
        self.held, self.forgotten = stored.held, stored.forgotten
        self.positive, self.settled = stored.positive, stored.settled
        self.recent, self._classes = stored.recent, stored.model.classes_.tolist()
        wanted = self._changed(columns)
        if wanted.drop != self.encoding.columns.drop:
            columns = {**columns, "drop": wanted.drop}
        self._amended = wanted != self.encoding.columns
        self.encoding = replace(self.encoding, columns=wanted)
        options = _named(_typed(options, self.encoding.labels))
        params = _named(self.model.get_params(deep=False))
        if params["features"] == AUTO:
            _require_open(options, self.encoding.columns)
        # Apart: a model that chooses has an option of its own called drop.
        for now, before in (
            (columns, asdict(self.encoding.columns)),
            (options, params),
            (
                {} if chunk_rows is None else {"chunk_rows": chunk_rows},
                {"chunk_rows": self.chunk_rows},
            ),
        ):
            for name, value in now.items():
                if value != before[name]:
                    text = f" is {shown(value)}, but {self.path} was learned with "
                    raise DataError(
                        (Setting(name), text, shown(before[name])),
                        Remedy("leave the option out"),
                        ANEW,
                    )

    def _changed(self, columns: Mapping[str, Any]) -> Columns:
        """What is wanted of the columns, with what may change on the way."""
        before = self.encoding.columns
        known = self.model.classes_.tolist() if self.model is not None else []
        classes = columns.get("classes", before.classes)
        if classes and not {str(label) for label in known} <= set(classes):
            text = f" is {shown(classes)}, but {self.path} has learned "
            raise DataError(
                (Setting("classes"), text, ", ".join(map(str, known))),
                Remedy("name these too"),
                ANEW,
            )
        more = [name for name in columns.get("drop", ()) if name not in before.drop]
        seen = [name for name in more if self.encoding.knows(name)]
        # A column that was never learned can be left out at any time.
        drop = before.drop if seen else tuple(sorted({*before.drop, *more}))
        return replace(before, classes=classes, drop=drop)


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


AUTO = "auto"


def rarest(counts: Mapping[Any, float]) -> Any:
    """Return the label of the rarest class.

    Parameters
    ----------
    counts : mapping
        How many rows each class has.

    Returns
    -------
    label
        Of equals the last.
    """
    return min(reversed(list(counts)), key=lambda label: counts[label])


def made(options: Mapping[str, Any], columns: Columns) -> Model:
    """A model that has learned nothing yet.

    Parameters
    ----------
    options : mapping
        Its parameters; ``features="auto"`` makes one that chooses.
    columns : Columns
        What is wanted of the columns.

    Returns
    -------
    BalancedRidgeClassifier or ChoosingClassifier
    """
    if options.get("features") != AUTO:
        return BalancedRidgeClassifier(**options)
    _require_open(options, columns)
    return ChoosingClassifier(**{k: v for k, v in options.items() if k != "features"})


def _require_open(options: Mapping[str, Any], columns: Columns) -> None:
    """Raise if an option decides what a model that chooses decides by itself."""
    costs = (" balances the classes, with ", Setting("costs"), " if you like")
    given = {*options, *(["weight"] if columns.weight is not None else [])}
    for name, what in (
        ("ridge", (" chooses the ridge",)),
        ("scale", (" scales by itself",)),
        ("class_weight", costs),
        ("fit_intercept", (" has a constant",)),
        ("weight", (" counts rows",)),
    ):
        if name in given:
            raise DataError((Setting("features", AUTO), *what), Remedy("leave {} out", name))


def _named(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with the map by its name, to be compared."""
    result = dict(options)
    if "candidates" in result:
        result["features"] = AUTO
    elif result.get("features") not in (None, AUTO):
        result["features"] = text_of(result["features"])
    return result


def _typed(options: Mapping[str, Any], labels: str | None) -> dict[str, Any]:
    """Options with the keys of dicts by label as the labels are."""
    result = dict(options)
    for name in ("class_weight", "costs"):
        value = result.get(name)
        if isinstance(value, Mapping) and labels == "int":
            try:
                result[name] = {int(key): number for key, number in value.items()}
            except ValueError:
                raise DataError(
                    (Setting(name), f" names {list(value)}, but labels are whole numbers")
                ) from None
    features = {"features": result.pop("features")} if "features" in result else {}
    return {**options_of(plain_options(result), result), **features}


def shown(value: Any) -> str:
    """An option in words.

    Parameters
    ----------
    value : object
        Its value.

    Returns
    -------
    str
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={number}" for key, number in value.items()) or "nothing"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(str, value)) or "nothing"
    return "none" if value is None else str(value)


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

    Parameters
    ----------
    learner : Learner
        Who learns.
    inputs : iterable of (Source, str)
        The inputs, and what they are called in the records.
    checkpoint_every : int
        Rows between two saves, rounded up to whole chunks.
    stop : callable
        Whether to save and end now.
    watch : callable
        Told of each chunk before it is learned.
    allow_overlap : bool, default=False
        Learn an input that begins like another one that was learned.
    before_save : callable
        Told before each save, and at the end, whether nothing is left to be learned.

    Returns
    -------
    dict of str to int
        New rows of each input.
    """
    new: dict[str, int] = {}
    unsaved, threads = 0, ThreadpoolController().select(user_api="blas")
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
            with threads.limit(limits=1):
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
