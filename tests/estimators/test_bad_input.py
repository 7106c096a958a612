"""Bad input: one clear error, and the model stays bit-identical to what it was."""

import datetime
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from builders import stream
from sklearn.exceptions import NotFittedError

from counterpoise import AutoClassifier, BalancedRidgeClassifier

X, y = stream(60, 3)
NAN, INF = X.copy(), X.copy()
NAN[17, 1], INF[5, 2] = np.nan, -np.inf
BAD_WEIGHTS = [
    (np.where(np.arange(60) == 4, -1.0, 1.0), "negative .* at row 4"),
    (np.where(np.arange(60) == 4, np.nan, 1.0), "NaN .* at row 4"),
    (np.where(np.arange(60) == 4, np.inf, 1.0), "infinite .* at row 4"),
    (np.ones(59), r"shape \(59,\)"),
    (np.ones((60, 1)), "one weight for each row"),
    (np.full(60, 1e60), "scale them down"),
]


def image(model):
    return pickle.dumps(model)


def refuses(action, message, model, error=ValueError):
    before = image(model)
    with pytest.raises(error, match=message):
        action()
    assert image(model) == before


@pytest.fixture(params=["new", "dense", "decaying"])
def model(request):
    half_life = 10.0 if request.param == "decaying" else None
    model = BalancedRidgeClassifier(half_life=half_life)
    return model if request.param == "new" else model.partial_fit(X, y)


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (NAN, "feature 1 is NaN at row 17; drop"),
        (INF, "feature 2 is -inf at row 5; drop such rows, or clip them"),
        (sp.csr_array(np.nan_to_num(NAN) + NAN * 0), "feature 1 is NaN at row 17"),
        (sp.csr_array(INF), "feature 2 is -inf at row 5"),
        (np.where(np.arange(3) == 1, 1e200, X), "feature 1 contains values beyond 1e\\+100"),
        (X[:, 0], "Expected 2D array"),
        (X[:59], "inconsistent numbers of samples"),
        (np.array([["a", "b", "c"]] * 60), "not a number|dtype"),
    ],
)
def test_rows(model, learn, rows, message):
    refuses(lambda: getattr(model, learn)(rows, y), message, model)


def test_rows_far_apart_in_different_chunks():
    model = BalancedRidgeClassifier().partial_fit(np.full((2, 1), 1e99), [0, 1])
    model.partial_fit(np.full((2, 1), -1e99), [0, 1])
    assert np.isfinite(model.coef_).all()


def test_names_are_used_where_there_are_names():
    frame = pd.DataFrame(X, columns=["time", "amount", "age"])
    model = BalancedRidgeClassifier().partial_fit(frame, y)
    bad = pd.DataFrame(NAN, columns=frame.columns)
    refuses(lambda: model.partial_fit(bad, y), "feature 'amount' is NaN at row 17", model)
    refuses(lambda: model.predict(bad), "feature 'amount' is NaN at row 17", model)


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
@pytest.mark.parametrize(("weight", "message"), BAD_WEIGHTS)
def test_weights(model, learn, weight, message):
    refuses(lambda: getattr(model, learn)(X, y, sample_weight=weight), message, model)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.linspace(0, 1, 60), "Unknown label type|continuous"),
        (np.full(60, np.nan), "NaN"),
        (np.ones((60, 2)), "1d array|multilabel|shape"),
        (None, "requires y"),
    ],
)
def test_labels(model, labels, message):
    refuses(lambda: model.partial_fit(X, labels), message, model)


def test_labels_of_another_type_than_before():
    model = BalancedRidgeClassifier().partial_fit(X, y)
    text = np.array(["a", "b"])[y]
    refuses(lambda: model.partial_fit(X, text), "labels are text here .* but numbers", model)


def test_width():
    model = BalancedRidgeClassifier().partial_fit(X, y)
    for call in (model.predict, lambda rows: model.partial_fit(rows, y)):
        refuses(lambda call=call: call(X[:, :2]), "2 features", model)
    refuses(lambda: model.unlearn(X[:, :2], y), "2 features", model)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ridge": -1.0}, "ridge must be a finite number that is not negative, or .*; got -1.0"),
        ({"ridge": float("nan")}, "ridge must be .*; got nan"),
        ({"ridge": "best"}, "ridge must be .* or 'gcv'; got 'best'"),
        ({"ridge": None}, "ridge must be .*; got None"),
        ({"ridge": True}, "ridge must be .*; got True"),
        ({"class_weight": "even"}, "must be 'balanced', a dict"),
        (
            {"class_weight": {0: -1.0}},
            r"class_weight\[0\] must be a finite number above 0; got -1.0",
        ),
        ({"class_weight": 3}, "must be 'balanced', a dict"),
        ({"class_factors": {1: float("inf")}}, r"class_factors\[1\] must be .*; got inf"),
        ({"class_factors": 2.0}, "must be a dict"),
        ({"scale": "robust"}, "scale must be 'standard' or None; got 'robust'"),
        ({"half_life": 0.0}, "half_life must be .*; got 0.0"),
        ({"half_life": -3}, "half_life must be .*; got -3"),
        ({"fit_intercept": "yes"}, "must be True or False"),
        ({"memory_limit": -5}, "memory_limit must be .*; got -5"),
    ],
)
def test_options(options, message):
    model = BalancedRidgeClassifier(**options)
    refuses(lambda: model.fit(X, y), message, model)
    fitted = BalancedRidgeClassifier().fit(X, y).set_params(**options)
    refuses(lambda: fitted.partial_fit(X, y), message, fitted)


