"""Columns of events with many categories: the models of dense features and of tables."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from builders import assert_close

from counterpoise import BalancedRidgeClassifier as ArrayClassifier
from counterpoise import TableClassifier
from counterpoise.errors import ModelFileError
from counterpoise.river import BalancedRidgeClassifier

COLUMNS = {"merchant": "many:5", "device": "many"}
OPTIONS = [
    {},
    {"half_life": 60.0},
    {"fit_intercept": False},
    {"class_weight": None, "ridge": "gcv"},
    {"multi_class": "ovr"},
    {"feature_map": "rm2"},
]


def payments(rows=400, classes=2, seed=0):
    """Events with a number, a category of 60 that is sometimes missing, and one of 7; labels."""
    rng = np.random.default_rng(seed)
    merchant, device = rng.integers(0, 60, rows), rng.integers(0, 7, rows)
    effect = rng.normal(0, 1, (60, classes))
    amount = rng.normal(size=rows)
    f = effect[merchant] + rng.normal(size=(rows, classes)) + np.outer(amount, np.arange(classes))
    xs = []
    for x, m, d in zip(amount.tolist(), merchant.tolist(), device.tolist(), strict=True):
        event = {"amount": x, "merchant": f"m {m}", "device": d}
        if m % 9 == 0:
            del event["merchant"]
        xs.append(event)
    return xs, f.argmax(axis=1).tolist()


def fit_events(xs, ys, **options):
    model = BalancedRidgeClassifier(columns=COLUMNS, **options)
    for x, y in zip(xs, ys, strict=True):
        model.learn_one(x, y)
    return model


def answers(model, xs):
    """Both probabilities of all labels, (n, 2c)."""
    found = []
    for x in xs:
        both = model.predict_proba_one(x), model.predict_stream_proba_one(x)
        found.append([p[label] for p in both for label in sorted(p)])
    return np.array(found)


def table_answers(model, frame):
    return np.hstack([model.predict_proba(frame), model.predict_stream_proba(frame)])


NEW = [
    {"amount": 0.3, "merchant": "never seen", "device": 1},
    {"amount": -1.0, "device": "also never seen"},
    {"merchant": "m 1"},
    {},
]


def complete(xs, ys):
    """Events without a missing category."""
    both = [(x, y) for x, y in zip(xs, ys, strict=True) if "merchant" in x]
    return [x for x, _ in both], [y for _, y in both]


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_events_one_by_one_give_the_model_of_the_table(options, classes):
    xs, ys = complete(*payments(classes=classes))
    ours = fit_events(xs, ys, **options)
    frame = pd.DataFrame(xs)
    theirs = TableClassifier(ArrayClassifier(**options), columns=COLUMNS).partial_fit(frame, ys)
    expected = np.hstack([theirs.predict_proba(frame), theirs.predict_stream_proba(frame)])
    assert_close(answers(ours, xs), expected, 1e-9)
    assert [ours.predict_one(x) for x in xs] == theirs.predict(frame).tolist()


def one_hot(xs, values):
    """Rows of the amount, then one feature for each category of both columns."""
    rows = [[str(x.get(name)) == value for name, value in values] for x in xs]
    return np.column_stack([[x.get("amount", 0.0) for x in xs], rows]).astype(float)


@pytest.mark.parametrize("classes", [2, 3])
def test_events_give_the_model_of_dense_one_hot_features(classes):
    xs, ys = payments(classes=classes)
    values = sorted({(name, str(x[name])) for x in xs for name in COLUMNS if name in x})
    columns = dict.fromkeys(COLUMNS, "many:5")
    options = {"scale": None, "columns": columns}
    first = BalancedRidgeClassifier(**options)
    first.learn_many(pd.DataFrame(xs), ys)
    ridge = float(first._scores().effects.ridges[0])  # with this ridge, all columns have the same
    ours = BalancedRidgeClassifier(**options, ridge=ridge)
    for x, y in zip(xs, ys, strict=True):
        ours.learn_one(x, y)
    theirs = ArrayClassifier(scale=None, ridge=ridge).fit(one_hot(xs, values), ys)
    rows = one_hot(xs + NEW, values)
    expected = np.hstack([theirs.predict_proba(rows), theirs.predict_stream_proba(rows)])
    assert_close(answers(ours, xs + NEW), expected, 1e-9)
    assert [ours.predict_one(x) for x in xs + NEW] == theirs.predict(rows).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("absent", ["zero", "missing"])
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_mini_batches_give_the_model_of_single_events(frame, options, absent):
    xs, ys = payments()
    texts = [{**x, "device": str(x["device"])} for x in xs]
    ours, many = (
        BalancedRidgeClassifier(columns=COLUMNS, absent=absent, **options) for _ in range(2)
    )
    for x, y in zip(xs, ys, strict=True):
        ours.learn_one(x, y)
    for start in range(0, 400, 100):
        many.learn_many(frame(texts[start : start + 100]), ys[start : start + 100])
    assert_close(answers(many, xs + NEW), answers(ours, xs + NEW), 1e-9)
    table = frame(texts)
    found = many.predict_proba_many(table)
    p = np.array([[one[k] for k in sorted(one)] for one in map(ours.predict_proba_one, xs)])
    assert_close(np.asarray(found), p, 1e-9)
    assert list(many.predict_many(table)) == [ours.predict_one(x) for x in xs]


@pytest.mark.parametrize("features", [None, "rm2"])
def test_unlearning_and_merging_equal_never_having_seen_and_both(features):
    (xs, ys), (more, labels) = payments(400), payments(300, seed=1)
    more = [{**x, "merchant": f"other {i % 40}"} for i, x in enumerate(more)]
    one = fit_events(xs, ys, feature_map=features)
    both = copy.deepcopy(one)
    for x, y in zip(more, labels, strict=True):
        both.learn_one(x, y)
    other = copy.deepcopy(one)
    for x, y in zip(xs, ys, strict=True):
        other.unlearn_one(x, y)
    assert other.predict_one(xs[0]) is None
    if features is None:  # else the map is fixed by other events
        for x, y in zip(more, labels, strict=True):
            other.learn_one(x, y)
        assert_close(answers(one.merge(other), xs + more), answers(both, xs + more), 1e-9)
    frame = pd.DataFrame(more).astype({"device": object})
    both.unlearn_many(frame, labels)
    assert_close(answers(both, xs + NEW), answers(one, xs + NEW), 1e-9)
    assert both._state.moments.categories.sizes == one._state.moments.categories.sizes


def test_unlearning_every_event_of_a_category_removes_its_name_from_the_file(tmp_path):
    xs, ys = payments()
    model = fit_events([*xs[:200], {"amount": 1.0, "merchant": "Ms Secret"}, *xs[200:]], [*ys, 0])
    model.save(tmp_path / "m.safetensors")
    assert b"Ms Secret" in (tmp_path / "m.safetensors").read_bytes()
    before = answers(model, xs)
    with pytest.raises(ValueError, match="'merchant' = 'm 999': none was ever learned"):
        model.unlearn_one({"amount": 1.0, "merchant": "m 999"}, 0)
    with pytest.raises(ValueError, match="than were ever learned"):
        model.unlearn_many(
            pd.DataFrame([{"amount": 1.0, "merchant": "Ms Secret"}] * 2), [ys[200]] * 2
        )
    np.testing.assert_array_equal(answers(model, xs), before)
    model.unlearn_one({"amount": 1.0, "merchant": "Ms Secret"}, ys[200])
    model.save(tmp_path / "m.safetensors")
    assert b"Ms Secret" not in (tmp_path / "m.safetensors").read_bytes()


@pytest.mark.parametrize("absent", ["zero", "missing"])
@pytest.mark.parametrize(
    "options", [{}, {"calibrate": True}, {"feature_map": "rm2"}, {"half_life": "7d"}], ids=str
)
def test_files_and_pickles_continue_bit_identically(options, absent, tmp_path):
    xs, ys = payments(500)
    model = BalancedRidgeClassifier(columns=COLUMNS, absent=absent, **options)
    times = options == {"half_life": "7d"}
    for i, (x, y) in enumerate(zip(xs[:300], ys, strict=False)):
        model.learn_one(x, y, **({"t": 3600.0 * i} if times else {}))
    model.save(tmp_path / "m.safetensors")
    loaded = BalancedRidgeClassifier.load(tmp_path / "m.safetensors")
    models = [model, loaded, pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    assert loaded.columns == COLUMNS
    for one in models:
        for i, (x, y) in enumerate(zip(xs[300:], ys[300:], strict=True)):
            one.learn_one(x, y, **({"t": 3600.0 * (300 + i)} if times else {}))
    for one in models[1:]:
        np.testing.assert_array_equal(answers(one, xs + NEW), answers(model, xs + NEW))
    with pytest.raises(ModelFileError, match="learned from events with columns"):
        ArrayClassifier.load(tmp_path / "m.safetensors")


@pytest.mark.parametrize("classes", [2, 3])
def test_contributions_of_columns_add_up_to_the_score(classes):
    xs, ys = payments(classes=classes)
    model = fit_events(xs, ys)
    x = xs[5]
    parts = model.explain_one(x, 1)
    assert list(parts) == ["amount", "merchant", "device"]
    empty = dict.fromkeys(("merchant", "device"))
    change = sum(parts.values()) - sum(model.explain_one({**x, **empty}, 1).values())
    scores = [model._scores().of(model._row(one)[None])[0, -1] for one in (x, {**x, **empty})]
    if classes == 2:
        assert change == pytest.approx(scores[0] - scores[1], abs=1e-12)
    assert model.explain_one({"amount": 0.0}, 1)["merchant"] == pytest.approx(
        model.explain_one({"merchant": "never seen"}, 1)["merchant"]
    )


def test_a_model_of_columns_alone():
    model = BalancedRidgeClassifier(columns={"merchant": "many"})
    for i in range(60):
        model.learn_one({"merchant": "ab"[i % 2]}, "no" if i % 2 else "yes")
    assert [model.predict_one({"merchant": name}) for name in "ab"] == ["yes", "no"]
    assert model.explain_one({"merchant": "a"}, "yes").keys() == {"merchant"}
    model.learn_one({"merchant": "a", "amount": 3.0}, "yes")
    assert model.predict_one({"merchant": "b"}) == "no"


def test_values_are_categories_as_tables_read_them():
    one, other = (BalancedRidgeClassifier(columns={"k": "many"}) for _ in range(2))
    values = (
        [7, "7", 7.0, np.int64(7)],
        [True, "true", np.bool_(True)],
        [None, np.nan, float("nan")],
    )
    for kinds in values:
        for i, value in enumerate(kinds):
            one.learn_one({"x": float(i), "k": value}, i % 2)
            other.learn_one(
                {"x": float(i), **({"k": kinds[1]} if kinds[1] == kinds[1] else {})}, i % 2
            )
    assert one._many.vocabularies[0].values == ["7", "true"]
    assert_close(
        answers(one, [{"k": 7}, {"k": True}, {}]), answers(other, [{"k": 7}, {"k": True}, {}]), 0.0
    )


@pytest.mark.parametrize("role", ["category", "many:0", "many:x", "many:inf", None, 3])
def test_roles_that_are_not_valid_are_refused(role):
    with pytest.raises(ValueError, match=r"columns\['merchant'\] must be 'many', or 'many:ROWS'"):
        BalancedRidgeClassifier(columns={"merchant": role})


def test_quadratic_boundaries_are_refused():
    with pytest.raises(ValueError, match="need linear boundaries"):
        BalancedRidgeClassifier(columns=COLUMNS, pooled_rows=10.0)


def test_an_error_leaves_the_categories_as_they_were():
    xs, ys = payments(100)
    model = fit_events(xs, ys)

    def contents():
        return model._contents().arrays, model._contents().lists, model._many.vocabularies[0].values

    before = pickle.dumps(contents())
    with pytest.raises(ValueError, match="not a number"):
        model.learn_one({"amount": "text", "merchant": "new"}, 1)
    with pytest.raises(ValueError, match="beyond"):
        model.learn_many(pd.DataFrame([{"amount": 1e300, "merchant": "new"}]), [1])
    model.memory_limit = 1000.0
    with pytest.raises(ValueError, match="more than memory_limit allows"):
        model.learn_one({"amount": 1.0, "merchant": "new"}, 1)
    assert pickle.dumps(contents()) == before


PAIRS, PAIR_WEIGHTS = "categories pairs 0 1 0", "categories weights 0 1 0"


@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        (PAIRS, 0, -1, "do not exist"),
        (PAIRS, -1, 2 << 52, "do not exist"),  # class, then both categories
        (PAIRS, -1, (1 << 52) + (10**6 << 26), "do not exist"),
        (PAIRS, -1, (1 << 52) + 10**6, "do not exist"),
        (PAIRS, 4, 0, "in another order"),
        (PAIRS, slice(None, None, -1), None, "in another order"),
        (PAIR_WEIGHTS, 3, -1.0, "impossible weights"),
        (PAIR_WEIGHTS, 3, 0.0, "impossible weights"),
        (PAIR_WEIGHTS, 3, 1e6, "impossible weights"),
    ],
)
def test_impossible_pairs_of_an_untrusted_file_are_refused(name, place, value, message):
    contents = fit_events(*payments())._contents()
    pairs = contents.arrays[name].copy()
    pairs[place] = contents.arrays[name] if value is None else value
    changed = replace(contents, arrays={**contents.arrays, name: pairs})
    with pytest.raises(ModelFileError, match=message):
        BalancedRidgeClassifier._from_contents(changed)


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: {PAIRS: arrays[PAIRS].astype(float)},
        lambda arrays: {PAIRS: arrays[PAIRS][:-1]},
        lambda arrays: {PAIRS: arrays[PAIRS][:0], PAIR_WEIGHTS: np.zeros(0)},
        lambda arrays: {PAIRS: arrays[PAIRS].reshape(1, -1)},
        lambda arrays: {"categories pairs 0 1 2": arrays[PAIRS]},
        lambda arrays: {"categories weights 0 1 1": arrays[PAIR_WEIGHTS]},
    ],
)
def test_malformed_pairs_of_an_untrusted_file_are_refused(change):
    contents = fit_events(*payments())._contents()
    changed = replace(contents, arrays={**contents.arrays, **change(contents.arrays)})
    with pytest.raises(ModelFileError, match="malformed categories"):
        BalancedRidgeClassifier._from_contents(changed)


@pytest.mark.parametrize(
    "change",
    [
        lambda plain: plain[:1],
        lambda plain: [*plain, ["other", 0, []]],
        lambda plain: [[plain[0][0], 0, plain[0][2][:-1]], plain[1]],
        lambda plain: [[plain[0][0], 0, [*plain[0][2][:-1], plain[0][2][0]]], plain[1]],
        lambda plain: [plain[0], plain[0]],
        lambda plain: [["merchant", 0, [7]], plain[1]],
        lambda plain: ["merchant", "device"],
    ],
)
def test_impossible_categories_of_an_untrusted_file_are_refused(change):
    contents = fit_events(*payments())._contents()
    lists = {**contents.lists, "categories": change(contents.lists["categories"])}
    with pytest.raises(ModelFileError, match="categories"):
        BalancedRidgeClassifier._from_contents(replace(contents, lists=lists))
