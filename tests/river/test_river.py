"""river's estimator: river's own checks, and the same model as scikit-learn's estimator."""

import copy
import datetime
import pickle
import warnings
from collections import Counter, OrderedDict

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from builders import assert_close, stream
from river import checks, compat, compose, datasets, drift, evaluate, metrics, preprocessing, utils

from counterpoise import BalancedRidgeClassifier as ScikitFace
from counterpoise.online import AROW, PassiveAggressive
from counterpoise.river import BalancedRidgeClassifier

CONFIGURATIONS = [
    BalancedRidgeClassifier(),
    BalancedRidgeClassifier(ridge="gcv"),
    BalancedRidgeClassifier(class_weight=None, fit_intercept=False),
    BalancedRidgeClassifier(penalize_intercept=False),
    BalancedRidgeClassifier(scale=None, half_life=50.0),
    BalancedRidgeClassifier(class_factors={True: 3.0}),
    BalancedRidgeClassifier(feature_map="rm2", ridge=0.01),
    BalancedRidgeClassifier(pooled_rows=10.0),
    BalancedRidgeClassifier(columns={"age_of_domain": "many:3", "long_url": "many:9"}),
]
CHECKS = [
    pytest.param(
        model, check, id=f"{i}-{check.__name__}-{j}", marks=[pytest.mark.slow] if i else []
    )
    for i, model in enumerate(CONFIGURATIONS)
    for j, check in enumerate(checks.yield_checks(model))
]


def test_no_check_is_skipped():
    assert not BalancedRidgeClassifier()._unit_test_skips()
    names = {check.__name__ for check in checks.yield_checks(BalancedRidgeClassifier())}
    assert "check_learn_many_matches_learn_one" in names


@pytest.mark.parametrize(("model", "check"), CHECKS)
def test_river_checks(model, check):
    check(model.clone())


def events(rows=300, d=5, classes=2, **options):
    X, y = stream(rows, d, classes, minority=0.2, **options)
    names = [f"f{j}" for j in range(d)]
    return X, y, [dict(zip(names, row, strict=True)) for row in X.tolist()]


