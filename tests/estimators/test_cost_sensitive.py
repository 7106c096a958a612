"""CostSensitiveClassifier: stream probabilities as predict_proba, and costs."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from builders import stream
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from counterpoise import AutoClassifier, BalancedRidgeClassifier, CostSensitiveClassifier
from counterpoise.evaluate import should_alert
from counterpoise.river import BalancedRidgeClassifier as River

X, y = stream(3000, 4, minority=0.03, seed=1)


def test_its_probabilities_are_those_of_the_stream():
    plain, risk = (
        BalancedRidgeClassifier(calibrate=True).fit(X, y),
        CostSensitiveClassifier().fit(X, y),
    )
    np.testing.assert_array_equal(risk.predict_proba(X), plain.predict_stream_proba(X))
    np.testing.assert_array_equal(risk.predict(X), risk.predict_proba(X).argmax(axis=1))
    parts = CostSensitiveClassifier(BalancedRidgeClassifier(ridge=0.1))
    for i in range(0, 3000, 500):
        parts.partial_fit(X[i : i + 500], y[i : i + 500])
    whole = BalancedRidgeClassifier(ridge=0.1).fit(X, y)
    np.testing.assert_allclose(parts.predict_proba(X), whole.predict_stream_proba(X), rtol=1e-9)


def test_least_expected_cost():
    """Decisions cost less than with the balanced threshold, and less than without alerts."""
    rng = np.random.default_rng(0)
    new = np.arange(len(y)) % 2 == 1
    for cost in (5.0, 20.0, 100.0):

        def bill(found, cost=cost):
            return np.sum((found != y[new]) * np.where(y[new] == 1, cost, 1.0))

        risk = CostSensitiveClassifier(costs={1: cost}).fit(X[~new], y[~new])
        balanced = BalancedRidgeClassifier().fit(X[~new], y[~new])
        assert bill(risk.predict(X[new])) <= bill(np.zeros(new.sum()))
        if cost == 5.0:  # with 3% frauds, balance is near a ratio of 32 to 1
            assert bill(risk.predict(X[new])) < bill(balanced.predict(X[new]))
    three = rng.integers(0, 3, len(y))
    p = CostSensitiveClassifier().fit(X, three).predict_proba(X)
    expected = (p * [1.0, 1.0, 4.0]).argmax(axis=1)
    found = CostSensitiveClassifier(costs={2: 4.0}).fit(X, three).predict(X)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
def test_what_scikit_learn_builds_on_probabilities():
    p = cross_val_predict(CostSensitiveClassifier(), X, y, method="predict_proba", cv=3)
    assert abs(p[:, 1].mean() - y.mean()) < 0.01
    assert log_loss(y, p) < log_loss(y, np.full(len(y), y.mean()))
    assert (
        cross_val_score(CostSensitiveClassifier(), X, y, scoring="neg_brier_score", cv=3).mean()
        > -0.03
    )
    tuned = TunedThresholdClassifierCV(
        CostSensitiveClassifier(), scoring="balanced_accuracy", cv=3
    ).fit(X, y)
    assert 0.0 < tuned.best_threshold_ < 0.2
    assert clone(CostSensitiveClassifier(costs={1: 2.0})).costs == {1: 2.0}


def test_around_the_averaging_model():
    inner = AutoClassifier(candidates=("linear", "rm2"))
    risk = CostSensitiveClassifier(inner).fit(X[:600], y[:600])
    np.testing.assert_array_equal(
        risk.predict_proba(X), clone(inner).fit(X[:600], y[:600]).predict_stream_proba(X)
    )


def test_it_has_the_methods_of_the_classifier_inside():
    names = [f"x{j}" for j in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names)
    risk = CostSensitiveClassifier(costs={1: 20.0}).fit(frame[:2000], y[:2000])
    assert risk.feature_names_in_.tolist() == names
    np.testing.assert_array_equal(risk.predict_stream_proba(frame), risk.predict_proba(frame))
    both = risk.merge(CostSensitiveClassifier(costs={1: 20.0}).fit(frame[2000:], y[2000:]))
    assert both.estimator_.class_count_.sum() == len(y)
    both.unlearn(frame[2000:], y[2000:])
    np.testing.assert_allclose(both.estimator_.coef_, risk.estimator_.coef_, rtol=1e-6)
    with pytest.raises(ValueError, match="costs is"):
        risk.merge(CostSensitiveClassifier().fit(frame, y))


@pytest.mark.parametrize("classes", [2, 3])
def test_the_decision_function_ranks_by_risk_and_decides_as_predict(classes):
    labels = np.minimum(np.arange(len(y)) % 5, classes - 1) if classes == 3 else y
    risk = CostSensitiveClassifier(costs={1: 7.0}).fit(X, labels)
    f, p = risk.decision_function(X), risk.predict_proba(X)
    if classes == 2:
        np.testing.assert_array_equal((f > 0).astype(int), risk.predict(X))
        np.testing.assert_array_equal(
            np.argsort(f, kind="stable"), np.argsort(p[:, 1], kind="stable")
        )
    else:
        np.testing.assert_array_equal(f.argmax(axis=1), risk.predict(X))


def test_around_a_classifier_of_scikit_learn():
    inner = LogisticRegression()
    risk = CostSensitiveClassifier(inner, costs={1: 20.0}).fit(X, y)
    np.testing.assert_array_equal(risk.predict_proba(X), clone(inner).fit(X, y).predict_proba(X))
    assert y.sum() < risk.predict(X).sum()
    assert not any(hasattr(risk, name) for name in ("partial_fit", "merge", "unlearn", "explain"))
    with pytest.raises(TypeError, match="LinearSVC has no predict_proba"):
        CostSensitiveClassifier(LinearSVC()).fit(X, y)


def test_metadata_is_routed_to_the_classifier_inside():
    weight = np.where(y == 1, 3.0, 1.0)
    plain = BalancedRidgeClassifier().fit(X, y, sample_weight=weight)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = BalancedRidgeClassifier().set_fit_request(sample_weight=True)
        risk = CostSensitiveClassifier(inner).set_fit_request(sample_weight=True)
        risk.set_score_request(sample_weight=False)
        search = GridSearchCV(risk, {"estimator__ridge": [1.0]}, cv=2).fit(
            X, y, sample_weight=weight
        )
    assert search.best_estimator_.estimator_.class_count_.tolist() == plain.class_count_.tolist()
    found = CostSensitiveClassifier(BalancedRidgeClassifier()).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(found.estimator_.coef_, plain.coef_)


def test_nonsense():
    with pytest.raises(ValueError, match="costs"):
        CostSensitiveClassifier(costs={1: -1.0}).fit(X, y)
    with pytest.raises(AttributeError, match="learned nothing"):
        _ = CostSensitiveClassifier().classes_


def test_fit_warns_of_costs_of_a_label_that_no_row_has():
    with pytest.warns(
        UserWarning, match="costs names the label 'fraud', which no row has"
    ) as found:
        CostSensitiveClassifier(costs={"fraud": 20.0}).fit(X, y)
    assert found[0].filename == __file__


def test_a_model_of_events_has_another_way_to_decide_by_costs():
    model = River()
    says = "takes classifiers for arrays, .* in a loop of events counterpoise.evaluate.should_alert"
    for call in (lambda m: m.fit(X, y), lambda m: m.partial_fit(X, y)):
        with pytest.raises(TypeError, match=says):
            call(CostSensitiveClassifier(model))
    model.learn_one({"a": 0.0}, "ok")
    model.learn_one({"a": 1.0}, "fraud")
    p = model.predict_stream_proba_one({"a": 1.0})["fraud"]
    assert should_alert(p, 200.0, 5.0) is True
    assert should_alert(model.predict_stream_proba_one({"a": 0.0})["fraud"], 1e-9, 5.0) is False


def test_costs_of_labels_that_never_occurred_cause_a_warning():
    X, y = stream(1200)
    model = CostSensitiveClassifier(costs={"fraud": 20.0}).partial_fit(X[:900], y[:900])
    model.predict(X)  # it may be rare
    model.partial_fit(X[900:], y[900:])
    says = "costs names the label 'fraud', which never occurred in 1,200 rows; those that did are"
    with pytest.warns(UserWarning, match=says) as told:
        model.predict(X)
    assert told[0].filename == __file__


def test_a_pipeline_is_priced_by_the_observed_frequencies():
    rng = np.random.default_rng(0)
    y = (rng.random(3000) < 0.1).astype(int)
    X = rng.standard_normal((3000, 2)) + y[:, None]
    inner = make_pipeline(StandardScaler(), BalancedRidgeClassifier(calibrate=True))
    found = CostSensitiveClassifier(inner, costs={1: 10.0}).fit(X, y).predict_proba(X)[:, 1].mean()
    assert abs(found - y.mean()) < 0.01
