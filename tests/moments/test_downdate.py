"""Precision loss by unlearning: the estimate, the warning and the refusal are right."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from builders import labelled_samples, stream
from hypothesis import given
from hypothesis import strategies as st

from counterpoise import BalancedRidgeClassifier, Moments
from counterpoise.errors import ModelFileError, PrecisionWarning
from counterpoise.moments.downdate import constant_features, is_indefinite
from counterpoise.solver.class_weights import affine


def true_error(model, X, y):
    """Distance of the coefficients from those of a fresh fit on what remains."""
    fresh = BalancedRidgeClassifier(**model.get_params()).fit(X, y).coef_
    return np.linalg.norm(model.coef_ - fresh) / np.linalg.norm(fresh)


def with_outlier(size, feature=1):
    X, y = stream(1000, 4, minority=0.2, seed=1)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    row = X[:1].copy()
    row[0, feature] = size
    return X, y, row


@pytest.mark.parametrize("size", 10.0 ** np.arange(1, 11))
def test_an_unlearned_outlier_leaves_the_moments_of_the_other_rows(size):
    """Silent below 1e-8, a warning up to 1e-3, an error and an unchanged model above."""
    X, y, row = with_outlier(size)
    model = BalancedRidgeClassifier().partial_fit(X, y).partial_fit(row, [1])
    before = model.coef_, model.intercept_, model.class_count_
    refusal = ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.unlearn(row, [1])
        except ValueError as error:
            refusal = str(error)
    if refusal:
        assert "feature 1" in refusal
        after = model.coef_, model.intercept_, model.class_count_
        for was, now in zip(before, after, strict=True):
            np.testing.assert_array_equal(was, now)
        assert size >= 1e6  # refused no earlier than rounding demands
        return
    error = true_error(model, X, y)
    if caught:
        assert caught[0].category is PrecisionWarning
        assert "feature 1" in str(caught[0].message)
        assert error < 1e-2
    else:
        assert error < 1e-8
    assert size <= 1e8


def test_the_estimated_error_is_close_to_the_true_error():
    for size in 10.0 ** np.arange(2, 7):
        X, y, row = with_outlier(size)
        seen = Moments.of(X, y)
        left = seen + Moments.of(row, [1]) - Moments.of(row, [1])
        error = abs(left.C[1, 1, 1] - seen.C[1, 1, 1]) / seen.C[1, 1, 1]
        estimate = left.relative_error()[1]
        assert error <= 10 * estimate
        assert left.relative_error()[0] < 1e-13  # the other features lost nothing


@pytest.mark.slow
def test_nearly_all_rows_can_be_unlearned():
    X, y = stream(50_050, 6, minority=0.05, seed=2)
    model = BalancedRidgeClassifier()
    for i in range(0, len(y), 1000):
        model.partial_fit(X[i : i + 1000], y[i : i + 1000])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(50, len(y), 500):
            model.unlearn(X[i : i + 500], y[i : i + 500])
    assert true_error(model, X[:50], y[:50]) < 1e-8


@pytest.mark.slow
def test_learning_and_unlearning_in_turns_restores_the_moments():
    """The long version is ``make prove``."""
    X, y = stream(500, 5)
    rng = np.random.default_rng(0)
    model = BalancedRidgeClassifier().fit(X, y)
    for _ in range(500):
        row, label = 3.0 * rng.standard_normal((1, 5)), rng.integers(0, 2, 1)
        model.partial_fit(row, label).unlearn(row, label)
    assert true_error(model, X, y) < 1e-11


def test_rows_can_be_unlearned_in_other_portions_than_learned():
    X, y = stream(300, 3)
    weight = np.random.default_rng(0).uniform(0.1, 3.0, 300)
    model = BalancedRidgeClassifier().fit(X, y, sample_weight=weight)
    model.unlearn(X[200:], y[200:], sample_weight=0.25 * weight[200:])
    model.unlearn(X[200:], y[200:], sample_weight=0.75 * weight[200:])
    fresh = BalancedRidgeClassifier().fit(X[:200], y[:200], sample_weight=weight[:200])
    np.testing.assert_allclose(model.coef_, fresh.coef_, rtol=1e-10)


def test_a_completely_unlearned_class_is_removed():
    X, y = stream(300, 3, 3)
    model = BalancedRidgeClassifier().fit(X, y)
    model.unlearn(X[y == 2], y[y == 2])
    assert model.classes_.tolist() == [0, 1]
    fresh = BalancedRidgeClassifier().fit(X[y != 2], y[y != 2])
    np.testing.assert_allclose(model.coef_, fresh.coef_, rtol=1e-10)


def test_a_model_can_learn_after_all_rows_were_unlearned():
    X, y = stream(50, 3)
    model = BalancedRidgeClassifier().fit(X, y).unlearn(X, y)
    assert not model.__sklearn_is_fitted__()
    with pytest.raises(ValueError, match="all its rows were unlearned"):
        model.predict(X)
    model.partial_fit(X, y)
    np.testing.assert_allclose(model.coef_, BalancedRidgeClassifier().fit(X, y).coef_, rtol=1e-10)


@pytest.mark.parametrize("weight", [1.0, 0.37])
@pytest.mark.parametrize("heavy", 10.0 ** np.array([8, 10, 11, 13, 15, 18, 30]))
def test_unlearning_a_heavy_row_never_removes_its_class(heavy, weight):
    """The check reads the digits of the remaining rows, not their share of the total."""
    X, y = stream(200, 3, minority=0.5)
    weights, row = np.full(200, weight), X[1:2]
    model = BalancedRidgeClassifier().fit(X, y, sample_weight=weights)
    model.partial_fit(row, [1], sample_weight=[heavy])
    before = model.coef_, model.class_count_
    refused = ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.unlearn(row, [1], sample_weight=[heavy])
        except ValueError as error:
            refused = str(error)
    if refused:
        assert "three correct digits" in refused
        assert heavy >= 1e13
        np.testing.assert_array_equal(model.coef_, before[0])
        np.testing.assert_array_equal(model.class_count_, before[1])
        return
    assert heavy <= 1e14
    fresh = BalancedRidgeClassifier().fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model.class_count_, fresh.class_count_, rtol=1e-3)
    assert np.linalg.norm(model.coef_ - fresh.coef_) / np.linalg.norm(fresh.coef_) < (
        1e-2 if caught else 1e-8
    )


def test_an_indicator_of_light_rows_survives_unlearning_a_heavy_row():
    """The check of the count of rows that are not 0 also reads the remaining count."""
    X = np.column_stack([np.tile([0.0, 1.0, 0.0], 40), np.arange(120.0)])
    y = np.arange(120) % 2
    kept, heavy = Moments.of(X, y), Moments.of([[1.0, 5.0]], [1], [1e13])
    left = kept + heavy - heavy
    np.testing.assert_allclose(left.C[1], kept.C[1], rtol=1e-2)
    np.testing.assert_allclose(left.nonconstant_weight[1], kept.nonconstant_weight[1], rtol=1e-2)


@pytest.mark.slow
def test_a_window_that_slides_over_a_trend_stays_precise():
    """The anchor follows the window, and the precision loss is recorded."""
    rng = np.random.default_rng(0)
    X = np.arange(4000.0)[:, None] + rng.standard_normal((4000, 1))
    y = np.arange(4000) % 2
    window = Moments.of(X[:20], y[:20])
    for i in range(20, 4000, 2):
        window += Moments.of(X[i : i + 2], y[i : i + 2])
        window = window - Moments.of(X[i - 20 : i - 18], y[i - 20 : i - 18])
    fresh = Moments.of(X[-20:], y[-20:])
    error = np.abs(window.C - fresh.C).max() / fresh.C.max()
    assert error < 1e-10
    assert error < 10 * window.relative_error()[0]
    assert np.abs(window.mean).max() < 100.0


def test_a_file_contains_the_precision_loss_of_unlearning(tmp_path):
    X, y = stream(200, 3)
    model = BalancedRidgeClassifier().fit(X, y).unlearn(X[:50], y[:50])
    model.save(tmp_path / "m")
    again = BalancedRidgeClassifier.load(tmp_path / "m")
    np.testing.assert_array_equal(
        again._engine.state.moments.removed, model._engine.state.moments.removed
    )
    assert again._engine.state.moments.removed.any()


def test_an_unlearned_class_leaves_no_name():
    X, y = stream(300, 3, 3)
    model = BalancedRidgeClassifier().fit(X, np.array(["a", "b", "secret"])[y])
    model.unlearn(X[y == 2], np.full((y == 2).sum(), "secret"))
    assert model._engine.state.moments.labels.tolist() == ["a", "b"]
    assert model._contents().facts["labels"]["values"] == ["a", "b"]


def test_a_model_that_has_unlearned_all_rows_contains_no_name():
    X, y = stream(30, 2)
    frame = pd.DataFrame(X, columns=["secret", "other"])
    model = BalancedRidgeClassifier().fit(frame, y).unlearn(frame, y)
    assert not hasattr(model, "feature_names_in_")
    again = model.partial_fit(pd.DataFrame(np.c_[X, X], columns=["a", "b", "c", "d"]), y)
    assert again.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert again.coef_.shape == (1, 4)


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("size", 10.0 ** np.array([10, 12, 13, 14, 15, 17, 22, 30, 40]))
def test_unlearning_heavy_rows_never_removes_their_class(size, at_once):
    """Weights with fractions add up to what rounds off everything that is lighter."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, y = stream(60, 3, minority=0.5, seed=seed)
        weight, heavy = rng.uniform(0.1, 2.0, 60), size * rng.uniform(0.3, 1.0, 4)
        rows, label = X[:4] + 0.1, np.ones(4, dtype=int)
        model = BalancedRidgeClassifier().fit(X, y, sample_weight=weight)
        model.partial_fit(rows, label, sample_weight=heavy)
        portions = [slice(0, 4)] if at_once else [slice(i, i + 1) for i in range(4)]
        refused = ""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                for part in portions:
                    model.unlearn(rows[part], label[part], sample_weight=heavy[part])
            except ValueError as error:
                refused = str(error)
        if refused:
            assert "three correct digits" in refused
            assert size >= 1e12
            assert model.class_count_[1] > 1e9
            continue
        fresh = BalancedRidgeClassifier().fit(X, y, sample_weight=weight)
        np.testing.assert_allclose(model.class_count_, fresh.class_count_, rtol=1e-12)
        error = np.linalg.norm(model.coef_ - fresh.coef_) / np.linalg.norm(fresh.coef_)
        assert error < (1e-2 if caught else 1e-8)


