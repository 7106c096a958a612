"""Columns with many categories: equal to one-hot features, in any order, merged, unlearned."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.engine.ridge import RidgeModel
from counterpoise.errors import DataError, UnknownRowsError
from counterpoise.moments.categories import CodeColumns, PairRun, PairWeights, pair_keys
from counterpoise.solver import categories as solver
from counterpoise.solver import stacked_categories
from counterpoise.solver.scores import build_problem

SIZES = [(300,), (30, 15), (30, 15, 8)]
FITS = [{}, {"penalize_intercept": False}, {"fit_intercept": False}, {"class_weight": None}]


def rows_with_codes(n, sizes, c=2, seed=0):
    """Return features and codes of rows (n, 4 + B), and labels of c classes, one of them rare."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) * [1.0, 10.0, 0.1, 3.0] + [0.0, 100.0, 0.0, 5.0]
    codes = np.column_stack([rng.integers(0, size + 1, n) for size in sizes])
    effects = [rng.normal(size=size + 1) for size in sizes]
    f = X[:, 0] + rng.normal(size=n)
    f += sum(e[codes[:, b]] for b, e in enumerate(effects))
    cuts = [0.9] if c == 2 else np.linspace(0.5, 0.9, c - 1)
    return np.hstack([X, codes]), np.digitize(f, np.quantile(f, cuts))


def new_model(sizes, rows=None, **params):
    model = RidgeModel.create(**params)
    model.set_codes([], CodeColumns(tuple(rows or [None] * len(sizes))))
    return model


def learn_rows(Z, y, sizes, rows=None, step=700, **params):
    model = new_model(sizes, rows, **params)
    for i in range(0, len(y), step):
        model.learn(Z[i : i + step], y[i : i + step])
    return model


def one_hot_model(Z, sizes, scores, y, **params):
    """Return a model of scaled one-hot features whose ridge is that of each column, and its rows.

    A feature divided by s has the ridge b s² in its own unit.
    """
    X, codes = Z[:, :4], Z[:, 4:].astype(int)
    b = scores.solution.ridge
    hot = [
        np.eye(size + 1)[codes[:, k]][:, 1:] * np.sqrt(b / ridge)
        for k, (size, ridge) in enumerate(zip(sizes, scores.effects.ridges, strict=True))
    ]
    T = np.ascontiguousarray(np.hstack([(X - X.mean(axis=0)) / X.std(axis=0), *hot]))
    model = RidgeModel.create(scale=None, ridge=b, **params)
    model.learn(T, y)
    return model, T


def distances(one, other, Z, T):
    """Return the largest differences of scores, balanced and stream probabilities."""
    s, r = one.scores(), other.scores()
    f, g = s.of(Z), r.of(T)
    both = ((s.probabilities(f, i) - r.probabilities(g, i)) for i in (False, True))
    return max(np.abs(f - g).max(), *(np.abs(p).max() for p in both))


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("params", FITS)
@pytest.mark.parametrize(("c", "multi_class"), [(2, "lda"), (4, "lda"), (4, "ovr")])
def test_scores_and_probabilities_equal_those_of_one_hot_features(sizes, params, c, multi_class):
    Z, y = rows_with_codes(1500, sizes, c)
    params = {**params, "multi_class": multi_class}
    model = learn_rows(Z, y, sizes, **params)
    dense, T = one_hot_model(Z, sizes, model.scores(), y, **params)
    # The dense solution itself has errors of about 1e-13 with 300 nearly collinear features.
    assert distances(model, dense, Z, T) < 1e-10


@pytest.mark.parametrize("sizes", SIZES[1:])
@pytest.mark.parametrize("params", FITS[:2])
@pytest.mark.parametrize(("c", "multi_class"), [(2, "lda"), (4, "ovr")])
def test_standard_errors_equal_those_of_one_hot_features(sizes, params, c, multi_class):
    Z, y = rows_with_codes(1500, sizes, c)
    params = {**params, "multi_class": multi_class, "class_weight": None}
    model = learn_rows(Z, y, sizes, **params)
    dense, _ = one_hot_model(Z, sizes, model.scores(), y, **params)
    errors, expected = (one.summary().errors[:, :4] for one in (model, dense))
    # The features of the dense model have unit variance, as those of a summary.
    np.testing.assert_allclose(errors, expected, rtol=1e-8)


