"""Guards while learning: labels and columns that are more likely mistakes than news."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from counterpoise.arrays import Flags, Matrix, Vector
from counterpoise.encoding.columns import Feature
from counterpoise.encoding.encoder import ColumnEncoder, EncodedChunk
from counterpoise.engine.state import State
from counterpoise.errors import DataError, Message, OptionValue, Suggestion, suggest
from counterpoise.moments._moments import describe_nonzero
from counterpoise.readers.chunk import Chunk
from counterpoise.solver.options import LABEL_OPTIONS
from counterpoise.tables.alerts import DAY_SECONDS

MIN_ROWS_TO_FREEZE_CLASSES = 1000  # rows after which a new label is more likely a mistake


def label_text(label: Any) -> str:
    """Return a label as text, as the columns of a table name it."""
    if isinstance(label, (bool, np.bool_)):
        return "true" if label else "false"
    return str(label)


@dataclass
class Guards:
    """Permissions of the user, and messages for the user."""

    path: str  # the model file
    positive: str | None = None  # the positive class, as text
    allow_new_classes: bool = False  # also after many rows
    allow_new_columns: bool = False  # also to omit columns that were learned
    allow_future: bool = False  # times after now
    costs: Mapping[Any, float] | None = None  # of mistakes, by label; not an option of the engine
    notes: dict[Any, Message] = field(default_factory=dict)  # messages at the end, by subject
    blank: Counter[str] = field(default_factory=Counter)  # cells without a value, by column

    # Labels

    def named_classes(self, options: Mapping[str, Any]) -> dict[str, list[str]]:
        """Return the classes that options name, by option."""
        named = {} if self.positive is None else {"positive": [self.positive]}
        for name in LABEL_OPTIONS:
            if isinstance(options.get(name), Mapping):
                named[name] = [label_text(label) for label in options[name]]
        return named

    def require_named(self, options: Mapping[str, Any], learned: Iterable[Any], where: str) -> None:
        """Raise if an option names a class that does not exist."""
        labels = [str(label) for label in learned]
        for option, names in self.named_classes(options).items():
            unknown = [name for name in names if name not in labels]
            if unknown:
                text = f": unknown class {unknown[0]!r} (classes: {', '.join(labels)})"
                close = "".join(f" ({one.words})" for one in suggest(unknown[0], labels))
                raise DataError(
                    (f"{where}: ", OptionValue(option), text),
                    Suggestion(f"correct it{close}"),
                    Suggestion("name all classes with {} if it comes later", "classes"),
                )

    def note_unseen(
        self, options: Mapping[str, Any], learned: Sequence[str], declared: Sequence[str]
    ) -> None:
        """Note the classes that options name and that no row has yet.

        Raise if the positive class is one of them, and several classes were learned.
        """
        if self.positive not in (None, *learned, *declared) and len(learned) > 1:
            self.require_named({}, learned, self.path)
        named = self.named_classes(options)
        if self.costs:
            named["costs"] = [label_text(label) for label in self.costs]
        for option, names in named.items():
            for name in names:
                if name not in learned:
                    text = f": no row has the class {name!r} yet (classes: {', '.join(learned)})"
                    self.notes[option, name] = Message(("warning: ", OptionValue(option), text))

    def require_labels(
        self,
        chunk: Chunk,
        encoded: EncodedChunk,
        learned: list[Any],
        options: Mapping[str, Any],
        declared: tuple[str, ...],
        settled: int,
    ) -> None:
        """Raise if a label is more likely a mistake than new, or an option names no label.

        ``learned`` are the labels so far, ``declared`` the only valid ones (empty for any), and
        ``settled`` the rows that were learned in runs that have ended.
        """
        labels = encoded.labels
        if not learned or self.positive is not None:
            everything = {*map(str, learned), *map(str, labels)}
            if len(everything) > 1 and not declared:
                self.require_named(options, sorted(everything), chunk.source)
        new = [label for label in labels if label not in learned]
        if len(learned) < 2 or not new or declared:
            return
        if settled >= MIN_ROWS_TO_FREEZE_CLASSES and not self.allow_new_classes:
            raise chunk.error(
                _first(encoded, new),
                f"label {str(new[0])!r} is new: {self.path} has learned {settled:,} rows of "
                f"{', '.join(map(str, learned[:6]))}{' and more' * (len(learned) > 6)}",
                Suggestion("correct it"),
                Suggestion("learn new classes", "allow_new_classes", True),
            )
        if settled:
            for label in new:
                row = chunk.first + _first(encoded, [label])
                self.notes["label", label] = Message(
                    f"warning: {chunk.source}, row {row}: label {str(label)!r} is a new class "
                    f"in addition to {', '.join(map(str, learned[:6]))}"
                )

    # Columns

    def note_blank(self, blank: Mapping[str, int]) -> None:
        """Note the columns that have cells without a value, and how many of them."""
        if blank:
            self.blank.update(blank)
            each = [f"{name!r} ({count:,})" for name, count in self.blank.items()]
            shown = ", ".join(each[:6]) + f" and {len(each) - 6} more columns" * (len(each) > 6)
            self.notes["blank"] = Message(
                f"missing values in {shown}: numbers are imputed by the mean of those seen so far, "
                "and an indicator feature marks them",
                Suggestion("choose another rule", "missing"),
            )

    def require_past(self, chunk: Chunk, encoded: EncodedChunk, column: str | None) -> None:
        """Raise if the time of a row is after now, unless it may be.

        All earlier rows decay to such a time, and one mistyped year would erase them.
        """
        if encoded.t is None or self.allow_future or not len(encoded.t):
            return
        limit = time.time() + DAY_SECONDS  # clocks and zones differ
        future = encoded.t > limit
        if future.any():
            row = int(np.flatnonzero(encoded.kept)[future.argmax()])
            when = np.datetime64(int(encoded.t[future.argmax()]), "s")
            raise chunk.error(
                row,
                f"column {column!r} has the time {when}, which is in the future; all other rows "
                "would decay until then",
                Suggestion("correct it"),
                Suggestion("learn such times", "allow_future", True),
            )

    def encode(
        self,
        chunk: Chunk,
        encoding: ColumnEncoder,
        has_earlier: bool,
        max_features: float = math.inf,
        lacking: list[str] | None = None,
    ) -> tuple[EncodedChunk, ColumnEncoder]:
        """Encode rows to be learned, check their columns and times; return the encoder too.

        ``has_earlier`` is true after rows of other inputs. ``lacking`` has the columns that a table
        does not have, if they were found before.
        """
        lacking = encoding.missing_columns(chunk) if lacking is None else lacking
        self.require_whole(chunk, lacking)
        encoded, after = encoding.learn(chunk, max_features, lenient=bool(lacking))
        if not chunk.is_checked:
            self.require_past(chunk, encoded, encoding.columns.timestamp)
        self.notice_columns(chunk, lacking, encoding, after, has_earlier)
        return encoded, after

    def require_whole(self, chunk: Chunk, lacking: list[str]) -> None:
        """Raise if a table does not have columns that were learned, unless that is allowed."""
        if lacking and not (self.allow_new_columns or chunk.is_checked):
            self._refuse(chunk, lacking[0], "has no", "which the model has learned")

    def notice_columns(
        self,
        chunk: Chunk,
        lacking: list[str],
        before: ColumnEncoder,
        after: ColumnEncoder,
        has_earlier: bool,
    ) -> None:
        """Raise if a table has other columns than earlier ones, or note it if that is allowed.

        ``before`` and ``after`` are the encoders without and with these rows.
        """
        if not has_earlier or chunk.entries is not None:
            return
        columns = dict.fromkeys((*after.kinds, *(f.column for f in after.features)))
        new = [name for name in columns if not before.knows(name)]
        if not chunk.table:  # rows need not have every field, but a new name is reported
            if new:
                listed = ", ".join(map(repr, new[:5])) + " and more" * (len(new) > 5)
                note = Message(f"{chunk.source}: new fields, 0 in all earlier rows: {listed}")
                self.notes.setdefault(("fields", chunk.source), note)
            return
        if new and not (self.allow_new_columns or chunk.is_checked):
            self._refuse(chunk, new[0], "has", "which earlier files do not have")
        texts = dict.fromkeys(new, "new, and 0 in all earlier rows")
        for name, text in (texts | dict.fromkeys(lacking, "absent, and taken as 0")).items():
            note = Message(f"{chunk.source}: column {name!r} is {text}")
            self.notes.setdefault(("column", name, text), note)

    def _refuse(self, chunk: Chunk, name: str, verb: str, what: str) -> None:
        both = "to learn tables of both kinds, with 0 where a column is absent, use {}"
        remedies = [Suggestion(both, "allow_new_columns", True)]
        if verb == "has":
            remedies.append(Suggestion("leave the column out", "columns", {name: "drop"}))
        raise DataError(f"{chunk.source} {verb} column {name!r}, {what}", *remedies)


def _first(encoded: EncodedChunk, labels: list[Any]) -> int:
    """Return the index of the first row of a chunk that has one of these labels."""
    return int(np.flatnonzero(encoded.kept)[np.isin(encoded.y, labels).argmax()])


MAX_DEVIATIONS = 100  # from the mean, beyond which a value is reported
MIN_LEARNED_ROWS = 100  # rows that must have been learned before


class OutlierCounter:
    """Numbers of values far from all learned values, by column."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, str]] = {}

    def count(
        self, learned: State, features: Sequence[Feature], encoded: EncodedChunk, chunk: Chunk
    ) -> None:
        """Count values of the encoded rows of a chunk."""
        X, kept = encoded.X, encoded.kept
        if not X.shape[0]:
            return
        expected = expected_range(learned)
        if learned.codes is not None:
            X, _ = learned.codes.split(X)
        if expected is None or len(expected[0]) != X.shape[1]:
            return
        low, high = expected
        if isinstance(X, np.ndarray):
            least, greatest = encoded.bounds or _extremes(X)
            for j in np.flatnonzero((least < low) | (greatest > high)).tolist():
                x = X[:, j]
                self._add(features[j], x, np.flatnonzero((x < low[j]) | (x > high[j])), kept, chunk)
            return
        # A value that a sparse row does not have is 0, and is not reported.
        data, column = X.data, X.indices
        at = np.flatnonzero((data != 0) & ((data < low[column]) | (data > high[column])))
        rows = np.searchsorted(X.indptr, at, side="right") - 1
        for j in np.unique(column[at]).tolist():
            mine = column[at] == j
            values = np.zeros(X.shape[0])
            values[rows[mine]] = data[at[mine]]
            self._add(features[j], values, rows[mine], kept, chunk)

    def _add(self, feature: Feature, x: Vector, rows: Any, kept: Flags, chunk: Chunk) -> None:
        if feature.kind != "number" or not len(rows):
            return
        first = int(rows[0])
        row = chunk.first + int(np.flatnonzero(kept)[first])
        place = f"{x[first]:.10g} in row {row} of {chunk.source}"
        count, place = self._found.get(feature.column, (0, place))
        self._found[feature.column] = count + len(rows), place

    def warnings(self) -> list[str]:
        """Return one warning for each column."""
        return [
            f"warning: column {name!r}: {count:,} value{'s are' if count > 1 else ' is'} more than "
            f"{MAX_DEVIATIONS} standard deviations from all that was learned, the first {place}"
            for name, (count, place) in self._found.items()
        ]


