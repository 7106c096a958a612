"""What forgetting costs in digits: the estimate, the warning and the refusal are right."""

import warnings

import numpy as np
import pandas as pd
import pytest
from samples import stream

from counterpoise import BalancedRidgeClassifier, Moments, PrecisionWarning


def true_error(model, X, y):
    """Distance of the coefficients from those of a fresh fit on what remains."""
    fresh = BalancedRidgeClassifier(**model.get_params()).fit(X, y).coef_
    return np.linalg.norm(model.coef_ - fresh) / np.linalg.norm(fresh)


def with_outlier(size, feature=1):
    X, y = stream(1000, 4, minority=0.2, seed=1)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    row = X[:1].copy()
    row[0, feature] = size
    return X, y, row


@pytest.mark.parametrize("size", 10.0 ** np.arange(1, 11))
def test_an_outlier_learned_and_forgotten(size):
    """Silent below 1e-8, a warning up to 1e-3, an error and an unchanged model above."""
    X, y, row = with_outlier(size)
    model = BalancedRidgeClassifier().partial_fit(X, y).partial_fit(row, [1])
    before = model.coef_, model.intercept_, model.class_count_
    refusal = ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.forget(row, [1])
        except ValueError as error:
            refusal = str(error)
    if refusal:
        assert "feature 1" in refusal
        after = model.coef_, model.intercept_, model.class_count_
        for was, now in zip(before, after, strict=True):
            np.testing.assert_array_equal(was, now)
        assert size >= 1e6  # refused no earlier than rounding demands
        return
    error = true_error(model, X, y)
    if caught:
        assert caught[0].category is PrecisionWarning
        assert "feature 1" in str(caught[0].message)
        assert error < 1e-2
    else:
        assert error < 1e-8
    assert size <= 1e8


def test_the_estimate_is_of_the_size_of_the_error():
    for size in 10.0 ** np.arange(2, 7):
        X, y, row = with_outlier(size)
        seen = Moments.of(X, y)
        left = seen + Moments.of(row, [1]) - Moments.of(row, [1])
        error = abs(left.C[1, 1, 1] - seen.C[1, 1, 1]) / seen.C[1, 1, 1]
        estimate = left.lost()[1]
        assert error <= 10 * estimate
        assert left.lost()[0] < 1e-13  # the other features lost nothing


def test_nearly_everything_forgotten():
    X, y = stream(50_050, 6, minority=0.05, seed=2)
    model = BalancedRidgeClassifier()
    for i in range(0, len(y), 1000):
        model.partial_fit(X[i : i + 1000], y[i : i + 1000])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(50, len(y), 500):
            model.forget(X[i : i + 500], y[i : i + 500])
    assert true_error(model, X[:50], y[:50]) < 1e-8


@pytest.mark.slow
def test_learning_and_forgetting_by_turns_returns():
    """The long version is ``make prove``."""
    X, y = stream(500, 5)
    rng = np.random.default_rng(0)
    model = BalancedRidgeClassifier().fit(X, y)
    for _ in range(500):
        row, label = 3.0 * rng.standard_normal((1, 5)), rng.integers(0, 2, 1)
        model.partial_fit(row, label).forget(row, label)
    assert true_error(model, X, y) < 1e-11


def test_forgetting_in_other_portions_than_learned():
    X, y = stream(300, 3)
    weight = np.random.default_rng(0).uniform(0.1, 3.0, 300)
    model = BalancedRidgeClassifier().fit(X, y, sample_weight=weight)
    model.forget(X[200:], y[200:], sample_weight=0.25 * weight[200:])
    model.forget(X[200:], y[200:], sample_weight=0.75 * weight[200:])
    fresh = BalancedRidgeClassifier().fit(X[:200], y[:200], sample_weight=weight[:200])
    np.testing.assert_allclose(model.coef_, fresh.coef_, rtol=1e-10)


def test_a_class_that_is_forgotten_whole_is_gone():
    X, y = stream(300, 3, 3)
    model = BalancedRidgeClassifier().fit(X, y)
    model.forget(X[y == 2], y[y == 2])
    assert model.classes_.tolist() == [0, 1]
    fresh = BalancedRidgeClassifier().fit(X[y != 2], y[y != 2])
    np.testing.assert_allclose(model.coef_, fresh.coef_, rtol=1e-10)


