"""Moments of all categories of several columns, one after the other, and the inverse of a sum.

The columns make a sparse matrix M: a diagonal block of each, and the weights of pairs. Its largest
diagonal block is eliminated first. What is left is factorized, or solved by conjugate gradients if
it is large.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy import linalg

from counterpoise.arrays import Matrix, Vector
from counterpoise.moments.categories import CategoryMoments, PairWeights

MAX_FACTORIZED = 3000  # categories of all columns but the largest that are solved as one matrix
SOLVE_RTOL = 1e-13  # of conjugate gradients
MAX_ITERATIONS = 1000
TRACE_PROBES = 64  # random vectors that estimate the trace of a matrix that is not factorized
Sums = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StackedCategories:
    """Moments of the categories of all columns, one after the other, in scaled units."""

    n: Matrix  # (c, K) weight of each category in each class
    G: Sums  # (c, K, d) sums of the features about the centre
    ends: NDArray[np.intp]  # (B + 1,) where each column begins
    pair_weights: dict[tuple[int, int], PairWeights]  # of columns a < b

    @classmethod
    def of(
        cls, categories: CategoryMoments, anchor: Vector, centre: Vector, s: Vector
    ) -> StackedCategories:
        """Return the categories, given the centre relative to the anchor."""
        columns = [one.resize(one.count) for one in categories.columns]
        ends = np.cumsum([0, *(one.size for one in columns)])
        n = np.concatenate([one.n for one in columns], axis=1)
        G = np.empty((*n.shape, len(anchor)))
        place = (anchor - categories.origin) + centre
        for one, start, end in zip(columns, ends[:-1], ends[1:], strict=True):
            own = G[:, start:end]
            np.multiply(one.n[..., None], place, out=own)
            np.subtract(one.sums, own, out=own)
            own /= s
        return cls(n, G, ends, categories.pairs)

    @cached_property
    def pairs(self) -> list[Any] | None:
        """Weights of pairs (K, K) of each class, symmetric with zero blocks; None of one column."""
        if not self.pair_weights:
            return None
        c, size = self.n.shape
        entries: list[list[Any]] = [[] for _ in range(c)]
        for (a, b), weights in self.pair_weights.items():
            for k, one in enumerate(weights.of_classes(c, self.shape(a, b))):
                row, column = one.tocoo().coords
                both = row + self.ends[a], column + self.ends[b]
                entries[k] += [(one.data, *both), (one.data, *both[::-1])]
        pairs = []
        for found in entries:
            data, row, column = (np.concatenate(part) for part in zip(*found, strict=True))
            pairs.append(sp.csr_array((data, (row, column)), shape=(size, size)))
        return pairs

    @property
    def is_large(self) -> bool:
        """True if the categories of all columns but the largest are too many to be factorized."""
        sizes = np.diff(self.ends)
        return bool(self.pair_weights and sizes.sum() - sizes.max() > MAX_FACTORIZED)

    def shape(self, a: int, b: int) -> tuple[int, int]:
        """Return the number of categories of two columns."""
        sizes = np.diff(self.ends)
        return int(sizes[a]), int(sizes[b])

    def column(self, b: int) -> StackedCategories:
        """Return one column alone."""
        own = slice(self.ends[b], self.ends[b + 1])
        ends = np.array([0, self.ends[b + 1] - self.ends[b]])
        return StackedCategories(self.n[:, own], self.G[:, own], ends, {})

    def spread(self, ridges: Vector) -> Vector:
        """Return the ridge of each category, (K,), given that of each column."""
        return np.repeat(ridges, np.diff(self.ends))

    def rows(self, index: NDArray[np.intp]) -> Any:
        """Return the one-hot features (n, K) of rows, CSR, given their categories (n, B)."""
        i, b = np.nonzero(index >= 0)
        at = self.ends[b] + index[i, b]
        return sp.csr_array((np.ones(len(at)), (i, at)), shape=(len(index), int(self.ends[-1])))

    def product(self, k: int, v: Matrix) -> Matrix:
        """Return the second moments of the categories of class k times a matrix (K, p)."""
        result: Matrix = self.n[k][:, None] * v
        return result if self.pairs is None else np.asarray(result + self.pairs[k] @ v)

    def inverse(self, alpha: Vector, ridges: Vector) -> CategoryInverse:
        """Return the inverse of the weighted second moments of all classes, with ridges."""
        pairs: Any = None
        for k in np.flatnonzero(alpha).tolist() if self.pairs is not None else ():
            one = alpha[k] * self.pairs[k]  # type: ignore[index]
            pairs = one if pairs is None else pairs + one
        return CategoryInverse.of(alpha @ self.n + self.spread(ridges), pairs, self.ends)


@dataclass(frozen=True, eq=False)
class CategoryInverse:
    """Inverse of the matrix M of all categories: diagonal, or with blocks of pairs."""

    diagonal: Vector  # (K,)
    largest: slice  # the column with most categories
    rest: NDArray[np.intp]  # the categories of all others
    cross: Any = None  # (r, K_a) pairs of the rest with the largest column
    within: Any = None  # (r, r) the rest among itself
    factor: Any = None  # of what is left of the rest; None if it is large, or there is none

    @classmethod
    def of(cls, diagonal: Vector, pairs: Any, ends: NDArray[np.intp]) -> CategoryInverse:
        """Return the inverse, given the pairs (K, K) of one matrix, None of a single column."""
        a = int(np.diff(ends).argmax())
        largest = slice(int(ends[a]), int(ends[a + 1]))
        rest = np.delete(np.arange(len(diagonal)), largest)
        if pairs is None or not len(rest):
            return cls(diagonal, largest, rest[:0])
        rows = sp.csr_array(pairs[rest])
        cross = sp.csr_array(rows[:, largest])
        within = sp.csr_array(rows[:, rest]) + sp.diags_array(diagonal[rest], format="csr")
        result = cls(diagonal, largest, rest, cross, within)
        if len(rest) > MAX_FACTORIZED:
            return result
        H = within.toarray() - (cross @ (cross / diagonal[largest]).T).toarray()
        return replace(result, factor=linalg.cho_factor(H, lower=True, overwrite_a=True))

    def solve(self, v: Matrix) -> Matrix:
        """Return M⁻¹v for a matrix v (K, p)."""
        if self.cross is None:
            return v / self.diagonal[:, None]
        own = v[self.largest] / self.diagonal[self.largest, None]
        x = self.solve_rest(v[self.rest] - self.cross @ own)
        result = np.empty_like(v)
        result[self.rest] = x
        result[self.largest] = own - (self.cross.T @ x) / self.diagonal[self.largest, None]
        return result

    def norms(self, E: Any) -> Vector:
        """Return e·M⁻¹e of each row e of a CSR matrix (n, K)."""
        if self.cross is None:
            return np.asarray(E.multiply(E) @ (1.0 / self.diagonal))
        own, D = sp.csr_array(E[:, self.largest]), self.diagonal[self.largest]
        v = (sp.csr_array(E[:, self.rest]) - own / D @ self.cross.T).toarray().T
        return np.asarray(own.multiply(own) @ (1.0 / D) + (v * self.solve_rest(v)).sum(axis=0))

    def solve_rest(self, v: Matrix) -> Matrix:
        """Return the solution (r, p) of what is left without the largest column."""
        if self.factor is not None:
            solved: Matrix = linalg.cho_solve(self.factor, v)
            return solved
        D = self.diagonal[self.largest, None]
        squares = self.cross.multiply(self.cross) / self.diagonal[self.largest]
        scale = self.diagonal[self.rest] - np.asarray(squares.sum(axis=1)).ravel()
        scale = np.maximum(scale, 1e-3 * self.diagonal[self.rest])[:, None]

        def apply_reduced(x: Matrix) -> Matrix:
            product: Matrix = self.within @ x - self.cross @ ((self.cross.T @ x) / D)
            return product

        return solve_iteratively(apply_reduced, scale, v)

    def trace(self, stack: StackedCategories, k: int) -> float:
        """Return tr(M⁻¹N_k), N_k the second moments of the categories of class k."""
        n = stack.n[k]
        if self.cross is None:
            return float((n / self.diagonal).sum())
        D, a = self.diagonal[self.largest], self.largest
        total = float((n[a] / D).sum())
        eye = np.eye(len(self.rest)) if self.factor is not None else None
        if eye is None:
            eye = np.random.default_rng(0).choice([-1.0, 1.0], (len(self.rest), TRACE_PROBES))
        # R = [I; −D⁻¹ crossᵀ] maps the rest to all categories: tr(H⁻¹ Rᵀ N_k R)
        full = np.empty((len(self.diagonal), eye.shape[1]))
        full[self.rest] = eye
        full[a] = -(self.cross.T @ eye) / D[:, None]
        back = stack.product(k, full)
        back = back[self.rest] - self.cross @ (back[a] / D[:, None])
        parts = float(np.vdot(eye, self.solve_rest(back)))
        return total + (parts if self.factor is not None else parts / TRACE_PROBES)


@dataclass(frozen=True, eq=False)
class PairProducts:
    """Products with the weighted pairs of all classes, run by run, without a matrix of their sum.

    The positions of the largest column are ``largest``, and those of all others ``rest``.
    """

    largest: slice
    rest: NDArray[np.intp]
    cross: list[tuple[float, slice, Any]]  # pairs (K_a, K_b) of the largest column with another
    within: list[tuple[float, slice, slice, Any]]  # pairs of two others, by position in the rest

    @classmethod
    def of(cls, stack: StackedCategories, alpha: Vector) -> PairProducts:
        """Return the products, given the weight of a row of each class."""
        a, ends = int(np.diff(stack.ends).argmax()), stack.ends
        largest = slice(int(ends[a]), int(ends[a + 1]))
        sizes = np.where(np.arange(len(ends) - 1) == a, 0, np.diff(ends))
        edges = np.cumsum([0, *sizes]).tolist()
        places = [slice(*pair) for pair in pairwise(edges)]
        cross, within = [], []
        for (i, j), weights in stack.pair_weights.items():
            for k, one in weights.blocks(stack.shape(i, j)):
                if not alpha[k]:
                    continue
                if a in (i, j):
                    other = j if i == a else i
                    cross.append((float(alpha[k]), places[other], one if i == a else one.T))
                else:
                    within.append((float(alpha[k]), places[i], places[j], one))
        rest = np.delete(np.arange(int(ends[-1])), largest)
        return cls(largest, rest, cross, within)

    def to_largest(self, x: Matrix) -> Matrix:
        """Return the products (K_a, p) of pairs with a matrix (r, p) of the rest."""
        result = np.zeros((self.largest.stop - self.largest.start, x.shape[1]))
        for weight, own, one in self.cross:
            result += one @ (weight * x[own])
        return result

    def to_rest(self, v: Matrix) -> Matrix:
        """Return the products (r, p) of pairs with a matrix (K_a, p) of the largest column."""
        result = np.zeros((len(self.rest), v.shape[1]))
        for weight, own, one in self.cross:
            result[own] += weight * (one.T @ v)
        return result

    def within_rest(self, x: Matrix) -> Matrix:
        """Return the products (r, p) of pairs of the rest with a matrix (r, p)."""
        result = np.zeros_like(x)
        for weight, row, column, one in self.within:
            result[row] += weight * (one @ x[column])
            result[column] += weight * (one.T @ x[row])
        return result

    def reduced_diagonal(self, D: Matrix) -> Matrix:
        """Return about the diagonal (r, 1) that elimination leaves of D (K, 1) of the rest."""
        result = D[self.rest]
        for weight, own, one in self.cross:
            squares = one.power(2).T @ (1.0 / D[self.largest])
            result[own] -= weight**2 * squares
        return np.maximum(result, 1e-3 * D[self.rest])


def solve_iteratively(apply: Callable[[Matrix], Matrix], scale: Matrix, v: Matrix) -> Matrix:
    """Return the solution (r, p) of a positive definite system by conjugate gradients.

    ``apply`` multiplies by its matrix, of which ``scale`` (r, 1) is about the diagonal.
    """
    x = np.zeros_like(v)
    r = v.copy()
    z = r / scale
    p, rho = z.copy(), (r * z).sum(axis=0)
    goal = SOLVE_RTOL**2 * np.maximum(rho, 1e-300)
    for _ in range(MAX_ITERATIONS):
        if (rho <= goal).all():
            break
        q = apply(p)
        step = rho / np.maximum((p * q).sum(axis=0), 1e-300)
        x += step * p
        r -= step * q
        z = r / scale
        before, rho = rho, (r * z).sum(axis=0)
        p = z + (rho / np.maximum(before, 1e-300)) * p
    return x
