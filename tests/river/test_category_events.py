"""Single events with one column of many categories: after every event the scores of a refit."""

import copy

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.engine.state import State
from counterpoise.errors import DataError
from counterpoise.river import BalancedRidgeClassifier

# Scores differ by the truncated terms of the series, 1e-14 of second moments, times the condition.
TOLERANCE = 1e-9
OPTIONS = [
    {},
    {"scale": None, "ridge": 0.3},
    {"penalize_intercept": False},
    {"fit_intercept": False},
    {"class_weight": None},
    {"class_weight": {"fraud": 20.0}},
    {"class_factors": {"fraud": 3.0}},
]


def payments(rows, categories=12, features=3, minority=0.3, seed=0):
    """Events with numbers and a shop that is sometimes missing, and their labels."""
    rng = np.random.default_rng(seed)
    is_fraud = rng.random(rows) < minority
    is_fraud[:2] = False, True
    shop = (categories * rng.random(rows) ** 2).astype(int)
    X = rng.standard_normal((rows, features)) + is_fraud[:, None] + 0.1 * shop[:, None]
    X = 50.0 * X + 1e4 * np.arange(features)
    events = []
    for row, at in zip(X.tolist(), shop.tolist(), strict=True):
        events.append({f"f{j}": value for j, value in enumerate(row)})
        if at % 9:
            events[-1]["shop"] = f"shop {at}"
    return events, ["fraud" if one else "fine" for one in is_fraud.tolist()]


def start(role="many:7", **options):
    return BalancedRidgeClassifier(columns={"shop": role}, **options)


def learn(model, events, labels, weights=None):
    weights = [1.0] * len(events) if weights is None else weights
    for x, y, w in zip(events, labels, weights, strict=True):
        model.learn_one(x, y, w=w)
    return model


def refit(model, events, labels, weights=None):
    """A model with the same parameters of the same events, learned together."""
    new = model.clone()
    new.learn_many(pd.DataFrame(events), labels, w=1.0 if weights is None else np.array(weights))
    return new


def scores(model, events):
    """Scores of the second class by the compiled model; it must be possible."""
    found = [model._open.events.scores(x) for x in events]
    assert None not in found
    sign = 1.0 if model._open.labels[1] == "fraud" else -1.0
    return sign * np.array(found)[:, 0]


def batch_scores(model, events):
    solved = model._scores()
    f = solved.of(np.concatenate([model._row(x)[None] for x in events]))[:, 0]
    return f if solved.classes.labels[1] == "fraud" else -f


def fraud_probabilities(model, events, stream):
    """Probabilities of the compiled model; None where it has none."""
    found = [model._open.events.probabilities(x, stream) for x in events]
    return None if None in found else np.array(found)[:, model._open.labels.index("fraud")]


def batch_probabilities(model, events, stream):
    solved = model._scores(link=True)
    f = solved.of(np.concatenate([model._row(x)[None] for x in events]))
    return solved.probabilities(f, stream)[:, solved.classes.labels.tolist().index("fraud")]


def assert_as_refitted(model, events, labels, probes, weights=None):
    new = refit(model, events, labels, weights)
    expected = batch_scores(new, probes)
    found = scores(model, probes)
    assert np.abs(found - expected).max() <= TOLERANCE * max(np.abs(expected).max(), 1.0)
    assert np.abs(found - batch_scores(model, probes)).max() <= TOLERANCE
    for stream in (False, True):
        p = fraud_probabilities(model, probes, stream)
        assert (p is None) == (model.class_factors is not None or type(model.class_weight) is dict)
        if p is not None:
            assert np.abs(p - batch_probabilities(new, probes, stream)).max() <= TOLERANCE


