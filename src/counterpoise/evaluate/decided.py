"""The part of a page that is for those who decide: costs of thresholds, and whether odds hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from counterpoise.arrays import Flags, Vector
from counterpoise.evaluate import decisions
from counterpoise.evaluate.decisions import Priced
from counterpoise.evaluate.figures import figure
from counterpoise.evaluate.reliability import reliability

__all__ = ["Decided", "Priced", "figures"]


class Decided(NamedTuple):
    """What decisions go by, and what they have cost.

    Attributes
    ----------
    mine : ndarray of shape (n,)
        Rows of the class of interest.
    risk : ndarray of shape (n,)
        The stream's probability of it.
    priced : sequence of Priced
        What thresholds cost at some prices.
    """

    mine: Flags
    risk: Vector
    priced: Sequence[Priced]


def figures(found: Decided, positive: Any) -> list[str]:
    """Return two figures of a page."""
    held = reliability(found.mine, found.risk)
    told, came = float(found.risk.mean()), float(found.mine.mean())
    words = []
    for name, curve, decided, _ in found.priced:
        never = max(curve.never, 1e-300)
        words.append(
            f"Where {name}, decisions cost {decided:,.6g}: {100 * decided / never:.3g}% of never "
            "alerting. The best single threshold, chosen afterwards, costs "
            f"{100 * curve.least / never:.3g}%."
        )
    return [
        figure(
            lambda: decisions.cost_of_thresholds(found.priced),
            "What each threshold would have cost",
            "Cost of misses and false alarms. A circle is the best single threshold, chosen "
            "afterwards. A diamond, or a dashed line, is the decisions; where each row has its own "
            "cost they can be better than any single threshold. " + " ".join(words),
        ),
        figure(
            lambda: decisions.reliability_diagram(held, positive),
            "Do the probabilities hold?",
            f"The stream's probability of {positive} as it was told, beside the share of such rows "
            "that it was, with two standard errors; on the line they agree. On average "
            f"{100 * told:.3g} % was told and {100 * came:.3g} % came; the calibration error is "
            f"{held.error:.4f}.",
        ),
    ]