OPTIONS = [
    {},
    {"half_life": 40.0},
    {"class_weight": None, "scale": None},
    {"class_factors": {0: 2.0}, "penalize_intercept": False},
    {"fit_intercept": False},
    {"multi_class": "ovr"},
    {"pooled_rows": 3.0},
    {"ridge": "gcv"},
]


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_events_one_by_one_give_the_scikit_learn_model(options, classes):
    X, y, xs = events(classes=classes)
    ours = BalancedRidgeClassifier(**options)
    for x, label in zip(xs, y.tolist(), strict=True):
        ours.predict_one(x)
        ours.learn_one(x, label)
    theirs = ScikitFace(**options).fit(X, y)
    assert [ours.predict_one(x) for x in xs] == theirs.predict(X).tolist()
    p = np.array([[ours.predict_proba_one(x)[k] for k in range(classes)] for x in xs])
    np.testing.assert_allclose(p, theirs.predict_proba(X), rtol=1e-8, atol=1e-12)
    p = np.array([[ours.predict_stream_proba_one(x)[k] for k in range(classes)] for x in xs])
    np.testing.assert_allclose(p, theirs.predict_stream_proba(X), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("options", OPTIONS[:-1], ids=str)
def test_weights_of_events(options):
    X, y, xs = events()
    weight = np.random.default_rng(0).uniform(0.0, 3.0, len(y)) * (np.arange(len(y)) % 5 > 0)
    ours = BalancedRidgeClassifier(**options)
    for x, label, w in zip(xs, y.tolist(), weight.tolist(), strict=True):
        ours.learn_one(x, label, w)
    theirs = ScikitFace(**options).fit(X, y, sample_weight=weight)
    p = [ours.predict_proba_one(x)[1] for x in xs]
    np.testing.assert_allclose(p, theirs.predict_proba(X)[:, 1], rtol=1e-8)


def test_features_that_come_late_or_go_missing_were_zero():
    X, y, xs = events(200, 6)
    rng = np.random.default_rng(0)
    keep = rng.random(X.shape) < 0.6
    keep[:50, 3:] = False  # three features that were never seen
    sparse = [
        {name: v for (name, v), k in zip(x.items(), row, strict=True) if k}
        for x, row in zip(xs, keep, strict=True)
    ]
    ours = BalancedRidgeClassifier()
    for x, label in zip(sparse, y.tolist(), strict=True):
        ours.learn_one(x, label)
    theirs = ScikitFace().fit(np.where(keep, X, 0.0), y)
    p = [ours.predict_proba_one(x)[1] for x in sparse]
    np.testing.assert_allclose(p, theirs.predict_proba(np.where(keep, X, 0.0))[:, 1], rtol=1e-8)
    assert ours.predict_one({**sparse[0], "never seen": 1e6}) == ours.predict_one(sparse[0])


@pytest.mark.slow
def test_a_new_feature_with_every_event_copies_rarely():
    model, stores = BalancedRidgeClassifier(), set()
    for i in range(300):
        model.learn_one({f"f{i}": 1.0, f"f{i // 2}": 2.0}, i % 2)
        stores.add(id(model._state.storage.store))
    assert len(model._state.names) == 300
    assert len(stores) < 40


@pytest.mark.parametrize("labels", [("a", "b"), (False, True), ((1, 2), "b"), (3, "three")])
def test_labels_of_any_hashable_type(labels):
    _, y, xs = events()
    ours = BalancedRidgeClassifier()
    for x, k in zip(xs, y.tolist(), strict=True):
        ours.learn_one(x, labels[k])
    assert {ours.predict_one(x) for x in xs} == set(labels)
    assert set(ours.predict_proba_one(xs[0])) == set(labels)


@pytest.mark.parametrize(
    "frame",
    [
        lambda X, n: pd.DataFrame(X, columns=n),
        lambda X, n: pl.DataFrame(X, schema=n),
        lambda X, n: pa.table(dict(zip(n, X.T, strict=True))),
    ],
    ids=["pandas", "polars", "pyarrow"],
)
def test_mini_batches_of_any_frame(frame):
    X, y, xs = events(200, 4, 3)
    names = list(xs[0])
    series = {"DataFrame": pd.Series, "Table": pa.array}.get(type(frame(X, names)).__name__)
    series = pl.Series if isinstance(frame(X, names), pl.DataFrame) else series
    one, many = BalancedRidgeClassifier(), BalancedRidgeClassifier()
    for x, label in zip(xs, y.tolist(), strict=True):
        one.learn_one(x, label)
    for i in range(0, 200, 64):
        many.learn_many(frame(X[i : i + 64], names), series(y[i : i + 64]))
    predicted, proba = many.predict_many(frame(X, names)), many.predict_proba_many(frame(X, names))
    home = type(frame(X, names)).__module__.split(".")[0]
    assert {type(predicted).__module__.split(".")[0], type(proba).__module__.split(".")[0]} == {
        home
    }
    if home != "pandas":
        predicted, proba = predicted.to_pandas(), proba.to_pandas()
    assert predicted.tolist() == [one.predict_one(x) for x in xs]
    for label in range(3):
        p = [one.predict_proba_one(x)[label] for x in xs]
        column = label if home == "pandas" else str(label)
        np.testing.assert_allclose(proba[column], p, rtol=1e-8)


@pytest.mark.slow
def test_unlearning_and_rolling_windows():
    X, y, xs = events(150, 4)
    window = utils.Rolling(BalancedRidgeClassifier, window_size=60)
    for x, label in zip(xs, y.tolist(), strict=True):
        window.update(x, label)
    theirs = ScikitFace().fit(X[90:], y[90:])
    p = [window.predict_proba_one(x)[1] for x in xs]
    np.testing.assert_allclose(p, theirs.predict_proba(X)[:, 1], rtol=1e-7)
    with pytest.raises(ValueError, match="none was ever learned"):
        window.obj.unlearn_one({"other": 1.0}, 0)
    with pytest.raises(ValueError, match="half_life"):
        BalancedRidgeClassifier(half_life=5.0).unlearn_one(xs[0], 0)


def test_in_a_pipeline_with_delayed_labels_and_a_drift_detector():
    model = compose.Pipeline(preprocessing.StandardScaler(), BalancedRidgeClassifier())
    metric = evaluate.progressive_val_score(
        datasets.Phishing().take(400), model, metrics.GeometricMean(), delay=20
    )
    assert metric.get() > 0.8
    detector = drift.ADWIN()
    model = BalancedRidgeClassifier()
    for x, y in datasets.Phishing().take(200):
        detector.update(float(model.predict_one(x) != y))
        if detector.drift_detected:
            model = model.clone()
        model.learn_one(x, y)


@pytest.mark.slow
@pytest.mark.parametrize("rule", [AROW(), PassiveAggressive()])
def test_the_online_rules_come_through_rivers_own_adapter(rule):
    model = compat.convert_sklearn_to_river(rule, classes=[False, True])
    metric = evaluate.progressive_val_score(
        datasets.Phishing().take(300), model, metrics.Accuracy()
    )
    assert metric.get() > 0.75


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ({"f0": float("nan")}, "feature 'f0' is NaN"),
        ({"f0": float("inf")}, "feature 'f0' is inf"),
        ({"f0": 1.0, "new": float("nan")}, "feature 'new' is NaN"),
        ({"f0": "text"}, "feature 'f0' is 'text', not a number"),
        ({"f0": None}, "feature 'f0' is None, not a number"),
        ({"f0": 1e200}, "feature 'f0' is 1e\\+200"),
    ],
)
def test_bad_events_change_nothing(x, message):
    _, y, xs = events(50, 3)
    model = BalancedRidgeClassifier()
    with pytest.raises(ValueError, match=message):
        model.learn_one(x, 1)
    for event, label in zip(xs, y.tolist(), strict=True):
        model.learn_one(event, label)
    before = pickle.dumps(model)
    for action in (
        lambda: model.learn_one(x, 1),
        lambda: model.learn_one(x, "new label"),
        lambda: model.predict_one(x),
        lambda: model.predict_proba_one(x),
    ):
        with pytest.raises(ValueError, match=message):
            action()
        assert pickle.dumps(model) == before
    for w in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="weight"):
            model.learn_one(xs[0], 1, w)
    assert pickle.dumps(model) == before