NEW = [{"f0": 3.0, "shop": "never seen"}, {"shop": "shop 3"}, {}, {"unknown": 1.0, "shop": None}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_scores_after_every_event_are_those_of_a_refit(options):
    events, labels = payments(60)
    model = learn(start(**options), events[:8], labels[:8])
    for i in range(8, 60):
        if i % 13 == 0 or i == 8:
            assert_as_refitted(model, events[:i], labels[:i], [*events[i:], *NEW])
        else:
            scores(model, events[i : i + 1])
        model.learn_one(events[i], labels[i])


CHANGES = ["learn"] * 6 + ["weigh", "unlearn", "merge", "copy", "predict"]


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(OPTIONS),
    st.integers(1, 40),
    st.integers(1, 6),
    st.sampled_from([0.1, 0.5]),
    st.integers(0, 999),
)
def test_any_sequence_of_changes_gives_the_model_of_the_events_left(
    options, categories, features, minority, seed
):
    rng = np.random.default_rng(seed)
    events, labels = payments(90, categories, features, minority, seed)
    model = learn(start(**options), events[:6], labels[:6])
    left = [(x, y, 1.0) for x, y in zip(events[:6], labels[:6], strict=True)]
    for x, y in zip(events[6:80], labels[6:80], strict=True):
        what = rng.choice(CHANGES)
        if what in ("learn", "weigh"):
            w = 1.0 if what == "learn" else float(rng.choice([0.0, 0.25, 2.0, 40.0]))
            model.learn_one(x, y, w=w)
            left += [(x, y, w)] if w else []
        elif what == "unlearn" and len(left) > 10:
            model.unlearn_one(*left.pop(int(rng.integers(6, len(left)))))
        elif what == "merge":
            model = model.merge(learn(model.clone(), [x], [y]))
            left.append((x, y, 1.0))
        elif what == "copy":
            model = copy.deepcopy(model)
        else:
            model.predict_one(x)
    xs, ys, weights = zip(*left, strict=True)
    if model._open is not None and set(ys) == {"fine", "fraud"}:
        assert_as_refitted(model, list(xs), list(ys), events[80:], weights)


@pytest.mark.slow
@pytest.mark.parametrize("minority", [0.02, 0.5])
@pytest.mark.parametrize("every", [1, 50])
def test_long_streams_stay_at_the_solution_and_sum_all_categories_rarely(minority, every):
    events, labels = payments(6_000, 300, 5, minority)
    model = learn(start(), events[:50], labels[:50])
    for i in range(50, 6_000):
        if i % every == 0:
            model.predict_proba_one(events[i])
        model.learn_one(events[i], labels[i])
        if i % 500 == 0:
            assert np.abs(scores(model, NEW) - batch_scores(model, NEW)).max() <= TOLERANCE
            p = fraud_probabilities(model, NEW, True)
            assert np.abs(p - batch_probabilities(model, NEW, True)).max() <= TOLERANCE
    assert_as_refitted(model, events, labels, [*events[-50:], *NEW])
    assert model._open.events.categories.refreshes < 300


def test_a_drifting_mean_moves_the_origin_of_the_sums():
    events, labels = payments(200)
    for i, x in enumerate(events):
        x["f0"] += 1e5 * (i > 60)
    model = learn(start(), events[:40], labels[:40])
    for x, y in zip(events[40:], labels[40:], strict=True):
        scores(model, [x])
        model.learn_one(x, y)
    moments = model._state.moments
    assert (moments.categories.origin == moments.anchor).all()
    assert_as_refitted(model, events, labels, [*events[-20:], *NEW])


def test_predictions_need_no_solver_for_batches_and_new_categories_none(monkeypatch):
    events, labels = payments(300, 200)
    model = learn(start(), events[:20], labels[:20])

    def refuse(*args, **kwargs):
        raise AssertionError("a batch")

    monkeypatch.setattr(State, "solve", refuse)
    monkeypatch.setattr(State, "learn", refuse)
    before = model._state.moments.categories.sizes
    for x, y in zip(events[20:], labels[20:], strict=True):
        p = model.predict_proba_one(x)
        assert model.predict_one(x) == max(p, key=p.get)
        assert model.predict_stream_proba_one(x).keys() == {"fine", "fraud"}
        assert "shop" in model.explain_one(x)
        model.learn_one(x, y)
    assert model._state.moments.categories.sizes[0] > 2 * before[0]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_explanations_are_those_of_a_batch(options):
    events, labels = payments(60)
    model = learn(start(**options), events, labels)
    for x in [*events[:3], *NEW[:3]]:
        for label in (None, "fine", "fraud"):
            found = model.explain_one(x, label)
            batch = copy.deepcopy(model)
            batch._open = None
            expected = batch.explain_one(x, label)
            assert list(found) == list(expected)
            assert found == pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE)


def test_a_category_that_was_never_learned_has_the_effect_of_a_missing_one():
    events, labels = payments(80)
    model = learn(start(), events, labels)
    f = scores(model, [{"f1": 5.0}, {"f1": 5.0, "shop": "new"}, {"f1": 5.0, "shop": "shop 1"}])
    assert f[0] == f[1] != f[2]
    assert model._many.vocabularies[0].size == model._state.moments.categories.sizes[0]


def test_a_chosen_ridge_is_shared_by_all_predictions_and_chosen_again():
    events, labels = payments(600, 12, 3, 0.3)
    model = learn(start("many"), events[:60], labels[:60])
    chosen = []
    for x, y in zip(events[60:], labels[60:], strict=True):
        guess = model.predict_one(x)
        rows = model._open.events.categories.valid_rows
        if not chosen or chosen[-1] != rows:
            chosen.append(rows)
            p = model.predict_proba_one(x)
            assert guess == max(p, key=p.get)
            assert model._scores().effects.pseudo_rows.tolist() == [rows]
        model.learn_one(x, y)
    assert len(set(chosen)) > 1
    # A copy has no ridge that was chosen before.
    after = copy.deepcopy(model)
    assert after.predict_one(NEW[0]) is not None
    assert_as_refitted(after, events, labels, NEW)


