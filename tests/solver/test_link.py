"""Probabilities: proper, monotone, in agreement with predict, and of the size they claim."""

import numpy as np
import pytest
from builders import assert_close, stream
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from counterpoise import BalancedRidgeClassifier
from counterpoise.solver.link import Link, _margins, _score_moments, nodes, slope
from counterpoise.solver.ridge import linear
from counterpoise.solver.scores import build_problem


def link(c, slope=1.0):
    share = np.full(c, 1.0 / c)
    return Link.of([slope, slope], np.log(share), share, np.ones(c, dtype=bool), 100.0)


@pytest.mark.slow
@given(st.lists(st.floats(-1e15, 1e15), min_size=2, max_size=20, unique=True), st.floats(0, 1e3))
def test_probabilities_rise_with_the_score_and_are_never_certain(f, slope):
    f = np.sort(np.array(f))
    for frequencies in (False, True):
        p = link(2, slope).probabilities(f[:, None], np.ones(2, dtype=bool), frequencies)
        assert (np.diff(p[:, 1]) >= 0).all()
        assert ((p > 0) & (p < 1)).all()
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.slow
@given(
    st.lists(st.lists(st.floats(-5, 5), min_size=4, max_size=4), min_size=1, max_size=10),
)
def test_the_largest_score_has_the_largest_probability(rows):
    f = np.array(rows)
    f[:, 1] = np.nextafter(f[:, 0], np.inf)  # apart by the last bit
    p = link(4).probabilities(f, np.ones(4, dtype=bool), stream=False)
    np.testing.assert_array_equal(p.argmax(axis=1), f.argmax(axis=1))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.slow
@given(st.floats(0.1, 10.0), st.floats(0.1, 10.0), st.floats(0.01, 0.99))
def test_the_slope_minimizes_the_loss(gap, v, share):
    pi, twice = np.array([share, 1.0 - share]), np.full((2, 2), gap)
    best = slope(twice, np.full((2, 2), v), pi, np.ones(2))
    x, mass = nodes()

    def loss(b):
        margin = b * (gap / 2 + np.sqrt(v) * x)
        odds = np.log(pi / pi[::-1])
        return sum(pi[k] * mass @ np.logaddexp(0, -(odds[k] + margin)) for k in (0, 1))

    assert loss(best) <= min(loss(best * (1 + e)) for e in (-1e-3, 1e-3)) + 1e-12
    assert best > 0


def test_nodes_are_quantiles_of_a_student_t():
    x, mass = nodes()
    tail = 1.0 / (1.0 + np.exp(np.linspace(-16.0, 16.0, len(x))))
    np.testing.assert_allclose(student.sf(x * np.sqrt(5.0 / 3.0), 5), tail, rtol=1e-8)
    assert abs(mass.sum() - 1.0) < 1e-15


@pytest.mark.slow
def test_margins_are_those_of_rows_that_were_left_out():
    """The mean margin of left-out rows, refitted one by one, against the one from moments."""
    X, y = stream(120, 4, 3, minority=0.3, seed=5)
    model = BalancedRidgeClassifier(scale=None, ridge=1e-9)
    X = X / X.std(axis=0)
    gap, v, seen = np.zeros((3, 3)), np.zeros((3, 3)), [[] for _ in range(3)]
    for i in range(len(y)):
        kept = np.arange(len(y)) != i
        g = model.fit(X[kept], y[kept]).decision_function(X[i : i + 1])[0]
        seen[y[i]].append(g[y[i]] - g)
    mean = np.array([np.mean(one, axis=0) for one in seen])
    gap, v = mean + mean.T, np.array([np.var(one, axis=0) for one in seen])
    model.fit(X, y)
    state, options = model._engine.state, model._engine.options
    pool = build_problem(state.moments, state.classes, options)
    found = _margins(pool, _score_moments(pool, linear(pool, 1e-9).coef, 1e-9))
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose(found[0][off], gap[off], rtol=0.05)
    np.testing.assert_allclose(found[1][off], v[off], rtol=0.1)


def test_probabilities_are_plausible_for_ten_separable_frauds():
    X = np.zeros((10_000, 1))
    X[:, 0] = np.random.default_rng(0).standard_normal(10_000) * 0.1
    y = (np.arange(10_000) % 1000 == 0).astype(int)
    X[y == 1] += 5.0
    p = BalancedRidgeClassifier().fit(X, y).predict_stream_proba(X)[:, 1]
    assert p[y == 1].min() > 0.3
    assert p[y == 0].max() < 0.01


