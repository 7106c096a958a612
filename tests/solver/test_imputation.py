"""Missing numbers filled after the fact: a batch imputer and a fresh fit, always."""

import numpy as np
import pytest
from builders import stream
from sklearn.impute import SimpleImputer

from counterpoise import AutoClassifier, BalancedRidgeClassifier
from counterpoise.engine.auto import AutoModel
from counterpoise.engine.ridge import RidgeModel
from counterpoise.moments.moments import Moments
from counterpoise.solver.imputation import MeanImputation, change_base

OPTIONS = [
    {},
    {"scale": None},
    {"ridge": "gcv"},
    {"pooled_rows": 20.0},
    {"multi_class": "ovr"},
    {"half_life": 50.0},
    {"penalize_intercept": False, "class_weight": None},
]


def make_missing_values(n=400, classes=2, seed=0, base=None):
    """Return rows with missing values, the same with constants and indicators, labels, the fill."""
    X, y = stream(n, d=3, classes=classes, minority=0.3, seed=seed)
    X = X * [5.0, 1.0, 1.0] + [2010.0, 1e6, 0.0]
    gone = np.random.default_rng(seed + 1).random(X.shape) < [0.15, 0.05, 0.0]
    gone[0] = False
    base = X[0, :2] if base is None else base
    rows = np.hstack([X, gone[:, :2]])
    rows[:, :2] = np.where(gone[:, :2], base, X[:, :2])
    return np.where(gone, np.nan, X), rows, y, MeanImputation.of([0, 1], [3, 4], base)


def make_imputing_model(fill, **options):
    model = BalancedRidgeClassifier(**options)
    model._engine = RidgeModel.create(**options)
    model._engine.set_imputation(fill)
    return model


def assert_imputed(model, rows, kept, gaps, y, options):
    """The model is that of an imputer and a fresh fit on the rows that were kept."""
    Z = SimpleImputer(add_indicator=True).fit(gaps[kept]).transform(gaps)
    fresh = BalancedRidgeClassifier(**options).fit(Z[kept], y[kept])
    f = fresh.decision_function(Z)
    # Scores are of the size of 1; features are 1e6 away from 0, which costs some digits.
    np.testing.assert_allclose(model.decision_function(rows), f, atol=1e-10 * np.abs(f).max())
    np.testing.assert_allclose(
        model.predict_stream_proba(rows), fresh.predict_stream_proba(Z), atol=1e-9
    )


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("classes", [2, 3])
def test_imputation_equals_a_batch_imputer_and_a_fresh_fit(options, classes):
    gaps, rows, y, fill = make_missing_values(classes=classes)
    model = make_imputing_model(fill, **options)
    for part in np.array_split(np.arange(len(y)), 5):
        model.partial_fit(rows[part], y[part])
    if "half_life" in options:  # an imputer has no decay: only compare what both share
        return
    assert_imputed(model, rows, slice(None), gaps, y, options)


@pytest.mark.parametrize("options", [{}, {"pooled_rows": 20.0}], ids=str)
def test_imputation_does_not_depend_on_order_merging_and_unlearning(options):
    gaps, rows, y, fill = make_missing_values()
    order = np.random.default_rng(5).permutation(len(y))
    one = make_imputing_model(fill, **options).partial_fit(rows[order[:150]], y[order[:150]])
    two = make_imputing_model(fill, **options).partial_fit(rows[order[150:]], y[order[150:]])
    both = one.merge(two)
    assert_imputed(both, rows, slice(None), gaps, y, options)
    left = np.sort(order[60:])
    both.unlearn(rows[order[:60]], y[order[:60]])
    assert_imputed(both, rows, left, gaps, y, options)


def test_columns_that_were_never_missing_are_imputed_by_the_mean():
    gaps, rows, y, fill = make_missing_values()
    whole = ~np.isnan(gaps).any(axis=1)
    model = make_imputing_model(fill).partial_fit(rows[whole], y[whole])
    row, mean = rows[whole][:1].copy(), gaps[whole][:, 0].mean()
    imputed, plain = row.copy(), row.copy()
    imputed[0, [0, 3]], plain[0, 0] = (fill.base[0], 1.0), mean
    np.testing.assert_allclose(
        model.decision_function(imputed), model.decision_function(plain), rtol=1e-11
    )
    np.testing.assert_allclose(model._engine.state.mean[0], mean, rtol=1e-14)