@pytest.mark.parametrize("sizes", SIZES)
def test_merging_unlearning_and_any_order_equal_learning_the_rows(sizes):
    Z, y = rows_with_codes(2000, sizes)
    whole = learn_rows(Z, y, sizes, step=2000)
    order = np.random.default_rng(1).permutation(len(y))
    assert distances(learn_rows(Z[order], y[order], sizes, step=311), whole, Z, Z) < 1e-11
    first, rest = (learn_rows(Z[part], y[part], sizes) for part in (slice(900), slice(900, None)))
    assert distances(first.merge(rest), whole, Z, Z) < 1e-11
    whole.unlearn(whole.moments_of(Z[900:], y[900:]))
    # Unlearning half of the rows costs about three digits.
    assert distances(whole, first, Z, Z) < 1e-10
    assert distances(learn_rows(sp.csr_array(Z), y, sizes), learn_rows(Z, y, sizes), Z, Z) < 1e-11


@pytest.mark.parametrize("sizes", SIZES)
def test_integer_weights_are_repetitions(sizes):
    Z, y = rows_with_codes(800, sizes)
    weight = np.random.default_rng(2).integers(0, 3, len(y))
    one, rows = new_model(sizes), np.repeat(np.arange(len(y)), weight)
    one.learn(Z, y, weight=weight.astype(float))
    assert distances(one, learn_rows(Z[rows], y[rows], sizes), Z, Z) < 1e-11


@pytest.mark.parametrize("half_life", [300.0, {0: 500.0}, "200s"])
def test_decay_does_not_depend_on_chunks(half_life):
    sizes = (30, 15)
    Z, y = rows_with_codes(1500, sizes)
    t = np.arange(len(y), dtype=float)
    models = []
    for step in (1500, 77):
        model = new_model(sizes, [10.0, 3.0], half_life=half_life)
        for i in range(0, len(y), step):
            own = slice(i, i + step)
            model.learn(Z[own], y[own], t=t[own] if half_life == "200s" else None)
        models.append(model)
    assert distances(*models, Z, Z) < 1e-11


def test_calibration_maps_and_late_classes_do_not_depend_on_chunks():
    sizes = (30, 15)
    Z, y = rows_with_codes(2500, sizes)
    for params in ({"calibrate": True}, {"feature_map": "hinges"}, {"feature_map": "rff:50"}):
        one, two = (learn_rows(Z, y, sizes, step=step, **params) for step in (2500, 37))
        assert distances(one, two, Z, Z) < 1e-9  # terms of random features are nearly collinear
    Z, y = rows_with_codes(2500, sizes, c=5)
    order = np.argsort(y, kind="stable")
    assert distances(learn_rows(Z, y, sizes), learn_rows(Z[order], y[order], sizes), Z, Z) < 1e-11


def test_unlearning_all_rows_of_a_category_leaves_no_trace_of_it():
    sizes = (30, 15)
    Z, y = rows_with_codes(1000, sizes)
    model, gone = learn_rows(Z, y, sizes), (Z[:, 4] == 7) | (Z[:, 5] == 3)
    model.unlearn(model.moments_of(Z[gone], y[gone]))
    found = model.state.moments.categories
    assert not found.columns[0].n[:, 6].any()
    assert not found.columns[0].sums[:, 6].any()
    assert not found.columns[1].n[:, 2].any()
    assert all((run.weight > 0).all() for run in found.pairs[0, 1].runs)
    left = model.drop_categories()
    assert 6 not in left[0]
    assert 2 not in left[1]
    # Codes of the categories that are left have moved, those that are gone are 0.
    moved = Z.copy()
    for b, stay in enumerate(left):
        places = np.zeros(sizes[b] + 1)
        places[stay + 1] = np.arange(1, len(stay) + 1)
        moved[:, 4 + b] = places[Z[:, 4 + b].astype(int)]
    rest = learn_rows(Z[~gone], y[~gone], sizes)
    f, g = model.scores().of(moved[~gone]), rest.scores().of(Z[~gone])
    assert np.abs(f - g).max() < 1e-11


def test_rows_with_categories_that_were_not_learned_cannot_be_unlearned():
    sizes = (30, 15)
    Z, y = rows_with_codes(600, sizes)
    model = learn_rows(Z, y, sizes)
    before = pickle.dumps(model.state.moments.categories)
    wrong = Z[:50].copy()
    wrong[:, 4] = 1.0
    with pytest.raises(UnknownRowsError, match="a category occurs in more of them"):
        model.unlearn(model.moments_of(wrong, y[:50]))
    pairs = Z[:2].copy()
    pairs[:, 4] = pairs[::-1, 4]
    assert pairs[0, 4] != pairs[1, 4]
    with pytest.raises(UnknownRowsError, match="two categories never occurred together"):
        model.unlearn(model.moments_of(pairs, y[:2]))
    assert pickle.dumps(model.state.moments.categories) == before


