"""Scores of the rows that were learned last, each by a model of rows before it.

An alert is about the highest recent scores. What they are must be known before the first row of
the day comes, so that the model file keeps a window of them.
"""

from __future__ import annotations

import copy
import json
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from counterpoise.arrays import Matrix, Vector
from counterpoise.encoding.encoder import EncodedChunk
from counterpoise.errors import DataError
from counterpoise.estimators.balanced_ridge import BalancedRidgeClassifier
from counterpoise.evaluate.metrics import Confusion
from counterpoise.moments.classes import n_score_columns
from counterpoise.solver.score_functions import clip_infinite, one_vs_rest_log_odds
from counterpoise.solver.scores import Scores
from counterpoise.tables.model_dispatch import Model, learn_rows
from counterpoise.tables.records import MOST_RECENT, Window


def ranking_scores(f: Matrix, scores: Scores) -> Matrix:
    """Return by what rows are ranked, (n, problems).

    That is the score of the second of two classes, or the log-odds of each against all others.
    """
    if scores.classes.problems == 1:
        return clip_infinite(f)
    assert scores.link is not None
    return one_vs_rest_log_odds(scores.link.slopes[0] * f)


def of_class(ranks: Matrix, position: int) -> Vector:
    """Return how high rows stand, (n,), for the class at a position; see :func:`standing`."""
    if ranks.shape[1] > 1:
        return ranks[:, position]
    result: Vector = ranks[:, 0] if position else -ranks[:, 0]
    return result


def late_ranks(recent: Matrix | None, position: int) -> Vector:
    """Return how high the rows stood that were learned last, (m,), for the class at a position."""
    return of_class(np.empty((0, 1)) if recent is None else recent, position)


WINDOW = MOST_RECENT
NUMBERS = 40_000  # numbers that are kept: with many classes fewer scores
SAMPLE = 1024  # rows of a chunk that are scored once the window is full
FIRST = 16  # rows of the first piece, which nobody can score


def progressive(
    model: Model, before: int, rows: EncodedChunk
) -> Iterator[tuple[slice, Matrix, Scores]]:
    """Score rows before they are learned, in pieces no longer than what precedes them.

    The model has learned ``before`` rows and stays as it is. Yield the positions of rows, their
    scores (n, problems), and the model behind them.
    """
    n = rows.X.shape[0]
    if before >= n and model.__sklearn_is_fitted__():
        scores = model.scores_
        yield slice(0, n), scores.of(rows.X), scores
        return
    ahead, at = copy.deepcopy(model), 0
    while at < n:
        piece = slice(at, min(n, at + max(before + at, FIRST)))
        X, y = rows.X[piece], rows.y[piece]
        if ahead.__sklearn_is_fitted__():
            scores = ahead.scores_
            yield piece, scores.of(X), scores
        weight, t = (None if one is None else one[piece] for one in (rows.weight, rows.t))
        learn_rows(ahead, X, y, weight, t, calibrate=False)
        at = piece.stop


