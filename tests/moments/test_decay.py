"""Half-lives by the clock and by class: weights by age, independent of order, chunks, interface."""

import datetime

import numpy as np
import pytest
from builders import assert_same_answers

from counterpoise import AutoClassifier, BalancedRidgeClassifier
from counterpoise.moments.decay import NO_DECAY, Decay, parse_time_span

DAY = 86_400.0
ROUNDING = 1e-10  # relative: what any order, chunking or partitioning keeps
OPTIONS = [
    {},
    {"class_weight": None},
    {"ridge": 0.1},
    {"pooled_rows": 5.0},
    {"ridge": "gcv"},
    {"feature_map": "poly2"},
]


def payments(n=350, seed=0, classes=2):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.2).astype(int) + (classes > 2) * (rng.random(n) < 0.2)
    X = rng.standard_normal((n, 4)) + 0.6 * y[:, None] + 3.0
    return X, y, rng.uniform(0.5, 2.0, n), 1.7e9 + np.sort(rng.uniform(0.0, 40.0 * DAY, n))


def pieces(n, seed=1):
    order, at = np.random.default_rng(seed).permutation(n), 0
    for size in (1, 1, 60, 7, n):
        yield order[at : at + size]
        at += size


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_row_has_the_weight_of_its_age_in_any_order(options, classes):
    X, y, w, t = payments(classes=classes)
    if "feature_map" in options:  # fixed by the same first rows, whatever comes after
        first = BalancedRidgeClassifier(**options).fit(X, y)
        options = {"feature_map": first.feature_map_}
    wanted = BalancedRidgeClassifier(**options).fit(X, y, w * 2.0 ** ((t - t.max()) / (6 * DAY)))
    chunks = BalancedRidgeClassifier(half_life="6d", **options)
    for at in pieces(len(y)):
        chunks.partial_fit(X[at], y[at], sample_weight=w[at], t=t[at])
    single = BalancedRidgeClassifier(half_life="144h", **options)
    for i in np.random.default_rng(2).permutation(len(y)):
        single.learn_one(X[i], y[i], w[i], t=t[i])
        if i % 50 == 0:  # scoring changes nothing
            single.predict_one(X[i])
    early, late = (
        BalancedRidgeClassifier(half_life="6d", **options).fit(X[at], y[at], w[at], t=t[at])
        for at in (np.arange(100), np.arange(100, len(y)))
    )
    for model in (chunks, single, early.merge(late), late.merge(early)):
        assert_same_answers(model, wanted, X, ROUNDING)
    assert np.allclose(
        single.predict_stream_proba_one(X[0]), wanted.predict_stream_proba(X[:1])[0], rtol=ROUNDING
    )
    assert np.allclose(chunks.class_count_, wanted.class_count_, rtol=ROUNDING)


def test_a_map_in_warm_up_keeps_times_with_the_rows(tmp_path):
    X, y, w, t = payments(200)
    whole = BalancedRidgeClassifier(half_life="6d", feature_map="poly2").fit(X, y, w, t=t)
    parts = BalancedRidgeClassifier(half_life="6d", feature_map="poly2")
    for at in (slice(0, 90), slice(90, 91), slice(91, 200)):
        parts.partial_fit(X[at], y[at], sample_weight=w[at], t=t[at]).save(tmp_path / "m")
        parts = BalancedRidgeClassifier.load(tmp_path / "m")
    assert_same_answers(parts, whole, X, ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0, 7])
def test_progressive_scores_by_the_clock_equal_those_of_a_refit(delay):
    X, y, _, t = payments(60)
    t = np.random.default_rng(3).permutation(t)  # late rows too
    model = BalancedRidgeClassifier(half_life="6d")
    scores = model.progressive_scores(X, y, delay=delay, t=t)
    for i in range(delay + 2, len(y)):
        past = slice(0, i - delay)
        if len(set(y[past].tolist())) == 2:
            refit = BalancedRidgeClassifier(half_life="6d").fit(X[past], y[past], t=t[past])
            assert abs(scores[i] - refit.decision_function(X[[i]])[0]) <= 1e-9
    assert_same_answers(model, BalancedRidgeClassifier(half_life="6d").fit(X, y, t=t), X, ROUNDING)