@pytest.mark.parametrize("options", [{"half_life": 40.0}, {"ridge": "gcv"}, {"calibrate": True}])
def test_what_the_compiled_model_does_not_solve_is_solved_as_batches_are(options):
    events, labels = payments(60)
    model = learn(start(**options), events[:40], labels[:40])
    for x, y in zip(events[40:], labels[40:], strict=True):
        model.predict_one(x)
        model.learn_one(x, y)
    frame = pd.DataFrame(events)
    batch = refit(model, events, labels)
    assert [model.predict_one(x) for x in events] == batch.predict_many(frame).tolist()


def test_a_third_class_and_a_second_column_are_learned_in_batches():
    events, labels = payments(60)
    model = learn(start(), events[:40], labels[:40])
    assert model._open is not None
    model.learn_one(events[40], "unclear")
    assert model._open is None
    learn(model, events[41:], labels[41:])
    everything = [*labels[:40], "unclear", *labels[41:]]
    expected = refit(model, events, everything).predict_many(pd.DataFrame(events))
    assert [model.predict_one(x) for x in events] == expected.tolist()
    two = BalancedRidgeClassifier(columns={"shop": "many:3", "day": "many:3"})
    for i, (x, y) in enumerate(zip(events, labels, strict=True)):
        two.learn_one({**x, "day": i % 7}, y)
    assert two._open is None


def test_a_file_is_loaded_in_the_middle_of_a_stream(tmp_path):
    events, labels = payments(120)
    model = learn(start(), events[:60], labels[:60])
    scores(model, NEW)
    model.save(tmp_path / "m.safetensors")
    loaded = BalancedRidgeClassifier.load(tmp_path / "m.safetensors")
    for one in (model, loaded):
        learn(one, events[60:], labels[60:])
        assert_as_refitted(one, events, labels, NEW)
    assert scores(model, NEW) == pytest.approx(scores(loaded, NEW), rel=1e-12)


def test_predictions_do_not_change_what_is_learned():
    events, labels = payments(200, 60)
    silent, asked = learn(start(), events, labels), start()
    for x, y in zip(events, labels, strict=True):
        asked.predict_one(x)
        asked.learn_one(x, y)
    one, two = (model._state.moments.categories for model in (silent, asked))
    assert one.columns[0].n.tobytes() == two.columns[0].n.tobytes()
    assert one.columns[0].sums.tobytes() == two.columns[0].sums.tobytes()
    assert silent._state.moments.C.tobytes() == asked._state.moments.C.tobytes()


def test_events_that_cannot_be_learned_leave_the_model_as_it_was():
    events, labels = payments(60)
    model = learn(start(), events, labels)
    before = scores(model, NEW)
    with pytest.raises(ValueError, match="f1"):
        model.learn_one({"f1": float("nan"), "shop": "newest"}, "fraud")
    model.memory_limit = 100.0
    with pytest.raises(DataError, match="memory_limit"):
        model.learn_one({"f1": 1.0, "shop": "newest"}, "fraud")
    model.memory_limit = 1e9
    model.learn_one({"f1": 1.0, "shop": "newer"}, "fraud", w=0.0)
    assert scores(model, NEW).tolist() == before.tolist()
    shops = {x["shop"] for x in events if "shop" in x}
    assert set(model._many.vocabularies[0].values) == shops
    learn(model, [{"f1": 1.0, "shop": "newer"}, {"f2": 1.0, "shop": "newest"}], ["fraud", "fine"])
    more = [*events, {"f1": 1.0, "shop": "newer"}, {"f2": 1.0, "shop": "newest"}]
    expected = learn(start(), more, [*labels, "fraud", "fine"])
    probes = [*NEW, {"shop": "newer"}, {"shop": "newest"}]
    assert scores(model, probes) == pytest.approx(scores(expected, probes), rel=TOLERANCE)


@pytest.mark.parametrize("value", [7, 7.0, "7", np.int64(7), np.str_("7")])
def test_a_category_is_its_text(value):
    events, labels = payments(60)
    for i, x in enumerate(events):
        x["shop"] = i % 10
    model = learn(start(), events, labels)
    assert scores(model, [{"f1": 5.0, "shop": value}]) == scores(model, [{"f1": 5.0, "shop": 7}])
    missing = scores(model, [{"shop": None}, {"shop": float("nan")}, {}])
    assert np.ptp(missing) == 0.0
