"""Scores of the rows that were learned last, each by a model of rows before it.

An alert is about the highest recent scores. What they are must be known before the first row of
the day comes, so that the model file keeps a window of them.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from counterpoise.arrays import Matrix
from counterpoise.classifier import BalancedRidgeClassifier
from counterpoise.encoding.encoding import Encoded
from counterpoise.exact.classes import problems
from counterpoise.exact.scores import Scores
from counterpoise.jobs.models import Model, taught
from counterpoise.jobs.ranks import standing
from counterpoise.jobs.store import MOST_RECENT

WINDOW = MOST_RECENT
NUMBERS = 40_000  # numbers that are kept: with many classes fewer scores
SAMPLE = 1024  # rows of a chunk that are scored once the window is full
FIRST = 16  # rows of the first piece, which nobody can score


def progressive(model: Model, before: int, rows: Encoded) -> Iterator[tuple[slice, Matrix, Scores]]:
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
        taught(ahead, X, y, weight, t, calibrate=False)
        at = piece.stop


def most(problems: int) -> int:
    """Return how many scores are kept, of so many numbers each."""
    return min(WINDOW, NUMBERS // problems)


def scored(model: Model, before: int, rows: Encoded, chunk_rows: int) -> list[tuple[Any, Matrix]]:
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
            (scores.classes.labels.tolist(), standing(f, scores))
            for _, f, scores in progressive(model, before, rows)
        ]


def _every(model: Model) -> int:
    """Of how many chunks one is scored, so that solving takes little beside learning."""
    if not model.__sklearn_is_fitted__():
        return 1
    if not isinstance(model, BalancedRidgeClassifier):
        return 8
    d: int = len(model.state_.moments.anchor)
    return 1 + d // (100 if model.ridge == "gcv" or model.pooling is not None else 1000)


def moved_on(
    window: Matrix | None, found: Sequence[tuple[Any, Matrix]], classes: list[Any], rows: int
) -> Matrix | None:
    """Add scores to a window (m, problems); those of other classes than there are now do not count.

    Models of few rows give wild scores: of so many rows no more than the second half is kept.
    ``found`` is what :func:`scored` gives. None if there is nothing to compare with.
    """
    columns = problems(len(classes))
    parts = [] if window is None or window.shape[1] != columns else [window]
    parts += [ranks[np.isfinite(ranks).all(axis=1)] for known, ranks in found if known == classes]
    if len(classes) < 2 or not sum(map(len, parts)):
        return None
    result: Matrix = np.concatenate(parts)[-max(1, min(most(columns), rows // 2)) :]
    return result


def together(one: Matrix | None, two: Matrix | None, shares: tuple[int, int]) -> Matrix | None:
    """Return one window (m, problems) of two, with scores of each by its share of the rows."""
    if one is None or two is None:
        return two if one is None else one
    room = most(one.shape[1])
    first = min(len(one), max(room * shares[0] // max(sum(shares), 1), room - len(two)))
    second = min(len(two), room - first)
    result: Matrix = np.concatenate([one[len(one) - first :], two[len(two) - second :]])
    return result