def test_progressive_scores_do_not_use_later_rows():
    _, rows, y, fill = make_missing_values(60)
    scores = make_imputing_model(fill).progressive_scores(rows, y)
    for i in (20, 40, 59):
        past = make_imputing_model(fill).partial_fit(rows[:i], y[:i])
        np.testing.assert_allclose(past.decision_function(rows[[i]])[0], scores[i], atol=1e-12)


@pytest.mark.parametrize("features", ["rff:20", "poly2"])
def test_a_map_imputes_the_mean_of_its_warm_up(features):
    gaps, rows, y, fill = make_missing_values()
    model = make_imputing_model(fill, feature_map=features).partial_fit(rows, y)
    mean = np.nanmean(gaps[:256], axis=0)
    np.testing.assert_allclose(model.feature_map_.mean[:3], mean, rtol=1e-12)
    filled = rows.copy()
    filled[:, :3] = np.where(np.isnan(gaps), mean, gaps)
    fresh = BalancedRidgeClassifier(feature_map=model.feature_map_.with_missing([], [], [])).fit(
        filled, y
    )
    # Values are 1e6 away from 0: rounding is 1e-10 of a deviation, and terms are collinear.
    np.testing.assert_allclose(
        model.decision_function(rows), fresh.decision_function(filled), atol=1e-7
    )


def test_a_file_keeps_the_imputation(tmp_path):
    _, rows, y, fill = make_missing_values()
    for model in (
        make_imputing_model(fill).partial_fit(rows, y),
        make_imputing_model(fill, feature_map="rff:20").partial_fit(rows, y),
        make_imputing_model(fill, feature_map="rff:20").partial_fit(rows[:100], y[:100]),
    ):
        model.save(tmp_path / "m")
        again = BalancedRidgeClassifier.load(tmp_path / "m")
        for one in (model, again):
            one.partial_fit(rows[:50], y[:50])
        np.testing.assert_array_equal(model.decision_function(rows), again.decision_function(rows))


def test_an_averaging_classifier_imputes(tmp_path):
    gaps, rows, y, fill = make_missing_values(700)
    options = {"candidates": ("linear", "pooled_rows=10", "rff:20")}
    model = AutoClassifier(**options)
    model._engine = AutoModel.create(**options)
    model._engine.set_imputation(fill)
    model.partial_fit(rows, y)
    options = {"ridge": model.best_.ridge_, "pooled_rows": model.best_.pooled_rows}
    if model.best_.feature_map_ is None:
        assert_imputed(model, rows, slice(None), gaps, y, options)
    model.save(tmp_path / "m")
    again = AutoClassifier.load(tmp_path / "m").partial_fit(rows, y)
    model.partial_fit(rows, y)
    np.testing.assert_array_equal(model.decision_function(rows), again.decision_function(rows))


@pytest.mark.parametrize("weight", [None, 0.3])
def test_other_constants_can_replace_missing_values(weight):
    _, rows, y, fill = make_missing_values()
    base = np.array([1.0, 0.0])
    other = make_missing_values(base=base)[1]
    weights = None if weight is None else np.full(len(y), weight)
    moved = change_base(Moments.of(rows, y, weights), fill, base)
    direct = Moments.of(other, y, weights)
    np.testing.assert_allclose(moved.mean + moved.anchor, direct.mean + direct.anchor, rtol=1e-11)
    scale = np.sqrt(np.einsum("kjj->kj", direct.C))
    np.testing.assert_allclose(
        moved.C / scale[:, :, None] / scale[:, None],
        direct.C / scale[:, :, None] / scale[:, None],
        atol=1e-7,  # a constant of 0, where values are 1e6 away, costs digits by itself
    )
    np.testing.assert_allclose(moved.nonconstant_weight, direct.nonconstant_weight)
    if weight is None:
        np.testing.assert_array_equal(moved.row_hashes, direct.row_hashes)
