"""Products of rows, by whichever loop is meant for their width: those that NumPy finds."""

import numpy as np
import pytest

from counterpoise.moments._moments import describe_nonzero
from counterpoise.moments.moments import Moments


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("d", [1, 3, 7, 8, 9, 31, 64, 96, 97, 130, 512, 513])
@pytest.mark.parametrize("n", [2, 5, 700])
def test_scatters_equal_those_of_centered_rows(n, d, weighted):
    rng = np.random.default_rng(n + d)
    X, y = rng.standard_normal((n, d)) + 5.0, np.arange(n) % 2
    w = rng.integers(1, 5, n) / 2.0 if weighted else np.ones(n)
    seen = Moments.of(X, y, w if weighted else None)
    for k in range(2):
        rows, weight = X[y == k], w[y == k]
        mean = weight @ rows / weight.sum()
        C = (rows - mean).T @ (weight[:, None] * (rows - mean))
        # Rounding of n products, on a scale of one deviation.
        assert np.abs(seen.C[k] - C).max() <= 1e-12 * max(n, 10)
        assert np.array_equal(seen.C[k], seen.C[k].T)
        assert np.abs(seen.anchor + seen.mean[k] - mean).max() <= 1e-13 * max(n, 10)


def test_rows_far_from_their_sample_are_centered_again():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 20))
    X[np.arange(4000) % 15 != 0] += 1e6  # every row outside the sample, which is every 15th
    seen = Moments.of(X, np.zeros(4000, dtype=int))
    exact = (X - X.mean(axis=0)).T @ (X - X.mean(axis=0))
    assert np.abs(seen.C[0] - exact).max() <= 1e-12 * np.abs(exact).max()


@pytest.mark.parametrize("offset", [0.0, 3.0])
def test_values_that_are_not_0_are_described_by_their_own_mean_and_deviation(offset):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((500, 6)) + offset, np.arange(500) % 3
    X *= rng.random((500, 6)) < [1.0, 0.9, 0.5, 0.1, 0.01, 0.0]
    X[0, :5], X[1:, 4] = 1.0, 0.0
    mean, deviation, weight = describe_nonzero(Moments.of(X, y))
    for j, x in enumerate(X.T):
        values = x[x != 0.0]
        assert weight[j] == len(values)
        if len(values):  # rounding of 500 sums, on a scale of few deviations
            assert abs(mean[j] - values.mean()) <= 1e-12
            assert abs(deviation[j] ** 2 - values.var()) <= 1e-11
        else:
            assert mean[j] == deviation[j] == 0.0
