"""Progressive scores = refitting from scratch before each row."""

import numpy as np
import pytest
from builders import assert_progressive, data_set, score_by_refit, stream
from hypothesis import given
from hypothesis import strategies as st

from counterpoise import BalancedRidgeClassifier
from counterpoise.stepwise import progressive

OPTIONS = [
    {},
    {"class_weight": None},
    {"class_weight": {1: 4.0}},
    {"class_factors": {0: 3.0}},
    {"scale": None},
    {"penalize_intercept": False},
    {"fit_intercept": False},
    {"half_life": 30.0},
    {"half_life": 30.0, "class_weight": None, "scale": None},
    {"ridge": 1.0},
    {"multi_class": "ovr"},
    {"pooled_rows": 0.0},
    {"pooled_rows": 3.0, "half_life": 30.0},
    {"ridge": "gcv"},
]


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_progressive_scores_of_every_option_equal_refits(options, classes):
    X, y = stream(120, 4, classes, minority=0.2, seed=classes)
    first = 20 if options.get("ridge") == "gcv" else 0  # with few rows the criterion is flat
    assert_progressive(X, y, options, rows=range(first, 120))


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0, 9])
@pytest.mark.parametrize("classes", [2, 3, 10, 26])
@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"multi_class": "ovr"},
        {"pooled_rows": 0.0},
        {"pooled_rows": 3.0},
        {"pooled_rows": 100.0},
    ],
    ids=str,
)
def test_progressive_scores_of_several_classes_equal_refits(shape, classes, delay):
    """From the first row on, while most classes are still to come."""
    X, y = stream(160, 4, classes, minority=0.5 / classes, seed=classes)
    order = np.random.default_rng(0).permutation(160)
    rows = np.unique(np.concatenate([np.arange(30), np.arange(30, 160, 11)]))
    assert_progressive(X[order], y[order], shape, delay=delay, rows=rows)
    weights = {"class_weight": None, "class_factors": {1: 3.0}, "half_life": 15.0}
    assert_progressive(X[order], y[order], shape | weights, delay=delay, rows=rows[::5])


@pytest.mark.slow
@pytest.mark.parametrize("delay", [1, 7, 500])
def test_progressive_scores_with_late_labels_equal_refits(delay):
    X, y = stream(150, 3, minority=0.2)
    assert_progressive(X, y, delay=delay)
    model = BalancedRidgeClassifier()
    model.progressive_scores(X, y, delay=delay)
    np.testing.assert_allclose(model.coef_, BalancedRidgeClassifier().fit(X, y).coef_, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 3, 5, 8, 13, 22, 40, 72, 110, 200])
def test_progressive_scores_of_every_width_equal_refits(d):
    X, y = stream(400, d, minority=0.2, seed=d)
    rows = np.unique(np.concatenate([np.arange(30), np.arange(30, 400, 7)]))
    assert_progressive(X, y, rows=rows)


