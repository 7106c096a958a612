"""The two kinds of models that a command can learn, and what differs between them."""

from __future__ import annotations

from counterpoise.arrays import Labels, Rows, Vector
from counterpoise.choosing.classifier import ChoosingClassifier
from counterpoise.classifier import BalancedRidgeClassifier
from counterpoise.exact.state import State
from counterpoise.jobs.store import Stored

Model = BalancedRidgeClassifier | ChoosingClassifier


def taught(
    model: Model,
    X: Rows,
    y: Labels,
    weight: Vector | None,
    t: Vector | None = None,
    calibrate: bool = True,
) -> None:
    """Let a model learn rows X (n, d); without ``calibrate`` they do not count for calibration.

    A ChoosingClassifier has no calibration and no times.
    """
    if isinstance(model, BalancedRidgeClassifier):
        model.learn_rows(X, y, weight, t, calibrate)
    else:
        model.partial_fit(X, y, sample_weight=weight)


def has_sorted_labels(model: Model) -> bool:
    """Return whether a model has left rows out of its calibration because labels were sorted."""
    if not isinstance(model, BalancedRidgeClassifier) or not model.__sklearn_is_fitted__():
        return False
    progressive = model.state_.progressive
    return progressive is not None and progressive.order.was_sorted


def answering(stored: Stored) -> BalancedRidgeClassifier:
    """Return the stored model, or the best candidate of one that chooses: an ordinary model."""
    model = stored.model
    return model if isinstance(model, BalancedRidgeClassifier) else model.chosen()


def telling(model: Model) -> State:
    """Return what tells which values of the features are usual, of a model that has learned."""
    chooses = isinstance(model, ChoosingClassifier)
    return model.candidates_.plainest if chooses else model.state_
