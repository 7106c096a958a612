"""Imputation of missing values by the mean of everything seen so far, after the fact.

Where x_j is missing, a row has a constant r_j instead, and 1 in an indicator x_i. With m the mean
of the values that were seen, and N_k and μ_k the weight and the mean of each class,

    x'_j = x_j + (m − r_j) x_i        m − r_j = Σ_k N_k (μ_kj − r_j) / Σ_k N_k (1 − μ_ki)

is the row that an imputer of all rows would have made. It is linear, so that it can be applied to
moments as a whole: independent of the order of the rows, after merging and unlearning.

A feature that appears late has an indicator of its presence, which was 0 until then. Rows have
x_j − r_j where it is present, and 0 where it is not, and

    x'_j = x_j + m (1 − x_i)          m = Σ_k N_k μ_kj / Σ_k N_k μ_ki
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Flags, Matrix, Vector
from counterpoise.moments._moments import fill_moments, fold
from counterpoise.moments.downdate import UNTRACKED_HASH
from counterpoise.moments.moments import Moments
from counterpoise.solver.score_functions import LinearScores, Solution


@dataclass(frozen=True, eq=False)
class MeanImputation:
    """Features that may be missing, and their indicators."""

    at: NDArray[np.intp]  # (p,) the feature, and its indicator
    by: NDArray[np.intp]
    base: Vector  # (p,) value of a missing feature; or what was subtracted where it is present
    present: Flags  # (p,) whether the indicator is 1 where the feature is present

    @classmethod
    def of(
        cls, at: object, by: object, base: object, present: object = None
    ) -> MeanImputation | None:
        """Return the imputation of lists of the same length; None if they are empty."""
        places, flags = np.asarray(at, dtype=np.intp), np.asarray(by, dtype=np.intp)
        if not len(places):
            return None
        seen = np.zeros(len(places), bool) if present is None else np.asarray(present, dtype=bool)
        return cls(places, flags, np.asarray(base, dtype=np.float64), seen)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MeanImputation) and all(
            np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)
        )

    def __hash__(self) -> int:
        return hash((self.at.tobytes(), self.by.tobytes(), self.base.tobytes()))

    def rows(self, X: Matrix, weight: Vector) -> Matrix:
        """Return few rows (n, d), imputed by the mean of the values among them."""
        result = X.copy()
        for at, by, base, present in zip(self.at, self.by, self.base, self.present, strict=True):
            if by >= X.shape[1]:
                continue
            there = (X[:, by] != 0.0) == present
            result[there, at] += base if present else 0.0
            seen = weight * there
            m = base + float(seen @ (result[:, at] - base)) / seen.sum() if seen.any() else base
            result[~there, at] = m
        return result


@dataclass(eq=False)
class ImputedMoments:
    """Moments of rows as an imputer would have made them, and the raw moments that they follow."""

    fill: MeanImputation
    raw: Moments
    moments: Moments  # share with the raw moments all but anchor, mean and scatter
    shift: Matrix  # (2, p) what an indicator adds to its feature, and what every row adds

    @classmethod
    def of(cls, fill: MeanImputation, raw: Moments) -> ImputedMoments:
        """Return imputed moments; the raw ones stay as they are."""
        moments = object.__new__(Moments)
        for name in Moments.VALUES:
            setattr(moments, name, getattr(raw, name))
        moments.anchor, moments.mean = raw.anchor.copy(), raw.mean.copy()
        moments.C = np.empty(raw.C.shape)
        result = cls(fill, raw, moments, np.zeros((2, len(fill.at))))
        result.update()
        return result

    def update(self) -> None:
        """Impute again, after the raw moments have changed."""
        fill, raw, now = self.fill, self.raw, self.moments
        fill_moments(
            raw.N, raw.anchor, raw.mean, raw.C, fill.at, fill.by, fill.base,
            fill.present.view(np.uint8), self.shift, now.anchor, now.mean, now.C,
        )  # fmt: skip
        if raw.categories is not None:
            origin = self._add_indicators(raw.categories.origin) + self._constants()
            now.categories = raw.categories.transform_features(self._add_indicators, origin)

    def _constants(self) -> Vector:
        """Return what every row adds to each feature (d,)."""
        constants = np.zeros(len(self.raw.anchor))
        constants[self.fill.at] = self.shift[1]
        return constants

    def _add_indicators(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return rows or sums (..., d) with what their indicators add."""
        result = rows.copy()
        result[..., self.fill.at] += self.shift[0] * rows[..., self.fill.by]
        return result

    def impute(self, rows: Matrix) -> Matrix:
        """Return rows (..., d) with their missing values imputed; the rows themselves change."""
        rows[..., self.fill.at] += self.shift[0] * rows[..., self.fill.by] + self.shift[1]
        return rows

    def for_raw_rows(self, solution: Solution) -> Solution:
        """Return a solution for imputed rows as a function of raw rows.

        Scores are w·T(x − anchor) = (Tᵀw)·(x − anchor).
        """
        return replace(impute_scores(solution, self.fill, self.shift[0]), anchor=self.raw.anchor)

    def coefficients_for_raw_rows(self, coef: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return coefficients (..., d) of imputed rows as those of raw rows."""
        return _impute_coefficients(coef, self.fill, self.shift[0])


def impute_scores(solution: Solution, fill: MeanImputation, shift: Vector) -> Solution:
    """Return scores to whose features their indicators add shifts (p,), before they are scored."""
    if isinstance(solution, LinearScores):
        return replace(solution, coef=_impute_coefficients(solution.coef, fill, shift))
    root = _impute_coefficients(solution.root.swapaxes(1, 2), fill, shift)
    mean = solution.mean.copy()
    mean[:, fill.at] -= shift * mean[:, fill.by]
    return replace(solution, mean=mean, root=np.ascontiguousarray(root.swapaxes(1, 2)))


def _impute_coefficients(
    coef: NDArray[np.float64], fill: MeanImputation, shift: Vector
) -> NDArray[np.float64]:
    result = coef.copy()
    for at, by, one in zip(fill.at.tolist(), fill.by.tolist(), shift.tolist(), strict=True):
        result[..., by] += one * coef[..., at]
    return result


def change_base(moments: Moments, fill: MeanImputation, base: Vector) -> Moments:
    """Return moments whose rows have other constants where features are missing."""
    shift = np.where(fill.present, 0.0, base - fill.base)
    result = moments.copy()
    for p in np.flatnonzero(shift).tolist():
        at, by, one = int(fill.at[p]), int(fill.by[p]), shift[p]
        missing = moments.n * (moments.anchor[by] + moments.mean[:, by])
        result.anchor[at] += one * moments.anchor[by]
        result.mean[:, at] += one * moments.mean[:, by]
        result.C[:, at, :] += one * result.C[:, by, :]
        result.C[:, :, at] += one * result.C[:, :, by]
        categories = result.categories
        if categories is not None:
            categories.origin[at] += one * categories.origin[by]
            for column in categories.columns:
                column.sums[..., at] += one * column.sums[..., by]
        _rehash(result, at, missing, np.array([fill.base[p], base[p]]))
    return result


def _rehash(moments: Moments, at: int, missing: Vector, values: Vector) -> None:
    """Change the row hashes of a feature as if ``missing`` rows of each class had another value."""
    bits = values.view(np.uint64)
    folded = np.empty_like(bits)
    fold(bits, folded)
    for k, count in enumerate(missing.tolist()):
        for value in (0, 1):
            moved = float(values[1] != value) - float(values[0] != value)
            moments.nonconstant_weight[k, value, at] += moved * count
        # Rows of weight 1 leave their number; the part of others is undefined.
        tickets, n = int(moments.row_hashes[k, 0, 0]), float(moments.n[k])
        if tickets == round(n) and moments.min_row_weight[k] == 1.0:
            rows = np.uint64(round(count))
            with np.errstate(over="ignore"):
                moments.row_hashes[k, 0, 1 + at] += rows * (bits[1] - bits[0])
                moments.row_hashes[k, 1, 1 + at] += rows * (folded[1] - folded[0])
        elif count:
            moments.row_hashes[k, :, 1 + at] = UNTRACKED_HASH