def test_a_loaded_model_continues_to_decay_by_the_clock(tmp_path):
    X, y, w, t = payments()
    model = BalancedRidgeClassifier(half_life="6d").fit(X[:200], y[:200], w[:200], t=t[:200])
    model.save(tmp_path / "m")
    loaded = BalancedRidgeClassifier.load(tmp_path / "m")
    assert loaded.half_life == "6d"
    assert np.array_equal(loaded.decision_function(X), model.decision_function(X))
    for one in (model, loaded):
        one.partial_fit(X[200:], y[200:], sample_weight=w[200:], t=t[200:])
    assert np.array_equal(loaded.coef_, model.coef_)


def test_times_may_be_dates_of_any_kind():
    X, y, _, t = payments(40)
    t = np.round(t)
    zone = datetime.timezone(datetime.timedelta(hours=2))
    wanted = BalancedRidgeClassifier(half_life="6d").fit(X, y, t=t)
    for given in (
        t.astype("datetime64[s]"),
        [str(one) for one in t.astype("datetime64[s]")],
        [datetime.datetime.fromtimestamp(one, zone) for one in t.tolist()],
        [datetime.datetime.fromtimestamp(one, datetime.UTC).replace(tzinfo=None) for one in t],
    ):
        assert_same_answers(
            BalancedRidgeClassifier(half_life="6d").fit(X, y, t=given), wanted, X, ROUNDING
        )


def test_a_class_of_very_old_rows_decays_to_zero():
    X, y, _, _ = payments(60)
    model = BalancedRidgeClassifier(half_life="1s").fit(X, y, t=np.zeros(len(y)))
    model.partial_fit(X[y == 0], y[y == 0], t=np.full((y == 0).sum(), 500.0))
    assert model.class_count_[1] > 0
    for face in ("batch", "single"):
        gone = BalancedRidgeClassifier(half_life="1s").fit(X, y, t=np.zeros(len(y)))
        if face == "batch":
            gone.partial_fit(X[y == 0], y[y == 0], t=np.full((y == 0).sum(), 700.0))
        else:
            with pytest.warns(UserWarning, match="no longer count"):
                gone.learn_one(X[y == 0][0], 0, t=700.0)
            for x in X[y == 0][1:]:
                gone.learn_one(x, 0, t=700.0)
        fresh = BalancedRidgeClassifier(half_life="1s").fit(X[y == 0], y[y == 0], t=700.0)
        assert gone.classes_.tolist() == [0]
        assert set(gone.predict(X).tolist()) == {0}
        gone.partial_fit(X[y == 1], y[y == 1], t=700.0)
        fresh.partial_fit(X[y == 1], y[y == 1], t=700.0)
        assert_same_answers(gone, fresh, X, ROUNDING)


def test_one_time_far_in_the_future_warns():
    X, y, _, _ = payments(60)
    t = np.arange(60.0)
    t[17] = 1e9
    with pytest.warns(UserWarning, match="the latest row is of 2001-09-09 01:46:40"):
        BalancedRidgeClassifier(half_life="1h").fit(X, y, t=t)
    model = BalancedRidgeClassifier(half_life="1h").fit(X, y, t=np.arange(60.0))
    with pytest.warns(UserWarning, match="no longer count"):
        model.partial_fit(X[:1], y[:1], t=1e9)


@pytest.mark.parametrize("half_life", [{0: 40.0, 1: 9.0}, {1: 9.0}], ids=str)
@pytest.mark.parametrize("d", [4, 60])
def test_decay_by_class_counts_the_rows_of_each_class(half_life, d, tmp_path):
    rng = np.random.default_rng(5)
    y = (rng.random(400) < 0.25).astype(int)
    X = rng.standard_normal((400, d)) + 0.5 * y[:, None]
    model = BalancedRidgeClassifier(half_life=half_life, scale=None).fit(X, y)
    weight = np.ones(400)
    for k, life in half_life.items():
        later = np.cumsum((y == k)[::-1])[::-1] - 1
        weight[y == k] = 2.0 ** (-later[y == k] / life)
    wanted = BalancedRidgeClassifier(scale=None).fit(X, y, weight)
    assert np.allclose(model.coef_, wanted.coef_, rtol=ROUNDING, atol=1e-13)
    assert np.allclose(model.moments_.counts, wanted.moments_.counts, rtol=ROUNDING)
    params = {"half_life": half_life, "class_weight": None}
    whole = BalancedRidgeClassifier(**params).fit(X, y)
    chunks, single = BalancedRidgeClassifier(**params), BalancedRidgeClassifier(**params)
    for at in (slice(0, 3), slice(3, 150), slice(150, 400)):
        chunks.partial_fit(X[at], y[at])
    for x, label in zip(X, y, strict=True):
        single.learn_one(x, label)
    first, rest = (
        BalancedRidgeClassifier(**params).fit(X[at], y[at])
        for at in (slice(0, 200), slice(200, 400))
    )
    stepwise = BalancedRidgeClassifier(**params)
    scores = stepwise.progressive_scores(X, y)
    whole.save(tmp_path / "m")
    loaded = BalancedRidgeClassifier.load(tmp_path / "m")
    assert loaded.half_life == half_life
    for other in (chunks, single, first.merge(rest), stepwise, loaded):
        assert_same_answers(other, whole, X, ROUNDING)
    for i in (150, 399):
        refit = BalancedRidgeClassifier(**params).fit(X[:i], y[:i])
        assert abs(scores[i] - refit.decision_function(X[[i]])[0]) <= 1e-8


