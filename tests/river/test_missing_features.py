"""river's estimator, where an absent feature is missing: imputed by the mean of all values."""

import copy

import numpy as np
import pandas as pd
import pytest
from river import metrics
from sklearn.impute import SimpleImputer

import counterpoise
from counterpoise.errors import ModelFileError
from counterpoise.river import BalancedRidgeClassifier


def films(n, seed=0, gone=0.0):
    """Events with a year, far from zero, that is missing in some; every event has a rating."""
    rng = np.random.default_rng(seed)
    year, rating = rng.normal(2005.0, 6.0, n), rng.normal(size=n)
    y = year - 2005.0 + 4.0 * rating + 3.0 * rng.normal(size=n) > 11.0
    is_gone = rng.random(n) < gone
    events = [
        {"rating": r} if no and i else {"year": a, "rating": r}
        for i, (a, r, no) in enumerate(zip(year, rating, is_gone, strict=True))
    ]
    return events, y.tolist()


def progressive(events, labels, model):
    score = metrics.GeometricMean()
    for x, y in zip(events, labels, strict=True):
        found = model.predict_one(x)
        if found is not None:
            score.update(y, found)
        model.learn_one(x, y)
    return score.get()


def impute_frame(events):
    """Rows as a batch imputer makes them, and the indicator of what it filled."""
    frame = pd.DataFrame(events)[["year", "rating"]]
    return SimpleImputer(add_indicator=True).fit_transform(frame)


@pytest.mark.slow
@pytest.mark.parametrize("absent", ["zero", "missing"])
def test_a_year_that_is_missing_in_one_event_of_a_hundred(absent):
    whole = progressive(*films(1500), BalancedRidgeClassifier())
    found = progressive(*films(1500, gone=0.01), BalancedRidgeClassifier(absent=absent))
    if absent == "missing":
        assert found > whole - 0.01  # the example of the guide
    else:
        assert found < whole - 0.1  # a year of 0 is two thousand years away


@pytest.mark.slow
def test_every_step_is_that_of_a_batch_imputer():
    events, labels = films(120, gone=0.2)
    model = BalancedRidgeClassifier(absent="missing")
    for i, (x, y) in enumerate(zip(events, labels, strict=True)):
        model.learn_one(x, y)
        if i in (5, 30, 119) and len(set(labels[: i + 1])) > 1:
            Z = impute_frame(events[: i + 1])
            batch = counterpoise.BalancedRidgeClassifier().fit(Z, labels[: i + 1])
            p = batch.predict_proba(Z)[:, 1]
            found = [model.predict_proba_one(e)[True] for e in events[: i + 1]]
            np.testing.assert_allclose(found, p, atol=1e-10)


@pytest.mark.slow
def test_order_batches_and_unlearning():
    events, labels = films(150, gone=0.2)
    one = BalancedRidgeClassifier(absent="missing")
    for x, y in zip(events, labels, strict=True):
        one.learn_one(x, y)
    other = BalancedRidgeClassifier(absent="missing")
    for x, y in list(zip(events, labels, strict=True))[::-1]:
        other.learn_one(x, y)
    more, theirs = films(20, seed=1, gone=0.3)
    for x, y in zip(more, theirs, strict=True):
        other.learn_one(x, y)
    for x, y in zip(more, theirs, strict=True):
        other.unlearn_one(x, y)
    many = BalancedRidgeClassifier(absent="missing")
    there = [i for i, x in enumerate(events) if "year" in x]
    rest = [i for i, x in enumerate(events) if "year" not in x]
    for at in (there, rest):
        frame = pd.DataFrame([events[i] for i in at])
        many.learn_many(frame, pd.Series([labels[i] for i in at]))
    for x in events[:40]:
        p = one.predict_proba_one(x)[True]
        assert abs(other.predict_proba_one(x)[True] - p) < 1e-9
        assert abs(many.predict_proba_one(x)[True] - p) < 1e-10


