"""Several classes: laws of the exact model, references of other libraries, and hostile input."""

import pickle
import sys
import tracemalloc
import warnings
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from builders import assert_close, assert_same_answers, center_scores, stream
from scipy.stats import multivariate_normal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.preprocessing import StandardScaler

from counterpoise import BalancedRidgeClassifier
from counterpoise.errors import PrecisionWarning
from counterpoise.river import BalancedRidgeClassifier as RiverFace
from counterpoise.solver.link import MAX_COMPARED_CLASSES, _inverse, _nearest_class_pairs
from counterpoise.solver.ridge import PooledClasses, linear

SHAPES = [
    {},
    {"multi_class": "ovr"},
    {"pooled_rows": 0.0},
    {"pooled_rows": 3.0},
    {"pooled_rows": 100.0},
]
AT_ONCE = [shape for shape in SHAPES if "multi_class" not in shape]

several = pytest.mark.parametrize("classes", [2, 3, 10, 26])
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def rows(classes, seed=0, d=4):
    """Some twenty rows a class at least, so that no covariance is all rounding."""
    return stream(max(300, 25 * classes), d, classes, minority=0.5 / classes, seed=seed)


def model_of(*chunks, **options):
    model = BalancedRidgeClassifier(**options)
    for chunk in chunks:
        model.partial_fit(*chunk)
    return model


# Laws.


@several
@every_shape
@pytest.mark.parametrize("half_life", [None, 20.0])
def test_chunks_and_merged_parts_equal_one_fit(shape, classes, half_life):
    X, y = rows(classes)
    options = {**shape, "half_life": half_life}
    at = [0, 1, 2, 50, 51, 200, len(y)]
    parts = [(X[i:j], y[i:j]) for i, j in pairwise(at)]
    whole = model_of((X, y), **options)
    assert_same_answers(model_of(*parts, **options), whole, X)
    halves = [model_of((X[part], y[part]), **options) for part in (slice(150), slice(150, None))]
    assert_same_answers(halves[0].merge(halves[1]), whole, X)


@several
@every_shape
@pytest.mark.parametrize("scale", ["standard", None])
def test_the_order_of_rows_does_not_matter(shape, classes, scale):
    X, y = rows(classes, seed=1)
    if scale is None:
        X = X / X.std(axis=0)
    order = np.random.default_rng(classes).permutation(len(y))
    one, two = (model_of((X[i], y[i]), scale=scale, **shape) for i in (order, slice(None)))
    assert_same_answers(one, two, X)


@several
@every_shape
def test_unlearned_rows_leave_the_model_of_the_other_rows(shape, classes):
    X, y = rows(classes, seed=2)
    gone, kept = (X[::3], y[::3]), (np.delete(X, np.s_[::3], 0), np.delete(y, np.s_[::3]))
    assert set(kept[1]) == set(y)
    assert_same_answers(
        model_of((X, y), **shape).unlearn(*gone), model_of(kept, **shape), X, tolerance=1e-9
    )


@every_shape
def test_a_completely_unlearned_class_leaves_no_trace(shape):
    X, y = rows(4)
    with_it, without = model_of((X, y), **shape), model_of((X[y != 2], y[y != 2]), **shape)
    assert_same_answers(with_it.unlearn(X[y == 2], y[y == 2]), without, X, tolerance=1e-9)


def collinear_in_one_class(apart):
    """Two features that one class alone has nearly equal, and rows to unlearn that vary more."""
    X = np.random.default_rng(0).standard_normal((400, 3))
    y, gone = np.arange(400) % 2, np.arange(400) >= 200
    own = ~gone & (y == 1)
    X[own, 1] = X[own, 0] + apart * X[own, 1]
    X[gone] *= 300.0
    return X, y, gone


@pytest.mark.parametrize(("apart", "digits"), [(1e-2, "6"), (1e-3, "4")])
def test_unlearning_updates_the_covariance_of_each_class(apart, digits):
    X, y, gone = collinear_in_one_class(apart)
    options = {"scale": None, "ridge": 1e-12}
    model = model_of((X, y), pooled_rows=0.0, **options)
    with pytest.warns(PrecisionWarning, match=f"keeps about {digits} correct digits"):
        model.unlearn(X[gone], y[gone])
    kept = X[~gone], y[~gone]
    expected = model_of(kept, pooled_rows=0.0, **options).decision_function(X)
    assert_close(model.decision_function(X), expected, 10.0 ** -float(digits))
    pooled = model_of((X, y), **options).unlearn(
        X[gone], y[gone]
    )  # which all classes share: silent
    assert_close(pooled.decision_function(X), model_of(kept, **options).decision_function(X), 1e-8)


