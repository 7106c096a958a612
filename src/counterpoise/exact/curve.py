"""Calibration curve of log-odds: smooth, rising, and the identity without evidence.

Rows were scored by a model without them, and counted in bins of u = asinh(l), where l are the
log-odds that were predicted. Bin j contains n_j rows, o_j of the class, at the mean l_j. The curve
z has a value in each bin, the z of least

    Σ n_j log(1 + e^z_j) − o_j z_j  +  ½ (ROUGH ∫ (z′(l))′² du + (a/σ_a)² + (c/σ_c)²),

where z′ is the slope of z in l, its derivative is by u, and a and c are the level and the slope of
z − l in l, by least squares weighted with the evidence of each bin. A straight line in l costs no
roughness, so that the evidence of all rows decides about the far tail, where a rare class has its
few rows; a curve that bends follows where there are more. Between the bins z is linear in l, beyond
them it rises by FLAT; nowhere does it rise by less.

The curve depends on the log-odds alone and keeps their order, so that the more probable class for
the exact link is the more probable one after calibration.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from counterpoise.arrays import Matrix, Vector

ROUGH = 0.5  # benchmarks/tails.py and benchmarks/costs.py
LEVEL, SLOPE = 1.0, 0.5  # σ_a and σ_c
FLAT = 0.05
MOST = 1e9  # rows that the fit reckons with: more of them tell no more digits
CERTAIN = 700.0


@dataclass(frozen=True, eq=False)
class Curve:
    """Corrected logarithms of odds as a function of those that were told.

    Attributes
    ----------
    at : ndarray of shape (m,)
        Logarithms of odds, increasing.
    z : ndarray of shape (m,)
        What they should have been.
    """

    at: Vector
    z: Vector

    @classmethod
    def fitted(cls, counts: Matrix, sums: Vector) -> Curve:
        """The curve of counts (2, bins) of the rest and of the class, and of the sums of l (bins,).

        It has no knots where nothing was counted.
        """
        total = counts.sum(axis=0)
        some = total > 0.0
        if not some.any():
            return cls(np.empty(0), np.empty(0))
        logit = sums[some] / total[some]
        unit = min(1.0, MOST / float(total.sum()))
        n, ones = total[some] * unit, counts[1][some] * unit
        z = _smooth(logit, n, ones, _prior(logit, n, ones))
        q = logistic(z)
        risen = FLAT * logit
        return cls(logit, risen + _rising(z - risen, n * q * (1.0 - q) + 1e-12))

    def of(self, logit: Vector) -> Vector:
        """Corrected logarithms of odds, of shape (n,)."""
        if not len(self.at):
            return logit
        z = np.interp(logit, self.at, self.z)
        beyond = np.minimum(logit - self.at[0], 0.0) + np.maximum(logit - self.at[-1], 0.0)
        risen: Vector = np.clip(z + FLAT * beyond, -CERTAIN, CERTAIN)
        return risen

    def of_one(self, logit: float) -> float:
        """Return one corrected logarithm of odds, with little overhead."""
        at, z = self._lists
        if not at:
            return logit
        j = bisect_right(at, logit)
        if j == 0:
            found = z[0] + FLAT * (logit - at[0])
        elif j == len(at):
            found = z[-1] + FLAT * (logit - at[-1])
        else:
            found = z[j - 1] + (z[j] - z[j - 1]) / (at[j] - at[j - 1]) * (logit - at[j - 1])
        return min(max(found, -CERTAIN), CERTAIN)

    @cached_property
    def _lists(self) -> tuple[list[float], list[float]]:
        return self.at.tolist(), self.z.tolist()


def logistic(z: Vector) -> Vector:
    """Probabilities of logarithms of odds."""
    q: Vector = np.exp(-np.logaddexp(0.0, -z))
    return q


def _prior(logit: Vector, n: Vector, ones: Vector) -> Matrix:
    """The matrix P of the prior ½ δᵀ P δ, of shape (m, m)."""
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
        P += ROUGH * (bend.T / np.maximum((u[2:] - u[:-2]) / 2.0, 1e-6)) @ bend
    return P


def _smooth(logit: Vector, n: Vector, ones: Vector, P: Matrix) -> Vector:
    """The z of least loss and prior: Newton's steps, halved where they go too far."""

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


def _rising(values: Vector, weight: Vector) -> Vector:
    """The nearest values, by weighted squares, that never fall: neighbours that do are pooled."""
    blocks: list[tuple[float, float, int]] = []  # mean, weight and length
    for value, w in zip(values.tolist(), weight.tolist(), strict=True):
        mean, size = value, 1
        while blocks and blocks[-1][0] >= mean:
            before, heavy, more = blocks.pop()
            mean = (before * heavy + mean * w) / (heavy + w)
            w, size = w + heavy, size + more
        blocks.append((mean, w, size))
    return np.concatenate([np.full(size, mean) for mean, _, size in blocks])
