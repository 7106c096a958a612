"""Probabilities of single events: those of ``link.py``, to rounding, after every row."""

import numpy as np
import pytest

from counterpoise import BalancedRidgeClassifier
from counterpoise.estimators.base import engine_of
from counterpoise.river import BalancedRidgeClassifier as RiverFace

N = 160
OPTIONS = (
    {},
    {"scale": None, "ridge": 0.1},
    {"class_factors": {1: 3.0}},
    {"class_weight": {1: 3.0}},
    {"class_weight": None, "half_life": 50.0},
    {"half_life": 30.0},
    {"fit_intercept": False},
    {"penalize_intercept": False},
)


def open_moments(model):
    """Return the moments of a fitted model, open to single rows."""
    engine = engine_of(model)
    return engine.state.open(engine.params.options)


def sample(c, d, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, c, N) if c > 2 else (rng.random(N) < 0.2).astype(int)
    y[:c] = range(c)
    return rng.standard_normal((N, d)) + rng.standard_normal((c, d))[y], y


def distances(model, X, y, start, every):
    """Return the largest distances of both kinds of probabilities from those of arrays."""
    worst = [0.0, 0.0]
    for i in range(start, N):
        if i % every == 0:
            predictors = (
                (model.predict_proba_one, model.predict_proba),
                (
                    model.predict_stream_proba_one,
                    model.predict_stream_proba,
                ),
            )
            for stream, (one, many) in enumerate(predictors):
                found = open_moments(model).events.probabilities(X[i], bool(stream))
                assert found is not None  # the compiled link returns them
                one_row = one(X[i])
                assert np.array_equal(one_row, found)
                worst[stream] = max(worst[stream], np.abs(one_row - many(X[i : i + 1])[0]).max())
        model.learn_one(X[i], y[i])
    return worst


# Rounding of slopes, which Newton's steps find to 1e-13, times scores of some ten; wide rows have
# scores that are 1e-10 off.
@pytest.mark.parametrize(("d", "limit"), [(1, 1e-11), (9, 1e-11), (33, 1e-11), (52, 1e-9)])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_probabilities_of_two_classes_equal_those_of_arrays(options, d, limit):
    X, y = sample(2, d)
    model = BalancedRidgeClassifier(**options).partial_fit(X[:20], y[:20])
    assert max(distances(model, X, y, 20, 5)) < limit


@pytest.mark.parametrize(
    "options", [{}, {"multi_class": "ovr"}, {"class_factors": {1: 3.0}}], ids=str
)
@pytest.mark.parametrize("d", [2, 9, 52])
def test_probabilities_of_several_classes_equal_those_of_arrays(options, d):
    X, y = sample(5, d)
    model = BalancedRidgeClassifier(**options).partial_fit(X[:20], y[:20])
    assert max(distances(model, X, y, 20, 5)) < 1e-9


def test_the_predicted_class_has_the_largest_probability():
    X, y = sample(3, 6)
    model = BalancedRidgeClassifier().partial_fit(X[:20], y[:20])
    for i in range(20, N):
        p = model.predict_proba_one(X[i])
        assert model.classes_[p.argmax()] == model.predict_one(X[i])
        assert p.sum() == pytest.approx(1.0, abs=1e-12)
        model.learn_one(X[i], y[i])


@pytest.mark.slow
def test_events_as_dicts_have_the_probabilities_of_arrays():
    X, y = sample(2, 9)
    names = [f"f{j}" for j in range(9)]
    events, rows = RiverFace(), BalancedRidgeClassifier()
    rows.partial_fit(X[:2], y[:2])
    for i in range(N):
        event = dict(zip(names, X[i].tolist(), strict=True))
        if i > 20:
            for one_row, wanted in (
                (events.predict_proba_one(event), rows.predict_proba(X[i : i + 1])[0]),
                (
                    events.predict_stream_proba_one(event),
                    rows.predict_stream_proba(X[i : i + 1])[0],
                ),
            ):
                assert [one_row[0], one_row[1]] == pytest.approx(wanted.tolist(), abs=1e-11)
        events.learn_one(event, int(y[i]))
        if i > 1:
            rows.learn_one(X[i], y[i])


@pytest.mark.parametrize(
    "options", [{"pooled_rows": 5.0}, {"ridge": "gcv"}, {"calibrate": True}], ids=str
)
def test_models_without_a_compiled_link_also_have_probabilities(options):
    X, y = sample(2, 4)
    model = BalancedRidgeClassifier(**options).partial_fit(X, y)
    for one, many in (
        (model.predict_proba_one, model.predict_proba),
        (model.predict_stream_proba_one, model.predict_stream_proba),
    ):
        assert one(X[0]) == pytest.approx(many(X[:1])[0], abs=1e-11)


def test_one_class_has_probability_one_and_an_unfitted_model_raises():
    X, _ = sample(2, 4)
    model = BalancedRidgeClassifier().partial_fit(X[:5], np.zeros(5, dtype=int))
    assert model.predict_proba_one(X[0]).tolist() == [1.0]
    assert model.predict_stream_proba_one(X[0]).tolist() == [1.0]
    with pytest.raises(ValueError, match="is not fitted yet"):
        BalancedRidgeClassifier().predict_proba_one(X[0])
    assert RiverFace().predict_proba_one({"a": 1.0}) == {}


def test_an_invalid_row_is_refused_by_name():
    X, y = sample(2, 4)
    model = BalancedRidgeClassifier().partial_fit(X, y)
    with pytest.raises(ValueError, match="feature 2 is NaN"):
        model.predict_proba_one([1.0, 2.0, np.nan, 3.0])
    with pytest.raises(ValueError, match="features"):
        model.predict_stream_proba_one([1.0, 2.0])
