"""How rows stand: by what they are ranked, for alerts about the highest."""

from __future__ import annotations

import numpy as np

from counterpoise.arrays import Matrix, Vector
from counterpoise.exact.scores import Scores
from counterpoise.exact.standing import against_rest, bounded


def standing(f: Matrix, scores: Scores) -> Matrix:
    """Return by what rows are ranked, (n, problems).

    That is the score of the second of two classes, or the log-odds of each against all others.
    """
    if scores.classes.problems == 1:
        return bounded(f)
    assert scores.link is not None
    return against_rest(scores.link.slopes[0] * f)


def of_class(ranks: Matrix, position: int) -> Vector:
    """Return how high rows stand, (n,), for the class at a position; see :func:`standing`."""
    if ranks.shape[1] > 1:
        return ranks[:, position]
    result: Vector = ranks[:, 0] if position else -ranks[:, 0]
    return result


def late_ranks(recent: Matrix | None, position: int) -> Vector:
    """Return how high the rows stood that were learned last, (m,), for the class at a position."""
    return of_class(np.empty((0, 1)) if recent is None else recent, position)
