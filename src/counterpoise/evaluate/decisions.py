"""Plots for those who decide: what each threshold would have cost, and whether probabilities hold.

Needs the extra ``plots``: ``pip install 'counterpoise[plots]'``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from counterpoise.evaluate import theme
from counterpoise.evaluate.costs import CostCurve
from counterpoise.evaluate.drawing import Figure, figure, plain_numbers, short, style
from counterpoise.evaluate.reliability import Reliability

MOST = 400  # points of a curve
COLOURS = ("#0072B2", "#E69F00", "#009E73")
OURS = "the model"


class Priced(NamedTuple):
    """What thresholds and decisions cost at some prices.

    Attributes
    ----------
    name : str
        The prices, in words.
    curve : CostCurve
        What each threshold would have cost.
    decided : float
        What the decisions have cost.
    at : float, optional
        The threshold that they come down to, if all rows have one price.
    """

    name: str
    curve: CostCurve
    decided: float
    at: float | None = None


def cost_of_thresholds(found: Sequence[Priced]) -> Figure:
    """Cost of each threshold, as a share of what it costs never to alert.

    Parameters
    ----------
    found : sequence of Priced
        What is to be drawn.

    Returns
    -------
    Figure
    """
    made, axes = figure(4.2)
    axes.set_xscale("log")
    top, ends = 1.0, []
    for (name, curve, decided, at), colour in zip(found, COLOURS, strict=False):
        never = max(curve.never, 1e-300)
        best = int(curve.cost.argmin())
        some = np.unique(np.linspace(1, len(curve.cost) - 1, MOST).astype(int))
        some = np.union1d(some, [max(best, 1)])
        some = some[curve.thresholds[some] > 0.0]
        x, y = curve.thresholds[some], curve.cost[some] / never
        drawn = {"color": theme.shade(colour)}
        axes.plot(x, y, linewidth=1.8, label=name, **drawn)
        top = max(top, float(np.median(y)))
        ends += [float(x[y <= 1.5].min(initial=1.0)), float(x.max())]
        if best:
            where = curve.thresholds[best], curve.least / never
            axes.plot(*where, "o", markersize=9, fillstyle="none", **drawn)
        if at is not None:
            axes.plot(at, decided / never, "D", markersize=5, **drawn)
        else:
            axes.axhline(decided / never, linestyle=(0, (4, 1)), linewidth=1.2, **drawn)
    axes.axhline(1.0, color=theme.quiet(), linewidth=0.8)
    axes.annotate(
        "never alert", (0.01, 1.0), xycoords=("axes fraction", "data"), fontsize=8, va="bottom",
        color=theme.quiet(),
    )  # fmt: skip
    axes.set_xlim(max(min(ends) / 1.5, 1e-6), min(max(ends) * 1.2, 1.2))
    axes.set_ylim(0.0, 1.5)
    axes.set_xlabel("alert where the probability is at least")
    axes.set_ylabel("cost, if never to alert costs 1")
    plain_numbers(axes.xaxis)
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.17), "frameon": False}
    axes.legend(fontsize=8, ncols=1, **below)
    return made


def reliability_diagram(found: Reliability, positive: object) -> Figure:
    """Probabilities as they were told, beside how often they came true.

    Parameters
    ----------
    found : Reliability
        Rows in bins.
    positive : label
        The class of interest.

    Returns
    -------
    Figure
    """
    made, axes = figure(4.2)
    some = found.share > 0.0
    least = [float(v[v > 0.0].min(initial=0.5)) for v in (found.told, found.share)]
    low = max(min(least) / 2.0, 1e-7)
    axes.plot([low, 1.0], [low, 1.0], color=theme.quiet(), linewidth=0.8)
    # Two standard errors of a share.
    error = 2.0 * np.sqrt(found.share * (1.0 - found.share) / found.rows)
    down = np.minimum(error, np.maximum(found.share - low, 0.0))
    drawn = {"color": style(OURS)["color"], "markersize": 5}
    axes.errorbar(
        np.maximum(found.told[some], low), found.share[some], yerr=[down[some], error[some]],
        fmt="o", elinewidth=1.0, **drawn,
    )  # fmt: skip
    if (~some).any():  # none of the class: at the foot
        told = np.maximum(found.told[~some], low)
        axes.plot(told, np.full(len(told), low), "v", clip_on=False, **drawn)
    axes.set(
        xscale="log", yscale="log", xlim=(low, 1.1), ylim=(low, 1.1),
        xlabel=f"probability of {short(positive)}, as told", ylabel="share that it was",
    )  # fmt: skip
    plain_numbers(axes.xaxis)
    plain_numbers(axes.yaxis)
    return made
