r"""The weighted average of candidates, and how they are weighed.

    f(x) = Σ_i s_i f_i(x)/rms_i,      s_i ∝ exp(G_i/T)/r

over every candidate and each of its r ridges, where G_i is the G-mean that it was judged to have.
Equal weights are the prior, and fewer rows of evidence e than PRIOR_ROWS move them less:

    T = T_0 max(1, PRIOR_ROWS/e),      e = c²/(2 Σ_k 1/n_k)

The G-mean of c classes of n_k rows has about the variance of a share of e rows: twice those of the
rarer class if the other one has many more, and c/2 times those of each if all have as many.
Candidates with one map differ in their weights alone, so that their sum is one function of its
terms: a prediction takes one product for each map, however many ridges there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from counterpoise.arrays import Flags, Matrix, Rows, Vector
from counterpoise.choosing.ridges import Ridges
from counterpoise.exact.solution import Linear, Quadratic
from counterpoise.features import FixedMap
from counterpoise.features.fixed import SLICE

# Differences of the G-mean that change a weight by the factor e: while rows are few, and at least.
WARM, COLD = 0.02, 0.003
MANY = 1000  # rows from which differences count for more, by the root of their number
PRIOR_ROWS = 50.0
NOTHING = 1e-6  # of all weight: what is not felt, and costs a product


@dataclass(frozen=True, eq=False)
class Part:
    """Scores of the terms of one map, times their weight.

    Attributes
    ----------
    name : str
        The map.
    fixed : FixedMap, optional
        The map as it is fixed; none for the features as they are.
    solution : Linear or Quadratic
        Scores as a function of the terms.
    """

    name: str
    fixed: FixedMap | None
    solution: Linear | Quadratic

    def of(self, X: Rows) -> Matrix:
        """Scores of rows, of shape (n, problems)."""
        if self.fixed is None:
            return self.solution.of(X)
        parts = []
        for start in range(0, max(X.shape[0], 1), SLICE):
            part = X[start : start + SLICE]
            Z = self.fixed.transform(part.toarray() if sp.issparse(part) else part)
            parts.append(self.solution.of(Z))
        return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class Average:
    """A sum of parts, as a function of rows: the solution of a model that chooses.

    Attributes
    ----------
    parts : tuple of Part
        What is added.
    ridge : float
        That of the best candidate.
    """

    parts: tuple[Part, ...]
    ridge: float

    def of(self, X: Rows) -> Matrix:
        """Scores of rows, of shape (n, problems)."""
        return self._sum([part.of(X) for part in self.parts])

    def of_terms(self, terms: dict[str, Rows]) -> Matrix:
        """Scores of rows, of which there are few, given their terms by the name of the map."""
        return self._sum([part.solution.of(terms[part.name]) for part in self.parts])

    def of_one(self, terms: dict[str, Vector]) -> Vector:
        """Scores of one row, of shape (problems,), given its terms by the name of the map."""
        total: Vector = np.zeros(1)
        for part in self.parts:
            one, z = part.solution, terms[part.name]
            if isinstance(one, Linear):
                total = total + (one.coef @ (z - one.anchor) + one.offset)
            else:
                total = total + one.of(z[None])[0]
        return total

    @staticmethod
    def _sum(scores: list[Matrix]) -> Matrix:
        total = scores[0]
        for one in scores[1:]:
            total = total + one
        return total


def evidence(n: Vector) -> float:
    """Return the rows of evidence about a G-mean of classes of n rows, those seen; at least 1."""
    seen = n[n > 0.0]
    with np.errstate(over="ignore"):
        return max(len(seen) ** 2 / (2.0 * float((1.0 / seen).sum())), 1.0)


def temperature(rows: float, n: Vector) -> float:
    """Return the difference of the G-mean that changes a weight by the factor e.

    ``rows`` have been learned, and n (c,) is what the rows of each class weigh now.
    """
    heat = max(COLD, WARM * min(1.0, float(np.sqrt(MANY / max(rows, 1.0)))))
    return heat * max(1.0, PRIOR_ROWS / evidence(n))


def shares(G: Sequence[Vector], heat: float) -> list[Vector]:
    """Weights of candidates and ridges, given their G-means; −∞ leaves one out."""
    top = max(float(one.max()) for one in G)
    raw = [np.exp((one - top) / heat) / max(np.isfinite(one).sum(), 1) for one in G]
    total = sum(float(one.sum()) for one in raw)
    return [one / total for one in raw]


def averaged(
    candidates: Sequence[tuple[str, FixedMap | None, Ridges | Quadratic, Vector]],
    share: Sequence[Vector],
    best: tuple[int, int],
    ridge: float,
    seen: Flags,
) -> Average:
    """The average of candidates, in units of the best.

    Parameters
    ----------
    candidates : sequence of (str, FixedMap or None, Ridges or Quadratic, ndarray)
        Name and state of the map of each, its scores, and their root mean squares of shape (r,).
    share : sequence of ndarray of shape (r,)
        Weights that add up to 1.
    best : tuple of int
        Candidate and ridge whose units the scores shall have.
    ridge : float
        Its ridge.
    seen : ndarray of bool of shape (c,)
        Which classes were ever seen.

    Returns
    -------
    Average
    """
    unit = float(candidates[best[0]][3][best[1]]) or 1.0
    parts = []
    for (name, fixed, scores, rms), mine in zip(candidates, share, strict=True):
        factor = unit * mine / np.where(rms > 0.0, rms, np.inf)
        if mine.sum() <= NOTHING:
            continue
        if isinstance(scores, Ridges):
            found = scores.weighted(factor, ridge)
            if len(seen) > 2:
                found = found.placed(seen, -np.inf)
            parts.append(Part(name, fixed, found))
        else:
            parts.append(Part(name, fixed, _scaled(scores, float(factor[0]), seen)))
    return Average(tuple(parts), ridge)


def _scaled(one: Quadratic, factor: float, seen: Flags) -> Quadratic:
    return replace(one, root=one.root * np.sqrt(factor), offset=one.offset * factor, seen=seen)
