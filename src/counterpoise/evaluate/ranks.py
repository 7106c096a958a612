"""Methods over many data sets: average ranks, Friedman's test, Nemenyi's critical difference.

To compare one method with each of the others, Demšar recommends pairs: Wilcoxon's signed ranks with
Holm's correction. Nemenyi's test has less power for that, and its result for two methods depends on
the others.

Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 7, 2006.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from counterpoise.arrays import Matrix, Vector


@dataclass(frozen=True, eq=False)
class Comparison:
    """A comparison of methods over many data sets.

    Attributes
    ----------
    names : list of str
        The methods.
    ranks : ndarray of shape (sets, methods)
        1 is best; ties share the mean of their ranks.
    statistic, p : float
        Friedman's χ² and its p-value, for the hypothesis that all methods are equal.
    difference : float
        Nemenyi's critical difference of average ranks.
    alpha : float
        The level of significance.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise.evaluate.ranks import compare
    >>> G = np.array([[0.9, 0.8, 0.1], [0.8, 0.8, 0.2], [0.9, 0.7, 0.3], [0.7, 0.6, 0.5]])
    >>> found = compare(G, ["a", "b", "c"], "high")
    >>> found.average, found.groups, round(found.p, 3)
    ({'a': 1.125, 'b': 1.875, 'c': 3.0}, [['a', 'b'], ['b', 'c']], 0.022)
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
        return groups(self.average, self.difference)


def compare(values: Matrix, names: list[str], best: str, alpha: float = 0.05) -> Comparison:
    """Compare methods over data sets.

    Parameters
    ----------
    values : ndarray of shape (sets, methods)
        One value for each set and method.
    names : list of str
        The methods.
    best : "high" or "low"
        Which values are better.
    alpha : float, default=0.05
        The level of significance.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from counterpoise.evaluate.ranks import compare
    >>> values = np.array([[0.9, 0.8, 0.1], [0.8, 0.8, 0.2], [0.9, 0.7, 0.3], [0.7, 0.6, 0.5]])
    >>> found = compare(values, ["a", "b", "c"], "high")
    >>> found.average, round(found.difference, 3), found.groups
    ({'a': 1.125, 'b': 1.875, 'c': 3.0}, 1.657, [['a', 'b'], ['b', 'c']])
    """
    if best not in ("high", "low"):
        raise ValueError(f"best must be 'high' or 'low', not {best!r}")
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
    return Comparison(list(names), ranks, float(statistic), float(p), difference, alpha)


def critical_difference(k: int, n: int, alpha: float = 0.05) -> float:
    """Nemenyi's critical difference, q √(k (k + 1) / 6n).

    Parameters
    ----------
    k : int
        Number of methods.
    n : int
        Number of sets.
    alpha : float, default=0.05
        The level of significance.

    Returns
    -------
    float

    Examples
    --------
    >>> from counterpoise.evaluate.ranks import critical_difference
    >>> round(critical_difference(8, 31), 3)
    1.886
    """
    q = stats.studentized_range.ppf(1.0 - alpha, k, np.inf) / np.sqrt(2.0)
    return float(q * np.sqrt(k * (k + 1) / (6.0 * n)))


def groups(average: dict[str, float], difference: float) -> list[list[str]]:
    """Largest groups of methods whose average ranks differ by less than ``difference``, best first.

    Groups of a single method are left out.
    """
    names = sorted(average, key=lambda name: average[name])
    found: list[list[str]] = []
    for i, name in enumerate(names):
        close = [other for other in names[i:] if average[other] - average[name] < difference]
        if len(close) > 1 and not (found and found[-1][-1] == close[-1]):
            found.append(close)
    return found


def p_values(ranks: Matrix) -> Matrix:
    """Nemenyi's p-value of each pair of methods, by scikit-posthocs, from values of shape (sets,
    methods).
    """
    import scikit_posthocs

    found: Vector = scikit_posthocs.posthoc_nemenyi_friedman(ranks).to_numpy()
    return found


def paired(one: Vector, other: Vector) -> float:
    """Wilcoxon's p-value of paired values, 1 where no pair differs.

    Parameters
    ----------
    one, other : ndarray of shape (sets,)
        A value of each of two methods for each set.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise.evaluate.ranks import paired
    >>> one = np.array([0.9, 0.8, 0.7, 0.9, 0.8, 0.6])
    >>> paired(one, one - [0.1, 0.2, 0.1, 0.3, 0.2, 0.4]), paired(one, one)
    (0.03125, 1.0)
    """
    if not np.any(one != other):
        return 1.0
    return float(stats.wilcoxon(one, other).pvalue)


def against(values: Matrix, names: list[str], name: str) -> dict[str, float]:
    """Wilcoxon's p-value of one method against each other, with Holm's correction.

    Parameters
    ----------
    values : ndarray of shape (sets, methods)
        One value for each set and method.
    names : list of str
        The methods.
    name : str
        The one that is compared.

    Returns
    -------
    dict of str to float
        Corrected p-values of the others, smallest first.

    Examples
    --------
    >>> from counterpoise.evaluate.ranks import against
    >>> sets = np.arange(10.0)
    >>> values = np.column_stack([sets, sets - 1.0, sets + 0.5 * (-1.0) ** sets])
    >>> {m: round(p, 3) for m, p in against(values, ["a", "b", "c"], "a").items()}
    {'b': 0.004, 'c': 1.0}
    """
    own = values[:, names.index(name)]
    bare = {m: paired(own, values[:, j]) for j, m in enumerate(names) if m != name}
    corrected, least = {}, 0.0
    for i, m in enumerate(sorted(bare, key=lambda m: bare[m])):
        least = max(least, min(1.0, (len(bare) - i) * bare[m]))
        corrected[m] = least
    return corrected
