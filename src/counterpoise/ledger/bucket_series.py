"""Buckets one after the other, and sums over many sets of them at once.

A series has the moments of each bucket and class. With a matrix W, whose row g weighs the buckets
of a set g,

    n = W n      μ = W (n μ) / n      C = W (C + n μμᵀ) − n μμᵀ

for all sets in one product each. Means are about the mean of all rows, so that μμᵀ is about as
large as the scatter and little is lost by the difference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from counterpoise.arrays import Counts, Flags, Labels, Matrix, Vector
from counterpoise.errors import DataError, OptionValue, Suggestion
from counterpoise.ledger.cells import ClassCells, MomentSum, Stack, unfolded
from counterpoise.solver.class_weights import class_total_weights, standardization, targets
from counterpoise.solver.options import Options
from counterpoise.solver.ridge import RidgeSystems, decaying_ridge

ROUNDING_FRACTION = 1e-13  # of a sum of squares: what is left after a difference is rounding
MAX_UNFOLDED_VALUES = 1 << 23  # numbers of what is unfolded at a time


@dataclass(frozen=True, eq=False)
class Series:
    """Moments of many sets of rows."""

    labels: Labels  # (c,) the classes, sorted
    anchor: Vector  # (d,) what means are about
    start: Counts  # (g,) of the buckets
    stop: Counts  # (g,) of the buckets
    n: Matrix  # (g, c) weights
    mean: NDArray[np.float64]  # (g, c, d) means about the anchor; 0 where there is no row
    tri: NDArray[np.float64]  # triangles of the scatters

    def __len__(self) -> int:
        return len(self.n)

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.anchor)

    def summed(self, W: Matrix) -> Series:
        """Return sums over sets of buckets; W has the shape (sets, g)."""
        c, d, g = len(self.labels), self.width, len(W)
        n, mean = np.empty((g, c)), np.empty((g, c, d))
        tri = np.empty((g, c, self.tri.shape[2]))
        i, j = np.tril_indices(d)
        diagonal = np.flatnonzero(i == j)
        for k in range(c):
            n[:, k] = W @ self.n[:, k]
            some = np.where(n[:, k] > 0, n[:, k], 1.0)[:, None]
            mu = self.mean[:, k]
            mean[:, k] = W @ (self.n[:, k, None] * mu) / some
            raw = self.tri[:, k] + self.n[:, k, None] * mu[:, i] * mu[:, j]
            sums = W @ raw
            tri[:, k] = sums - n[:, k, None] * mean[:, k][:, i] * mean[:, k][:, j]
            flat = tri[:, k][:, diagonal] <= ROUNDING_FRACTION * sums[:, diagonal]
            if flat.any():
                tri[:, k][flat[:, i] | flat[:, j]] = 0.0
        none = np.zeros(g, dtype=np.int64)
        return replace(self, start=none, stop=none, n=n, mean=mean, tri=tri)

    def only(self, at: NDArray[np.intp]) -> Series:
        """Return the series of some features."""
        low, high = np.tril_indices(len(at))
        a, b = at[low], at[high]
        place = np.maximum(a, b) * (np.maximum(a, b) + 1) // 2 + np.minimum(a, b)
        return replace(
            self, anchor=self.anchor[at], mean=self.mean[..., at], tri=self.tri[..., place]
        )

    def at(self, rows: slice | NDArray[np.intp]) -> Series:
        """Return some of the sets."""
        return replace(
            self,
            start=self.start[rows],
            stop=self.stop[rows],
            n=self.n[rows],
            mean=self.mean[rows],
            tri=self.tri[rows],
        )

    def blocks(self) -> list[slice]:
        """Return slices of the sets whose scatters can be unfolded in one step."""
        size = max(1, MAX_UNFOLDED_VALUES // max(len(self.labels) * self.width**2, 1))
        return [slice(i, i + size) for i in range(0, len(self), size)]

    def covariances(self) -> NDArray[np.float64]:
        """Return covariances of each set and class, (g, c, d, d); 0 where there is no row."""
        n = np.where(self.n > 0, self.n, 1.0)
        return unfolded(self.tri / n[..., None], self.width)

    def variances(self) -> NDArray[np.float64]:
        """Return variances of each set, class and feature, of shape (g, c, d)."""
        k = np.arange(self.width)
        n = np.where(self.n > 0, self.n, 1.0)
        found: NDArray[np.float64] = self.tri[..., k * (k + 3) // 2] / n[..., None]
        return found


def series_of(stack: Stack, inside: list[Flags]) -> Series:
    """Return buckets of the cells in a selection, over all segments."""
    times = [part.start[flags] for part, flags in zip(stack.parts, inside, strict=True)]
    start = np.unique(np.concatenate(times))
    stop = np.zeros_like(start)
    order = np.argsort(stack.labels, kind="stable")
    c, d = len(order), len(stack.anchor)
    n, mean = np.zeros((len(start), c)), np.zeros((len(start), c, d))
    tri = np.zeros((len(start), c, d * (d + 1) // 2))
    for k, slot in enumerate(order.tolist()):
        part, flags = stack.parts[slot], inside[slot]
        if flags.any():
            at = np.searchsorted(start, part.start[flags])
            stop[at] = part.stop[flags]
            _add(part, flags, at, n[:, k], mean[:, k], tri[:, k])
    total = n.sum()
    shift = np.einsum("gc,gcd->d", n, mean) / total
    mean = np.where(n[..., None] > 0, mean - shift, 0.0)
    return Series(stack.labels[order], stack.anchor + shift, start, stop, n, mean, tri)


def series_of_sets(sets: list[tuple[Stack, list[Vector]]]) -> Series:
    """Return weighted sums of cells, one for each set, about one anchor."""
    anchor, labels = sets[0][0].anchor, sets[0][0].labels
    order = np.argsort(labels, kind="stable")
    c, d = len(order), len(anchor)
    n, mean = np.zeros((len(sets), c)), np.zeros((len(sets), c, d))
    tri = np.zeros((len(sets), c, d * (d + 1) // 2))
    for g, (stack, weights) in enumerate(sets):
        for k, slot in enumerate(order.tolist()):
            total = MomentSum(d)
            total.add(*stack.parts[slot].weighing(weights[slot]))
            n[g, k], mean[g, k], tri[g, k] = total.total()
            if n[g, k] > 0:
                mean[g, k] += stack.anchor - anchor
    none = np.zeros(len(sets), dtype=np.int64)
    return Series(labels[order], anchor, none, none, n, mean, tri)


def _add(part: ClassCells, flags: Flags, at: Counts, n: Vector, mean: Matrix, tri: Matrix) -> None:
    """Add cells of one class, by time, to their buckets."""
    begin = np.flatnonzero(np.append(True, at[1:] != at[:-1]))
    mine = at[begin]
    own, mu, C = part.n[flags], part.mean[flags], part.tri[flags]
    n[mine] = np.add.reduceat(own, begin)
    mean[mine] = np.add.reduceat(own[:, None] * mu, begin) / n[mine, None]
    i, j = np.tril_indices(mean.shape[1])
    if len(begin) < len(at):
        apart = mu - mean[at]
        C = C + own[:, None] * apart[:, i] * apart[:, j]
        tri[mine] = np.add.reduceat(C, begin)
    else:
        tri[mine] = C


@dataclass(frozen=True)
class SolverOptions(Options):
    """Options by which many sets are solved at once."""

    def check(self) -> None:
        """Raise if all buckets cannot be solved at once by this rule."""
        if self.ridge == "gcv":
            raise DataError(
                (OptionValue("ridge", "gcv"), " chooses anew for every set of buckets"),
                Suggestion("compare numbers instead"),
            )
        number = isinstance(self.ridge, (int, float)) and not isinstance(self.ridge, bool)
        if self.ridge != "auto" and not (number and 0 < float(self.ridge) < np.inf):
            raise DataError(
                (
                    OptionValue("ridge"),
                    f" is {self.ridge!r}, and must be a positive number or auto",
                )
            )
        if self.scale not in ("standard", None):
            raise DataError(
                (OptionValue("scale"), f" is {self.scale!r}, and must be standard or none")
            )


@dataclass(frozen=True, eq=False)
class LinearScoresBatch:
    """Affine scores of many sets: f(x) = offset + coef·(x − anchor)."""

    coef: NDArray[np.float64]  # (g, problems, d) coefficients in the units of the input
    offset: Matrix  # (g, problems) scores at the anchor
    known: Flags  # (g,) whether there are rows of two classes


def solve_series(series: Series, rule: SolverOptions) -> LinearScoresBatch:
    """Solve every set of a series."""
    c = len(series.labels)
    y = targets(c)
    parts = [_solve_block(series.at(block), rule, y) for block in series.blocks()]
    coef, offset = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return LinearScoresBatch(coef, offset, (series.n > 0).sum(axis=1) >= 2)


def _solve_block(
    series: Series, rule: SolverOptions, y: Matrix
) -> tuple[NDArray[np.float64], Matrix]:
    """Return coefficients (g, q, d) and offsets (g, q) of the sets of one block."""
    n, mean, C = series.n, series.mean, unfolded(series.tri, series.width)
    m, s = np.tile(-series.anchor, (len(n), 1)), np.ones((len(n), series.width))
    if rule.scale is not None:
        anchor, variance = series.anchor, series.variances()
        m, s = standardization(anchor, n, mean, variance, moved=np.abs(anchor))
    coef = np.zeros((len(n), len(y), series.width))
    offset = np.full((len(n), len(y)), -1.0 if len(y) > 1 else np.nan)
    a = class_total_weights(series.labels, n, y, rule.class_weight, rule.class_factors)
    fit = np.stack([
        (one[:, target > 0] > 0).any(axis=1) & (one[:, target < 0] > 0).any(axis=1)
        for one, target in zip(a, y, strict=True)
    ])  # fmt: skip
    ridge = np.full(len(n), np.nan if rule.ridge == "auto" else float(rule.ridge))
    if rule.ridge == "auto":  # one for all problems of a set
        b = np.zeros(fit.shape)
        b[fit] = decaying_ridge(a[fit], np.broadcast_to(n, a.shape)[fit])
        ridge = b.sum(axis=0) / np.maximum(fit.sum(axis=0), 1)
    for q, target in enumerate(y):
        at = np.flatnonzero(fit[q])
        targets_of = np.broadcast_to(target, (len(at), 1, len(target)))
        each = n[at], mean[at], C[at], m[at], s[at], a[q, at], targets_of
        found = RidgeSystems(series.anchor, rule.intercept, *each).solve(ridge[at])
        coef[at, q], offset[at, q] = found[0][:, 0], found[1][:, 0]
    return coef, offset


NORMAL_DRAWS = 512  # of normal scores of several classes


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Losses and recalls of scores on sets of rows."""

    n: Matrix  # (g, c) weight of the rows of each class
    # (g, c) mean squared loss of each class, exact; NaN where there is no row or no model
    loss: Matrix
    recall: Matrix  # (g, c) estimated recall of each class

    @property
    def balanced(self) -> Vector:
        """Mean of the losses of the classes of each set; NaN if one has no row."""
        mean: Vector = self.loss.mean(axis=1)
        return mean

    @property
    def g_mean(self) -> Vector:
        """Estimated geometric mean of the recalls of each set; NaN if a class has no row."""
        with np.errstate(divide="ignore"):
            found: Vector = np.exp(np.log(self.recall).mean(axis=1))
        return found

    def pooled(self) -> tuple[float, float]:
        """Balanced loss and estimated G-mean of the rows of all sets together."""
        known = np.isfinite(self.loss)
        n = np.where(known, self.n, 0.0)
        total = n.sum(axis=0)
        if not (total > 0).all():
            return np.nan, np.nan
        loss = np.where(known, self.loss, 0.0)
        recall = np.where(known, self.recall, 0.0)
        by_class = (n * recall).sum(axis=0) / total
        with np.errstate(divide="ignore"):
            g_mean = np.exp(np.log(by_class).mean())
        return float(((n * loss).sum(axis=0) / total).mean()), float(g_mean)