def test_copies_go_on_where_they_were():
    _, y, xs = events(100, 3)
    model = BalancedRidgeClassifier()
    for event, label in zip(xs[:60], y[:60].tolist(), strict=True):
        model.learn_one(event, label)
    twins = [model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    for twin in twins:
        for event, label in zip(xs[60:], y[60:].tolist(), strict=True):
            twin.learn_one(event, label)
    for twin in twins[1:]:
        np.testing.assert_array_equal(twin._state.moments.C, model._state.moments.C)


# One row at a time on arrays.


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_rows_one_by_one_on_arrays(options, classes):
    X, y, _ = events(classes=classes)
    model = ScikitFace(**options)
    for i in range(len(y)):
        if i > 10:
            assert model.predict_one(X[i]) == model.predict(X[i : i + 1])[0]
        model.learn_one(X[i], y[i], 1.0 + (i % 3))
    whole = ScikitFace(**options).fit(X, y, sample_weight=1.0 + np.arange(len(y)) % 3)
    assert_close(model.decision_function(X), whole.decision_function(X), 1e-9)
    model.partial_fit(X[:20], y[:20])
    assert [model.predict_one(x) for x in X] == model.predict(X).tolist()
    model.set_params(ridge=5.0)
    assert [model.predict_one(x) for x in X] == model.predict(X).tolist()
    for bad, message in ((np.full(5, np.nan), "NaN"), (np.ones(4), "features")):
        with pytest.raises(ValueError, match=message):
            model.learn_one(bad, y[0])
        with pytest.raises(ValueError, match=message):
            model.predict_one(bad)


def test_what_is_learned_does_not_depend_on_who_looked():
    _, y, xs = events(400, 6)
    watched, quiet = BalancedRidgeClassifier(), BalancedRidgeClassifier()
    for i, (x, label) in enumerate(zip(xs, y.tolist(), strict=True)):
        if i % 3 == 0:
            watched.predict_one(x)
            watched.predict_proba_one(x)
        watched.learn_one(x, label)
        quiet.learn_one(x, label)
    np.testing.assert_array_equal(watched._state.moments.C, quiet._state.moments.C)
    np.testing.assert_array_equal(watched._state.moments.mean, quiet._state.moments.mean)


def test_a_stream_that_begins_with_one_class_is_learned_event_by_event():
    X, y, xs = events(200, 4)
    order = np.argsort(y, kind="stable")
    ours, theirs = BalancedRidgeClassifier(), ScikitFace()
    for i in order[:150]:
        ours.learn_one(xs[i], int(y[i]))
        theirs.learn_one(X[i], y[i])
        if y[i] == 0:
            assert ours.predict_one(xs[i]) == 0
            assert theirs.predict_one(X[i]) == 0
            assert ours._open is not None
    fitted = ScikitFace().fit(X[order[:150]], y[order[:150]])
    assert_close(theirs.coef_, fitted.coef_)
    assert [ours.predict_one(x) for x in xs] == fitted.predict(X).tolist()


def test_empty_events_and_dicts_of_other_kinds():
    model = BalancedRidgeClassifier()
    model.learn_one({}, "x")
    assert model.predict_one({"a": 1.0}) == "x"
    model.learn_one({"a": 1.0}, "y")
    model.learn_one(OrderedDict(a=2.0), "x")
    assert model.predict_one(Counter(a=1)) in ("x", "y")
    theirs = ScikitFace().fit([[0.0], [1.0], [2.0]], ["x", "y", "x"])
    p = theirs.predict_proba([[1.5]])[0]
    assert model.predict_proba_one({"a": 1.5})["y"] == pytest.approx(p[1])


def test_mini_batches_of_odd_kinds():
    model = BalancedRidgeClassifier()
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [0.0, 1.0, 0.0]})
    for labels in (["x", "y", "x"], np.array(["x", "y", "x"])):
        model.learn_many(frame, labels)
    before = pickle.dumps(model)
    for bad, labels, message in (
        (frame.assign(b=["u", "v", "w"]), ["x"] * 3, "feature 'b' is 'u', not a number"),
        (frame.assign(b=[1.0, np.nan, 2.0]), ["x"] * 3, "feature 'b' is NaN"),
        (frame, ["x", float("nan"), "y"], "label is NaN"),
        (frame, ["x", "y"], "do not match"),
    ):
        with pytest.raises(ValueError, match=message):
            model.learn_many(bad, labels)
        assert pickle.dumps(model) == before
    with pytest.raises(ValueError, match="feature 'a' is inf"):
        model.learn_one({"a": 10**400}, "x")