def test_unlearning_is_refused_where_the_covariance_of_a_class_would_lose_all_digits():
    X, y, gone = collinear_in_one_class(1e-5)
    model = model_of((X, y), scale=None, ridge=1e-12, pooled_rows=0.0)
    before = model.decision_function(X)
    with pytest.raises(ValueError, match="less than three correct digits"):
        model.unlearn(X[gone], y[gone])
    np.testing.assert_array_equal(model.decision_function(X), before)


def test_precision_loss_of_unlearning_ignores_the_distances_between_classes():
    """Digits are those of what varies within classes, not of the distances between them."""
    rng = np.random.default_rng(0)
    y, gone = np.arange(600) % 3, np.arange(600) >= 300
    X = rng.standard_normal((600, 2)) * np.where(gone, 1e4, 1.0)[:, None]
    X[:, 0] += 1e4 * y
    X[:, 1] += 1e4 * (y == 1)
    options = {"scale": None, "ridge": 1e-3}
    model = model_of((X, y), **options)
    with pytest.warns(PrecisionWarning, match="keeps about 7 correct digits"):
        model.unlearn(X[gone], y[gone])
    expected = model_of((X[~gone], y[~gone]), **options).decision_function(X)
    assert_close(center_scores(model.decision_function(X)), center_scores(expected), 1e-7)


@several
@every_shape
@pytest.mark.parametrize("half_life", [None, 20.0])
def test_weights_are_repetitions(shape, classes, half_life):
    X, y = rows(classes, seed=3)
    times = np.random.default_rng(0).integers(0, 3, len(y))
    options = {**shape, "half_life": half_life}
    weighted = BalancedRidgeClassifier(**options).fit(X, y, sample_weight=times)
    assert_same_answers(weighted, model_of((X.repeat(times, 0), y.repeat(times)), **options), X)


@several
@every_shape
def test_decay_equals_a_weight_by_age(shape, classes):
    """Scaling and weights do not depend on the true counts."""
    X, y = rows(classes, seed=4)
    X = X / X.std(axis=0)
    age = np.array([(y[i + 1 :] == y[i]).sum() for i in range(len(y))])
    decayed = model_of((X, y), scale=None, half_life=20.0, **shape)
    aged = BalancedRidgeClassifier(scale=None, **shape).fit(X, y, sample_weight=0.5 ** (age / 20.0))
    assert_close(decayed.decision_function(X), aged.decision_function(X))
    assert_close(decayed.predict_proba(X), aged.predict_proba(X))


@several
@every_shape
@pytest.mark.parametrize("half_life", [None, 20.0])
def test_single_events_equal_one_fit_in_both_interfaces(shape, classes, half_life):
    X, y = rows(classes, seed=5)
    options = {**shape, "half_life": half_life}
    whole = model_of((X, y), **options)
    model, river = BalancedRidgeClassifier(**options), RiverFace(**options)
    events = [dict(enumerate(x)) for x in X.tolist()]
    for i, event in enumerate(events):
        model.learn_one(X[i], y[i])
        river.learn_one(event, int(y[i]))
        if i % 50 == 49:
            best = model_of((X[: i + 1], y[: i + 1]), **options).predict(X[:1])[0]
            assert model.predict_one(X[0]) == river.predict_one(events[0]) == best
    assert [model.predict_one(x) for x in X] == whole.predict(X).tolist()
    assert [river.predict_one(x) for x in events] == whole.predict(X).tolist()
    assert_same_answers(model, whole, X)
    for one, many in (
        ("predict_proba_one", "predict_proba"),
        ("predict_stream_proba_one", "predict_stream_proba"),
    ):
        found = [list(getattr(river, one)(event).values()) for event in events[:20]]
        assert_close(found, getattr(whole, many)(X[:20]))