@pytest.mark.parametrize("options", [{}, {"pooled_rows": 10.0}, {"multi_class": "ovr"}], ids=str)
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_predict_is_the_argmax(classes, options):
    X, y = stream(500, 4, classes)
    model = BalancedRidgeClassifier(**options).fit(X, y)
    far = np.vstack([X, 1e3 * X, -1e3 * X])
    p = model.predict_proba(far)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(far))
    for proba in (p, model.predict_stream_proba(far)):
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
        assert ((proba >= 0) & (proba <= 1)).all()


def test_stream_probabilities_follow_the_frequencies():
    """The feature is noise: only the frequency of each class remains."""
    rng = np.random.default_rng(0)
    y = (rng.random(20_000) < 0.03).astype(int)
    X = rng.standard_normal((20_000, 1))
    for options in (
        {},
        {"class_weight": None},
        {"class_factors": {1: 7.0}},
        {"class_weight": {1: 4.0}},
    ):
        model = BalancedRidgeClassifier(**options).fit(X, y)
        # Targets of unequal weight leave the linear range for class_weight=None.
        assert abs(model.predict_stream_proba(X)[:, 1].mean() - y.mean()) < 0.01


def test_stream_probabilities_beat_the_base_rate_on_a_rare_class():
    """The comparison with calibration is in benchmarks/proofs/probability.py."""
    rng = np.random.default_rng(0)
    y = (rng.random(40_000) < 0.01).astype(int)
    X = rng.standard_normal((40_000, 5))
    X[y == 1] += 1.0
    p = BalancedRidgeClassifier().fit(X[::2], y[::2]).predict_stream_proba(X[1::2])[:, 1]
    new, share = y[1::2], y[::2].mean()
    loss = -np.mean(np.where(new == 1, np.log(p), np.log(1 - p)))
    base = -np.mean(np.where(new == 1, np.log(share), np.log(1 - share)))
    assert loss < 0.75 * base
    assert np.mean((p - new) ** 2) < np.mean((share - new) ** 2)


def make_decaying_stream(rows=30_000, seed=0):
    """Return a stream in which the rate of the rare class rises from 2% to 20% half-way."""
    rng = np.random.default_rng(seed)
    rate = np.where(np.arange(rows) < rows // 2, 0.02, 0.2)
    y = (rng.random(rows) < rate).astype(int)
    X = rng.standard_normal((rows, 3))
    X[:, 0] += 1.5 * y
    return X, y


def test_class_frequencies_decay_with_the_rows():
    """Frequencies are those of recent rows: the mean probability is the rate of today."""
    X, y = make_decaying_stream()
    model = BalancedRidgeClassifier(half_life=300.0).fit(X, y)
    last = slice(25_000, None)
    today, ever = y[last].mean(), y.mean()
    p = model.predict_stream_proba(X[last])[:, 1].mean()
    assert abs(p - today) < 0.03  # 430 rows of the rare class are remembered: 5% of 0.2, and f
    assert abs(p - ever) > 0.04
    kept = BalancedRidgeClassifier().fit(X, y).predict_stream_proba(X[last])[:, 1].mean()
    assert abs(kept - ever) < 0.03  # without decay they are those of all rows


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_decayed_frequencies_do_not_depend_on_the_chunks(chunk, tmp_path):
    X, y = make_decaying_stream(3000)
    weight = np.random.default_rng(1).integers(0, 3, 3000).astype(float)
    whole = BalancedRidgeClassifier(half_life=50.0).fit(X, y, sample_weight=weight)
    model = BalancedRidgeClassifier(half_life=50.0)
    for i in range(0, 3000, chunk):
        part = slice(i, i + chunk)
        if chunk == 1 and i > 500:
            model.learn_one(X[i], y[i], weight[i])
        else:
            model.partial_fit(X[part], y[part], sample_weight=weight[part])
    assert_close(model.predict_stream_proba(X[:50]), whole.predict_stream_proba(X[:50]))
    # By definition: every row of the stream, decayed by the weight of the class that came after it.
    for k in (0, 1):
        later = np.append(np.cumsum((weight * (y == k))[::-1])[::-1][1:], 0.0)
        own = np.expm1(-np.log(2) / 50 * weight) / np.expm1(-np.log(2) / 50)
        entering = np.where(y == k, own, weight)
        stream = (entering * 2.0 ** (-later / 50)).sum()
        assert_close(whole._engine.state.moments.stream[k], stream)
    halves = [
        BalancedRidgeClassifier(half_life=50.0).fit(X[a], y[a], sample_weight=weight[a])
        for a in (slice(0, 1500), slice(1500, 3000))
    ]
    assert_close(
        halves[0].merge(halves[1]).predict_stream_proba(X[:50]), whole.predict_stream_proba(X[:50])
    )
    model.save(tmp_path / "m")
    again = BalancedRidgeClassifier.load(tmp_path / "m")
    np.testing.assert_array_equal(
        again.predict_stream_proba(X[:50]), model.predict_stream_proba(X[:50])
    )