def test_options_that_change_what_is_learned_cannot_change_later():
    model = BalancedRidgeClassifier().fit(X, y).set_params(half_life=5.0)
    refuses(lambda: model.partial_fit(X, y), "cannot change after", model)
    refuses(lambda: model.predict(X), "cannot change", model)


@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [
        (X, np.full(60, 5), "class 5: none was ever seen"),
        (np.vstack([X, X]), np.concatenate([y, y]), "only .* was learned"),
        (NAN, y, "feature 1 is NaN at row 17"),
    ],
)
def test_unlearning_labels_and_features_that_were_never_seen(rows, labels, message):
    model = BalancedRidgeClassifier().fit(X, y)
    refuses(lambda: model.unlearn(rows, labels), message, model)


def test_unlearning_rows_that_were_not_learned():
    """Same count, other rows: a variance would turn negative."""
    model = BalancedRidgeClassifier().fit(X, y)
    refuses(lambda: model.unlearn(100.0 * X[:50], y[:50]), "Nothing was unlearned", model)


def test_unlearning_where_it_has_no_meaning():
    fading = BalancedRidgeClassifier(half_life=10.0).fit(X, y)
    refuses(lambda: fading.unlearn(X, y), "with a half-life cannot unlearn", fading)
    new = BalancedRidgeClassifier()
    refuses(lambda: new.unlearn(X, y), "is not fitted yet", new, NotFittedError)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (BalancedRidgeClassifier(ridge=1.0).fit(X, y), "ridge is 'auto' here and 1.0 there"),
        (BalancedRidgeClassifier(scale=None).fit(X, y), "scale is 'standard' here and None"),
        (BalancedRidgeClassifier().fit(X[:, :2], y), "different features: 3 here, 2 there"),
        (BalancedRidgeClassifier().fit(pd.DataFrame(X, columns=list("abc")), y), "'a', 'b', 'c'"),
        (BalancedRidgeClassifier().fit(X, np.array(["a", "b"])[y]), "convert them to one type"),
    ],
)
def test_merging_models_that_do_not_fit(other, message):
    model = BalancedRidgeClassifier().fit(X, y)
    before = image(other)
    refuses(lambda: model.merge(other), message, model)
    assert image(other) == before


def test_merging_with_something_else():
    model = BalancedRidgeClassifier().fit(X, y)
    refuses(lambda: model.merge("b"), "can only merge", model, TypeError)
    refuses(
        lambda: model.merge(BalancedRidgeClassifier()), "is not fitted yet", model, NotFittedError
    )


def test_an_average_names_the_model_that_can_unlearn():
    model = AutoClassifier(candidates=("linear",)).fit(X, y)
    refuses(lambda: model.unlearn(X, y), "use best_, a BalancedRidge", model, AttributeError)
    assert not hasattr(model, "unlearn")


def test_weights_that_are_all_zero():
    zero = np.zeros(60)
    new = BalancedRidgeClassifier()
    refuses(lambda: new.fit(X, y, sample_weight=zero), "nothing to fit", new)
    with pytest.raises(NotFittedError):
        new.partial_fit(X, y, sample_weight=zero).predict(X)
    np.testing.assert_array_equal(
        new.partial_fit(X, y).coef_, BalancedRidgeClassifier().fit(X, y).coef_
    )


def test_too_many_features_for_the_memory():
    wide = sp.csr_array((4, 20_000))
    model = BalancedRidgeClassifier()
    message = r"12.8 GB for moments, more than memory_limit allows \(2 GB\); .*diagonal"
    refuses(lambda: model.fit(wide, [0, 0, 1, 1]), message, model)
    small = BalancedRidgeClassifier(memory_limit=400.0)
    small.fit(X, y)
    refuses(lambda: small.partial_fit(X, y + 2), "classes of 3 features need", small)


def test_single_rows():
    model = BalancedRidgeClassifier().fit(X, y)
    model.learn_one(X[0], y[0])
    for row, label, w in ((NAN[17], y[0], 1.0), (X[0, :2], y[0], 1.0), (X[0], y[0], -1.0)):
        refuses(lambda a=(row, label, w): model.learn_one(*a), "NaN|features|negative", model)


def test_asking_before_learning():
    model = BalancedRidgeClassifier()
    for name in ("coef_", "intercept_", "classes_", "class_count_", "ridge_"):
        assert not hasattr(model, name)
    with pytest.raises(NotFittedError):
        model.predict(X)


