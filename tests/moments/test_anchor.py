"""The anchor follows the rows: wherever a stream goes, its moments keep their digits."""

import numpy as np
import pytest
import scipy.sparse as sp
from builders import assert_close

from counterpoise import BalancedRidgeClassifier, Moments

HALF_LIFE = 20.0


def jump(size, rows=10_000):
    """A stream whose level changes half-way; what is left of the first half is nothing."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 3))
    y = (rng.random(rows) < 0.4).astype(int)
    X[:, 0] += y
    X[rows // 2 :] += size
    return X, y


def learn_in_chunks(X, y, chunk):
    model = BalancedRidgeClassifier(half_life=HALF_LIFE)
    for i in range(0, len(y), chunk):
        model.partial_fit(X[i : i + chunk], y[i : i + chunk])
    return model


def learn_one_by_one(X, y):
    model = BalancedRidgeClassifier(half_life=HALF_LIFE).partial_fit(X[:20], y[:20])
    for x, label in zip(X[20:], y[20:], strict=True):
        model.learn_one(x, label)
    return model


def score_progressively(X, y):
    model = BalancedRidgeClassifier(half_life=HALF_LIFE)
    model.progressive_scores(X, y)
    return model


WAYS = {
    "events": learn_one_by_one,
    "progressive": score_progressively,
    "chunks of 7": lambda X, y: learn_in_chunks(X, y, 7),
    "chunks of 100": lambda X, y: learn_in_chunks(X, y, 100),
    "two chunks": lambda X, y: learn_in_chunks(X, y, 5000),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [1e6, 1e8, 1e10])
def test_rows_before_a_change_of_level_cost_no_digits(size, way):
    """The reference has learned the second half alone: the first has decayed to nothing.

    1e10 + x keeps six digits of x, also in the reference: both learn the same numbers.
    """
    X, y = jump(size)
    half = len(y) // 2
    fresh = BalancedRidgeClassifier(half_life=HALF_LIFE).fit(X[half:], y[half:])
    model = WAYS[way](X, y)
    mine, reference = model._engine.state.moments, fresh._engine.state.moments
    # Of the old level about 2^-100 is left, times its square: for the scatter 1e-10 at 1e10.
    rest = 2.0 ** -(np.bincount(y[half:]).min() / HALF_LIFE) * size**2
    assert np.abs(mine.C - reference.C).max() < 1e-11 + 100 * rest
    np.testing.assert_allclose(
        mine.mean + (mine.anchor - reference.anchor), reference.mean, atol=1e-11 + 100 * rest / size
    )
    assert np.abs(mine.mean).max() < 100.0
    if size < 1e10:
        reference.N[:] = mine.N  # counts do not decay, and are weights of the scaling
        assert_close(model.coef_, fresh.coef_, 1e-10)


def test_the_anchor_stays_where_rows_do_not_leave_it():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((5000, 3)) + [1e8, 0.0, -3.0], np.arange(5000) % 2
    X[:, 2] = np.arange(5000)  # a trend moves no anchor: the deviation grows with it
    model = BalancedRidgeClassifier()
    for i in range(0, 5000, 100):
        model.partial_fit(X[i : i + 100], y[i : i + 100])
    np.testing.assert_array_equal(model._engine.state.moments.anchor, X[0])


def test_moving_the_anchor_does_not_change_the_moments():
    """An outlier in front, then rows far from it: the anchor goes to them.

    Tolerances are those of a spread of 1e6.
    """
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3000, 2)), np.arange(3000) % 2
    X[0] = 1e6
    moments = Moments.of(X[:2], y[:2])
    for i in range(2, 3000, 50):
        moments += Moments.of(X[i : i + 50], y[i : i + 50])
    assert (np.abs(moments.anchor) < 1e5).all()
    for k in range(2):
        np.testing.assert_allclose(
            moments.mean[k] + moments.anchor, X[y == k].mean(axis=0), rtol=1e-13, atol=1e-10
        )
        np.testing.assert_allclose(moments.C[k], np.cov(X[y == k].T) * 1499, rtol=1e-12, atol=1e-4)


def test_a_moved_anchor_survives_a_file_bit_by_bit(tmp_path):
    X, y = jump(1e8, 2000)
    straight = learn_in_chunks(X, y, 50)
    resumed = learn_in_chunks(X[:1300], y[:1300], 50)
    resumed.save(tmp_path / "m")
    resumed = BalancedRidgeClassifier.load(tmp_path / "m")
    for i in range(1300, 2000, 50):
        resumed.partial_fit(X[i : i + 50], y[i : i + 50])
    assert (np.abs(straight._engine.state.moments.anchor - 1e8) < 1e7).all()
    for name in ("anchor", "mean", "C", "n", "stream"):
        one, two = (getattr(m._engine.state.moments, name) for m in (straight, resumed))
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("place", [0.0, 1e6, 1e9, 1e12])
def test_rows_far_from_zero_are_scored_alike_dense_and_sparse(place):
    """Two columns far away, in opposite directions: what they add to a score cancels."""
    X = np.random.default_rng(0).standard_normal((3000, 4))
    y = (X[:, 0] + X[:, 1] > 1.0).astype(int)
    X[:, 3] *= X[:, 3] > 1.0
    X[:, 0] += place
    X[:, 2] -= place
    model = BalancedRidgeClassifier().fit(X, y)
    sparse = model.decision_function(sp.csr_array(X))
    np.testing.assert_allclose(sparse, model.decision_function(X), rtol=0, atol=1e-14)
