"""The laws of moments: they hold for every sample, not for an example."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from builders import assert_close, assert_same_model, labelled_samples, stream
from hypothesis import given
from hypothesis import strategies as st

from counterpoise import BalancedRidgeClassifier, Moments
from counterpoise.moments import accumulate as class_rows
from counterpoise.moments._moments import decay
from counterpoise.moments.decay import Decay
from counterpoise.moments.moments import EPS
from counterpoise.moments.resize import (
    GrowableScatter,
    reindex_features,
    select_features,
    with_features,
    with_labels,
)

widths = st.integers(1, 5)


def assert_same(one, two, tolerance=1e-11):
    """Compare moments class by class, independent of the order of the classes and the anchors."""
    seen = [{label: k for k, label in enumerate(m.labels.tolist()) if m.n[k]} for m in (one, two)]
    assert set(seen[0]) == set(seen[1])
    spread = 1.0 + np.sqrt(
        max(two.max_scatter.max(initial=0.0), np.abs(two.mean).max(initial=0.0) ** 2)
    )
    for label in seen[0]:
        i, j = seen[0][label], seen[1][label]
        np.testing.assert_allclose(one.n[i], two.n[j], rtol=1e-12)
        np.testing.assert_allclose(one.N[i], two.N[j], rtol=1e-12)
        np.testing.assert_allclose(
            one.anchor + one.mean[i], two.anchor + two.mean[j], rtol=1e-12, atol=1e-13 * spread
        )
        units = np.sqrt(np.maximum(one.max_scatter[i], two.max_scatter[j]))
        rounding = 8 * EPS * (np.abs(one.anchor) + np.abs(two.anchor) + np.abs(two.mean[j]))
        allowed = tolerance * np.outer(units, units) + one.n[i] * np.outer(rounding, rounding)
        assert (np.abs(one.C[i] - two.C[j]) <= allowed).all()


def concatenate(one, two):
    return tuple(np.concatenate(pair) for pair in zip(one, two, strict=True))


@given(st.data(), widths)
def test_merging_equals_having_seen_both(data, d):
    one, two = data.draw(labelled_samples(d)), data.draw(labelled_samples(d))
    assert_same(Moments.of(*one) + Moments.of(*two), Moments.of(*concatenate(one, two)))


@given(st.data(), widths)
def test_merging_commutes(data, d):
    one, two = (Moments.of(*data.draw(labelled_samples(d))) for _ in range(2))
    assert_same(one + two, two + one)


@given(st.data(), widths)
def test_subtracting_equals_never_having_seen(data, d):
    one, two = data.draw(labelled_samples(d)), data.draw(labelled_samples(d))
    kept = Moments.of(*one)
    if kept.n.min() > 3:  # enough rows left for their scatter to be more than rounding
        assert_same(kept + Moments.of(*two) - Moments.of(*two), kept)


@given(labelled_samples())
def test_subtracting_everything_leaves_exact_zeros(sample):
    nothing = Moments.of(*sample) - Moments.of(*sample)
    for array in (nothing.n, nothing.N, nothing.mean, nothing.C, nothing.max_scatter):
        assert not array.any()


@given(labelled_samples(weighted=True))
def test_an_integer_weight_is_a_repetition(sample):
    X, y, weight = sample
    times = weight.astype(int)
    if times.any():
        assert_same(Moments.of(X, y, weight), Moments.of(X.repeat(times, 0), y.repeat(times)))


@given(labelled_samples(weighted=True), st.floats(0.5, 50))
def test_an_integer_weight_is_a_repetition_under_fading(sample, half_life):
    X, y, weight = sample
    times = weight.astype(int)
    if times.any():
        repeated = Moments.of(X.repeat(times, 0), y.repeat(times), half_life=half_life)
        assert_same(Moments.of(X, y, weight, half_life=half_life), repeated)


@given(labelled_samples(most=30), st.floats(0.5, 50))
def test_fading_is_a_weight_by_age(sample, half_life):
    X, y = sample
    age = np.array([(y[i + 1 :] == y[i]).sum() for i in range(len(y))])
    faded, direct = (
        Moments.of(X, y, half_life=half_life),
        Moments.of(X, y, 0.5 ** (age / half_life)),
    )
    direct.N[:] = np.bincount(np.unique(y, return_inverse=True)[1])
    assert_same(faded, direct)


@given(st.data(), widths, st.floats(0.5, 50))
def test_fading_does_not_depend_on_the_chunks(data, d, half_life):
    one, two = data.draw(labelled_samples(d)), data.draw(labelled_samples(d))
    parts = [Moments.of(*part, half_life=half_life) for part in (one, two)]
    whole = Moments.of(*concatenate(one, two), half_life=half_life)
    assert_same(parts[0].append(parts[1], Decay.parse(half_life)), whole)


@given(labelled_samples(), st.floats(0.01, 1.0))
def test_decay_is_a_smaller_weight(sample, gamma):
    X, y = sample
    decayed = Moments.of(X, y)
    decay(decayed, gamma)
    assert_same(decayed, Moments.of(X, y, np.full(len(y), gamma)))


@given(labelled_samples(d=3), st.integers(1, 4))
def test_growing_is_a_feature_that_was_zero(sample, more):
    X, y = sample
    wide = np.pad(X, ((0, 0), (0, more)))
    assert_same(with_features(Moments.of(X, y), 3 + more), Moments.of(wide, y))
    assert_same(
        with_features(Moments.of(X, y), 3 + more) + Moments.of(wide + 1.0, y),
        Moments.of(*concatenate((wide, y), (wide + 1.0, y))),
    )


def test_growing_feature_by_feature_copies_rarely():
    moments, room = Moments.of(np.ones((4, 1)), [0, 0, 1, 1]), GrowableScatter()
    stores = []
    for d in range(2, 200):
        moments = with_features(moments, d, room)
        if not stores or stores[-1] is not room.store:
            stores.append(room.store)
        assert moments.C.shape == (2, d, d)
    assert len(stores) < 20


@given(labelled_samples(d=3))
def test_moments_are_values_that_share_nothing(sample):
    X, y = sample
    one = Moments.of(X, y)
    others = [
        one.copy(),
        one + one,
        with_features(one, 5),
        with_labels(one, np.append(one.labels, one.labels.max() + 1)),
        reindex_features(one, np.array([2, 0, 1]), 4),
        select_features(one, np.array([0, 2])),
    ]
    before = pickle.dumps(one)
    for other in others:
        for name in Moments.__slots__:
            mine, theirs = getattr(one, name), getattr(other, name)
            assert name == "labels" or not np.may_share_memory(mine, theirs)
        other += other.copy()
    assert pickle.dumps(one) == before


@pytest.mark.parametrize("calls", [1e30, -1e30], ids=["filled", "as they are"])
@given(labelled_samples(d=4, weighted=True), st.floats(0.0, 1.0))
def test_sparse_rows_give_the_moments_of_dense_ones(calls, sample, filled):
    """Compare both methods: the estimated time of a call decides whether zeros are filled in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_rows, "NS_PER_CALL", calls)
        both_give_the_same(sample, filled)


