"""The averaging model: it uses no later rows, and its best candidate is an exact model."""

import copy
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from builders import (
    assert_close,
    assert_same_model,
    data_set,
    make_product_classes,
    model_bytes,
    stream,
)
from paper.protocol import evaluate_fold, fold

from counterpoise import (
    AutoClassifier,
    BalancedRidgeClassifier,
    CostSensitiveClassifier,
    TableClassifier,
)
from counterpoise.engine.parameters import CANDIDATES, LINEAR, RIDGES
from counterpoise.engine.ranking import MIN_ROWS, Sample, leave_one_out_scores
from counterpoise.engine.state import State
from counterpoise.errors import ModelFileError
from counterpoise.estimators.base import wrap
from counterpoise.feature_maps import WARMUP, fit_map
from counterpoise.modelfile.container import from_bytes
from counterpoise.solver.options import Options
from counterpoise.solver.scores import solve_scores

SMALL_OPTIONS = {
    "candidates": (LINEAR, "interactions", "rff:20"),
    "ridges": (10.0, 1.0, 0.1),
}


def chooser(**options):
    return AutoClassifier(**{**SMALL_OPTIONS, **options})


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 7, 64, 300])
@pytest.mark.parametrize("classes", [2, 3])
def test_chunks_do_not_matter(size, classes):
    X, y = stream(700, d=3, classes=classes, minority=0.2)
    X, y = (X[:300], y[:300]) if size == 1 else (X, y)
    whole, one = chooser().partial_fit(X, y), chooser()
    for at in range(0, len(y), size):
        one.partial_fit(X[at : at + size], y[at : at + size])
    assert one.best_.feature_map == whole.best_.feature_map
    assert one.best_.ridge == whole.best_.ridge
    assert_same_model(one.best_, whole.best_)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* far from the first")
def test_what_comes_later_changes_no_score():
    X, y = make_product_classes()
    scores = chooser().progressive_scores(X, y)
    other_X, other_y = X.copy(), y.copy()
    other_X[400:] *= 100.0
    other_y[400:] = 1 - y[400:]
    again = chooser().progressive_scores(other_X, other_y)
    np.testing.assert_array_equal(scores[:400], again[:400])
    # At the row itself the label is not known yet: only its features count.
    other_y = y.copy()
    other_y[400] = 1 - y[400]
    np.testing.assert_array_equal(scores[:401], chooser().progressive_scores(X, other_y)[:401])


@pytest.mark.slow
def test_progressive_scores_learn_what_partial_fit_learns():
    X, y = make_product_classes()
    one = chooser()
    one.progressive_scores(X, y)
    whole = chooser().partial_fit(X, y)
    # Rows are learned in other chunks: rounding differs.
    assert_close(one.decision_function(X), whole.decision_function(X), 1e-9)


def test_the_choice_is_an_exact_model_of_all_rows():
    X, y = make_product_classes()
    one = chooser().partial_fit(X, y)
    found = one.best_
    assert found.feature_map is not None
    refitted = BalancedRidgeClassifier(
        feature_map=fit_map(found.feature_map, X[:WARMUP]), ridge=found.ridge
    ).fit(X, y)
    assert_same_model(found, refitted)
    assert_close(found.decision_function(X), refitted.decision_function(X))
    half = BalancedRidgeClassifier(feature_map=found.feature_map_, ridge=found.ridge)
    both = copy.copy(half).fit(X[:300], y[:300]).merge(copy.copy(half).fit(X[300:], y[300:]))
    assert_same_model(both, refitted)


@pytest.mark.slow
def test_what_is_linear_stays_so_and_what_is_not_does_not():
    X, y = make_product_classes(2000)
    assert chooser().fit(X, y).averaging_weights_[LINEAR] < 1e-3
    rng = np.random.default_rng(0)
    straight = (X[:, 0] + X[:, 1] + 0.1 * rng.standard_normal(2000) > 0).astype(int)
    found = AutoClassifier(candidates=(LINEAR, "rff:40,width=0.1"))
    found.fit(X, straight)
    assert found.averaging_weights_[LINEAR] > 0.999


