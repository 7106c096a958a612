"""Methods over many data sets: average ranks, Friedman's test, Nemenyi's critical difference.

To compare one method with each of the others, Demšar recommends pairs: Wilcoxon's signed ranks with
Holm's correction. Nemenyi's test has less power for that, and its result for two methods depends on
the others.

Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 7, 2006.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from counterpoise.arrays import Matrix, Vector
from counterpoise.evaluate.plots import style


@dataclass(frozen=True, eq=False)
class Comparison:
    """Comparison of methods over many data sets, with Friedman's test of their equality.

    ``ranks`` has shape (sets, methods), 1 is best; ties share the mean of their ranks.
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
    """Compare methods by values (sets, methods), of which ``best`` are "high" or "low"."""
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
    """Return Nemenyi's critical difference of k methods on n sets, q √(k (k + 1) / 6n)."""
    q = stats.studentized_range.ppf(1.0 - alpha, k, np.inf) / np.sqrt(2.0)
    return float(q * np.sqrt(k * (k + 1) / (6.0 * n)))


def groups(average: dict[str, float], difference: float) -> list[list[str]]:
    """Return the largest groups of several methods whose average ranks differ by less than this."""
    names = sorted(average, key=lambda name: average[name])
    found: list[list[str]] = []
    for i, name in enumerate(names):
        close = [other for other in names[i:] if average[other] - average[name] < difference]
        if len(close) > 1 and not (found and found[-1][-1] == close[-1]):
            found.append(close)
    return found


def p_values(ranks: Matrix) -> Matrix:
    """Return Nemenyi's p-value of each pair of methods from values of shape (sets, methods)."""
    import scikit_posthocs

    found: Vector = scikit_posthocs.posthoc_nemenyi_friedman(ranks).to_numpy()
    return found


def wilcoxon_p(one: Vector, other: Vector) -> float:
    """Return Wilcoxon's p-value of paired values (sets,), 1 where no pair differs."""
    if not np.any(one != other):
        return 1.0
    return float(stats.wilcoxon(one, other).pvalue)


def wilcoxon_holm(values: Matrix, names: list[str], name: str) -> dict[str, float]:
    """Return Wilcoxon's p-values of one method against the others, Holm-corrected, ascending."""
    own = values[:, names.index(name)]
    bare = {m: wilcoxon_p(own, values[:, j]) for j, m in enumerate(names) if m != name}
    corrected, least = {}, 0.0
    for i, m in enumerate(sorted(bare, key=lambda m: bare[m])):
        least = max(least, min(1.0, (len(bare) - i) * bare[m]))
        corrected[m] = least
    return corrected


def plot_comparison(found: Comparison, title: str = "") -> Figure:
    """Plot average ranks on a scale, and connect methods that do not differ significantly.

    A ruler above the scale is as long as the critical difference.
    """
    average = found.average
    names, k = list(average), len(average)
    left = names[: (k + 1) // 2]  # the better half; the other half stands on the right
    bars = found.groups
    step, bar = 1.0, 0.45  # heights of a line of text and of a bar
    depth = bar * (len(bars) + 1)
    height = depth + step * len(left)
    made = Figure(figsize=(6.4, 1.3 + 0.26 * height), layout="constrained")
    axes = made.add_subplot()
    axes.set_axis_off()
    axes.set(xlim=(0.0, k + 1.0), ylim=(height + 0.4, -2.6))
    axes.plot([1, k], [0, 0], color="black", linewidth=1.2)
    for rank in range(1, k + 1):
        axes.plot([rank, rank], [-0.22, 0], color="black", linewidth=1.2)
        axes.text(rank, -0.35, str(rank), ha="center", va="bottom", fontsize=9)
    axes.plot([1, 1 + found.difference], [-1.7, -1.7], color="#D55E00", linewidth=2, label="ruler")
    for end in (1, 1 + found.difference):
        axes.plot([end, end], [-1.9, -1.5], color="#D55E00", linewidth=2)
    axes.text(
        1.12 + found.difference, -1.7, f"critical difference {found.difference:.3f}",
        va="center", fontsize=9, color="#D55E00",
    )  # fmt: skip
    for i, group in enumerate(bars):
        ends = [average[group[0]] - 0.04, average[group[-1]] + 0.04]
        axes.plot(ends, [bar * (i + 1)] * 2, color="#444444", linewidth=3, solid_capstyle="butt")
    for i, name in enumerate(names):
        first = name in left
        y = depth + step * (i + 0.5 if first else k - i - 0.5)
        side, align = (0.72, "right") if first else (k + 0.28, "left")
        colour = style(name)["color"]
        axes.plot([average[name]] * 2 + [side], [0, y, y], color=colour, linewidth=1.1)
        text = f"{name}  {average[name]:.2f}" if first else f"{average[name]:.2f}  {name}"
        axes.text(side + (-0.06 if first else 0.06), y, text, ha=align, va="center", fontsize=9)
    words = "average ranks, 1 is best"
    axes.set_title(f"{title}\n{words}" if title else words, fontsize=10)
    return made