def test_forgetting_everything_and_starting_again():
    X, y = stream(50, 3)
    model = BalancedRidgeClassifier().fit(X, y).forget(X, y)
    assert not model.__sklearn_is_fitted__()
    with pytest.raises(ValueError, match="forgotten it all"):
        model.predict(X)
    model.partial_fit(X, y)
    np.testing.assert_allclose(model.coef_, BalancedRidgeClassifier().fit(X, y).coef_, rtol=1e-10)


@pytest.mark.parametrize("weight", [1.0, 0.37])
@pytest.mark.parametrize("heavy", 10.0 ** np.array([8, 10, 11, 13, 15, 18, 30]))
def test_a_heavy_row_forgotten_never_takes_its_class_along(heavy, weight):
    """What is left is judged by its own digits, not by its share of what was."""
    X, y = stream(200, 3, minority=0.5)
    weights, row = np.full(200, weight), X[1:2]
    model = BalancedRidgeClassifier().fit(X, y, sample_weight=weights)
    model.partial_fit(row, [1], sample_weight=[heavy])
    before = model.coef_, model.class_count_
    refused = ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.forget(row, [1], sample_weight=[heavy])
        except ValueError as error:
            refused = str(error)
    if refused:
        assert "three correct digits" in refused
        assert heavy >= 1e13
        np.testing.assert_array_equal(model.coef_, before[0])
        np.testing.assert_array_equal(model.class_count_, before[1])
        return
    assert heavy <= 1e14
    fresh = BalancedRidgeClassifier().fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model.class_count_, fresh.class_count_, rtol=1e-3)
    assert np.linalg.norm(model.coef_ - fresh.coef_) / np.linalg.norm(fresh.coef_) < (
        1e-2 if caught else 1e-8
    )


def test_an_indicator_of_light_rows_survives_a_heavy_one():
    """The count of rows that are not 0 is also judged by what is left of it."""
    X = np.column_stack([np.tile([0.0, 1.0, 0.0], 40), np.arange(120.0)])
    y = np.arange(120) % 2
    kept, heavy = Moments.of(X, y), Moments.of([[1.0, 5.0]], [1], [1e13])
    left = kept + heavy - heavy
    np.testing.assert_allclose(left.C[1], kept.C[1], rtol=1e-2)
    np.testing.assert_allclose(left.away[1], kept.away[1], rtol=1e-2)


@pytest.mark.slow
def test_a_window_that_slides_over_a_trend_keeps_its_digits():
    """The anchor follows, and what is lost on the way is known."""
    rng = np.random.default_rng(0)
    X = np.arange(4000.0)[:, None] + rng.standard_normal((4000, 1))
    y = np.arange(4000) % 2
    window = Moments.of(X[:20], y[:20])
    for i in range(20, 4000, 2):
        window += Moments.of(X[i : i + 2], y[i : i + 2])
        window = window - Moments.of(X[i - 20 : i - 18], y[i - 20 : i - 18])
    fresh = Moments.of(X[-20:], y[-20:])
    error = np.abs(window.C - fresh.C).max() / fresh.C.max()
    assert error < 1e-10
    assert error < 10 * window.lost()[0]
    assert np.abs(window.mean).max() < 100.0


def test_what_a_removal_may_have_cost_is_in_the_file(tmp_path):
    X, y = stream(200, 3)
    model = BalancedRidgeClassifier().fit(X, y).forget(X[:50], y[:50])
    model.save(tmp_path / "m")
    again = BalancedRidgeClassifier.load(tmp_path / "m")
    np.testing.assert_array_equal(again.state_.moments.removed, model.state_.moments.removed)
    assert again.state_.moments.removed.any()


def test_a_class_that_is_gone_leaves_no_name():
    X, y = stream(300, 3, 3)
    model = BalancedRidgeClassifier().fit(X, np.array(["a", "b", "secret"])[y])
    model.forget(X[y == 2], np.full((y == 2).sum(), "secret"))
    assert model.state_.moments.labels.tolist() == ["a", "b"]
    assert model.contents().facts["labels"]["values"] == ["a", "b"]


def test_a_model_that_has_forgotten_everything_knows_no_name():
    X, y = stream(30, 2)
    frame = pd.DataFrame(X, columns=["secret", "other"])
    model = BalancedRidgeClassifier().fit(frame, y).forget(frame, y)
    assert not hasattr(model, "feature_names_in_")
    again = model.partial_fit(pd.DataFrame(np.c_[X, X], columns=["a", "b", "c", "d"]), y)
    assert again.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert again.coef_.shape == (1, 4)
