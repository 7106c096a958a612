"""The average of candidates, ranked by leave-one-out scores of kept rows."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from builders import assert_close, make_product_classes, model_bytes, stream

from counterpoise import AutoClassifier, BalancedRidgeClassifier
from counterpoise.engine import parameters
from counterpoise.engine.averaging import (
    MAX_TEMPERATURE,
    MIN_TEMPERATURE,
    MIN_WEIGHT,
    PRIOR_ROWS,
    TEMPERATURE_ROWS,
    evidence,
    softmax_weights,
    temperature,
)
from counterpoise.engine.parameters import LINEAR
from counterpoise.engine.ranking import Sample, leave_one_out_scores, own_landmarks
from counterpoise.engine.row_buffer import RowBuffer, decayed_weight
from counterpoise.engine.row_hashes import row_order
from counterpoise.engine.state import State
from counterpoise.errors import ModelFileError
from counterpoise.feature_maps import fit_map
from counterpoise.feature_maps.kernel_maps import UNUSED_LANDMARK
from counterpoise.modelfile.container import from_bytes, to_bytes
from counterpoise.solver.options import Options
from counterpoise.solver.ridge import eigen

SOME = {
    "candidates": (LINEAR, "pooled_rows=10", "interactions", "landmarks:20"),
    "ridges": (10.0, 1.0, 0.1),
}


def chooser(**options):
    return AutoClassifier(**{**SOME, **options})


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "how", [{}, {"pooled_rows": 10.0}, {"pooled_rows": 1000.0}, {"class_factors": {1: 3.0}}]
)
def test_leaving_a_row_out_is_refitting_without_it(classes, how):
    X, y = stream(120, d=4, classes=classes, minority=0.3)
    b, rows = 0.5, np.arange(0, 120, 7)
    how = {**how, "scale": None}  # else a refit has another scaling
    options = Options(ridge=b, **how)
    state = BalancedRidgeClassifier(ridge=b, **how).fit(X, y)._engine.state
    weight = np.ones(len(rows))
    sample = Sample(X[rows], y[rows], weight, weight, np.full(len(rows), -1))
    found = leave_one_out_scores(
        state.moments, state.classes, options, np.array([b]), sample
    ).scores[:, 0]
    whole, refitted = [], []
    for i in rows:
        others = np.arange(120) != i
        alone = BalancedRidgeClassifier(ridge=b, **how).fit(X[others], y[others])
        refitted.append(alone._engine.scores().of(X[[i]])[0])
        whole.append(state.solve(None, options).of(X[[i]])[0])
    whole, refitted = np.array(whole), np.array(refitted)
    if classes > 2:  # what all classes share decides nothing
        whole, refitted, found = (
            f - f.mean(axis=1, keepdims=True) for f in (whole, refitted, found)
        )
    # What is left out is of the order of 1/n of what leaving out does.
    assert np.abs(found - refitted).mean() < 0.3 * np.abs(whole - refitted).mean()


@pytest.mark.parametrize("classes", [2, 3])
def test_a_row_is_left_out_as_a_landmark_too(classes):
    X, y = stream(80, d=3, classes=classes, minority=0.3)
    fixed = fit_map("rm2+landmarks:60,width=0.3/0.8", X, y=y)
    first, how = fixed.map.landmarks_at(3).start, {"ridge": 0.3, "scale": None}
    state = BalancedRidgeClassifier(feature_map=fixed, **how).fit(X, y)._engine.state
    Z, weight = state.terms(X), np.ones(80)
    own = own_landmarks(state.fixed, Z)
    assert (own >= 0).sum() == 60
    refitted = []
    for i, j in enumerate(own - first):
        drawn, others = fixed.drawn.copy(), np.arange(80) != i
        drawn[j if j >= 0 else slice(0)] = UNUSED_LANDMARK
        alone = BalancedRidgeClassifier(feature_map=replace(fixed, drawn=drawn), **how)
        refitted.append(alone.fit(X[others], y[others])._engine.scores().of(X[[i]])[0])
    errors = []
    for terms in (own, np.full(80, -1)):
        sample = Sample(Z, y, weight, weight, terms)
        found = leave_one_out_scores(
            state.moments, state.classes, Options(**how), np.array([0.3]), sample
        )
        off = found.scores[:, 0] - np.array(refitted)
        errors.append(np.abs(off - off.mean(axis=1, keepdims=True) if classes > 2 else off).mean())
    # What is left is of the order of 1/n, as without landmarks.
    assert errors[0] < 0.35 * errors[1]


def test_a_row_that_is_nearly_interpolated_is_left_out():
    X, y = stream(40, d=60, classes=2, minority=0.3)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    how, weight = {"ridge": 1e-4, "scale": None}, np.ones(40)
    state = BalancedRidgeClassifier(**how).fit(X, y)._engine.state
    sample = Sample(X, y, weight, weight, np.full(40, -1))
    found = leave_one_out_scores(
        state.moments, state.classes, Options(**how), np.array([1e-4]), sample
    )
    assert found.leverage > 0.999
    refitted = []
    for i in range(40):
        others = np.arange(40) != i
        alone = BalancedRidgeClassifier(**how).fit(X[others], y[others])
        refitted.append(alone._engine.scores().of(X[[i]])[0])
    # The model of all rows predicts each label almost exactly, a model without the row does not.
    assert_close(found.scores[:, 0], np.array(refitted), 0.1)


def test_the_average_is_that_of_scores_over_their_size():
    X, y = make_product_classes(threshold=0.5)
    one = chooser(candidates=(LINEAR, "interactions")).fit(X, y)
    ridges = np.array(SOME["ridges"])
    ranking = one._engine.candidates.ranking
    assert ranking.names == [LINEAR, "interactions"]
    total = np.zeros(len(X))
    each = zip(ranking.names, ranking.averaging_weights, ranking.models, strict=True)
    for name, share, model in each:
        for j, ridge in enumerate(ridges):
            map_of = None if name == LINEAR else one._engine.candidates.states[name].fixed
            alone = BalancedRidgeClassifier(feature_map=map_of, ridge=ridge).fit(X, y)
            f = alone.decision_function(X)
            size = np.sqrt(np.mean([(f[y == k] ** 2).mean() for k in (0, 1)]))
            assert_close(model.rms[j], size, 1e-9)
            if share.sum() > MIN_WEIGHT:  # what is not felt is left out
                total += share[j] * f / size
    i, j = ranking.best
    # By decompositions here and by elimination there.
    assert_close(one.decision_function(X), total * ranking.models[i].rms[j], 1e-7)
    assert_close(sum(one.averaging_weights_.values()), 1.0, 1e-12)


def test_better_candidates_weigh_more_and_the_more_so_the_more_evidence_there_is():
    G = [np.array([0.9]), np.array([0.88, -np.inf]), np.array([0.9, 0.9])]
    few, many = (softmax_weights(G, temperature(np.full(2, n))) for n in (100.0, 1e6))
    assert_close(few[0][0] / few[1][0], np.e, 1e-12)
    assert few[1][1] == 0.0
    assert_close(few[2].sum(), few[0].sum(), 1e-12)  # two ridges count as one
    assert many[1][0] < few[1][0]
    assert temperature(np.full(2, TEMPERATURE_ROWS)) == MAX_TEMPERATURE
    assert temperature(np.full(2, 1e9)) == MIN_TEMPERATURE


def test_weights_start_equal_and_move_with_the_rows_of_the_rarest_class():
    G = [np.array([0.7]), np.array([0.8])]
    assert evidence(np.array([1e9, 10.0])) == pytest.approx(20.0)
    assert evidence(np.array([10.0, 10.0])) == pytest.approx(10.0)
    assert evidence(np.full(6, 10.0)) == pytest.approx(30.0)
    assert evidence(np.array([5e-324, 1.0])) == 1.0
    assert temperature(np.full(2, PRIOR_ROWS)) == MAX_TEMPERATURE
    assert temperature(np.full(2, PRIOR_ROWS / 2.0)) == 2.0 * MAX_TEMPERATURE
    # A million rows of the common class add nothing about the rare one.
    assert temperature(np.array([1e6, TEMPERATURE_ROWS / 2.0])) == pytest.approx(MAX_TEMPERATURE)
    best = [
        softmax_weights(G, temperature(np.array([1000.0, rare])))[1].item()
        for rare in (1.0, 10.0, 100.0, 1000.0)
    ]
    assert best == sorted(best)
    assert best[0] < 0.6
    assert best[1] < 0.9
    assert best[-1] > 0.99


def test_a_feature_that_varies_between_classes_alone_is_used():
    X, y = stream(90, d=4, classes=3, minority=0.3)
    X[:, 3] = y == 2
    one = chooser(ridges=(1.0, 0.1)).fit(X, y)
    candidates = one._engine.candidates
    model = candidates.ranking.models[candidates.names.index(LINEAR)]
    for ridge, only in zip((1.0, 0.1), np.eye(2), strict=True):
        linear = BalancedRidgeClassifier(ridge=ridge).fit(X, y)
        found = model.scores.combine(only, ridge).of(X)
        assert_close(found, linear.decision_function(X), 1e-9)


def test_a_class_far_from_all_others_does_not_hide_how_well_these_are_separated():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 60)
    X = rng.standard_normal((180, 2)) + 2.0 * np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 3.0]])[y]
    near = chooser(candidates=(LINEAR,), ridges=(0.1,)).fit(X, y).g_means_[LINEAR][0.1]
    far = X + 1e3 * (y == 2)[:, None]
    assert chooser(candidates=(LINEAR,), ridges=(0.1,)).fit(far, y).g_means_[LINEAR][0.1] > 0.9
    assert near > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_single_rows_are_answered_and_learned_as_progressive_scores_do(classes):
    X, y = stream(500, d=3, classes=classes, minority=0.3)
    f = chooser().progressive_scores(X, y)
    guesses = (f > 0).astype(int) if classes == 2 else f.argmax(axis=1)
    one, told = chooser(), []
    for x, label in zip(X, y, strict=True):
        told.append(one.predict_one(x) if told else -1)
        one.learn_one(x, label)
    np.testing.assert_array_equal(told[16:], guesses[16:])
    whole = chooser().partial_fit(X, y)
    # Rows come one by one here and together there: rounding differs.
    assert_close(one.decision_function(X), whole.decision_function(X), 1e-7)
    assert one.class_count_.tolist() == whole.class_count_.tolist()


def test_single_rows_that_are_bad_change_nothing():
    X, y = make_product_classes(300, threshold=0.5)
    for rows in (10, 300):
        one = chooser().fit(X[:rows], y[:rows])
        before = model_bytes(one)
        for x, label in (([1.0, np.nan, 2.0], 1), ([1.0], 1), ([1.0, 2.0, 1e200], 1)):
            with pytest.raises(ValueError, match=r"NaN|features|beyond"):
                one.learn_one(np.array(x), label)
        with pytest.raises(ValueError, match="text"):
            one.learn_one(X[0], "a")
        assert model_bytes(one) == before
        one.learn_one(X[0], 7)  # a new class
        assert one.classes_.tolist() == [0, 1, 7]


def test_stored_rows_are_learned_when_something_needs_them():
    X, y = make_product_classes(500, threshold=0.5)
    for rows in (20, 300):  # before and after the maps are fixed
        stored, chunk = (chooser().partial_fit(X[:rows], y[:rows]) for _ in range(2))
        for i in range(rows, rows + 40):
            stored.partial_fit(X[i : i + 1], y[i : i + 1])
        chunk.partial_fit(X[rows : rows + 40], y[rows : rows + 40])
        assert len(stored._engine._candidates.deferred) == 40
        with ThreadPoolExecutor(4) as pool:  # each thread learns them, in a copy of its own
            found = list(pool.map(model_bytes, [stored] * 4))
        assert found == [model_bytes(chunk)] * 4
        assert not stored._engine._candidates.deferred
        np.testing.assert_array_equal(stored.decision_function(X), chunk.decision_function(X))


def test_single_rows_and_predictions_of_a_warm_up_fit_the_maps_a_few_times(monkeypatch):
    X, y = make_product_classes(255, threshold=0.5)
    one, calls = chooser().partial_fit(X[:20], y[:20]), []
    learn = State.learn

    def count_call(self, *args, **kwargs):
        calls.append(self)
        return learn(self, *args, **kwargs)

    monkeypatch.setattr(State, "learn", count_call)
    for i in range(20, 255):
        one.predict(X[i : i + 1])
        one.partial_fit(X[i : i + 1], y[i : i + 1])
    # By every third of the rows, from 16 on: at 36, 52, 69, 92, 123, 164 and 219.
    assert len(calls) == 7 * len(one._engine._candidates.states)
    assert one.class_count_.sum() == 255


def test_rows_whose_moments_would_be_too_large_are_not_stored():
    X, y = make_product_classes(300, threshold=0.5)
    one = chooser().fit(X, y)
    before = model_bytes(one)
    huge = np.full(3, 1e100)
    one.learn_one(huge, 0)  # one of them is accepted, as in a chunk
    assert not one._engine._candidates.deferred
    assert one.class_count_.sum() == 301
    one = AutoClassifier._from_contents(from_bytes(before))
    with pytest.raises(ValueError, match="weights add up"):
        one.partial_fit(X[:3], y[:3], sample_weight=[1e50] * 3)
    one.learn_one(X[0], 0, 1e50)
    assert not one._engine._candidates.deferred
    steep = chooser(candidates=(LINEAR, "poly21")).fit(X[:, :1], y)
    steep.learn_one(X[0, :1], 0)
    assert not steep._engine._candidates.deferred


@pytest.mark.slow
def test_merging_is_having_seen_both_streams():
    X, y = make_product_classes(900, threshold=0.5)
    first = chooser(kept_rows=16).fit(X[:600], y[:600])
    later = chooser(kept_rows=16, candidates=first.maps_)
    later.partial_fit(X[600:], y[600:])
    both = first.merge(later)
    at_once = chooser(kept_rows=16).fit(X[:600], y[:600])
    at_once.partial_fit(X[600:], y[600:])
    for name, state in both._engine.candidates.states.items():
        moments = at_once._engine.candidates.states[name].moments
        assert_close(state.moments.C, moments.C, 1e-9)
        assert_close(state.moments.mean + state.moments.anchor, moments.mean + moments.anchor, 1e-9)
    assert both._engine.candidates.rows == 900
    assert_close(both.decision_function(X), at_once.decision_function(X), 1e-7)
    assert model_bytes(AutoClassifier._from_contents(from_bytes(model_bytes(both)))) == model_bytes(
        both
    )


def test_models_with_other_maps_or_options_do_not_merge():
    X, y = make_product_classes(600, threshold=0.5)
    one = chooser().fit(X, y)
    for two, says in (
        (chooser().fit(X[100:], y[100:]), "fixed by different rows.*maps_"),
        (chooser().fit(X[:100], y[:100]), "not fixed yet"),
        (chooser(kept_rows=5).fit(X, y), "kept_rows is 128 here"),
        (chooser(candidates=(LINEAR,)).fit(X, y), "different candidates"),
        (chooser().fit(X[:, :2], y), "different features"),
    ):
        with pytest.raises(ValueError, match=says):
            one.merge(two)
    with pytest.raises(TypeError, match="can only merge"):
        one.merge(one.best_)


@pytest.mark.slow
def test_a_row_of_weight_two_is_learned_as_two_and_of_weight_zero_not_at_all():
    X, y = make_product_classes(500, threshold=0.5)
    w = np.random.default_rng(0).integers(0, 3, 500)
    fixed = chooser().fit(X, y).maps_
    one = chooser(candidates=fixed).partial_fit(X, y, sample_weight=w)
    at = np.repeat(np.arange(500), w)
    two = chooser(candidates=fixed).partial_fit(X[at], y[at])
    for name, state in one._engine.candidates.states.items():
        assert_close(state.moments.C, two._engine.candidates.states[name].moments.C, 1e-9)
    assert one.class_count_.tolist() == two.class_count_.tolist()
    assert model_bytes(AutoClassifier._from_contents(from_bytes(model_bytes(one)))) == model_bytes(
        one
    )
    assert_close(one.decision_function(X), two.decision_function(X), 1e-7)
    single = chooser(candidates=fixed).partial_fit(X[:20], y[:20], sample_weight=w[:20])
    for x, label, weight in zip(X[20:], y[20:], w[20:], strict=True):
        single.learn_one(x, label, float(weight))
    assert_close(single.decision_function(X), one.decision_function(X), 1e-7)


@pytest.mark.slow
def test_labels_that_arrive_late_change_no_score_before():
    X, y = make_product_classes(600, threshold=0.5)
    learned = chooser(kept_rows=64)
    scores = learned.progressive_scores(X, y, delay=50)
    other = y.copy()
    other[400] = 1 - y[400]
    again = chooser(kept_rows=64).progressive_scores(X, other, delay=50)
    np.testing.assert_array_equal(scores[:451], again[:451])
    assert not scores[:66].any()
    assert scores[70:].all()
    assert learned.class_count_.sum() == 600


def test_the_last_rows_of_each_class_are_kept_however_they_come():
    X, y = make_product_classes(100, threshold=0.5)
    at_once = RowBuffer(8).append(X, y, None, {})
    one = RowBuffer(8)
    for i, label in enumerate(y.tolist()):
        weights = {k: float(np.sum(y[:i] == k)) for k in (0, 1)}
        one = one.append(X[i : i + 1], y[i : i + 1], None, weights)
        assert len(one.rows[label]) == min(weights[label] + 1, 8)
    for label in (0, 1):
        rows = np.array([x for x, _, _ in at_once.rows[label]])
        np.testing.assert_array_equal(rows, X[y == label][-8:])
        np.testing.assert_array_equal(rows, [x for x, _, _ in one.rows[label]])
        assert [row[2] for row in at_once.rows[label]] == [row[2] for row in one.rows[label]]


def test_kept_rows_fade_as_the_moments_do():
    weight, passed = np.array([1.0, 1.0, 2.0]), np.array([0.0, 10.0, 0.0])
    assert_close(decayed_weight(weight, passed, 10.0), [1.0, 0.5, 1.0 + 2.0**-0.1], 1e-12)
    X, y = make_product_classes(400, threshold=0.5)
    one = chooser(half_life=50.0).fit(X, y)
    assert one.score(X, y) > 0.7


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.arrays["kept"].fill(1e300),
        lambda c: c.arrays["kept weight"].fill(-1.0),
        lambda c: c.arrays["kept clock"].fill(1e9),
        lambda c: c.arrays.update({"kept": np.zeros((3, 3))}),
        lambda c: c.arrays.pop("kept"),
        lambda c: c.facts["kept"].update(counts=[64, -64]),
        lambda c: c.facts["kept"].update(counts=[64]),
        lambda c: c.facts["kept"]["labels"].update(values=[0, 9]),
        lambda c: c.facts.update(weighted=3),
        lambda c: c.facts.update(rows=299),
        lambda c: c.options.update(kept_rows=-1),
        lambda c: c.options.update(kept_rows=0),
    ],
)
def test_a_file_of_impossible_kept_rows_is_refused(change):
    X, y = make_product_classes(300, threshold=0.5)
    contents = from_bytes(model_bytes(chooser().fit(X, y)))
    change(contents)
    with pytest.raises((ModelFileError, ValueError, KeyError)):
        AutoClassifier._from_contents(contents)


@pytest.mark.parametrize("kept_rows", [-1, 0, 1.5, True, "64", 10**9])
def test_a_number_of_kept_rows_without_meaning_is_refused(kept_rows):
    with pytest.raises(ValueError, match="kept_rows must be an integer from 1 to 100,000; got"):
        chooser(kept_rows=kept_rows).fit(*make_product_classes(50, threshold=0.5))


def test_rows_of_one_class_that_fix_the_maps_are_told_of():
    X, y = make_product_classes(300, threshold=0.5)
    with pytest.warns(UserWarning, match="shuffle the rows"):
        chooser().fit(X, np.zeros(300, int))
    one = chooser().fit(X[:100], y[:100])  # silent, and before the maps are fixed too
    assert one.classes_.tolist() == [0, 1]


def test_reasons_of_an_average_add_up():
    X, y = make_product_classes(400, threshold=0.5)
    one = chooser().fit(X, y)
    found = one.explain(X[:20])
    assert_close(found.values.sum(axis=1) + found.base_values, one.decision_function(X[:20]), 1e-9)


def test_landmarks_that_there_is_no_row_for_change_nothing():
    """Terms that do not vary are left out of decompositions, unless the penalty sees them."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(9, 5))
    K, dead = root.T @ root, [1, 4]
    K[dead], K[:, dead] = 0.0, 0.0
    lam, V = eigen(K)
    assert V.shape == (5, 3)
    assert_close((V * lam) @ V.T, K, 1e-12)
    assert not V[dead].any()
    _, V = eigen(K, np.array([False, True, False, False, False]))
    assert V.shape == (5, 4)
    lam, V = eigen(np.zeros((3, 3)))  # one is always there
    assert (lam.tolist(), V.shape) == ([0.0], (3, 1))


