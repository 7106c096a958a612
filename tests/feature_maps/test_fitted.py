"""Maps of the features: once a map is fixed, every law of the linear model holds on its terms."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from builders import assert_close, assert_same_model, batch_scores, stream
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from counterpoise import AutoClassifier, BalancedRidgeClassifier
from counterpoise.errors import ModelFileError
from counterpoise.estimators.base import wrap
from counterpoise.feature_maps import (
    WARMUP,
    FittedMap,
    Interactions,
    MapUnion,
    Polynomial,
    RandomFourier,
    fit_map,
    make_fitted_map,
    map_of,
)
from counterpoise.feature_maps._pairwise import nearness, products
from counterpoise.modelfile.container import from_bytes, to_bytes

MAPS = [
    "poly2", "poly3", "interactions", "rm2", "rm3", "rff:40", "rff:42,width=0.5/1.0/2.0,seed=3",
    "rm2+rff:20", "hinges", "hinges5", "ranks", "steps:30", "landmarks:30",
    "landmarks:20,width=0.5/2.0",
    "hinges+landmarks:20",
]  # fmt: skip
OPTIONS = [{}, {"scale": None}, {"class_weight": None}]
X, Y = stream(700, d=3, classes=2, minority=0.2)
X3, Y3 = stream(600, d=3, classes=3, minority=0.2, seed=1)


def model(features, **options):
    return BalancedRidgeClassifier(feature_map=features, **{"ridge": 0.01, **options})


def in_chunks(start, rows, labels, size, **options):
    one = model(start, **options)
    for at in range(0, len(labels), size):
        one.partial_fit(rows[at : at + size], labels[at : at + size])
    return one


# Exactness, once the map is fixed


@pytest.mark.slow
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_any_order_and_any_chunks_give_the_same_model(name, options):
    one = fit_map(name, X[:100])
    whole = model(one, **options).fit(X, Y)
    order = np.random.default_rng(0).permutation(len(Y))
    assert_same_model(in_chunks(one, X[order], Y[order], 37, **options), whole)
    assert_same_model(in_chunks(one, X, Y, 1, **options), whole)


@pytest.mark.parametrize("name", MAPS)
def test_the_terms_of_a_row_do_not_depend_on_other_rows_by_a_bit(name):
    one = fit_map(name, X[:100], y=Y[:100])
    whole = one.transform(X)
    for size in (1, 2, 3, 5, 64, 256, 699):
        parts = [one.transform(X[at : at + size]) for at in range(0, len(X), size)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
    for rows in (np.asfortranarray(X), X.repeat(2, axis=0)[::2], X[:, ::-1][:, ::-1]):
        np.testing.assert_array_equal(one.transform(rows), whole)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rff:40", "landmarks:30", "rm2", "hinges+landmarks:20"])
def test_rows_learned_together_can_be_unlearned_one_by_one(name):
    one = fit_map(name, X[:100], y=Y[:100])
    whole = model(one).fit(X, Y)
    rare = np.flatnonzero(Y == 1)
    for i in rare.tolist():
        whole.unlearn(X[[i]], Y[[i]])
    kept = np.delete(np.arange(len(Y)), rare)
    assert whole.class_count_.tolist() == [len(kept)]
    alone = in_chunks(one, X[kept], Y[kept], 100)
    ours, theirs = whole._engine.state.moments, alone._engine.state.moments
    # Rows of the other class were never touched.
    np.testing.assert_allclose(ours.C[ours.n > 0], theirs.C, rtol=1e-9, atol=1e-12)


def test_the_last_rows_of_a_class_may_differ_by_rounding_only():
    """Rounding differs where a map was computed on another machine."""
    whole = BalancedRidgeClassifier().fit(X, Y)
    rare = X[Y == 1]
    labels = np.ones(len(rare), dtype=int)
    with pytest.raises(ValueError, match="differ from those that were learned"):
        whole.unlearn(rare * (1.0 + 1e-7), labels)
    whole.unlearn(rare * (1.0 + 1e-15), labels)
    assert whole.classes_.tolist() == [0]


@pytest.mark.parametrize("terms", [1, 7, 8, 30])
@pytest.mark.parametrize("rows", [1, 4, 6])
def test_tiles_are_products_and_nearness(terms, rows):
    rng = np.random.default_rng(terms + rows)
    Z, W, sharp = rng.normal(size=(rows, 5)), rng.normal(size=(terms, 5)), rng.random(terms)
    sharp[-1] = 1e4  # so far away that nothing is left
    np.testing.assert_allclose(products(Z, W), Z @ W.T, rtol=1e-14, atol=1e-14)
    squares = ((Z[:, None] - W) ** 2).sum(axis=2)
    wide = np.full((rows, terms + 3), np.nan)
    nearness(Z, W, sharp, wide[:, 1 : 1 + terms])
    np.testing.assert_allclose(wide[:, 1 : 1 + terms], np.exp(-sharp * squares), rtol=1e-12)
    assert (wide[:, terms] == 0.0).all()
    assert np.isnan(wide[:, [0, terms + 1, terms + 2]]).all()
    nearness(W, W, sharp, square := np.empty((terms, terms)))
    assert (square.diagonal() == 1.0).all()
    with pytest.raises(ValueError, match="does not have the shape or layout"):
        nearness(Z, W, sharp, np.empty((rows, terms + 1)))


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("rows", [(X, Y), (X3, Y3)], ids=["two classes", "three"])
def test_merging_equals_having_seen_both_and_forgetting_equals_never_having_seen(name, rows):
    Z, y = rows
    one = fit_map(name, Z[:100])
    both = model(one).fit(Z[:300], y[:300]).merge(model(one).fit(Z[300:], y[300:]))
    whole = model(one).fit(Z, y)
    assert_same_model(both, whole)
    assert_same_model(both.unlearn(Z[300:], y[300:]), model(one).fit(Z[:300], y[:300]), 1e-9)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("rows", [(X, Y), (X3, Y3)], ids=["two classes", "three"])
def test_progressive_scores_are_those_of_refitted_models(name, rows):
    Z, y = rows[0][:400], rows[1][:400]
    one = fit_map(name, Z[:50])
    scores = model(one).progressive_scores(Z, y)
    for at in (20, 21, 150, 399):
        refitted = model(one).fit(Z[:at], y[:at]).decision_function(Z[at : at + 1])
        assert_close(scores[at], refitted[0], 1e-8)  # the systems are nearly singular early on


@pytest.mark.parametrize("name", ["rm2", "rff:40"])
def test_integer_weights_are_repetitions_and_halves_fade(name):
    one, times = fit_map(name, X), np.random.default_rng(0).integers(0, 3, len(Y))
    weighted = model(one).partial_fit(X, Y, sample_weight=times)
    assert_same_model(weighted, model(one).fit(X.repeat(times, 0), Y.repeat(times)))
    fading = in_chunks(one, X, Y, 50, half_life=40.0)
    assert_same_model(fading, in_chunks(one, X, Y, 700, half_life=40.0))


@pytest.mark.parametrize("name", MAPS)
def test_the_model_is_that_of_its_terms(name):
    one = fit_map(name, X[:100])
    mapped = BalancedRidgeClassifier(ridge=0.01).fit(one.transform(X), Y)
    assert_same_model(model(one).fit(X, Y), mapped, 1e-12)


@pytest.mark.parametrize("degree", [2, 3])
def test_scikit_learn_agrees_about_polynomials(degree):
    Z = StandardScaler().fit_transform(X[:200])
    terms = PolynomialFeatures(degree, include_bias=False).fit_transform(Z)
    oracle = batch_scores(terms, Y[:200], terms, ridge=0.01)
    ours = model(f"poly{degree}").fit(X[:200], Y[:200]).decision_function(X[:200])
    assert_close(ours, np.ravel(oracle), 1e-9)


# Before it is fixed


@pytest.mark.parametrize("name", MAPS)
def test_a_warm_up_scales_by_all_rows_so_far_and_then_the_scaling_stays(name):
    early = model(name).fit(X[:100], Y[:100])
    by_them = fit_map(name, X[:100], y=Y[:100])
    assert_same_model(early, model(by_them).fit(X[:100], Y[:100]), 1e-12)
    late, n = model(name).fit(X, Y), map_of(name).rows
    by_all = fit_map(name, X[:n], y=Y[:n])
    assert late.feature_map_ == by_all
    assert_same_model(late, model(by_all).fit(X, Y), 1e-12)
    assert late.partial_fit(X * 1000.0, Y).feature_map_ == by_all


@pytest.mark.parametrize("size", [1, 7, 100, WARMUP - 1, WARMUP, WARMUP + 1])
def test_chunks_do_not_matter_to_a_warm_up(size):
    assert_same_model(in_chunks("rm2", X, Y, size), model("rm2").fit(X, Y))


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0, 3, 300])
@pytest.mark.parametrize("before", [0, 100])
def test_progressive_scores_go_through_a_warm_up(delay, before):
    Z, y = X[:420], Y[:420]
    one = model("rff:20")
    if before:
        one.partial_fit(Z[:before], y[:before])
    scores = one.progressive_scores(Z[before:], y[before:], delay=delay, classes=[0, 1])
    for at in (before, before + 5, 250, 256, 257, 300, 419):
        learned = max(before, at - delay)
        if at - before < delay and not before:
            assert scores[at - before] == 0.0
        elif len(set(y[:learned])) == 2:
            refitted = model("rff:20").fit(Z[:learned], y[:learned]).decision_function(Z[[at]])
            assert_close(scores[at - before], refitted[0], 1e-7)
    assert_same_model(one, model("rff:20").fit(Z, y), 1e-9)


def test_rows_of_weight_zero_do_not_warm():
    weight = np.ones(300)
    weight[::3] = 0.0
    one = model("rm2").partial_fit(X[:300], Y[:300], sample_weight=weight, classes=[0, 1])
    assert_same_model(one, model("rm2").fit(X[:300][weight > 0], Y[:300][weight > 0]), 1e-12)
    nothing = model("rm2").partial_fit(X[:2], Y[:2], sample_weight=[0.0, 0.0])
    assert_same_model(nothing.partial_fit(X, Y), model("rm2").fit(X, Y), 1e-12)


@pytest.mark.slow
def test_single_rows_are_chunks_of_one():
    one, two = model("rff:20"), model("rff:20")
    for x, y in zip(X[:400], Y[:400].tolist(), strict=True):
        one.learn_one(x, y)
    assert_same_model(one, two.fit(X[:400], Y[:400]))
    assert [one.predict_one(x) for x in X[:50]] == two.predict(X[:50]).tolist()
    for bad in ([1.0, np.nan, 2.0], [1.0, 2.0], [1.0, 1e300, 2.0]):
        before = to_bytes(one._contents())
        with pytest.raises(ValueError, match=r"NaN|features|beyond"):
            one.learn_one(np.array(bad), 1)
        assert to_bytes(one._contents()) == before


@pytest.mark.parametrize("name", MAPS)
def test_sparse_rows_are_rows(name):
    Z = np.where(np.abs(X) > np.median(np.abs(X), axis=0), X, 0.0)
    one = model(name).fit(sp.csr_array(Z), Y)
    assert_same_model(one, model(name).fit(Z, Y), 1e-12)
    np.testing.assert_array_equal(one.predict(sp.csr_array(Z)), one.predict(Z))


# What cannot be, or not yet


def test_merge_and_unlearn_wait_for_a_fixed_map():
    one, two = model("rm2").fit(X, Y), model("rm2").fit(X[300:], Y[300:])
    with pytest.raises(ValueError, match="fixed by different rows"):
        one.merge(two)
    with pytest.raises(ValueError, match="feature_map is 'rm2' here and 'rm3' there"):
        one.merge(model("rm3").fit(X, Y))
    early = model("rm2").fit(X[:200], Y[:200])
    with pytest.raises(ValueError, match="56 more than so far"):
        early.unlearn(X[:5], Y[:5])
    again = model(one.feature_map_).fit(X[300:], Y[300:])
    assert_same_model(one.merge(again), model(one.feature_map_).fit(*twice()))


def twice():
    return np.concatenate([X, X[300:]]), np.concatenate([Y, Y[300:]])


def test_a_map_cannot_change_once_rows_were_learned():
    one = model("rm2").fit(X, Y)
    with pytest.raises(ValueError, match="cannot change after rows were learned"):
        one.set_params(feature_map="rm3").partial_fit(X, Y)


@pytest.mark.parametrize("name", ["rff", "rm2"])
def test_forgetting_all_leaves_the_map(name):
    one = model(fit_map(name, X)).fit(X[:50], Y[:50]).unlearn(X[:50], Y[:50])
    assert_same_model(one.partial_fit(X, Y), model(fit_map(name, X)).fit(X, Y), 1e-12)


@pytest.mark.parametrize(
    ("features", "says"),
    [
        ("rff:3", "terms must be even"),
        ("rff:0", "terms must be an integer"),
        ("rff:10,width=0", "width must be"),
        ("rff:2,width=1/2", "too few for 2 widths"),
        ("poly0", "order must be"),
        ("poly2+cubic", "is not a feature map"),
        ("cubic", "'cubic' is not a feature map"),
        (7, "7 is not a feature map"),
        ("", "is not a feature map"),
        (MapUnion([]), "one or more maps"),
        (MapUnion([MapUnion([Polynomial()])]), "cannot be part"),
        (RandomFourier(10, width="wide"), "width must be"),
        (RandomFourier(10, seed=-1), "seed must be"),
        ("poly9", "need .* GB for moments, more than memory_limit"),
    ],
)
def test_maps_that_are_none_are_refused(features, says):
    one = model(features, memory_limit=1e5)
    with pytest.raises(ValueError, match=says):
        one.fit(X, Y)
    assert not hasattr(one, "classes_")


def test_a_scaling_that_is_none_is_refused():
    for mean, deviation in (([0.0], [0.0]), ([np.nan], [1.0]), ([0.0, 1.0], [1.0]), ([], [])):
        with pytest.raises(ValueError, match="mean and deviation"):
            make_fitted_map("rm2", mean, deviation)


def test_high_orders_overflow_with_a_clear_error():
    one = model(fit_map("rm90", X)).fit(X[:100], Y[:100])
    before = to_bytes(one._contents())
    with pytest.raises(ValueError, match="terms of rm90 overflow; take a lower order"):
        one.partial_fit(X[:5] + 1e9, Y[:5])
    assert to_bytes(one._contents()) == before


# The maps themselves


@pytest.mark.slow
@pytest.mark.parametrize("width", [0.5, 1.0, 3.0])
def test_random_fourier_features_approach_the_gaussian_kernel(width):
    Z = np.random.default_rng(0).standard_normal((40, 6))
    kernel = rbf_kernel(Z, gamma=1.0 / (2.0 * 6 * width**2))
    phi = RandomFourier(20_000, width=width).fit_transform(Z)
    # 10,000 frequencies: a mean of cosines is off by 1/100 at most as a standard deviation.
    assert np.abs(phi @ phi.T - kernel).max() < 0.04
    few = np.mean(
        [np.square(p @ p.T - kernel).mean() for p in (maps(Z, width, seed) for seed in range(30))]
    )
    # Independent frequencies would have this mean squared error; orthogonal ones have less.
    assert few < np.mean((1.0 - kernel**2) ** 2) / (2 * 12)


def maps(Z, width, seed):
    return RandomFourier(24, width=width, seed=seed).fit_transform(Z)


@pytest.mark.slow
def test_several_widths_are_the_mean_of_their_kernels():
    Z = np.random.default_rng(1).standard_normal((30, 4))
    phi = RandomFourier(30_000, width=(0.5, 2.0)).fit_transform(Z)
    kernel = [rbf_kernel(Z, gamma=1.0 / (8 * w**2)) for w in (0.5, 2.0)]
    assert np.abs(phi @ phi.T - np.mean(kernel, axis=0)).max() < 0.04


@pytest.mark.slow
@given(st.integers(1, 5), st.integers(1, 4), st.sampled_from(["poly", "interactions", "rm"]))
def test_terms_of_late_features_are_zero_where_these_are(inputs, order, name):
    rng = np.random.default_rng(order)
    Z = rng.standard_normal((6, inputs))
    one = make_fitted_map(f"{name}{order}", np.zeros(inputs), np.ones(inputs))
    at = rng.permutation(inputs + 2)[:inputs]
    wide, places = one.with_features(at, [f"f{j}" for j in range(inputs + 2)])
    Z_wide = np.zeros((6, inputs + 2))
    Z_wide[:, at] = Z
    mapped, expected = wide.transform(Z_wide), np.zeros((6, wide.size))
    expected[:, places] = one.transform(Z)
    np.testing.assert_allclose(mapped, expected, rtol=1e-12, atol=1e-12)  # factors commute
    names = np.array(wide.map.names([f"f{j}" for j in range(inputs + 2)]))
    few = one.map.names([f"f{j}" for j in at])
    assert [sorted(n.split(" ")) for n in names[places]] == [sorted(n.split(" ")) for n in few]


def test_late_features_of_random_maps_change_nothing_about_rows_without_them():
    one = fit_map("rm2+rff:20", X[:100])
    wide, places = one.with_features(np.array([2, 0, 3]), ["late", "b", "a", "c"])
    Z = np.zeros((50, 4))
    Z[:, [2, 0, 3]] = X[:50]
    np.testing.assert_allclose(wide.transform(Z)[:, places], one.transform(X[:50]), atol=1e-12)
    again, _ = one.with_features(np.array([0, 1, 2]), ["a", "b", "c", "b"])
    assert (again.drawn[:, 3] == wide.drawn[:, 1]).all()  # drawn by name, wherever it comes


def test_the_same_seed_draws_the_same_and_another_does_not():
    one, two = (fit_map("rff:20,seed=5", X) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one != fit_map("rff:20,seed=6", X)
    assert one != "rff:20,seed=5"
    # Fixed here for good: a file or a cluster of another version must draw these.
    drawn = RandomFourier(4, seed=1).draw(2).round(6).tolist()
    assert drawn == [[-0.169699, -0.50082], [0.210979, -0.071489]]


@pytest.mark.parametrize("name", MAPS)
def test_a_map_is_what_its_text_says(name):
    the_map = map_of(name)
    assert map_of(the_map.text).text == the_map.text
    assert map_of(the_map) is the_map
    one = fit_map(name, X)
    assert one.transform(X).shape[1] == one.size == len(set(one.map.names(["a", "b", "c"])))
    assert the_map.fit(X).transform(X).shape == (len(X), one.size)
    assert len(clone(the_map).fit(X).get_feature_names_out()) == one.size
    assert repr(one) == f"<{the_map.text} of 3 features, scaled>"
    assert pickle.loads(pickle.dumps(one)) == one


def test_far_values_are_cut_off():
    one = make_fitted_map(Interactions(), [0.0, 0.0], [1.0, 2.0])
    assert one.transform([[1e9, -1e9]]).tolist() == [[10.0, -10.0, -100.0]]


def test_rows_that_are_cut_off_are_counted(tmp_path):
    X, y = stream(900, d=3)
    X[300:, 2] += 0.05 * np.arange(600)  # a clock
    weight = np.resize([1.0, 2.0, 0.0], 900)
    whole = BalancedRidgeClassifier(feature_map="rm2").partial_fit(X, y)
    Z = (X - whole.feature_map_.mean) / whole.feature_map_.deviation
    far = (np.abs(Z) >= 10.0).any(axis=1)
    assert 0 < far.sum() < 600
    assert whole.clipped_ == far.sum()
    tested, one_by_one = (BalancedRidgeClassifier(feature_map=whole.feature_map_) for _ in range(2))
    tested.progressive_scores(X, y, delay=3)
    for x, label in zip(X, y, strict=True):
        one_by_one.learn_one(x, label)
    assert tested.clipped_ == one_by_one.clipped_ == far.sum()
    parts = [
        BalancedRidgeClassifier(feature_map=whole.feature_map_).fit(X[i::2], y[i::2])
        for i in (0, 1)
    ]
    both = parts[0].merge(parts[1])
    assert both.clipped_ == far.sum()
    both.save(tmp_path / "both.safetensors")
    assert BalancedRidgeClassifier.load(tmp_path / "both.safetensors").clipped_ == far.sum()
    assert both.unlearn(X[::2], y[::2]).clipped_ == far[1::2].sum()
    heavy = BalancedRidgeClassifier(feature_map=whole.feature_map_).fit(X, y, sample_weight=weight)
    assert heavy.clipped_ == weight @ far


def test_a_chooser_counts_what_its_maps_cut_off():
    X, y = stream(300, d=2)
    X[260:, 1] += np.arange(40.0)
    first = AutoClassifier(candidates=["linear", "rm2", "hinges"]).fit(X[:256], y[:256])
    rows, single = copy.deepcopy(first).partial_fit(X[256:], y[256:]), copy.deepcopy(first)
    for x, label in zip(X[256:], y[256:], strict=True):
        single.learn_one(x, label)
    again = AutoClassifier(candidates=first.maps_).fit(X, y)
    assert rows.clipped_ == single.clipped_ == again.clipped_
    assert rows.clipped_ == {
        "rm2": first.maps_[1].is_clipped(X).sum(),
        "hinges": first.maps_[2].is_clipped(X).sum(),
    }
    assert rows.clipped_["rm2"] > 0.0


def test_names_of_terms_come_from_the_frame():
    frame = pd.DataFrame(X[:50], columns=["age", "amount", "rate"])
    one = model("interactions").fit(frame, Y[:50])
    assert one._engine.mapped_names(one.feature_names_in_)[-1] == "amount rate"
    assert one.feature_map_.map.names(one.feature_names_in_) == [
        "age", "amount", "rate", "age amount", "age rate", "amount rate",
    ]  # fmt: skip


# Files


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("rows", [0, 1, 100, 400])
def test_save_then_load_is_the_identity_with_maps(tmp_path, name, rows):
    one = model(name).partial_fit(
        X3[: max(rows, 1)], Y3[: max(rows, 1)], classes=[0, 1, 2],
        sample_weight=None if rows else [0.0],
    )  # fmt: skip
    one.save(tmp_path / "m.safetensors")
    again = BalancedRidgeClassifier.load(tmp_path / "m.safetensors")
    assert to_bytes(again._contents()) == to_bytes(one._contents())
    assert again.get_params(deep=False) == one.get_params(deep=False)
    for two in (one, again):
        two.partial_fit(X3[rows:], Y3[rows:])
    assert to_bytes(again._contents()) == to_bytes(one._contents())


def test_a_map_that_was_given_comes_back_as_given(tmp_path):
    one = model(fit_map("rff:20", X)).fit(X, Y)
    one.save(tmp_path / "m.safetensors")
    again = BalancedRidgeClassifier.load(tmp_path / "m.safetensors")
    assert isinstance(again.feature_map, FittedMap)
    assert again.feature_map == one.feature_map
    assert_same_model(again.merge(one), model(one.feature_map).fit(*repeat_all_rows()))


def repeat_all_rows():
    return np.concatenate([X, X]), np.concatenate([Y, Y])


def test_the_file_of_a_linear_model_has_no_map():
    contents = BalancedRidgeClassifier().fit(X, Y)._contents()
    assert contents.options["feature_map"] is None
    assert "map" not in contents.facts


def make_changed_contents(change):
    contents = from_bytes(to_bytes(model("rff:20").fit(X[:100], Y[:100])._contents()))
    change(contents)
    return contents


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.options.update(feature_map="rff:22"),
        lambda c: c.options.update(feature_map="rff:020"),
        lambda c: c.options.update(feature_map="rm2"),
        lambda c: c.options.pop("feature_map"),
        lambda c: c.facts.pop("map"),
        lambda c: c.facts["map"].update(first=4),
        lambda c: c.facts["map"].update(first=True),
        lambda c: c.facts["map"].update(given=True),
        lambda c: c.facts["map"].update(clipped=101.0),
        lambda c: c.facts["map"].update(clipped=-1.0),
        lambda c: c.arrays.pop("map mean"),
        lambda c: c.arrays.pop("warmup y"),
        lambda c: c.arrays["map deviation"].fill(0.0),
        lambda c: c.arrays.update({"map drawn": np.zeros((9, 3))}),
        lambda c: c.arrays["warmup y"].fill(2.0),
        lambda c: c.arrays["warmup y"].fill(0.5),
        lambda c: c.arrays["warmup weight"].fill(-1.0),
        lambda c: c.arrays["warmup weight"].fill(2.0),
        lambda c: c.arrays["warmup X"].fill(1e200),
        lambda c: c.arrays.update({"warmup X": np.zeros((100, 2))}),
        lambda c: c.arrays.update({"map strange": np.zeros(1)}),
    ],
)
def test_a_file_with_a_map_that_cannot_be_is_refused(change):
    with pytest.raises((ModelFileError, ValueError, KeyError)):
        BalancedRidgeClassifier._from_contents(make_changed_contents(change))


def test_a_fixed_map_goes_to_another_model():
    chosen = AutoClassifier(candidates=["rm2"]).partial_fit(X[:300], Y[:300])
    one = model(chosen.best_.feature_map_).fit(X, Y)
    assert_same_model(one, model(fit_map("rm2", X[:WARMUP])).fit(X, Y), 1e-12)


# What a reader found


@pytest.mark.slow
def test_a_look_in_between_changes_no_progressive_score():
    y = Y3[:200].copy()
    y[:100] = np.minimum(y[:100], 1)
    one = model("poly2").partial_fit(X3[:100], y[:100])
    two = copy.deepcopy(one)
    one.predict(X3[:5])
    np.testing.assert_array_equal(
        one.progressive_scores(X3[100:200], y[100:200], delay=20),
        two.progressive_scores(X3[100:200], y[100:200], delay=20),
    )


@pytest.mark.parametrize("rows", [100, 400])
def test_a_fixed_map_cannot_take_the_place_of_another(rows):
    one = model("poly2").partial_fit(X[:rows], Y[:rows])
    for other in (one.feature_map_, fit_map("poly2", X[:9])):
        before = to_bytes(one._contents())
        with pytest.raises(ValueError, match="cannot change after rows were learned"):
            one.set_params(feature_map=other).partial_fit(X[rows:], Y[rows:])
        assert to_bytes(one.set_params(feature_map="poly2")._contents()) == before


def test_a_map_of_the_caller_stays_the_callers():
    mine = Polynomial(2)
    one = model(mine).fit(X, Y)
    expected = one.decision_function(X)
    mine.order = 3
    for act in (one.predict, lambda rows: one.partial_fit(rows, Y)):
        with pytest.raises(ValueError, match="cannot change"):
            act(X)
    mine.order = 2
    np.testing.assert_array_equal(one.decision_function(X), expected)


@pytest.mark.parametrize("strange", [RandomFourier(10, seed=10**20), Polynomial(1000)])
def test_a_map_without_a_name_is_refused_before_anything_is_learned(strange):
    with pytest.raises(ValueError, match="has no name for a model file"):
        model(strange, memory_limit=1e300).fit(X[:, :1], Y)


def test_many_features_cost_random_maps_little():
    wide = sp.random_array((60, 20_000), density=1e-3, format="csr", random_state=0)
    y = np.arange(60) % 2
    one = model("rff:40").fit(wide, y)
    assert one.feature_map_.drawn.shape == (20, 20_000)
    gram = one.feature_map_.drawn @ one.feature_map_.drawn.T
    assert np.abs(gram - np.diag(np.diagonal(gram))).max() < 1e-12  # orthogonal all the same
    with pytest.raises(ValueError, match="warm-up and its random numbers"):
        model("rff:40", memory_limit=1e7).fit(wide, y)


def test_late_features_need_room_for_terms_only():
    rows, y = np.random.default_rng(0).standard_normal((300, 300)), np.arange(300) % 2
    one = model("rff:50", memory_limit=1e6).fit(rows, y)
    one._engine.add_features([str(j) for j in range(301)])
    one = wrap(type(one), one._engine)
    assert one.n_features_in_ == 301


def test_a_given_map_widens_with_the_model(tmp_path):
    one = model(fit_map("rm2", X)).fit(X, Y)
    one._engine.add_features(["a", "b", "c", "d"])
    one = wrap(type(one), one._engine)
    assert one.feature_map == one.feature_map_
    wide = np.column_stack([X, Y])
    one.save(tmp_path / "m.safetensors")
    again = BalancedRidgeClassifier.load(tmp_path / "m.safetensors")
    assert again.get_params(deep=False) == one.get_params(deep=False)
    for two in (one, again, one.merge(again)):
        assert two.fit(wide, Y).n_features_in_ == 4
    with pytest.raises(ValueError, match="fixed for 4 features, but X has 3"):
        one.fit(X, Y)


def test_long_streams_are_mapped_a_slice_at_a_time():
    rows, y = np.tile(X, (8, 1)), np.tile(Y, 8)
    one = fit_map("rff:20", X)
    whole = model(one).progressive_scores(rows, y)
    parts = model(one)
    again = [
        parts.progressive_scores(rows[i : i + 700], y[i : i + 700]) for i in range(0, 5600, 700)
    ]
    assert_close(whole, np.concatenate(again), 1e-8)


def test_deviations_next_to_nothing_are_survived():
    one = make_fitted_map("rm2", [0.0], [5e-324])
    assert one.transform([[1e100]])[0, 0] == 10.0


@pytest.mark.parametrize("start", ["rm2", None, "given"])
@pytest.mark.parametrize("then", ["poly2", None, "given"])
def test_where_nothing_is_left_another_map_may_begin(start, then):
    given = {"given": fit_map("rm2", X[:50])}
    one = model(fit_map("rm2", X) if start == "given" else start).fit(X, Y).unlearn(X, Y)
    features = given.get(then, then)
    one.set_params(feature_map=features).partial_fit(X, Y)
    assert_same_model(one, model(features).fit(X, Y), 1e-12)
    assert to_bytes(
        BalancedRidgeClassifier._from_contents(one._contents())._contents()
    ) == to_bytes(one._contents())


def test_a_map_cannot_change_behind_what_was_solved():
    one = model("rm2").fit(X, Y)
    one.predict(X)
    one.predict_one(X[0])
    one.set_params(feature_map=None)
    for act in (
        lambda: one.predict(X),
        lambda: one.predict_one(X[0]),
        lambda: one.learn_one(X[0], 1),
        lambda: one.coef_,
    ):
        with pytest.raises(ValueError, match="cannot change after rows were learned"):
            act()


def test_far_single_rows_are_answered_as_in_chunks():
    x = np.random.default_rng(0).standard_normal((400, 1))
    one = model("poly110").fit(x, (x[:, 0] > 0).astype(int))
    assert one.predict_one([1000.0]) == one.predict([[1000.0]])[0]
    with pytest.raises(ValueError, match="terms of poly110 overflow"):
        one.learn_one([1000.0], 1)


def test_a_model_that_has_unlearned_all_may_learn_rows_of_another_width():
    rng = np.random.default_rng(0)
    wide, narrow, y = (
        rng.standard_normal((300, 3)),
        rng.standard_normal((300, 1)),
        np.arange(300) % 2,
    )
    one = BalancedRidgeClassifier(feature_map="rm2").partial_fit(wide, y).unlearn(wide, y)
    one.partial_fit(narrow, y)
    np.testing.assert_array_equal(
        one.coef_, BalancedRidgeClassifier(feature_map="rm2").fit(narrow, y).coef_
    )