@several
@every_shape
def test_files_and_pickles_are_bit_identical(shape, classes, tmp_path):
    X, y = rows(classes, seed=6)
    model = model_of((X, y), half_life=30.0, **shape)
    model.save(tmp_path / "model")
    twins = [BalancedRidgeClassifier.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))]
    for twin in twins:
        assert twin.get_params() == model.get_params()
        for answer in ("decision_function", "predict_proba", "predict_stream_proba"):
            np.testing.assert_array_equal(getattr(twin, answer)(X), getattr(model, answer)(X))
        twin.partial_fit(X[:9], y[:9])
    assert_same_answers(twins[0], twins[1], X)


# References.


def totals(y, class_weight="balanced", class_factors=None):
    """Return, by definition, the weight of each class in the covariance, its prior and its rows."""
    labels, n = np.unique(y, return_counts=True)
    a = np.full(len(n), 2.0 / len(labels)) if class_weight == "balanced" else n.astype(float)
    worth = a * [(class_factors or {}).get(label, 1.0) for label in labels]
    if class_weight not in ("balanced", None):
        worth = worth * [class_weight.get(label, 1.0) for label in labels]
    return a, worth, n


def densities(Z, y, at, nu, ridge=None, **weights):
    """Logarithms of normal densities times priors, by definition; nu may be infinite."""
    a, worth, n = totals(y, **weights)
    ridge = 3.0 * (a**2 / n).sum() / a.sum() if ridge is None else ridge
    S = np.array([np.cov(Z[y == k].T, bias=True) for k in np.unique(y)])
    W = np.tensordot(a / a.sum(), S, 1)
    share = (n / (n + nu))[:, None, None]
    S = share * S + (1.0 - share) * W + ridge / a.sum() * np.eye(Z.shape[1])
    means = [Z[y == k].mean(axis=0) for k in np.unique(y)]
    return np.column_stack(
        [
            multivariate_normal(mean, cov).logpdf(at) + np.log(worth_k)
            for mean, cov, worth_k in zip(means, S, worth, strict=True)
        ]
    )


def take_reference_scores(f):
    """Return reference scores in our form: a difference for two classes, else up to a constant."""
    return f[:, 1] - f[:, 0] if f.shape[1] == 2 else center_scores(f)


def scale_features(scale, X):
    return StandardScaler().fit_transform(X) if scale else X


WEIGHTS = [
    {},
    {"class_weight": None},
    {"class_weight": {0: 3.0}},
    {"class_factors": {1: 5.0, 2: 0.5}},
    {"class_weight": None, "class_factors": {0: 0.1}},
]


@pytest.mark.parametrize("scale", ["standard", None])
@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
@several
def test_scores_are_logarithms_of_normal_densities(classes, weights, scale):
    X, y = rows(classes, seed=7)
    X = X / X.std(axis=0)
    Z = scale_features(scale, X)
    for nu in (0.0, 3.0, 100.0, np.inf):
        options = {"pooled_rows": None if nu == np.inf else nu, "scale": scale, **weights}
        if nu == np.inf and classes == 2:
            continue  # least squares, which scale the difference: below
        nu = nu if nu < np.inf else 1e300
        f = BalancedRidgeClassifier(**options).fit(X, y).decision_function(X)
        assert_close(
            center_scores(f), take_reference_scores(densities(Z, y, Z, nu, **weights)), 1e-9
        )


@pytest.mark.parametrize("pooled_rows", [None, 0.0, 7.0])
def test_scores_through_a_map_and_of_sparse_rows(pooled_rows):
    X, y = rows(5, seed=8, d=3)
    X[np.random.default_rng(0).random(X.shape) < 0.4] = 0.0
    model = BalancedRidgeClassifier(feature_map="poly2", pooled_rows=pooled_rows).fit(X, y)
    Z = scale_features("standard", model.feature_map_.transform(X))
    nu = 1e300 if pooled_rows is None else pooled_rows
    assert_close(
        center_scores(model.decision_function(X)),
        take_reference_scores(densities(Z, y, Z, nu)),
        1e-9,
    )
    dense, sparse = (
        BalancedRidgeClassifier(pooled_rows=pooled_rows).fit(kind(X), y)
        for kind in (np.asarray, sp.csr_array)
    )
    assert_same_answers(sparse, dense, X)
    assert_close(sparse.decision_function(sp.csr_array(X)), dense.decision_function(X))


