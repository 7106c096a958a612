"""Scores of rows left out, by tridiagonal systems, and by the normal equations of each row."""

import numpy as np
import pytest
from builders import assert_close, stream

from counterpoise import Moments
from counterpoise.solver import leave_one_out
from counterpoise.solver.class_weights import affine, class_total_weights, targets
from counterpoise.solver.leave_one_out import LeftOut, LowRank, RidgeInverses
from counterpoise.solver.ridge import MAX_LEVERAGE, RidgeSystems

RIDGES = np.array([1e-3, 0.5, 100.0])


@pytest.mark.parametrize("scale", [1.0, 1e14])  # rounding errors of the second exceed the ridges
@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_inverses_are_those_of_the_matrix(size, scale):
    rng = np.random.default_rng(size)
    rows = rng.normal(size=(size + 3, size)) * np.sqrt(scale)
    X, Y = rng.normal(size=(2, 19, size))  # more than the rows that are computed together
    K = rows.T @ rows
    inverses = RidgeInverses(K.copy(), RIDGES)
    x, y = inverses.rotate(X.copy()), inverses.rotate(Y.copy())
    solved = inverses.solve(x[:, None])
    unit = 1e-12 * np.linalg.cond(K + RIDGES[0] * np.eye(size))
    assert_close(inverses.form(x), np.einsum("ni,ij,nj->n", X, K, X), 1e-12)
    for j, b in enumerate(RIDGES):
        inverse = np.linalg.inv(K + b * np.eye(size))
        assert_close(inverses.products(x, y)[:, j], np.einsum("ni,ij,nj->n", X, inverse, Y), unit)
        assert_close(inverses.products(x, x)[:, j], np.einsum("ni,ij,nj->n", X, inverse, X), unit)
        assert_close(inverses.rotate(solved[:, j].copy(), back=True), X @ inverse, unit)
    assert inverses.products(x[:0], y[:0]).shape == (0, 3)


def two_classes(X, y, intercept="penalized"):
    moments, c = Moments.of(X, y), targets(2)
    a = class_total_weights(moments.labels, moments.N, c, "balanced", None)
    return RidgeSystems.of(moments, *affine(moments, "standard"), a, c[:, None], intercept)


def explicit(system, b, Z, y, own):
    """Return scores without each row and leverages, from normal equations with a constant."""
    s, h, a = system.s[0], system.h[0], system.a[0]
    phi = np.column_stack([np.ones(len(Z)), (Z - system.centre[0]) / s])
    target, alpha = np.where(y == 1, 1.0, -1.0), (a / system.n[0])[y]
    R = (alpha[:, None] * phi).T @ phi
    R[1:, 1:] += b * np.eye(len(s))
    q = np.append(1.0, -h)
    R += {"penalized": b, "free": 0.0, "none": 1e8}[system.intercept] * np.outer(q, q)
    z = (alpha * target) @ phi
    rest = target - phi @ np.linalg.solve(R, z)
    scores, leverage = np.empty((2, len(Z)))
    for i, k in enumerate(y):
        some = np.ones(len(q), dtype=bool)
        some[own[i] + 1] &= own[i] < 0
        x, solve = phi[i, some], np.linalg.inv(R[np.ix_(some, some)])
        leverage[i] = min(alpha[i] * x @ solve @ x, MAX_LEVERAGE)
        left = (x @ solve @ z[some] - leverage[i] * target[i]) / (1.0 - leverage[i])
        mine = y == k
        scores[i] = (
            left + alpha[i] * x @ solve @ (rest[mine] @ phi[np.ix_(mine, some)]) / mine.sum()
        )
    return scores, leverage


