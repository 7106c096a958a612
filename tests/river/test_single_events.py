"""Single events with missing features or calibration: as batches, without a solve per event."""

import copy
import warnings

import numpy as np
import pandas as pd
import pytest

from counterpoise.engine.state import State
from counterpoise.moments.moments import Moments
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
    """A list that grows with each call of a function, which works as always."""
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
    fits = count_calls(monkeypatch, CalibrationCurve, "fit")
    solved = count_calls(monkeypatch, State, "scoring_model")
    for event, label in zip(frame[list("abc")].to_dict("records"), y, strict=True):
        model.predict_stream_proba_one(event)
        model.learn_one(event, label)
    assert 5 < len(fits) <= len(solved) < 20  # of 300 events


def make_events(rng, d, kind):
    """Events of numbers, of flags, of few values, or nearly collinear; some are far from zero."""
    n = int(rng.integers(4, 60))
    X = rng.standard_normal((n, d))
    if kind == "collinear":
        X = X[:, :1] + 10.0 ** rng.integers(-9, 0) * X
    elif kind == "mixed":
        X[:, : d // 2] = rng.random((n, d // 2)) < 0.2
        X[:, -1] = rng.integers(0, 3, n) + 0.1
    X = X * 10.0 ** rng.integers(-3, 4, d) + rng.choice([0.0, 1.0, 1e4])
    names = [f"f{j}" for j in range(d)]
    events = [{k: v for k, v in zip(names, row, strict=True) if v} for row in X.tolist()]
    return events, rng.integers(0, 3, n).tolist(), rng.choice([1.0, 1.0, 0.3, 2.0], n).tolist()


def unlearn_and_catch(unlearn, *event):
    """Class of the error and messages of the warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            unlearn(*event)
        except ValueError as error:
            return type(error), str(error)
    return None, [str(one.message) for one in caught]


@pytest.mark.parametrize("kind", ["numbers", "mixed", "collinear"])
@pytest.mark.parametrize("params", [{}, {"multi_class": "ovr"}, {"ridge": 0.0}, {"scale": None}])
def test_the_compiled_downdate_does_what_the_downdate_of_a_batch_does(kind, params):
    """It removes the same, or leaves the moments as they are for the other to warn or refuse."""
    compiled = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        xs, ys, ws = make_events(rng, int(rng.integers(2, 9)), kind)
        model = BalancedRidgeClassifier(**params)
        for event in zip(xs, ys, ws, strict=True):
            model.learn_one(*event)
        for i in rng.permutation(len(xs)).tolist():
            x, y, w = dict(xs[i]), ys[i], ws[i] * rng.choice([1.0, 0.5])
            if rng.random() < 0.1:  # an event that was never learned
                name = rng.choice(list(x))
                x[name] += float(10.0 ** rng.integers(-3, 5))
            slow, before = model.clone(), copy.deepcopy(model._state)
            slow._become(before.copy())
            expected = unlearn_and_catch(slow.unlearn_many, pd.DataFrame([x]), [y], [w])
            if not model._unlearn_directly(x, y, w):
                assert_same_state(model._state, before, 0.0)
                assert unlearn_and_catch(model.unlearn_one, x, y, w) == expected
                continue
            compiled += 1
            assert expected == (None, [])
            assert_same_state(model._state, slow._state, 1e-9)
    assert compiled > 30


def assert_same_state(one, two, tolerance):
    """Moments are equal to rounding, or bit-identical where the tolerance is 0."""
    a, b = one.moments, two.moments
    assert one.names == two.names
    exact = ("labels", "row_hashes", "min_row_weight")
    for name in exact if tolerance else Moments.__slots__:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for name in ("n", "N", "stream", "weight_remainder", "nonconstant_weight"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), tolerance, 1e-14)
    for name in ("anchor", "max_scatter", "removed"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), tolerance, 1e-300)
    unit = np.sqrt(b.max_scatter) + 1e-150
    np.testing.assert_allclose(a.mean / unit, b.mean / unit, 0.0, tolerance)
    np.testing.assert_array_equal(a.C, a.C.transpose(0, 2, 1))
    shape = unit[:, :, None] * unit[:, None, :]
    np.testing.assert_allclose(a.C / shape, b.C / shape, 0.0, tolerance)
