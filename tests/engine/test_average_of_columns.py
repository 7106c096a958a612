"""Averages with columns of many categories, next to dense one-hot features."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from builders import assert_close

from counterpoise import AutoClassifier, BalancedRidgeClassifier, TableClassifier
from counterpoise.engine.parameters import LINEAR
from counterpoise.engine.ranking import Sample, leave_one_out_scores
from counterpoise.engine.state import Batch, LearningConfig, State
from counterpoise.errors import DataError
from counterpoise.moments.categories import CodeColumns
from counterpoise.moments.classes import group_rows
from counterpoise.solver.categories import row_unit
from counterpoise.solver.options import Options
from counterpoise.solver.ridge import RidgeSystems
from counterpoise.solver.scores import build_problem

SIZES = (20, 7)


def coded_rows(columns, classes, rows=300, seed=0):
    """Rows of 3 numbers, then codes of categories, some of which are missing; labels."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, size + 1, rows) for size in SIZES[:columns]])
    X = rng.normal(size=(rows, 3)) + 0.02 * codes[:, :1]
    f = X @ rng.normal(size=(3, classes)) + rng.normal(size=(21, classes))[codes[:, 0]]
    y = (f + rng.normal(size=f.shape)).argmax(axis=1)
    return np.hstack([X, codes]), y


def state_of(X, y, codes=None):
    state = State.empty(LearningConfig(), X.shape[1] - (0 if codes is None else codes.count))
    return replace(state, codes=codes).learn(Batch(X, y, None, group_rows), 1e9)


def one_hot(X, columns):
    each = [X[:, 3 + b, None] == np.arange(1, SIZES[b] + 1) for b in range(columns)]
    return np.hstack([X[:, :3], *each]).astype(float)


@pytest.mark.parametrize("how", [{}, {"penalize_intercept": False}, {"class_weight": None}])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("columns", [1, 2])
def test_leave_one_out_scores_are_those_of_dense_features(columns, classes, how):
    X, y = coded_rows(columns, classes)
    options = Options(scale=None, **how)
    state, dense = state_of(X, y, CodeColumns((3.0,) * columns)), state_of(one_hot(X, columns), y)
    problem = build_problem(state.moments, state.classes, options)
    systems = problem if isinstance(problem, RidgeSystems) else problem.against_rest()
    b = np.array([3.0 * row_unit(systems)])  # the ridge of the columns, too
    rows, weight = slice(0, 300, 7), np.where(np.arange(43) % 2, 1.0, 0.4)
    features, index = state.codes.split(X[rows])
    own = np.where(np.arange(43) % 3, -1, 1)  # a third of the rows is without feature 1
    ours, theirs = (
        leave_one_out_scores(one.moments, one.classes, options, b, sample, one.codes)
        for one, sample in (
            (state, Sample(features, y[rows], weight, weight, own, index)),
            (dense, Sample(one_hot(X[rows], columns), y[rows], weight, weight, own)),
        )
    )
    found, wanted = ours.scores, theirs.scores
    if classes > 2:  # what all classes share decides nothing
        found, wanted = (f - f.mean(axis=2, keepdims=True) for f in (found, wanted))
    assert_close(found, wanted, 1e-9)
    assert_close(ours.rms, theirs.rms, 1e-9)
    assert_close(ours.leverage, theirs.leverage, 1e-9)
    model, expected = ours.weights, theirs.weights
    assert_close(model.coef, expected.coef[..., :3], 1e-9)
    assert_close(model.effects, np.moveaxis(expected.coef[..., 3:], 1, 2), 1e-9)


def frame_of(X, y, columns=2, prefix="c"):
    """Data frame of coded rows; a missing category has a text of its own."""
    frame = pd.DataFrame(X[:, :3], columns=["x", "y", "z"])
    for b in range(columns):
        frame[f"m{b}"] = [f"{prefix} {int(code)}" for code in X[:, 3 + b]]
    return frame.assign(label=np.array(["no", "yes", "third"])[y])


ROLES = {"m0": "many", "m1": "many:4"}
SOME = {"candidates": (LINEAR, "pooled_rows=10", "rm2", "landmarks:20"), "ridges": (10.0, 1.0, 0.1)}


def table(columns=ROLES, **options):
    return TableClassifier(AutoClassifier(**{**SOME, **options}), columns=columns, label="label")


@pytest.mark.parametrize("classes", [2, 3])
def test_the_average_is_that_of_models_with_the_same_ridges(classes):
    X, y = coded_rows(2, classes, 1500)
    frame = frame_of(X, y)
    model = table().partial_fit(frame)
    engine = model._model.model
    ranking = engine.candidates.ranking
    assert ranking.names == [LINEAR, "rm2", "landmarks:20"]
    chosen = ranking.columns.pseudo_rows
    assert chosen[1] == 4.0
    fixed = {name: one.fixed for name, one in engine.candidates.states.items()}
    total, roles = 0.0, {"m0": f"many:{chosen[0]:g}", "m1": "many:4"}
    for name, weights, solved in zip(
        ranking.names, ranking.averaging_weights, ranking.models, strict=True
    ):
        for j, ridge in enumerate(SOME["ridges"]):
            one = BalancedRidgeClassifier(feature_map=fixed[name], ridge=ridge)
            alone = TableClassifier(one, columns=roles, label="label").partial_fit(frame)
            f = alone.decision_function(frame)
            total = total + weights[j] / solved.rms[j] * f
    i, j = ranking.best
    total = total * ranking.models[i].rms[j]
    found = model.decision_function(frame)
    if classes > 2:
        found, total = (f - f.mean(axis=1, keepdims=True) for f in (found, total))
    # %g of the chosen ridge has six digits; by decompositions here and by elimination there.
    assert_close(found, total, 1e-6)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("options", [{}, {"calibrate": True}, {"half_life": 300.0}], ids=str)
