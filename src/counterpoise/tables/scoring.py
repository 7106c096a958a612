"""Scores of encoded chunks, and the window of recent scores.

One encoder and one scorer serve predict, evaluate, Spark and the scikit-learn export. An alert is
about the highest recent scores, each by a model of earlier rows, so the model file stores a window.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from counterpoise.arrays import Labels, Matrix, Rows, Vector
from counterpoise.encoding.encoder import ColumnEncoder, EncodedChunk
from counterpoise.engine.auto import Engine
from counterpoise.errors import DataError
from counterpoise.evaluate.metrics import Confusion
from counterpoise.explanation import Explanation
from counterpoise.moments.classes import n_score_columns
from counterpoise.readers.chunk import Chunk, ReadPosition, Source
from counterpoise.solver.score_functions import one_vs_rest_log_odds
from counterpoise.solver.scores import Scores
from counterpoise.tables.estimator import Model, scoring_pace
from counterpoise.tables.records import MAX_RECENT_SCORES, Window

CHUNK_ROWS = 8192


@dataclass(frozen=True, eq=False)
class PredictionEncoder:
    """Encoder of rows that are to be predicted, as a model has learned them at one moment."""

    encoding: ColumnEncoder  # how columns become features
    optional: frozenset[str]  # columns that some of the learned rows did not have
    mean: Vector  # mean of each feature, for numbers that were never missing before

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

        ``wanted`` selects columns, by default all that the model has learned. Columns in
        ``as_text`` are not parsed.
        """
        text, types = set(as_text), self.encoding.columns.read(self.encoding.kinds)
        kinds = {name: kind for name, kind in types.items() if name not in text}
        yield from source.chunks(rows, ReadPosition(), kinds, wanted or self.encoding.knows)

    def encode(
        self,
        chunk: Chunk,
        apart: Iterable[str] | None = (),
        has_labels: bool = False,
        lenient_option: str = "ignore_unknown",
    ) -> EncodedChunk:
        """Encode the rows of a chunk, with their labels if they have them.

        ``apart`` are columns that the model need not have learned; None for any, which is the
        effect of the setting ``lenient_option``.
        """
        apart = None if apart is None else tuple(apart)
        return self.encoding.predict(
            chunk, apart, self.optional, self.mean, has_labels, lenient_option
        )


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
            return ScoredChunk(encoded, np.empty((0, self.scores.classes.n_scores)))
        return ScoredChunk(encoded, self.scores.of(encoded.X))

    def explain(self, X: Rows) -> Explanation:
        """Return the contribution of each column, with all its features, for rows X (n, d)."""
        columns = [feature.column for feature in self.encoding.features]
        columns += self.encoding.vocabularies
        return self.model.explain(X, columns).group_by_column(columns)


def ranking_scores(f: Matrix, scores: Scores) -> Matrix:
    """Return the score of the second of two classes, or one-vs-rest log-odds, (n, problems)."""
    if scores.classes.n_scores == 1:
        return np.nan_to_num(f)
    assert scores.link is not None
    return one_vs_rest_log_odds(scores.link.slopes[0] * f)


def class_ranks(ranks: Matrix | None, position: int) -> Vector:
    """Return the ranking scores of rows, (n,), for the class at a position; None has no rows."""
    if ranks is None:
        return np.empty(0)
    if ranks.shape[1] > 1:
        return ranks[:, position]
    result: Vector = ranks[:, 0] if position else -ranks[:, 0]
    return result


MAX_WINDOW_VALUES = 40_000  # with many classes there are fewer scores
SAMPLED_PARTS = 8  # of which one is scored once the window is full
MIN_INTERVAL_CHUNKS = 3  # of the longest interval between boundaries of scoring
FIRST_PART_ROWS = 16  # that no model can score
MAX_SPLIT_ROWS = 128  # of a chunk that is learned in the same parts, whether all are scored or not


class ScoredRows(NamedTuple):
    """Progressive scores of some rows: labels (n,), scores f (n, problems), the model behind."""

    y: Labels
    f: Matrix
    scores: Scores
    is_sample: bool  # whether the score window takes them
    is_complete: bool  # whether they are all rows of their part


def select_rows(encoded: EncodedChunk, rows: Any) -> EncodedChunk:
    """Return some of the encoded rows, given a slice, indices or flags."""
    weight, t = [None if one is None else one[rows] for one in (encoded.weight, encoded.t)]
    return encoded._replace(X=encoded.X[rows], y=encoded.y[rows], weight=weight, t=t)