@st.composite
def weighted_samples(draw):
    """Samples with some features of few values, and weights of some kind."""
    X, y = draw(labelled_samples(most=30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    few = rng.random(X.shape[1]) < 0.4
    X[:, few] = 0.1 + rng.integers(0, 3, (len(y), int(few.sum())))
    kind = draw(st.sampled_from(["none", "whole", "tenths", "any"]))
    weight = {
        "none": np.ones(len(y)),
        "whole": rng.integers(1, 4, len(y)).astype(float),
        "tenths": np.full(len(y), 0.1),
        "any": 10.0 ** rng.uniform(-2, 2, len(y)),
    }[kind]
    return X, y, weight, rng.permutation(len(y))


@pytest.mark.slow
@given(weighted_samples(), st.booleans())
def test_rows_unlearned_one_by_one_leave_empty_moments(sample, at_once):
    """In any order and any units, and nothing is refused on the way."""
    X, y, weight, order = sample
    left = Moments.of(X, y, weight)
    if not at_once:
        left = Moments.of(X[:0], y[:0])
        for i in range(len(y)):
            left += Moments.of(X[i : i + 1], y[i : i + 1], weight[i : i + 1])
    for i in order:
        left = left - Moments.of(X[[i]], y[[i]], weight[[i]])
    for name in (
        "n",
        "weight_remainder",
        "min_row_weight",
        "N",
        "mean",
        "C",
        "max_scatter",
        "nonconstant_weight",
        "removed",
        "row_hashes",
    ):
        assert not getattr(left, name).any()


@pytest.mark.slow
@given(weighted_samples())
def test_the_last_row_of_a_class_stays_exact(sample):
    X, y, weight, order = sample
    left = Moments.of(X, y, weight)
    last = [np.flatnonzero(y == label)[0] for label in left.labels]
    for i in order:
        if i not in last:
            left = left - Moments.of(X[[i]], y[[i]], weight[[i]])
    np.testing.assert_allclose(left.n, weight[last], rtol=1e-15)
    assert not left.C.any()
    assert not left.relative_error().any()
    rounding = 2e-16 * (np.abs(left.anchor) + np.abs(X[last]))  # of the mean about the anchor
    assert (np.abs(left.anchor + left.mean - X[last]) <= 2 * rounding).all()


def test_a_feature_that_becomes_constant_has_no_variance():
    """After one year is unlearned, one year remains: no digits are lost."""
    X, y = stream(200, 3, minority=0.4)
    X[:, 1] = np.where(np.arange(200) < 120, 2023.1, 2024.1)
    weight = np.random.default_rng(0).uniform(0.1, 2.0, 200)
    model = BalancedRidgeClassifier().fit(X, y, sample_weight=weight)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.unlearn(X[:120], y[:120], sample_weight=weight[:120])
    fresh = BalancedRidgeClassifier().fit(X[120:], y[120:], sample_weight=weight[120:])
    assert model.coef_[0, 1] == fresh.coef_[0, 1] == 0.0
    np.testing.assert_allclose(model.coef_, fresh.coef_, rtol=1e-10)


def test_a_feature_of_small_variance_does_not_count_as_constant():
    X, y = stream(200, 2, minority=0.4)
    X[:, 1] = 1e9 * X[:, 1]
    X[120:, 1] = 1.0 + 1e-9 * np.arange(80)
    model = BalancedRidgeClassifier().fit(X, y)
    with pytest.raises(ValueError, match="feature 1 with less than three correct digits"):
        model.unlearn(X[:120], y[:120])


@pytest.mark.slow
def test_all_rows_of_fractional_weight_can_be_unlearned():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3000, 2)) + 5.0, np.arange(3000) % 2
    weight = 10.0 ** rng.uniform(-3, 3, 3000)
    rows = [Moments.of(X[i : i + 2], y[i : i + 2], weight[i : i + 2]) for i in range(0, 3000, 2)]
    window = rows[0].copy()
    for i in range(1, len(rows)):
        window += rows[i]
        if i >= 20:
            window = window - rows[i - 20]
    for chunk in rows[-20:]:
        window = window - chunk
    assert not window.n.any()