@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
@pytest.mark.parametrize("classes", [3, 10, 26])
def test_linear_discriminant_analysis(classes, weights):
    """Its shrinkage is our ridge. It weighs covariances by its priors, ours by rows or balance."""
    X, y = rows(classes, seed=9)
    Z, part = scale_features("standard", X), 0.01
    a, worth, _ = totals(y, **weights)
    priors = a / a.sum()
    S = [np.cov(Z[y == k].T, bias=True) for k in range(classes)]
    size = np.trace(np.tensordot(priors, S, 1)) / Z.shape[1]
    reference = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=part, priors=priors).fit(Z, y)
    ridge = a.sum() * size * part / (1.0 - part)
    model = BalancedRidgeClassifier(ridge=ridge, **weights).fit(X, y)
    # Ours has no (1 − part) on the covariance, so that its distances are shorter.
    theirs = (1.0 - part) * (
        Z @ reference.coef_.T + reference.intercept_ - np.log(priors)
    ) + np.log(worth)
    assert_close(center_scores(model.decision_function(X)), center_scores(theirs), 1e-9)


@pytest.mark.parametrize("part", [1e-6, 0.1])
@several
def test_quadratic_discriminant_analysis(classes, part):
    """It divides by n or, in older versions, by n − 1, and shrinks what it has.

    Stretching the rows by the same factor gives us the same scores.
    """
    X, y = rows(classes, seed=10)
    X = X / X.std(axis=0)
    priors = np.full(classes, 1.0 / classes)
    reference = QuadraticDiscriminantAnalysis(priors=priors, reg_param=part).fit(X, y)
    stretched = X.copy()
    for k in range(classes):
        mean = X[y == k].mean(axis=0)
        own = np.trace(np.cov(X[y == k].T, bias=True))
        stretched[y == k] = mean + (X[y == k] - mean) * np.sqrt(
            (reference.scalings_[k].sum() - part * X.shape[1]) / own
        )
    model = BalancedRidgeClassifier(scale=None, pooled_rows=0.0, ridge=2.0 * part).fit(stretched, y)
    ours, theirs = model.decision_function(X), reference.decision_function(X)
    assert_close(center_scores(ours), center_scores(theirs), 1e-9)
    np.testing.assert_array_equal(model.predict(X), reference.predict(X))


@pytest.mark.parametrize("multi_class", ["lda", "ovr"])
def test_two_classes_are_separated_by_the_weights_of_least_squares(multi_class):
    """w = V⁻¹δ / (2 (1 + D²/4)), with D² = δ·V⁻¹δ and V the mean covariance with the ridge."""
    X, y = stream(400, 6, 2, seed=11)
    Z, ridge = scale_features("standard", X), 0.1
    options = {"ridge": ridge, "penalize_intercept": False}
    model = BalancedRidgeClassifier(multi_class=multi_class, **options).fit(X, y)
    delta = Z[y == 1].mean(axis=0) - Z[y == 0].mean(axis=0)
    V = np.mean([np.cov(Z[y == k].T, bias=True) for k in (0, 1)], axis=0)
    w = np.linalg.solve(V + ridge / 2 * np.eye(6), delta)
    D2 = delta @ w
    assert_close(model.coef_[0] * X.std(axis=0), w / (2.0 * (1.0 + D2 / 4.0)), 1e-12)
    moments = model._engine.state.moments
    slots = np.argsort(moments.labels)
    pool = PooledClasses(
        moments, moments.mean[0], X.std(axis=0), np.ones(2), slots, np.zeros(2), "free"
    )
    both = linear(pool, ridge)
    assert_close((both.coef[1] - both.coef[0]) * X.std(axis=0), w, 1e-12)
    # And with ever more pooled evidence quadratic scores become 2 (1 + D²/4) times the linear one.
    pooled = BalancedRidgeClassifier(pooled_rows=1e300, **options).fit(X, y).decision_function(X)
    assert_close(pooled, 2.0 * (1.0 + D2 / 4.0) * model.decision_function(X), 1e-10)


def criterion(Z, y, b):
    """Generalised cross-validation of every class against the others, from the rows."""
    a, _, n = totals(y)
    weight = (a / n)[y]
    design = np.column_stack([np.ones(len(Z)), Z])
    target = 2.0 * np.eye(len(n))[y] - 1.0
    inverse = np.linalg.inv((weight[:, None] * design).T @ design + b * np.eye(design.shape[1]))
    off = ((target - design @ inverse @ (design.T @ (weight[:, None] * target))) ** 2).sum(axis=1)
    freedom = weight * np.einsum("ij,jk,ik->i", design, inverse, design)
    return sum(
        a[k] * off[y == k].mean() / (1.0 - freedom[y == k].sum() / n[k]) ** 2 for k in range(len(n))
    )


