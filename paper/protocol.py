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
    """Half to learn from in stream order, X (n, d) and y (n,) in {−1, 1}, and half to evaluate on.

    ``run`` is also the seed of the shuffle.
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
    """Shuffle rows with seed ``run`` and return the indices of both halves, the longer first.

    ``stratified`` cuts each class in two; the paper's ratios show that the paper did not.
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


def scale_features(X: Matrix, by: Matrix) -> Matrix:
    """Map the features of X to [0, 1] by the extremes of the rows of ``by``; a constant feature
    becomes 0.
    """
    low, high = by.min(axis=0), by.max(axis=0)
    result: Matrix = (X - low) / np.where(high > low, high - low, 1.0)
    return result


def fold(
    X: Matrix, y: Labels, run: int, half: int, stratified: bool = False, scale_on: str = "train"
) -> Fold:
    """Make one fold, scaled by the learned half ("train") or by all rows as the paper may have."""
    if scale_on not in ("train", "all"):
        raise ValueError(f"scale_on must be 'train' or 'all', not {scale_on!r}")
    parts = halves(y, run, stratified)
    learned, tested = parts[half], parts[1 - half]
    by = X if scale_on == "all" else X[learned]
    return Fold(
        run,
        half,
        scale_features(X[learned], by),
        y[learned],
        scale_features(X[tested], by),
        y[tested],
    )


def folds(
    X: Matrix, y: Labels, runs: int = RUNS, stratified: bool = False, scale_on: str = "train"
) -> Iterator[Fold]:
    """Make all folds, two for each run."""
    for run in range(runs):
        for half in (0, 1):
            yield fold(X, y, run, half, stratified, scale_on)


def evaluate_fold(rule: Any, one: Fold) -> dict[str, float]:
    """Learn a fold in a single pass and return the G-mean by both rules, NaN without a class."""
    before = rule.progressive_scores(one.X, one.y, classes=(-1, 1))
    return {
        "held-out": float(g_mean(one.y_test, rule.decision_function(one.X_test))),
        "progressive": float(g_mean(one.y, before)),
    }


def g_mean(y: Labels, scores: Matrix) -> Vector:
    """Return the G-mean of scores (n,) or (n, models) at threshold 0, which counts as positive."""
    if not np.isin(y, (-1, 1)).all():
        raise ValueError("labels must be -1 and 1")
    found = (scores >= 0.0) == (y > 0).reshape(-1, *([1] * (scores.ndim - 1)))
    with np.errstate(invalid="ignore", divide="ignore"):
        of_positives = np.divide(found[y > 0].sum(axis=0), (y > 0).sum())
        of_negatives = np.divide(found[y < 0].sum(axis=0), (y < 0).sum())
    result: Vector = np.sqrt(of_positives * of_negatives)
    return np.where(np.isnan(scores).any(axis=0), np.nan, result)
