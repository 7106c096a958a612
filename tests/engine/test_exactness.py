"""Streamed = batch: the reference is scikit-learn's RidgeClassifier with all rows in memory."""

from fractions import Fraction

import numpy as np
import pytest
from builders import assert_close, batch_scores, center_scores, data_set, shrinking, stream
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from counterpoise import BalancedRidgeClassifier

INTERCEPTS = {
    "penalized": {},
    "free": {"penalize_intercept": False},
    "none": {"fit_intercept": False},
}


def fit_in_chunks(X, y, chunk=37, **options):
    model = BalancedRidgeClassifier(**options)
    for i in range(0, len(y), chunk):
        model.partial_fit(X[i : i + chunk], y[i : i + chunk])
    return model


def late(y, rare):
    """An order in which a class first appears in the last tenth of the stream."""
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    others, them = order[y[order] != rare], order[y[order] == rare]
    at = int(0.9 * len(y))
    return np.concatenate([others[:at], rng.permutation(np.concatenate([others[at:], them]))])


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("scale", ["standard", None])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_random_streams_with_a_class_that_comes_late(classes, scale, intercept):
    X, y = stream(2000, 8, classes, minority=0.08, seed=classes)
    if scale is None:  # units that a user without a scaler would have chosen
        X = X / X.std(axis=0)
    order = late(y, classes - 1)
    X, y = X[order], y[order]
    assert classes - 1 not in y[: int(0.9 * len(y))]
    for ridge in ("auto", 1e-4):
        model = fit_in_chunks(X, y, ridge=ridge, scale=scale, **INTERCEPTS[intercept])
        batch = batch_scores(X, y, X, None if ridge == "auto" else ridge, scale, intercept)
        assert_close(center_scores(model.decision_function(X)), batch)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("classes", [3, 10])
def test_each_class_against_a_balanced_rest(classes, intercept):
    X, y = stream(2000, 8, classes, minority=0.08, seed=classes)
    model = fit_in_chunks(X, y, ridge=1e-2, multi_class="ovr", **INTERCEPTS[intercept])
    batch = batch_scores(X, y, X, 1e-2, "standard", intercept, "ovr")
    assert_close(model.decision_function(X), batch)