@pytest.mark.parametrize("classes", [2, 3])
def test_a_path_is_every_ridge_solved_alone(classes):
    X, y = stream(200, d=4, classes=classes, minority=0.2)
    one = BalancedRidgeClassifier(feature_map="rm2").fit(X, y)
    moments = one._engine.state.moments
    ridges = np.array([b for b in RIDGES if b >= 1e-4])
    weight = np.ones(len(y))
    rows = Sample(one._engine.state.terms(X), y, weight, weight, np.full(len(y), -1))
    found = leave_one_out_scores(
        moments, one._engine.state.classes, Options.of(one), ridges, rows
    ).weights
    for j, ridge in enumerate(ridges):
        alone = solve_scores(moments, one._engine.state.classes, Options(ridge=ridge)).solution
        assert_close(found.coef[j], alone.coef, 1e-8)
        assert_close(found.offset[j], alone.offset, 1e-8)


@pytest.mark.slow
def test_costs_decide_which_recall_counts_more():
    X, y = stream(800, d=3, classes=2, minority=0.3)
    cheap, dear = (chooser(class_factors={1: cost}).fit(X, y) for cost in (0.1, 10.0))
    assert (dear.predict(X) == 1).mean() > (cheap.predict(X) == 1).mean()


def test_a_class_that_comes_late_ranks_candidates_from_then_on():
    X, y = stream(600, d=3, classes=3, minority=0.3)
    y[:300] = np.minimum(y[:300], 1)
    one = chooser()
    scores = one.progressive_scores(X, y, classes=[0, 1, 2, 7])
    assert scores.shape == (600, 4)
    assert (scores[20:300, 2:] == -np.inf).all()
    assert (scores[:, 3] == np.where(np.arange(600) < MIN_ROWS, 0.0, -np.inf)).all()
    assert one.classes_.tolist() == [0, 1, 2, 7]
    assert one.predict(X).max() == 2


def test_of_one_class_every_row_is_predicted_and_no_candidate_is_ranked():
    one = chooser().fit(np.zeros((30, 2)), ["ok"] * 30)
    assert set(one.predict(np.ones((3, 2)))) == {"ok"}
    assert one.g_means_ == {LINEAR: {}, "interactions": {}, "rff:20": {}}