def test_unlearning_with_a_weight_that_is_none():
    _, y, xs = events(50, 3)
    model = BalancedRidgeClassifier()
    for x, label in zip(xs, y.tolist(), strict=True):
        model.learn_one(x, label)
    before = pickle.dumps(model)
    for w in (float("nan"), -5.0):
        with pytest.raises(ValueError, match="weight"):
            model.unlearn_one(xs[0], int(y[0]), w)
    assert pickle.dumps(model) == before


def test_shallow_copies_are_independent():
    X, y, xs = events(50, 3)
    model = ScikitFace().fit(X, y)
    coef = model.coef_
    copy.copy(model).learn_one(X[0], y[0])
    np.testing.assert_array_equal(model.coef_, coef)
    events_model = BalancedRidgeClassifier()
    events_model.learn_one(xs[0], 0)
    copy.copy(events_model).learn_one(xs[1], 1)
    assert events_model.predict_one(xs[1]) == 0


def test_complex_rows_are_refused():
    X, y, _ = events(50, 3)
    model = ScikitFace().fit(X, y)
    for action in (lambda: model.learn_one(1j * X[0], y[0]), lambda: model.predict_one(1j * X[0])):
        with pytest.raises(ValueError, match=r"[Cc]omplex"):
            action()


# Maps of the features


@pytest.mark.slow
@pytest.mark.parametrize("name", ["poly2", "interactions", "rm2", "rff:20", "rm2+rff:10"])
@pytest.mark.parametrize("classes", [2, 3])
def test_with_a_map_it_is_the_model_for_arrays(name, classes):
    X, y, rows = events(400, 3, classes)
    one = BalancedRidgeClassifier(feature_map=name, ridge=0.1)
    other = ScikitFace(feature_map=name, ridge=0.1)
    for i, (x, label) in enumerate(zip(rows, y.tolist(), strict=True)):
        if i in (100, 255, 256, 300, 399):
            fitted = other.fit(X[:i], y[:i])
            assert one.predict_one(x) == fitted.predict(X[[i]])[0]
            p = fitted.predict_proba(X[[i]])[0]
            assert_close([*one.predict_proba_one(x).values()], p, 1e-9)
        one.learn_one(x, label)
    many = BalancedRidgeClassifier(feature_map=name, ridge=0.1)
    frame = pd.DataFrame(rows)
    for at in range(0, 400, 90):
        many.learn_many(frame[at : at + 90], pd.Series(y[at : at + 90]))
    assert_close(many.predict_proba_many(frame).to_numpy(), other.fit(X, y).predict_proba(X), 1e-9)
    assert many.predict_many(frame).tolist() == other.predict(X).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 100, 300])
