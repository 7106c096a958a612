"""Drift: differences of each bucket from earlier ones, with limits of a stated level.

There are two kinds of charts over the buckets. One is for the loss of the model of earlier buckets:
its logarithm is compared with earlier logarithms by rank, and beyond the largest of them by an
exponential tail (:class:`UpperTail`). The others are for the means of each feature in each class.
The difference u from the mean of all earlier rows, in units of 1/√n, is independent of earlier
differences while nothing changes (recursive residuals). Sums with three decays δ,

    T = Σ δ^(b−i) √n_i u_i / (s √(Σ δ^2(b−i) n_i))

detect sudden and slow changes. Cells have only means and variances, so that limits cannot depend on
the distribution of a feature. Each sum has three scores, and the smallest counts:

- s² is the variance of all rows. Deviations of a skewed or heavy-tailed feature towards its long
  tail are too frequent then.
- s² is the decayed variance. A few extreme rows increase it as well, so that the score of such
  deviations is bounded; deviations towards the short tail are too frequent.
- The first two, divided by the root mean square of the scores of earlier buckets, where buckets
  have always differed by more than chance, as the days of a week do.

Each is Student's t while nothing changes and features are normal, and becomes a normal score Z of
the same tail. All charts together exceed their limits in a bucket of an unchanged stream with at
most the probability ``level``, half of which is for the loss. A chart that has exceeded its limit
begins again. Classes with one or two rows per bucket need many buckets; use larger buckets then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtr

from counterpoise.arrays import Counts, Flags, Vector
from counterpoise.errors import DataError, OptionValue
from counterpoise.ledger import time_buckets
from counterpoise.ledger.backtest import training_weights
from counterpoise.ledger.bucket_series import (
    Series,
    check_count,
    evaluate_scores,
    largest,
    solve_series,
    solver_options,
    to_records,
)

EWMA_DECAYS = np.array([0.0, 0.8, 0.96])  # about 1, 5 and 25 buckets
MAX_Z = 37.0  # deviations, beyond which a tail is 0 in floating point
MAX_LOG = 700.0  # of a loss, whose exponential is finite
MAX_OUTLIERS = 3  # among the earlier buckets of a chart
MIN_BUCKETS = 10  # that a chart needs before it may exceed a limit


@dataclass(frozen=True, eq=False)
class Drift:
    """Differences of each bucket from earlier ones.

    Attributes
    ----------
    start : ndarray of int of shape (g,)
        Starts of the buckets, in seconds.
    labels, names : list
        The classes and the features.
    loss, g_mean : ndarray of shape (g,)
        Exact balanced loss and estimated G-mean of the model of earlier buckets; NaN where a class
        has no rows.
    usual, limit : ndarray of shape (g,)
        Median of earlier losses, and limit of the loss.
    loss_alarm : ndarray of bool of shape (g,)
        Whether a chart of the loss has exceeded its limit.
    shift : ndarray of shape (g, c, d)
        Mean of each class and feature minus the mean of all earlier rows, in standard deviations.
    z : ndarray of shape (g, c, d)
        Largest score over the three decays.
    z_limit : float
        Limit of the absolute score.
    alarm : ndarray of bool of shape (g, c, d)
        Whether a chart of the means has exceeded its limit.
    level : float
        Largest probability of any alarm in a bucket, if nothing changes.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from counterpoise import Ledger
    >>> from counterpoise.ledger import payments
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.open(pathlib.Path(folder.name) / "l", label="fraud", timestamp="at")
    >>> rows = ledger.learn(payments(days=40, rows=30)[0])
    >>> found = ledger.drift(train=10)
    >>> len(found.start), found.labels, found.z.shape == (40, 2, len(found.names))
    (40, ['fraud', 'ok'], True)
    """

    start: Counts
    labels: list[Any]
    names: list[str]
    loss: Vector
    g_mean: Vector
    usual: Vector
    limit: Vector
    loss_alarm: Flags
    shift: NDArray[np.float64]
    z: NDArray[np.float64]
    z_limit: float
    alarm: NDArray[np.bool_]
    level: float

    @property
    def alarms(self) -> Flags:
        """Buckets in which a chart has exceeded its limit."""
        any_alarm: Flags = self.loss_alarm | self.alarm.any(axis=(1, 2))
        return any_alarm

    def largest_shifts(self, bucket: int, count: int = 3) -> list[tuple[Any, str, float]]:
        """List the largest alarms of features in a bucket.

        Parameters
        ----------
        bucket : int
            Its number, from 0.
        count : int, default=3
            Number of features.

        Returns
        -------
        list of tuple
            Class, feature and z.
        """
        z = np.where(self.alarm[bucket], np.abs(self.z[bucket]), 0.0)
        return [
            (self.labels[k], self.names[j], float(self.z[bucket, k, j]))
            for k, j in largest(z, count)
            if z[k, j] > 0
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the buckets as JSON can represent them, with the shifts that raised alarms."""
        shifts = [self.largest_shifts(g, self.z[g].size) for g in range(len(self.start))]
        buckets = to_records(
            start=[time_buckets.text(at) for at in self.start.tolist()],
            loss=self.loss,
            usual=self.usual,
            limit=self.limit,
            estimated_g_mean=self.g_mean,
            loss_alarm=self.loss_alarm,
            moved=[
                [{"class": str(label), "feature": name, "z": z} for label, name, z in one]
                for one in shifts
            ],
        )
        return {"level": self.level, "z_limit": self.z_limit, "buckets": buckets}


