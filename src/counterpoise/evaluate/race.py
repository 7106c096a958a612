"""A race: the exact model and its rivals on one stream, each row predicted before it is learnt.

The exact model takes the features as they are, for it scales them retroactively. The rivals cannot,
so they get what a stream can give them: features standardised by the rows before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterpoise import online
from counterpoise.arrays import Labels, Matrix, Vector
from counterpoise.classifier import BalancedRidgeClassifier
from counterpoise.evaluate.metrics import Metrics, measure

OURS = "BalancedRidgeClassifier"
SLOW = "IR-RLS"
MANY = 5_000  # rows above which IR-RLS, whose cost grows with the stream, is left out
RIVALS: dict[str, Callable[[], Any]] = {
    "Perceptron": online.Perceptron,
    "PA": online.PassiveAggressive,
    "CW": online.ConfidenceWeighted,
    "SCW": online.SoftConfidenceWeighted,
    "AROW": online.AROW,
    "ACOG": online.ACOG,
    "RLS": online.RLS,
    "AR-RLS": online.ARRLS,
    "NR-RLS": online.NRRLS,
    SLOW: online.IRRLS,
}


@dataclass(frozen=True, eq=False)
class Result:
    """How one runner did.

    Attributes
    ----------
    name : str
        Who.
    predicted : ndarray of shape (n,)
        Labels predicted, each before it was known.
    scores : ndarray of shape (n,) or (n, c)
        Scores of the second of two classes, or of each class.
    metrics : Metrics
        What follows.
    microseconds : float
        Time for each row, predicting and learning.
    weights : ndarray of shape (d,) or (c, d)
        Weights in the end, for features of standard deviation 1.
    """

    name: str
    predicted: Labels
    scores: Matrix
    metrics: Metrics
    microseconds: float
    weights: Matrix


def race(X: Matrix, y: Labels, delay: int = 0, everybody: bool = False) -> Iterator[Result]:
    """Let everybody run over the same stream.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        The rows, in order.
    y : ndarray of shape (n,)
        Their labels.
    delay : int, default=0
        The label of a row arrives this many rows after it.
    everybody : bool, default=False
        Let IR-RLS run too if there are more than MANY rows.

    Yields
    ------
    Result
    """
    classes, codes = np.unique(y, return_inverse=True)
    spread = X.std(axis=0)
    yield _ours(X, y, classes, codes, delay, spread)
    Z = standardised(X)
    for name, make in RIVALS.items():
        if name != SLOW or everybody or len(X) <= MANY:
            yield _rival(name, make, Z, y, classes, codes, delay)


def standardised(X: Matrix) -> Matrix:
    """Each row by the mean and the standard deviation of the rows before it.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        The rows, in order.

    Returns
    -------
    ndarray of shape (n, d)
        Values of more than 10 deviations count as 10: early rows are judged by few others.
    """
    Z = X - X[0]
    before = np.arange(len(X))[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (np.cumsum(Z, axis=0) - Z) / before
        square = (np.cumsum(Z * Z, axis=0) - Z * Z) / before
        deviation = np.sqrt(np.maximum(square - mean * mean, 0.0))
        scaled = (Z - mean) / deviation
    known = (before > 0) & (deviation > 1e-8 * np.sqrt(np.maximum(square, 0.0)))
    return np.where(known, np.clip(scaled, -10.0, 10.0), 0.0)


def _ours(X: Matrix, y: Labels, classes: Labels, codes: Any, delay: int, spread: Vector) -> Result:
    model = BalancedRidgeClassifier()
    start = time.perf_counter()
    scores = model.progressive_scores(X, codes, delay=delay, classes=range(len(classes)))
    took = time.perf_counter() - start
    best = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(np.intp)
    return _result(OURS, classes[best], scores, y, classes, took, model.coef_ * spread)


def _rival(
    name: str,
    make: Callable[[], Any],
    Z: Matrix,
    y: Labels,
    classes: Labels,
    codes: Any,
    delay: int,
) -> Result:
    """One rule for two classes, or one for each class against the rest."""
    sides = [1] if len(classes) == 2 else list(range(len(classes)))
    scores, weights, took = [], [], 0.0
    for k in sides:
        rule, target = make(), (codes == k).astype(int)
        start = time.perf_counter()
        scores.append(rule.progressive_scores(Z, target, delay=delay, classes=[0, 1]))
        took += time.perf_counter() - start
        weights.append(rule.coef_[0])
    f: Matrix = scores[0] if len(sides) == 1 else np.column_stack(scores)
    best = f.argmax(axis=1) if f.ndim == 2 else (f >= 0).astype(np.intp)
    return _result(name, classes[best], f, y, classes, took, np.array(weights))


def _result(
    name: str,
    predicted: Labels,
    scores: Matrix,
    y: Labels,
    classes: Labels,
    took: float,
    weights: Matrix,
) -> Result:
    metrics = measure(y, predicted, scores, classes)
    return Result(name, predicted, scores, metrics, 1e6 * took / len(y), weights)


def winner(results: list[Result]) -> Result:
    """Who has the highest G-mean, the first of equals.

    Parameters
    ----------
    results : list of Result
        Everybody.

    Returns
    -------
    Result
    """
    return max(results, key=lambda result: result.metrics.confusion.g_mean() or 0.0)
