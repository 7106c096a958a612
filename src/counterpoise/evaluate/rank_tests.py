"""Methods over many data sets: ranks, Friedman's and Nemenyi's tests, Wilcoxon's, and a posterior.

To compare one method with each of the others, Demšar recommends pairs: Wilcoxon's signed ranks with
Holm's correction. Nemenyi's test has less power for that, and its result for two methods depends on
the others. The Bayesian signed rank test of Benavoli et al. returns the probability that one method
is better by more than a difference that matters.

Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 7, 2006.
Benavoli, Corani, Demšar, Zaffalon, "Time for a change", JMLR 18, 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from counterpoise.arrays import Matrix, Vector

POSTERIOR_SAMPLES = 50_000
BLOCK_SAMPLES = 1_000  # of the posterior at a time


@dataclass(frozen=True, eq=False)
class RankComparison:
    """Comparison of methods over many data sets, with Friedman's test of their equality.

    Attributes
    ----------
    names : list of str
        The methods.
    ranks : ndarray of shape (sets, methods)
        Ranks on each set, 1 is best; ties share the mean of their ranks.
    statistic, p : float
        Friedman's statistic and its p-value.
    difference : float
        Nemenyi's critical difference of average ranks.
    alpha : float
        Its level.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise.evaluate import compare_ranks
    >>> g_means = np.array([[0.9, 0.8, 0.7], [0.8, 0.7, 0.75], [0.95, 0.9, 0.8], [0.7, 0.6, 0.5]])
    >>> found = compare_ranks(g_means, ["a", "b", "c"])
    >>> found.average, round(found.p, 3)
    ({'a': 1.0, 'b': 2.25, 'c': 2.75}, 0.039)
    """

    names: list[str]
    ranks: Matrix
    statistic: float
    p: float
    difference: float
    alpha: float

    @property
    def average(self) -> dict[str, float]:
        """Average rank of each method, best first."""
        mean = self.ranks.mean(axis=0)
        return {self.names[j]: float(mean[j]) for j in np.argsort(mean, kind="stable")}

    @property
    def groups(self) -> list[list[str]]:
        """Methods that do not differ significantly, as the bars of the diagram connect them."""
        return similar_groups(self.average, self.difference)

    @property
    def nemenyi_p(self) -> Matrix:
        """Nemenyi's p-value of each pair of methods, of shape (methods, methods)."""
        mean, (n, k) = self.ranks.mean(axis=0), self.ranks.shape
        q = np.abs(np.subtract.outer(mean, mean)) / np.sqrt(k * (k + 1) / (6.0 * n))
        p: Matrix = stats.studentized_range.sf(q * np.sqrt(2.0), k, np.inf)
        np.fill_diagonal(p, 1.0)
        return p


def compare_ranks(
    values: Matrix, names: Sequence[str], best: str = "high", alpha: float = 0.05
) -> RankComparison:
    """Compare three or more methods by their ranks over data sets.

    Parameters
    ----------
    values : ndarray of shape (sets, methods)
        One value of each method on each set.
    names : sequence of str
        The methods.
    best : {"high", "low"}, default="high"
        Which values are best.
    alpha : float, default=0.05
        Level of the critical difference.

    Returns
    -------
    RankComparison

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise.evaluate import compare_ranks
    >>> values = np.random.default_rng(0).random((20, 3)) + [0.0, 0.1, 0.5]
    >>> list(compare_ranks(values, ["a", "b", "c"]).average)
    ['c', 'a', 'b']
    """
    if best not in ("high", "low"):
        raise ValueError(f"best must be 'high' or 'low'; got {best!r}")
    if values.ndim != 2 or len(set(names)) != len(names) or values.shape[1] != len(names):
        raise ValueError(f"{len(names)} different names need as many columns, got {values.shape}")
    if len(names) < 3:
        raise ValueError("Friedman's test needs at least three methods")
    if not np.isfinite(values).all():
        raise ValueError("a value is not finite: every method needs one on every set")
    ranks: Matrix = stats.rankdata(-values if best == "high" else values, axis=1)
    statistic, p = stats.friedmanchisquare(*ranks.T)
    n, k = values.shape
    difference = critical_difference(k, n, alpha)
    return RankComparison(list(names), ranks, float(statistic), float(p), difference, alpha)


def critical_difference(k: int, n: int, alpha: float = 0.05) -> float:
    """Return Nemenyi's critical difference of k methods on n sets, q √(k (k + 1) / 6n)."""
    q = stats.studentized_range.ppf(1.0 - alpha, k, np.inf) / np.sqrt(2.0)
    return float(q * np.sqrt(k * (k + 1) / (6.0 * n)))