def test_only_the_best_candidate_can_unlearn():
    X, y = make_product_classes(50)
    one = chooser(candidates=[LINEAR]).fit(X, y)
    assert not hasattr(one, "unlearn")
    assert not hasattr(CostSensitiveClassifier(one), "unlearn")
    assert one.best_.unlearn(X[:10], y[:10]).class_count_.sum() == 40


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 20, 200, 300, 650])
def test_save_then_load_is_the_identity_and_learning_continues(tmp_path, rows):
    X, y = stream(700, d=3, classes=3, minority=0.2)
    one = chooser(class_factors={2: 3.0}).partial_fit(X[:rows], y[:rows], classes=[0, 1, 2])
    one.predict(X)  # predictions must not change the file
    one.save(tmp_path / "m.safetensors")
    again = AutoClassifier.load(tmp_path / "m.safetensors")
    assert model_bytes(again) == model_bytes(one)
    assert again.get_params() == one.get_params()
    for two in (one, again):
        two.partial_fit(X[rows:], y[rows:])
    assert model_bytes(again) == model_bytes(one)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.options.update(candidates="linear"),
        lambda c: c.options.update(candidates="linear interactions rff:22"),
        lambda c: c.options.update(candidates=7),
        lambda c: c.options.update(ridges="1.0 x 2.0"),
        lambda c: c.options.update(class_factors={"by label": [[0, 2.0]]}),
        lambda c: c.facts.update(rows=299),
        lambda c: c.facts.update(names=["interactions", "linear", "rff:20"]),
        lambda c: c.facts["models"].pop(),
        lambda c: c.facts["models"][1].update(options=c.facts["models"][0]["options"]),
        lambda c: c.facts.update(more=1),
        lambda c: c.arrays.update({"9 C": np.zeros(1)}),
        lambda c: c.arrays.update({"hits": np.zeros(1)}),
    ],
)
def test_a_file_that_cannot_be_is_refused(change):
    X, y = make_product_classes(300)
    contents = from_bytes(model_bytes(chooser().fit(X, y)))
    change(contents)
    with pytest.raises((ModelFileError, ValueError, KeyError, TypeError, AttributeError)):
        AutoClassifier._from_contents(contents)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"candidates": ()}, "one or more maps"),
        ({"candidates": "rm2"}, "one or more maps"),
        ({"candidates": (LINEAR, "cubic")}, "'cubic', which is not a candidate"),
        ({"candidates": ("rm2", "rm2")}, "a candidate twice"),
        ({"ridges": ()}, "finite numbers above 0"),
        ({"ridges": (1.0, -1.0)}, "finite numbers above 0"),
        ({"ridges": (1.0, "x")}, "finite numbers above 0"),
        ({"ridges": (1.0, 1.0)}, "a number twice"),
        ({"class_factors": {0: -1.0}}, "class_factors"),
        ({"half_life": 0.0}, "half_life"),
        ({"memory_limit": 1e3}, "name fewer candidates"),
    ],
)
def test_options_without_meaning_are_refused(options, says):
    with pytest.raises(ValueError, match=says):
        chooser(**options).fit(*make_product_classes(50))


@pytest.mark.parametrize(
    ("X", "y", "says"),
    [
        ([[1.0, np.nan, 2.0]], [1], "feature 1 is NaN at row 0"),
        ([[1.0, 1e200, 2.0]], [1], "beyond 1e"),
        ([[1.0, 2.0]], [1], "features"),
        ([[1.0, 2.0, 3.0]], ["a"], "labels are text"),
        ([[1.0, 2.0, 3.0]], None, "requires y"),
    ],
)
def test_bad_rows_change_nothing(X, y, says):
    one = chooser().fit(*make_product_classes(300))
    before = model_bytes(one)
    with pytest.raises(ValueError, match=says):
        one.partial_fit(np.array(X), y)
    with pytest.raises(ValueError, match=says):
        one.progressive_scores(np.array(X), y)
    assert model_bytes(one) == before


