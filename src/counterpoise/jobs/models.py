"""The two kinds of models that a command can learn, and what differs between them."""

from __future__ import annotations

from counterpoise.arrays import Labels, Rows, Vector
from counterpoise.choosing.classifier import ChoosingClassifier
from counterpoise.classifier import BalancedRidgeClassifier
from counterpoise.exact.calibration import Calibration
from counterpoise.exact.state import State
from counterpoise.jobs.store import Stored

Model = BalancedRidgeClassifier | ChoosingClassifier


def taught(
    model: Model,
    X: Rows,
    y: Labels,
    weight: Vector | None,
    verdicts: Calibration | None = None,
    t: Vector | None = None,
) -> None:
    """Let a model learn rows X (n, d), and what was said of them before.

    One that chooses knows neither verdicts nor times.
    """
    if isinstance(model, BalancedRidgeClassifier):
        model.learn_judged(X, y, weight, verdicts, t)
    else:
        model.partial_fit(X, y, sample_weight=weight)


def answering(stored: Stored) -> BalancedRidgeClassifier:
    """Return the stored model, or the best candidate of one that chooses: an ordinary model."""
    model = stored.model
    return model if isinstance(model, BalancedRidgeClassifier) else model.chosen()


def telling(model: Model) -> State:
    """Return what tells which values of the features are usual, of a model that has learned."""
    chooses = isinstance(model, ChoosingClassifier)
    return model.candidates_.plainest if chooses else model.state_