def _extremes(X: Matrix) -> tuple[Vector, Vector]:
    """Return minimum and maximum of each column; long rows make NumPy several times faster."""
    n, d = X.shape
    end = n - n % 64
    if end:
        long = X[:end].reshape(-1, 64 * d)
        ends = [long.min(axis=0).reshape(64, d), long.max(axis=0).reshape(64, d)]
        X = np.concatenate([X[end:], *ends])
    return X.min(axis=0), X.max(axis=0)


def expected_range(learned: State) -> tuple[Vector, Vector] | None:
    """Return the lowest and highest expected value of each feature, (d,), infinite if unknown.

    None if all are unknown.
    """
    if sum(learned.moments.n.tolist()) < MIN_LEARNED_ROWS:
        return None
    if learned.fixed is not None or learned.warmup is not None:
        if learned.fixed is None or learned.warmup is not None:
            return None
        mean, deviation = learned.fixed.mean, np.array(learned.fixed.deviation)
        never = np.zeros(len(mean), dtype=bool)
    else:
        mean, deviation, nonzero = describe_nonzero(learned.moments)
        never = nonzero < MIN_LEARNED_ROWS
    # A feature that never varied, except for rounding, has no deviation.
    is_known = (deviation > 1e-9 * np.abs(mean)) & ~never & np.isfinite(mean)
    far = np.where(is_known, MAX_DEVIATIONS * deviation, np.inf)
    mean = np.where(is_known, mean, 0.0)
    return mean - far, mean + far