def test_an_interrupt_changes_nothing(monkeypatch):
    X, y = make_product_classes(300)
    one = chooser().fit(X[:100], y[:100])
    before, calls = model_bytes(one), []

    def interrupt(self, *args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return learn(self, *args, **kwargs)

    learn = State.learn
    monkeypatch.setattr(State, "learn", interrupt)
    with pytest.raises(KeyboardInterrupt):
        one.partial_fit(X[100:], y[100:])
    monkeypatch.undo()
    assert model_bytes(one) == before


@pytest.mark.slow
def test_frames_and_sparse_rows():
    X, y = make_product_classes(400)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    one = chooser().fit(frame, y)
    assert one.best_.feature_names_in_.tolist() == ["a", "b", "c"]
    assert_same_model(one.best_, chooser().fit(X, y).best_, 1e-12)
    few = np.where(np.abs(X) > 0.5, X, 0.0)
    assert_same_model(chooser().fit(sp.csr_array(few), y).best_, chooser().fit(few, y).best_, 1e-9)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_stream():
    X, y = make_product_classes(6000)
    one, sizes = chooser(candidates=("interactions", "rff:20")), []
    for at in range(0, 6000, 500):
        one.partial_fit(X[at : at + 500], y[at : at + 500])
        sizes.append(len(model_bytes(one)))
    assert max(sizes[1:]) <= max(sizes[:2])  # the warm-up is over, and candidates may go


def test_the_usual_candidates_are_what_the_documents_say():
    plain = ["linear", "pooled_rows=1000", "pooled_rows=10"]
    landmarks = ["landmarks:150,width=0.7/1.4", "rm2+landmarks:600,width=0.2/0.4/0.8"]
    assert list(CANDIDATES) == [*plain, "ranks", "hinges", "rm2", "hinges+steps:300", *landmarks]
    assert RIDGES[0] == 100.0
    assert RIDGES[-1] == 1e-6
    assert len(RIDGES) == 13


@pytest.mark.slow
def test_it_beats_the_linear_model_where_that_is_known_to_be_poor():
    X, y = data_set("tic-tac-toe")
    one = fold(X, y, 0, 0)
    chosen, linear = (
        evaluate_fold(AutoClassifier(), one),
        evaluate_fold(BalancedRidgeClassifier(), one),
    )
    assert chosen["held-out"] > linear["held-out"] + 0.2
    assert chosen["progressive"] > linear["progressive"] + 0.1


# What a reader found


@pytest.mark.slow
@pytest.mark.parametrize("late", [100, 103, 300])
def test_late_features_and_a_file_in_between(tmp_path, late):
    X, y = make_product_classes(700)
    wide = np.column_stack([X, np.where(np.arange(700) >= late, X[:, 0] ** 2, 0.0)])
    one = chooser().partial_fit(X[:late], y[:late])
    one._engine.add_features(["a", "b", "c", "d"])
    one = wrap(type(one), one._engine)
    one.partial_fit(wide[late : late + 3], y[late : late + 3])
    one.save(tmp_path / "m.safetensors")
    again = AutoClassifier.load(tmp_path / "m.safetensors")
    assert model_bytes(again) == model_bytes(one)
    scores = [m.progressive_scores(wide[late + 3 :], y[late + 3 :]) for m in (one, again)]
    np.testing.assert_array_equal(*scores)
    assert model_bytes(again) == model_bytes(one)


@pytest.mark.parametrize(
    "change",
    [
        {"candidates": (LINEAR,)},
        {"ridges": (1.0,)},
        {"ridges": (3.0, 2.0, 1.0)},
        {"kept_rows": 9},
        {"class_factors": {0: 2.0}},
        {"half_life": 9.0},
    ],
)
def test_what_decides_the_choice_cannot_change_on_the_way(change):
    X, y = make_product_classes(300)
    one = chooser().fit(X, y).set_params(**change)
    for act in (
        lambda: one.partial_fit(X, y),
        lambda: one.predict(X),
        lambda: one.best_,
        lambda: one.g_means_,
        lambda: model_bytes(one),
        lambda: one.merge(one),
        lambda: one.predict_one(X[0]),
    ):
        with pytest.raises(ValueError, match="cannot change after rows were learned"):
            act()


def test_a_limit_may_change_on_the_way(tmp_path):
    X, y = make_product_classes(300)
    one = chooser().fit(X, y).set_params(memory_limit=3e9).partial_fit(X, y)
    one.save(tmp_path / "m.safetensors")
    again = AutoClassifier.load(tmp_path / "m.safetensors")
    assert again.set_params(memory_limit=1e9).partial_fit(X, y).memory_limit == 1e9


def test_arrays_of_candidates_and_who_answers_first():
    X, y = make_product_classes(300)
    one = AutoClassifier(candidates=np.array(["rm2", LINEAR])).fit(X[:5], y[:5])
    assert one.best_.feature_map is None
    fixed_one = fit_map("rff:20", X)
    one = chooser(candidates=(LINEAR, fixed_one)).fit(X, y)
    again = AutoClassifier._from_contents(from_bytes(model_bytes(one)))
    assert again.candidates == (LINEAR, fixed_one)
    assert model_bytes(again.partial_fit(X, y)) == model_bytes(one.partial_fit(X, y))


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.arrays["2 map drawn"].fill(1e300),
    ],
)
def test_a_file_that_would_crash_later_is_refused(change):
    X, y = make_product_classes(300)
    contents = from_bytes(model_bytes(chooser().fit(X, y)))
    change(contents)
    with pytest.raises(ModelFileError):
        AutoClassifier._from_contents(contents)