def both_give_the_same(sample, filled):
    X, y, weight = sample
    rng = np.random.default_rng(len(X))
    X = np.where(rng.random(X.shape) < filled, X, 0.0)
    dense, sparse = Moments.of(X, y, weight), Moments.of(sp.csr_array(X), y, weight)
    assert_same(sparse, dense)
    np.testing.assert_allclose(sparse.nonconstant_weight, dense.nonconstant_weight, rtol=1e-12)


def test_wide_sparse_rows_are_left_as_they_are_and_full_ones_are_filled_in():
    rng = np.random.default_rng(0)
    for share in (0.01, 0.6):
        X = sp.random_array((700, 400), density=share, format="csr", random_state=rng)
        assert class_rows.dense_is_faster(X) == (share > 0.5)
        y = rng.integers(0, 2, 700)
        assert_same(Moments.of(X, y), Moments.of(X.toarray(), y))


@pytest.mark.parametrize("far", [0.0, 1e6])
@given(seed=st.integers(0, 1000), at=st.lists(st.integers(1, 199), max_size=6))
def test_sparse_chunks_give_the_model_of_dense_ones(far, seed, at):
    """Also with full columns, weights, late labels and unlearning; results may be read between."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, 6)) * (rng.random((200, 6)) < [0.05, 0.2, 0.4, 0.6, 0.9, 1.0])
    X[:, 5] += far
    y, w = rng.integers(0, 2 + (seed % 2), 200), rng.choice([0.0, 1.0, 0.5, 3.0], 200)
    models = [BalancedRidgeClassifier() for _ in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_rows, "NS_PER_CALL", -1e30)
        for rows in np.split(np.arange(200), sorted(at)):
            for model, kind in zip(models, (np.asarray, sp.csr_array, sp.csr_array), strict=True):
                model.partial_fit(kind(X[rows]), y[rows], sample_weight=w[rows])
            if len(models[2].classes_) > 1:
                models[2].predict(X)
    dense, sparse, read = (model._engine.state.moments for model in models)
    assert_same(sparse, dense, 1e-11 if not far else 1e-9)
    for name in Moments.__slots__:
        np.testing.assert_array_equal(getattr(sparse, name), getattr(read, name))
    np.testing.assert_array_equal(sparse.C, sparse.C.transpose(0, 2, 1))
    for model, kind in zip(models[:2], (np.asarray, sp.csr_array), strict=True):
        model.unlearn(kind(X[:50]), y[:50], sample_weight=w[:50])
    left = [model._engine.state.moments for model in models[:2]]
    assert_same(left[1], left[0], 1e-10 if not far else 1e-8)


@pytest.mark.parametrize("calls", [1e30, -1e30], ids=["filled", "as they are"])
def test_sparse_rows_far_from_zero_keep_their_digits(calls, monkeypatch):
    monkeypatch.setattr(class_rows, "NS_PER_CALL", calls)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((500, 3)), rng.integers(0, 2, 500)
    X[:, 2] *= rng.random(500) < 0.2
    near, far = Moments.of(X, y), Moments.of(sp.csr_array(X + [1e8, 0.0, 0.0]), y)
    assert (
        np.abs(far.C - near.C).max() <= 1e-6 * np.abs(near.C).max()
    )  # 1e8 + x keeps 8 digits of x


def test_a_chunk_larger_than_a_block_is_cut_without_trace():
    X, y = stream(40_000, 40)
    halves = Moments.of(X[:20_000], y[:20_000]) + Moments.of(X[20_000:], y[20_000:])
    assert_same(Moments.of(X, y), halves)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_category_that_only_the_unlearned_rows_had_leaves_no_trace(value, kind):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 3)), rng.integers(0, 2, 200)
    X[:, 2] = rng.integers(0, 2, 200)
    X[:100, 2] = value
    weight = rng.uniform(0.5, 2.0, 200)
    kept = Moments.of(kind(X), y, weight) - Moments.of(kind(X[100:]), y[100:], weight[100:])
    assert not kept.C[:, 2].any()
    assert ((kept.mean + kept.anchor)[:, 2] == value).all()
    assert_same(kept, Moments.of(X[:100], y[:100], weight[:100]))


# The same laws for the model.

OPTIONS = [
    {},
    {"class_weight": None},
    {"class_factors": {2: 4.0}},
    {"penalize_intercept": False},
    {"fit_intercept": False},
    {"multi_class": "ovr"},
    {"scale": None},
]


def learn_chunks(chunks, **options):
    model = BalancedRidgeClassifier(**options)
    for chunk in chunks:
        model.partial_fit(*chunk)
    return model


def cut(X, y, at):
    return list(zip(np.split(X, at), np.split(y, at), strict=True))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(
    seed=st.integers(0, 1000),
    classes=st.integers(2, 4),
    at=st.lists(st.integers(1, 199), max_size=6),
)
def test_any_order_and_any_chunks_give_one_model(options, seed, classes, at):
    X, y = stream(200, 4, classes, seed=seed)
    order = np.random.default_rng(seed).permutation(200)
    chunks = [c for c in cut(X[order], y[order], sorted(at)) if len(c[1])]
    assert_same_model(learn_chunks(chunks, **options), learn_chunks([(X, y)], **options))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(seed=st.integers(0, 1000), classes=st.integers(2, 4), at=st.integers(1, 199))
def test_a_merged_model_has_seen_both_streams(options, seed, classes, at):
    X, y = stream(200, 4, classes, seed=seed)
    one, two = (learn_chunks([chunk], **options) for chunk in cut(X, y, [at]))
    assert_same_model(one.merge(two), learn_chunks([(X, y)], **options))


@pytest.mark.parametrize("options", OPTIONS[:-1], ids=str)
@given(seed=st.integers(0, 1000), classes=st.integers(2, 4), at=st.integers(60, 199))
def test_what_is_unlearned_was_never_learned(options, seed, classes, at):
    X, y = stream(200, 4, classes, seed=seed)
    (kept, gone) = cut(X, y, [at])
    assert_same_model(
        learn_chunks([kept, gone], **options).unlearn(*gone), learn_chunks([kept], **options)
    )


@given(seed=st.integers(0, 1000), at=st.integers(50, 150), half_life=st.floats(5, 500))
def test_a_fading_model_does_not_depend_on_the_chunks(seed, at, half_life):
    X, y = stream(200, 4, 3, seed=seed)
    chunks = cut(X, y, [at])
    whole = learn_chunks([(X, y)], half_life=half_life)
    assert_same_model(learn_chunks(chunks, half_life=half_life), whole)
    one, two = (learn_chunks([chunk], half_life=half_life) for chunk in chunks)
    assert_same_model(one.merge(two), whole)


@given(seed=st.integers(0, 1000))
def test_rows_of_weight_zero_change_nothing(seed):
    X, y = stream(60, 3, 3, seed=seed)
    model = BalancedRidgeClassifier().fit(X, y)
    before = model.coef_, model.intercept_, model.class_count_
    model.partial_fit(X * 1e6, np.full(len(y), 77), sample_weight=np.zeros(len(y)))
    for was, now in zip(before, (model.coef_, model.intercept_, model.class_count_), strict=True):
        np.testing.assert_array_equal(was, now)
    assert 77 not in model.classes_


def test_the_same_chunks_in_the_same_order_are_bit_identical_however_often_somebody_looks():
    X, y = stream(3000, 8, 3)
    quiet, watched = BalancedRidgeClassifier(), BalancedRidgeClassifier()
    for chunk in cut(X, y, range(70, 3000, 70)):
        quiet.partial_fit(*chunk)
        watched.partial_fit(*chunk).predict(X[:5])
    np.testing.assert_array_equal(quiet.coef_, watched.coef_)
    np.testing.assert_array_equal(quiet.intercept_, watched.intercept_)


def test_fading_keeps_the_rare_class_that_stays_away():
    X, y = stream(4000, 4, 2, minority=0.02)
    first, later = slice(0, 2000), np.flatnonzero((np.arange(4000) >= 2000) & (y == 0))
    model = BalancedRidgeClassifier(half_life=50.0).partial_fit(X[first], y[first])
    rare = model._engine.state.moments.C[1].copy()
    model.partial_fit(X[later], y[later])
    np.testing.assert_array_equal(model._engine.state.moments.C[1], rare)
    assert_close(model.class_count_, [(y[first] == 0).sum() + len(later), (y[first] == 1).sum()])