def similar_groups(average: dict[str, float], difference: float) -> list[list[str]]:
    """Return the largest groups of several methods whose average ranks differ by less than this."""
    names = sorted(average, key=lambda name: average[name])
    found: list[list[str]] = []
    for i, name in enumerate(names):
        close = [other for other in names[i:] if average[other] - average[name] < difference]
        if len(close) > 1 and not (found and found[-1][-1] == close[-1]):
            found.append(close)
    return found


def wilcoxon_p(one: Vector, other: Vector) -> float:
    """Return Wilcoxon's p-value of paired values (sets,), 1 where no pair differs."""
    if not np.any(one != other):
        return 1.0
    return float(stats.wilcoxon(one, other).pvalue)


def wilcoxon_holm(values: Matrix, names: Sequence[str], reference: str) -> dict[str, float]:
    """Compare one method with each of the others by Wilcoxon's test with Holm's correction.

    Parameters
    ----------
    values : ndarray of shape (sets, methods)
        One value of each method on each set.
    names : sequence of str
        The methods.
    reference : str
        The method that is compared with all others.

    Returns
    -------
    dict of str to float
        Corrected p-values of the other methods, ascending.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise.evaluate import wilcoxon_holm
    >>> values = np.random.default_rng(0).random((20, 3)) + [0.0, 0.1, 0.5]
    >>> {name: round(p, 4) for name, p in wilcoxon_holm(values, ["a", "b", "c"], "c").items()}
    {'a': 0.002, 'b': 0.002}
    """
    own = values[:, list(names).index(reference)]
    bare = {m: wilcoxon_p(own, values[:, j]) for j, m in enumerate(names) if m != reference}
    corrected, least = {}, 0.0
    for i, m in enumerate(sorted(bare, key=lambda m: bare[m])):
        least = max(least, min(1.0, (len(bare) - i) * bare[m]))
        corrected[m] = least
    return corrected


class SignedRankPosterior(NamedTuple):
    """Probabilities by the Bayesian signed rank test.

    Attributes
    ----------
    worse : float
        Probability that the first method is worse by more than the region of equivalence.
    equivalent : float
        Probability that both are equivalent.
    better : float
        Probability that the first method is better.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise.evaluate import bayesian_signed_rank
    >>> rng = np.random.default_rng(0)
    >>> one, other = rng.normal(0.85, 0.05, 30), rng.normal(0.70, 0.05, 30)
    >>> round(bayesian_signed_rank(one, other).better, 3)
    1.0
    """

    worse: float
    equivalent: float
    better: float


def bayesian_signed_rank(
    one: Vector, other: Vector, rope: float = 0.01, seed: int = 0
) -> SignedRankPosterior:
    """Compare two methods over data sets by the Bayesian signed rank test.

    Parameters
    ----------
    one, other : ndarray of shape (sets,)
        Values of both methods on each set; high values are best.
    rope : float, default=0.01
        Region of practical equivalence: a smaller difference does not matter.
    seed : int, default=0
        Seed of the samples of the posterior.

    Returns
    -------
    SignedRankPosterior

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise.evaluate import bayesian_signed_rank
    >>> values = np.random.default_rng(0).random(30)
    >>> bayesian_signed_rank(values, values + 0.001)
    SignedRankPosterior(worse=0.0, equivalent=1.0, better=0.0)
    """
    # A Dirichlet process whose prior is one half of a set without a difference
    z = np.append(0.0, np.asarray(one, float) - np.asarray(other, float))
    sums = np.add.outer(z, z)
    left, right = ((side > 2.0 * rope) + 0.5 * (side == 2.0 * rope) for side in (-sums, sums))
    weight = np.ones(len(z))
    weight[0] = 0.5
    rng, wins = np.random.default_rng(seed), np.zeros(3)
    for _ in range(POSTERIOR_SAMPLES // BLOCK_SAMPLES):
        w = rng.dirichlet(weight, BLOCK_SAMPLES)
        a, c = (((w @ side) * w).sum(axis=1) for side in (left, right))
        share = np.column_stack([a, 1.0 - a - c, c])
        best = share >= share.max(axis=1, keepdims=True) - 1e-12
        wins += (best / best.sum(axis=1, keepdims=True)).sum(axis=0)
    return SignedRankPosterior(*(wins / wins.sum()).tolist())
