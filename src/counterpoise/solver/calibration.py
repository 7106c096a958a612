"""Calibration: counts of rows scored before they were learned, and curves fitted to them.

"Calibration" in docs/math.md has the formulas. Counts of two streams add up. They contain no
features, do not decay, and cannot be unlearned row by row.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Flags, Labels, Matrix, Value, Vector, concatenate_labels

SMOOTHNESS_PENALTY = 0.5  # benchmarks/proofs/probability.py
LEVEL, SLOPE = 1.0, 0.5  # σ_a and σ_c
MIN_SLOPE = 0.05
MAX_EFFECTIVE_ROWS = 1e9  # rows of the fit: more have no effect
MAX_LOGIT = 700.0


@dataclass(frozen=True, eq=False)
class CalibrationCurve(Value):
    """Corrected logarithms of odds as a function of those that were predicted."""

    at: Vector  # (m,) logarithms of odds, increasing
    z: Vector  # (m,) their corrections

    @classmethod
    def fit(cls, counts: Matrix, sums: Vector) -> CalibrationCurve:
        """Return the curve of counts (2, bins) of the others and of the class, and sums of l."""
        total = counts.sum(axis=0)
        some = total > 0.0
        if not some.any():
            return cls(np.empty(0), np.empty(0))
        logit = sums[some] / total[some]
        unit = min(1.0, MAX_EFFECTIVE_ROWS / float(total.sum()))
        n, ones = total[some] * unit, counts[1][some] * unit
        z = _fit_smooth(logit, n, ones, _prior(logit, n, ones))
        q = logistic(z)
        risen = MIN_SLOPE * logit
        return cls(logit, risen + _isotonic(z - risen, n * q * (1.0 - q) + 1e-12))

    def of(self, logit: Vector) -> Vector:
        """Return corrected logarithms of odds (n,)."""
        if not len(self.at):
            return logit
        z = np.interp(logit, self.at, self.z)
        beyond = np.minimum(logit - self.at[0], 0.0) + np.maximum(logit - self.at[-1], 0.0)
        return np.asarray(np.clip(z + MIN_SLOPE * beyond, -MAX_LOGIT, MAX_LOGIT))

    def of_one(self, logit: float) -> float:
        """Return one corrected logarithm of odds, with little overhead."""
        at, z = self._lists
        if not at:
            return logit
        j = bisect_right(at, logit)
        if j == 0:
            found = z[0] + MIN_SLOPE * (logit - at[0])
        elif j == len(at):
            found = z[-1] + MIN_SLOPE * (logit - at[-1])
        else:
            found = z[j - 1] + (z[j] - z[j - 1]) / (at[j] - at[j - 1]) * (logit - at[j - 1])
        return min(max(found, -MAX_LOGIT), MAX_LOGIT)

    @cached_property
    def _lists(self) -> tuple[list[float], list[float]]:
        return self.at.tolist(), self.z.tolist()


def logistic(z: Vector) -> Vector:
    """Return probabilities of logarithms of odds."""
    return np.asarray(np.exp(-np.logaddexp(0.0, -z)))


def _prior(logit: Vector, n: Vector, ones: Vector) -> Matrix:
    """Return the matrix P (m, m) of the prior ½ δᵀ P δ."""
    m, u = len(logit), np.arcsinh(logit)
    evidence = (ones + 0.5) * (n - ones + 0.5) / (n + 1.0)
    evidence /= evidence.sum()
    shapes = np.stack([np.ones(m), logit - evidence @ logit])[: min(m, 2)]
    fit = np.linalg.solve((shapes * evidence) @ shapes.T, shapes * evidence)
    sigma = np.array([LEVEL, SLOPE])[: len(shapes)]
    P: Matrix = (fit.T / sigma**2) @ fit
    if m > 2:
        h = np.maximum(np.diff(logit), 1e-6)  # means of two bins may meet at their edge
        bend = np.zeros((m - 2, m))
        j = np.arange(m - 2)
        bend[j, j], bend[j, j + 2] = 1.0 / h[:-1], 1.0 / h[1:]
        bend[j, j + 1] = -bend[j, j] - bend[j, j + 2]
        P += SMOOTHNESS_PENALTY * (bend.T / np.maximum((u[2:] - u[:-2]) / 2.0, 1e-6)) @ bend
    return P


def _fit_smooth(logit: Vector, n: Vector, ones: Vector, P: Matrix) -> Vector:
    """Return the z of least loss and prior, by Newton's steps, halved where they go too far."""

    def loss(z: Vector) -> float:
        delta = z - logit
        data = float((n * np.logaddexp(0.0, z) - ones * z).sum())
        return data + 0.5 * float(delta @ P @ delta)

    z = logit.copy()
    now = loss(z)
    for _ in range(60):
        q = logistic(z)
        gradient = n * q - ones + P @ (z - logit)
        step = np.linalg.solve(P + np.diag(n * q * (1.0 - q)), gradient)
        part = 1.0
        while part > 1e-5 and loss(z - part * step) > now:
            part /= 2.0
        if part <= 1e-5:
            break
        z = z - part * step
        before, now = now, loss(z)
        if before - now < 1e-13 * max(1.0, before):
            break
    return z


