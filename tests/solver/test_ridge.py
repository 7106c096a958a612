"""The solver: the ridge path, its choice, and problems with many solutions."""

import numpy as np
import pytest
from builders import assert_close, stream

from counterpoise import BalancedRidgeClassifier, Moments
from counterpoise.moments.classes import Classes
from counterpoise.solver.class_weights import affine, class_total_weights, targets
from counterpoise.solver.options import Options
from counterpoise.solver.ridge import RidgeSystems, choose_ridge, decaying_ridge
from counterpoise.solver.scores import MAX_FEATURES_FULL_EIGEN, _extreme_eigenvalues, condition

INTERCEPTS = ["penalized", "free", "none"]


def systems(X, y, intercept, class_weight="balanced", scale="standard", weight=None):
    moments = Moments.of(X, y, weight)
    c = targets(len(moments.labels))
    a = class_total_weights(moments.labels, moments.N, c, class_weight, None)
    m, s = affine(moments, scale)
    return RidgeSystems.of(moments, m, s, a, c[:, None], intercept)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("scale", ["standard", None])
def test_the_path_passes_through_every_solution(scale, intercept):
    X, y = stream(100, 4)
    system = systems(X, y, intercept, scale=scale)
    b = np.array([1e-6, 1e-2, 10.0])
    coef, offset = system.path().coefficients(b)
    for i in range(3):
        solution = system.scores(b[i])
        assert_close(solution.coef[0], coef[0, i], 1e-9)
        assert_close(solution.offset, offset[:, i], 1e-8)


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_problems_have_the_same_solution_together_and_alone(intercept):
    X, y = stream(300, 4, classes=3)
    together = systems(X, y, intercept)
    b = np.array([0.1, 1.0, 10.0])
    coef, offset = together.solve(b)
    for i, one in enumerate(together):
        alone = one.scores(b[i])
        assert_close(coef[i], alone.coef, 1e-13)
        assert_close(offset[i], alone.offset, 1e-13)


def leave_one_out(X, y, intercept, class_weight, b):
    """Weighted squared error of each row by the model refitted without it, weights unchanged."""
    system = systems(X, y, intercept, class_weight)
    Z = (X - system.anchor - system.m[0]) / system.s[0]
    if intercept != "none":
        Z = np.column_stack([np.ones(len(Z)), Z])
    penalty = np.full(Z.shape[1], b)
    if intercept == "free":
        penalty[0] = 0.0
    target = np.where(y == 1, 1.0, -1.0)
    alpha = (system.a / system.n)[0, y]
    error = np.empty(len(y))
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        R = (Z[rest] * alpha[rest, None]).T @ Z[rest] + np.diag(penalty)
        w = np.linalg.solve(R, Z[rest].T @ (alpha * target)[rest])
        error[i] = alpha[i] * (target[i] - Z[i] @ w) ** 2
    return error.sum()


@pytest.mark.parametrize("class_weight", ["balanced", None])
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_generalized_cross_validation_tracks_leave_one_out(intercept, class_weight):
    X, y = stream(150, 6, minority=0.2, seed=3)
    system = systems(X, y, intercept, class_weight)
    b = np.array([1e-3, 1e-1, 1.0]) * (1.0 if class_weight else 75.0)
    gcv = system.path().gcv(b)[0]
    loo = [leave_one_out(X, y, intercept, class_weight, value) for value in b]
    # GCV replaces each row's leverage by the mean of its class: near, not equal.
    np.testing.assert_allclose(gcv, loo, rtol=0.05)


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_degrees_of_freedom_are_the_trace_of_the_hat_matrix(intercept):
    """If all classes have one weight, GCV is the textbook formula class by class."""
    X, y = stream(80, 5, minority=0.3)
    system = systems(X, y, intercept, None)
    b = 2.0
    Z = (X - system.anchor - system.m[0]) / system.s[0]
    if intercept != "none":
        Z = np.column_stack([np.ones(len(Z)), Z])
    penalty = np.full(Z.shape[1], b)
    if intercept == "free":
        penalty[0] = 0.0
    hat = Z @ np.linalg.solve(Z.T @ Z + np.diag(penalty), Z.T)
    target = np.where(y == 1, 1.0, -1.0)
    expected = 0.0
    for k in (0, 1):
        mine = y == k
        rss = ((target - hat @ target)[mine] ** 2).sum()
        expected += rss / (1.0 - np.diagonal(hat)[mine].mean()) ** 2
    assert_close(system.path().gcv(np.array([b]))[0], [expected], 1e-10)


def test_gcv_prefers_a_large_ridge_for_noise_and_a_small_one_for_signal():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 30))
    noise = (rng.random(120) < 0.3).astype(int)
    signal = (X[:, 0] > 0.5).astype(int)
    assert choose_ridge(systems(X, noise, "penalized")) > 1.0
    assert choose_ridge(systems(X, signal, "penalized")) < 0.5
    model = BalancedRidgeClassifier(ridge="gcv").fit(X, signal)
    assert model.ridge_ == choose_ridge(systems(X, signal, "penalized"))