def test_a_feature_that_appears_late_was_missing_before():
    events, labels = films(100)
    late = [{"rating": x["rating"]} for x in events[:40]] + events[40:]
    model = BalancedRidgeClassifier(absent="missing")
    for x, y in zip(late, labels, strict=True):
        model.learn_one(x, y)
    Z = impute_frame(late)
    p = counterpoise.BalancedRidgeClassifier().fit(Z, labels).predict_proba(Z)[:, 1]
    found = [model.predict_proba_one(x)[True] for x in late]
    np.testing.assert_allclose(found, p, atol=1e-10)


def test_what_was_never_missing_is_the_mean_when_it_is():
    events, labels = films(200)
    model = BalancedRidgeClassifier(absent="missing")
    for x, y in zip(events, labels, strict=True):
        model.learn_one(x, y)
    mean = float(np.mean([x["year"] for x in events]))
    lacking, filled = {"rating": 0.5}, {"rating": 0.5, "year": mean}
    p, q = (model.predict_proba_one(x)[True] for x in (lacking, filled))
    assert abs(p - q) < 1e-12
    again = copy.deepcopy(model)
    assert again.predict_proba_one(lacking) == model.predict_proba_one(lacking)
    with pytest.raises(ValueError, match="absent must be 'zero' or 'missing'; got 'never'"):
        BalancedRidgeClassifier(absent="never")


@pytest.mark.slow
@pytest.mark.parametrize("features", ["rff:20", "rm2"])
def test_a_map_fills_by_the_mean_of_its_warm_up(features):
    events, labels = films(400, gone=0.2)
    model = BalancedRidgeClassifier(absent="missing", feature_map=features)
    for x, y in zip(events, labels, strict=True):
        model.learn_one(x, y)
    fixed = model._state.fixed
    seen = [x["year"] for x in events[:256] if "year" in x]
    np.testing.assert_allclose(fixed.mean[0], np.mean(seen), rtol=1e-12)
    lacking, filled = {"rating": 0.5}, {"rating": 0.5, "year": float(np.mean(seen))}
    rows = [model._row(x) for x in (lacking, filled)]
    rows[1][2] = 1.0  # the indicator
    np.testing.assert_allclose(*(fixed.transform(row[None]) for row in rows), atol=1e-12)


@pytest.mark.parametrize("features", [None, "rff:20"])
@pytest.mark.parametrize("rows", [0, 60, 300])
@pytest.mark.slow
def test_a_file_keeps_what_is_missing(tmp_path, features, rows):
    """The map is fixed or not, before and after the first missing value; a feature comes late."""
    events, labels = films(310, gone=0.2)
    events[50:] = [{**x, "late": float(i)} for i, x in enumerate(events[50:])]
    whole = [{"year": 2000.0, "rating": 1.0}, {"year": 2010.0, "rating": 0.0}] * 3
    model = BalancedRidgeClassifier(absent="missing", feature_map=features)
    for x, y in zip(whole + events[:rows], [True, False] * 3 + labels[:rows], strict=True):
        model.learn_one(x, y)
    model.save(tmp_path / "m")
    again = BalancedRidgeClassifier.load(tmp_path / "m")
    assert again.absent == "missing"
    for x, y in zip(events[rows:], labels[rows:], strict=True):
        model.learn_one(x, y)
        again.learn_one(x, y)
    assert again.predict_proba_one({"rating": 0.5}) == model.predict_proba_one({"rating": 0.5})
    again.save(tmp_path / "n")
    model.save(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()
    with pytest.raises(ModelFileError, match=r"without some features; use counterpoise\.river"):
        counterpoise.BalancedRidgeClassifier.load(tmp_path / "m")
    with pytest.raises(ValueError, match="absent='missing' cannot be merged"):
        model.merge(again)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"pooled_rows": 20.0}, {"feature_map": "rff:20"}], ids=str)
def test_reasons_add_up_by_feature(options):
    events, labels = films(300, gone=0.2)
    events[40:] = [{**x, "late": float(i % 7)} for i, x in enumerate(events[40:])]
    model = BalancedRidgeClassifier(absent="missing", **options)
    for x, y in zip(events, labels, strict=True):
        model.learn_one(x, y)
    totals, scores = [], []
    for x in events[:40]:
        reasons = model.explain_one(x, True)
        assert set(reasons) == {"year", "rating", "late"}
        totals.append(sum(reasons.values()))
        scores.append(model._scores().of(model._row(x)[None])[0, 0])
    differences = np.subtract(totals, scores)  # the score of the center is the same for all
    np.testing.assert_allclose(np.abs(differences), abs(differences[0]), atol=1e-9)