@pytest.mark.parametrize("classes", [3, 10])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_chosen_ridge_is_the_best_of_its_neighbours(classes, seed):
    X, y = rows(classes, seed=seed, d=12)
    X[:, 4:] = np.random.default_rng(seed).standard_normal((len(y), 8))  # so that some is needed
    model = BalancedRidgeClassifier(ridge="gcv").fit(X, y)
    Z, step = scale_features("standard", X), 10 ** (1 / 6)
    found = [criterion(Z, y, model.ridge_ * step**i) for i in (-6, -1, 0, 1, 6)]
    assert min(found) == found[2]
    for pooled_rows in (None, 5.0):
        order = np.random.default_rng(seed).permutation(len(y))
        again = BalancedRidgeClassifier(ridge="gcv", pooled_rows=pooled_rows).fit(
            X[order], y[order]
        )
        assert again.ridge_ == pytest.approx(model.ridge_, rel=1e-12)


# Vandals.

RIDGES = ["auto", 1e-12, 0.0, "gcv"]
HOSTILE = [*SHAPES, {"pooled_rows": 1e308}]
hostile_shapes = pytest.mark.parametrize("shape", HOSTILE, ids=str)
hostile_ridges = pytest.mark.parametrize("ridge", RIDGES)


def odd_rows():
    """Names, rows and labels that leave covariances singular, or far from what numbers can hold."""
    rng = np.random.default_rng(0)
    yield "one row a class", rng.standard_normal((4, 5)), np.arange(4)
    yield "two classes, a row each", rng.standard_normal((2, 5)), np.arange(2)
    yield "fewer rows than features", rng.standard_normal((20, 40)), np.arange(20) % 4
    X, y = stream(200, 4, 4, minority=0.2)
    X = X / X.std(axis=0)
    yield "a constant", np.column_stack([X, np.full(200, 1e8 + 0.1)]), y
    yield "far from zero", X + 1e8, y
    yield "small units", X * 1e-8, y
    yield "units that differ", X * [1e-8, 1.0, 1e8, 1.0], y
    yield "a copy", np.column_stack([X, X[:, 0]]), y
    yield "what one class alone does not vary in", np.column_stack([X, (y == 0) * X[:, 0]]), y
    yield "nothing at all", np.zeros((30, 3)), np.arange(30) % 3