def test_gcv_is_infinite_where_a_class_has_no_freedom_left():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 30)), np.arange(12) % 2
    assert np.isinf(systems(X, y, "penalized").path().gcv(np.array([1e-9]))[0]).all()


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("case", ["constant", "duplicate", "wide"])
def test_ridge_zero_on_a_singular_system_gives_the_shortest_solution(case, intercept):
    X, y = stream(60, 4, seed=5)
    if case == "constant":
        X[:, 2] = 7.0
    elif case == "duplicate":
        X = np.column_stack([X, X[:, 0]])
    else:
        X = np.random.default_rng(0).standard_normal((8, 20))
        y = np.arange(8) % 2
    options = {"fit_intercept": intercept != "none", "penalize_intercept": intercept != "free"}
    model = BalancedRidgeClassifier(ridge=0.0, **options)
    with pytest.warns(UserWarning, match="minimum-norm"):
        f = model.fit(X, y).decision_function(X)
    # numpy's least squares is the shortest by its own singular values.
    m, s = X.mean(axis=0), X.std(axis=0)
    s[s < 1e-12] = 1.0
    Z = (X - m) / s
    root = np.sqrt(1.0 / np.bincount(y)[y])
    target = 2.0 * y - 1.0
    if intercept == "free":
        alpha = root**2 / (root**2).sum()
        centred, t = Z - alpha @ Z, alpha @ target
        w = np.linalg.lstsq(root[:, None] * centred, root * (target - t), rcond=1e-10)[0]
        expected = t + centred @ w
    else:
        phi = Z if intercept == "none" else np.column_stack([np.ones(len(Z)), Z])
        w = np.linalg.lstsq(root[:, None] * phi, root * target, rcond=1e-10)[0]
        expected = phi @ w
    assert_close(f, expected, 1e-9)
    assert_close(model.coef_[0], w[-X.shape[1] :] / s, 1e-9)


def test_ridge_zero_on_a_regular_system_is_silent(recwarn):
    X, y = stream(60, 4)
    BalancedRidgeClassifier(ridge=0.0).fit(X, y).predict(X)
    assert not len(recwarn)


def test_units_of_features_without_scaling_do_not_make_a_system_singular(recwarn):
    X, y = stream(200, 3)
    wide = X * [1e7, 1.0, 1e-5]
    BalancedRidgeClassifier(scale=None).fit(wide, y).predict(wide)
    assert not len(recwarn)


def test_a_new_ridge_equals_a_new_fit():
    X, y = stream(100, 4)
    model = BalancedRidgeClassifier().fit(X, y)
    model.set_params(ridge=0.5)
    assert_close(model.coef_, BalancedRidgeClassifier(ridge=0.5).fit(X, y).coef_, 1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [4, 5, 6])
@pytest.mark.parametrize("d", [1, 3, 5, 8])
def test_gcv_does_not_change_with_the_order_of_a_few_rows(rows, d):
    """If features outnumber rows, loss and freedom both vanish: rounding must not decide."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((rows, d)), np.array([0, 0, 1, 1, 0, 1])[:rows]
        ridges = []
        for _ in range(6):
            order = rng.permutation(rows)
            model = BalancedRidgeClassifier(ridge="gcv").fit(X[order], y[order])
            ridges.append(model.ridge_)
        np.testing.assert_allclose(ridges, ridges[0], rtol=1e-9)


@pytest.mark.parametrize("ridge", [1e-4, 0.0])
@pytest.mark.parametrize("rows", [300, 1400])
def test_the_condition_number_of_a_wide_model_is_that_of_all_its_eigenvalues(rows, ridge):
    """Found by two iterations: 1e-6 is what a condition number beyond 1e6 leaves of 1e-12."""
    d = MAX_FEATURES_FULL_EIGEN + 50
    X, y = stream(rows, d)
    values = np.linalg.eigvalsh(systems(X, y, "penalized").K()[0])
    moments = Moments.of(X, y)
    found = condition(moments, Classes.in_order_of_appearance(moments), Options(ridge=ridge), ridge)
    if rows < d and not ridge:
        assert found > 1e12  # it has no inverse
    else:
        expected = (values[-1] + ridge) / (max(values[0], 0.0) + ridge)
        assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("crowd", [1e-6, 1.0])
@pytest.mark.parametrize("near", [1e-12, 1e-8, 1e-5])
def test_extreme_eigenvalues_are_found_among_many_close_ones(crowd, near):
    """Lanczos iterations may not separate them, and still find them."""
    rng = np.random.default_rng(0)
    d = MAX_FEATURES_FULL_EIGEN + 150
    values = np.geomspace(1e-6, 1.0, d)
    values[rng.permutation(d)[: d // 2]] = crowd * (1.0 + near * rng.random(d // 2))
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    K = (Q * values) @ Q.T
    least, most = _extreme_eigenvalues((K + K.T) / 2.0, 1e-7)
    # Rounding of K is 1e-16 of its largest eigenvalue, and so 1e-10 of its least.
    assert least == pytest.approx(values.min() + 1e-7, rel=1e-6)
    assert most == pytest.approx(values.max() + 1e-7, rel=1e-6)


def test_a_deviation_too_small_to_divide_by_counts_as_zero():
    X, y = np.array([[0.0], [5e-324], [0.0], [5e-324]]), np.array([0, 1, 1, 0])
    model = BalancedRidgeClassifier().fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()


def test_the_decaying_ridge_equals_three_rows_of_each_direction():
    one = np.ones(2)
    # Balanced: 3/2 (1/n + 1/n). Not balanced, a = n: 3, as scikit-learn's alpha.
    assert decaying_ridge(one, 100.0 * one) == pytest.approx(0.03)
    assert decaying_ridge(100.0 * one, 100.0 * one) == pytest.approx(3.0)
