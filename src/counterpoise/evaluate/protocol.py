"""The paper's protocol: runs of two folds, features scaled to [0, 1], two evaluation rules.

A run shuffles the rows and cuts them into halves. Each half is learned once, as a stream in the
shuffled order, and evaluated by two rules: *held-out*, the final model on the other half, and
*progressive*, each row of the stream scored just before it is learned. The paper's table seems to
use the first rule for some methods and the second for others; here every method gets both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix, Vector

RUNS = 10
RULES = ("held-out", "progressive")


@dataclass(frozen=True, eq=False)
class Fold:
    """One half to learn from, in the order of its stream, and one to evaluate on.

    Attributes
    ----------
    run, half : int
        Number of the run, which is also the seed of its shuffle, and of the half.
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
        The half to learn from; labels −1 and 1.
    X_test : ndarray of shape (m, d)
    y_test : ndarray of shape (m,)
        The other half.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise.evaluate.protocol import fold
    >>> one = fold(np.arange(10.0)[:, None], np.repeat([-1, 1], 5), run=3, half=1)
    >>> one.run, one.half, one.X.shape, one.X_test.shape
    (3, 1, (5, 1), (5, 1))
    """

    run: int
    half: int
    X: Matrix
    y: Labels
    X_test: Matrix
    y_test: Labels


def halves(
    y: Labels, run: int, stratified: bool = False
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Shuffle rows and cut them in two.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels.
    run : int
        Seed of the shuffle.
    stratified : bool, default=False
        Cut each class in two instead of the whole; the paper's ratios show that it did not.

    Returns
    -------
    ndarray, ndarray
        Indices of the rows, the first half the longer by one where one must be.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise.evaluate.protocol import halves
    >>> one, two = halves(np.array([-1, 1, 1, -1, 1]), run=0)
    >>> len(one), len(two), sorted([*one.tolist(), *two.tolist()])
    (3, 2, [0, 1, 2, 3, 4])
    """
    order = np.random.default_rng(run).permutation(len(y))
    first, seen = np.zeros(len(y), dtype=bool), 0
    if stratified:
        for label in np.unique(y):
            mine = np.flatnonzero(y[order] == label)
            odd = len(mine) % 2 and 2 * first.sum() <= seen  # to the half that is behind
            first[mine[: len(mine) // 2 + bool(odd)]] = True
            seen += len(mine)
    else:
        first[: (len(y) + 1) // 2] = True
    return order[first], order[~first]


def scaled(X: Matrix, by: Matrix) -> Matrix:
    """Map the features of X to [0, 1] by the extremes of the rows of ``by``; a constant feature
    becomes 0.
    """
    low, high = by.min(axis=0), by.max(axis=0)
    result: Matrix = (X - low) / np.where(high > low, high - low, 1.0)
    return result


def fold(
    X: Matrix, y: Labels, run: int, half: int, stratified: bool = False, scale_on: str = "train"
) -> Fold:
    """Make one fold.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        The rows.
    y : ndarray of shape (n,)
        Labels, −1 and 1.
    run : int
        Seed of the shuffle.
    half : 0 or 1
        The half to learn from.
    stratified : bool, default=False
        See :func:`halves`.
    scale_on : "train" or "all", default="train"
        Scale by the half that is learned, which leaks nothing, or by all rows, the paper's likely
        reading.

    Returns
    -------
    Fold

    Examples
    --------
    >>> from counterpoise.evaluate.protocol import fold
    >>> X, y = np.arange(10.0)[:, None], np.repeat([-1, 1], 5)
    >>> one, two = fold(X, y, run=0, half=0), fold(X, y, run=0, half=1)
    >>> len(one.X), bool((one.y == two.y_test).all())
    (5, True)
    """
    if scale_on not in ("train", "all"):
        raise ValueError(f"scale_on must be 'train' or 'all', not {scale_on!r}")
    parts = halves(y, run, stratified)
    learned, judged = parts[half], parts[1 - half]
    by = X if scale_on == "all" else X[learned]
    return Fold(run, half, scaled(X[learned], by), y[learned], scaled(X[judged], by), y[judged])


def folds(
    X: Matrix, y: Labels, runs: int = RUNS, stratified: bool = False, scale_on: str = "train"
) -> Iterator[Fold]:
    """Make all folds, two for each run.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        The rows.
    y : ndarray of shape (n,)
        Labels, −1 and 1.
    runs : int, default=10
        Number of runs; their seeds are 0, 1, ...
    stratified, scale_on
        See :func:`fold`.

    Yields
    ------
    Fold

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise.evaluate.protocol import folds
    >>> X, y = np.arange(10.0)[:, None], np.repeat([-1, 1], 5)
    >>> [(one.run, one.half) for one in folds(X, y, runs=2)]
    [(0, 0), (0, 1), (1, 0), (1, 1)]
    """
    for run in range(runs):
        for half in (0, 1):
            yield fold(X, y, run, half, stratified, scale_on)


def judge(rule: Any, one: Fold) -> dict[str, float]:
    """Learn a fold in a single pass, and evaluate the estimator by both rules.

    Parameters
    ----------
    rule : estimator
        Any of :mod:`counterpoise.online`, or a :class:`~counterpoise.BalancedRidgeClassifier`.
    one : Fold
        The fold.

    Returns
    -------
    dict
        G-mean by "held-out" and by "progressive"; NaN where a class is absent.

    Examples
    --------
    >>> from counterpoise.evaluate.protocol import fold, judge
    >>> from counterpoise.online import TER
    >>> X, y = np.arange(40.0)[:, None], np.repeat([-1, 1], [30, 10])
    >>> judge(TER(), fold(X, y, run=0, half=0))["held-out"] > 0.9
    True
    """
    before = rule.progressive_scores(one.X, one.y, classes=(-1, 1))
    return {
        "held-out": float(g_mean(one.y_test, rule.decision_function(one.X_test))),
        "progressive": float(g_mean(one.y, before)),
    }


def g_mean(y: Labels, scores: Matrix) -> Vector:
    """G-mean of scores at threshold 0; a score of 0 counts as positive.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels, −1 and 1.
    scores : ndarray of shape (n,) or (n, models)
        Scores.

    Returns
    -------
    ndarray of shape () or (models,)
        NaN where a class is absent or a score is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise.evaluate.protocol import g_mean
    >>> float(g_mean(np.array([-1, -1, 1, 1]), np.array([-2.0, -0.5, 0.3, -0.1])).round(3))
    0.707
    """
    if not np.isin(y, (-1, 1)).all():
        raise ValueError("labels must be -1 and 1")
    found = (scores >= 0.0) == (y > 0).reshape(-1, *([1] * (scores.ndim - 1)))
    with np.errstate(invalid="ignore", divide="ignore"):
        of_positives = np.divide(found[y > 0].sum(axis=0), (y > 0).sum())
        of_negatives = np.divide(found[y < 0].sum(axis=0), (y < 0).sum())
    result: Vector = np.sqrt(of_positives * of_negatives)
    return np.where(np.isnan(scores).any(axis=0), np.nan, result)
