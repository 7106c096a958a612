"""Missing numbers, filled by the mean of everything seen so far, after the fact.

Where x_j is missing, a row holds a constant r_j in its place, and 1 in an indicator x_i. With m the
mean of the values that were seen, and N_k and μ_k the weight and the mean of each class,

    x'_j = x_j + (m − r_j) x_i        m − r_j = Σ_k N_k (μ_kj − r_j) / Σ_k N_k (1 − μ_ki)

is the row that an imputer would have made, had it known all of them. It is linear, so that it can
be applied to moments as a whole: whatever the order of the rows, after merging and unlearning.

A feature that appears late is better told by an indicator of its presence, which was 0 until then.
Rows hold x_j − r_j where it is present, and 0 where it is not, and

    x'_j = x_j + m (1 − x_i)          m = Σ_k N_k μ_kj / Σ_k N_k μ_ki
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Flags, Matrix, Vector
from counterpoise.moments._moments import fill_moments, fold
from counterpoise.moments.downdate import UNTRACKED_HASH
from counterpoise.moments.moments import Moments
from counterpoise.solver.score_functions import LinearScores, Solution


@dataclass(frozen=True, eq=False)
class MeanImputation:
    """Which features may be missing, and how rows say so."""

    at: NDArray[np.intp]  # (p,) the feature, and its indicator
    by: NDArray[np.intp]  # (p,) the feature, and its indicator
    # (p,) what rows hold where the feature is missing; what was subtracted where it is
    # present
    base: Vector
    # (p,) whether the indicator is 1 where the feature is present, and not where it is
    # missing
    present: Flags

    @classmethod
    def of(
        cls, at: object, by: object, base: object, present: object = None
    ) -> MeanImputation | None:
        """A fill of lists of the same length; None if they are empty."""
        places, flags = np.asarray(at, dtype=np.intp), np.asarray(by, dtype=np.intp)
        if not len(places):
            return None
        seen = np.zeros(len(places), bool) if present is None else np.asarray(present, dtype=bool)
        return cls(places, flags, np.asarray(base, dtype=np.float64), seen)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MeanImputation) and all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("at", "by", "base", "present")
        )

    def __hash__(self) -> int:
        return hash((self.at.tobytes(), self.by.tobytes(), self.base.tobytes()))

    def shifts(self, moments: Moments) -> tuple[Vector, Vector]:
        """What the indicator adds to each feature, and what is added to it in every row, (p,)."""
        N = moments.N
        flag = moments.anchor[self.by] + moments.mean[:, self.by]
        there = N @ np.where(self.present, flag, 1.0 - flag)
        base = np.where(self.present, 0.0, self.base)
        # Relative to the anchor, which is a value that was seen: nothing large cancels.
        total = N @ (moments.mean[:, self.at] + (moments.anchor[self.at] - base))
        least = 1e-9 * max(float(N.sum()), 1e-300)
        m = np.divide(total, there, out=np.zeros(len(total)), where=there > least)
        return np.where(self.present, -m, m), np.where(self.present, m + self.base, 0.0)

    def means(self, moments: Moments) -> Vector:
        """The mean of the values seen of each feature, (p,)."""
        shift, constant = self.shifts(moments)
        return np.where(self.present, constant, self.base + shift)

    def filled(self, moments: Moments) -> ImputedMoments:
        """Moments of the rows as an imputer would have made them; these stay as they are."""
        shift, constant = self.shifts(moments)
        result = object.__new__(Moments)
        for name in Moments.__slots__:
            setattr(result, name, getattr(moments, name))
        anchor, mean, C = moments.anchor.copy(), moments.mean.copy(), moments.C.copy()
        anchor[self.at] += shift * moments.anchor[self.by] + constant
        mean[:, self.at] += shift * moments.mean[:, self.by]
        # C' = T C Tᵀ, the rows first: an indicator is never filled itself.
        C[:, self.at, :] += shift[:, None] * C[:, self.by, :]
        C[:, :, self.at] += shift * C[:, :, self.by]
        result.anchor, result.mean, result.C = anchor, mean, C
        return ImputedMoments(self, moments, result, shift)

    def rows(self, X: Matrix, weight: Vector) -> Matrix:
        """Rows (n, d), of which there are few, filled by the mean of the values among them."""
        result = X.copy()
        for at, by, base, present in zip(
            self.at.tolist(), self.by.tolist(), self.base.tolist(), self.present.tolist(),
            strict=True,
        ):  # fmt: skip
            if by >= X.shape[1]:
                continue
            there = (X[:, by] != 0.0) == present
            result[there, at] += base if present else 0.0
            seen = weight * there
            m = base + float(seen @ (result[:, at] - base)) / seen.sum() if seen.any() else base
            result[~there, at] = m
        return result


@dataclass(frozen=True, eq=False)
class ImputedMoments:
    """Moments before and after missing values were filled."""

    fill: MeanImputation  # which features may be missing
    raw: Moments  # of rows as they are
    moments: Moments  # of filled rows
    shift: Vector  # (p,) what the indicator of each feature adds to it

    def of_rows(self, solution: Solution) -> Solution:
        """A solution for filled rows as a function of rows as they are.

        Scores are w·T(x − anchor) = (Tᵀw)·(x − anchor).
        """
        return replace(impute_scores(solution, self.fill, self.shift), anchor=self.raw.anchor)

    def turned(self, coef: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return weights (..., d) of filled rows as those of rows as they are."""
        return _turn(coef, self.fill, self.shift)


