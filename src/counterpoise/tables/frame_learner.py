"""A learner for frames: what the command line does with files, without any file.

Frames have no names and cannot be read again. All of them are one input in the records of a model,
of which only the number of rows and a hash are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from xxhash import xxh3_128

from counterpoise.arrays import Rows, Vector, one_thread
from counterpoise.encoding.encoder import ColumnEncoder, EncodedChunk
from counterpoise.engine.row_buffer import row_order
from counterpoise.engine.state import Batch
from counterpoise.errors import DataError, Suggestion
from counterpoise.estimators.auto import AutoClassifier
from counterpoise.estimators.balanced_ridge import BalancedRidgeClassifier
from counterpoise.readers.chunk import Chunk, ReadPosition
from counterpoise.readers.dataframes import FrameSource
from counterpoise.solver.imputation import MeanImputation
from counterpoise.tables.guards import Guards
from counterpoise.tables.model import Learner
from counterpoise.tables.model_dispatch import Model, learn_rows
from counterpoise.tables.records import FRAMES, Record, Stored
from counterpoise.tables.unlearn import subtract_encoded

NAME = "the model"


class FrameLearner(Learner):
    """What a model has learned from frames, and from files before them.

    Parameters
    ----------
    encoding : Encoding
        How columns become features.
    prototype : BalancedRidgeClassifier or AutoClassifier
        A model that has learned nothing yet.
    chunk_rows : int
        Rows learned at a time.
    guards : Guards
        What the user allows.
    """

    def __init__(
        self, encoding: ColumnEncoder, prototype: Model, chunk_rows: int, guards: Guards
    ) -> None:
        self._begin(NAME, prototype.get_params(deep=False), guards)
        self.encoding, self.chunk_rows, self._prototype = encoding, chunk_rows, prototype
        self._earlier: list[Record] = []
        if encoding.columns.classes:
            guards.require_named(self._options, encoding.columns.classes, NAME)

    @classmethod
    def of(cls, stored: Stored, guards: Guards) -> FrameLearner:
        """Return what goes on where a file left off."""
        result = cls(stored.encoding, stored.model, stored.chunk_rows, guards)
        result.take_up(stored)
        return result

    def allow(self, allow_new_classes: bool, allow_new_columns: bool) -> None:
        """Say what may be new in the frames to come."""
        self._guards.allow_new_classes, self._guards.allow_new_columns = (
            allow_new_classes,
            allow_new_columns,
        )

    def learn_frame(self, source: FrameSource, weight: Vector | None = None) -> int:
        """Learn the rows of a frame, with weights (n,) beside it, and return their number."""
        columns, at = self.encoding.columns, 0
        self._earlier = list(self.records.values())
        self._kinds = columns.read({**columns.told, **self.encoding.kinds})
        for chunk in source.chunks(self.chunk_rows, ReadPosition(), self._kinds, columns.wanted):
            encoded = self.encode(chunk, FRAMES, allow_overlap=True)
            encoded = with_sample_weight(encoded, weight, at)
            with one_thread():  # no bit depends on the number of cores
                self.learn(self._marked(chunk), FRAMES, encoded)
            at += chunk.rows
        return at

    def fit_frame(self, source: FrameSource, weight: Vector | None = None) -> int:
        """Learn the rows of a frame in memory from scratch, and return their number.

        With ``calibrate`` they are cross-fitted, so that their order does not matter. A model that
        averages learns them once more in a seeded random order, whose first rows fix its maps.
        """
        prototype = self._prototype
        cross_fits = getattr(prototype, "calibrate", False) and prototype.half_life is None
        self._calibrates = not cross_fits
        try:
            rows = self.learn_frame(source, weight)
        finally:
            self._calibrates = True
        model = self.model
        if cross_fits and isinstance(model, BalancedRidgeClassifier) and rows:
            features = [feature.name for feature in self.encoding.features]
            with one_thread():
                model.cross_fit(lambda: self._batches(source, weight), features)
        if isinstance(model, AutoClassifier) and prototype.half_life is None and rows:
            self._learn_shuffled(list(self._encoded(source, weight)))
        return rows

    def _learn_shuffled(self, parts: list[EncodedChunk]) -> None:
        """Replace the model by one that has learned all rows in the order of their hashes."""
        is_sparse = any(sp.issparse(part.X) for part in parts)
        rows = [part.X for part in parts]
        X: Rows = sp.vstack(rows, format="csr") if is_sparse else np.vstack(rows)
        y = np.concatenate([part.y for part in parts])
        weight = None
        if parts[0].weight is not None:
            weight = np.concatenate([np.asarray(part.weight) for part in parts])
        order = row_order(X, y, weight)
        model = self._made(self.encoding)
        model.fill_in(MeanImputation.of(*self.encoding.fill))
        with one_thread():
            learn_rows(model, X[order], y[order], None if weight is None else weight[order])
        self.model = model

    def _encoded(self, source: FrameSource, weight: Vector | None) -> Iterator[EncodedChunk]:
        """Yield the rows of a frame that were learned, encoded again."""
        encoding, at = self.encoding, 0
        kinds = encoding.columns.read(encoding.kinds)
        for chunk in source.chunks(self.chunk_rows, ReadPosition(), kinds, encoding.columns.wanted):
            rows, _ = encoding.learn(chunk, lenient=True)
            rows, at = with_sample_weight(rows, weight, at), at + chunk.rows
            if rows.X.shape[0]:
                yield rows

    def _batches(self, source: FrameSource, weight: Vector | None) -> Iterator[Batch]:
        """Yield the rows of a frame that were learned, as checked batches."""
        assert isinstance(self.model, BalancedRidgeClassifier)
        for rows in self._encoded(source, weight):
            yield self.model.batch_of(rows.X, rows.y, rows.weight)

    def unlearn_frame(self, source: FrameSource, weight: Vector | None = None) -> int:
        """Take the rows of a frame back, and return their number."""
        encoding, at = self.encoding, 0
        kinds = encoding.columns.read(encoding.kinds)

        def encoded() -> Any:
            nonlocal at
            for chunk in source.chunks(
                self.chunk_rows, ReadPosition(), kinds, encoding.columns.wanted
            ):
                rows, after = encoding.learn(chunk, lenient=True)
                yield with_sample_weight(rows, weight, at), after
                at += chunk.rows

        strange = DataError(
            f"{source.name} has values or labels that were never learned",
            Suggestion("unlearn rows as they were learned"),
        )
        with one_thread():
            subtract_encoded(self, encoded(), 1, strange)
        self.unlearned += at
        record = self.records.get(FRAMES)
        if record is not None:
            left = max(record.mark.rows - at, 0)
            mark = ReadPosition(left, 0, record.mark.hash)
            self.records[FRAMES] = replace(record, mark=mark, dropped=min(record.dropped, left))
        self.finish()
        return at

    def _others(self, key: str) -> list[Record]:
        return self._earlier

    def _made(self, encoding: ColumnEncoder) -> Model:
        model: Model = clone(self._prototype)
        return model

    def _marked(self, chunk: Chunk) -> Chunk:
        """The same rows, after those of all frames before."""
        mark = self.records.get(FRAMES, Record()).mark
        both = xxh3_128((mark.hash + chunk.mark.hash).encode()).hexdigest()
        return replace(chunk, mark=ReadPosition(mark.rows + chunk.rows, 0, both), starts=())


def with_sample_weight(encoded: EncodedChunk, weight: Vector | None, at: int) -> EncodedChunk:
    """Rows with the weights that came beside their frame, from its row ``at`` on."""
    if weight is None:
        return encoded
    mine = weight[at : at + len(encoded.kept)][encoded.kept]
    return encoded._replace(weight=mine if encoded.weight is None else mine * encoded.weight)
