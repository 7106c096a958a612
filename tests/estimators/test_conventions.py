"""scikit-learn's own suite, and the tools that its users combine estimators with."""

import inspect
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from river.base import MiniBatchClassifier
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    TunedThresholdClassifierCV,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import _get_feature_names

from counterpoise import (
    AutoClassifier,
    BalancedRidgeClassifier,
    CostSensitiveClassifier,
    TableClassifier,
    river,
)

CONFIGURATIONS = [
    BalancedRidgeClassifier(),
    BalancedRidgeClassifier(ridge="gcv"),
    BalancedRidgeClassifier(ridge=1.0, penalize_intercept=False),
    BalancedRidgeClassifier(fit_intercept=False),
    BalancedRidgeClassifier(class_weight=None),
    BalancedRidgeClassifier(class_weight={1: 3.0}),
    BalancedRidgeClassifier(class_factors={1: 5.0, "one": 2.0}),
    BalancedRidgeClassifier(scale=None),
    BalancedRidgeClassifier(half_life=100.0),
    BalancedRidgeClassifier(multi_class="ovr"),
    BalancedRidgeClassifier(pooled_rows=10.0),
    BalancedRidgeClassifier(feature_map="rm2", ridge=0.01),
    BalancedRidgeClassifier(feature_map="rff:40", ridge="gcv"),
]


def expected_failures(model):
    failures = {}
    if model.half_life is not None:
        why = "the check shuffles rows, and with half_life the order matters"
        failures["check_sample_weight_equivalence_on_dense_data"] = why
        failures["check_sample_weight_equivalence_on_sparse_data"] = why
    if not model.fit_intercept:
        failures["check_class_weight_classifiers"] = (
            "without an intercept no weight can move all predictions; RidgeClassifier fails it too"
        )
    return failures


@parametrize_with_checks(CONFIGURATIONS, expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [
        AutoClassifier(candidates=("linear", "rm2", "rff:20")),
        AutoClassifier(candidates=("linear", "pooled_rows=10"), calibrate=True),
    ]
)
def test_scikit_learn_checks_of_the_averaging_model(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [CostSensitiveClassifier(), CostSensitiveClassifier(BalancedRidgeClassifier(pooled_rows=9.0))]
)
def test_scikit_learn_checks_of_risks(estimator, check):
    check(estimator)


X, y = load_breast_cancer(return_X_y=True)
X, y = X[:, :8], y[:569]


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrapped",
    [
        make_pipeline(PolynomialFeatures(2), BalancedRidgeClassifier(ridge=0.01)),
        GridSearchCV(BalancedRidgeClassifier(), {"ridge": [1e-4, 1e-2, "gcv"]}, cv=3),
        CalibratedClassifierCV(BalancedRidgeClassifier(), cv=3),
        FixedThresholdClassifier(BalancedRidgeClassifier(), threshold=0.3),
        TunedThresholdClassifierCV(BalancedRidgeClassifier(), cv=3),
    ],
    ids=lambda model: type(model).__name__,
)
def test_works_inside_scikit_learns_tools(wrapped):
    assert wrapped.fit(X, y).predict(X).shape == y.shape
    assert wrapped.score(X, y) > 0.85


def test_cross_validation_and_clone():
    model = BalancedRidgeClassifier(ridge=0.5, class_factors={1: 2.0})
    assert clone(model).get_params() == model.get_params()
    assert cross_val_score(model, X, y, cv=3).min() > 0.8


def test_metadata_routing_passes_sample_weights():
    weight = np.where(y == 1, 1.0, 3.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = BalancedRidgeClassifier(class_weight=None).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"ridge": [1e-3]}, cv=2).fit(X, y, sample_weight=weight)
    direct = BalancedRidgeClassifier(class_weight=None, ridge=1e-3).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(search.best_estimator_.coef_, direct.coef_)


def test_a_pickled_model_continues_to_learn():
    model = BalancedRidgeClassifier().fit(X[:300], y[:300])
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        copy.partial_fit(X[300:], y[300:]).coef_, model.partial_fit(X[300:], y[300:]).coef_
    )


NAMES = [f"f{j}" for j in range(8)]


@pytest.mark.parametrize("frame", [pd.DataFrame(X, columns=NAMES), pl.DataFrame(X, schema=NAMES)])
def test_data_frames_bring_their_names(frame):
    if _get_feature_names(frame) is None:
        pytest.skip("this scikit-learn finds no names in frames of this polars")
    model = BalancedRidgeClassifier().partial_fit(frame, y)
    assert model.feature_names_in_.tolist() == NAMES
    np.testing.assert_array_equal(model.coef_, BalancedRidgeClassifier().fit(X, y).coef_)
    other = (
        frame.rename(columns={"f0": "g"}) if hasattr(frame, "iloc") else frame.rename({"f0": "g"})
    )
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(other, y)


