"""Ridge regression with all one-hot features of columns with many categories, which are eliminated.

With n_j the weight of category j, D = Σ_k a_k n_kj/n_k, C the sums of the other features by
category, and a ridge l of the column, the normal equations

    A β + Cᵀα = b,      C β + (D + l) α = z

are those of A − Cᵀ(D + l)⁻¹C for β, in K d² operations, and α = (D + l)⁻¹(z − C β) is the effect of
each category. It is the best linear predictor of a mixed model in which the effects of a column
have a common variance: l is the variance of a row over that of an effect. An unseen category has
the effect 0.

Several columns make D a sparse matrix M, with the weights of pairs. If it is large, the features
are eliminated instead, and the effects are solved by conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Matrix, Vector
from counterpoise.moments.categories import CategoryMoments, CodeColumns
from counterpoise.solver.ridge import RidgeSystems
from counterpoise.solver.score_functions import LinearScores
from counterpoise.solver.stacked_categories import (
    CategoryInverse,
    PairProducts,
    StackedCategories,
    Sums,
    solve_iteratively,
)

BLOCK_CATEGORIES = 1024  # that are summed at a time
PSEUDO_ROWS = np.logspace(-1.0, 4.0, 11)  # rows that a ridge may be worth
MAX_LEVERAGE = 0.999  # leverage of a row at most


@dataclass(frozen=True, eq=False)
class CategoryEffects:
    """Effect of each category on the scores, which adds to that of all other features."""

    columns: CodeColumns
    values: tuple[Matrix, ...]  # (K, problems) of each column
    pseudo_rows: Vector  # (B,) rows that each ridge is worth
    ridges: Vector  # (B,)

    def of(self, index: NDArray[np.intp]) -> Matrix:
        """Return the sum of the effects (n, problems), given the categories (n, B) of rows."""
        total = np.zeros((len(index), self.values[0].shape[1]))
        for values, own in zip(self.values, index.T, strict=True):
            there = (own >= 0) & (own < len(values))
            total[there] += values[own[there]]
        return total

    def reindex_columns(self, at: Sequence[int], columns: CodeColumns) -> CategoryEffects:
        """Return the effects with those of column b at position at[b]; other columns have none."""
        problems = self.values[0].shape[1]
        values, rows, ridges = (
            [np.zeros((0, problems))] * columns.count,
            *np.ones((2, columns.count)),
        )
        for b, to in enumerate(at):
            values[to], rows[to], ridges[to] = self.values[b], self.pseudo_rows[b], self.ridges[b]
        return CategoryEffects(columns, tuple(values), rows, ridges)

    def reindex_categories(self, b: int, at: NDArray[np.intp], size: int) -> CategoryEffects:
        """Return the effects with those of category i of column b at position at[i] of ``size``."""
        values = list(self.values)
        before, result = values[b], np.zeros((size, values[b].shape[1]))
        kept = at[: len(before)] >= 0
        result[at[: len(before)][kept]] = before[kept]
        values[b] = result
        return replace(self, values=tuple(values))

    def for_classes(self, seen: NDArray[np.bool_]) -> CategoryEffects:
        """Return the effects with a column of scores for each class; one never seen has none."""
        wide = []
        for values in self.values:
            wide.append(np.zeros((len(values), len(seen))))
            wide[-1][:, seen] = values
        return replace(self, values=tuple(wide))


@dataclass(frozen=True, eq=False)
class CategorySystems(RidgeSystems):
    """Normal equations of one ridge problem from which the categories were eliminated.

    What is left has the form of :class:`RidgeSystems`, about another centre.
    """

    stack: StackedCategories
    ridges: Vector  # (B,) of the columns

    @classmethod
    def after(
        cls, systems: RidgeSystems, stack: StackedCategories, ridges: Vector
    ) -> CategorySystems:
        """Return the only problem of ``systems``, without the categories."""
        one = systems
        shared = one.anchor, one.intercept, one.n, one.mean, one.C, one.m, one.s, one.a, one.y
        return cls(*shared, stack, ridges)

    @cached_property
    def base(self) -> RidgeSystems:
        """Problem without the categories."""
        return RidgeSystems(
            self.anchor, self.intercept, self.n, self.mean, self.C, self.m, self.s, self.a, self.y
        )

    @cached_property
    def alpha(self) -> Vector:
        """Weight of a row of each class, (c,)."""
        return row_weights(self.a[0], self.n[0])

    @cached_property
    def P(self) -> Matrix:
        """Products (K, 1 + d) of the categories with the constant and the features."""
        stack, alpha = self.stack, self.alpha
        result = np.empty((stack.n.shape[1], 1 + len(self.anchor)))
        result[:, 0] = alpha @ stack.n
        result[:, 1:] = np.tensordot(alpha, stack.G, 1)
        return result

    @cached_property
    def inverse(self) -> CategoryInverse:
        """Inverse of the second moments of the categories."""
        return self.stack.inverse(self.alpha, self.ridges)

    @cached_property
    def U(self) -> Matrix:
        """Coefficients (K, 1 + d) of the categories on the constant and the features."""
        return self.inverse.solve(self.P)

    @cached_property
    def target_effects(self) -> Matrix:
        """Effects (K, q) of the categories on the targets, without other features."""
        Z = (self.alpha * self.y[0]) @ self.stack.n
        return self.inverse.solve(np.ascontiguousarray(Z.T))

    @cached_property
    def S(self) -> Matrix:
        """Second moments (1 + d, 1 + d) of the constant and the features that are left."""
        d = len(self.anchor)
        S = np.zeros((1 + d, 1 + d))
        S[0, 0], S[1:, 1:] = self.base.total[0], self.base.K()[0]
        S -= self.P.T @ self.U
        return 0.5 * (S + S.T)

    @cached_property
    def total(self) -> Vector:
        """Weight of the constant that is left, of shape (1,)."""
        return self.S[:1, 0]

    @cached_property
    def shift(self) -> Vector:
        """New centre in scaled units about the old one, (d,)."""
        moved: Vector = self.S[0, 1:] / self.S[0, 0]
        return moved

    @cached_property
    def centre(self) -> Matrix:
        """Origin (1, d) at which the constant is orthogonal to the features that are left."""
        return self.base.centre + self.s * self.shift

    def K(self) -> Any:
        """Return second moments (1, d, d) about the centre, without the ridge; a new array."""
        return (self.S[1:, 1:] - self.S[0, 0] * np.outer(self.shift, self.shift))[None]

    @cached_property
    def right(self) -> Matrix:
        """First moments (1 + d, q) of targets that are left."""
        base = self.base
        r = np.empty((1 + len(self.anchor), self.y.shape[1]))
        r[0], r[1:] = (self.y[0] @ self.a[0]), base.z[0].T
        return r - self.P.T @ self.target_effects

    @cached_property
    def z(self) -> Any:
        """First moments of target times features, of shape (1, q, d)."""
        return (self.right[1:] - self.shift[:, None] * self.right[0]).T[None]

    @cached_property
    def h(self) -> Matrix:
        """Centre relative to the shift of the scaling, of shape (1, d)."""
        return (self.centre - self.m) / self.s

    @cached_property
    def t(self) -> Matrix:
        """Values of f at the centre if the constant were free, of shape (1, q)."""
        return np.asarray(self.right[0] / self.S[0, 0])[None]

    def beta(self, coef: Matrix, offset: Vector) -> Matrix:
        """Return the constant and the scaled coefficients (1 + d, q) about the old centre."""
        centre = self.base.centre[0]
        return np.concatenate([(offset + coef @ centre)[None], (coef * self.s[0]).T])

    def effects(self, coef: Matrix, offset: Vector) -> Matrix:
        """Return the effects (K, q) that belong to coefficients (q, d) and scores at the anchor."""
        return self.target_effects - self.U @ self.beta(coef, offset)

    def solve_effects(self, b: float) -> tuple[Matrix, Vector, Matrix]:
        """Return coefficients (q, d), scores (q,) at the anchor and effects (K, q), iteratively.

        The categories of the largest column, and then the constant and the features, are
        eliminated. What is left of the other effects x is solved by conjugate gradients.
        """
        base, P, stack, m = self.base, self.P, self.stack, 1 + len(self.anchor)
        pairs = PairProducts.of(stack, self.alpha)
        largest, rest = pairs.largest, pairs.rest
        D = (self.alpha @ stack.n + stack.spread(self.ridges))[:, None]
        Z = ((self.alpha * self.y[0]) @ stack.n).T
        S = np.zeros((m, m))
        S[0, 0], S[1:, 1:] = base.total[0], base.K()[0]
        S -= P[largest].T @ (P[largest] / D[largest])
        inverse = _inverse(base, S, b)
        right = np.concatenate([(self.y[0] @ self.a[0])[None], base.z[0].T])
        right = right - P[largest].T @ (Z[largest] / D[largest])

        def apply_reduced(x: Matrix) -> Matrix:
            y = pairs.to_largest(x)
            u = inverse @ (P[rest].T @ x - P[largest].T @ (y / D[largest]))
            q = D[rest] * x + pairs.within_rest(x) - P[rest] @ u
            return q - pairs.to_rest((y - P[largest] @ u) / D[largest])

        u = inverse @ right
        v = Z[rest] - P[rest] @ u - pairs.to_rest((Z[largest] - P[largest] @ u) / D[largest])
        x = solve_iteratively(apply_reduced, pairs.reduced_diagonal(D), v)
        y = pairs.to_largest(x)
        beta = inverse @ (right - P[rest].T @ x + P[largest].T @ (y / D[largest]))
        effects = np.empty_like(Z)
        effects[rest], effects[largest] = x, (Z[largest] - P[largest] @ beta - y) / D[largest]
        coef = (beta[1:] / self.s[0][:, None]).T
        return coef, beta[0] - coef @ base.centre[0], effects


def row_weights(a: Vector, n: Vector) -> Vector:
    """Return the weight of a row of each class, given the weights a and n of the classes."""
    alpha: Vector = np.divide(a, n, out=np.zeros(len(a)), where=n > 0)
    return alpha


def row_unit(systems: RidgeSystems) -> float:
    """Return the ridge that is worth one row: the mean weight of a row of each class."""
    n = np.maximum(systems.n, 1.0)
    return float(((systems.a**2 / n).sum(axis=-1) / systems.a.sum(axis=-1)).mean())


def choose_category_ridges(
    systems: RidgeSystems,
    problems: Sequence[tuple[RidgeSystems, StackedCategories]],
    columns: CodeColumns,
    b: float,
) -> Vector:
    """Return the rows (B,) that the ridge of each column is worth: as given, or the best ones.

    The criterion is that of a model of the other features and of this column alone, summed over all
    problems. Of equal values, the largest is best.
    """
    chosen = np.array([np.nan if m is None else m for m in columns.pseudo_rows])
    free = np.flatnonzero(np.isnan(chosen)).tolist()
    if not free:
        return chosen
    ridges = PSEUDO_ROWS * row_unit(systems)
    for column in free:
        own = [leave_one_out(one, stack.column(column), ridges, b) for one, stack in problems]
        scores = np.sum(own, axis=0)
        chosen[column] = PSEUDO_ROWS[scores <= float(scores.min()) * (1.0 + 1e-8)][-1]
    return chosen


def leave_one_out(
    systems: RidgeSystems, stack: StackedCategories, ridges: Vector, b: float
) -> Vector:
    """Return the leave-one-out loss (r,) of one problem for ridges of its only column.

    It is Σ_k a_k E_k[(y_k − f)²/(1 − h)²]. The leverage h of a row is that of its category, and the
    mean of its class for the other features. The scores of the rows of a class and a category vary
    as in the class. Categories enter as sums of products of ψ = [U, Z]/(D + l), so that a block of
    them stays in the cache.
    """
    a, n, d, q = systems.a[0], systems.n[0], len(systems.anchor), systems.y.shape[1]
    seen, alpha = np.flatnonzero(a), row_weights(a, n)
    width, m, r = 1 + d + q, 1 + d, len(ridges)
    by_class = np.zeros((len(seen), r * width, m))  # each class with ψ of all ridges
    squares = np.zeros((r, len(seen), m, m))
    blocks = [
        slice(start, start + BLOCK_CATEGORIES)
        for start in range(0, stack.n.shape[1], BLOCK_CATEGORIES)
    ]

    def products(own: slice) -> tuple[Sums, Matrix, Matrix]:
        counts = stack.n[seen, own]
        Q = np.concatenate([counts[..., None], stack.G[seen, own]], axis=2)
        return Q, np.tensordot(alpha[seen], Q, 1), ((alpha * systems.y[0])[:, seen] @ counts).T

    for own in blocks:
        Q, P, Z = products(own)
        scale = P[:, :1] + ridges
        psi = (np.hstack([P, Z])[:, None] / scale[..., None]).reshape(len(P), -1)
        for k, one in enumerate(Q):
            there = np.flatnonzero(one[:, 0])  # a rare class has few categories
            at = there if len(there) < len(P) else slice(None)
            by_class[k] += psi[at].T @ one[at]
            root = np.sqrt(one[at, :1]) / scale[at]
            for i in range(r):
                own = P[at] * root[:, i : i + 1]
                squares[i, k] += own.T @ own
    crosses = by_class.reshape(len(seen), r, width, m)
    crossed = np.tensordot(alpha[seen], crosses, 1)  # ψ with P
    E = np.stack([_class_moments(systems, k) for k in seen.tolist()])
    S = np.zeros((m, m))
    S[0, 0], S[1:, 1:] = systems.total[0], systems.K()[0]
    right_side = np.concatenate([(systems.y[0] @ a)[None], systems.z[0].T])
    beta, shared = np.empty((r, m, q)), np.empty((r, len(seen)))
    for i in range(r):
        inverse = _inverse(systems, S - crossed[i, :m], b)
        beta[i] = inverse @ (right_side - crossed[i, m:].T)
        for k in range(len(seen)):
            cross = crosses[k, i, :m] / n[seen[k]]
            left_moments = E[k] - cross - cross.T + squares[i, k] / n[seen[k]]
            shared[i, k] = np.vdot(inverse, left_moments)
    # The scores φ·β of the rows of a class: the square of their mean by category, and of all.
    spread = np.einsum("imq,kml,ilq->ikq", beta, E, beta)
    loss, rest_n, rest = np.zeros(r), n[seen].copy(), E[:, 0] * n[seen, None]
    between, weighed = np.zeros((r, len(seen), q)), np.zeros((r, len(seen)))
    for own in blocks:
        Q, P, Z = products(own)
        for i, ridge in enumerate(ridges.tolist()):
            effect = (Z - P @ beta[i]) / (P[:, :1] + ridge)
            for k, one in enumerate(Q):
                there = one[:, 0] > 0.0
                count = one[there, 0]
                mean = one[there] @ beta[i] / count[:, None]
                h = alpha[seen[k]] * (1.0 / (P[there, 0] + ridge) + shared[i, k])
                scale = count / (1.0 - np.minimum(h, MAX_LEVERAGE)) ** 2
                error = systems.y[0, :, seen[k]] - mean - effect[there]
                loss[i] += alpha[seen[k]] * float(scale @ (error**2).sum(axis=1))
                between[i, k] += count @ mean**2
                weighed[i, k] += float(scale.sum())
        rest_n -= Q[..., 0].sum(axis=1)
        rest -= Q.sum(axis=1)
    # Rows without a category, and what scores vary by within one.
    for k, slot in enumerate(seen.tolist()):
        count = max(float(rest_n[k]), 0.0)
        mean = (
            (rest[k] @ beta).reshape(r, q) / count if count > 1e-9 * n[slot] else np.zeros((r, q))
        )
        scale = count / (1.0 - np.minimum(alpha[slot] * shared[:, k], MAX_LEVERAGE)) ** 2
        error = systems.y[0, :, slot] - mean
        loss += alpha[slot] * scale * (error**2).sum(axis=1)
        within = np.maximum(spread[:, k] - (between[:, k] + count * mean**2) / n[slot], 0.0)
        loss += alpha[slot] * (weighed[:, k] + scale) * within.sum(axis=1)
    return loss


def _class_moments(systems: RidgeSystems, k: int) -> Matrix:
    """Return second moments (1 + d, 1 + d) of the constant and the scaled features of class k."""
    delta, s, m = systems.delta[0, k], systems.s[0], 1 + len(systems.anchor)
    E = np.empty((m, m))
    E[0, 0], E[0, 1:], E[1:, 0] = 1.0, delta, delta
    E[1:, 1:] = systems.C[0, k] / systems.n[0, k] / s / s[:, None] + np.outer(delta, delta)
    return E


def _inverse(systems: RidgeSystems, S: Matrix, b: float) -> Matrix:
    """Return the inverse of S (1 + d, 1 + d) about the centre with the ridge of the features.

    Without an intercept the constant is h·β, and the inverse that of the other directions.
    """
    R = 0.5 * (S + S.T)
    R.flat[len(R) + 1 :: len(R) + 1] += b
    h = systems.h[0]
    if systems.intercept == "none":
        T = np.concatenate([h[None], np.eye(len(h))])
        return np.asarray(T @ np.linalg.pinv(T.T @ R @ T, hermitian=True) @ T.T)
    if systems.intercept == "penalized":
        q = np.append(1.0, -h)
        R += b * np.outer(q, q)
    return np.asarray(np.linalg.pinv(R, hermitian=True))


def standard_errors(
    systems: RidgeSystems,
    categories: CategoryMoments,
    effects: CategoryEffects,
    scores: LinearScores,
) -> Matrix:
    """Return standard errors (g, d) of the coefficients of other features, as ``ridge.py`` does.

    The features are φ̃ = φ − U of the categories of a row, and the score is their product with the
    coefficients plus the effects of the categories on the targets.
    """
    found = []
    for one, coef, offset in zip(systems, scores.coef, scores.offset, strict=True):
        left = CategorySystems.after(one, stack_of(one, categories), effects.ridges)
        stack, s = left.stack, one.s[0]
        psi = np.concatenate([left.U, left.target_effects[:, :1]], axis=1)
        w = np.append(left.beta(coef[None], offset[None])[:, 0], 1.0)
        m = len(w) - 1
        middle = np.zeros((m, m))
        for k in np.flatnonzero(one.a[0]).tolist():
            n, delta = float(one.n[0, k]), one.delta[0, k]
            E = np.zeros((m + 1, m + 1))
            E[:m, :m] = _class_moments(one, k)
            Q = np.concatenate([stack.n[k][:, None], stack.G[k]], axis=1) / n
            sign = np.append(np.full(m, -1.0), 1.0)  # φ − U, and + Z
            cross = sign[:, None] * (psi.T @ np.pad(Q, ((0, 0), (0, 1))))
            square = psi.T @ (stack.product(k, psi) / n)
            E += cross + cross.T + square * np.outer(sign, sign)
            mean = np.append(1.0, np.append(delta, 0.0)) + sign * (psi.T @ stack.n[k] / n)
            S = (E - np.outer(mean, mean)) * n / (n - 1.0)
            c, e = -(S @ w)[:m], float(one.y[0, 0, k] - mean @ w)
            variance, mean, S = float(w @ S @ w), mean[:m], S[:m, :m]
            of_class = (variance + e * e) * S + np.outer(c, c) + variance * np.outer(mean, mean)
            of_class += e * (np.outer(mean, c) + np.outer(c, mean))
            middle += float(one.a[0, k]) ** 2 / n * of_class
        inverse = _inverse(one, left.S, scores.ridge)
        errors = np.sqrt(np.maximum(np.diagonal(inverse @ middle @ inverse)[1:], 0.0))
        found.append(errors / s)
    return np.stack(found)


def stack_of(systems: RidgeSystems, categories: CategoryMoments) -> StackedCategories:
    """Return the categories in the scaled units of one problem."""
    return StackedCategories.of(categories, systems.anchor, systems.centre[0], systems.s[0])


def stacks_of(
    systems: RidgeSystems, categories: CategoryMoments
) -> list[tuple[RidgeSystems, StackedCategories]]:
    """Return each problem with the categories in its units."""
    return [(one, stack_of(one, categories)) for one in systems]


def solve_ridge(
    systems: RidgeSystems, categories: CategoryMoments, columns: CodeColumns, b: float
) -> tuple[LinearScores, CategoryEffects]:
    """Solve each problem with all categories; return scores of the other features, and effects."""
    problems = stacks_of(systems, categories)
    rows = choose_category_ridges(systems, problems, columns, b)
    ridges = rows * row_unit(systems)
    coefs, offsets, effects = [], [], []
    for one, stack in problems:
        left = CategorySystems.after(one, stack, ridges)
        if stack.is_large:
            coef, offset, own = left.solve_effects(b)
        else:
            (coef,), (offset,) = left.solve(b)
            own = left.effects(coef, offset)
        coefs.append(coef)
        offsets.append(offset)
        effects.append(own)
    coef, offset = np.concatenate(coefs), np.concatenate(offsets)
    scores = LinearScores(systems.anchor.copy(), coef, offset, b)
    values = split_columns(np.concatenate(effects, axis=1), stack.ends)
    return scores, CategoryEffects(columns, values, rows, ridges)


def split_columns(values: Matrix, ends: NDArray[np.intp]) -> tuple[Matrix, ...]:
    """Return the rows of each column."""
    return tuple(np.ascontiguousarray(values[a:b]) for a, b in pairwise(ends))
