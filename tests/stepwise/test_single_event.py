"""Single events: after every row the scores are those of a refit, on streams made to break it."""

from itertools import count

import numpy as np
import pytest

from counterpoise import BalancedRidgeClassifier
from counterpoise.estimators.base import engine_of
from counterpoise.river import BalancedRidgeClassifier as RiverFace

N, D = 420, 56  # wide enough that weights are updated instead of solved again


def open_moments(model):
    """Return the moments of a fitted model, open to single rows."""
    engine = engine_of(model)
    return engine.state.open(engine.params.options)


def sample(seed=0, minority=0.15):
    rng = np.random.default_rng(seed)
    y = (rng.random(N) < minority).astype(int)
    y[:2] = 0, 1
    mixed = rng.standard_normal((N, D)) @ (np.eye(D) + 0.3 * rng.standard_normal((D, D)))
    return mixed + 0.3 * y[:, None], y


def jumping():
    X, y = sample(1)
    X[250:] += 1000.0 * np.random.default_rng(2).standard_normal(D)
    return X, y


def jittering():
    X, y = sample(3)
    X *= np.random.default_rng(4).choice([1e-3, 1.0, 1e3], size=(N, 1))
    return X, y


def one_class_first():
    X, y = sample(5)
    y[:200] = 0
    return X, y


def very_rare():
    X, y = sample(6)
    y[:] = 0
    y[[1, 300]] = 1
    return X, y


def collinear():
    X, y = sample(7)
    X[:, D // 2 :] = X[:, : D // 2]
    return X, y


def growing():
    X, y = sample(8)
    return X * np.exp(np.arange(N) / 40.0)[:, None], y


def in_odd_units():
    X, y = sample(9)
    rng = np.random.default_rng(10)
    return X * 10.0 ** rng.integers(-6, 7, D) + 10.0 ** rng.integers(0, 8, D), y


def five_classes():
    X, _ = sample(11)
    y = np.random.default_rng(12).integers(0, 5, N)
    y[:5] = range(5)
    return X + 0.4 * np.random.default_rng(13).standard_normal((5, D))[y], y


STREAMS = (jumping, jittering, one_class_first, very_rare, collinear, growing, in_odd_units)
OPTIONS = (
    {},
    {"half_life": 40.0},
    {"fit_intercept": False},
    {"penalize_intercept": False},
    {"class_weight": None},
    {"class_weight": None, "half_life": 60.0},
    {"ridge": 1e-3, "class_factors": {1: 4.0}},
)


def compare_with_refits(X, y, options, compared_rows):
    """Return the largest distance of a score from a refit's, and the scorer of the events."""
    start = len(np.unique(y)) if y[:2].any() else 2
    model, worst = BalancedRidgeClassifier(**options).partial_fit(X[:start], y[:start]), 0.0
    for i in range(start, N):
        found = open_moments(model)
        f = found.events.scores(X[i])
        if i in compared_rows and f is not None:
            refit = BalancedRidgeClassifier(**options).partial_fit(X[:i], y[:i])
            g = np.ravel(refit.decision_function(X[i : i + 1]))
            worst = max(worst, float(np.max(np.abs(np.array(f) - g) / (1.0 + np.abs(g)))))
        model.learn_one(X[i], y[i])
    return worst, open_moments(model).events


def choose_rows(seed):
    return set(np.random.default_rng(seed).integers(0, N, 40).tolist())


# 1e-8 is promised and 1e-10 is observed, except for jumps by 1e3 deviations with decay.
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("options", OPTIONS[:3], ids=str)
def test_scores_after_each_event_equal_those_of_a_refit(stream, options):
    worst, _ = compare_with_refits(*stream(), options, choose_rows(1))
    assert worst < 1e-8


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_scores_of_every_option_equal_those_of_a_refit(options):
    worst, events = compare_with_refits(*sample(), options, choose_rows(2))
    assert worst < 1e-8
    assert 0 < events.refined.factors < N / 4  # most events needed no new inverse


@pytest.mark.parametrize("options", [{}, {"multi_class": "ovr"}, {"fit_intercept": False}], ids=str)
def test_scores_of_several_classes_equal_those_of_a_refit(options):
    worst, events = compare_with_refits(*five_classes(), options, choose_rows(3))
    assert worst < 1e-8
    assert events.refined.steps > 0


def test_an_ill_conditioned_problem_is_solved_by_elimination():
    X, y = collinear()
    _, events = compare_with_refits(X, y, {"ridge": 1e-9}, set())
    assert events.refined.steps == 0


def test_rows_learned_between_two_scores_count():
    X, y = sample(14)
    model = BalancedRidgeClassifier().partial_fit(X[:100], y[:100])
    for i in range(100, N):
        model.learn_one(X[i], y[i])
        if i % 7 == 0:
            f = open_moments(model).events.scores(X[i])
            refit = BalancedRidgeClassifier().partial_fit(X[: i + 1], y[: i + 1])
            assert f == pytest.approx(refit.decision_function(X[i : i + 1]), abs=1e-8)


def test_a_chunk_between_two_events_counts():
    X, y = sample(15)
    model = BalancedRidgeClassifier().partial_fit(X[:50], y[:50])
    for i in count(50, 20):
        if i + 20 > N:
            break
        model.predict_one(X[i])
        model.learn_one(X[i], y[i])
        model.partial_fit(X[i + 1 : i + 20], y[i + 1 : i + 20])
        f = open_moments(model).events.scores(X[i])
        refit = BalancedRidgeClassifier().partial_fit(X[: i + 20], y[: i + 20])
        assert f == pytest.approx(refit.decision_function(X[i : i + 1]), abs=1e-8)


def test_scoring_does_not_change_the_learned_model():
    X, y = sample(16)
    often, never = (BalancedRidgeClassifier().partial_fit(X[:50], y[:50]) for _ in range(2))
    for i in range(50, N):
        often.predict_one(X[i])
        often.learn_one(X[i], y[i])
        never.learn_one(X[i], y[i])
    assert np.array_equal(often._engine.state.moments.C, never._engine.state.moments.C)
    assert np.array_equal(often._engine.state.moments.mean, never._engine.state.moments.mean)


def test_events_as_dicts_predict_like_a_refit():
    X, y = sample(17)
    names = [f"f{j}" for j in range(D)]
    model = RiverFace()
    for i in range(N):
        event = dict(zip(names, X[i].tolist(), strict=True))
        guess = model.predict_one(event)
        if i > 10 and i % 13 == 0:
            refit = BalancedRidgeClassifier().partial_fit(X[:i], y[:i])
            f = refit.decision_function(X[i : i + 1])[0]
            assert abs(f) < 1e-8 or guess == (f > 0)
        model.learn_one(event, int(y[i]))
