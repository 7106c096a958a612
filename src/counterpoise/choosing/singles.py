"""Candidates open to single rows, with little overhead."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Vector
from counterpoise.exact.events import Together
from counterpoise.exact.options import Options
from counterpoise.exact.state import State


class Singles:
    """States whose maps are fixed, open to single rows as long as their moments are these.

    Parameters
    ----------
    states : dict of str to State
        What candidates have learned, by the name of the map.
    options : Options
        How they are looked at.
    """

    def __init__(self, states: dict[str, State], options: Options) -> None:
        self.states = states
        self.moments = [state.moments for state in states.values()]
        self.labels: list[Any] = self.moments[0].labels.tolist()
        self.slots = {label: k for k, label in enumerate(self.labels)}
        self._together = Together(self.moments, options)
        self._last: tuple[Vector, dict[str, Vector]] | None = None

    def fits(self, states: dict[str, State]) -> bool:
        """Whether these are the States, and their moments are where they were."""
        return states is self.states and all(
            state.moments is one for state, one in zip(states.values(), self.moments, strict=True)
        )

    def terms(self, row: NDArray[Any]) -> tuple[Vector, dict[str, Vector]] | None:
        """A row as numbers, and its terms by each map; None if one of them is too large.

        Those of the last row are known: most rows are predicted, and then learned.
        """
        last = self._last
        if last is None or not np.array_equal(last[0], row):
            plain = np.array(row, dtype=np.float64)
            terms = {name: state.row(plain) for name, state in self.states.items()}
            found = {name: one for name, one in terms.items() if one is not None}
            if len(found) < len(terms):
                return None
            last = self._last = plain, found
        return last

    def learn(
        self,
        plain: Vector,
        terms: dict[str, Vector],
        slot: int,
        w: float,
        holder: Any,
        more: dict[str, Any],
    ) -> None:
        """Learn a row of the class in a slot, given as it is and as terms.

        The holder gets attributes in the same moment.
        """
        for state in self.states.values():  # before, so that no old scores are left
            state.version += 1
        row = plain[None]
        clipped = [
            state.moments.clipped
            for state in self.states.values()
            if state.fixed is not None and state.fixed.far(row)[0]
        ]
        self._together.learn(list(terms.values()), slot, w, clipped, holder, more)
