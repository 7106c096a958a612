"""Probabilities: proper, monotone, in agreement with predict, and of the size they claim."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import stream

from counterpoise import BalancedRidgeClassifier
from counterpoise.probability import EDGE, odds, probabilities


@given(st.lists(st.floats(-1e15, 1e15), min_size=2, max_size=20, unique=True))
def test_odds_rise_with_the_score(f):
    f = np.sort(np.array(f))
    ratio = odds(f)
    assert (np.diff(ratio) >= 0).all()
    apart = np.diff(f) > 1e-9 * np.maximum(1.0, np.abs(f[1:]))  # what two floats can tell apart
    assert (np.diff(ratio)[apart] > 0).all()
    assert np.isfinite(ratio).all()
    assert (ratio > 0).all()


def test_odds_are_a_line_inside_and_smooth_at_the_edge():
    f = np.linspace(-EDGE, EDGE, 101)
    p = odds(f) / (1.0 + odds(f))
    np.testing.assert_allclose(p, (1.0 + f) / 2.0, rtol=1e-12)
    around = EDGE + np.array([-1e-6, 0.0, 1e-6])
    p = odds(around) / (1.0 + odds(around))
    np.testing.assert_allclose(np.diff(p) / 1e-6, 0.5, rtol=1e-4)


@given(
    st.lists(st.lists(st.floats(-5, 5), min_size=4, max_size=4), min_size=1, max_size=10),
)
def test_the_largest_probability_is_that_of_the_largest_score(rows):
    f = np.array(rows)
    f[:, 1] = np.nextafter(f[:, 0], np.inf)  # apart by the last bit
    p = probabilities(f, np.ones(4), np.ones(4, dtype=bool))
    np.testing.assert_array_equal(p.argmax(axis=1), f.argmax(axis=1))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_predict_is_the_argmax(classes):
    X, y = stream(500, 4, classes)
    model = BalancedRidgeClassifier().fit(X, y)
    far = np.vstack([X, 1e3 * X, -1e3 * X])
    p = model.predict_proba(far)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(far))
    for proba in (p, model.stream_proba(far)):
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
        assert ((proba >= 0) & (proba <= 1)).all()


def test_stream_probabilities_follow_the_frequencies():
    """One feature that tells nothing: what remains is the share of each class."""
    rng = np.random.default_rng(0)
    y = (rng.random(20_000) < 0.03).astype(int)
    X = rng.standard_normal((20_000, 1))
    for options in ({}, {"class_weight": None}, {"costs": {1: 7.0}}, {"class_weight": {1: 4.0}}):
        model = BalancedRidgeClassifier(**options).fit(X, y)
        # Targets of unequal weight leave the linear range for class_weight=None.
        assert abs(model.stream_proba(X)[:, 1].mean() - y.mean()) < 0.01


def test_stream_probabilities_beat_the_base_rate_on_a_rare_class():
    """The comparison with calibration is in benchmarks/probability.py."""
    rng = np.random.default_rng(0)
    y = (rng.random(40_000) < 0.01).astype(int)
    X = rng.standard_normal((40_000, 5))
    X[y == 1] += 1.0
    p = BalancedRidgeClassifier().fit(X[::2], y[::2]).stream_proba(X[1::2])[:, 1]
    new, share = y[1::2], y[::2].mean()
    loss = -np.mean(np.where(new == 1, np.log(p), np.log(1 - p)))
    base = -np.mean(np.where(new == 1, np.log(share), np.log(1 - share)))
    assert loss < 0.75 * base
    assert np.mean((p - new) ** 2) < np.mean((share - new) ** 2)