def test_late_features_of_a_map_were_zero_before(at):
    _, y, rows = events(400, 3)
    late = [{**row, "late": float(i % 5)} if i >= at else row for i, row in enumerate(rows)]
    zeros = [{"late": 0.0, **row} for row in late]
    one, two = (BalancedRidgeClassifier(feature_map="rm2", ridge=0.1) for _ in range(2))
    for first, second, label in zip(late, zeros, y.tolist(), strict=True):
        one.learn_one(first, label)
        two.learn_one(second, label)
    for first, second in zip(late[-20:], zeros[-20:], strict=True):
        assert_close(
            [*one.predict_proba_one(first).values()],
            [*two.predict_proba_one(second).values()],
            1e-8,
        )


@pytest.mark.slow
def test_unlearning_through_a_map():
    _, y, rows = events(400, 3)
    one, two = (BalancedRidgeClassifier(feature_map="rm2", ridge=0.1) for _ in range(2))
    for x, label in zip(rows[:300], y[:300].tolist(), strict=True):
        one.learn_one(x, label)
        two.learn_one(x, label)
    one.learn_one(rows[300], int(y[300]))
    one.unlearn_one(rows[300], int(y[300]))
    assert_close(
        [*one.predict_proba_one(rows[7]).values()], [*two.predict_proba_one(rows[7]).values()], 1e-9
    )
    early = BalancedRidgeClassifier(feature_map="rm2")
    early.learn_one(rows[0], 0)
    with pytest.raises(ValueError, match="until the map is fixed"):
        early.unlearn_one(rows[0], 0)
    with pytest.raises(ValueError, match="is not a feature map"):
        BalancedRidgeClassifier(feature_map="cubic")
    again = pickle.loads(pickle.dumps(one))
    assert again.predict_proba_one(rows[7]) == one.predict_proba_one(rows[7])
    with pytest.raises(ValueError, match="NaN"):
        one.learn_one({**rows[0], "f0": float("nan")}, 0)
    assert again.predict_proba_one(rows[7]) == one.predict_proba_one(rows[7])


@pytest.mark.slow
def test_a_map_that_would_not_fit_is_refused_and_nameless_events_are_unlearned():
    one = BalancedRidgeClassifier(feature_map="poly2", memory_limit=1e7)
    one.learn_one({"a": 1.0}, 1)
    with pytest.raises(ValueError, match="more than memory_limit"):
        one.learn_one({i: float(i) for i in range(200)}, 1)
    assert one.predict_one({"a": 1.0}) == 1
    empty = BalancedRidgeClassifier(feature_map="poly2")
    for i in range(300):
        empty.learn_one({}, i % 2)
    for i in range(300):
        empty.unlearn_one({}, i % 2)
    assert empty.predict_one({}) is None


def test_what_is_unlearned_leaves_no_name():
    model = BalancedRidgeClassifier()
    for event in (({"a": 1.0}, "x"), ({"a": 2.0}, "y"), ({"a": 3.0, "b": 1.0}, "secret")):
        model.learn_one(*event)
    model.unlearn_one({"a": 3.0, "b": 1.0}, "secret")
    assert list(model._open.slots) == model._state.moments.labels.tolist() == ["x", "y"]
    model.unlearn_one({"a": 1.0}, "x")
    model.unlearn_one({"a": 2.0}, "y")
    assert (model._state.names, model._columns, model._open) == ([], {}, None)
    assert not len(model._state.moments.labels)
    assert model.predict_one({"a": 1.0}) is None
    model.learn_one({"c": 1.0}, "z")
    assert model.predict_one({"c": 1.0}) == "z"


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        (None, "leave it out, .*StatImputer"),
        (datetime.datetime(2020, 1, 1), r"timestamp\(\)"),
        ("text", "OneHotEncoder"),
    ],
)
def test_the_remedy_goes_with_the_value(value, remedy):
    with pytest.raises(ValueError, match=f"feature 'f' is .*not a number; .*{remedy}"):
        BalancedRidgeClassifier().learn_one({"f": value}, 1)


def test_a_feature_that_no_event_is_left_with_leaves_no_name():
    kept = [({"a": 1.0}, "x"), ({"a": 2.0, "zero": 0.0}, "y"), ({"a": 4.0}, "x")]
    gone = [({"a": 3.0, "secret": 1.5}, "x"), ({"a": 0.5, "secret": -2.5}, "y")]
    model, never = BalancedRidgeClassifier(), BalancedRidgeClassifier()
    for x, y in kept:
        never.learn_one(x, y)
    for x, y in kept + gone:
        model.learn_one(x, y)
    model.unlearn_one(*gone[0])
    assert b"secret" in pickle.dumps(model)  # an event has it still
    model.unlearn_one(*gone[1])
    assert b"secret" not in pickle.dumps(model)
    for x, y in kept + gone:
        assert model.predict_proba_one(x) == pytest.approx(never.predict_proba_one(x), rel=1e-9)
        model.learn_one(x, y)
        model.unlearn_one(x, y)
    with pytest.raises(ValueError, match="with feature 'secret': none was ever learned"):
        model.unlearn_one(*gone[0])
    model.unlearn_one(*kept[1])  # its feature is 0, which is the same as none
    assert model.predict_one({"a": 0.0}) == "x"


