"""The part of a page that says why: the columns that matter, and the reasons of one row."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpoise.evaluate.figures import figure
from counterpoise.reasons import Reasons
from counterpoise.reasons.drawing import overview, waterfall


def figures(reasons: Reasons, positive: Any) -> list[str]:
    """Return two figures of a page."""
    why = reasons.of(positive)
    if not np.isfinite(why.base):  # there is only one class, or never was this one
        return []
    size = np.atleast_2d(reasons.mean_abs()).sum(axis=0)
    most = reasons.names[int(size.argmax())]
    row = int(why.score.argmax())
    best = int(np.abs(why.values[row]).argmax())
    return [
        figure(
            lambda: overview(reasons),
            "What scores depend on",
            f"Mean size of what each column contributes to the scores of {len(reasons):,} rows; "
            f"all features of a column count together. Largest: {most}, {size.max():.3g}.",
        ),
        figure(
            lambda: waterfall(reasons, row, positive),
            f"Why one row looks most like {positive}",
            f"From the score at the balanced centre, {float(why.base):.3g}, to that of the row "
            f"with the highest score of {positive} among them, {why.score[row]:.3g}. Blue speaks "
            f"for {positive}, orange against it. Main reason: {reasons.names[best]}, "
            f"{why.values[row, best]:+.3g}.",
        ),
    ]
