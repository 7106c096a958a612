"""Long streams of events: moments and predictions stay exact.

``benchmarks/proofs/long_streams.py`` does the same with ten million events.
"""

import numpy as np
import pytest

from counterpoise import BalancedRidgeClassifier
from counterpoise.moments.moments import Moments
from counterpoise.river import BalancedRidgeClassifier as RiverClassifier


@pytest.mark.slow
@pytest.mark.parametrize(("events", "d"), [(20_000, 20), (4_000, 52)])
def test_events_stay_at_the_moments_and_the_scores_of_bulk(events, d):
    rng = np.random.default_rng(d)
    y = (rng.random(events) < 0.02).astype(int)
    y[:2] = 0, 1
    X = rng.standard_normal((events, d)) @ (np.eye(d) + 0.3 * rng.standard_normal((d, d)))
    X = (X + y[:, None] + np.sin(np.arange(events) / 500.0)[:, None]) * 10.0 ** rng.integers(
        -3, 4, d
    )
    X += 10.0 ** rng.integers(0, 7, d)
    names, looks = [f"f{j}" for j in range(d)], set(rng.integers(100, events, 40).tolist())
    model = RiverClassifier()
    for i, (row, label) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
        event = dict(zip(names, row, strict=True))
        guess = model.predict_one(event)
        if i in looks:
            refit = BalancedRidgeClassifier().partial_fit(X[:i], y[:i])
            f = refit.decision_function(X[i : i + 1])[0]
            assert model._open.events.scores(X[i]) == pytest.approx([f], abs=1e-8, rel=1e-8)
            assert guess == (f > 0) or abs(f) < 1e-8
        model.learn_one(event, label)
    bulk, found = Moments.of(X, y), model._state.moments
    for k in range(2):
        size = np.sqrt(np.diagonal(bulk.C[k]))
        assert (np.abs(found.C[k] - bulk.C[k]) <= 1e-10 * np.outer(size, size)).all()
        apart = (found.anchor - bulk.anchor) + found.mean[k] - bulk.mean[k]
        assert (np.abs(apart) * np.sqrt(bulk.n[k]) <= 1e-10 * size).all()
