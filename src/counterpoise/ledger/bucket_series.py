"""Buckets in the order of time, and sums over many sets of them in one step.

A series has the moments of each bucket and class. With a matrix W, whose row g weighs the buckets
of a set g,

    n = W n      μ = W (n μ) / n      C = W (C + n μμᵀ) − n μμᵀ

for all sets in one product each. Means are about the mean of all rows, so that μμᵀ is about as
large as the scatter and the difference loses little precision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import ndtr

from counterpoise.arrays import Counts, Flags, Labels, Matrix, Vector
from counterpoise.errors import DataError, OptionValue, Suggestion
from counterpoise.ledger.category_cells import CategoryCells, find_codes
from counterpoise.ledger.cells import Cells, fold, triangle, triangle_indices, unfold
from counterpoise.moments.categories import CategoryMoments, CodeColumns, Codes
from counterpoise.moments.classes import Classes
from counterpoise.moments.moments import Moments
from counterpoise.solver.categories import CategoryEffects
from counterpoise.solver.class_weights import class_total_weights, standardization, targets
from counterpoise.solver.options import Options
from counterpoise.solver.ridge import RidgeSystems, decaying_ridge
from counterpoise.solver.score_functions import LinearScores
from counterpoise.solver.scores import solve_scores

ROUNDING_FRACTION = 1e-13  # of a sum of squares: a smaller difference is a rounding error
MAX_UNFOLDED_VALUES = 1 << 23  # values of scatters that are unfolded in one step


@dataclass(frozen=True, eq=False)
class Series:
    """Moments of many sets of rows, such as the buckets of a ledger."""

    labels: Labels  # (c,) the classes, sorted
    anchor: Vector  # (d,) subtracted from all means
    n: Matrix  # (g, c) weights
    mean: NDArray[np.float64]  # (g, c, d) means about the anchor; 0 without rows
    tri: NDArray[np.float64]  # (g, c, d(d+1)/2) triangles of the scatters
    start: Counts  # (g,) starts of the buckets; empty if the sets are not buckets
    categories: SeriesCategories | None = None  # of columns with many of them

    @classmethod
    def of_cells(cls, cells: Cells, codes: CodeColumns | None) -> Series:
        """Return the buckets of cells, over all segments; ``codes`` are columns of categories."""
        label = cells.heads["label"]
        start, bucket = np.unique(cells.heads["start"], return_inverse=True)
        order = np.argsort(cells.labels, kind="stable")
        column = np.argsort(order)[label]
        begin = np.flatnonzero(np.append(True, (np.diff(bucket) != 0) | (np.diff(label) != 0)))
        g, c, d = len(start), len(order), len(cells.anchor)
        at, own, tri = (bucket[begin], column[begin]), cells.heads["n"], cells.tri
        n, mean, triangles = np.zeros((g, c)), np.zeros((g, c, d)), np.zeros((g, c, triangle(d)))
        n[at] = np.add.reduceat(own, begin)
        mean[at] = np.add.reduceat(own[:, None] * cells.mean, begin) / n[at][:, None]
        if len(begin) < len(own):
            i, j = triangle_indices(d)
            centered = cells.mean - mean[bucket, column]
            tri = np.add.reduceat(tri + own[:, None] * centered[:, i] * centered[:, j], begin)
        triangles[at] = tri
        shift = np.einsum("gc,gcd->d", n, mean) / n.sum()
        mean = np.where(n[..., None] > 0, mean - shift, 0.0)
        many = None
        if cells.categories is not None and codes is not None:
            own_sums = cells.categories.sum(np.ones(len(own)), bucket * c + column)
            many = SeriesCategories.of(own_sums, g, codes)
        return cls(cells.labels[order], cells.anchor + shift, n, mean, triangles, start, many)

    @classmethod
    def of_moments(cls, sets: Sequence[Moments], codes: CodeColumns | None) -> Series:
        """Return sets that were summed before, about the anchor of the first."""
        order, anchor = np.argsort(sets[0].labels, kind="stable"), sets[0].anchor
        n = np.stack([one.n[order] for one in sets])
        mean = np.stack([one.mean[order] + (one.anchor - anchor) for one in sets])
        mean[n <= 0] = 0.0
        tri = np.stack([fold(one.C[order]) for one in sets])
        many, c = None, len(order)
        for i, one in enumerate(sets if codes is not None else ()):
            assert one.categories is not None
            mine = CategoryCells.of(one.categories, i * c + np.argsort(order), anchor)
            many = mine if many is None else many.append(mine)
        found = None
        if many is not None and codes is not None:
            found = SeriesCategories.of(many, len(sets), codes)
        return cls(sets[0].labels[order], anchor, n, mean, tri, NO_BUCKETS, found)

    def __len__(self) -> int:
        return len(self.n)

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.anchor)

    def sum(self, W: Matrix) -> Series:
        """Return sums over sets of buckets with weights W of shape (sets, g)."""
        n, mean, tri = (np.empty((len(W), *one.shape[1:])) for one in (self.n, self.mean, self.tri))
        i, j = triangle_indices(self.width)
        diagonal = np.flatnonzero(i == j)
        for k in range(len(self.labels)):
            n[:, k] = W @ self.n[:, k]
            some = np.where(n[:, k] > 0, n[:, k], 1.0)[:, None]
            mu = self.mean[:, k]
            mean[:, k] = W @ (self.n[:, k, None] * mu) / some
            sums = W @ (self.tri[:, k] + self.n[:, k, None] * mu[:, i] * mu[:, j])
            tri[:, k] = sums - n[:, k, None] * mean[:, k][:, i] * mean[:, k][:, j]
            is_constant = tri[:, k][:, diagonal] <= ROUNDING_FRACTION * sums[:, diagonal]
            if is_constant.any():
                tri[:, k][is_constant[:, i] | is_constant[:, j]] = 0.0
        many = None if self.categories is None else self.categories.sum(W)
        return replace(self, n=n, mean=mean, tri=tri, start=NO_BUCKETS, categories=many)

    def moments(self, i: int) -> Moments:
        """Return the moments of a set."""
        result, d = Moments(self.labels, self.anchor), self.width
        result.n[:] = result.N[:] = self.n[i]
        result.mean[:], result.C[:] = self.mean[i], unfold(self.tri[i], d)
        result.max_scatter[:] = np.maximum(np.einsum("kjj->kj", result.C), 0.0)
        if self.categories is not None:
            result.categories = self.categories.moments(i, len(self.labels))
        return result

    def select_features(self, at: NDArray[np.intp], columns: Sequence[int] | None = None) -> Series:
        """Return the series of some features, and of some columns with many categories."""
        many = self.categories
        if many is not None and columns is not None:
            many = many.select_columns(columns)
        if np.array_equal(at, np.arange(self.width)):
            return replace(self, categories=many)
        many = None if many is None else replace(many, cells=many.cells.select_features(at))
        low, high = triangle_indices(len(at))
        a, b = np.minimum(at[low], at[high]), np.maximum(at[low], at[high])
        tri = self.tri[..., triangle(b) + a]
        mean = self.mean[..., at]
        return replace(self, anchor=self.anchor[at], mean=mean, tri=tri, categories=many)

    def select(self, at: slice | NDArray[np.intp]) -> Series:
        """Return some of the sets."""
        columns = {"n": self.n[at], "mean": self.mean[at], "tri": self.tri[at]}
        start = self.start[at] if len(self.start) else NO_BUCKETS
        many = None if self.categories is None else self.categories.select(at)
        return replace(self, **columns, start=start, categories=many)

    def blocks(self) -> list[slice]:
        """Return slices of the sets whose scatters can be unfolded in one step."""
        size = max(1, MAX_UNFOLDED_VALUES // max(len(self.labels) * self.width**2, 1))
        return [slice(i, i + size) for i in range(0, len(self), size)]

    def covariances(self) -> NDArray[np.float64]:
        """Return covariances of each set and class, (g, c, d, d); 0 without rows."""
        n = np.where(self.n > 0, self.n, 1.0)
        return unfold(self.tri / n[..., None], self.width)

    def variances(self) -> NDArray[np.float64]:
        """Return variances of each set, class and feature, of shape (g, c, d)."""
        k = np.arange(self.width)
        n = np.where(self.n > 0, self.n, 1.0)
        variances: NDArray[np.float64] = self.tri[..., k * (k + 3) // 2] / n[..., None]
        return variances

    def feature_stds(self) -> Vector:
        """Return the standard deviation of each feature over the rows of all sets, (d,)."""
        n = self.n[..., None]
        center = (n * self.mean).sum(axis=(0, 1)) / n.sum()
        squares = n * (self.variances() + (self.mean - center) ** 2)
        stds: Vector = np.sqrt(squares.sum(axis=(0, 1)) / n.sum())
        return stds


@dataclass(frozen=True, eq=False)
class SeriesCategories:
    """Categories of sets of buckets: those of each bucket and class, and weights of the buckets."""

    codes: CodeColumns
    cells: CategoryCells  # cell i is class i % c of bucket i // c
    W: Any  # (sets, g) CSR

    @classmethod
    def of(cls, cells: CategoryCells, g: int, codes: CodeColumns) -> SeriesCategories:
        """Return the categories of g buckets."""
        return cls(codes, cells, sp.eye_array(g, format="csr"))

    def sum(self, W: Matrix) -> SeriesCategories:
        """Return sums over sets with weights W."""
        return replace(self, W=sp.csr_array(W) @ self.W)

    def select(self, at: slice | NDArray[np.intp]) -> SeriesCategories:
        """Return some of the sets."""
        return replace(self, W=self.W[at])

    def select_columns(self, columns: Sequence[int]) -> SeriesCategories | None:
        """Return the categories of some columns; None of no column."""
        if not columns:
            return None
        codes = CodeColumns(tuple(self.codes.pseudo_rows[b] for b in columns))
        return replace(self, codes=codes, cells=self.cells.select_columns(columns))

    def moments(self, i: int, c: int) -> CategoryMoments:
        """Return the moments of a set, with the codes that occur in it."""
        g = self.W.shape[1]
        w = np.repeat(self.W[[i]].toarray()[0], c)
        return self.cells.sum(w, np.tile(np.arange(c), g)).moments(c)


@dataclass(frozen=True, eq=False)
class SetEffects:
    """Effects of the categories that occur in a set of rows; others have none."""

    codes: list[Codes]  # (K,) of each column, ascending
    effects: CategoryEffects

    def of(self, b: int, codes: Any) -> Matrix:
        """Return the effects (e, q) of categories of a column."""
        values = self.effects.values[b]
        every: Matrix = np.vstack([values, np.zeros(values.shape[1])])
        return every[find_codes(self.codes[b], codes)]

    def moments(self, series: Series, i: int, coef: Matrix) -> tuple[Matrix, NDArray[np.float64]]:
        """Return what they add to the mean (c, q) and the covariance (c, q, q) of scores.

        The scores are those of set i of a series. With e the effects of a row, it is the mean of e,
        and the covariances of e with coef·x, of shape (q,), and with itself.
        """
        assert series.categories is not None
        found, c = series.categories.moments(i, len(series.labels)), len(series.labels)
        n = np.where(series.n[i] > 0, series.n[i], 1.0)
        mean, square = np.zeros((c, len(coef))), np.zeros((c, len(coef), len(coef)))
        centre = series.anchor + series.mean[i] - found.origin
        values = [self.of(b, one.all_codes) for b, one in enumerate(found.columns)]
        for e, one in zip(values, found.columns, strict=True):
            centered = one.sums - one.n[..., None] * centre[:, None]
            mixed = (centered @ coef.T).swapaxes(1, 2) @ e
            mean += one.n @ e
            square += mixed + mixed.swapaxes(1, 2) + (one.n[:, None] * e.T) @ e
        for (a, b), pairs in found.renumber().pairs.items():
            for k, one in enumerate(pairs.of_classes(c, (len(values[a]), len(values[b])))):
                both = values[a].T @ (one @ values[b])
                square[k] += both + both.T
        mean /= n[:, None]
        return mean, square / n[:, None, None] - mean[:, :, None] * mean[:, None]

    def of_rows(self, index: Codes) -> Matrix:
        """Return the sum of the effects (n, q), given the categories (n, B) of rows."""
        total: Matrix = np.sum([self.of(b, one) for b, one in enumerate(index.T)], axis=0)
        return total


NO_BUCKETS = np.zeros(0, dtype=np.int64)
SOLVER_OPTIONS = (
    "ridge", "class_weight", "class_factors", "scale", "fit_intercept", "penalize_intercept"
)  # fmt: skip
NEED_ROWS = {  # parameters of the classifier that no moments can serve
    "half_life": "counts rows; name the half-life of the selection, in days",
    "feature_map": "maps rows, which a ledger does not store",
    "calibrate": "scores rows before they are learned, which a ledger does not store",
}


def require_no_rows(options: Mapping[str, Any]) -> None:
    """Raise if a parameter of the classifier needs rows."""
    for name, reason in NEED_ROWS.items():
        if options.get(name):
            raise DataError((OptionValue(name), f" {reason}"), Suggestion("leave it out"))


def solver_options(options: Mapping[str, Any]) -> Options:
    """Return the options by which many sets are solved in one step."""
    require_no_rows(options)
    for name in options:
        if name not in SOLVER_OPTIONS:
            raise TypeError(f"unexpected keyword argument {name!r}")
    result = Options(**options)
    ridge = result.ridge
    if ridge == "gcv":
        raise DataError(
            (OptionValue("ridge", "gcv"), " selects another ridge for every set of buckets"),
            Suggestion("compare numbers instead"),
        )
    is_number = isinstance(ridge, (int, float)) and not isinstance(ridge, bool)
    if ridge != "auto" and not (is_number and 0 < float(ridge) < np.inf):
        raise DataError(
            (OptionValue("ridge"), f" must be a positive number or auto; got {ridge!r}")
        )
    result.check()
    return result


@dataclass(frozen=True, eq=False)
class LinearScoresBatch:
    """Affine scores of many sets: f(x) = offset + coef·(x − anchor)."""

    coef: NDArray[np.float64]  # (g, problems, d) coefficients in the units of the input
    offset: Matrix  # (g, problems) scores at the anchor
    is_solved: Flags  # (g,) whether there are rows of two classes
    effects: Sequence[SetEffects | None] = ()  # of columns with many categories, if there are any

    def select(self, at: Sequence[int]) -> LinearScoresBatch:
        """Return the scores of some sets."""
        effects = [self.effects[i] for i in at] if self.effects else ()
        return LinearScoresBatch(self.coef[at], self.offset[at], self.is_solved[at], effects)


def solve_series(series: Series, options: Options) -> LinearScoresBatch:
    """Solve every set of a series."""
    if series.categories is not None:
        return _solve_categories(series, options, series.categories.codes)
    y = targets(len(series.labels))
    parts = [_solve_block(series.select(block), options, y) for block in series.blocks()]
    coef, offset = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return LinearScoresBatch(coef, offset, (series.n > 0).sum(axis=1) >= 2)


def _solve_categories(series: Series, options: Options, codes: CodeColumns) -> LinearScoresBatch:
    """Solve every set of a series with columns of many categories, one after the other."""
    q, options = len(targets(len(series.labels))), replace(options, multi_class="ovr")
    coef = np.zeros((len(series), q, series.width))
    offset = np.full((len(series), q), -1.0 if q > 1 else np.nan)
    is_solved, effects = (series.n > 0).sum(axis=1) >= 2, list[SetEffects | None]()
    for i in range(len(series)):
        effects.append(None)
        if is_solved[i]:
            moments = series.moments(i)
            assert moments.categories is not None
            own = [one.all_codes for one in moments.categories.columns]
            moments.categories = moments.categories.renumber()
            found = solve_scores(moments, Classes.of(moments, moments.labels), options, codes)
            assert isinstance(found.solution, LinearScores)
            assert found.effects is not None
            coef[i], offset[i] = found.solution.coef, found.solution.offset
            effects[i] = SetEffects(own, found.effects)
    return LinearScoresBatch(coef, offset, is_solved, effects)


def _solve_block(series: Series, options: Options, y: Matrix) -> tuple[NDArray[np.float64], Matrix]:
    """Return coefficients (g, q, d) and offsets (g, q) of the sets of one block."""
    n, mean, C = series.n, series.mean, unfold(series.tri, series.width)
    m, s = np.tile(-series.anchor, (len(n), 1)), np.ones((len(n), series.width))
    if options.scale is not None:
        anchor, variance = series.anchor, series.variances()
        m, s = standardization(anchor, n, mean, variance, moved=np.abs(anchor))
    coef = np.zeros((len(n), len(y), series.width))
    offset = np.full((len(n), len(y)), -1.0 if len(y) > 1 else np.nan)
    a = class_total_weights(series.labels, n, y, options.class_weight, options.class_factors)
    fit = np.stack([
        (one[:, target > 0] > 0).any(axis=1) & (one[:, target < 0] > 0).any(axis=1)
        for one, target in zip(a, y, strict=True)
    ])  # fmt: skip
    ridge = np.full(len(n), np.nan if options.ridge == "auto" else float(options.ridge))
    if options.ridge == "auto":  # one for all problems of a set
        b = np.zeros(fit.shape)
        b[fit] = decaying_ridge(a[fit], np.broadcast_to(n, a.shape)[fit])
        ridge = b.sum(axis=0) / np.maximum(fit.sum(axis=0), 1)
    for q, target in enumerate(y):
        at = np.flatnonzero(fit[q])
        targets_of = np.broadcast_to(target, (len(at), 1, len(target)))
        each = n[at], mean[at], C[at], m[at], s[at], a[q, at], targets_of
        found = RidgeSystems(series.anchor, options.intercept, *each).solve(ridge[at])
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
    def balanced_loss(self) -> Vector:
        """Mean of the losses of the classes of each set; NaN if one has no row."""
        mean: Vector = self.loss.mean(axis=1)
        return mean

    @property
    def g_mean(self) -> Vector:
        """Estimated geometric mean of the recalls of each set; NaN if a class has no row."""
        with np.errstate(divide="ignore"):
            found: Vector = np.exp(np.log(self.recall).mean(axis=1))
        return found

    def pool(self) -> tuple[float, float]:
        """Return the balanced loss and the estimated G-mean of the rows of all sets together."""
        is_finite = np.isfinite(self.loss)
        n = np.where(is_finite, self.n, 0.0)
        total = n.sum(axis=0)
        if not (total > 0).all():
            return np.nan, np.nan
        loss, recall = (
            (n * np.where(is_finite, one, 0.0)).sum(axis=0) / total
            for one in (self.loss, self.recall)
        )
        with np.errstate(divide="ignore"):
            g_mean = np.exp(np.log(recall).mean())
        return float(loss.mean()), float(g_mean)


def evaluate_scores(lines: LinearScoresBatch, series: Series) -> Evaluation:
    """Evaluate the scores of each set on the same set of a series of the same anchor."""
    c = len(series.labels)
    y = targets(c)
    at, spread = scores(lines, series)
    loss = ((y - at.swapaxes(1, 2)) ** 2 + np.einsum("gcqq->gqc", spread)).mean(axis=1)
    recall = _binary_recalls(at, spread) if c == 2 else _multiclass_recalls(at, spread)
    none = ~lines.is_solved[:, None] | (series.n <= 0)
    return Evaluation(series.n, np.where(none, np.nan, loss), np.where(none, np.nan, recall))


def scores(
    lines: LinearScoresBatch, series: Series
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return means (g, c, q) and covariances (g, c, q, q) of the scores of each class."""
    at = lines.offset[:, None] + np.einsum("gqd,gcd->gcq", lines.coef, series.mean)
    spread = np.empty((*at.shape, at.shape[2]))
    for block in series.blocks():
        S, w = series.select(block).covariances(), lines.coef[block]
        spread[block] = np.einsum("gqi,gcij,grj->gcqr", w, S, w, optimize=True)
    for i, effects in enumerate(lines.effects):
        if effects is not None:
            mean, extra = effects.moments(series, i, lines.coef[i])
            at[i] += mean
            spread[i] += extra
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


def check_count(option: str, value: Any, minimum: int = 1) -> None:
    """Raise if an option is not an integer of at least a minimum."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        text = f" must be an integer of {minimum} or greater; got {value!r}"
        raise DataError((OptionValue(option), text))


def largest(size: Matrix, count: int) -> list[tuple[int, int]]:
    """Return the indices of the largest values of a matrix, in descending order."""
    order = np.argsort(-size, axis=None, kind="stable")[:count]
    return [(int(k), int(j)) for k, j in zip(*np.unravel_index(order, size.shape), strict=True)]


def to_records(**columns: Any) -> list[dict[str, Any]]:
    """Return one dict for each entry of columns of equal length, for JSON."""
    lists = [one.tolist() if isinstance(one, np.ndarray) else one for one in columns.values()]
    return [dict(zip(columns, values, strict=True)) for values in zip(*lists, strict=True)]