def test_rows_unlearned_in_fractions_are_removed_in_the_end():
    """0.1 + 0.2 differs from 0.3 by rounding: this remainder is not a row."""
    X, y = stream(20, 2, minority=0.5)
    whole = Moments.of(X, y, np.full(20, 0.3))
    left = whole - Moments.of(X, y, np.full(20, 0.1)) - Moments.of(X, y, np.full(20, 0.2))
    assert not left.n.any()


@pytest.mark.slow
@given(weighted_samples(), st.integers(0, 30))
def test_row_hashes_do_not_depend_on_order_and_rounding(sample, cut):
    X, y, weight, order = sample
    whole = Moments.of(X, y, weight)
    parts = Moments.of(X[:cut], y[:cut], weight[:cut])
    parts += Moments.of(X[cut:], y[cut:], weight[cut:])
    again = Moments.of(X[order], y[order], weight[order])
    sparse = Moments.of(sp.csr_array(X), y, weight)
    for other in (parts, again, sparse):
        slots = [other.labels.tolist().index(label) for label in whole.labels]
        np.testing.assert_array_equal(other.row_hashes[slots], whole.row_hashes)


@pytest.mark.slow
@given(st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=5), st.integers(1, 2**20))
def test_row_hashes_restore_a_constant(row, times):
    row = np.array(row)
    marks = Moments.of([row], ["a"], [float(times)]).row_hashes[0]
    constant, value = constant_features(marks, row * (1 + 1e-9))
    assert constant.all()
    np.testing.assert_array_equal(value, row)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::counterpoise.errors.PrecisionWarning")
