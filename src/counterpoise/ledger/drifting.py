"""Drift: how far each bucket is from what came before, with limits of a stated level.

Two kinds of charts run over the buckets. One is about the loss of the model of the buckets before;
its cube root, which is nearly normal, is compared with that of earlier buckets. The others are
about the means of each feature in each class: the difference from all rows before, over its
standard error, is Student's t while nothing changes, and independent of those before it (recursive
residuals). Each difference becomes a normal score z, and sums of them with three memories δ,

    Z = Σ δ^(b−i) √n_i z_i / √(Σ δ^2(b−i) n_i)

find sudden changes and slow ones. Where buckets have always differed by more than chance, as the
days of a week do, z is divided by what is usual. All charts together pass their limits in a bucket
of an unchanged stream with the probability ``level``, half of which is for the loss. A chart that
has passed its limit begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtr, stdtrit

from counterpoise.arrays import Counts, Flags, Vector
from counterpoise.errors import DataError, Setting
from counterpoise.ledger import buckets
from counterpoise.ledger.backtesting import trained
from counterpoise.ledger.judging import judged
from counterpoise.ledger.series import Series
from counterpoise.ledger.solving import Rule, solved

MEMORIES = np.array([0.0, 0.8, 0.96])  # about 1, 5 and 25 buckets
FARTHEST = 37.0  # deviations, beyond which no tail can be told from 0
WARMUP = 10  # buckets that a chart needs before it may pass a limit


@dataclass(frozen=True, eq=False)
class Drift:
    """How far each bucket is from those before.

    Attributes
    ----------
    start : ndarray of int of shape (g,)
        Where the buckets begin, in seconds.
    labels, names : list
        The classes and the features.
    loss, g_mean : ndarray of shape (g,)
        Of the model of the buckets before: exact balanced loss, and estimated G-mean. NaN where a
        class has no rows.
    usual, limit : ndarray of shape (g,)
        What the loss was before, and how large it may become.
    loss_alarm : ndarray of bool of shape (g,)
        Whether a chart of the loss has passed its limit.
    shift : ndarray of shape (g, c, d)
        Mean of each class and feature minus that of all rows before, in standard deviations.
    z : ndarray of shape (g, c, d)
        The sum whose memory shows most.
    z_limit : float
        What it may become.
    alarm : ndarray of bool of shape (g, c, d)
        Whether a chart of the means has passed its limit.
    level : float
        Probability of any alarm in a bucket, if nothing changes.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from counterpoise import Ledger
    >>> from counterpoise.ledger.demo import payments
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.open(pathlib.Path(folder.name) / "l", label="fraud", time="at")
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
        """Whether any chart has passed its limit in each bucket."""
        found: Flags = self.loss_alarm | self.alarm.any(axis=(1, 2))
        return found

    def moved(self, bucket: int, most: int = 3) -> list[tuple[Any, str, float]]:
        """What moved most in a bucket that raised an alarm.

        Parameters
        ----------
        bucket : int
            Its number, from 0.
        most : int, default=3
            How many.

        Returns
        -------
        list of tuple
            Class, feature, and z.
        """
        z = np.where(self.alarm[bucket], np.abs(self.z[bucket]), 0.0)
        order = np.argsort(-z, axis=None, kind="stable")[:most]
        found = []
        for k, j in zip(*np.unravel_index(order, z.shape), strict=True):
            if z[k, j] > 0:
                found.append((self.labels[k], self.names[j], float(self.z[bucket, k, j])))
        return found

    def plain(self) -> dict[str, Any]:
        """All of it as JSON can hold it, but for the shifts of buckets without alarms."""
        return {
            "level": self.level,
            "z_limit": self.z_limit,
            "buckets": [
                {
                    "start": buckets.text(at),
                    "loss": float(self.loss[g]),
                    "usual": float(self.usual[g]),
                    "limit": float(self.limit[g]),
                    "estimated_g_mean": float(self.g_mean[g]),
                    "loss_alarm": bool(self.loss_alarm[g]),
                    "moved": [
                        {"class": str(label), "feature": name, "z": z}
                        for label, name, z in self.moved(g, self.z[g].size)
                    ],
                }
                for g, at in enumerate(self.start.tolist())
            ],
        }


