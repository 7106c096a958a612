"""Linear discriminants with all categories of columns that have many, and the link of scores.

The covariance within classes of all features and categories is inverted by elimination of the
categories, as in ``solver/categories.py``, and by a correction of the rank of the classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from counterpoise.arrays import Matrix, Vector
from counterpoise.moments.categories import CategoryMoments, CodeColumns
from counterpoise.solver.categories import (
    CategoryEffects,
    choose_category_ridges,
    row_unit,
    row_weights,
    split_columns,
    stacks_of,
)
from counterpoise.solver.ridge import PooledClasses
from counterpoise.solver.score_functions import LinearScores
from counterpoise.solver.stacked_categories import CategoryInverse, StackedCategories


class Discriminants(NamedTuple):
    """Linear discriminants of c classes as functions of rows about the anchor."""

    coef: Matrix  # (c, d)
    offset: Vector  # (c,)
    effects: Matrix  # (c, K)


@dataclass(frozen=True, eq=False)
class WithinClasses:
    """Covariance within classes of all features and categories, with ridges, and its inverse.

    aW + Λ is R − MMᵀ, with R the second moments about the centre, of which the categories are
    eliminated, and M the means of the classes times the roots of their weights.
    """

    pool: PooledClasses
    stack: StackedCategories
    b: float
    ridges: Vector

    @cached_property
    def alpha(self) -> Vector:
        """Weight of a row of each class of the moments."""
        return row_weights(self.pool.a, self.pool.moments.n)

    @cached_property
    def shares(self) -> Matrix:
        """Share of each category in each class that was seen, (c, K)."""
        slots = self.pool.slots
        return self.stack.n[slots] / self.pool.moments.n[slots, None]

    @cached_property
    def inverse(self) -> CategoryInverse:
        """Inverse of the second moments of the categories."""
        return self.stack.inverse(self.alpha, self.ridges)

    @cached_property
    def U(self) -> Matrix:
        """Coefficients (K, d) of the categories on the features."""
        return self.inverse.solve(np.tensordot(self.alpha, self.stack.G, 1))

    @cached_property
    def root_weights(self) -> Vector:
        """Root of the weight of each class that was seen."""
        return np.sqrt(self.pool.a[self.pool.slots])

    @cached_property
    def _factor(self) -> Any:
        """Cholesky factor of the second moments of the features that are left."""
        pool = self.pool
        weighted = self.root_weights[:, None] * pool.delta
        K = pool.K() + weighted.T @ weighted
        K -= np.tensordot(self.alpha, self.stack.G, 1).T @ self.U
        K.flat[:: len(K) + 1] += max(self.b, len(K) * 1e-15 * float(np.trace(K)) / len(K))
        return linalg.cho_factor(K, lower=True)

    @cached_property
    def solution(self) -> tuple[Matrix, Matrix]:
        """R⁻¹M: for the features (d, c) and for the categories (K, c)."""
        M = self.root_weights[:, None] * self.pool.delta
        N = self.root_weights[:, None] * self.shares
        of_categories = self.inverse.solve(np.ascontiguousarray(N.T))
        x = linalg.cho_solve(self._factor, M.T - self.U.T @ N.T)
        return x, of_categories - self.U @ x

    @cached_property
    def gram(self) -> Matrix:
        """MᵀR⁻¹M (c, c)."""
        x, u = self.solution
        product: Matrix = (self.root_weights[:, None] * self.pool.delta) @ x
        return product + (self.root_weights[:, None] * self.shares) @ u

    def discriminants(self) -> tuple[Matrix, Matrix]:
        """Return the coefficients (c, d) and effects (c, K) of the mean of each class about all."""
        x, u = self.solution
        total, root = self.pool.total, self.root_weights
        left = np.linalg.inv(np.eye(len(root)) - self.gram)
        w, v = (x @ left / root).T * total, (u @ left / root).T * total
        return w, v

    def scores_of(self, w: Matrix, effects: Matrix) -> Discriminants:
        """Return scores at the anchor, given discriminants: w (c, d) and effects (c, K)."""
        pool = self.pool
        share = self.root_weights**2 / pool.total
        if pool.intercept == "none":
            return Discriminants(w / pool.s, -(w / pool.s @ pool.centre), effects)
        w, effects, mean = w - share @ w, effects - share @ effects, share @ self.shares
        coef = w / pool.s
        distance = np.einsum("kj,kj->k", w, pool.delta)
        distance += np.einsum("kj,kj->k", effects, self.shares - mean)
        offset = pool.prior - 0.5 * distance - effects @ mean - coef @ pool.centre
        return Discriminants(coef, offset, effects)

    def covariance(self, k: int, A: Matrix, effects: Matrix) -> Matrix:
        """Return the covariance (p, p) in class k of scores, given coefficients and effects."""
        pool = self.pool
        slot = pool.slots[k]
        n, s = float(pool.moments.n[slot]), pool.s
        p = self.shares[k]
        cross = self.stack.G[slot] / n - np.outer(p, pool.delta[k])
        mixed = effects @ cross @ A.T
        mean = effects @ p
        own = effects @ (self.stack.product(slot, effects.T) / n) - np.outer(mean, mean)
        covariance: Matrix = A @ (pool.moments.C[slot] / n / s / s[:, None]) @ A.T
        covariance += mixed + mixed.T + own
        return covariance

    def traces(self) -> Vector:
        """Return tr(V⁻¹S_k) of each class, V the covariance with ridges, S_k that of class k."""
        pool, (x, u) = self.pool, self.solution
        left = np.linalg.inv(np.eye(len(self.root_weights)) - self.gram)
        inverse = linalg.cho_solve(self._factor, np.eye(len(pool.s)))
        result = np.empty(len(pool.slots))
        for k, slot in enumerate(pool.slots.tolist()):
            n, s, U = float(pool.moments.n[slot]), pool.s, self.U
            E = pool.moments.C[slot] / n / s / s[:, None]
            E += np.outer(pool.delta[k], pool.delta[k])
            cross = U.T @ self.stack.G[slot] / n
            E = E - cross - cross.T + U.T @ (self.stack.product(slot, U) / n)
            trace = self.inverse.trace(self.stack, slot) / n + float(np.vdot(inverse, E))
            trace -= float(self.gram[k, k]) / self.root_weights[k] ** 2
            trace += float(np.vdot(left, self.covariance(k, x.T, u.T)))
            result[k] = trace * pool.total
        return result


def solve_lda(
    pool: PooledClasses, categories: CategoryMoments, columns: CodeColumns, b: float
) -> tuple[LinearScores, CategoryEffects]:
    """Solve linear discriminants with all categories."""
    systems = pool.against_rest()
    rows = choose_category_ridges(systems, stacks_of(systems, categories), columns, b)
    ridges = rows * row_unit(systems)
    within = within_classes(pool, categories, b, ridges)
    coef, offset, effects = within.scores_of(*within.discriminants())
    values = split_columns(np.ascontiguousarray(effects.T), within.stack.ends)
    scores = LinearScores(pool.moments.anchor.copy(), coef, offset, b)
    return scores, CategoryEffects(columns, values, rows, ridges)


def within_classes(
    pool: PooledClasses, categories: CategoryMoments, b: float, ridges: Vector
) -> WithinClasses:
    """Return the covariance within classes, with the ridge b and those of the columns (B,)."""
    stack = StackedCategories.of(categories, pool.moments.anchor, pool.centre, pool.s)
    return WithinClasses(pool, stack, b, ridges)