@pytest.mark.parametrize("convert", [np.float32, sp.csr_array, sp.csr_matrix, sp.csc_matrix, list])
def test_other_kinds_of_rows(convert):
    rows = X.astype(np.float32) if convert is np.float32 else convert(X)
    model = BalancedRidgeClassifier().partial_fit(rows, y)
    reference = BalancedRidgeClassifier().fit(X.astype(np.float32) if rows is np.float32 else X, y)
    tolerance = 1e-3 if convert is np.float32 else 1e-9
    np.testing.assert_allclose(
        model.decision_function(rows), reference.decision_function(X), atol=tolerance
    )


@pytest.mark.parametrize(
    "labels",
    [np.array(["no", "yes"]), np.array([False, True]), np.array([7, 9]), np.array([2.0, 3.0])],
)
def test_any_kind_of_label(labels):
    model = BalancedRidgeClassifier().partial_fit(X, labels[y])
    assert set(model.predict(X).tolist()) == set(labels.tolist())
    assert model.predict(X).dtype == labels.dtype


def test_longer_text_labels_may_come_later():
    model = BalancedRidgeClassifier().partial_fit(X[:9], ["a"] * 9)
    model.partial_fit(X[9:20], ["longer"] * 11)
    assert model.classes_.tolist() == ["a", "longer"]


def test_one_class_is_predicted_as_long_as_it_is_alone():
    model = BalancedRidgeClassifier().partial_fit(X[:9], ["only"] * 9)
    assert set(model.predict(X)) == {"only"}
    np.testing.assert_array_equal(model.predict_proba(X), np.ones((len(X), 1)))
    np.testing.assert_array_equal(model.predict_stream_proba(X), np.ones((len(X), 1)))


@pytest.mark.parametrize("declared", [[0, 1], [0, 1, 2, 3]])
def test_a_class_declared_but_not_seen_is_never_predicted(declared):
    seen = y == 1
    model = BalancedRidgeClassifier().partial_fit(X[seen], y[seen], classes=declared)
    assert model.classes_.tolist() == declared
    assert set(model.predict(X)) == {1}
    assert model.class_count_.tolist() == [357.0 if k == 1 else 0.0 for k in declared]
    model.partial_fit(X[~seen], y[~seen])
    proba = model.predict_proba(X)
    assert proba.shape == (len(X), len(declared))
    assert not proba[:, 2:].any()
    np.testing.assert_array_equal(proba.argmax(axis=1), model.predict(X))
    fresh = BalancedRidgeClassifier().fit(X, y)
    np.testing.assert_array_equal(model.predict(X), fresh.predict(X))
    if len(declared) > 2:
        np.testing.assert_array_equal(model.decision_function(X)[:, 2:], -np.inf)
        f = model.set_params(multi_class="ovr").decision_function(X)
        np.testing.assert_array_equal(f[:, 2:], -1.0)
        np.testing.assert_allclose(f[:, 1], fresh.decision_function(X), atol=1e-12)


def test_learning_from_many_classes_takes_one_update_a_row():
    many = make_classification(
        600,
        12,
        n_informative=10,
        n_redundant=0,
        n_classes=40,
        n_clusters_per_class=1,
        random_state=0,
    )
    model = BalancedRidgeClassifier()
    for i in range(0, 600, 100):
        model.partial_fit(many[0][i : i + 100], many[1][i : i + 100])
    assert model.coef_.shape == (40, 12)
    whole = BalancedRidgeClassifier().fit(*many)
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "kind", [BalancedRidgeClassifier, AutoClassifier, CostSensitiveClassifier, TableClassifier]
)
def test_tab_completion_shows_only_documented_names(kind):
    """All public names have numpydoc sections, or are parameters or listed attributes."""
    rng = np.random.default_rng(2)
    y = (rng.random(200) < 0.3).astype(int)
    assert_documented(kind().fit(rng.normal(size=(200, 2)) + y[:, None], y))


@pytest.mark.parametrize("kind", [river.BalancedRidgeClassifier, river.AutoClassifier])
def test_tab_completion_of_river_models_shows_only_documented_names(kind):
    model = kind()
    for k in range(4):
        model.learn_one({"a": float(k)}, k % 2)
    assert_documented(model, inherited=dir(MiniBatchClassifier))


def assert_documented(model, inherited=()):
    documented = inspect.getdoc(type(model))
    for name in dir(model):
        if name.startswith(("_", "set_")) or name in inherited:
            continue
        if inspect.isroutine(getattr(model, name)):
            described = inspect.getdoc(getattr(model, name))
            assert described, name
            sections = ("Returns\n---", "Parameters\n---", "Call :meth:")
            assert any(section in described for section in sections), name
        else:
            assert any(form in documented for form in (f"{name} :", f"{name}, ", f"{name}\n")), name
