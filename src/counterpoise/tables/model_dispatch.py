"""The two kinds of models that a command can learn, and what differs between them."""

from __future__ import annotations

from counterpoise.arrays import Labels, Rows, Vector
from counterpoise.engine.state import State
from counterpoise.estimators.auto import AutoClassifier
from counterpoise.estimators.balanced_ridge import BalancedRidgeClassifier
from counterpoise.tables.records import Stored

Model = BalancedRidgeClassifier | AutoClassifier


def learn_rows(
    model: Model,
    X: Rows,
    y: Labels,
    weight: Vector | None,
    t: Vector | None = None,
    calibrate: bool = True,
) -> None:
    """Let a model learn rows X (n, d); without ``calibrate`` they do not count for calibration.

    A AutoClassifier has no calibration and no times.
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


def model_for_prediction(stored: Stored) -> BalancedRidgeClassifier:
    """Return the stored model, or the best candidate of one that chooses: an ordinary model."""
    model = stored.model
    return model if isinstance(model, BalancedRidgeClassifier) else model.chosen()


def reference_state(model: Model) -> State:
    """Return what tells which values of the features are usual, of a model that has learned."""
    chooses = isinstance(model, AutoClassifier)
    return model.candidates_.plainest if chooses else model.state_