@pytest.mark.parametrize("intercept", ["penalized", "free", "none"])
@pytest.mark.parametrize("size", [1.0, 1e-14])  # the weights of the second are below rounding
def test_rows_are_left_out_of_the_normal_equations(size, intercept):
    X, y = stream(60, d=6, classes=2, minority=0.3)
    X[:, 2], X[:, 5] = 4.0, 0.0  # features that do not vary
    systems = two_classes(X, y, intercept)
    ridges = RIDGES * size
    own = np.where(np.arange(60) % 3, -1, np.arange(60) % 6)
    Z = X - systems.anchor
    left = LeftOut(systems, ridges, Z, y, np.ones(60), own)
    solved = [systems.scores(b) for b in ridges]
    for j, b in enumerate(ridges):
        scores, leverage = explicit(systems, b, Z, y, np.where(np.isin(own, [2, 5]), -1, own))
        # A penalty of 1e8 in place of an infinite one leaves about 1e-8 of the constant.
        assert_close(left.scores[:, j], scores, 1e-6 if intercept == "none" else 1e-10)
        assert_close(left.leverage[:, j], leverage, 1e-6 if intercept == "none" else 1e-10)
        assert_close(left.coef[j], solved[j].coef[0], 1e-10)
        assert_close(left.offset[j], solved[j].offset[0], 1e-10)
        f = solved[j].of(X)[:, 0]
        sizes = [(f[y == k] ** 2).mean() for k in (0, 1)]
        assert_close(left.rms[j], np.sqrt(np.average(sizes, weights=systems.a[0])), 1e-10)


def copies(X):
    """Return 90 features, which are copies of 30 in three units."""
    return np.hstack([X[:, :30], 5.0 * X[:, :30], -X[:, :30]])


@pytest.mark.parametrize("intercept", ["penalized", "free", "none"])
@pytest.mark.parametrize(("rows", "widen"), [(90, copies), (40, lambda X: X)])
def test_a_factor_of_low_rank_leaves_out_the_same_rows(rows, widen, intercept, monkeypatch):
    X, y = stream(rows, d=90, classes=2, minority=0.3)
    X = widen(X)
    systems = two_classes(X, y, intercept)
    low = LowRank.of(systems.K()[0], RIDGES, rows)
    assert low.L.shape == (90, min(30, rows - 1) if widen is copies else rows - 1)
    assert_close(low.L @ low.L.T, systems.K()[0], 1e-12)
    Z, own = X - systems.anchor, np.where(np.arange(rows) % 3, -1, np.arange(rows))
    left = LeftOut(systems, RIDGES, Z, y, np.ones(rows), own)
    for j, b in enumerate(RIDGES[1:], 1):
        scores, leverage = explicit(systems, b, Z, y, own)
        assert_close(left.scores[:, j], scores, 1e-6 if intercept == "none" else 1e-9)
        assert_close(left.leverage[:, j], leverage, 1e-6 if intercept == "none" else 1e-9)
    monkeypatch.setattr(leave_one_out, "MIN_FEATURES", 1000)
    full = LeftOut(systems, RIDGES, Z, y, np.ones(rows), own)
    for one, two in ((left.scores, full.scores), (left.leverage, full.leverage)):
        assert_close(one, two, 1e-8)  # the least ridge is 1e-6 of K
    for one, two in ((left.coef, full.coef), (left.offset, full.offset), (left.rms, full.rms)):
        assert_close(one, two, 1e-8)


def test_rows_that_were_not_learned_need_the_whole_matrix(monkeypatch):
    X, y = stream(80, d=90, classes=2, minority=0.3)
    systems, some = two_classes(X[:40], y[:40]), np.full(80, -1)
    low = LowRank.of(systems.K()[0], RIDGES, 40)
    Z = X - systems.anchor
    phi = (Z - systems.centre[0]) / systems.s[0]
    assert low.contains(phi[:40])
    assert not low.contains(phi)
    left = LeftOut(systems, RIDGES, Z, y, np.ones(80), some)
    monkeypatch.setattr(leave_one_out, "MIN_FEATURES", 1000)
    assert_close(left.scores, LeftOut(systems, RIDGES, Z, y, np.ones(80), some).scores, 1e-12)


def test_a_ridge_below_rounding_has_no_factor():
    X, y = stream(40, d=90, classes=2, minority=0.3)
    assert LowRank.of(two_classes(X, y).K()[0], np.array([1e-12, 1.0]), 40) is None
