"""What progressive scores must be: those of a model fitted from scratch before each row."""

import numpy as np

from counterpoise import BalancedRidgeClassifier


def refitted(X, y, t, options, delay=0):
    """Score of row t by a model fitted from scratch on the rows whose labels had arrived."""
    known = max(t - delay, 0)
    labels = np.unique(y)
    if known == 0:
        return np.zeros(1 if len(labels) <= 2 else len(labels))
    model = BalancedRidgeClassifier(**options)
    model.partial_fit(X[:known], y[:known], classes=labels)
    return np.atleast_1d(model.decision_function(X[t : t + 1])[0])


def assert_progressive(X, y, options=None, delay=0, rows=None, tolerance=1e-8):
    options = options or {}
    scores = BalancedRidgeClassifier(**options).progressive_scores(X, y, delay=delay)
    scores = scores.reshape(len(y), -1)
    for t in range(len(y)) if rows is None else rows:
        f = refitted(X, y, t, options, delay)
        known = np.isfinite(f)  # a class that has not been seen scores −∞
        np.testing.assert_array_equal(scores[t][~known], f[~known])
        off = np.abs(scores[t][known] - f[known])
        assert (off <= tolerance * np.maximum(1.0, np.abs(f[known]))).all(), (t, scores[t], f)
