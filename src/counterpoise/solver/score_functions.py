"""Scores as a function of the row, linear or quadratic: the solution for given moments."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Flags, Matrix, Rows, Vector, is_sparse
from counterpoise.feature_maps.fitted import SLICE


@dataclass(frozen=True, eq=False)
class LinearScores:
    """Affine scores: f(x) = offset + coef·(x − anchor)."""

    anchor: Vector  # (d,) the anchor of the moments
    coef: Matrix  # (problems, d) coefficients in the units of the input, one row a problem
    offset: Vector  # (problems,) scores at the anchor
    ridge: float  # the b that was used

    def of(self, X: Rows) -> Matrix:
        """Return the scores (n, problems) of rows."""
        coef, anchor, offset = self.coef, self.anchor, self.offset
        base = coef * anchor
        if np.add.reduce(np.abs(base), axis=1).max() < 1e3:
            f: Matrix = X @ coef.T + (offset - coef @ anchor)
            return f
        # Far from zero the products would cancel; the differences do not.
        if not is_sparse(X):
            f = (X - anchor) @ coef.T
            return f + offset
        is_far = np.abs(base).max(axis=0) >= 1.0
        near, far = np.where(is_far, 0.0, coef), np.flatnonzero(is_far)
        f = X @ near.T + (offset - near @ anchor)
        for start in range(0, X.shape[0], SLICE):
            part = X[start : start + SLICE][:, far].toarray() - anchor[far]
            f[start : start + SLICE] += part @ coef[:, far].T
        return f

    def move_anchor(self, by: Vector) -> LinearScores:
        """Return the same scores with an anchor that is moved by a vector (d,)."""
        return replace(self, anchor=self.anchor + by, offset=self.offset + self.coef @ by)

    def for_classes(self, seen: Flags, absent: float) -> LinearScores:
        """Return the scores with a row for each class; one never seen scores ``absent``."""
        coef, offset = np.zeros((len(seen), len(self.anchor))), np.full(len(seen), absent)
        coef[seen], offset[seen] = self.coef, self.offset
        return LinearScores(self.anchor, coef, offset, self.ridge)


@dataclass(frozen=True, eq=False)
class QuadraticScores:
    """Logarithms of normal densities: q_k(x) = offset_k − ‖(x − anchor − mean_k) root_k‖²/2."""

    anchor: Vector  # (d,) the anchor of the moments
    mean: Matrix  # means of the classes that were seen, relative to the anchor
    root: NDArray[np.float64]  # roots of the inverses of their covariances
    offset: Vector  # logarithms of their densities at their means
    seen: Flags  # (c,) whether each class was ever seen
    ridge: float  # the b that was used

    def of(self, X: Rows) -> Matrix:
        """Return scores of rows: (n, 1), the difference, for two classes, else (n, c)."""
        q = np.empty((X.shape[0], len(self.seen)))
        q[:, ~self.seen] = -np.inf
        at = self.seen.nonzero()[0].tolist()
        half = np.full(self.root.shape[2], 0.5)
        for start in range(0, X.shape[0], SLICE):
            part = X[start : start + SLICE]
            Z = (part if isinstance(part, np.ndarray) else part.toarray()) - self.anchor
            for k, mean, root, offset in zip(at, self.mean, self.root, self.offset, strict=True):
                v = (Z - mean) @ root
                v *= v
                q[start : start + SLICE, k] = offset - v @ half
        if len(self.seen) == 1:  # there is nothing that could be against it
            return np.full((len(q), 1), np.inf)
        return q if len(self.seen) > 2 else q[:, 1:] - q[:, :1]

    def of_one(self, x: Vector) -> Vector:
        """Return the scores (problems,) of one row (d,), as :meth:`of` does, with fewer calls."""
        if not 2 <= len(self.offset) == len(self.seen):
            f: Vector = self.of(x[None])[0]
            return f
        v = np.matmul((x - self.anchor - self.mean)[:, None], self.root)[:, 0]
        q: Vector = self.offset - 0.5 * np.einsum("kj,kj->k", v, v)
        return q if len(q) > 2 else q[1:] - q[:1]

    def move_anchor(self, by: Vector) -> QuadraticScores:
        """Return the same scores with an anchor that is moved by a vector (d,)."""
        return replace(self, anchor=self.anchor + by, mean=self.mean - by)

    def combine_classes(self, parts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return parts of the scores of :meth:`of`, 0 of infinite ones, given parts (n, c', ...)
        of the scores of the classes that were seen.
        """
        n, *_, d = parts.shape
        if len(self.seen) > 2:
            result = np.zeros((n, len(self.seen), d))
            result[:, self.seen] = parts
            return result
        if parts.shape[1] < 2:
            return np.zeros((n, 1, d))
        return parts[:, 1:] - parts[:, :1]

    def with_features(self, at: NDArray[np.intp], d: int) -> QuadraticScores:
        """Return the scores of d features, of which feature j is at[j]; others have no effect."""
        c = len(self.offset)
        anchor, mean, root = np.zeros(d), np.zeros((c, d)), np.zeros((c, d, d))
        anchor[at], mean[:, at], root[:, at[:, None], at] = self.anchor, self.mean, self.root
        return replace(self, anchor=anchor, mean=mean, root=root)


Solution = LinearScores | QuadraticScores


def one_vs_rest_log_odds(f: Matrix) -> Matrix:
    """Return log-odds (n, c) of each of several classes against all others, given scores (n, c)."""
    none = np.full((len(f), 1), -np.inf)
    before = np.logaddexp.accumulate(np.hstack([none, f[:, :-1]]), axis=1)
    after = np.logaddexp.accumulate(np.hstack([none, f[:, :0:-1]]), axis=1)[:, ::-1]
    return np.nan_to_num(f - np.logaddexp(before, after))
