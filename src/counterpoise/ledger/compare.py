"""Comparison of two selections: counts, features, weights, and each model on both selections.

For each class and feature Welch's t tests the means and F the variances, both corrected for many
features by Holm's method. For all features of a class together Hotelling's T² tests the means, and
the likelihood ratio with Box's correction the covariances, in the directions that vary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from counterpoise.arrays import Matrix, Vector
from counterpoise.errors import DataError, OptionValue, Suggestion
from counterpoise.ledger.bucket_series import (
    Series,
    evaluate_scores,
    largest,
    solve_series,
    solver_options,
    to_records,
)
from counterpoise.ledger.query import Snapshot

MIN_VARYING_FRACTION = 1e-10  # of the largest eigenvalue of correlations, of varying directions


@dataclass(frozen=True, eq=False)
class Comparison:
    """Differences between two selections a and b.

    Attributes
    ----------
    a, b : str
        The selections, as text.
    labels : list
        The classes.
    names : list of str
        The features.
    count : ndarray of shape (2, c)
        Weight of the rows of each class in a and in b.
    shift : ndarray of shape (c, d)
        Mean in b minus mean in a, in standard deviations; NaN where a class has no rows, or a
        feature does not vary.
    spread : ndarray of shape (c, d)
        Standard deviation in b over standard deviation in a.
    shift_p, spread_p : ndarray of shape (c, d)
        P-values of Welch's test and of the F test, corrected for all features and classes.
    together : list of dict
        For each class T² of the means and the likelihood ratio of the covariances: ``statistic``,
        ``df`` and ``p`` of both; None where there are too few rows.
    weight : ndarray of shape (2, d)
        Weights of both models, for features of standard deviation 1; of more than two classes, of
        the last class against all other classes.
    loss : ndarray of shape (2, 2)
        Exact balanced squared loss of the model of a (row 0) and of b (row 1), on the rows of a
        (column 0) and of b (column 1).
    g_mean : ndarray of shape (2, 2)
        The same for the G-mean, estimated by normal distributions of the scores of each class.

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

    def largest_shifts(self, count: int = 10) -> list[tuple[Any, str, float, float, float, float]]:
        """List the features that moved most.

        Parameters
        ----------
        count : int, default=10
            Number of features.

        Returns
        -------
        list of tuple
            Class, feature, shift, its p, spread and its p.
        """
        ratio = np.where(self.spread > 0, np.nan_to_num(self.spread, nan=1.0), 1.0)
        size = np.nan_to_num(np.abs(self.shift)) + np.abs(np.log(ratio))
        columns = (self.shift, self.shift_p, self.spread, self.spread_p)
        return [
            (self.labels[k], self.names[j], *(float(one[k, j]) for one in columns))
            for k, j in largest(size, count)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON can represent it."""
        by_class = {}
        for k, label in enumerate(self.labels):
            features = to_records(
                shift=self.shift[k],
                shift_p=self.shift_p[k],
                spread=self.spread[k],
                spread_p=self.spread_p[k],
            )
            by_class[str(label)] = {
                "a": float(self.count[0, k]),
                "b": float(self.count[1, k]),
                "together": self.together[k],
                "features": dict(zip(self.names, features, strict=True)),
            }
        weights = to_records(a=self.weight[0], b=self.weight[1])
        return {
            "a": self.a,
            "b": self.b,
            "classes": by_class,
            "weights": dict(zip(self.names, weights, strict=True)),
            "loss": self.loss.tolist(),
            "estimated_g_mean": self.g_mean.tolist(),
        }


def compare(
    snapshot: Snapshot, a: Mapping[str, Any], b: Mapping[str, Any], options: Mapping[str, Any]
) -> Comparison:
    """Compare two selections as users specify them."""
    solver = solver_options(options)
    for name, given in (("a", a), ("b", b)):
        if given.get("half_life") is not None:
            raise DataError(
                (OptionValue(name), " has a half-life, and tests need rows of full weight"),
                Suggestion("leave it out"),
            )
    selections = [snapshot.select(**given) for given in (a, b)]
    texts = [selection.describe() for selection in selections]
    codes = snapshot.metadata.encoding.code_columns
    pair = Series.of_moments([snapshot.moments(selection) for selection in selections], codes)
    if ((pair.n > 0).sum(axis=1) < 2).any():
        raise DataError(
            "a selection has rows of one class, and two are needed to compare models: "
            f"{' and '.join(texts)}"
        )
    n, mean, variance = pair.n, pair.mean, pair.variances()
    some = np.where(n > 1, n, np.nan)[..., None]
    error = variance / (some - 1.0)  # variance over n, without bias
    with np.errstate(divide="ignore", invalid="ignore"):
        pooled = np.sqrt((some * variance).sum(axis=0) / (some.sum(axis=0) - 2.0))
        difference = mean[1] - mean[0]
        varies = pooled > MIN_VARYING_FRACTION * np.abs(pair.anchor + mean[0])
        shift = np.where(varies, difference / pooled, np.nan)
        both = error.sum(axis=0)
        t = difference / np.sqrt(both)
        df = both**2 / (error**2 / (some - 1.0)).sum(axis=0)
        shift_p = np.where(varies, 2.0 * stats.t.sf(np.abs(t), df), np.nan)
        spread = np.where(varies, np.sqrt(variance[1] / variance[0]), np.nan)
        ratio = error[1] * some[1] / (error[0] * some[0])
        tail = stats.f.sf(ratio, some[1] - 1.0, some[0] - 1.0)
    spread_p = np.where(varies & np.isfinite(ratio), 2.0 * np.minimum(tail, 1.0 - tail), np.nan)
    lines = solve_series(pair, solver)
    evaluation = evaluate_scores(lines.select([0, 0, 1, 1]), pair.select(np.array([0, 1, 0, 1])))
    S = pair.covariances()
    tests = [compare_jointly(n[:, k], difference[k], S[:, k]) for k in range(len(pair.labels))]
    return Comparison(
        texts[0], texts[1], pair.labels.tolist(), snapshot.names, n, shift, _holm(shift_p), spread,
        _holm(spread_p), tests, lines.coef[:, -1] * pair.feature_stds(),
        evaluation.balanced_loss.reshape(2, 2), evaluation.g_mean.reshape(2, 2),
    )  # fmt: skip


def compare_jointly(n: Vector, difference: Vector, S: NDArray[np.float64]) -> dict[str, Any]:
    """Test means by T² and covariances by the likelihood ratio, of all features of one class."""
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
    V = V[:, lam > MIN_VARYING_FRACTION * lam[-1] * len(lam)] / size[at, None]
    p = V.shape[1]
    inside = [V.T @ one[np.ix_(at, at)] @ V for one in (scatter[0], scatter[1])]
    delta, W = V.T @ difference[at], (inside[0] + inside[1]) / (total - 2.0)
    free = total - p - 1.0
    if free >= 1.0:
        T2 = float(n[0] * n[1] / total * (delta @ np.linalg.solve(W, delta)))
        F = T2 * free / (p * (total - 2.0))
        p_value = float(stats.f.sf(F, p, free))
        result["means"] = {"statistic": T2, "df": [p, free], "p": p_value}
    if (n - 1.0 > p).all():
        logs = [np.linalg.slogdet(C / (m - 1.0))[1] for C, m in zip(inside, n, strict=True)]
        M = (total - 2.0) * np.linalg.slogdet(W)[1] - float((n - 1.0) @ np.array(logs))
        loose = float((1.0 / (n - 1.0)).sum() - 1.0 / (total - 2.0))
        c = loose * (2.0 * p * p + 3.0 * p - 1.0) / (6.0 * (p + 1.0))
        if np.isfinite(M) and c < 0.5:  # else the correction is larger than the statistic
            df, chi2 = p * (p + 1) // 2, float((1.0 - c) * M)
            p_value = float(stats.chi2.sf(chi2, df))
            result["covariances"] = {"statistic": chi2, "df": df, "p": p_value}
    return result


def _holm(p: Matrix) -> Matrix:
    """Correct p-values for all tests, by Holm's method."""
    flat = p.ravel()
    order = np.argsort(flat, kind="stable")[: np.isfinite(flat).sum()]  # NaN is last
    result = np.full(len(flat), np.nan)
    factor = np.arange(len(order), 0, -1)
    result[order] = np.minimum(np.maximum.accumulate(flat[order] * factor), 1.0)
    return result.reshape(p.shape)
