"""A model with columns, which learns each row of its inputs exactly once.

A model file records for each input how many of its rows were learned and their hash. Chunks end
where the rows determine it, independent of where a run stopped. So a run that was killed and
started again ends with the same bytes as one that was not.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from counterpoise.arrays import Counts, Matrix, Rows, Vector, distinct_labels, is_sparse, one_thread
from counterpoise.encoding.column_values import MAX_CATEGORIES, labels, require_declared
from counterpoise.encoding.columns import Columns
from counterpoise.encoding.encoder import ColumnEncoder, EncodedChunk, is_in_vocabulary
from counterpoise.engine.parameters import DEFAULT_MEMORY_LIMIT
from counterpoise.engine.progressive_calibration import SORTED
from counterpoise.engine.row_hashes import row_order
from counterpoise.errors import DataError, Message, Suggestion
from counterpoise.modelfile.container import Contents
from counterpoise.readers.chunk import Chunk, ReadPosition, Source
from counterpoise.readers.dataframes import FrameSource
from counterpoise.solver.imputation import MeanImputation
from counterpoise.tables import model_io
from counterpoise.tables.estimator import (
    MAPS,
    Model,
    as_auto,
    as_ridge,
    new_encoder,
    new_model,
    new_typed_engine,
    pop_map_file,
    require_same_settings,
    typed_options,
    widen_maps,
)
from counterpoise.tables.guards import Guards, OutlierCounter
from counterpoise.tables.records import (
    FRAMES,
    PENDING,
    Record,
    Records,
    UnfiledRows,
    Window,
    concatenate_positions,
    input_key,
    read_ahead,
    read_also,
)
from counterpoise.tables.scoring import (
    CHUNK_ROWS,
    PredictionEncoder,
    ScoredRows,
    TableScorer,
    push_scores,
    scored_parts,
    select_rows,
)

if TYPE_CHECKING:
    from counterpoise.tables.event_database import EventDatabase

NAME = "the model"
MAX_FREQUENT_SAVE_BYTES = 1 << 26  # of a file: a larger one is saved less often
SomeChunk = TypeVar("SomeChunk", bound=Chunk)


@dataclass(eq=False)
class TableModel:
    """Model with columns: an estimator, the encoder of its columns, and records of its inputs."""

    model: Model | None  # the engine of encoded rows; None while nothing was learned
    encoding: ColumnEncoder
    records: Records = field(default_factory=Records)  # of the inputs
    chunk_rows: int = CHUNK_ROWS  # rows learned in one step
    positive: Any = None  # the positive class, once it is chosen
    settled: int = 0  # rows that were read in runs that were not interrupted
    recent: Matrix | None = None  # ranking scores of the rows that were learned last
    window: Window | None = None  # progressive scores after the last line of a metrics file
    held: Counts | None = None  # learned rows with a value for each feature, if they were counted
    unlearned: int = 0  # rows that were read and unlearned since
    apart: UnfiledRows = field(default_factory=UnfiledRows)
    path: str = NAME  # the model file
    guards: Guards = field(default_factory=lambda: Guards(NAME))
    given: dict[str, Any] = field(default_factory=dict)  # options of a model to be created
    prototype: Model | None = None  # an engine whose parameters a new model has instead
    outlying: OutlierCounter = field(default_factory=OutlierCounter)
    store: EventDatabase | None = None  # pending events; each id is learned once, here or there
    formerly: dict[str, str] = field(default_factory=dict)  # former paths of the inputs of this run
    _is_amended: bool = False
    _has_earlier: bool = False
    _calibrates: bool = True  # progressively, where the estimator does
    _kinds: dict[str, str] = field(default_factory=dict)

    # Files

    @classmethod
    def open(
        cls,
        path: str,
        columns: Mapping[str, Any],
        options: Mapping[str, Any],
        chunk_rows: int | None = None,
        guards: Guards | None = None,
    ) -> TableModel:
        """Return the model of a file to continue, or a new one if the file does not exist.

        ``columns`` are the fields of Columns, and ``options`` the parameters of the estimator, that
        the user has set; keys of dicts by label are text. ``feature_map`` may also be "auto", for
        an averaging model, or the path of a model file, with a separator in it, with whose map and
        ridge the new model begins.
        """
        given = dict(options)
        source, other = pop_map_file(given), None
        exists = os.path.exists(path)
        if source is not None and not (
            exists and (not os.path.exists(source) or os.path.samefile(source, path))
        ):
            other = cls.load(source).require_learned()
        if exists:
            result = cls.load(path)
            before = result.encoding.columns
            wanted = require_same_settings(result, columns, given, chunk_rows, other)
            result.encoding = replace(result.encoding, columns=wanted)
            result._is_amended = wanted != before
        else:
            encoding = new_encoder(columns, given, other)
            result = cls(None, encoding, chunk_rows=chunk_rows or CHUNK_ROWS, path=path)
            result.given, result.held = given, np.zeros(0, dtype=np.int64)
        result.guards = guards or Guards(path)
        if result.encoding.columns.classes:
            result.guards.require_named(result.options, result.encoding.columns.classes, path)
        return result

    @classmethod
    def load(cls, path: str) -> TableModel:
        """Load a model file."""
        return cls.from_contents(model_io.read_contents(path), path)

    @classmethod
    def from_contents(cls, contents: Contents, path: str) -> TableModel:
        """Return the model that a file contains, checked; ``path`` is its name in messages."""
        return cls(**model_io.read_fields(contents, path), path=path, guards=Guards(path))

    def save(self, path: str | None = None) -> None:
        """Write the model file completely or not at all, if there is a model."""
        if self.model is not None:
            model_io.save(path or self.path, self)

    def require_learned(self) -> TableModel:
        """Return this model, or raise if no learned row is left."""
        if not self.is_fitted:
            raise DataError(f"{self.path} is empty: everything that it had learned was unlearned")
        return self

    # Properties

    @property
    def estimator(self) -> Model:
        """The engine, which must exist."""
        assert self.model is not None
        return self.model

    @property
    def is_fitted(self) -> bool:
        """True if the model has learned rows."""
        return self.model is not None and self.model.is_fitted

    @property
    def classes(self) -> list[Any]:
        """Labels that were learned or declared."""
        return [] if self.model is None else list(self.model.labels.tolist())

    @property
    def class_counts(self) -> dict[Any, float]:
        """Weight of each class of an engine that exists."""
        return dict(zip(self.classes, self.estimator.class_count.tolist(), strict=True))

    @property
    def options(self) -> Mapping[str, Any]:
        """Options of the engine, or those that it will have."""
        return self.given if self.model is None else self.model.params.estimator_parameters

    @property
    def notes(self) -> dict[Any, Message]:
        """Messages for the user at the end, by subject."""
        return self.guards.notes

    @property
    def rows(self) -> int:
        """Rows read so far, those dropped included."""
        return self.records.rows

    @property
    def total_rows_read(self) -> int:
        """Rows that were ever read, those unlearned included."""
        return self.rows + self.unlearned

    @property
    def held_rows(self) -> Counts | None:
        """Learned rows that have a value for each feature, (d,), if they were counted."""
        if self.held is None:
            return None
        more = len(self.encoding.features) - len(self.held)
        return np.append(self.held, np.zeros(more, dtype=np.int64)) if more else self.held.copy()

    @property
    def optional_columns(self) -> frozenset[str]:
        """Columns that some of the learned rows did not have, and that were 0 there."""
        held = self.held_rows
        if held is None:
            return frozenset()
        rows, counts = self.apart.rows + self.records.learned_rows, Counter[str]()
        for feature, count in zip(self.encoding.features, held.tolist(), strict=True):
            counts[feature.column] += count
        for column, vocabulary in self.encoding.vocabularies.items():
            counts[column] += vocabulary.rows
        return frozenset(column for column, count in counts.items() if count < rows)

    @property
    def store_mark(self) -> ReadPosition:
        """Read position of the store of pending events as the saved model has it."""
        return ReadPosition() if self.model is None else self.records.position(PENDING)

    def set_store_mark(self, mark: ReadPosition) -> None:
        """Record the read position of the store of pending events."""
        record = self.records.get(PENDING, Record(starts=(mark.hash,)))
        self.records[PENDING] = replace(record, mark=mark)

    # Scoring

    @property
    def encoder(self) -> PredictionEncoder:
        """Encoder of rows that are to be predicted."""
        return PredictionEncoder(
            self.encoding, self.optional_columns, self.estimator.best.state.mean
        )

    @property
    def scorer(self) -> TableScorer:
        """Encoder and scores of this moment; all predictions go through it."""
        model = self.estimator
        return TableScorer(
            self.encoding, self.optional_columns, model.best.state.mean, model, model.scores()
        )

    # Learning

    def key(self, path: str, stdin_name: str | None = None) -> str:
        """Return the name of an input in the records."""
        return input_key(path, self.path, stdin_name)

    def identify(self, source: Source, key: str) -> bool:
        """Return whether an input was learned, completely or in part, under any name.

        Its record gets its present name ``key``.
        """
        return self.records.identify(source, key, self.encoding, self.path) is not None

    def chunks(self, source: Source, key: str, after: ReadPosition) -> Iterator[Chunk]:
        """Return the chunks of an input after a read position, and prepare to learn them."""
        columns = self.encoding.columns
        self._kinds = columns.read({**columns.explicit_types, **self.encoding.kinds})
        self._has_earlier = self.records.has_other_rows(key)
        if self.store is None or key == PENDING:
            return source.chunks(self.chunk_rows, after, self._kinds, columns.is_needed)
        wanted = read_also(source, columns.is_needed, [self.store.id])
        chunks = source.chunks(self.chunk_rows, after, self._kinds, wanted)
        return self.store.claim(chunks, key, columns.is_needed)

    def learn(
        self,
        chunk: Chunk,
        key: str,
        allow_overlap: bool = False,
        weight: Vector | None = None,
        needs_scores: bool = False,
    ) -> list[ScoredRows]:
        """Learn the next chunk of the input ``key``.

        With ``allow_overlap`` the input may begin like another one that was learned. ``weight``
        (rows,) multiplies the weights of the rows. With ``needs_scores``, return progressive scores
        of all rows; without it, of those that the score window needs.
        """
        old_classes, is_fitted = self.classes, self.is_fitted
        encoded, after = self.encode_new(
            chunk, key, old_classes if is_fitted else [], allow_overlap
        )
        encoded = scale_weights(encoded, weight)
        self._prepare(chunk.source, encoded, after, old_classes)
        found: list[ScoredRows] = []
        if encoded.X.shape[0]:
            if is_fitted:
                state = self.estimator.reference_state
                self.outlying.count(state, after.features, encoded, chunk)
            found = self._learn_rows(chunk, encoded, old_classes, needs_scores)
        self._count(chunk, key, encoded, after)
        return found

    def encode_new(
        self, chunk: Chunk, key: str, old_classes: list[Any], allow_overlap: bool = False
    ) -> tuple[EncodedChunk, ColumnEncoder]:
        """Encode and check rows that are to be learned after rows of ``old_classes``.

        Return the encoder after them, too.
        """
        self.records.check_new(chunk, key, allow_overlap)
        if self.encoding.allows_many != self._allows_many:
            self.encoding = replace(self.encoding, allows_many=self._allows_many)
        encoded, after = self.guards.encode(
            chunk, self.encoding, self._has_earlier, self._max_features()
        )
        self.require_labels(chunk, encoded, old_classes)
        for subject, text in encoded.notes.items():
            self.notes.setdefault(subject, text.after(f"warning: {chunk.source}: "))
        if self.encoding.columns.missing == "mean":
            self.guards.note_blank(encoded.blank)
        return encoded, after

    def require_labels(self, chunk: Chunk, encoded: EncodedChunk, old_classes: list[Any]) -> None:
        """Raise if a label of a chunk is not allowed after rows of other labels."""
        declared = self.encoding.columns.classes
        self.guards.require_labels(
            chunk, encoded, old_classes, self.options, declared, self.settled
        )

    def _learn_rows(
        self, chunk: Chunk, encoded: EncodedChunk, old_classes: list[Any], needs_scores: bool
    ) -> list[ScoredRows]:
        """Learn rows after rows of ``old_classes``, and update the window of recent scores."""
        model, before, found = self.estimator, self.rows, list[ScoredRows]()
        had_sorted, after = model.has_sorted_labels, before + chunk.rows
        # Other threads parse meanwhile, and no bit depends on the number of cores.
        with one_thread():
            parts = scored_parts(model, before, after, encoded, self.chunk_rows, needs_scores)
            for part, scored in parts:
                found += scored
                model.learn(part.X, part.y, part.weight, part.t, calibrate=self._calibrates)
        if not had_sorted and model.has_sorted_labels:
            self.notes["order"] = Message(f"warning: {chunk.source}: {SORTED}")
        classes = self.classes
        window = self.recent if classes == old_classes else None
        self.recent = push_scores(window, found, classes, after)
        return found

    def _count(self, chunk: Chunk, key: str, encoded: EncodedChunk, after: ColumnEncoder) -> None:
        """Record that a chunk was learned."""
        if self.held is not None:
            more, kept = encoded.held.copy(), self.held_rows
            assert kept is not None
            features, vocabularies = self.encoding.features, dict(after.vocabularies)
            is_left = np.ones(len(features), dtype=bool)
            if vocabularies.keys() != self.encoding.vocabularies.keys():
                for j, one in enumerate(features):
                    if is_in_vocabulary(one, vocabularies):
                        is_left[j], before = False, vocabularies[one.column]
                        vocabularies[one.column] = before.with_rows(before.rows + int(kept[j]))
                after = replace(after, vocabularies=vocabularies)
            kept = kept[is_left]
            more[: len(kept)] += kept
            self.held = more
        if after is not self.encoding:
            self.encoding = after
            self._kinds.update(after.columns.read(after.kinds))
        self.records.advance(key, chunk, int((~encoded.kept).sum()))
        if chunk.store_mark is not None:
            self.set_store_mark(chunk.store_mark)

    def _prepare(
        self, source: str, encoded: EncodedChunk, encoding: ColumnEncoder, old_classes: list[Any]
    ) -> None:
        """Make the engine ready for encoded rows after rows of the labels ``old_classes``."""
        self._convert_columns(encoding)
        names: list[str] = []
        if self.model is None or encoding.features != self.encoding.features:
            names = [feature.name for feature in encoding.features]
        if names and self.model is not None:
            self.model.add_features(names)
        codes = encoding.code_columns
        if self.model is not None and codes is not None:
            self.model.set_codes(range(len(self.encoding.vocabularies)), codes)
        if not encoded.X.shape[0]:
            return
        if not encoding.features:
            raise DataError(f"{source}: no column is left to learn from")
        if self.model is None:
            for option in MAPS & self.given.keys():
                self.given[option] = widen_maps(self.given[option], names)
            if self.prototype is None:
                self.model = new_model(typed_options(self.given, encoding.labels), encoding.columns)
            else:
                self.model = new_typed_engine(self.prototype, encoding.labels)
            self.model.set_codes((), codes)
        self.model.set_imputation(MeanImputation.of(*encoding.fill))
        auto = as_auto(self.model)
        if auto is not None and names:
            auto.warning_names = names
        if len({*old_classes, *encoded.labels}) > MAX_CATEGORIES:
            raise DataError(
                f"{source}: column {encoding.columns.label!r} has more than "
                f"{MAX_CATEGORIES:,} different labels; is it the right column?"
            )

    @property
    def _allows_many(self) -> bool:
        """True if a column without a role may have many categories."""
        model = self.model or self.prototype
        if model is None:
            given = self.given.get
            return given("feature_map") is None and given("pooled_rows") is None
        ridge = as_ridge(model)
        return ridge is not None and ridge.allows_many

    def _convert_columns(self, encoding: ColumnEncoder) -> None:
        """Let features of categories become categories of columns that have many of them now."""
        ridge, mine = as_ridge(self.model), list(self.encoding.features)
        for b, name in enumerate(encoding.vocabularies):
            before = [f for f in mine if is_in_vocabulary(f, {name: None})]
            if before and ridge is not None and ridge.code_count == b:
                at = np.array([j for j, f in enumerate(mine) if f in set(before)], dtype=np.intp)
                ridge.features_to_categories(at)
                mine = [feature for feature in mine if feature not in set(before)]

    def _max_features(self) -> float:
        """Return the number of features whose moments of one class and one chunk fit in memory."""
        limit = self.options.get("memory_limit")
        return math.sqrt((DEFAULT_MEMORY_LIMIT if limit is None else limit) / 16.0)

    # Delayed labels

    def check_events(
        self, encoding: ColumnEncoder, chunk: Chunk, has_earlier: bool
    ) -> ColumnEncoder:
        """Raise if events cannot be learned with any label; return the encoder after them.

        ``encoding`` has the types of the columns of earlier events; ``has_earlier`` is true if
        there were any.
        """
        label = encoding.columns.label
        if label in (chunk.offered or chunk.columns):
            raise DataError(
                f"{chunk.source} has the column {label!r}, which belongs to the labels",
                Suggestion("leave it out"),
                Suggestion("learn the file as labeled rows: leave {} out", "id"),
            )
        probe = with_placeholder_label(chunk, encoding.columns)
        lacking = encoding.missing_columns(probe)
        if chunk.table:
            named = dict.fromkeys([*lacking, *encoding.kinds])
            lacking = [c for c in named if c not in chunk.offered and encoding.columns.feature(c)]
        before = replace(encoding, labels="text")
        limit = self._max_features()
        _, after = self.guards.encode(probe, before, has_earlier, limit, lacking)
        return replace(after, labels=encoding.labels)

    def check_labels(self, chunk: Chunk) -> None:
        """Raise if labels that come without their events cannot be learned."""
        columns, kept = self.encoding.columns, np.ones(chunk.rows, dtype=bool)
        y = labels(columns, chunk, self.encoding.labels).values
        require_declared(columns, chunk, y, kept)
        encoded = EncodedChunk(np.empty((chunk.rows, 0)), y, None, kept, {})
        encoded = encoded._replace(labels=distinct_labels(y))
        self.require_labels(chunk, encoded, self.classes if self.is_fitted else [])

    # All frames are one input in the records. They have no names and cannot be read again.

    def learn_frame(self, source: FrameSource, weight: Vector | None = None) -> int:
        """Learn the rows of a frame, with weights (n,), and return their number."""
        at = 0
        with one_thread():
            for chunk in self.chunks(source, FRAMES, ReadPosition()):
                part = None if weight is None else weight[at : at + chunk.rows]
                self.learn(self._following(chunk), FRAMES, allow_overlap=True, weight=part)
                at += chunk.rows
        return at

    def fit_frame(self, source: FrameSource, weight: Vector | None = None) -> int:
        """Learn the rows of a frame in memory as the first ones, and return their number.

        With ``calibrate`` they are cross-fitted, so that their order has no effect. An averaging
        model learns them in a seeded random order, whose first rows fit its maps.
        """
        assert self.prototype is not None
        options = self.prototype.params.options
        if options.half_life is None and as_auto(self.prototype) is not None:
            return self._fit_shuffled(source, weight)
        self._calibrates = options.half_life is not None or not options.calibrate
        try:
            rows = self.learn_frame(source, weight)
            ridge = as_ridge(self.model)
            if not self._calibrates and ridge is not None and rows:
                names = [feature.name for feature in self.encoding.features]

                def batches() -> Iterator[Any]:
                    for part, _ in self._encode_again(source, weight):
                        if part.X.shape[0]:
                            yield ridge.batch(part.X, part.y, part.weight)

                texts = {name: one.values for name, one in self.encoding.vocabularies.items()}
                with one_thread():
                    ridge.cross_fit(batches, names, texts)
        finally:
            self._calibrates = True
        return rows

    def _fit_shuffled(self, source: FrameSource, weight: Vector | None) -> int:
        """Learn the rows of a frame in the order of their hashes, after all were checked."""
        old_classes: list[Any] = []
        for chunk in self.chunks(source, FRAMES, ReadPosition()):
            chunk = self._following(chunk)
            encoded, after = self.encode_new(chunk, FRAMES, old_classes, allow_overlap=True)
            old_classes = sorted({*old_classes, *encoded.labels})
            self._count(chunk, FRAMES, encoded, after)
        whole = _concatenate([part for part, _ in self._encode_again(source, weight)])
        if whole is not None:
            order = row_order(whole.X, whole.y, whole.weight)
            rows = select_rows(whole, order)
            self._prepare(source.name, rows, self.encoding, [])
            n, found = len(rows.y), list[ScoredRows]()
            with one_thread():
                parts = scored_parts(self.estimator, 0, n, rows, self.chunk_rows, needs_all=False)
                for part, scored in parts:
                    found += scored
                    self.estimator.learn(part.X, part.y, part.weight)
            self.recent = push_scores(None, found, self.classes, n)
        return self.rows

    def unlearn_frame(self, source: FrameSource, weight: Vector | None = None) -> int:
        """Unlearn the rows of a frame, and return their number."""
        from counterpoise.tables.unlearn import subtract_encoded

        unknown = DataError(
            f"{source.name} has values or labels that were never learned",
            Suggestion("unlearn rows as they were learned"),
        )
        with one_thread():
            n = subtract_encoded(self, self._encode_again(source, weight), unknown)
        self.unlearned += n
        record = self.records.get(FRAMES)
        if record is not None:
            left = max(record.mark.rows - n, 0)
            mark = ReadPosition(left, 0, record.mark.hash)
            self.records[FRAMES] = replace(record, mark=mark, dropped=min(record.dropped, left))
        self.finish()
        return n

    def _encode_again(
        self, source: FrameSource, weight: Vector | None
    ) -> Iterator[tuple[EncodedChunk, ColumnEncoder]]:
        """Yield the chunks of a frame whose rows were learned, encoded again."""
        at = 0
        columns = self.encoding.columns
        kinds = columns.read(self.encoding.kinds)
        for chunk in source.chunks(self.chunk_rows, ReadPosition(), kinds, columns.is_needed):
            encoded, after = self.encoding.learn(chunk, lenient=True)
            part = None if weight is None else weight[at : at + chunk.rows]
            at += chunk.rows
            yield scale_weights(encoded, part), after

    def _following(self, chunk: Chunk) -> Chunk:
        """Return a chunk as the rows after those of all frames so far."""
        mine = replace(chunk.mark, rows=chunk.rows)
        mark = concatenate_positions(self.records.position(FRAMES), mine)
        return replace(chunk, mark=mark, starts=())

    # The end of a run

    def finish(self) -> bool:
        """End a run that was not interrupted, and return whether the model must be saved.

        Labels that were learned until now do not count as new later.
        """
        before = self.settled, self.positive
        self.settled = self.rows
        if self.is_fitted:
            self.choose_positive(self.guards.positive)
            learned, declared = list(map(str, self.classes)), self.encoding.columns.classes
            self.guards.note_unseen(self.options, learned, declared)
        else:
            self.positive = None
        if self.positive not in (None, before[1]):
            text = f"the positive class is {str(self.positive)!r}"
            self.notes["positive"] = Message(text, Suggestion("choose another", "positive"))
        return self._is_amended or before != (self.settled, self.positive)

    def choose_positive(self, wanted: str | None = None) -> None:
        """Set the positive class: ``wanted``, the present one, or the rarest of several."""
        counts = self.class_counts
        by_name = {str(label): label for label in counts}
        if wanted in by_name:
            self.positive = by_name[wanted]
        elif self.positive not in counts:
            self.positive = rarest_class(counts) if len(counts) > 1 else None


def scale_weights(encoded: EncodedChunk, weight: Vector | None) -> EncodedChunk:
    """Return encoded rows whose weights are multiplied by weights (rows,) of all rows."""
    if weight is None:
        return encoded
    mine = weight[encoded.kept]
    return encoded._replace(weight=mine if encoded.weight is None else mine * encoded.weight)


def _concatenate(parts: list[EncodedChunk]) -> EncodedChunk | None:
    """Return the rows of several chunks as one; None of no row."""
    if not any(part.X.shape[0] for part in parts):
        return None
    X = [part.X for part in parts]
    rows: Rows = sp.vstack(X, format="csr") if any(map(is_sparse, X)) else np.vstack(X)
    weights = [part.weight for part in parts if part.weight is not None]
    y, kept = (np.concatenate([getattr(p, name) for p in parts]) for name in ("y", "kept"))
    weight = np.concatenate(weights) if weights else None
    return parts[0]._replace(X=rows, y=y, weight=weight, kept=kept)


def with_placeholder_label(chunk: SomeChunk, columns: Columns) -> SomeChunk:
    """Return events as rows with an arbitrary label, to be checked."""
    kept = {name: column for name, column in chunk.columns.items() if columns.is_needed(name)}
    text = columns.classes[0] if columns.classes else "0"
    kept[columns.label] = pa.array([text] * chunk.rows, pa.string())
    return replace(
        chunk,
        columns=kept,
        offered=(*chunk.offered, columns.label) if chunk.table else (),
        absent={name: flags for name, flags in chunk.absent.items() if name in kept},
    )


def rarest_class(counts: Mapping[Any, float]) -> Any:
    """Return the label of the class of the fewest rows; of equal ones the last."""
    return min(reversed(list(counts)), key=lambda label: counts[label])


class Learner(Protocol):
    """Model or ledger that learns inputs chunk by chunk."""

    path: str
    records: Records
    encoding: ColumnEncoder
    window: Window | None
    formerly: dict[str, str]

    def chunks(self, source: Source, key: str, after: ReadPosition) -> Iterator[Chunk]:
        """Return the chunks of an input after a read position."""

    def learn(
        self, chunk: Chunk, key: str, allow_overlap: bool = False, *, needs_scores: bool = False
    ) -> list[ScoredRows]:
        """Learn the next chunk of the input ``key``."""

    def finish(self) -> bool:
        """End a run that was not interrupted; return whether there is something to save."""

    def save(self) -> None:
        """Save what was learned."""


def learn_inputs(
    model: Learner,
    inputs: Iterable[tuple[Source, str]],
    checkpoint_every: float = 1_000_000,
    stop: Callable[[], bool] = lambda: False,
    after_chunk: Callable[[Source, Chunk, list[ScoredRows]], None] = lambda *_: None,
    allow_overlap: bool = False,
    before_save: Callable[[bool], None] = lambda is_last: None,
    needs_scores: bool = False,
) -> dict[str, int]:
    """Learn the new rows of several inputs, and save the model at intervals and at the end.

    ``inputs`` are sources with their names in the records. The model is saved every
    ``checkpoint_every`` rows, rounded up to complete chunks, less often if the file is large, and
    when ``stop`` returns true, which ends the run. ``after_chunk`` gets each learned chunk, with
    progressive scores of its rows if it ``needs_scores``, and ``before_save`` true if all rows were
    learned. Return the number of new rows of each input.
    """
    new: dict[str, int] = {}
    unsaved, size = 0, 0  # rows, and bytes of the file
    records = model.records
    for source, key, former in records.new_inputs(
        inputs, model.encoding, model.path, stop, allow_overlap
    ):
        new[key] = 0
        if former is not None:
            model.formerly[key] = former
        chunks = model.chunks(source, key, records.position(key))
        with one_thread():
            for chunk in read_ahead(chunks, source, stop):
                scored = model.learn(chunk, key, allow_overlap, needs_scores=needs_scores)
                after_chunk(source, chunk, scored)
                new[key] += chunk.rows
                unsaved += chunk.rows
                if unsaved >= checkpoint_every * max(1.0, size / MAX_FREQUENT_SAVE_BYTES):
                    before_save(False)
                    model.save()
                    exists, unsaved = os.path.exists(model.path), 0
                    size = os.path.getsize(model.path) if exists else 0
    window, is_over = model.window, not stop()
    before_save(is_over)
    is_changed = is_over and model.finish()
    if unsaved or is_changed or model.window != window:
        model.save()
    return new