def test_a_category_never_learned_has_no_effect():
    Z, y = rows_with_codes(600, (30,))
    model, unseen = learn_rows(Z, y, (30,)), Z[:5].copy()
    unseen[:, 4] = [0, 31, 1000, 0, 99]
    scores = model.scores()
    features = unseen[:, :4]
    assert np.array_equal(scores.of(unseen), scores.solution.of(features))


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_features_become_categories_as_if_they_had_been_categories(data):
    sizes = (12, 5)
    Z, y = rows_with_codes(300, sizes, seed=data.draw(st.integers(0, 1000)))
    has_other = data.draw(st.booleans())
    hot = np.eye(13)[Z[:, 4].astype(int)][:, 1:]
    at = np.sort(np.random.default_rng(0).permutation(16)[:12])
    rest = np.setdiff1d(np.arange(16), at)
    wide = np.zeros((300, 16))
    wide[:, at], wide[:, rest] = hot, Z[:, :4]
    model = RidgeModel.create()
    if has_other:
        model.set_codes([], CodeColumns((None,)))
        wide = np.hstack([wide, Z[:, [5]]])
    model.learn(wide[:150], y[:150])
    model.features_to_categories(at)
    after = np.hstack([Z[:, :4], Z[:, [5]], Z[:, [4]]]) if has_other else Z[:, :5]
    model.learn(after[150:], y[150:])
    other = RidgeModel.create()
    other.set_codes([], CodeColumns((None, None) if has_other else (None,)))
    other.learn(after, y)
    assert distances(model, other, after, after) < 1e-10


@pytest.mark.parametrize("params", FITS)
@pytest.mark.parametrize("c", [2, 3])
def test_large_systems_are_solved_by_conjugate_gradients(monkeypatch, params, c):
    sizes = (200, 120, 40)
    Z, y = rows_with_codes(3000, sizes, c)
    params = {**params, "multi_class": "ovr"}
    exact = learn_rows(Z, y, sizes, [5.0, 2.0, 1.0], **params)
    expected = exact.scores().of(Z)
    monkeypatch.setattr(stacked_categories, "MAX_FACTORIZED", 10)
    found = learn_rows(Z, y, sizes, [5.0, 2.0, 1.0], **params).scores()
    assert np.abs(found.of(Z) - expected).max() < 1e-11
    # The link has traces that are estimates: their error is far below that of the link.
    slopes = exact.scores().link.slopes
    assert found.link.slopes == pytest.approx(slopes, rel=0.02)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 3))), st.data())
def test_runs_of_pairs_have_the_weights_of_all_rows(rows, data):
    is_count = data.draw(st.booleans())
    weight = np.array([1.0 if is_count else data.draw(st.floats(0.1, 9.0)) for _ in rows])
    keys = pair_keys(*np.array(rows, dtype=np.int64).reshape(-1, 3).T)
    pairs = PairWeights()
    for start in range(0, len(rows), 3):
        run = PairRun.of(keys[start : start + 3], weight[start : start + 3])
        pairs = pairs.append(PairWeights((run,)))
    expected = np.zeros((2, 4, 4))
    np.add.at(expected, tuple(np.array(rows, dtype=int).reshape(-1, 3).T), weight)
    blocks = np.zeros((2, 4, 4))
    for k, one in pairs.blocks((4, 4)):
        blocks[k] += one.toarray()
    whole = [one.toarray() for one in pairs.of_classes(2, (4, 4))]
    np.testing.assert_allclose(blocks, expected, rtol=1e-14)
    np.testing.assert_allclose(whole, expected, rtol=1e-14)  # sums in another order
    assert (np.diff(pairs.total().keys) > 0).all()


def test_quadratic_boundaries_are_refused():
    with pytest.raises(DataError, match="need linear boundaries: leave pooled_rows out"):
        new_model((9,), pooled_rows=10.0)


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_of_a_ridge_is_about_that_of_models_without_each_row(seed):
    sizes = (25,)
    Z, y = rows_with_codes(500, sizes, seed=seed)
    model = learn_rows(Z, y, sizes)
    problem = build_problem(model.state.moments, model.state.classes, model.options)
    stack = solver.stack_of(problem, model.state.moments.categories)
    b, ridges = model.scores().solution.ridge, solver.PSEUDO_ROWS[:8] * solver.row_unit(problem)
    found = solver.leave_one_out(problem, stack, ridges, b)
    X, hot = Z[:, :4], np.eye(26)[Z[:, 4].astype(int)][:, 1:]
    Phi = np.hstack([np.ones((500, 1)), (X - X.mean(axis=0)) / X.std(axis=0), hot])
    t, weight = np.where(y == 1, 1.0, -1.0), 1.0 / np.bincount(y)[y]
    expected = []
    for ridge in ridges:
        inverse = np.linalg.inv(Phi.T @ (weight[:, None] * Phi) + np.diag([b] * 5 + [ridge] * 25))
        residual = t - Phi @ (inverse @ (Phi.T @ (weight * t)))
        leverage = weight * np.einsum("ij,jk,ik->i", Phi, inverse, Phi)
        expected.append(float(weight @ (residual / (1.0 - leverage)) ** 2))
    # The leverage of the other features is that of the mean row of its class.
    np.testing.assert_allclose(found, expected, rtol=0.05)
    assert found.argmin() == np.argmin(expected)


