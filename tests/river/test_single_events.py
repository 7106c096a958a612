"""Single events with missing features or calibration: as in batches, without a solver per event."""

import numpy as np
import pandas as pd
import pytest

from counterpoise.engine.state import State
from counterpoise.river import BalancedRidgeClassifier
from counterpoise.solver.calibration import CalibrationCurve


def events(rows=300, missing=0.1, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    X = np.exp(rng.standard_normal((rows, 4))) + y[:, None]
    X[rng.random((rows, 4)) < missing] = np.nan
    X[: rows // 3, 3] = np.nan  # a feature that appears late
    frame = pd.DataFrame(X, columns=list("abcd"))
    single = [
        {name: value for name, value in event.items() if value == value}
        for event in frame.to_dict("records")
    ]
    return frame, single, y.tolist()


def count_calls(monkeypatch, owner, name):
    """Wrap a function; return a list that grows with each call."""
    calls, real = [], getattr(owner, name)

    def call(*args, **kwargs):
        calls.append(name)
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, call)
    return calls


@pytest.mark.slow
@pytest.mark.parametrize("calibrate", [False, True])
@pytest.mark.parametrize("multi", [2, 3])
def test_events_that_lack_features_are_learned_and_scored_as_batches_are(calibrate, multi):
    frame, single, y = events()
    y = [label + (i % 7 == 0) * (multi - 2) * (2 - label) for i, label in enumerate(y)]
    one, many = (BalancedRidgeClassifier(absent="missing", calibrate=calibrate) for _ in range(2))
    for event, label in zip(single, y, strict=True):
        one.predict_one(event)
        one.learn_one(event, label)
    many.learn_many(frame[:50], y[:50])
    many.learn_many(frame[50:], y[50:])
    for method in ("predict_proba", "predict_stream_proba"):
        found = [getattr(one, f"{method}_one")(event) for event in single]
        expected = getattr(many, f"{method}_many")(frame)
        for label in expected.columns:
            # Calibration counts may differ by the constants that stand for a missing value.
            tolerance = 1e-8 if not (calibrate and method == "predict_stream_proba") else 0.05
            np.testing.assert_allclose([p[label] for p in found], expected[label], atol=tolerance)
    assert [one.predict_one(event) for event in single[:20]] == [
        max(p, key=p.get) for p in map(one.predict_proba_one, single[:20])
    ]


def test_events_that_lack_features_need_no_solver_for_batches(monkeypatch):
    _, single, y = events()
    model = BalancedRidgeClassifier(absent="missing")
    for event, label in zip(single[:200], y[:200], strict=True):
        model.learn_one(event, label)
    solved = count_calls(monkeypatch, State, "solve")
    for event, label in zip(single[200:], y[200:], strict=True):
        model.predict_proba_one(event)
        model.learn_one(event, label)
    assert not solved


def test_calibrated_events_fit_a_curve_at_boundaries_only(monkeypatch):
    frame, _, y = events(missing=0.0)
    model = BalancedRidgeClassifier(calibrate=True)
    fits = count_calls(monkeypatch, CalibrationCurve, "fitted")
    solved = count_calls(monkeypatch, State, "scoring_model")
    for event, label in zip(frame[list("abc")].to_dict("records"), y, strict=True):
        model.predict_stream_proba_one(event)
        model.learn_one(event, label)
    assert 5 < len(fits) <= len(solved) < 20  # of 300 events
