"""Two selections compared: counts, features, weights, and what each model is worth on the other.

For each class and feature Welch's t tests the means and F the variances, both corrected for many
features by Holm's method. For all features of a class together Hotelling's T² tests the means, and
the likelihood ratio with Box's correction the covariances, in the directions that vary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from counterpoise.arrays import Matrix, Vector
from counterpoise.ledger.bucket_series import (
    LinearScoresBatch,
    Series,
    SolverOptions,
    evaluate_scores,
    solve_series,
)

FLAT = 1e-10  # of the largest eigenvalue of correlations: such directions do not vary


@dataclass(frozen=True, eq=False)
class Comparison:
    """What differs between two selections a and b.

    Attributes
    ----------
    a, b : str
        The selections, in words.
    labels : list
        The classes.
    names : list of str
        The features.
    count : ndarray of shape (2, c)
        Weight of the rows of each class in a and in b.
    shift : ndarray of shape (c, d)
        Mean in b minus mean in a, in standard deviations; NaN where a class has no rows, or a
        feature does not vary.
    shift_p : ndarray of shape (c, d)
        Welch's test of that, corrected for all features and classes.
    spread : ndarray of shape (c, d)
        Standard deviation in b over that in a.
    spread_p : ndarray of shape (c, d)
        The F test of that, corrected likewise.
    together : list of dict
        For each class T² of the means and the likelihood ratio of the covariances: ``statistic``,
        ``df`` and ``p`` of both; None where there are too few rows.
    weight : ndarray of shape (2, d)
        Weights of both models, for features of standard deviation 1; those of the last class
        against the rest if there are more than two.
    loss : ndarray of shape (2, 2)
        Balanced squared loss of the model of a (row 0) and of b (row 1), on the rows of a (column
        0) and of b (column 1). It is exact.
    g_mean : ndarray of shape (2, 2)
        The same for the G-mean, which is an estimate by the mean and the variance of the scores of
        each class, as if these were normal.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from counterpoise import Ledger
    >>> from counterpoise.ledger import payments
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.open(pathlib.Path(folder.name) / "l", label="fraud", timestamp="at")
    >>> rows = ledger.learn(payments(days=40, rows=30)[0])
    >>> found = ledger.compare({"until": "2024-01-20"}, {"since": "2024-01-20"})
    >>> found.a, found.b, found.count.sum(axis=1).tolist()
    ('until 2024-01-20', 'since 2024-01-20', [698.0, 729.0])
    """

    a: str
    b: str
    labels: list[Any]
    names: list[str]
    count: Matrix
    shift: Matrix
    shift_p: Matrix
    spread: Matrix
    spread_p: Matrix
    together: list[dict[str, Any]]
    weight: Matrix
    loss: Matrix
    g_mean: Matrix

    def moved(self, most: int = 10) -> list[tuple[Any, str, float, float, float, float]]:
        """Features that moved most.

        Parameters
        ----------
        most : int, default=10
            How many.

        Returns
        -------
        list of tuple
            Class, feature, shift, its p, spread and its p.
        """
        size = np.nan_to_num(np.abs(self.shift)) + np.abs(
            np.log(np.where(self.spread > 0, np.nan_to_num(self.spread, nan=1.0), 1.0))
        )
        order = np.argsort(-size, axis=None, kind="stable")[:most]
        found = []
        for k, j in zip(*np.unravel_index(order, self.shift.shape), strict=True):
            one = (x[k, j] for x in (self.shift, self.shift_p, self.spread, self.spread_p))
            shift, shift_p, spread, spread_p = map(float, one)
            found.append((self.labels[k], self.names[j], shift, shift_p, spread, spread_p))
        return found

    def plain(self) -> dict[str, Any]:
        """All of it as JSON can hold it."""
        by_class = {}
        for k, label in enumerate(self.labels):
            by_class[str(label)] = {
                "a": float(self.count[0, k]),
                "b": float(self.count[1, k]),
                "together": self.together[k],
                "features": {
                    name: {
                        "shift": float(self.shift[k, j]),
                        "shift_p": float(self.shift_p[k, j]),
                        "spread": float(self.spread[k, j]),
                        "spread_p": float(self.spread_p[k, j]),
                    }
                    for j, name in enumerate(self.names)
                },
            }
        weights = {
            name: {"a": float(self.weight[0, j]), "b": float(self.weight[1, j])}
            for j, name in enumerate(self.names)
        }
        return {
            "a": self.a,
            "b": self.b,
            "classes": by_class,
            "weights": weights,
            "loss": self.loss.tolist(),
            "estimated_g_mean": self.g_mean.tolist(),
        }


def compared(pair: Series, names: list[str], a: str, b: str, rule: SolverOptions) -> Comparison:
    """Compare the two sets of a series."""
    n, mean, variance = pair.n, pair.mean, pair.variances()
    some = np.where(n > 1, n, np.nan)[..., None]
    error = variance / (some - 1.0)  # variance over n, without bias
    with np.errstate(divide="ignore", invalid="ignore"):
        pooled = np.sqrt((some * variance).sum(axis=0) / (some.sum(axis=0) - 2.0))
        difference = mean[1] - mean[0]
        varies = pooled > FLAT * np.abs(pair.anchor + mean[0])
        shift = np.where(varies, difference / pooled, np.nan)
        both = error.sum(axis=0)
        t = difference / np.sqrt(both)
        df = both**2 / (error**2 / (some - 1.0)).sum(axis=0)
        shift_p = np.where(varies, 2.0 * stats.t.sf(np.abs(t), df), np.nan)
        spread = np.where(varies, np.sqrt(variance[1] / variance[0]), np.nan)
        ratio = error[1] * some[1] / (error[0] * some[0])
        tail = stats.f.sf(ratio, some[1] - 1.0, some[0] - 1.0)
    spread_p = np.where(varies & np.isfinite(ratio), 2.0 * np.minimum(tail, 1.0 - tail), np.nan)
    lines = solve_series(pair, rule)
    every = LinearScoresBatch(
        lines.coef[[0, 0, 1, 1]], lines.offset[[0, 0, 1, 1]], lines.known[[0, 0, 1, 1]]
    )
    evaluation = evaluate_scores(every, pair.at(np.array([0, 1, 0, 1])))
    S = pair.covariances()
    by_class = [together(n[:, k], difference[k], S[:, k]) for k in range(len(pair.labels))]
    unit = np.sqrt(_pooled_variance(pair))
    return Comparison(
        a, b, pair.labels.tolist(), names, n, shift, _holm(shift_p), spread, _holm(spread_p),
        by_class, lines.coef[:, -1] * unit,
        evaluation.balanced.reshape(2, 2), evaluation.g_mean.reshape(2, 2),
    )  # fmt: skip


def _pooled_variance(pair: Series) -> Vector:
    """Variance of each feature over all rows of both sets."""
    n = pair.n[..., None]
    centre = (n * pair.mean).sum(axis=(0, 1)) / n.sum()
    squares = n * (pair.variances() + (pair.mean - centre) ** 2)
    found: Vector = squares.sum(axis=(0, 1)) / n.sum()
    return found


def together(n: Vector, difference: Vector, S: NDArray[np.float64]) -> dict[str, Any]:
    """T² of the means and the likelihood ratio of the covariances of one class."""
    result: dict[str, Any] = {"means": None, "covariances": None}
    if (n < 2).any():
        return result
    total, scatter = float(n.sum()), n[:, None, None] * S
    within = scatter.sum(axis=0) / (total - 2.0)
    size = np.sqrt(np.diagonal(within))
    at = np.flatnonzero(size > 0)
    if not at.size:
        return result
    unit = size[at, None] * size[at]
    lam, V = np.linalg.eigh(within[np.ix_(at, at)] / unit)
    V = V[:, lam > FLAT * lam[-1] * len(lam)] / size[at, None]
    p = V.shape[1]
    inside = [V.T @ one[np.ix_(at, at)] @ V for one in (scatter[0], scatter[1])]
    delta, W = V.T @ difference[at], (inside[0] + inside[1]) / (total - 2.0)
    free = total - p - 1.0
    if free >= 1.0:
        T2 = float(n[0] * n[1] / total * (delta @ np.linalg.solve(W, delta)))
        F = T2 * free / (p * (total - 2.0))
        result["means"] = {
            "statistic": T2, "df": [p, free], "p": float(stats.f.sf(F, p, free))
        }  # fmt: skip
    if (n - 1.0 > p).all():
        logs = [np.linalg.slogdet(C / (m - 1.0))[1] for C, m in zip(inside, n, strict=True)]
        M = (total - 2.0) * np.linalg.slogdet(W)[1] - float((n - 1.0) @ np.array(logs))
        loose = float((1.0 / (n - 1.0)).sum() - 1.0 / (total - 2.0))
        c = loose * (2.0 * p * p + 3.0 * p - 1.0) / (6.0 * (p + 1.0))
        if np.isfinite(M) and c < 0.5:  # else the correction is larger than what it corrects
            df = p * (p + 1) // 2
            chi2 = float((1.0 - c) * M)
            result["covariances"] = {
                "statistic": chi2, "df": df, "p": float(stats.chi2.sf(chi2, df))
            }  # fmt: skip
    return result


def _holm(p: Matrix) -> Matrix:
    """Corrected for all tests that were made, by Holm's method."""
    flat = p.ravel()
    known = np.flatnonzero(np.isfinite(flat))
    order = known[np.argsort(flat[known], kind="stable")]
    result = np.full(len(flat), np.nan)
    factor = np.arange(len(order), 0, -1)
    result[order] = np.minimum(np.maximum.accumulate(flat[order] * factor), 1.0)
    return result.reshape(p.shape)
