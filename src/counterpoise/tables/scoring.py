"""Encode rows with the columns of a model, and score them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from counterpoise.arrays import Matrix, Rows, Vector
from counterpoise.encoding.encoder import ColumnEncoder, EncodedChunk
from counterpoise.engine.auto import Engine
from counterpoise.explanation import Explanation
from counterpoise.readers.chunk import Chunk, ReadPosition, Source
from counterpoise.solver.scores import Scores

CHUNK_ROWS = 8192


@dataclass(frozen=True, eq=False)
class PredictionEncoder:
    """Encoder of rows that are to be predicted, as a model has learned them at one moment."""

    encoding: ColumnEncoder  # how columns become features
    optional: frozenset[str]  # columns that some of the learned rows did not have
    mean: Vector  # mean of each feature, in place of numbers that were never missing before

    def with_missing(self, before: str, after: str) -> Self:
        """Return an encoder with another rule for missing values, if it has the first one."""
        columns = self.encoding.columns
        if columns.missing != before:
            return self
        encoding = replace(self.encoding, columns=replace(columns, missing=after))
        return replace(self, encoding=encoding)

    def read_chunks(
        self,
        source: Source,
        rows: int = CHUNK_ROWS,
        wanted: Callable[[str], bool] | None = None,
        as_text: Iterable[str] = (),
    ) -> Iterator[Chunk]:
        """Read the rows of an input from its start, with columns of the types that were learned.

        ``wanted`` selects columns, by default all that the model has learned; those in ``as_text``
        are read as they are written.
        """
        text, known = set(as_text), self.encoding.columns.read(self.encoding.kinds)
        kinds = {name: kind for name, kind in known.items() if name not in text}
        yield from source.chunks(rows, ReadPosition(), kinds, wanted or self.encoding.knows)

    def encode(
        self, chunk: Chunk, apart: Iterable[str] | None = (), has_labels: bool = False
    ) -> EncodedChunk:
        """Encode the rows of a chunk, with their labels if they have them.

        ``apart`` are columns that the model need not have learned; None for any.
        """
        encode = self.encoding.encode_with_labels if has_labels else self.encoding.predict
        return encode(chunk, None if apart is None else tuple(apart), self.optional, self.mean)


class ScoredChunk(NamedTuple):
    """Encoded rows of a chunk and their scores f (n, problems)."""

    encoded: EncodedChunk
    f: Matrix


@dataclass(frozen=True, eq=False)
class TableScorer(PredictionEncoder):
    """Encoder and scores of a model at one moment."""

    model: Engine  # the model behind the scores
    scores: Scores  # scores as a function of encoded rows, and their probabilities

    def score(
        self, chunk: Chunk, apart: Iterable[str] | None = (), has_labels: bool = False
    ) -> ScoredChunk:
        """Encode the rows of a chunk as :meth:`encode` does, and score them."""
        encoded = self.encode(chunk, apart, has_labels)
        if not encoded.X.shape[0]:
            return ScoredChunk(encoded, np.empty((0, self.scores.classes.problems)))
        return ScoredChunk(encoded, self.scores.of(encoded.X))

    def explain(self, X: Rows) -> Explanation:
        """Return what each column contributes to the scores of encoded rows X (n, d).

        The features of a column, such as its categories, count together.
        """
        columns = [feature.column for feature in self.encoding.features]
        return self.model.explain(X, columns).group_by_column(columns)