@pytest.mark.slow
@pytest.mark.parametrize("d", [3, 40])
def test_progressive_scores_of_awkward_streams_equal_refits(d):
    rng = np.random.default_rng(d)
    X, y = stream(300, d, minority=0.3, seed=d)
    order = np.argsort(y, kind="stable")
    rows = range(0, 300, 5)
    assert_progressive(X[order], y[order], rows=rows)  # begins with one class only
    assert_progressive(X[order[::-1]], y[order[::-1]], rows=rows)
    assert_progressive(X[rng.integers(0, 10, 300)], y, rows=rows)  # ten rows again and again
    collinear = np.column_stack([X, X[:, 0], X[:, 1] - X[:, 0], np.full(300, 5.0)])
    assert_progressive(collinear, y, rows=rows)
    assert_progressive(X + 1e6, y, rows=rows)
    far = X / X.std(axis=0) + 1e6
    assert_progressive(far, y, {"scale": None}, rows=rows, tolerance=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ozone-eight", "spambase"])
def test_progressive_scores_of_real_streams_equal_refits(name):
    X, y = data_set(name)
    order = np.random.default_rng(0).permutation(len(y))
    assert_progressive(X[order], y[order], rows=range(0, len(y), 61))


@pytest.mark.slow
def test_progressive_scores_of_a_long_stream_equal_refits_on_a_sample():
    X, y = data_set("ijcnn1")
    assert_progressive(X, y, rows=range(0, len(y), 14_001))


@pytest.mark.slow
@given(seed=st.integers(0, 1000), at=st.integers(1, 99))
def test_progressive_scores_continue_after_earlier_rows(seed, at):
    X, y = stream(100, 3, minority=0.3, seed=seed)
    whole, parts = BalancedRidgeClassifier(), BalancedRidgeClassifier()
    scores = whole.progressive_scores(X, y)
    one = parts.progressive_scores(X[:at], y[:at], classes=[0, 1])
    two = parts.progressive_scores(X[at:], y[at:])
    np.testing.assert_allclose(np.concatenate([one, two]), scores, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-9)


def test_progressive_scores_learn_like_partial_fit():
    X, y = stream(500, 6, 3)
    model = BalancedRidgeClassifier()
    model.progressive_scores(X, y)
    fitted = BalancedRidgeClassifier().fit(X, y)
    np.testing.assert_allclose(model.coef_, fitted.coef_, rtol=1e-10)
    model.unlearn(X[:100], y[:100])
    np.testing.assert_allclose(model.coef_, fitted.unlearn(X[:100], y[:100]).coef_, rtol=1e-9)


def test_ridge_zero_falls_back_where_the_system_is_singular():
    X, y = stream(60, 3, minority=0.3)
    options = {"ridge": 0.0}
    with pytest.warns(UserWarning, match="collinear"):
        scores = BalancedRidgeClassifier(**options).progressive_scores(X, y)
    with pytest.warns(UserWarning, match="collinear"):
        expected = [score_by_refit(X, y, t, options)[0] for t in range(60)]
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("options", [o for o in OPTIONS if o.get("ridge") != "gcv"], ids=str)
def test_blocks_of_every_option_equal_refits(options, monkeypatch):
    """Blocks for narrow rows too, so that every option meets them."""
    monkeypatch.setattr(progressive, "MIN_FEATURES_FOR_BLOCKS", 1)
    X, y = stream(400, 6, minority=0.15, seed=4)
    if options.get("scale", 0) is None:
        X = X / X.std(axis=0)
    assert_progressive(X, y, options, rows=range(0, 400, 3))
    assert_progressive(X, y, options, delay=5, rows=range(0, 400, 9))


@pytest.mark.slow
def test_blocks_of_an_imbalanced_stream_with_a_late_class_equal_refits(monkeypatch):
    for wide in (1, 1000):
        monkeypatch.setattr(progressive, "MIN_FEATURES_FOR_BLOCKS", wide)
        X, y = stream(3000, 5, minority=0.01, seed=2)
        y[:2000] = 0
        y[[2000, 2100, 2900]] = 1
        assert_progressive(X, y, rows=range(1990, 3000, 13))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"ridge": 1.0}], ids=str)
@pytest.mark.parametrize("factor", [1e3, 1e4])
@pytest.mark.parametrize("where", [slice(330, 331), slice(330, None)], ids=["outlier", "jump"])
def test_streams_that_jump_within_a_block_equal_refits(where, factor, options):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 100))
    y = (X[:, 0] + 0.5 * rng.standard_normal(400) > 0.5).astype(int)
    X[where] *= factor
    # Two refits in opposite order differ by 1e-7 at a jump of 1e4: the problem itself is that bad.
    assert_progressive(X, y, options, rows=range(320, 400, 3), tolerance=1e-6)


def test_a_block_that_starts_with_a_singular_system_equals_refits():
    """Ridge 0 and a feature that is constant until row 64: the slow path takes every such step."""
    X, y = stream(140, 2, minority=0.3)
    X = np.column_stack([X, np.where(np.arange(140) < 70, 1.0, X[:, 0] ** 2)])
    with pytest.warns(UserWarning, match="collinear"):
        scores = BalancedRidgeClassifier(ridge=0.0).progressive_scores(X, y)
    assert abs(scores[139] - score_by_refit(X, y, 139, {"ridge": 0.0})[0]) < 1e-6


def test_bad_input_does_not_change_the_model():
    X, y = stream(30, 3)
    model = BalancedRidgeClassifier().fit(X, y)
    before = model.coef_
    bad = X.copy()
    bad[4, 2] = np.inf
    with pytest.raises(ValueError, match="feature 2 is inf at row 4"):
        model.progressive_scores(bad, y)
    with pytest.raises(ValueError, match="delay=-2"):
        model.progressive_scores(X, y, delay=-2)
    with pytest.raises(ValueError, match="2 features"):
        model.progressive_scores(X[:, :2], y)
    np.testing.assert_array_equal(model.coef_, before)