NUMBERS = np.random.default_rng(0).standard_normal(40)
LABELS = np.arange(40) % 2
TEXT, DAYS = ["Aachen"] * 40, [datetime.date(2020, 1, 1)] * 40


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"a": NUMBERS, "town": TEXT}), "column 'town' is 'Aachen' at row 0.*TableCl"),
        (pl.DataFrame({"a": NUMBERS, "town": TEXT}), "column 'town' is 'Aachen' at row 0.*TableCl"),
        ([[1.0, 2.0], [1.0, "x"]] * 20, "feature 1 is 'x' at row 1, not a number"),
        (
            pd.DataFrame({"when": pd.to_datetime(DAYS)}),
            "column 'when' contains datetime64.*seconds",
        ),
        (pd.DataFrame({"a": NUMBERS, "when": DAYS}), "column 'when' is '2020-01-01' at row 0"),
        (pl.DataFrame({"a": NUMBERS, "when": DAYS}), "column 'when' contains Date.*seconds"),
        (np.array(DAYS, dtype="M8[D]")[:, None], "X contains datetime64.*seconds"),
        (pl.DataFrame({"a": NUMBERS}).lazy(), "LazyFrame without rows.*collect"),
        ([{"a": 1.0}] * 40, "X contains dicts.*counterpoise.river.*TableClassifier"),
        ({"a": NUMBERS}, "X contains dicts.*counterpoise.river.*TableClassifier"),
    ],
    ids=[
        "pandas text",
        "polars text",
        "lists",
        "dates",
        "objects",
        "polars dates",
        "array",
        "lazy",
        "events",
        "columns",
    ],
)
def test_what_is_no_number_is_named(frame, message):
    model = BalancedRidgeClassifier()
    with pytest.raises((TypeError, ValueError), match=message):
        model.partial_fit(frame, LABELS)
    assert "n_features_in_" not in model.__dict__


def test_the_error_of_an_event_names_the_package_for_events():
    model = BalancedRidgeClassifier()
    with pytest.raises(TypeError, match="for events that are dicts of features use counterpoise"):
        model.learn_one({"a": 1.0}, 0)


def test_an_empty_chunk_teaches_nothing():
    X = np.column_stack([NUMBERS, NUMBERS**2])
    for model in (
        BalancedRidgeClassifier(),
        BalancedRidgeClassifier(feature_map="poly2"),
        AutoClassifier(candidates=("linear",)),
    ):
        model.partial_fit(X[:0], LABELS[:0]).partial_fit(X, LABELS)
        before = model.decision_function(X)
        model.partial_fit(X[:0], LABELS[:0])
        np.testing.assert_array_equal(model.decision_function(X), before)
        with pytest.raises(ValueError, match="3 features"):
            model.partial_fit(np.empty((0, 3)), LABELS[:0])
        with pytest.raises(ValueError, match="0 sample"):
            model.fit(X[:0], LABELS[:0])
    one = BalancedRidgeClassifier().fit(X, LABELS)
    assert one.unlearn(X[:0], LABELS[:0]).class_count_.tolist() == [20.0, 20.0]


def test_many_classes_in_a_small_chunk_are_no_cause_for_a_warning():
    rng, letters = np.random.default_rng(0), np.array(list("abcdefghijklmnopqrstuvwxyz"))
    model = BalancedRidgeClassifier()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(5):
            model.partial_fit(rng.standard_normal((30, 2)), letters[rng.integers(0, 26, 30)])
        model.partial_fit(rng.standard_normal((30, 2)), np.repeat("a", 30), classes=letters)
    assert len(model.classes_) == 26
    with pytest.raises(ValueError, match="continuous"):
        BalancedRidgeClassifier().partial_fit(rng.standard_normal((30, 2)), rng.random(30))


@pytest.mark.parametrize("options", [{"ridge": "gcv"}, {"feature_map": "poly2"}, {}])
def test_single_rows_of_a_model_that_was_fitted_on_a_frame_need_no_names(options):
    frame = pd.DataFrame({"a": NUMBERS, "b": NUMBERS**2})
    model = BalancedRidgeClassifier(**options).fit(frame, LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_one([0.5, 0.25])
        model.learn_one([0.5, 0.25], 1)
        model.learn_one([0.5, 0.25], 7)
        model.predict(frame)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.class_count_.tolist() == [20.0, 21.0, 1.0]


def test_what_is_ignored_is_warned_of():
    X, y = stream(30)
    with pytest.warns(UserWarning, match=r"t is ignored, because half_life is not a duration"):
        BalancedRidgeClassifier().fit(X, y, t=np.arange(30.0))
    for name in ("class_factors", "class_weight"):
        with pytest.warns(UserWarning, match=f"{name} names the label 7, which no row has"):
            BalancedRidgeClassifier(**{name: {7: 2.0}}).fit(X, y)