def test_columns_and_codes_move_together():
    sizes = (30, 15)
    Z, y = rows_with_codes(800, sizes)
    model, places = learn_rows(Z, y, sizes), np.random.default_rng(0).permutation(30)
    expected = model.scores().of(Z)
    model.reindex_categories(0, places, 30)
    moved = Z.copy()
    moved[:, 4] = np.append(0, places + 1)[Z[:, 4].astype(int)]
    assert np.abs(model.scores().of(moved) - expected).max() < 1e-12
    model.set_codes([2, 0], CodeColumns((None, None, None)))
    wide = np.column_stack([moved[:, :4], moved[:, 5], np.zeros(800), moved[:, 4]])
    assert np.abs(model.scores().of(wide) - expected).max() < 1e-12


@pytest.mark.parametrize("sizes", SIZES)
def test_a_class_that_only_the_second_model_has_keeps_its_categories(sizes):
    Z, y = rows_with_codes(1200, sizes, c=3)
    parts = [learn_rows(Z[part], y[part], sizes) for part in (y < 2, y > 0)]
    whole = np.concatenate([np.flatnonzero(part) for part in (y < 2, y > 0)])
    one = learn_rows(Z[whole], y[whole], sizes, step=3000)
    assert distances(parts[0].merge(parts[1]), one, Z, Z) < 1e-11


@pytest.mark.parametrize("sizes", SIZES)
def test_moments_of_selected_codes_are_added_and_subtracted_as_those_of_all(sizes):
    Z, y = rows_with_codes(900, sizes, c=3)
    model = new_model(sizes)
    parts = [slice(0, 300), slice(300, 310), slice(310, 900)]
    chunks = [model.moments_of(Z[part], y[part], None) for part in parts]
    few = chunks[1].copy()
    for chunk in chunks[2], chunks[0]:
        few += chunk
    few = (few - chunks[0]) - chunks[2]
    few.categories = few.categories.select_codes()
    c = len(chunks[1].labels)  # the first classes of all
    for one, wanted in zip(few.categories.columns, chunks[1].categories.columns, strict=True):
        assert one.codes.tolist() == wanted.codes.tolist()
        assert one.n[:c].tolist() == wanted.n.tolist()
        sums = one.move_origin(chunks[1].categories.origin - few.categories.origin).sums
        np.testing.assert_allclose(sums[:c], wanted.sums, atol=1e-10)
    renumbered = few.categories.renumber().with_all_codes()
    for b, one in enumerate(renumbered.columns):
        assert one.n.tolist() == few.categories.columns[b].n.tolist()
    for pair, weights in few.categories.pairs.items():
        keys = weights.total().keys
        assert keys.tolist() == chunks[1].categories.pairs[pair].total().keys.tolist()


@pytest.mark.parametrize("sizes", SIZES)
def test_light_rows_stay_when_heavy_ones_are_unlearned(sizes):
    Z, y = rows_with_codes(4000, sizes)
    weight = np.random.default_rng(4).random(len(y)) * 1000.0
    weight[-400:] = 1e-3
    model = new_model(sizes, [10.0] * len(sizes))
    for i in range(0, len(y), 500):
        model.learn(Z[i : i + 500], y[i : i + 500], weight[i : i + 500])
    gone = slice(0, -400)
    left = model.state.moments.categories.subtract(
        model.moments_of(Z[gone], y[gone], weight[gone]).categories,
        {0: 0, 1: 1}, np.full(2, 1e-3), np.full((2, 4), 200.0),
    ).select_codes()  # fmt: skip
    wanted = model.moments_of(Z[-400:], y[-400:], weight[-400:]).categories
    for one, other in zip(left.columns, wanted.columns, strict=True):
        assert one.codes.tolist() == other.codes.tolist()
