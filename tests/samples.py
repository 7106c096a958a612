"""Labelled samples to draw from, a batch solver that nobody here wrote, and how close is close."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from sklearn.linear_model import RidgeClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from counterpoise.datasets import load

settings.register_profile("laws", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("laws")

# Orders of summation differ in the last digits, and a solver multiplies that by the condition
# number, here below 1e4: 1e-10 leaves a factor of 100.
TOLERANCE = 1e-10


@st.composite
def labelled_samples(draw, d=None, most=40, classes=3, weighted=False):
    """Rows (well-conditioned by construction, in odd units), labels and perhaps weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = draw(st.integers(1, most))
    d = draw(st.integers(1, 5)) if d is None else d
    unit = 10.0 ** rng.integers(-3, 4, d)
    X = (rng.standard_normal((rows, d)) + rng.integers(-3, 4, d)) * unit
    y = rng.integers(0, classes, rows)
    if weighted:
        return X, y, rng.integers(0, 4, rows).astype(float)
    return X, y


def stream(rows=300, d=5, classes=2, minority=0.1, seed=0):
    """An imbalanced stream: class k about a mean of its own, the last class rare."""
    rng = np.random.default_rng(seed)
    share = np.full(classes, (1.0 - minority) / (classes - 1))
    share[-1] = minority
    y = rng.choice(classes, rows, p=share)
    y[:classes] = np.arange(classes)
    X = rng.standard_normal((rows, d)) + rng.standard_normal((classes, d))[y]
    return X * 10.0 ** rng.integers(-2, 3, d) + 3.0, y


def assert_close(one, two, tolerance=TOLERANCE):
    """Relative difference in norm."""
    one, two = np.asarray(one), np.asarray(two)
    assert one.shape == two.shape
    scale = max(np.linalg.norm(two), 1e-300)
    assert np.linalg.norm(one - two) <= tolerance * scale, np.linalg.norm(one - two) / scale


def assert_same_model(one, two, tolerance=TOLERANCE):
    """Equal classes and counts, and equal scores at the centre of the data and around it."""
    np.testing.assert_array_equal(one.classes_, two.classes_)
    np.testing.assert_allclose(one.class_count_, two.class_count_, rtol=1e-12)
    assert_close(one.coef_, two.coef_, tolerance)
    assert_close(one.intercept_, two.intercept_, tolerance)


def batch_scores(X, y, at, ridge=1e-4, scale="standard", intercept="penalized"):
    """Scores of scikit-learn's RidgeClassifier after scikit-learn's scaler, rows in memory."""
    scalers = {"standard": StandardScaler(), "minmax": MinMaxScaler()}
    Z, Z_at = X, at
    if scale is not None:
        scaler = scalers[scale].fit(X)
        Z, Z_at = scaler.transform(X), scaler.transform(at)
    if intercept == "penalized":
        Z, Z_at = (np.column_stack([np.ones(len(A)), A]) for A in (Z, Z_at))
    solver = RidgeClassifier(
        alpha=ridge * len(Z) / 2,
        class_weight="balanced",
        fit_intercept=intercept == "free",
        solver="cholesky",
    )
    if len(np.unique(y)) > 2:
        solver = OneVsRestClassifier(solver)
    return solver.fit(Z, y).decision_function(Z_at)


def data_set(name):
    """One of the paper's sets, if COUNTERPOISE_DATA says where they are."""
    try:
        return load(name)
    except FileNotFoundError as error:
        pytest.skip(str(error))