def drifted(series: Series, names: list[str], rule: Rule, train: int, level: float) -> Drift:
    """Charts of the buckets of a series."""
    if isinstance(level, bool) or not 0.0 < level < 0.5:
        raise DataError((Setting("level"), f" is {level!r}, and must be between 0 and 0.5"))
    if isinstance(train, bool) or not isinstance(train, int) or train < 1:
        raise DataError((Setting("train"), f" is {train!r}, and must be a whole number from 1"))
    if len(series) < WARMUP + 2:
        raise DataError(f"there are {len(series)} buckets, and charts need {WARMUP + 2} or more")
    rule.check()
    begin = np.arange(1, len(series))
    W = np.vstack([np.zeros(len(series)), trained(series.start, begin, train, None)])
    verdict = judged(solved(series.summed(W), rule), series)
    with np.errstate(divide="ignore"):
        n = 1.0 / (1.0 / series.n).sum(axis=1)  # what a mean of both classes is worth
    usual, limit, loss_alarm = _loss_chart(verdict.balanced, n, level / 2.0)
    shift, z, z_limit, alarm = _mean_charts(series, level / 2.0)
    return Drift(
        series.start, series.labels.tolist(), names, verdict.balanced, verdict.g_mean,
        usual, limit, loss_alarm, shift, z, z_limit, alarm, level,
    )  # fmt: skip


def normal(t: Any, df: Any) -> Any:
    """Student's t as a normal score of the same tail."""
    return -np.sign(t) * np.maximum(ndtri(stdtr(df, -np.abs(t))), -FARTHEST)


def _loss_chart(loss: Vector, n: Vector, level: float) -> tuple[Vector, Vector, Flags]:
    """What the loss was before each bucket, its limit, and whether it has passed it."""
    x = np.cbrt(loss)
    tail = level / len(MEMORIES)
    high = -ndtri(tail)
    usual, limit = np.full(len(x), np.nan), np.full(len(x), np.nan)
    alarm = np.zeros(len(x), dtype=bool)
    N = mean = squares = 0.0
    m, top, bottom = 0, np.zeros(len(MEMORIES)), np.zeros(len(MEMORIES))
    for g in range(len(x)):
        if not np.isfinite(x[g]) or n[g] <= 0:
            continue
        if m >= 2:
            sigma = np.sqrt(squares / (m - 1))
            error = sigma * np.sqrt(1.0 / n[g] + 1.0 / N)
            usual[g] = mean**3
            limit[g] = (mean + error * stdtrit(m - 1, 1.0 - tail)) ** 3
            z = normal((x[g] - mean) / error, m - 1) if error > 0 else 0.0
            top = MEMORIES * top + np.sqrt(n[g]) * z
            bottom = MEMORIES**2 * bottom + n[g]
            alarm[g] = m >= WARMUP and (top > high * np.sqrt(bottom)).any()
        if alarm[g]:
            N = mean = squares = 0.0
            m, top, bottom = 0, np.zeros(len(MEMORIES)), np.zeros(len(MEMORIES))
        delta, m, N = x[g] - mean, m + 1, N + n[g]
        mean += delta * n[g] / N
        squares += n[g] * delta * (x[g] - mean)
    return usual, limit, alarm


def _mean_charts(
    series: Series, level: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], float, NDArray[np.bool_]]:
    """Shifts, sums, their limit, and whether they have passed it."""
    g, c, d = series.mean.shape
    high = float(-ndtri(level / (2.0 * c * d * len(MEMORIES))))
    shift, worst = np.full((g, c, d), np.nan), np.zeros((g, c, d))
    alarm = np.zeros((g, c, d), dtype=bool)
    N, mean, squares = np.zeros((c, d)), np.zeros((c, d)), np.zeros((c, d))
    age, usual = np.zeros((c, d)), np.zeros((c, d))
    memory = MEMORIES[:, None, None]
    top, bottom = np.zeros((len(MEMORIES), c, d)), np.zeros((len(MEMORIES), c, d))
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
            t = shift[b] / np.sqrt(1.0 / n + 1.0 / N)
        z = np.where(varies, normal(np.nan_to_num(t), df), 0.0)
        rms = np.sqrt(usual / np.maximum(age, 1.0))
        z = z / np.maximum(rms, 1.0)
        top = np.where(there, memory * top + np.sqrt(n) * z, top)
        bottom = np.where(there, memory**2 * bottom + n, bottom)
        with np.errstate(divide="ignore", invalid="ignore"):
            Z = np.nan_to_num(top / np.sqrt(bottom))
        worst[b] = np.take_along_axis(Z, np.abs(Z).argmax(axis=0)[None], axis=0)[0]
        alarm[b] = (np.abs(worst[b]) > high) & (age >= WARMUP) & there
        gone = alarm[b]
        usual = np.where(gone, 0.0, usual + np.where(there, (z * np.maximum(rms, 1.0)) ** 2, 0.0))
        for array in (N, mean, squares, age):
            array[gone] = 0.0
        top[:, gone], bottom[:, gone] = 0.0, 0.0
        delta = np.where(n > 0, series.mean[b] - mean, 0.0)
        total = N + n
        share = np.divide(n, total, out=np.zeros_like(total), where=total > 0)
        squares += np.where(n > 0, scatter[b] + delta**2 * N * share, 0.0)
        mean += delta * share
        N = total
        age += np.broadcast_to(n > 0, age.shape)
    return shift, worst, high, alarm
