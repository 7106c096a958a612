"""AutoClassifier of river: river's own checks, and the predictions of the estimator for arrays."""

import copy
import warnings

import numpy as np
import pytest
from builders import stream
from river import checks

from counterpoise import AutoClassifier as Arrays
from counterpoise.river import AutoClassifier, BalancedRidgeClassifier

SOME = {"candidates": ("linear", "pooled_rows=10", "hinges", "landmarks:20"), "ridges": (1.0, 0.1)}


PLAIN = {
    "candidates": ("linear", "pooled_rows=10"),
    "ridges": (1.0, 0.1),
}  # no warm-up: short tests


@pytest.mark.slow
@pytest.mark.parametrize("calibrate", [False, True])
@pytest.mark.parametrize("check", [*checks.yield_checks(AutoClassifier(**PLAIN))])
def test_river_checks(check, calibrate):
    check(AutoClassifier(**PLAIN, calibrate=calibrate))


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_events_are_answered_as_rows_are(classes):
    X, y = stream(400, d=3, classes=classes, minority=0.3)
    _, first = np.unique(y, return_index=True)
    y = np.argsort(np.argsort(first))[
        y
    ]  # numbers in order of appearance, as inside the river estimator
    names = ["low", "odd", "red"][:classes]
    model, rows = AutoClassifier(**SOME), Arrays(**SOME)
    for i, (x, k) in enumerate(zip(X, y.tolist(), strict=True)):
        event = dict(zip("abc", x.tolist(), strict=True))
        if i:
            assert model.predict_one(event) == names[int(rows.predict_one(x))]
        model.learn_one(event, names[k])
        rows.learn_one(x, k)
    p = model.predict_proba_one(event)
    assert set(p) == set(names)
    assert p == dict(zip(names, rows.predict_proba_one(X[-1]), strict=True))
    assert max(p, key=p.get) == model.predict_one(event)
    assert sum(p.values()) == pytest.approx(1.0)
    # The average of predict_proba is that of all rows, the other of a few rows ago.
    expected = dict(zip(names, rows.predict_proba(X[-1:])[0], strict=True))
    assert p == pytest.approx(expected, abs=0.1)
    fresh = Arrays(**SOME).fit(X, y)
    fresh.predict_one(X[0])
    assert fresh.predict_proba_one(X[-1]) == pytest.approx(fresh.predict_proba(X[-1:])[0])


@pytest.mark.slow
def test_features_and_labels_may_come_late_and_bad_events_change_nothing():
    X, y = stream(300, d=3, classes=2, minority=0.3)
    model = AutoClassifier(**SOME, class_factors={"yes": 2.0})
    assert model.predict_one({"a": 1.0}) is None
    assert model.predict_proba_one({"a": 1.0}) == {}
    for i, (x, k) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
        event = dict(zip("abc" if i > 150 else "ab", x, strict=False))
        model.learn_one(event, "yes" if k else (1, "no"))
    before = model.predict_proba_one({"a": 1.0, "c": 2.0, "z": 9.0})
    for event, label, w in (
        ({"a": float("nan")}, "yes", 1.0),
        ({"a": "text", "new": 1.0}, "yes", 1.0),
        ({"a": 1.0}, float("nan"), 1.0),
        ({"a": 1.0}, None, 1.0),
        ([1.0, 2.0], "yes", 1.0),
        ({"a": 1.0}, "yes", -1.0),
    ):
        with pytest.raises((ValueError, TypeError)):
            model.learn_one(event, label, w)
    assert model.predict_proba_one({"a": 1.0, "c": 2.0}) == before
    again = copy.deepcopy(model)
    again.learn_one({"a": 0.0, "d": 1.0}, "maybe")
    assert set(again.predict_proba_one({"a": 0.0})) == {"yes", (1, "no"), "maybe"}
    assert sum(model.averaging_weights.values()) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="kept_rows"):
        AutoClassifier(kept_rows=0)


def test_single_events_with_a_late_label_are_learned_immediately():
    X, y = stream(200, d=2, classes=2, minority=0.3)
    model = AutoClassifier(**SOME)
    for x, k in zip(X.tolist(), y.tolist(), strict=True):
        model.learn_one(dict(zip("ab", x, strict=True)), bool(k))
    assert model.predict_one({"a": X[0, 0], "b": X[0, 1]}) in (True, False)
    assert isinstance(model.predict_one({"a": 0.0}), bool | np.bool_)


def test_a_missing_value_has_a_remedy_that_exists():
    model = AutoClassifier(**PLAIN)
    says = r"feature 'a' is None, .* use counterpoise.river.BalancedRidgeClassifier\(absent="
    with pytest.raises(ValueError, match=says):
        model.learn_one({"a": None}, "ok")
    BalancedRidgeClassifier(absent="missing").learn_one({"a": None, "b": 1.0}, "ok")


def test_an_unknown_candidate_is_compared_with_all():
    says = r"candidates has 'lineer', .*\(did you mean 'linear'\?\); use linear, pooled_rows=10, or"
    with pytest.raises(ValueError, match=says):
        AutoClassifier(candidates=("lineer",))
    with pytest.raises(ValueError, match="did you mean 'pooled_rows=10'"):
        Arrays(candidates=("pooled_row=10",)).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="'xyz', which is not a candidate; use linear"):
        AutoClassifier(candidates=("xyz",))


def test_a_changed_feature_is_warned_about_by_its_name():
    rng = np.random.default_rng(0)
    model = AutoClassifier(candidates=("linear", "hinges"), ridges=(1.0, 0.1))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for i in range(4000):
            x = {"pressure": rng.normal(), "temperature": rng.normal() + 50.0 * (i > 1500)}
            model.learn_one(x, "ok" if rng.random() < 0.7 else "bad")
    (text,) = [str(one.message) for one in found]
    assert text.startswith("feature 'temperature': ")
    assert "far from the first" in text


@pytest.mark.parametrize("call", ["predict_one", "predict_proba_one", "predict_stream_proba_one"])
@pytest.mark.parametrize(("label", "rows"), [("Bad", 30), ("other", 1100)])
def test_factors_of_labels_that_never_occur_are_warned_about_once(label, rows, call):
    rng = np.random.default_rng(1)
    events = [({"a": rng.normal()}, "bad" if i % 5 == 0 else "ok") for i in range(rows)]
    model, good = (AutoClassifier(class_factors={one: 20}, **PLAIN) for one in (label, "bad"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x, y in events:
            model.learn_one(x, y)
            good.learn_one(x, y)
        good.predict_one(events[0][0])
    says = f"class_factors names the label '{label}', which never occurred in {rows:,} rows; those"
    with pytest.warns(UserWarning, match=says) as found:
        getattr(model, call)(events[0][0])
    assert [one.filename for one in found] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_one(events[0][0])
        model.predict_proba_one(events[0][0])
        model.learn_one(*events[0])
        model.predict_proba_one(events[0][0])