def evaluate_scores(lines: LinearScoresBatch, series: Series) -> Evaluation:
    """Evaluate the scores of each set on the rows of the same set of a series.

    Both have the same anchor.
    """
    c = len(series.labels)
    y = targets(c)
    at, spread = scores(lines, series)
    loss = ((y - at.swapaxes(1, 2)) ** 2 + np.einsum("gcqq->gqc", spread)).mean(axis=1)
    recall = _binary_recalls(at, spread) if c == 2 else _multiclass_recalls(at, spread)
    none = ~lines.known[:, None] | (series.n <= 0)
    return Evaluation(series.n, np.where(none, np.nan, loss), np.where(none, np.nan, recall))


def scores(
    lines: LinearScoresBatch, series: Series
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return means (g, c, q) and covariances (g, c, q, q) of the scores of each class."""
    at = lines.offset[:, None] + np.einsum("gqd,gcd->gcq", lines.coef, series.mean)
    spread = np.empty((*at.shape, at.shape[2]))
    for block in series.blocks():
        S = series.at(block).covariances()
        w = lines.coef[block]
        spread[block] = np.einsum("gqi,gcij,grj->gcqr", w, S, w, optimize=True)
    return at, spread


def _binary_recalls(at: NDArray[np.float64], spread: NDArray[np.float64]) -> Matrix:
    """Return recalls of two classes: the second is predicted above 0."""
    sigma = np.sqrt(np.maximum(spread[..., 0, 0], 0.0))
    side = at[..., 0] * [-1.0, 1.0]
    certain = np.where(side > 0, 1.0, 0.0)
    recall: Matrix = np.where(sigma > 0, ndtr(side / np.where(sigma > 0, sigma, 1.0)), certain)
    return recall


def _multiclass_recalls(at: NDArray[np.float64], spread: NDArray[np.float64]) -> Matrix:
    """Return recalls of several classes: the largest score wins, in the same normal draws."""
    g, c, q = at.shape
    Z = np.random.default_rng(0).standard_normal((NORMAL_DRAWS, q))
    recall = np.empty((g, c))
    lam, V = np.linalg.eigh(np.nan_to_num(spread))
    root = V * np.sqrt(np.maximum(lam, 0.0))[..., None, :]
    for k in range(c):
        drawn = at[:, k, None] + np.einsum("gij,mj->gmi", root[:, k], Z)
        recall[:, k] = (drawn.argmax(axis=2) == k).mean(axis=1)
    return recall
