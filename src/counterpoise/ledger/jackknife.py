"""Standard errors by the jackknife: the model without each of its buckets in turn.

    se² = (g − 1)/g Σ (θ_i − θ̄)²

where θ_i is a weight, a score or the estimated G-mean without bucket i. Days differ more than rows
do, and so this tells more about tomorrow than an error computed from independent rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterpoise.arrays import Counts, Matrix, Vector
from counterpoise.errors import DataError, OptionValue
from counterpoise.estimators.balanced_ridge import BalancedRidgeClassifier
from counterpoise.ledger.bucket_series import (
    LinearScoresBatch,
    Series,
    SolverOptions,
    evaluate_scores,
    solve_series,
)


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """How certain a model is.

    Attributes
    ----------
    names : list of str
        The features.
    coef, coef_error : ndarray of shape (problems, d)
        Weights, and their standard errors.
    scores, scores_error : ndarray of shape (n, problems), optional
        Scores of the rows that were given, and their standard errors.
    g_mean, g_mean_error : float
        The estimated G-mean on the rows of the model itself, and its standard error.
    buckets : int
        Number of buckets.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from counterpoise import Ledger
    >>> from counterpoise.ledger import payments
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.open(pathlib.Path(folder.name) / "l", label="fraud", timestamp="at")
    >>> rows = ledger.learn(payments(days=40, rows=30)[0])
    >>> found = ledger.uncertainty(ledger.model())
    >>> found.buckets, round(found.g_mean, 2), round(found.g_mean_error, 2)
    (40, 0.78, 0.02)
    """

    names: list[str]
    coef: Matrix
    coef_error: Matrix
    scores: Matrix | None
    scores_error: Matrix | None
    g_mean: float
    g_mean_error: float
    buckets: int

    def plain(self) -> dict[str, Any]:
        """All of it as JSON can hold it."""
        weights = {
            name: {"weight": self.coef[:, j].tolist(), "error": self.coef_error[:, j].tolist()}
            for j, name in enumerate(self.names)
        }
        return {
            "buckets": self.buckets,
            "weights": weights,
            "estimated_g_mean": self.g_mean,
            "estimated_g_mean_error": self.g_mean_error,
        }


def jackknifed(
    series: Series, weight: Vector, names: list[str], rule: SolverOptions, X: Matrix | None
) -> Uncertainty:
    """Errors of the model of a series whose buckets have these weights."""
    sums = series.summed(left_out(weight))
    lines = solve_series(sums, rule)
    evaluation = evaluate_scores(lines, sums)
    if not lines.known.all():
        raise DataError("without one of its buckets, the selection has rows of one class")
    scores = error = None
    if X is not None:
        f = np.einsum("gqd,nd->gnq", lines.coef, X - series.anchor) + lines.offset[:, None]
        scores, error = f[0], spread(f[1:])
    return Uncertainty(
        names, lines.coef[0], spread(lines.coef[1:]), scores, error,
        float(evaluation.g_mean[0]), float(spread(evaluation.g_mean[1:])), len(series),
    )  # fmt: skip


def left_out(weight: Vector) -> Matrix:
    """Return weights of all buckets, and then without each one, of shape (1 + g, g)."""
    if len(weight) < 3:
        raise DataError(f"there are {len(weight)} buckets, and standard errors need 3 or more")
    return np.vstack([weight, np.tile(weight, (len(weight), 1)) * (1.0 - np.eye(len(weight)))])


def of_models(
    models: Sequence[BalancedRidgeClassifier], sums: Series, names: list[str], X: Any
) -> Uncertainty:
    """Return errors of the first of several models, given those without each bucket."""
    coef = np.array([one.coef_ for one in models])
    offset = np.array([one.intercept_ for one in models]) + coef @ sums.anchor
    lines = LinearScoresBatch(coef, offset, np.ones(len(models), dtype=bool))
    g_mean = evaluate_scores(lines, sums).g_mean
    scores = error = None
    if X is not None:
        f = np.array([one.decision_function(X) for one in models])
        f = f.reshape(*f.shape[:2], -1)
        scores, error = f[0], spread(f[1:])
    return Uncertainty(
        names, coef[0], spread(coef[1:]), scores, error,
        float(g_mean[0]), float(spread(g_mean[1:])), len(models) - 1,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights over time.

    Attributes
    ----------
    names : list of str
        The features.
    start : ndarray of int of shape (m,)
        Where the stretches begin, in seconds.
    weight, error : ndarray of shape (m, d)
        Weights for features of standard deviation 1, and their standard errors; of the last class
        against the rest. NaN where a stretch has rows of one class.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from counterpoise import Ledger
    >>> from counterpoise.ledger import payments
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.open(pathlib.Path(folder.name) / "l", label="fraud", timestamp="at")
    >>> rows = ledger.learn(payments(days=40, rows=30)[0])
    >>> found = ledger.weights(size=10)
    >>> len(found.start), found.weight.shape == found.error.shape
    (4, True)
    """

    names: list[str]
    start: Counts
    weight: Matrix
    error: Matrix


def over_time(series: Series, names: list[str], rule: SolverOptions, size: int) -> Weights:
    """Weights of stretches of so many buckets."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 3:
        raise DataError((OptionValue("size"), f" is {size!r}, and must be a whole number from 3"))
    n = series.n[..., None]
    variance = (n * (series.variances() + series.mean**2)).sum(axis=(0, 1)) / n.sum()
    unit = np.sqrt(variance)  # means are about that of all rows
    start, weight, error = [], [], []
    for i in range(0, len(series), size):
        part = series.at(slice(i, i + size))
        start.append(int(part.start[0]))
        weight.append(np.full(len(names), np.nan))
        error.append(weight[-1].copy())
        try:
            found = jackknifed(part, np.ones(len(part)), names, rule, None)
        except DataError:
            continue
        weight[-1], error[-1] = found.coef[-1] * unit, found.coef_error[-1] * unit
    return Weights(names, np.array(start), np.array(weight), np.array(error))


def spread(values: Any) -> Any:
    """Standard error, given what is found without each of the buckets."""
    g = len(values)
    return np.sqrt((g - 1.0) / g * ((values - values.mean(axis=0)) ** 2).sum(axis=0))