def test_row_hashes_and_weights_are_in_the_file(tmp_path):
    X, y = stream(50, 3)
    weight = np.random.default_rng(0).uniform(0.1, 2.0, 50)
    model = BalancedRidgeClassifier().fit(X, y, sample_weight=weight)
    model.save(tmp_path / "m")
    again = BalancedRidgeClassifier.load(tmp_path / "m")
    for name in ("weight_remainder", "min_row_weight", "row_hashes"):
        one, two = (getattr(m._engine.state.moments, name) for m in (model, again))
        np.testing.assert_array_equal(one, two)
        assert one.any()
    for i in range(50):
        again.unlearn(X[[i]], y[[i]], sample_weight=weight[[i]])
    assert not again.__sklearn_is_fitted__()


@pytest.mark.parametrize("name", ["weight_remainder", "min_row_weight", "row_hashes"])
def test_a_file_without_the_data_for_unlearning_is_refused(name):
    contents = BalancedRidgeClassifier().fit(*stream(50, 3))._contents()
    del contents.arrays[name]
    with pytest.raises(ModelFileError, match="tensors"):
        BalancedRidgeClassifier._from_contents(contents)


def test_unlearning_allocates_no_third_scatter():
    """The result reuses the memory of the second operand: no third scatter is allocated."""
    X, y = stream(400, 300)
    one, two = Moments.of(X, y), Moments.of(X[:100], y[:100])
    tracemalloc.start()
    try:
        left = one.subtract(two)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.7 * left.C[0].nbytes  # of two classes; BLOCK rows of one, and their products
    assert left.C.base is two.C.base or left.C is two.C


