"""Single rows, with little overhead: moments that stay open to the compiled solver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

from counterpoise.arrays import Labels, Vector
from counterpoise.exact import progressive
from counterpoise.exact._events import Events
from counterpoise.exact._scorer import Scorer
from counterpoise.exact.model import Options
from counterpoise.exact.moments import Moments


@dataclass(eq=False)
class Single:
    """Moments open to single rows, as long as these are the moments and these the options.

    Attributes
    ----------
    events : Events
        What learns and scores.
    slots : dict
        Slot of each label.
    labels : ndarray of shape (c,)
        The labels, in the order of the scores.
    moments : Moments
        The moments.
    signature : tuple
        The options.
    features : object
        The map that the model was given.
    version : int
        Up to which change the weights are known.
    """

    events: Events
    slots: dict[Any, int]
    labels: Labels
    moments: Moments
    signature: tuple[Any, ...]
    features: Any
    version: int

    @classmethod
    def of(
        cls,
        moments: Moments,
        labels: Labels,
        slots: Sequence[int],
        options: Options,
        features: Any,
        version: int,
    ) -> Single | None:
        """Open moments to single rows; None where only whole chunks will do.

        Parameters
        ----------
        moments : Moments
            What was learned.
        labels : ndarray of shape (c,)
            All labels, sorted.
        slots : sequence of int
            The slot of each, −1 if it was never seen.
        options : Options
            How to look.
        features : object
            The map that the model was given.
        version : int
            Up to which change this is.

        Returns
        -------
        Single or None
        """
        if options.ridge == "gcv" or min(slots) < 0 or len(slots) != len(moments.n):
            return None
        scorer = Scorer(progressive.recipe(options, moments, labels), moments)
        events = Events(scorer, list(range(moments.mean.shape[1])))
        by_label = dict(zip(labels.tolist(), slots, strict=True))
        return cls(events, by_label, labels, moments, astuple(options), features, version)

    def best(self, row: Vector) -> Any:
        """Label of a row; None if the compiled solver cannot tell."""
        f = self.events.scores_array(row)
        if f is None:
            return None
        if len(self.labels) == 1:
            return self.labels[0]
        return self.labels[int(f[0] > 0) if len(f) == 1 else f.index(max(f))]
