"""The protocol's folds, ranks and tests of significance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from imblearn.metrics import geometric_mean_score
from paper.protocol import RULES, evaluate_fold, fold, folds, g_mean, halves, scale_features

from counterpoise import BalancedRidgeClassifier
from counterpoise.online import IRRLS, LS, NRRLS, RLS, TER, Perceptron

RNG = np.random.default_rng(3)
Y = np.where(RNG.random(301) < 0.3, 1, -1)
X = RNG.normal(size=(301, 4)) * [1, 10, 0.1, 1] + Y[:, None]


@pytest.mark.parametrize("stratified", [False, True])
def test_each_row_is_learned_once_and_judged_once_in_a_run(stratified):
    one, two = halves(Y, 5, stratified)
    assert sorted([*one, *two]) == list(range(301))
    assert abs(len(one) - len(two)) <= 2
    assert not (np.diff(one) > 0).all()  # a stream in shuffled order
    if stratified:
        assert abs((Y[one] > 0).sum() - (Y[two] > 0).sum()) <= 1


def test_runs_are_their_seeds():
    assert (halves(Y, 1)[0] == halves(Y, 1)[0]).all()
    assert not np.array_equal(halves(Y, 1)[0], halves(Y, 2)[0])
    assert len(list(folds(X, Y))) == 20


def test_scaling_looks_at_the_training_half_only():
    one = fold(X, Y, 0, 0)
    assert one.X.min() == 0.0
    assert one.X.max() == 1.0
    other = X.copy()
    other[halves(Y, 0)[1]] *= 100.0
    again = fold(other, Y, 0, 0)
    assert (again.X == one.X).all()
    both = fold(X, Y, 0, 0, scale_on="all")
    assert np.concatenate([both.X, both.X_test]).max() == 1.0
    with pytest.raises(ValueError, match="scale_on"):
        fold(X, Y, 0, 0, scale_on="test")


def test_stratified_halves_differ_by_one_row_at_most():
    for a, b in ((3, 3), (5, 8), (1, 1), (7, 1)):
        one, two = halves(np.repeat([-1, 1], [a, b]), 0, stratified=True)
        assert abs(len(one) - len(two)) <= 1


def test_strange_labels_and_scores_are_not_judged():
    with pytest.raises(ValueError, match="labels must be -1 and 1"):
        g_mean(np.array([0, 1]), np.array([-1.0, 1.0]))
    assert np.isnan(g_mean(np.array([-1, 1]), np.array([np.nan, 1.0])))


def test_a_constant_feature_becomes_zero():
    assert (scale_features(np.full((3, 1), 7.0), np.full((2, 1), 7.0)) == 0.0).all()


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from([-1.0, 0.0, 1.0])), min_size=1, max_size=30)
)
def test_g_mean_is_imbalanced_learns(rows):
    y = np.array([1 if positive else -1 for positive, _ in rows])
    f = np.array([score for _, score in rows])
    mine = g_mean(y, f)
    if len(set(y.tolist())) < 2:
        assert np.isnan(mine)
    else:
        theirs = geometric_mean_score(y, np.where(f >= 0, 1, -1))
        assert mine == pytest.approx(theirs, abs=1e-12)  # another order of the products
        assert g_mean(y, np.column_stack([f, -f])).shape == (2,)


def test_rules_that_are_equal_are_judged_equal():
    one = fold(X, Y, 0, 0)
    exact = [
        evaluate_fold(m, one)
        for m in (TER(), NRRLS(), IRRLS(), BalancedRidgeClassifier(scale=None, ridge=1e-4))
    ]
    assert all(found == exact[0] for found in exact)
    assert evaluate_fold(LS(), one) == evaluate_fold(RLS(), one)


def test_both_rules_are_what_they_say():
    one = fold(X, Y, 0, 0)
    model, before = Perceptron(), []
    for x, label in zip(one.X, one.y, strict=True):
        before.append(model.decision_function(x[None])[0] if before else 0.0)
        model.partial_fit(x[None], [label], classes=(-1, 1))
    found = evaluate_fold(Perceptron(), one)
    assert found[RULES[0]] == g_mean(one.y_test, model.decision_function(one.X_test))
    assert found[RULES[1]] == g_mean(one.y, np.array(before))
