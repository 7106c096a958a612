"""Crashes, copies, interrupts and odd numbers: nothing is lost, nothing half done."""

import copy
import pickle
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from builders import assert_close, stream

from counterpoise import BalancedRidgeClassifier, Moments
from counterpoise.engine import state
from counterpoise.errors import PrecisionWarning

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


@pytest.mark.parametrize(
    "duplicate",
    [copy.deepcopy, *[lambda m, p=p: pickle.loads(pickle.dumps(m, protocol=p)) for p in PROTOCOLS]],
)
def test_a_copy_continues_to_learn_old_and_new_classes(duplicate):
    X, y = stream(700, 3, 6)
    model = BalancedRidgeClassifier()
    for k in range(5):
        model.partial_fit(X[y == k][:40], y[y == k][:40])
    model = duplicate(model)
    for k in range(5):
        model.partial_fit(X[y == k][40:], y[y == k][40:])
    model.partial_fit(X[y == 5], y[y == 5])
    assert_close(model.coef_, BalancedRidgeClassifier().fit(X, y).coef_)


def image(model):
    learned = model.__dict__.get("state_")
    return None if learned is None else pickle.dumps((learned.moments, learned.declared))


@pytest.mark.slow
@pytest.mark.parametrize("action", ["partial_fit", "unlearn", "fit"])
def test_an_interrupt_at_any_line_leaves_the_state_before_or_after(action):
    """A KeyboardInterrupt is raised at the i-th line that runs in our modules, for every i."""
    X, y = stream(30, 2, 2)
    new = (X[:6], np.array([0, 1, 2, 2, 0, 1])) if action != "unlearn" else (X[:6], y[:6])

    def fresh():
        return BalancedRidgeClassifier().partial_fit(X, y)

    done = fresh()
    getattr(done, action)(*new)
    before, after = image(fresh()), image(done)
    lines = 0
    while True:
        model, left = fresh(), [lines]

        def tracer(frame, event, argument, left=left):
            if (
                "counterpoise" not in frame.f_code.co_filename
                or "tests" in frame.f_code.co_filename
            ):
                return None
            if event == "line":
                left[0] -= 1
                if left[0] < 0:
                    raise KeyboardInterrupt
            return tracer

        sys.settrace(tracer)
        try:
            getattr(model, action)(*new)
            finished = True
        except KeyboardInterrupt:
            finished = False
        finally:
            sys.settrace(None)
        found = image(model)
        values = found is not None and equal_in_value(found, before)
        assert values or found == after, f"different from before and after, at line event {lines}"
        assert np.isfinite(model.coef_).all()
        if finished:
            break
        lines += 1
    assert lines > 50


def equal_in_value(one, two):
    """Slots for labels that were never seen or only declared do not count."""
    (a, _), (b, _) = pickle.loads(one), pickle.loads(two)
    c = len(b.n)
    return not a.n[c:].any() and all(
        np.array_equal(getattr(a, name)[:c], getattr(b, name))
        for name in ("n", "N", "mean", "C", "max_scatter", "nonconstant_weight")
    )


def test_out_of_memory_while_making_room_for_a_class(monkeypatch):
    X, y = stream(30, 2, 2)
    model = BalancedRidgeClassifier().fit(X, y)
    before = model.coef_
    zeros = np.zeros

    def broke(shape, *arguments, **options):
        if isinstance(shape, tuple) and len(shape) == 3 and shape[0] > 2:
            raise MemoryError
        return zeros(shape, *arguments, **options)

    monkeypatch.setattr(np, "zeros", broke)
    with pytest.raises(MemoryError):
        model.partial_fit(X[:3], [0, 1, 2])
    monkeypatch.undo()
    np.testing.assert_array_equal(model.coef_, before)
    model.partial_fit(X[:3], [0, 1, 2])
    whole = BalancedRidgeClassifier().fit(np.vstack([X, X[:3]]), np.append(y, [0, 1, 2]))
    assert_close(model.coef_, whole.coef_)


