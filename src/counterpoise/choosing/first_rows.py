"""Check that the rows which fixed the maps still represent the stream.

At most 1/9 of the values of a feature are 3 standard deviations or more from its mean, by
Chebyshev's inequality. If far more of the kept rows are, by the scaling of the first rows, then the
first rows are of another distribution: the input is sorted, or it has changed. Where no rows are
kept, the rows that were clipped count, of which each feature may have 1/100.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterpoise.choosing.kept import Kept
from counterpoise.exact.state import State

MAX_DEVIATIONS = 3.0
MAX_SHARE = 0.25


class Change(NamedTuple):
    """Feature whose values have left the first rows, if it is known, and the share of them."""

    feature: int | None
    share: float
    rows: int  # that fixed the map


def find_change(states: list[State], kept: Kept | None) -> Change | None:
    """Return the largest change among fixed maps, or None if they represent the stream."""
    found = [
        _clipped(state) if kept is None else _outlying(state, kept)
        for state in states
        if state.fixed is not None
    ]
    worst = max(found, key=lambda one: one.share, default=None)
    return worst if worst is not None and worst.share > MAX_SHARE else None


def _outlying(state: State, kept: Kept) -> Change:
    """Return the feature of which most values are far, each class by its number of rows."""
    assert state.fixed is not None
    moments = state.moments
    seen = moments.n > 0.0
    X, code, _, _ = kept.arrays(moments.labels[seen])
    weight = (moments.n[seen] / np.bincount(code))[code]
    far = np.abs(state.fixed.scaled(X)) >= MAX_DEVIATIONS
    share = weight @ far / weight.sum()
    j = int(share.argmax())
    return Change(j, float(share[j]), state.plan.rows)


def _clipped(state: State) -> Change:
    """Return the share of clipped rows beyond those that any distribution may have."""
    share = float(state.moments.clipped[0] / state.moments.N.sum())
    return Change(None, share - 0.01 * state.inputs, state.plan.rows)
