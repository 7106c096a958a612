"""Several threads score a stream as one does."""

import threading

import numpy as np
import pytest
from builders import assert_close, stream

from counterpoise import BalancedRidgeClassifier
from counterpoise.feature_maps import WARMUP
from counterpoise.stepwise import progressive


@pytest.fixture(autouse=True)
def short_parts(monkeypatch):
    monkeypatch.setattr(progressive, "MIN_ROWS_PER_PART", 20)


def assert_same(X, y, n_jobs, delay=0, past=0, **options):
    """Compare scores and the final model with those of one thread."""
    one, several = BalancedRidgeClassifier(**options), BalancedRidgeClassifier(**options)
    if past:
        for model in (one, several):
            model.partial_fit(X[:past], y[:past])
    expected = one.progressive_scores(X[past:], y[past:], delay=delay)
    found = several.progressive_scores(X[past:], y[past:], delay=delay, n_jobs=n_jobs)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
    assert_close(several.decision_function(X), one.decision_function(X), 1e-9)
    np.testing.assert_allclose(several.class_count_, one.class_count_)


@pytest.mark.parametrize("d", [4, 60])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"class_weight": None, "fit_intercept": False},
        {"half_life": 30.0},
        {"half_life": {0: 30.0, 1: 10.0}},
    ],
    ids=str,
)
def test_threads_change_no_result_of_any_option(options, d):
    X, y = stream(260, d, minority=0.3)
    for n_jobs, delay, past in ((2, 0, 0), (3, 7, 10), (2, 200, 0)):
        assert_same(X, y, n_jobs, delay, past, **options)


@pytest.mark.parametrize(
    "options", [{"feature_map": "rm2"}, {"feature_map": "hinges", "half_life": 90.0}]
)
def test_threads_change_no_result_of_fixed_maps(options):
    X, y = stream(WARMUP + 200, 3, minority=0.3)
    assert_same(X, y, 2, past=WARMUP, **options)
    assert_same(X, y, 3, delay=11, past=WARMUP, **options)


@pytest.mark.parametrize("options", [{}, {"multi_class": "ovr"}, {"pooled_rows": 3.0}], ids=str)
def test_threads_change_no_result_of_late_classes(options):
    X, y = stream(300, 4, classes=4, minority=0.2)
    order = np.argsort(y, kind="stable")  # one class after the other: parts begin without some
    assert_same(X[order], y[order], 3, delay=5, **options)


def test_all_cores_can_be_used():
    X, y = stream(300, 4)
    assert_same(X, y, -1)


def test_fewer_rows_than_threads_are_accepted():
    X, y = stream(5, 2)
    assert_same(X, y, 8)


@pytest.mark.parametrize("n_jobs", [0, 1.5, "two", True])
def test_invalid_numbers_of_threads_are_refused(n_jobs):
    X, y = stream(30, 2)
    model = BalancedRidgeClassifier()
    with pytest.raises(ValueError, match="n_jobs must be None, a number of threads, or -1"):
        model.progressive_scores(X, y, n_jobs=n_jobs)
    assert not hasattr(model, "state_")


def test_a_failed_thread_stops_the_others(monkeypatch):
    """The first part waits for being halted, and the second one fails."""
    X, y = stream(200, 3)
    model = BalancedRidgeClassifier().fit(X, y)
    before = model.coef_.copy()
    waiting, real = threading.Event(), progressive.progressive_scores

    def scores(*given):
        rows, halt = given[3], given[-1]
        if np.array_equal(rows[0], X[0]):
            waiting.set()
            halt.wait()
            return real(*given)
        waiting.wait()
        raise MemoryError("out of memory")

    monkeypatch.setattr(progressive, "progressive_scores", scores)
    with pytest.raises(MemoryError, match="out of memory"):
        model.progressive_scores(X, y, n_jobs=2)
    np.testing.assert_array_equal(model.coef_, before)