def test_files_continue_bit_identically_and_predict_as_before(options, classes, tmp_path):
    X, y = coded_rows(2, classes, 3000)
    frame = frame_of(X, y)
    late = frame.assign(m0=frame["m0"] + " late")
    model = table(**options).partial_fit(frame[:2000])
    model.save(tmp_path / "m.safetensors")
    loaded = TableClassifier.load(tmp_path / "m.safetensors")
    for rows in (frame[2000:2500], late[2500:]):
        for one in (model, loaded):
            one.partial_fit(rows)
        for answer in ("decision_function", "predict_proba", "predict_stream_proba"):
            first, second = (getattr(one, answer)(late) for one in (model, loaded))
            np.testing.assert_array_equal(first, second)
    whole = table(**options).partial_fit(frame[:2000])
    for rows in (frame[2000:2500], late[2500:]):
        for start in range(0, len(rows), 100):
            whole.partial_fit(rows[start : start + 100])
    assert_close(whole.decision_function(frame), model.decision_function(frame), 1e-8)


@pytest.mark.parametrize("classes", [2, 3])
def test_contributions_add_up_to_the_average(classes):
    X, y = coded_rows(2, classes, 1500)
    frame = frame_of(X, y)
    model = table().partial_fit(frame)
    found = model.explain(frame[:30])
    assert found.feature_names == ["x", "y", "z", "m0", "m1"]
    f = model.decision_function(frame[:30]).reshape(30, -1)
    total = found.values.sum(axis=-1).reshape(30, -1) + np.atleast_1d(found.base_values)
    assert_close(total, f, 1e-9)


def test_merging_models_with_other_categories_is_having_seen_both():
    X, y = coded_rows(2, 2, 4000)
    one, two = frame_of(X[:2000], y[:2000]), frame_of(X[2000:], y[2000:])
    two = pd.concat([two[:1000].assign(m0="new " + two["m0"]), two[1000:]])
    first = table().partial_fit(one)
    maps = first._model.model.fitted_candidates
    both = table(candidates=maps).partial_fit(one).partial_fit(two)
    merged = table(candidates=maps).partial_fit(one).merge(table(candidates=maps).partial_fit(two))
    for frame in (one, two):
        for answer in ("decision_function", "predict_proba"):
            assert_close(getattr(merged, answer)(frame), getattr(both, answer)(frame), 1e-9)


def test_a_model_that_cannot_have_columns_or_their_memory_says_so():
    X, y = coded_rows(2, 2, 400)
    frame = frame_of(X, y)
    with pytest.raises(DataError, match="need linear boundaries"):
        table(candidates=("pooled_rows=10",)).partial_fit(frame)
    many = frame.assign(m0=[f"one of {i}" for i in range(400)])
    with pytest.raises(DataError, match="categories in 2 classes with 36 other features need"):
        table(memory_limit=1e5).partial_fit(many)


@pytest.mark.parametrize("calibrate", [False, True])
def test_columns_and_features_may_appear_late(calibrate, tmp_path):
    X, y = coded_rows(2, 2, 3000)
    whole = frame_of(X, y).assign(kind=np.array(["u", "v", "w"])[np.arange(3000) % 3])
    early = whole[:1600].drop(columns="kind").assign(m1=None)

    def fit(*frames):
        model = TableClassifier(
            AutoClassifier(**SOME, calibrate=calibrate),
            columns=ROLES,
            label="label",
            allow_new_columns=True,
        )
        for frame in frames:
            model.partial_fit(frame)
        return model

    one = fit(early, whole[1600:])
    other = fit(early, whole[1600:2000], whole[2000:])
    other.save(tmp_path / "m.safetensors")
    loaded = TableClassifier.load(tmp_path / "m.safetensors")
    for answer in ("decision_function", "predict_proba"):
        found, expected = (getattr(model, answer)(whole) for model in (other, one))
        assert_close(found, expected, 1e-8)
        np.testing.assert_array_equal(getattr(loaded, answer)(whole), found)
    assert one._model.encoding.vocabularies.keys() == ROLES.keys()
    rows = one._model.model.candidates.kept.rows["yes"]
    assert {len(row) for row, _, _ in rows} == {one._model.model.n_features + 2}


def test_progressive_scores_are_those_of_models_of_earlier_rows(run):
    X, y = coded_rows(2, 2, 2500)
    frame_of(X, y).to_csv("all.csv", index=False)
    more = ["--label", "label", "--many", "m0,m1=4", "--feature-map", "auto"]
    run("learn", "all.csv", *more, "-m", "m.st", "--metrics", "m.jsonl", "--metrics-every", "500")
    lines = [json.loads(line) for line in Path("m.jsonl").read_text().splitlines()]
    frame_of(X, y, 0).to_csv("all.csv", index=False)
    more = ["--label", "label", "--feature-map", "auto"]
    run("learn", "all.csv", *more, "-m", "n.st", "--metrics", "n.jsonl", "--metrics-every", "500")
    without = [json.loads(line) for line in Path("n.jsonl").read_text().splitlines()]
    assert lines[-1]["g_mean"] > without[-1]["g_mean"] + 0.02