def test_nan_is_found_even_in_rows_that_have_decayed_to_nothing():
    X, y = np.random.default_rng(0).standard_normal((2000, 2)), np.arange(2000) % 2
    X[2, 0] = np.nan
    with pytest.raises(ValueError, match="feature 0 is NaN at row 2"):
        BalancedRidgeClassifier(half_life=1.0).fit(X, y)


def test_unlearning_is_refused_when_only_one_class_turns_negative():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.standard_normal((100, 1)), 1e4 * rng.standard_normal((100, 1))])
    model = BalancedRidgeClassifier().fit(X, [0] * 100 + [1] * 100)
    with pytest.raises(ValueError, match="never learned"):
        model.unlearn([[500.0]], [0])


def test_the_estimated_error_includes_means_far_from_the_anchor():
    rng = np.random.default_rng(0)
    y = (rng.random(200_000) < 0.5).astype(int)
    X = rng.standard_normal((200_000, 2)) + 1e8
    X[:, 0] += y
    model = BalancedRidgeClassifier().partial_fit(np.zeros((1, 2)), [2]).partial_fit(X, y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.unlearn(np.zeros((1, 2)), [2])
            model.unlearn(X[50:], y[50:])
        except ValueError as error:
            caught.append(str(error))
    fresh = BalancedRidgeClassifier().fit(X[:50], y[:50]).coef_
    error = np.linalg.norm(model.coef_ - fresh) / np.linalg.norm(fresh)
    assert caught or error < 1e-8


@pytest.mark.parametrize("apart", [1.0, 1e-2, 1e-3])
def test_the_estimated_error_includes_collinear_features(apart):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(1000)
    X = np.column_stack([x, x + apart * rng.standard_normal(1000)])
    y = (x + rng.standard_normal(1000) > 0.5).astype(int)
    for size in 10.0 ** np.arange(1, 6):
        model = BalancedRidgeClassifier().fit(X, y)
        row = np.array([[size, -size]])
        model.partial_fit(row, [1])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                model.unlearn(row, [1])
            except ValueError:
                continue
        fresh = BalancedRidgeClassifier().fit(X, y).coef_
        error = np.linalg.norm(model.coef_ - fresh) / np.linalg.norm(fresh)
        assert error < (1e-2 if caught else 1e-8)


def test_a_warning_turned_into_an_error_leaves_the_rows_learned():
    X, y = stream(1000, 2)
    outlier = np.array([[1e8, 1.0]])
    model = BalancedRidgeClassifier().fit(X, y).partial_fit(outlier, [1])
    before = model.class_count_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((PrecisionWarning, ValueError)):
            model.unlearn(outlier, [1])
    np.testing.assert_array_equal(model.class_count_, before)


def test_options_changed_behind_the_back_are_noticed():
    X, y = stream(50, 2)
    faded = BalancedRidgeClassifier(half_life=10.0).fit(X, y).set_params(half_life=None)
    mapped = BalancedRidgeClassifier(feature_map="rm2").fit(X, y).set_params(feature_map=None)
    for model in (faded, mapped):
        for action in (
            lambda m=model: m.unlearn(X[:5], y[:5]),
            lambda m=model: m.merge(BalancedRidgeClassifier().fit(X, y)),
            lambda m=model: BalancedRidgeClassifier().fit(X, y).merge(m),
            lambda m=model: m.partial_fit(X, y),
        ):
            with pytest.raises(ValueError, match="cannot change after"):
                action()


def test_moments_that_do_not_fit_together():
    X, y = stream(20, 3)
    with pytest.raises(ValueError, match="do not match"):
        Moments.of(X, y[:5])
    with pytest.raises(ValueError, match="sample_weight must have shape \\(20,\\), got"):
        Moments.of(X, y, [1.0, 2.0])
    other = Moments.of(X[:, :1], y)
    with pytest.raises(ValueError, match="cannot be combined"):
        Moments.of(X, y) + other
    with pytest.raises(ValueError, match="cannot be combined"):
        Moments.of(X, y) - other


def test_singular_without_intercept_whatever_the_class_weights():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 4))
    X[:, 3] = X[:, 0] + X[:, 1]
    y = (X[:, 0] + rng.standard_normal(1000) > 1).astype(int)
    scores = []
    for class_weight in (None, {0: 3.0, 1: 3.0}):
        model = BalancedRidgeClassifier(ridge=0.0, fit_intercept=False, class_weight=class_weight)
        with pytest.warns(UserWarning, match="collinear"):
            scores.append(model.fit(X, y).decision_function(X))
    assert_close(scores[0], scores[1], 1e-8)