def test_the_last_feature_goes_and_the_labels_stay():
    model = BalancedRidgeClassifier()
    for x, y in [({}, "x"), ({}, "y"), ({}, "y"), ({"secret": 2.0}, "x")]:
        model.learn_one(x, y)
    model.unlearn_one({"secret": 2.0}, "x")
    assert b"secret" not in pickle.dumps(model)
    assert model.predict_proba_one({"secret": 9.0}) == pytest.approx({"x": 0.5, "y": 0.5})
    model.learn_one({"b": 1.0}, "y")
    assert model.predict_one({"b": 1.0}) == "y"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::counterpoise.errors.PrecisionWarning")
def test_events_unlearned_one_by_one_leave_nothing():
    """In any order, and whatever their units and weights."""
    rng = np.random.default_rng(0)
    for weighted in (False, True):
        X = rng.standard_normal((80, 4)) * [1e-6, 1.0, 1e6, 1.0] + [0.0, 1e4, 0.0, 0.0]
        X[:, 3] = rng.integers(0, 3, 80) + 0.1
        y, w = rng.integers(0, 2, 80), np.ones(80)
        w = rng.uniform(0.01, 3.0, 80) if weighted else w
        xs = [dict(zip("abcd", row, strict=True)) for row in X.tolist()]
        model = BalancedRidgeClassifier()
        for i in range(80):
            model.learn_one(xs[i], int(y[i]), float(w[i]))
        for i in rng.permutation(80):
            model.unlearn_one(xs[i], int(y[i]), float(w[i]))
        assert not model._state.is_fitted


@pytest.mark.parametrize("option", ["class_factors", "half_life", "class_weight"])
@pytest.mark.parametrize("call", ["predict_one", "predict_proba_one", "predict_stream_proba_one"])
def test_a_label_in_another_case_is_warned_about_early_and_once(option, call):
    model = BalancedRidgeClassifier(**{option: {"Fraud": 20}})
    predict = getattr(model, call)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(19):
            model.learn_one({"a": float(i % 7)}, "fraud" if i % 5 == 0 else "ok")
            predict({"a": 1.0})
        model.learn_one({"a": 1.0}, "ok")
    says = (
        f"{option} names the label 'Fraud', which never occurred in .* that did are 'fraud', 'ok'"
    )
    with pytest.warns(UserWarning, match=says) as found:
        predict({"a": 1.0})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            model.learn_one({"a": 2.0}, "ok")
            predict({"a": 1.0})
            model.learn_one({"a": 1.0}, "fraud")
    assert [one.filename for one in found] == [__file__]


def test_a_factor_of_a_label_of_another_type_is_warned_about_early():
    model = BalancedRidgeClassifier(class_factors={"1": 20})
    for i in range(30):
        model.learn_one({"a": float(i % 7)}, i % 2)
    with pytest.warns(UserWarning, match="class_factors names the label '1', which never"):
        model.predict_one({"a": 1.0})


def test_times_without_a_half_life_in_time_are_warned_about_once():
    says = "t is ignored, because half_life is not a duration such as '7d'"
    for options in ({}, {"half_life": 20.0}):
        model, plain = (BalancedRidgeClassifier(**options) for _ in range(2))
        with pytest.warns(UserWarning, match=says) as found:
            model.learn_one({"a": 0.0}, 0, t=3.0)
        plain.learn_one({"a": 0.0}, 0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for i in range(1, 5):
                model.learn_one({"a": float(i)}, i % 2, t=3.0)
                plain.learn_one({"a": float(i)}, i % 2)
        assert [one.filename for one in found] == [__file__]
        assert model.predict_proba_one({"a": 1.0}) == plain.predict_proba_one({"a": 1.0})
    frame = pd.DataFrame({"a": [0.0, 1.0]})
    with pytest.warns(UserWarning, match=says):
        BalancedRidgeClassifier().learn_many(frame, pd.Series([0, 1]), t=[0.0, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BalancedRidgeClassifier(half_life="7d").learn_one({"a": 1.0}, 0, t=3.0)
