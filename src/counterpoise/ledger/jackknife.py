"""Standard errors by the jackknife: the model without each of its buckets in turn.

    se² = (g − 1)/g Σ (θ_i − θ̄)²

where θ_i is a weight, a score or the estimated G-mean without bucket i. Days differ more than rows
do, and so this tells more about tomorrow than an error computed from independent rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterpoise.arrays import Matrix, Vector
from counterpoise.errors import DataError
from counterpoise.ledger.judging import judged
from counterpoise.ledger.series import Series
from counterpoise.ledger.solving import Rule, solved


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
    series: Series, weight: Vector, names: list[str], rule: Rule, X: Matrix | None
) -> Uncertainty:
    """Errors of the model of a series whose buckets have these weights."""
    if len(series) < 3:
        raise DataError(f"there are {len(series)} buckets, and standard errors need 3 or more")
    W = np.vstack([weight, np.tile(weight, (len(weight), 1)) * (1.0 - np.eye(len(weight)))])
    sums = series.summed(W)
    lines = solved(sums, rule)
    verdict = judged(lines, sums)
    if not lines.known.all():
        raise DataError("without one of its buckets, the selection has rows of one class")
    scores = error = None
    if X is not None:
        f = np.einsum("gqd,nd->gnq", lines.coef, X - series.anchor) + lines.offset[:, None]
        scores, error = f[0], spread(f[1:])
    return Uncertainty(
        names, lines.coef[0], spread(lines.coef[1:]), scores, error,
        float(verdict.g_mean[0]), float(spread(verdict.g_mean[1:])), len(series),
    )  # fmt: skip


def spread(values: Any) -> Any:
    """Standard error, given what is found without each of the buckets."""
    g = len(values)
    return np.sqrt((g - 1.0) / g * ((values - values.mean(axis=0)) ** 2).sum(axis=0))