def test_none_and_nan_are_missing_too():
    """An absent feature, None and NaN give the same model, also in mini-batches."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 3))
    y = (rows[:, 0] + rng.normal(size=200) > 1.0).tolist()
    gone = rng.random(rows.shape) < 0.2
    models = [BalancedRidgeClassifier(absent="missing") for _ in range(4)]
    for x, holes, label in zip(rows.tolist(), gone.tolist(), y, strict=True):
        named = dict(zip("abc", x, strict=True))
        there = {name: v for (name, v), hole in zip(named.items(), holes, strict=True) if not hole}
        for model, nothing in zip(models, (None, float("nan")), strict=False):
            model.learn_one({name: there.get(name, nothing) for name in "abc"}, label)
        models[2].learn_one(there, label)
    frame = pd.DataFrame(np.where(gone, np.nan, rows), columns=list("abc"))
    models[3].learn_many(frame, pd.Series(y))
    last = {"a": 0.3, "b": None, "c": float("nan")}
    expected = models[2].predict_proba_one({"a": 0.3})
    for model in models[:2]:
        assert model.predict_proba_one(last) == model.predict_proba_one({"a": 0.3})
    for model in models:
        assert model.predict_proba_one({"a": 0.3}) == pytest.approx(expected, rel=1e-9)
        assert len(model.predict_many(frame)) == 200


@pytest.mark.parametrize("event", [[1.0, 2.0], None, 3.0, "text", np.ones(2)])
def test_values_that_are_not_events_are_refused(event):
    model = BalancedRidgeClassifier()
    model.learn_one({"a": 1.0}, "ok")
    for call in (lambda: model.learn_one(event, "ok"), lambda: model.predict_one(event)):
        with pytest.raises(TypeError, match="an event must be a dict of features and numbers"):
            call()
    with pytest.raises(ValueError, match="a label is None; drop the event, or learn it when"):
        model.learn_one({"a": 1.0}, None)


@pytest.mark.parametrize(
    "convert",
    [int, bool, np.int64, np.int8, np.uint8, np.bool_, np.float16, np.float32, np.float64],
)
def test_numbers_that_are_not_floats_are_learned_in_the_compiled_loop(monkeypatch, convert):
    rng = np.random.default_rng(5)
    numbers = [int(x) for x in rng.integers(0, 2, 60)]
    other, labels = rng.normal(size=60).tolist(), (rng.random(60) < 0.4).tolist()
    models = [BalancedRidgeClassifier(absent="missing") for _ in range(2)]
    pairs = list(zip(numbers, other, strict=True))
    events = [
        [{"a": kind(x), "b": z} if i % 5 else {"b": z} for i, (x, z) in enumerate(pairs)]
        for kind in (convert, float)
    ]
    slow = []
    learn_rows, scores = BalancedRidgeClassifier._learn_rows, BalancedRidgeClassifier._scores
    monkeypatch.setattr(
        BalancedRidgeClassifier, "_learn_rows", lambda *args: slow.append(1) or learn_rows(*args)
    )
    for i, label in enumerate(labels):
        if i == 20:  # by then both labels, and both features with and without a value, occurred
            slow.clear()
            monkeypatch.setattr(
                BalancedRidgeClassifier,
                "_scores",
                lambda *args, **options: slow.append(1) or scores(*args, **options),
            )
        found = []
        for model, own in zip(models, events, strict=True):
            model.learn_one(own[i], label)
            found.append((model.predict_one(own[i]), model.predict_proba_one(own[i])))
        assert found[0] == found[1]
    assert slow == []
    with pytest.raises(ValueError, match="feature 'a' is 'x', not a number"):
        models[0].learn_one({"a": "x", "b": 0.0}, True)
    with pytest.raises(ValueError, match="beyond 1e"):
        models[0].learn_one({"a": 10**150, "b": 0.0}, True)
    assert slow == []