@pytest.mark.parametrize("d", [3, 500, 501, 640])
@pytest.mark.parametrize("rows", [5, 700])
def test_an_indefinite_scatter_is_detected_at_any_width(d, rows):
    rng = np.random.default_rng(0)
    moments = Moments.of(rng.standard_normal((rows, d)), np.zeros(rows, dtype=int))
    assert not is_indefinite(moments, 0)
    C = moments.C[0]
    values, vectors = np.linalg.eigh(C)
    C -= (values[0] + 1e-4 * values[-1]) * np.outer(vectors[:, 0], vectors[:, 0])
    assert is_indefinite(moments, 0)


def random_removal(seed):
    """Return a model that unlearned rows, mostly large ones, and one that never learned them."""
    rng = np.random.default_rng(seed)
    k, gone, d = rng.integers(4, 50), rng.integers(1, 40), rng.integers(1, 9)
    y = rng.integers(0, 2, k + gone)
    y[:2] = 0, 1
    X = rng.standard_normal((k + gone, d)) @ (np.eye(d) + 0.5 * rng.standard_normal((d, d)))
    X = (X + y[:, None]) * 10.0 ** rng.integers(-4, 5, d)
    X[k:] *= 10.0 ** rng.uniform(0, 4.5)
    weight = rng.uniform(0.1, 3.0, k + gone)
    if rng.random() < 0.3:
        X *= rng.random(X.shape) < 0.3
    order = rng.permutation(k + gone)
    model = BalancedRidgeClassifier().fit(X[order], y[order], sample_weight=weight[order])
    size = int(rng.choice([10, 100]))
    for i in range(k, k + gone, size):
        rows = slice(i, i + size)
        model.unlearn(X[rows], y[rows], sample_weight=weight[rows])
    return model, BalancedRidgeClassifier().fit(X[:k], y[:k], sample_weight=weight[:k])


@pytest.mark.slow
def test_unlearning_without_a_warning_keeps_eight_digits():
    silent = 0
    for seed in range(150):
        refused = ""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                model, fresh = random_removal(seed)
            except ValueError as error:
                refused = str(error)
        if refused:
            assert "three correct digits" in refused
            continue
        np.testing.assert_array_equal(model.classes_, fresh.classes_)
        spread = affine(fresh._engine.state.moments, "standard")[1]
        error = np.linalg.norm((model.coef_ - fresh.coef_) * spread)
        error /= np.linalg.norm(fresh.coef_ * spread)
        assert error < (1e-2 if caught else 1e-8), seed
        silent += not caught
    assert silent > 30


def test_a_feature_that_becomes_zero_in_all_classes_has_no_variance():
    """Not even by the rounding of means about an anchor that was left far away."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 2)), np.arange(60) % 2
    X[:20, 1] = 5.47412386
    X[20:, 1] = 0.0
    weight = rng.uniform(0.1, 2.0, 60)
    model = BalancedRidgeClassifier().fit(X, y, sample_weight=weight)
    model.unlearn(X[:20], y[:20], sample_weight=weight[:20])
    fresh = BalancedRidgeClassifier().fit(X[20:], y[20:], sample_weight=weight[20:])
    assert model.coef_[0, 1] == fresh.coef_[0, 1] == 0.0
    np.testing.assert_allclose(model.coef_, fresh.coef_, rtol=1e-10)