def test_equal_half_lives_of_all_classes_are_one_half_life():
    X, y, w, _ = payments()
    both = BalancedRidgeClassifier(half_life={0: 30.0, 1: 30.0}).fit(X, y, w)
    one = BalancedRidgeClassifier(half_life=30.0).fit(X, y, w)
    assert np.array_equal(both.coef_, one.coef_)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("7d", 7 * DAY), ("90min", 5400.0), ("2 weeks", 14 * DAY), ("1.5h", 5400.0), ("30s", 30.0)],
)
def test_units_of_half_lives_are_parsed(text, expected):
    assert parse_time_span(text) == expected


@pytest.mark.parametrize(
    "half_life", ["7", "soon", "-1d", "0d", "1e999d", "3m", {0: 0.0}, {0: "7d"}]
)
def test_invalid_half_lives_are_refused(half_life):
    X, y, _, t = payments(20)
    with pytest.raises(ValueError, match="half_life"):
        BalancedRidgeClassifier(half_life=half_life).fit(X, y, t=t)


@pytest.mark.parametrize(
    ("t", "message"),
    [
        (None, "requires the time of each row; pass t="),
        (np.zeros(3), "one time for each row"),
        (np.r_[np.zeros(19), np.nan], "t is missing at row 19"),
        (np.full(20, 1.7e12), "divide milliseconds by 1000"),
        (["2024-01-01"] * 19 + ["soon"], "not a date or time"),
        (np.zeros(20, dtype=bool), "t contains bool values"),
    ],
)
def test_invalid_times_do_not_change_the_model(t, message):
    X, y, _, good = payments(20)
    model = BalancedRidgeClassifier(half_life="7d").fit(X, y, t=good)
    before = model.coef_
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, y, t=t)
    assert np.array_equal(model.coef_, before)


def test_models_that_cannot_decay_by_the_clock_raise():
    X, y, _, t = payments(20)
    with pytest.raises(ValueError, match="must be a number of rows"):
        AutoClassifier(half_life="7d").fit(X, y)
    with pytest.raises(ValueError, match="with a half-life cannot unlearn"):
        BalancedRidgeClassifier(half_life="7d").fit(X, y, t=t).unlearn(X, y)
    with pytest.raises(ValueError, match="different options: half_life"):
        BalancedRidgeClassifier(half_life="7d").fit(X, y, t=t).merge(
            BalancedRidgeClassifier(half_life="8d").fit(X, y, t=t)
        )


def test_half_lives_are_parsed_once():
    assert Decay.parse(None) is NO_DECAY
    assert not NO_DECAY.is_active
    assert Decay.parse("7d") == Decay.parse("168 hours") == Decay(seconds=604_800.0)
    assert Decay.parse(np.int64(5)) == Decay(rows=5.0)
    by_label = {"a": 4.0}
    decay = Decay.parse(by_label)
    by_label["a"] = 9.0  # the parsed value does not change
    labels = np.array(["a", "b"])
    np.testing.assert_array_equal(decay.rows_per_class(labels), [4.0, np.inf])
    np.testing.assert_array_equal(decay.row_factors(labels, np.array([8.0, 3.0])), [0.25, 1.0])
    for wrong in ("soon", "0d", 0.0, -3, True, {"a": 0.0}):
        with pytest.raises(ValueError, match="half_life"):
            Decay.parse(wrong)