def max_scores(problems: int) -> int:
    """Return how many scores are kept, of so many numbers each."""
    return min(WINDOW, NUMBERS // problems)


def scored(
    model: Model, before: int, rows: EncodedChunk, chunk_rows: int
) -> list[tuple[Any, Matrix]]:
    """Score some rows of a chunk before they are learned.

    Return the classes of the model, and the scores (n, problems), piece by piece.
    """
    if not rows.X.shape[0] or (before // chunk_rows) % _every(model):
        return []
    step = 1
    if before >= max(WINDOW, rows.X.shape[0]):
        step = max(1, chunk_rows // SAMPLE)
    rows = rows._replace(X=rows.X[::step], y=rows.y[::step], weight=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # predictions warn
        return [
            (scores.classes.labels.tolist(), ranking_scores(f, scores))
            for _, f, scores in progressive(model, before, rows)
        ]


def _every(model: Model) -> int:
    """Of how many chunks one is scored, so that solving takes little beside learning."""
    if not model.__sklearn_is_fitted__():
        return 1
    if not isinstance(model, BalancedRidgeClassifier):
        return 8
    d: int = len(model.state_.moments.anchor)
    return 1 + d // (100 if model.ridge == "gcv" or model.pooled_rows is not None else 1000)


def push_scores(
    window: Matrix | None, found: Sequence[tuple[Any, Matrix]], classes: list[Any], rows: int
) -> Matrix | None:
    """Add scores to a window (m, problems); those of other classes than there are now do not count.

    Models of few rows give wild scores: of so many rows no more than the second half is kept.
    ``found`` is what :func:`scored` gives. None if there is nothing to compare with.
    """
    columns = n_score_columns(len(classes))
    parts = [] if window is None or window.shape[1] != columns else [window]
    parts += [ranks[np.isfinite(ranks).all(axis=1)] for known, ranks in found if known == classes]
    if len(classes) < 2 or not sum(map(len, parts)):
        return None
    result: Matrix = np.concatenate(parts)[-max(1, min(max_scores(columns), rows // 2)) :]
    return result


def merge_windows(one: Matrix | None, two: Matrix | None, shares: tuple[int, int]) -> Matrix | None:
    """Return one window (m, problems) of two, with scores of each by its share of the rows."""
    if one is None or two is None:
        return two if one is None else one
    room = max_scores(one.shape[1])
    first = min(len(one), max(room * shares[0] // max(sum(shares), 1), room - len(two)))
    second = min(len(two), room - first)
    result: Matrix = np.concatenate([one[len(one) - first :], two[len(two) - second :]])
    return result


def score(model: Model, before: int, rows: EncodedChunk, into: Confusion) -> None:
    """Predict rows before a model that has learned ``before`` of them learns these, and count."""
    for piece, f, scores in progressive(model, before, rows):
        into.add(rows.y[piece], scores.classes.best(f))


class MetricsFile:
    """JSON lines, one for every so many rows.

    Parameters
    ----------
    path : str
        The file, which may exist: lines about rows that were not saved are cut off.
    model : str
        The model file, which each line names.
    every : int
        Rows between two lines, rounded up to whole chunks.
    rows : int
        Rows ever learned, those unlearned since included, so that the lines stay in order.
    window : Window, optional
        What the model file knows that the lines do not say yet. With it, lines come out as they
        would have if nobody had disturbed the run.
    """

    def __init__(
        self, path: str, model: str, every: int, rows: int, window: Window | None = None
    ) -> None:
        self.path, self.model, self.every = path, model, every
        self.window = Confusion()
        self._written = rows
        if window is not None:
            self._written = window.rows
            self.window.counts = {(true, said): n for true, said, n in window.counts}
        if os.path.exists(path):
            self._cut(self._written)

    def write(self, rows: int, last: bool = False) -> None:
        """Write a line if one is due after so many rows ever learned, or if it is the last."""
        due = rows // self.every > self._written // self.every
        if not (due or (last and rows > self._written)):
            return
        line = json.dumps({"model": self.model, "rows": rows, **self.window.plain()}) + "\n"
        with open(self.path, "ab", buffering=0) as file:
            file.write(line.encode())
        self.window, self._written = Confusion(), rows

    def unsaid(self, rows: int) -> Window | None:
        """Return what the model file is to know, now that the lines so far are on the disk.

        ``rows`` were ever learned. None if the last line is about the last of them.
        """
        if os.path.exists(self.path):
            with open(self.path, "ab") as file:
                os.fsync(file.fileno())
        if rows == self._written:
            return None
        counts = sorted((true, said, n) for (true, said), n in self.window.counts.items())
        return Window(self._written, tuple(counts))

    def _cut(self, rows: int) -> None:
        """Cut lines off the end that are about rows that were not saved, and half a line."""
        keep = 0
        with open(self.path, "rb") as file:
            for line in file:
                whole = line.endswith(b"\n")
                try:
                    found = json.loads(line) if whole else {}
                    ours = not whole or (found["model"] == self.model and found["rows"] >= 0)
                except (ValueError, KeyError, TypeError):
                    ours = False
                if not ours or (keep == 0 and not whole):
                    raise DataError(
                        f"{self.path} is not a metrics file of {self.model}; name another file"
                    )
                if not whole or found["rows"] > rows:
                    break
                keep += len(line)
        os.truncate(self.path, keep)