def find_drift(
    series: Series, names: list[str], train: int, level: float, options: Mapping[str, Any]
) -> Drift:
    """Compute the charts of the buckets of a series."""
    if isinstance(level, bool) or not 0.0 < level < 0.5:
        raise DataError((OptionValue("level"), f" must be between 0 and 0.5; got {level!r}"))
    check_count("train", train)
    least = MIN_BUCKETS + 2
    if len(series) < least:
        raise DataError(f"there are {len(series)} buckets, and charts need {least} or more")
    begin = np.arange(1, len(series))
    W = np.vstack([np.zeros(len(series)), training_weights(series.start, begin, train)])
    evaluation = evaluate_scores(solve_series(series.sum(W), solver_options(options)), series)
    with np.errstate(divide="ignore"):
        n = 1.0 / (1.0 / series.n).sum(axis=1)  # precision of a mean of both classes
    usual, limit, loss_alarm = _loss_chart(evaluation.balanced_loss, n, level / 2.0)
    shift, z, z_limit, alarm = _mean_charts(series, level / 2.0)
    return Drift(
        series.start, series.labels.tolist(), names, evaluation.balanced_loss, evaluation.g_mean,
        usual, limit, loss_alarm, shift, z, z_limit, alarm, level,
    )  # fmt: skip


def normal(t: Any, df: Any) -> Any:
    """Return the normal score of the same tail as Student's t; 0 for NaN."""
    t = np.nan_to_num(t)
    return -np.sign(t) * np.maximum(ndtri(stdtr(df, -np.abs(t))), -MAX_Z)


def smaller(a: Any, b: Any) -> Any:
    """Return the number of the smaller magnitude."""
    return np.where(np.abs(b) < np.abs(a), b, a)


def _loss_chart(loss: Vector, n: Vector, level: float) -> tuple[Vector, Vector, Flags]:
    """Return the median loss before each bucket, its limit, and whether a chart exceeded it."""
    with np.errstate(divide="ignore"):
        x = np.log(loss)
    tail = level / len(EWMA_DECAYS)
    high = -ndtri(tail)
    usual, limit = np.full(len(x), np.nan), np.full(len(x), np.nan)
    alarm = np.zeros(len(x), dtype=bool)
    past: list[int] = []
    top, bottom = np.zeros(len(EWMA_DECAYS)), np.zeros(len(EWMA_DECAYS))
    for g in range(len(x)):
        if not np.isfinite(x[g]) or n[g] <= 0:
            continue
        if len(past) >= MIN_BUCKETS:
            center = np.median(x[past])
            upper = UpperTail.of(_without_outliers((x[past] - center) * np.sqrt(n[past]), tail))
            usual[g] = np.exp(center)
            limit[g] = np.exp(min(center + upper.quantile(tail) / np.sqrt(n[g]), MAX_LOG))
            z = -ndtri(upper.probability((x[g] - center) * np.sqrt(n[g])))
            z = min(z, MAX_Z)
            top = EWMA_DECAYS * top + np.sqrt(n[g]) * z
            bottom = EWMA_DECAYS**2 * bottom + n[g]
            alarm[g] = (top > high * np.sqrt(bottom)).any()
        if alarm[g]:
            past, top, bottom = [], np.zeros(len(EWMA_DECAYS)), np.zeros(len(EWMA_DECAYS))
        else:
            past.append(g)
    return usual, limit, alarm


def _without_outliers(past: Vector, tail: float) -> Vector:
    """Return values without a few that are far less likely than ``tail`` given the others."""
    ordered = np.sort(past)
    for count in range(MAX_OUTLIERS, 0, -1):
        rest = ordered[:-count]
        if UpperTail.of(rest).probability(float(ordered[-count])) < 0.1 * tail:
            return rest
    return ordered