def test_scores_of_what_are_no_rows():
    for X, y, says in ((5, [1], "2D array"), ([[1.0]] * 3, [1, "a", None], "str|None|type")):
        with pytest.raises((ValueError, TypeError), match=says):
            chooser().progressive_scores(X, y)


@pytest.mark.slow
def test_one_row_and_a_second_prediction_take_few_calls():
    X, y = make_product_classes(1400)  # the maps are fixed by 1,200
    one = AutoClassifier().fit(X[:1300], y[:1300])
    one.partial_fit(X[1300:1301], y[1300:1301])
    calls = []

    def count(frame, event, argument):
        if event == "call":
            calls.append(frame)

    sys.setprofile(count)
    one.partial_fit(X[1301:1302], y[1301:1302])
    sys.setprofile(None)
    assert len(calls) <= 200
    expected = one.predict(X[:100])
    calls.clear()
    sys.setprofile(count)
    found = one.predict(X[:100])
    sys.setprofile(None)
    assert len(calls) <= 195
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda: AutoClassifier(candidates=(LINEAR, "pooled_rows=10", "rm2")),
        lambda: BalancedRidgeClassifier(ridge="gcv"),
    ],
)
def test_two_threads_may_look_at_one_model(make):
    X, y = make_product_classes(700)
    one = make().fit(X, y)
    expected = one.predict_proba(X)
    before = model_bytes(one)
    one = type(one)._from_contents(from_bytes(before))  # nothing is solved yet
    with ThreadPoolExecutor(4) as pool:
        looks = [pool.submit(one.predict_proba, X) for _ in range(12)]
        looks += [pool.submit(model_bytes, one) for _ in range(4)]
        for look in looks[:12]:
            np.testing.assert_array_equal(look.result(), expected)
        for look in looks[12:]:
            assert look.result() == before
    assert model_bytes(one) == before


@pytest.mark.slow
@pytest.mark.parametrize("before", [0, 300])
def test_classes_can_be_declared_without_a_row(before):
    X, y = make_product_classes(600)
    chosen = chooser()
    if before:
        chosen.partial_fit(X[:before], y[:before])
    chosen.partial_fit(X[:0], y[:0], classes=[0, 1, 2])
    assert chosen.classes_.tolist() == [0, 1, 2]
    chosen.partial_fit(X[:0], y[:0], classes=[3])
    assert chosen.classes_.tolist() == [0, 1, 2, 3]
    assert chosen.__sklearn_is_fitted__() == bool(before)
    assert chosen.partial_fit(X[:0], y[:0]).classes_.tolist() == [0, 1, 2, 3]
    chosen.partial_fit(X[before:], y[before:])
    at_once = chooser().partial_fit(X, y, classes=[0, 1, 2, 3])
    assert chosen.classes_.tolist() == at_once.classes_.tolist()
    np.testing.assert_allclose(chosen.predict_proba(X), at_once.predict_proba(X), rtol=1e-9)
    with pytest.raises(ValueError, match="text"):
        chooser().partial_fit(X[:0], y[:0], classes=[0, 1]).partial_fit(X, y.astype(str))


@pytest.mark.slow
def test_fit_of_a_table_does_not_depend_on_the_order_of_the_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 3))
    y = X[:, 0] ** 2 + X[:, 1] + 0.7 * rng.standard_normal(1500) > 1.8
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    found = []
    for order in (np.arange(1500), np.argsort(X[:, 0])):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = TableClassifier(AutoClassifier()).fit(frame.iloc[order], y[order])
        found.append(model.predict_proba(frame))
    np.testing.assert_allclose(*found, atol=1e-12)