def test_many_classes_are_ranked_by_fewer_rows_of_each():
    kept = RowBuffer(
        128, {k: tuple((np.zeros(1), 1.0, float(i)) for i in range(128)) for k in "abcde"}
    )
    labels = np.array(list("abcde"))
    assert len(kept.arrays(labels)[0]) == 5 * 128
    _, code, _, clock = kept.arrays(labels, kept.ranking_rows(5))
    assert np.bincount(code).tolist() == [64] * 5  # the last ones
    assert clock.min() == 64.0
    assert kept.ranking_rows(2) == 128
    assert RowBuffer(9).ranking_rows(2) >= 9


def test_a_file_of_candidates_that_were_usual_once_goes_on(monkeypatch):
    X, y = make_product_classes(600, threshold=0.5)
    once = (LINEAR, "interactions")
    monkeypatch.setattr(parameters, "CANDIDATES", once)
    old = AutoClassifier(kept_rows=16).partial_fit(X[:400], y[:400])
    data = to_bytes(old._contents())
    monkeypatch.undo()
    again = AutoClassifier._from_contents(from_bytes(data))
    assert list(again.g_means_) == list(once)
    assert_close(again.decision_function(X), old.decision_function(X), 1e-12)
    again.partial_fit(X[400:], y[400:])
    whole = AutoClassifier(candidates=once, kept_rows=16)
    whole.partial_fit(X[:400], y[:400]).partial_fit(X[400:], y[400:])
    assert_close(again.decision_function(X), whole.decision_function(X), 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("sparse", [False, True])
def test_fit_does_not_depend_on_the_order_of_the_rows(sparse):
    X, y = make_product_classes(500, threshold=0.5)
    X = np.where(np.abs(X) > 0.3, X, 0.0)
    X[:200], y[:200] = X[0], y[0]  # equal rows
    w = np.random.default_rng(0).integers(1, 3, 500).astype(float)
    order = np.random.default_rng(1).permutation(500)
    made = sp.csr_array if sparse else np.asarray
    for weight in (None, w):
        one = chooser(kept_rows=16).fit(X, y, weight)
        for rows in (np.argsort(X[:, 0]), order):
            again = None if weight is None else weight[rows]
            two = chooser(kept_rows=16).fit(made(X[rows]), y[rows], again)
            if not sparse:
                assert model_bytes(two) == model_bytes(one)
            assert_close(two.decision_function(X), one.decision_function(X), 1e-9)


def test_the_order_of_fit_mixes_equal_rows():
    X = np.repeat([[0.0, 1.0], [2.0, 0.0]], [900, 100], axis=0)
    order = row_order(X, np.zeros(1000), None)
    assert sorted(order.tolist()) == list(range(1000))
    rare = (order >= 900).reshape(10, 100).sum(axis=1)
    assert rare.min() >= 2
    assert rare.max() <= 20


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 50, 175])
def test_a_stream_that_leaves_its_first_rows_is_warned_of_once(size):
    X, y = make_product_classes(700, threshold=0.5)
    order = np.argsort(X[:, 2], kind="stable")
    for rows in (np.arange(700), order):
        first = rows[:300]
        one, warned = chooser().partial_fit(X[first], y[first]), []
        for i in range(300, 700, size):
            part = rows[i : i + size]
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                if size == 1:
                    one.learn_one(X[part[0]], y[part[0]])
                    one.predict_one(X[part[0]])  # when the average is too old, rows are learned
                else:
                    one.partial_fit(X[part], y[part])
            warned += [str(warning.message) for warning in caught]
        assert len(warned) == (rows is order)
        assert all("feature 2: " in text and "shuffle the rows" in text for text in warned)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chooser().fit(X[order], y[order])