@pytest.mark.slow
@hostile_ridges
@hostile_shapes
@pytest.mark.parametrize(
    ("name", "X", "y"), list(odd_rows()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_unusual_rows_give_finite_results(name, X, y, shape, ridge):
    """Every answer is a number, whatever is singular, and only a ridge too small is warned of."""
    for scale in ("standard", None):
        model = BalancedRidgeClassifier(ridge=ridge, scale=scale, **shape)
        with warnings.catch_warnings():
            if ridge in (0.0, 1e-12):
                warnings.filterwarnings("ignore", "the features are collinear")
            model.fit(X, y)
            assert np.isfinite(model.decision_function(X)).all()
            for p in (model.predict_proba(X), model.predict_stream_proba(X)):
                assert ((p >= 0.0) & (p <= 1.0)).all()
                np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
            best = model.classes_[model.predict_proba(X).argmax(axis=1)]
            np.testing.assert_array_equal(best, model.predict(X))
            assert not np.isnan(model.progressive_scores(X[:25], y[:25])).any()


@pytest.mark.parametrize("shape", HOSTILE, ids=str)
def test_separated_classes_are_classified_even_with_few_rows(shape):
    """In directions without variance within classes, different means separate the classes."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((5, 30)), np.arange(5)
    for ridge in RIDGES:
        for times in (1, 3):
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "the features are collinear")
                model = BalancedRidgeClassifier(ridge=ridge, **shape)
                model.fit(
                    X.repeat(times, 0) + 1e-3 * rng.standard_normal((5 * times, 30)),
                    y.repeat(times),
                )
                np.testing.assert_array_equal(model.predict(X), y)


def test_directions_without_differences_have_no_weight():
    X, y = rows(4, seed=1)
    twice = np.column_stack([X, X[:, 0]])
    model = BalancedRidgeClassifier(ridge=0.0).fit(twice, y)
    with pytest.warns(UserWarning, match="collinear"):
        coef = model.coef_
    assert_close(coef[:, 0], coef[:, 4], 1e-7)
    once = BalancedRidgeClassifier(ridge=0.0).fit(X, y)
    assert_close(
        center_scores(model.decision_function(twice)),
        center_scores(once.decision_function(X)),
        1e-9,
    )


@pytest.mark.parametrize("shape", [{"pooled_rows": 0.0}, {"pooled_rows": 3.0}], ids=str)
def test_singular_covariances_warn_once(shape):
    X = np.random.default_rng(0).standard_normal((20, 40))
    model = BalancedRidgeClassifier(ridge=0.0, **shape).fit(X, np.arange(20) % 4)
    with pytest.warns(UserWarning, match="collinear") as caught_warnings:
        model.predict(X)
    assert len(caught_warnings) == 1


@hostile_ridges
@hostile_shapes
@pytest.mark.parametrize("seen", [1, 2, 4])
def test_classes_may_be_declared_without_rows(seen, shape, ridge):
    X, y = rows(seen) if seen > 1 else (rows(2)[0], np.zeros(300, dtype=int))
    options = {"ridge": ridge, **shape}
    bare = BalancedRidgeClassifier(**options).fit(X, y)
    for more in (1, 3):
        if seen + more == 2 and "pooled_rows" not in shape:
            continue  # one problem, in which the one class that is seen is a target like any
        model = BalancedRidgeClassifier(**options)
        model.partial_fit(X, y, classes=np.arange(seen + more))
        if seen != 2 or "pooled_rows" in shape:  # two of three are not a problem of two
            np.testing.assert_array_equal(model.predict(X), bare.predict(X))
        p, f = model.predict_proba(X), model.decision_function(X)
        assert not p[:, seen:].any()
        assert not model.predict_stream_proba(X)[:, seen:].any()
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
        if seen > 2:
            assert_close(f[:, :seen], bare.decision_function(X))
            assert_close(p[:, :seen], bare.predict_proba(X))
            assert (f[:, seen:] == (-1.0 if "multi_class" in shape else -np.inf)).all()
        one = BalancedRidgeClassifier(**options)
        one.partial_fit(X[:0], y[:0], classes=np.arange(seen + more))
        for i in range(100):
            one.learn_one(X[i], y[i])
        assert one.predict_one(X[0]) == one.predict(X[:1])[0]


@every_shape
def test_classes_without_weight_are_ignored(shape):
    X, y = rows(4)
    weight = np.where(y == 2, 0.0, 1.0)
    model = BalancedRidgeClassifier(**shape).fit(X, y, sample_weight=weight)
    assert_same_answers(model, model_of((X[y != 2], y[y != 2]), **shape), X)


@hostile_shapes
@pytest.mark.parametrize("weight", [1e-150, 1e-20, 1e20])
def test_all_weights_small_or_large(shape, weight):
    """A ridge that is a number does not depend on the weights of rows."""
    X, y = rows(4)
    options = {"ridge": 0.01, **shape}
    if "pooled_rows" in shape and 0.0 < shape["pooled_rows"] < 1e300:
        options["pooled_rows"] = shape["pooled_rows"] * weight  # rows of evidence weigh as much
    one = BalancedRidgeClassifier(**options).fit(X, y, sample_weight=np.full(len(y), weight))
    two = BalancedRidgeClassifier(**{**options, **shape}).fit(X, y)
    assert_close(one.decision_function(X), two.decision_function(X))


@pytest.mark.parametrize("multi_class", ["lda", "ovr"])
@pytest.mark.parametrize("pooled_rows", [None, 3.0])
def test_costs_of_any_size_give_finite_scores(multi_class, pooled_rows):
    if pooled_rows is not None and multi_class == "ovr":
        return
    X, y = rows(4)
    options = {"multi_class": multi_class, "pooled_rows": pooled_rows}
    for costs in ({1: 1e-100}, {1: 1e100}, {0: 1e-50, 3: 1e50}):
        model = BalancedRidgeClassifier(class_factors=costs, **options).fit(X, y)
        assert np.isfinite(model.decision_function(X)).all()
        assert np.isfinite(model.predict_proba(X)).all()
        if pooled_rows is None and multi_class == "lda" and 1e100 in costs.values():
            assert (model.predict(X) == 1).all()


def test_infinitely_many_pooled_rows_give_linear_boundaries():
    X, y = rows(5)
    linear_one = BalancedRidgeClassifier().fit(X, y)
    for pooled_rows, tolerance in ((1e10, 1e-6), (1e15, 1e-9), (1e308, 1e-9)):
        model = BalancedRidgeClassifier(pooled_rows=pooled_rows).fit(X, y)
        assert_close(
            center_scores(model.decision_function(X)),
            center_scores(linear_one.decision_function(X)),
            tolerance,
        )


@pytest.mark.slow
@every_shape
def test_an_interrupt_of_a_solution_does_not_change_the_result(shape):
    """A KeyboardInterrupt is raised at every seventh line that runs in our modules."""
    X, y = rows(3)
    model = BalancedRidgeClassifier(**shape).fit(X, y)
    expected = model.predict_proba(X)
    for first in range(0, 10_000, 7):
        model.learn_one(X[0], y[0])
        model.unlearn(X[:1], y[:1])
        left = [first]

        def tracer(frame, event, argument, left=left):
            name = frame.f_code.co_filename
            if "counterpoise" not in name or "tests" in name:
                return None
            if event == "line":
                left[0] -= 1
                if left[0] < 0:
                    raise KeyboardInterrupt
            return tracer

        sys.settrace(tracer)
        try:
            model.predict_proba(X[:2])
            finished = True
        except KeyboardInterrupt:
            finished = False
        finally:
            sys.settrace(None)
        assert_close(model.predict_proba(X), expected, 1e-9)
        if finished:
            break
    assert first > 50


@pytest.mark.parametrize("shape", AT_ONCE, ids=str)
def test_too_many_classes_are_refused_and_the_model_stays_the_same(shape):
    X, y = rows(10, d=20)
    model = BalancedRidgeClassifier(memory_limit=60_000.0, **shape)
    model.partial_fit(X[y < 5], y[y < 5])
    before = model.decision_function(X)
    with pytest.raises(ValueError, match="memory_limit"):
        model.partial_fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), before)
    model.set_params(memory_limit=2e9).partial_fit(X[y >= 5], y[y >= 5])
    assert_same_answers(model, model_of((X, y), memory_limit=2e9, **shape), X)


def test_the_inverse_of_a_singular_covariance_is_finite_and_positive():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6, 6))
    np.testing.assert_allclose(_inverse(A @ A.T) @ (A @ A.T), np.eye(6), atol=1e-9)
    for singular in (np.zeros((3, 3)), np.ones((3, 3)), np.diag([1.0, 0.0, 1e-300])):
        inverse = _inverse(singular)
        assert np.isfinite(inverse).all()
        assert np.linalg.eigvalsh(inverse)[0] > 0.0


@pytest.mark.slow
def test_hundreds_of_classes_have_probabilities_without_a_table_of_all_pairs():
    X, y = stream(3000, 4, 300, minority=0.01)
    model = BalancedRidgeClassifier().fit(X, y)
    model.predict(X[:1])
    tracemalloc.start()
    try:
        p = model.predict_proba(X[:10])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 150e6  # 48 points for each of 90,000 pairs would be 35 MB, and some eight of them
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("classes", [5, 100])
@every_shape
def test_names_of_classes_do_not_matter(shape, classes):
    X, y = rows(classes, seed=12)
    other = np.random.default_rng(0).permutation(classes)
    one, two = model_of((X, y), **shape), model_of((X, other[y]), **shape)
    for answer in ("decision_function", "predict_proba", "predict_stream_proba"):
        assert_close(getattr(two, answer)(X[:50])[:, other], getattr(one, answer)(X[:50]))


def test_pairs_of_the_nearest_classes_are_found():
    rng = np.random.default_rng(0)
    gap, v = rng.uniform(0.0, 9.0, (2, 200, 200))
    i, j = _nearest_class_pairs(gap, v)
    assert len(set(zip(i.tolist(), j.tolist(), strict=True))) == 200 * MAX_COMPARED_CLASSES
    ease = gap / np.sqrt(v)
    np.fill_diagonal(ease, np.inf)
    for k in (0, 77, 199):
        assert set(j[i == k]) == set(np.argsort(ease[k])[:MAX_COMPARED_CLASSES])
    assert len(_nearest_class_pairs(gap[:26, :26], v[:26, :26])[0]) == 26 * 25