REAL = {
    "breast cancer": load_breast_cancer,
    "wine": load_wine,
    "digits": load_digits,
}


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("name", REAL)
def test_real_streams(name, intercept):
    X, y = REAL[name](return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    model = fit_in_chunks(X[order], y[order], **INTERCEPTS[intercept])
    batch = batch_scores(X, y, X, None, "standard", intercept)
    assert_close(center_scores(model.decision_function(X)), batch)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("name", ["ozone-eight", "spambase", "pima-diabetes", "statlog-german"])
def test_sets_of_the_paper(name, intercept):
    X, y = data_set(name)
    model = fit_in_chunks(X, y, 100, **INTERCEPTS[intercept])
    assert_close(model.decision_function(X), batch_scores(X, y, X, intercept=intercept))


def test_coefficients_are_those_of_the_batch_solver_in_input_units():
    X, y = stream(1000, 6)
    scaler = StandardScaler().fit(X)
    batch = Ridge(alpha=shrinking(y), fit_intercept=False, solver="cholesky")
    design = np.column_stack([np.ones(len(X)), scaler.transform(X)])
    weight = 1.0 / np.bincount(y)[y]
    w = batch.fit(design, 2.0 * y - 1.0, sample_weight=weight).coef_
    model = fit_in_chunks(X, y)
    assert_close(model.coef_[0], w[1:] / scaler.scale_)
    assert_close(model.intercept_[0], w[0] - w[1:] @ (scaler.mean_ / scaler.scale_))


def test_equal_to_the_batch_solution_after_every_sample():
    X, y = stream(120, 4)
    model = BalancedRidgeClassifier()
    for t in range(len(y)):
        model.partial_fit(X[t : t + 1], y[t : t + 1])
        if len(np.unique(y[: t + 1])) == 2 and t > 5:
            batch = batch_scores(X[: t + 1], y[: t + 1], X)
            assert_close(model.decision_function(X), batch)


def test_without_class_weights_it_is_ridge_regression_on_plus_and_minus_one():
    X, y = stream(500, 5)
    Z = StandardScaler().fit_transform(X)
    design = np.column_stack([np.ones(len(Z)), Z])
    ridge = Ridge(alpha=3.0, fit_intercept=False, solver="cholesky").fit(design, 2 * y - 1)
    model = fit_in_chunks(X, y, class_weight=None)
    assert_close(model.decision_function(X), ridge.predict(design))


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_the_gradient_of_the_objective_is_zero(intercept):
    """Costs and sample weights, three classes: the objective written out, no solver involved."""
    X, y = stream(400, 4, 3)
    omega = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    costs, b = {1: 3.0}, 1e-2
    options = {"ridge": b, "class_factors": costs, "multi_class": "ovr"}
    model = BalancedRidgeClassifier(**options, **INTERCEPTS[intercept])
    model.fit(X, y, sample_weight=omega)
    m = omega @ X / omega.sum()
    s = np.sqrt(omega @ (X - m) ** 2 / omega.sum())
    phi = np.column_stack([np.ones(len(X)), (X - m) / s])
    n = np.bincount(y, omega)
    for j in range(3):
        positive = y == j
        alpha = np.where(positive, 1.0, 0.5) / n[y] * omega
        alpha *= np.where(y == 1, costs[1], 1.0)
        w = model.coef_[j] * s
        w_0 = model.decision_function(m[None])[0, j]
        w = np.concatenate([[w_0], w])
        residual = phi @ w - np.where(positive, 1.0, -1.0)
        penalty = np.full(5, b)
        penalty[0] = b if intercept == "penalized" else 0.0
        gradient = phi.T @ (alpha * residual) + penalty * w
        if intercept == "none":
            assert abs(w_0) < 1e-13
            gradient = gradient[1:]
        assert np.abs(gradient).max() < 1e-12


def test_a_constant_feature_at_any_offset_is_constant_and_a_varying_one_is_not():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 3))
    y = (X[:, 0] + 0.5 * rng.standard_normal(500) > 1).astype(int)
    X[:, 1] = 0.1
    far = X + [0.0, 1e9, 1e8]
    model, near = fit_in_chunks(far, y), fit_in_chunks(X, y)
    assert model.coef_[0, 1] == 0.0
    # 1e8 + x keeps eight digits of x.
    assert_close(model.coef_[0], near.coef_[0], 1e-6)
    assert_close(model.decision_function(far), near.decision_function(X), 1e-6)


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_an_offset_without_scaling_keeps_its_digits(intercept):
    """The reference uses exact rationals: the batch solver in doubles loses these digits."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3)) + 1e6
    y = (X[:, 0] - 1e6 + 0.5 * rng.standard_normal(80) > 0.5).astype(int)
    phi = np.vectorize(Fraction, otypes=[object])(X)
    ridge = Fraction(3, 2) * sum(Fraction(1, int(n)) for n in np.bincount(y))
    penalty = np.full(3, ridge)
    if intercept != "none":
        phi = np.column_stack([np.full(len(X), Fraction(1)), phi])
        penalty = np.concatenate([[ridge * (intercept == "penalized")], penalty])
    alpha = np.array([Fraction(1, int(n)) for n in np.bincount(y)])[y]
    R = (phi * alpha[:, None]).T @ phi + np.diag(penalty)
    z = phi.T @ (alpha * np.where(y == 1, 1, -1))
    model = fit_in_chunks(X, y, scale=None, **INTERCEPTS[intercept])
    assert_close(model.decision_function(X), (phi @ gauss(R, z)).astype(float), 1e-9)


def gauss(A, right):
    """Solve in whatever numbers the arguments are."""
    A, right = A.copy(), right.copy()
    for i in range(len(A)):
        for j in range(i + 1, len(A)):
            factor = A[j, i] / A[i, i]
            A[j] -= factor * A[i]
            right[j] -= factor * right[i]
    x = np.zeros_like(right)
    for i in range(len(A) - 1, -1, -1):
        x[i] = (right[i] - A[i, i + 1 :] @ x[i + 1 :]) / A[i, i]
    return x


def test_never_drifting_in_small():
    """The long version is ``make prove``."""
    X, y = stream(200_000, 10, minority=0.01)
    model = BalancedRidgeClassifier()
    rng, at = np.random.default_rng(0), 0
    while at < len(y):
        step = int(10 ** rng.uniform(0, 4))
        model.partial_fit(X[at : at + step], y[at : at + step])
        at += step
    assert_close(model.decision_function(X[:1000]), batch_scores(X, y, X[:1000]))
