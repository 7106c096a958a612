"""Rules on long noisy streams: sound covariances, and decisions that rounding does not make."""

from copy import deepcopy
from decimal import Decimal, localcontext
from statistics import NormalDist

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from online_rules import RULES, make_rule
from paper.protocol import g_mean

from counterpoise.errors import ModelFileError
from counterpoise.online import (
    ACOG,
    AROW,
    IRRLS,
    LS,
    NRRLS,
    RLS,
    TER,
    ConfidenceWeighted,
    SoftConfidenceWeighted,
)
from counterpoise.online.base import covariance_of, is_definite, shrink


def noisy(rows, d=6, seed=0):
    """A fifth of the rows positive, then one label in ten turned round."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(rows) < 0.2, 1.0, -1.0)
    X = rng.standard_normal((rows, d))
    X[y > 0] += np.linspace(0.0, 2.0, d)
    return X, np.where(rng.random(rows) < 0.1, -y, y)


def collinear(rows, seed=0):
    """The same with a feature twice, one that is always 0, and four that add up to the constant."""
    X, y = noisy(rows, 4, seed)
    kinds = np.eye(4)[np.digitize(X[:, 3], [0.0, 1.0, 2.0])]
    return np.column_stack([X[:, :3], X[:, 2], np.zeros(rows), kinds]), y


STREAMS = {"noisy": noisy, "collinear": collinear}


# A covariance that is kept as a factor.


@given(st.integers(0, 1000), st.floats(-0.9, 1e6))
def test_a_factor_shrinks_as_the_covariance_does(seed, weight):
    rng = np.random.default_rng(seed)
    R, x = np.triu(rng.standard_normal((5, 5))), rng.standard_normal(5)
    R[np.diag_indices(5)] = rng.uniform(0.5, 2.0, 5)
    S = R.T @ R
    c = weight / (x @ S @ x)  # above −1/v, where the result is positive definite
    expected = S - c / (1.0 + c * (x @ S @ x)) * np.outer(S @ x, S @ x)
    shrink(R, x, c)
    assert not np.tril(R, -1).any()
    assert is_definite(R)
    # 10 times what the formula for S itself rounds away, which cancels
    np.testing.assert_allclose(covariance_of(R), expected, atol=1e-14 * np.abs(S).max() * 10)


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("rule", [rule for rule, _ in RULES], ids=lambda r: str(r)[:60])
def test_a_long_noisy_stream_leaves_every_rule_sound(rule, stream):
    slow = {NRRLS: 20_000, LS: 20_000, TER: 20_000, IRRLS: 1_000}
    rows = slow.get(type(rule), 200_000)
    X, y = STREAMS[stream](rows)
    rule = deepcopy(rule)
    if isinstance(rule, ACOG) and rule.class_totals:
        rule.set_params(class_totals={-1.0: (y < 0).sum(), 1.0: (y > 0).sum()})
    scores = np.concatenate(
        [
            rule.progressive_scores(*part)
            for part in zip(*(np.split(a, 4) for a in (X, y)), strict=True)
        ]
    )
    if rule._second_order:
        S = rule._state.S
        spread = S if S.ndim == 1 else np.linalg.svd(S, compute_uv=False)
        assert spread.min() > 0.0
        assert np.isfinite(covariance_of(S)).all()
    # The stream does not change, so neither may what a rule makes of it; 0.08 is four standard
    # deviations for the 1,000 rows of the slowest.
    tenths = [
        g_mean(part, f) for part, f in zip(np.split(y, 10), np.split(scores, 10), strict=True)
    ]
    assert min(tenths[1:]) > np.median(tenths) - (0.2 if isinstance(rule, IRRLS) else 0.08)


# Confidence-weighted learning.


def decisions_of_cw(X, y, digits):
    """Signs before each row, in decimals with boundless exponents and no change of unit."""
    d, phi = X.shape[1], Decimal(NormalDist().inv_cdf(0.7))
    psi, xi = 1 + phi**2 / 2, 1 + phi**2
    found = np.empty(len(y))
    with localcontext(prec=digits, Emin=-(10**9), Emax=10**9):
        w = [Decimal(0)] * d
        R = [[Decimal(int(i == j)) for i in range(d)] for j in range(d)]
        for t in range(len(y)):
            x, sign = [Decimal(float(value)) for value in X[t]], int(y[t])
            score = sum(a * b for a, b in zip(w, x, strict=True))
            found[t], m = 1.0 if score >= 0 else -1.0, sign * score
            f = [sum(a * b for a, b in zip(row, x, strict=True)) for row in R]
            v = sum(a * a for a in f)
            if v == 0 or m >= phi * v.sqrt():
                continue
            alpha = max(
                Decimal(0), (-m * psi + (m**2 * phi**4 / 4 + v * phi**2 * xi).sqrt()) / (v * xi)
            )
            avp = alpha * v * phi
            c = alpha * phi * (avp + (avp**2 + 4 * v).sqrt()) / (2 * v)
            after, Sx = Decimal(1), [Decimal(0)] * d
            for j in reversed(range(d)):
                before, after = after, after + c * f[j] ** 2
                keep, take = (before / after).sqrt(), c * f[j] / (before * after).sqrt()
                for i in range(j, d):
                    R[j][i], Sx[i] = keep * R[j][i] - take * Sx[i], Sx[i] + f[j] * R[j][i]
            w = [a + alpha * sign * b for a, b in zip(w, Sx, strict=True)]
    return found


def unruly(rows, seed=0):
    """The same with columns whose values differ a billionfold: outliers, two sizes, long tails."""
    X, y = noisy(rows, 4, seed)
    rng = np.random.default_rng(seed + 1)
    X[rng.random(rows) < 0.02, 0] *= 1e12
    X[rng.random(rows) < 0.9, 1] *= 1e-9
    X[:, 2] = np.sign(X[:, 2]) * np.exp(4.0 * np.abs(X[:, 2]))
    return X, y


def units(d, powers):
    """Columns of sizes from 1e-6 to 1e6, or about that in powers of two."""
    exponents = np.linspace(-6.0, 6.0, d)
    return np.exp2(np.round(exponents * 10.0 / 3.0)) if powers else 10.0**exponents


SIZES = {
    "alike": lambda d: np.ones(d),
    "rising": lambda d: units(d, powers=False),
    "falling": lambda d: units(d, powers=False)[::-1],
}


@pytest.mark.slow
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("stream", [*STREAMS, "unruly"])
def test_cw_decides_as_arithmetic_without_bounds_does(stream, sizes):
    X, y = (STREAMS | {"unruly": unruly})[stream](2_000)
    X *= SIZES[sizes](X.shape[1])
    exact = decisions_of_cw(np.column_stack([X, np.ones(len(X))]), y, 120)
    compiled = ConfidenceWeighted().progressive_scores(X, y)
    np.testing.assert_array_equal(np.where(compiled >= 0, 1.0, -1.0), exact)
    rule = make_rule(ConfidenceWeighted(), X.shape[1])
    for x, target, sign in zip(np.column_stack([X, np.ones(len(X))]), y, exact, strict=True):
        assert (1.0 if rule._state.w @ x >= 0 else -1.0) == sign
        rule.step(rule._state, x, target)


@pytest.mark.parametrize(("covariance", "rows"), [("full", 2_000), ("diagonal", 50)])
def test_the_unit_of_cw_does_not_matter(covariance, rows):
    X, y = noisy(rows)
    one = ConfidenceWeighted(covariance=covariance).progressive_scores(X, y)
    two = ConfidenceWeighted(covariance=covariance, a=2.0**-990).progressive_scores(X, y)
    np.testing.assert_array_equal(
        np.frexp(one)[0], np.frexp(two)[0]
    )  # exact, except for powers of two


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("stream", [*STREAMS, "unruly"])
def test_units_of_columns_do_not_matter_to_cw(stream, covariance):
    X, y = (STREAMS | {"unruly": unruly})[stream](20_000)
    used = np.append(X.any(axis=0), True)
    found = []
    for unit in (np.ones(len(used)), units(len(used), powers=True), units(len(used), False)):
        unit = np.where(used, unit, 1.0)  # a column of zeros has none
        rule = make_rule(ConfidenceWeighted(covariance=covariance), X.shape[1])
        rule.set_params(fit_intercept=False)
        rule._state.made_for = rule._shape()
        rule.n_features_in_ = len(used)
        rule._state.S /= unit if covariance == "full" else unit**2  # the same Σ, in these units
        scores = rule.progressive_scores(np.column_stack([X, np.ones(len(X))]) * unit, y)
        found.append((scores, rule.covariance_))
    (scores, S), (same_scores, same_S), (other, _) = found
    np.testing.assert_array_equal(same_scores, scores)
    unit = np.where(used, units(len(used), powers=True), 1.0)
    by = np.outer(unit, unit) if covariance == "full" else unit**2
    np.testing.assert_array_equal(same_S * by, S)
    if covariance == "full":  # other units round rows; what is kept of a diagonal hangs on that
        np.testing.assert_array_equal(other >= 0, scores >= 0)


def test_a_unit_that_is_none_is_refused_from_a_file():
    contents = ConfidenceWeighted().fit(*noisy(50, 3))._contents()
    for bad in (3.0, -1.0, np.inf, np.nan):
        contents.arrays["z"] = np.array([1.0, 0.0, 0.5, bad])
        with pytest.raises(ModelFileError, match="not a power of two"):
            ConfidenceWeighted._from_contents(contents)
    contents.arrays["z"] = np.array([1.0, 0.0, 0.5, 2.0**-1074])
    ConfidenceWeighted._from_contents(contents)


def test_steps_of_cw_lose_nothing_where_the_variance_is_small():
    X, y = noisy(50)
    X *= 1e-12  # v is 1e-24 next to 1: (−q + root) would be 0
    rule = make_rule(ConfidenceWeighted(form="variance", fit_intercept=False), 6)
    phi = NormalDist().inv_cdf(0.7)
    for x, target in zip(X, y, strict=True):
        if rule.step(rule._state, x, target):
            v = x @ rule.covariance_ @ x
            assert abs(target * rule._state.w @ x - phi * v) < 1e-9 * v


def test_the_quantile_is_not_scipys(monkeypatch):
    assert abs(NormalDist().inv_cdf(0.7) - scipy.stats.norm.ppf(0.7)) < 1e-15
    monkeypatch.setattr(scipy.stats.norm, "ppf", None)  # a call would cost 100 µs
    X, y = noisy(20)
    for rule in (ConfidenceWeighted(), SoftConfidenceWeighted(), SoftConfidenceWeighted(eta=0.6)):
        rule.progressive_scores(X, y)
        rule.fit(X, y)


# States that cannot be saved raise an error.


@pytest.mark.parametrize(
    ("rule", "d"),
    [(AROW(covariance="diagonal-drop", r=1e-30, fit_intercept=False), 1), (NRRLS(ridge=1e-30), 3)],
    ids=["AROW", "NR-RLS"],
)
def test_a_covariance_that_is_lost_is_an_error(rule, d):
    X, y = noisy(200, d)
    before = make_rule(rule, d)._state
    image = deepcopy(before)
    for action in (rule.partial_fit, rule.progressive_scores, rule.fit):
        with pytest.raises(ValueError, match=r"indefinite, so they are not learned; scale"):
            action(X, y)
        assert rule._state is before
        np.testing.assert_array_equal(before.S, image.S)
        np.testing.assert_array_equal(before.w, image.w)


@pytest.mark.parametrize("rule", [AROW(), RLS(), AROW(covariance="diagonal"), NRRLS()], ids=str)
def test_a_covariance_that_is_none_is_refused_from_a_file(rule):
    X, y = noisy(50, 3)
    contents = rule.fit(X, y)._contents()
    S = contents.arrays["S"]
    lost = S.copy()
    lost.reshape(-1)[0] = -1.0 if isinstance(rule, NRRLS) else 0.0
    for bad in (lost, S.T @ S if S.ndim == 2 else -S):  # the covariance itself is not a factor
        contents.arrays["S"] = bad
        with pytest.raises(ModelFileError, match="covariance"):
            type(rule)._from_contents(contents)
    contents.arrays["S"] = S
    np.testing.assert_array_equal(type(rule)._from_contents(contents).covariance_, rule.covariance_)


def test_acog_minds_the_rare_class_by_default():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(20_000) < 0.03, 1.0, -1.0)
    X = rng.standard_normal((20_000, 4)) + 1.5 * (y > 0)[:, None] * [1.0, 0.5, 0.0, 0.0]
    scores = ACOG().progressive_scores(X, y)
    # The best threshold of the best direction, N(0, 1) against N(1.68, 1), has Φ(0.84) = 0.80.
    assert g_mean(y, scores) > 0.75