def impute_scores(solution: Solution, fill: MeanImputation, shift: Vector) -> Solution:
    """Return scores to whose features their indicators add shifts (p,), before they are scored."""
    if isinstance(solution, LinearScores):
        return replace(solution, coef=_turn(solution.coef, fill, shift))
    root, mean = _turn(solution.root.swapaxes(1, 2), fill, shift), solution.mean.copy()
    mean[:, fill.at] -= shift * mean[:, fill.by]
    return replace(solution, mean=mean, root=np.ascontiguousarray(root.swapaxes(1, 2)))


def _turn(coef: NDArray[np.float64], fill: MeanImputation, shift: Vector) -> NDArray[np.float64]:
    result = coef.copy()
    for at, by, one in zip(fill.at.tolist(), fill.by.tolist(), shift.tolist(), strict=True):
        result[..., by] += one * coef[..., at]
    return result


class OpenFill:
    """Imputed moments that follow moments which learn single rows."""

    def __init__(self, fill: MeanImputation, raw: Moments) -> None:
        self.fill, self.raw = fill, raw
        self.moments = fill.filled(raw).moments
        self.shift = np.zeros((2, len(fill.at)))
        self._present = fill.present.astype(np.uint8)

    def update(self) -> None:
        """Impute again, after the raw moments have changed."""
        fill, raw, now = self.fill, self.raw, self.moments
        fill_moments(
            raw.N, raw.anchor, raw.mean, raw.C, fill.at, fill.by, fill.base, self._present,
            self.shift, now.anchor, now.mean, now.C,
        )  # fmt: skip

    def row(self, row: Vector) -> Vector:
        """Return a row (d,) with its missing values imputed; the row itself is changed."""
        row[self.fill.at] += self.shift[0] * row[self.fill.by] + self.shift[1]
        return row


def change_base(moments: Moments, fill: MeanImputation, base: Vector) -> Moments:
    """Moments whose rows hold other constants where features are missing."""
    shift = np.where(fill.present, 0.0, base - fill.base)
    result = moments.copy()
    for p in np.flatnonzero(shift).tolist():
        at, by, one = int(fill.at[p]), int(fill.by[p]), shift[p]
        missing = moments.n * (moments.anchor[by] + moments.mean[:, by])
        result.anchor[at] += one * moments.anchor[by]
        result.mean[:, at] += one * moments.mean[:, by]
        result.C[:, at, :] += one * result.C[:, by, :]
        result.C[:, :, at] += one * result.C[:, :, by]
        _mark_anew(result, at, missing, np.array([fill.base[p], base[p]]))
    return result


def _mark_anew(moments: Moments, at: int, missing: Vector, values: Vector) -> None:
    """Change the row hashes of a feature as if so many rows of each class had another value."""
    bits = values.view(np.uint64)
    folded = np.empty_like(bits)
    fold(bits, folded)
    for k, count in enumerate(missing.tolist()):
        for value in (0, 1):
            moved = float(values[1] != value) - float(values[0] != value)
            moments.nonconstant_weight[k, value, at] += moved * count
        # Rows of weight 1 leave their number; of others nobody knows what is theirs.
        if (
            int(moments.row_hashes[k, 0, 0]) == round(float(moments.n[k]))
            and moments.min_row_weight[k] == 1.0
        ):
            rows = np.uint64(round(count))
            with np.errstate(over="ignore"):
                moments.row_hashes[k, 0, 1 + at] += rows * (bits[1] - bits[0])
                moments.row_hashes[k, 1, 1 + at] += rows * (folded[1] - folded[0])
        elif count:
            moments.row_hashes[k, :, 1 + at] = UNTRACKED_HASH