def test_a_collinear_pair_in_large_units_does_not_cost_another_feature():
    u, v = np.random.default_rng(0).standard_normal((2, 500))
    y = (v > 0.3).astype(int)
    pair = np.column_stack([1e8 * u, 1e8 * u, v])
    with pytest.warns(UserWarning, match="collinear"):
        coef = BalancedRidgeClassifier(scale=None).fit(pair, y).coef_[0, 2]
    alone = BalancedRidgeClassifier(scale=None).fit(pair[:, 1:], y).coef_[0, 1]
    assert abs(coef - alone) < 1e-8


def test_declared_labels_of_another_type():
    X, y = stream(20, 2)
    for declared in (["a", "b"], [0.0, 1.0, np.nan]):
        model = BalancedRidgeClassifier()
        with pytest.raises(ValueError, match=r"one type|NaN"):
            model.partial_fit(X, y, classes=declared)
        assert not model.__sklearn_is_fitted__()


@pytest.mark.parametrize("weight", [1e-200, 1e-160, 1e-20, 1e20])
def test_all_weights_small_or_large(weight):
    X, y = stream(200, 3)
    model = BalancedRidgeClassifier(ridge=1e-4)
    for i in range(0, 200, 20):
        model.partial_fit(X[i : i + 20], y[i : i + 20], sample_weight=np.full(20, weight))
    assert_close(model.coef_, BalancedRidgeClassifier(ridge=1e-4).fit(X, y).coef_)
    p = model.set_params(ridge="auto").predict_proba(X)
    assert np.isfinite(p).all()