def scored_parts(
    model: Model, before: int, after: int, rows: EncodedChunk, chunk_rows: int, needs_all: bool
) -> Iterator[tuple[EncodedChunk, list[ScoredRows]]]:
    """Yield the parts in which a model learns its next rows, with scores of some of them.

    The model has learned ``before`` rows, and a part is not longer than the rows before it. With
    ``needs_all`` all rows are scored, else those that the score window contains after ``after``
    rows.
    """
    n = rows.X.shape[0]
    interval = scoring_interval(before, after, chunk_rows, scoring_pace(model))
    step, needed = 1, n if interval else 0
    if before >= max(MAX_RECENT_SCORES, n):
        step = max(1, SAMPLED_PARTS * n // max(n, interval))
    if interval and before < n:
        needed = max(1, min(MAX_RECENT_SCORES, after // 2))
    # So that scores change no bit of what small chunks add up to.
    is_split = needs_all or n <= MAX_SPLIT_ROWS
    for part in split_rows(before, n, n if is_split else needed):
        some = rows if part == slice(0, n) else select_rows(rows, part)
        found: list[ScoredRows] = []
        classes = len(model.labels)
        is_sample = part.stop > n - needed and classes > 1
        if (needs_all or is_sample) and model.is_fitted:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # predictions warn
                # The ranking scores of two classes do not need the link.
                scores = model.scores(link=is_sample and classes > 2)
                if needs_all and (step > 1 or not is_sample):
                    found.append(ScoredRows(some.y, scores.of(some.X), scores, False, True))
                if is_sample:
                    f = scores.of(some.X[::step])
                    found.append(ScoredRows(some.y[::step], f, scores, True, step == 1))
        yield some, found


def scoring_interval(before: int, after: int, chunk_rows: int, pace: int) -> int:
    """Return the length of the interval if the next rows are scored, else 0.

    Rows are scored around boundaries: if a boundary is among them, or if they begin in the first
    part of an interval. After n rows that is about (pace + 3) / 32 of n, and at most some chunks.
    """
    start = 1 << before.bit_length() >> 1  # of intervals of the same length
    if pace > 32:  # a chunk whenever the number of rows has become four times as large
        end = 4 << (before.bit_length() - 1) // 2 * 2 if before else 1
        return max(before, 1) if after >= end else 0
    most = chunk_rows * (MIN_INTERVAL_CHUNKS + pace // 2)
    interval = min(most, max(start * (pace + 3) // 32, FIRST_PART_ROWS))
    since = (before - start) % interval
    left = min(interval - since, 2 * start - before)
    is_first = since == 0 or since + (after - before) // 2 < interval // SAMPLED_PARTS
    return interval if is_first or after - before > left else 0


def split_rows(before: int, n: int, needed: int) -> Iterator[slice]:
    """Yield the parts in which n rows are learned after ``before`` rows.

    Each is at most as long as all rows before it. All rows before the last ``needed`` ones are one
    part, because their scores are not used.
    """
    ends = [0]
    while ends[-1] < n:
        ends.append(min(n, ends[-1] + max(before + ends[-1], FIRST_PART_ROWS)))
    cuts = [end for end, after in pairwise(ends) if end and after > n - needed]
    yield from (slice(*pair) for pair in pairwise([0, *cuts, n]))


def max_scores(problems: int) -> int:
    """Return the size of a window of scores of some problems."""
    return min(MAX_RECENT_SCORES, MAX_WINDOW_VALUES // problems)


def push_scores(
    window: Matrix | None, found: Sequence[ScoredRows], classes: list[Any], rows: int
) -> Matrix | None:
    """Return a window (m, problems) with more scores, except those of a model of other classes.

    It has at most the second half of all rows, since models of few rows have unreliable scores.
    None without scores.
    """
    columns = n_score_columns(len(classes))
    parts = [] if window is None or window.shape[1] != columns else [window]
    for one in found:
        if one.is_sample and one.scores.classes.labels.tolist() == classes:
            ranks = ranking_scores(one.f, one.scores)
            parts.append(ranks[np.isfinite(ranks).all(axis=1)])
    if len(classes) < 2 or not sum(map(len, parts)):
        return None
    result: Matrix = np.concatenate(parts)[-max(1, min(max_scores(columns), rows // 2)) :]
    return result


def merge_windows(one: Matrix | None, two: Matrix | None, shares: tuple[int, int]) -> Matrix | None:
    """Return one window (m, problems) of two, with scores of each by its share of the rows."""
    if one is None or two is None:
        return two if one is None else one
    size = max_scores(one.shape[1])
    first = min(len(one), max(size * shares[0] // max(sum(shares), 1), size - len(two)))
    second = min(len(two), size - first)
    result: Matrix = np.concatenate([one[len(one) - first :], two[len(two) - second :]])
    return result


class MetricsFile:
    """JSON lines of progressive metrics, one after every ``every`` rows."""

    def __init__(
        self, path: str, model: str, every: int, rows: int, window: Window | None = None
    ) -> None:
        self.path, self.model, self.every = path, model, every
        self.window = Confusion()
        self._written = rows
        if window is not None:
            self._written = window.rows
            self.window.counts = {(true, guess): n for true, guess, n in window.counts}
        if os.path.exists(path):
            self._cut(self._written)

    def write(self, rows: int, is_last: bool = False) -> None:
        """Write a line if one is due after ``rows`` rows ever learned, or if it is the last."""
        is_due = rows // self.every > self._written // self.every
        if not (is_due or (is_last and rows > self._written)):
            return
        line = json.dumps({"model": self.model, "rows": rows, **self.window.plain()}) + "\n"
        with open(self.path, "ab", buffering=0) as file:
            file.write(line.encode())
        self.window, self._written = Confusion(), rows

    def sync(self, rows: int) -> Window | None:
        """Return the window after the last line, once all lines are on the disk; None if empty.

        ``rows`` is the number of rows that were ever learned.
        """
        if os.path.exists(self.path):
            with open(self.path, "ab") as file:
                os.fsync(file.fileno())
        if rows == self._written:
            return None
        counts = sorted((true, guess, n) for (true, guess), n in self.window.counts.items())
        return Window(self._written, tuple(counts))

    def _cut(self, rows: int) -> None:
        """Remove lines about rows that were not saved, and an incomplete line, from the end."""
        size = 0
        with open(self.path, "rb") as file:
            for line in file:
                is_complete = line.endswith(b"\n")
                try:
                    found: Any = {"model": self.model, "rows": rows}
                    found = json.loads(line) if is_complete else found
                    is_valid = found["model"] == self.model and found["rows"] >= 0
                except (ValueError, KeyError, TypeError):
                    is_valid = False
                if not is_valid or (size == 0 and not is_complete):
                    raise DataError(
                        f"{self.path} is not a metrics file of {self.model}; name another file"
                    )
                if not is_complete or found["rows"] > rows:
                    break
                size += len(line)
        os.truncate(self.path, size)