@dataclass(frozen=True, eq=False)
class UpperTail:
    """Probability that the next of several exchangeable numbers exceeds a value.

    Below the k = √m/2 largest of m numbers it is a rank. Above, excesses are taken as exponential:
    with k excesses of the sum s over the threshold u, the next one exceeds u + y with the
    probability (1 + y/s)^-k, exactly. Excesses of logarithms are exponential if the numbers have a
    power-law tail, as heavy-tailed losses have, and have a lighter tail otherwise.
    """

    past: Vector
    k: int

    @classmethod
    def of(cls, past: Vector) -> UpperTail:
        """Return the tail of past numbers, two or more."""
        return cls(np.sort(past), max(2, int(np.sqrt(len(past)) / 2.0)))

    @property
    def _threshold(self) -> tuple[float, float]:
        """Threshold and sum of the excesses over it."""
        u = self.past[-self.k - 1]
        return float(u), float((self.past[-self.k :] - u).sum())

    def probability(self, value: float) -> float:
        """Return the probability of more than a value."""
        u, s = self._threshold
        m, k = len(self.past), self.k
        if value > u:
            return (k + 1) / (m + 1) * (1.0 + (value - u) / s) ** -k if s > 0 else 0.5
        above = m - np.searchsorted(self.past, value, side="right")
        return float((above + 0.5) / (m + 1))

    def quantile(self, tail: float) -> float:
        """Return the value that is exceeded with such a small probability."""
        u, s = self._threshold
        ratio = float(tail * (len(self.past) + 1) / (self.k + 1))
        return float(u + s * (ratio ** (-1.0 / self.k) - 1.0))


def _mean_charts(
    series: Series, level: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], float, NDArray[np.bool_]]:
    """Return shifts, sums, their limit, and whether they have exceeded it."""
    g, c, d = series.mean.shape
    high = float(-ndtri(level / (2.0 * c * d * len(EWMA_DECAYS))))
    shift, worst = np.full((g, c, d), np.nan), np.zeros((g, c, d))
    alarm = np.zeros((g, c, d), dtype=bool)
    N, mean, squares = np.zeros((c, d)), np.zeros((c, d)), np.zeros((c, d))
    age, usual = np.zeros((c, d)), np.zeros((c, d))
    memory = EWMA_DECAYS[:, None, None]
    top, bottom, own, own_df = np.zeros((4, len(EWMA_DECAYS), c, d))
    scatter = series.variances() * series.n[..., None]
    for b in range(g):
        n = series.n[b][:, None]
        there = (n > 0) & (N > 0)
        delta = np.where(n > 0, series.mean[b] - mean, 0.0)
        df = np.maximum(N + n - 2.0, 1.0)
        variance = (squares + scatter[b]) / df
        varies = there & (variance > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            shift[b] = np.where(varies, delta / np.sqrt(variance), np.nan)
            u = np.where(there, delta / np.sqrt(1.0 / n + 1.0 / N), 0.0)
            # A bucket of one row has no scatter: its squared difference replaces it.
            inside = np.where(n < 2.0, u**2, scatter[b])
            top = np.where(there, memory * top + np.sqrt(n) * u, top)
            bottom = np.where(there, memory**2 * bottom + n, bottom)
            own = np.where(there, memory * own + inside, own)
            own_df = np.where(there, memory * own_df + np.maximum(n - 1.0, 1.0), own_df)
            Z = normal(top / np.sqrt(variance * bottom), df)
            Z = smaller(Z, normal(top / np.sqrt(own / own_df * bottom), own_df))
            past = np.maximum(age - 1.0, 1.0)  # buckets that have been compared
            Z = smaller(Z, normal(Z / np.sqrt(usual / past), past))
            Z = np.where(varies, Z, 0.0)
            z = np.where(varies, normal(u / np.sqrt(variance), df), 0.0)
        worst[b] = np.take_along_axis(Z, np.abs(Z).argmax(axis=0)[None], axis=0)[0]
        alarm[b] = (np.abs(worst[b]) > high) & (age >= MIN_BUCKETS) & there
        gone = alarm[b]
        usual = np.where(gone, 0.0, usual + z**2)
        for array in (N, mean, squares, age):
            array[gone] = 0.0
        for array in (top, bottom, own, own_df):
            array[:, gone] = 0.0
        delta = np.where(n > 0, series.mean[b] - mean, 0.0)
        total = N + n
        share = np.divide(n, total, out=np.zeros_like(total), where=total > 0)
        squares += np.where(n > 0, scatter[b] + delta**2 * N * share, 0.0)
        mean += delta * share
        N = total
        age += np.broadcast_to(n > 0, age.shape)
    return shift, worst, high, alarm