def test_weights_that_differ_by_many_orders():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 2)) + 1e8
    X[::64] = 0.0
    weight = np.ones(20_000)
    weight[::64] = 1e-17
    y = (np.arange(20_000) // 64) % 2
    kept = np.arange(20_000) % 64 > 0
    dense = Moments.of(X, y, weight)
    exact = Moments.of(X[kept], y[kept])
    np.testing.assert_allclose(dense.C, exact.C, rtol=0.2, atol=50.0)  # 1e-17 (1e8)² n = 30
    np.testing.assert_allclose(
        Moments.of(sp.csr_array(X), y, weight).C, dense.C, rtol=1e-6, atol=0.1
    )


def test_scores_that_differ_by_nothing_much():
    model = BalancedRidgeClassifier(penalize_intercept=False).fit([[-1.0], [1.0]], [0, 1])
    for x in (1e-17, -1e-17, 1e-300, 1e99, -1e99):
        p = model.predict_proba([[x]])
        assert np.isfinite(p).all()
        assert p.argmax() == model.predict([[x]])[0]


def test_gcv_with_fewer_rows_than_features_is_silent():
    X = np.random.default_rng(0).standard_normal((4, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BalancedRidgeClassifier(ridge="gcv").fit(X, [0, 0, 1, 1]).predict(X)


def test_rows_of_weight_zero_leave_no_slot_and_no_type():
    X, y = stream(20, 2)
    model = BalancedRidgeClassifier().fit(X, y)
    model.partial_fit(X[:2], [5, 6], sample_weight=[0.0, 0.0])
    assert len(model._engine.state.moments.n) == 2
    first = BalancedRidgeClassifier().partial_fit(X[:2], ["a", "b"], sample_weight=[0.0, 0.0])
    assert first.partial_fit(X, y).classes_.tolist() == [0, 1]


def test_many_new_labels_in_one_batch_cause_no_warning():
    X = np.random.default_rng(0).standard_normal((400, 2))
    one = BalancedRidgeClassifier().fit(X[:200], np.arange(200) % 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        two = BalancedRidgeClassifier().fit(X[200:], 10 + np.arange(200) % 30)
        one.merge(two)
        one.partial_fit(X[200:], 10 + np.arange(200) % 30)


def test_hundreds_of_classes_take_memory_for_their_moments_only():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3000, 4)), np.arange(3000) % 600
    model = BalancedRidgeClassifier().fit(X, y)
    assert model.coef_.shape == (600, 4)
    assert model.predict(X[:3]).shape == (3,)


def test_looking_while_learning_never_leaves_an_old_solution_behind(monkeypatch):
    X, y = stream(100, 3)
    model = BalancedRidgeClassifier().fit(X[:50], y[:50])
    solve = state.solve_scores

    def slow(*arguments):  # rows arrive while another thread solves
        solution = solve(*arguments)
        monkeypatch.undo()
        model.partial_fit(X[50:], y[50:])
        return solution

    monkeypatch.setattr(state, "solve_scores", slow)
    model.predict(X)
    assert_close(model.coef_, BalancedRidgeClassifier().fit(X, y).coef_)


@pytest.mark.parametrize("types", [(np.int64, np.uint64), (np.uint64, np.int64)])
def test_labels_with_and_without_a_sign_stay_apart(types, tmp_path):
    X, base = np.random.default_rng(0).standard_normal((80, 2)), 2**62
    one, two = ((base + k + np.arange(40) % 20).astype(kind) for k, kind in enumerate(types))
    model = BalancedRidgeClassifier().partial_fit(X[:40], one).partial_fit(X[40:], two)
    assert model.classes_.tolist() == [base + k for k in range(21)]
    assert model.class_count_.tolist() == [2.0] + [4.0] * 19 + [2.0]
    model.save(tmp_path / "m")
    again = BalancedRidgeClassifier.load(tmp_path / "m")
    assert again.classes_.tolist() == model.classes_.tolist()
    parts = [
        BalancedRidgeClassifier().fit(X[:40], one),
        BalancedRidgeClassifier().fit(X[40:], two),
    ]
    assert parts[0].merge(parts[1]).classes_.tolist() == model.classes_.tolist()
    model.unlearn(X[40:], two)
    assert model.class_count_.tolist() == [2.0] * 20


def test_labels_with_and_without_a_sign_stay_apart_in_a_warm_up():
    X, base = np.random.default_rng(0).standard_normal((80, 2)), 2**62
    model = BalancedRidgeClassifier(feature_map="poly2").partial_fit(
        X[:40], base + np.arange(40) % 3
    )
    model.partial_fit(X[40:], (base + 1 + np.arange(40) % 3).astype(np.uint64))
    assert model.classes_.tolist() == [base + k for k in range(4)]
    assert model.class_count_.sum() == 80


def test_labels_that_would_be_rounded_are_refused():
    X = np.random.default_rng(0).standard_normal((4, 2))
    model = BalancedRidgeClassifier().fit(X, [0, 1, 2**53 + 1, 2**53 + 1])
    before = image(model)
    with pytest.raises(ValueError, match=r"label 9007199254740993 .* use text"):
        model.partial_fit(X, [0.5, 0.5, 0.5, 1.0])
    assert image(model) == before


@pytest.mark.parametrize("features", [None, "poly2", "rff:8"])
def test_weights_that_add_up_to_too_much_are_refused_with_a_map_too(features):
    X, y = stream(300, 2)
    model = BalancedRidgeClassifier(feature_map=features).fit(X, y)
    with pytest.raises(ValueError, match=r"add up to more than 1e\+50"):
        model.partial_fit(X, y, sample_weight=np.full(300, 1e49))
    assert model.class_count_.sum() == 300
