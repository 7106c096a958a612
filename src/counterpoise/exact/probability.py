"""From scores to probabilities.

A least-squares score f with targets ±1 estimates 2p − 1, where p is the probability of the
positive class under the weights that the model was trained with (appendix A of the paper).
Scores leave the range ±1, probabilities must not: beyond EDGE the line is continued by a
hyperbola of the same slope, strictly rising, that tends to 0 or 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Matrix, Vector

EDGE = 0.9


def odds(f: Matrix) -> Matrix:
    """p/(1 − p) of scores.

    Parameters
    ----------
    f : ndarray
        Scores.

    Returns
    -------
    ndarray of the same shape

    Examples
    --------
    >>> odds(np.array([0.0, 0.5, -0.5])).tolist()
    [1.0, 3.0, 0.3333333333333333]
    """
    small = (1.0 - EDGE) / 2.0
    f = np.clip(f, -1e300, 1e300)
    beyond = np.maximum(np.abs(f) - EDGE, 0.0)
    less = np.where(beyond > 0, small / (1.0 + beyond / (2.0 * small)), (1.0 - np.abs(f)) / 2.0)
    ratio = (1.0 - less) / less
    return np.where(f >= 0, ratio, 1.0 / ratio)


def probabilities(f: Matrix, factor: Vector, seen: NDArray[np.bool_]) -> Matrix:
    """Probability of each class, with the odds of each problem multiplied by a factor.

    Parameters
    ----------
    f : ndarray of shape (n, problems)
        Scores; one problem stands for two classes, else one a class.
    factor : ndarray of shape (problems,)
        1 for the weights of training; the ratio of frequencies over the ratio of total weights
        for those of the stream.
    seen : ndarray of shape (c,)
        Whether the class was ever seen; if not, its probability is 0.

    Returns
    -------
    ndarray of shape (n, c)
        Rows add up to 1. With factors of 1 the largest is that of the largest score.
    """
    if seen.sum() <= 1:
        return np.repeat(seen[None, :].astype(np.float64), len(f), axis=0)
    p = 1.0 / (1.0 + 1.0 / (odds(f) * factor))
    if len(seen) == 2:
        p = np.hstack([1.0 - p, p])
        best = (f.ravel() > 0).astype(np.intp)
    else:
        p = np.where(seen, p, 0.0)
        p /= p.sum(axis=1, keepdims=True)
        best = np.where(seen, f, -np.inf).argmax(axis=1)
    if (factor[seen] == 1.0 if len(factor) == len(seen) else factor == 1.0).all():
        # Scores that differ in the last bit may round to one probability: keep their order.
        tied = np.flatnonzero(p.argmax(axis=1) != best)
        p[tied, best[tied]] = np.nextafter(p[tied].max(axis=1), 2.0)
    return p