def _isotonic(values: Vector, weight: Vector) -> Vector:
    """Return the nearest values, by weighted squares, that never fall (pool adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []  # mean, weight and length
    for value, w in zip(values.tolist(), weight.tolist(), strict=True):
        mean, size = value, 1
        while blocks and blocks[-1][0] >= mean:
            before, heavy, more = blocks.pop()
            mean = (before * heavy + mean * w) / (heavy + w)
            w, size = w + heavy, size + more
        blocks.append((mean, w, size))
    return np.concatenate([np.full(size, mean) for mean, _, size in blocks])


BINS = 64
MAX_BIN_EDGE = 4.0  # of asinh(l): 62 bins of one width lie within ±, and one beyond each
EDGES = np.linspace(-MAX_BIN_EDGE, MAX_BIN_EDGE, BINS - 1)
MAX_ABS_LOGIT = 50.0  # beyond it, odds count as certain
MAX_LABELS_FOR_LINEAR_SEARCH = 8  # labels that are compared one by one rather than looked up
Counts = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Calibration(Value):
    """Counts of rows scored before they were learned, by label: a value."""

    labels: Labels  # (c,) classes that were predicted, in any order
    counts: Counts  # (c, 2, 64) weight of the rows of the others, and of the class, in each bin
    sums: Matrix  # (c, 64) sum of l over these rows
    rows: int = 0  # number of rows

    @classmethod
    def empty(cls) -> Calibration:
        """Return the calibration of no rows."""
        return cls(np.empty(0), np.zeros((0, 2, BINS)), np.zeros((0, BINS)))

    @classmethod
    def of(
        cls, labels: Labels, seen: Flags, p: Matrix, y: Labels, weight: Vector | None
    ) -> Calibration:
        """Return the calibration of rows with these probabilities p (n, c) and labels y (n,).

        Classes that the model had not seen, and their rows, do not count.
        """
        labels, logit = labels[seen], log_odds(p[:, seen])
        codes = _codes(labels, y)
        counted = codes >= 0 if weight is None else (codes >= 0) & (weight > 0.0)
        if not counted.any() or len(labels) < 2:
            return cls.empty()
        if not counted.all():
            logit, codes = logit[counted], codes[counted]
        w = np.ones(len(logit)) if weight is None else weight[counted]
        bins = _bins(logit)
        counts, sums = np.empty((len(labels), 2, BINS)), np.empty((len(labels), BINS))
        for k in range(len(labels)):
            cell = bins[:, k] + BINS * (codes == k)
            counts[k] = np.bincount(cell, w, 2 * BINS).reshape(2, BINS)
            sums[k] = np.bincount(bins[:, k], w * logit[:, k], BINS)
        return cls(labels, counts, sums, len(logit))

    def merge(self, other: Calibration) -> Calibration:
        """Return the counts of both."""
        if not other.rows or not self.rows:
            return self if self.rows else other
        mine, theirs = self.labels.tolist(), other.labels.tolist()
        labels = concatenate_labels(
            self.labels, other.labels[[label not in mine for label in theirs]]
        )
        slot = {label: k for k, label in enumerate(labels.tolist())}
        counts, sums = np.zeros((len(labels), 2, BINS)), np.zeros((len(labels), BINS))
        counts[: len(mine)], sums[: len(mine)] = self.counts, self.sums
        at = [slot[label] for label in theirs]
        counts[at] += other.counts
        sums[at] += other.sums
        return Calibration(labels, counts, sums, self.rows + other.rows)

    def restrict_to(self, labels: Labels) -> Calibration:
        """Return the counts of these classes only; of none if they are fewer than two."""
        kept = set(labels.tolist())
        at = [k for k, label in enumerate(self.labels.tolist()) if label in kept]
        if len(at) == len(self.labels):
            return self
        if len(at) < 2:
            return Calibration.empty()
        return replace(self, labels=self.labels[at], counts=self.counts[at], sums=self.sums[at])

    @property
    def curves(self) -> list[CalibrationCurve]:
        """The curve of each class."""
        return [curve for curve in self.curves_for(self.labels) if curve is not None]

    def curves_for(self, labels: Labels) -> list[CalibrationCurve | None]:
        """Return the curve of each label; None without counts."""
        return [self._curve_of(label) for label in labels.tolist()]

    def probabilities(self, p: Matrix, labels: Labels, seen: Flags) -> Matrix:
        """Return the correction of stream probabilities p (n, c)."""
        if not self.rows or seen.sum() < 2:
            return p
        if len(labels) == 2:
            z, (curve,) = log_odds(p)[:, 1], self.curves_for(labels[1:])
            z = z if curve is None else curve.of(z)
            return np.stack([logistic(-z), logistic(z)], axis=1)
        logit, result, curves = log_odds(p), np.zeros_like(p), self.curves_for(labels)
        for k in np.flatnonzero(seen):
            curve, z = curves[k], logit[:, k]
            result[:, k] = logistic(z if curve is None else curve.of(z))
        result /= result.sum(axis=1, keepdims=True)
        return result

    def correct_one(self, p: list[float], labels: list[Any]) -> list[float]:
        """Return probabilities of one row, as :meth:`probabilities`, with little overhead."""
        if not self.rows or len(labels) < 2:
            return p
        if len(labels) == 2:
            curve = self._curve_of(labels[1])
            if curve is None:
                return p
            small = math.exp(-abs(z := curve.of_one(log_odds_of_one(p[1], p[0]))))
            more, less = 1.0 / (1.0 + small), small / (1.0 + small)
            return [less, more] if z >= 0.0 else [more, less]
        result, total = [], sum(p)
        for label, one in zip(labels, p, strict=True):
            z, curve = log_odds_of_one(one, total - one), self._curve_of(label)
            result.append(logistic_of_one(z if curve is None else curve.of_one(z)))
        total = sum(result)
        return [one / total for one in result]

    @cached_property
    def _cached_curves(self) -> dict[Any, CalibrationCurve | None]:
        return {}

    def _curve_of(self, label: Any) -> CalibrationCurve | None:
        """Return the curve of a label, fitted when it is needed; None without counts."""
        try:
            return self._cached_curves[label]
        except KeyError:
            at = self.labels.tolist().index(label) if label in self.labels.tolist() else None
            found = None if at is None else CalibrationCurve.fit(self.counts[at], self.sums[at])
            self._cached_curves[label] = found
            return found

    def errors(self) -> tuple[float, float]:
        """Return the calibration error before and after the correction.

        It is the distance of the share of the class from its mean probability in each bin, on
        average over rows and classes.
        """
        errors = []
        for (rest, ones), sums, curve in zip(self.counts, self.sums, self.curves, strict=True):
            total = rest + ones
            at = total > 0
            logit, share = sums[at] / total[at], ones[at] / total[at]
            weight = total[at] / total[at].sum()
            both = (logistic(logit), logistic(curve.of(logit)))
            errors.append([float(weight @ np.abs(share - q)) for q in both])
        before, after = np.mean(errors, axis=0)
        return float(before), float(after)


def _codes(labels: Labels, y: Labels) -> NDArray[np.intp]:
    """Return the index of each label of y among the labels; -1 if it is not among them."""
    if len(labels) <= MAX_LABELS_FOR_LINEAR_SEARCH:
        codes = np.full(len(y), -1, dtype=np.intp)
        for k, label in enumerate(labels):
            codes[y == label] = k
        return codes
    slot = {label: k for k, label in enumerate(labels.tolist())}
    return np.array([slot.get(label, -1) for label in y.tolist()], dtype=np.intp)


def _bins(logit: Matrix) -> NDArray[np.intp]:
    """Return the bin of each logarithm of odds."""
    place = np.arcsinh(logit)
    place += MAX_BIN_EDGE
    place *= (BINS - 2) / (2.0 * MAX_BIN_EDGE)
    np.ceil(place, out=place)
    return np.clip(place, 0, BINS - 1, out=place).astype(np.intp)


def log_odds_of_one(p: float, rest: float) -> float:
    """Return the logarithm of the odds p against the rest, within ±MAX_ABS_LOGIT."""
    if p <= 0.0 or rest <= 0.0:
        return 0.0 if p == rest else math.copysign(MAX_ABS_LOGIT, p - rest)
    return min(max(math.log(p) - math.log(rest), -MAX_ABS_LOGIT), MAX_ABS_LOGIT)


def logistic_of_one(z: float) -> float:
    """Return the probability of a logarithm of odds."""
    small = math.exp(-abs(z))
    return (1.0 if z >= 0.0 else small) / (1.0 + small)


def log_odds(p: Matrix) -> Matrix:
    """Return the logarithm of the odds (n, c) of each class, within ±MAX_ABS_LOGIT."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if p.shape[1] == 2:
            one = np.log(p[:, 1]) - np.log(p[:, 0])
            logit = np.stack([-one, one], axis=1)
        else:
            rest = p.sum(axis=1, keepdims=True) - p
            logit = np.log(p) - np.log(np.maximum(rest, 0.0))
    return np.asarray(np.clip(np.nan_to_num(logit, nan=0.0), -MAX_ABS_LOGIT, MAX_ABS_LOGIT))
