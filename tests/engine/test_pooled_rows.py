"""Candidates with quadratic boundaries: other solutions from the moments of the linear one."""

import numpy as np
import pytest
from builders import assert_close, assert_same_model, model_bytes, stream

from counterpoise import AutoClassifier, BalancedRidgeClassifier
from counterpoise.engine.parameters import LINEAR, map_name, name_of, pooling_of
from counterpoise.errors import ModelFileError
from counterpoise.estimators.base import wrap
from counterpoise.modelfile.container import from_bytes
from counterpoise.modelfile.engines import unpack_auto

POOLED = (LINEAR, "pooled_rows=1000", "pooled_rows=10")
MIXED = {
    "candidates": (LINEAR, "pooled_rows=10", "interactions"),
    "ridges": (10.0, 1.0, 0.1),
}


def spread(rows=800, seed=0, classes=2):
    """Classes about the same mean, one wider than the other."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    return rng.standard_normal((rows, 4)) * (1.0 + 2.0 * y[:, None]), y


def make_shifted_classes(rows=800, seed=0):
    """Classes of the same covariance, apart by their means."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    return rng.standard_normal((rows, 12)) + 0.4 * y[:, None], y


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("nu", [0.5, 10.0, 1000.0])
def test_the_answer_is_that_of_the_classifier_with_this_pooling(classes, nu):
    X, y = stream(400, d=4, classes=classes, minority=0.2)
    one = AutoClassifier(candidates=(f"pooled_rows={nu}",), class_factors={1: 2.0}).fit(X, y)
    alone = BalancedRidgeClassifier(pooled_rows=nu, class_factors={1: 2.0}).fit(X, y)
    assert (one.best_.pooled_rows, one.best_.ridge) == (nu, "auto")
    assert_close(one.decision_function(X), alone.decision_function(X))
    assert_close(one.predict_proba(X), alone.predict_proba(X))
    assert_close(one.predict_stream_proba(X), alone.predict_stream_proba(X))
    np.testing.assert_array_equal(one.predict(X), alone.predict(X))
    numbered = BalancedRidgeClassifier(
        pooled_rows=nu, class_factors={1: 2.0}, ridge=one.best_.ridge_
    )
    assert_close(one.decision_function(X), numbered.fit(X, y).decision_function(X))


def test_moments_are_learned_once_whoever_looks_at_them():
    X, y = spread(600)
    one = AutoClassifier(candidates=POOLED).fit(X, y)
    assert list(one._engine.candidates.states) == [LINEAR]
    assert sum(name.endswith(" C") for name in one._contents().arrays) == 1
    alone = AutoClassifier(candidates=(LINEAR,)).fit(X, y)
    G, alone_G = (list(it.g_means_[LINEAR].values()) for it in (one, alone))
    assert_close(G, alone_G, 1e-12)
    assert_same_model(alone.best_, BalancedRidgeClassifier(ridge=alone.best_.ridge).fit(X, y))


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_classes_of_their_own_spread_are_told_apart_by_quadratic_boundaries(classes):
    X, y = spread(1200, classes=classes)
    one = AutoClassifier(candidates=POOLED).fit(X[:800], y[:800])
    linear = BalancedRidgeClassifier().fit(X[:800], y[:800])
    assert one.best_.pooled_rows == 10.0
    assert one.score(X[800:], y[800:]) > linear.score(X[800:], y[800:]) + 0.1
    assert list(one._engine.candidates.states) == [LINEAR]


@pytest.mark.parametrize("seed", range(5))
def test_classes_of_the_same_spread_stay_linear(seed):
    one = AutoClassifier(candidates=POOLED).fit(*make_shifted_classes(seed=seed))
    assert one.best_.pooled_rows != 10.0


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 7, 100])
def test_chunks_do_not_matter(size):
    X, y = spread(300, classes=3)
    whole, one = AutoClassifier(**MIXED).partial_fit(X, y), AutoClassifier(**MIXED)
    for at in range(0, len(y), size):
        one.partial_fit(X[at : at + size], y[at : at + size])
    assert one.best_.pooled_rows == whole.best_.pooled_rows == 10.0
    assert_close(one.decision_function(X), whole.decision_function(X))


def test_the_choice_can_be_merged():
    X, y = spread(600)
    one = AutoClassifier(candidates=POOLED).fit(X[:400], y[:400])
    both = one.best_.merge(BalancedRidgeClassifier(pooled_rows=10).fit(X[400:], y[400:]))
    at_once = BalancedRidgeClassifier(pooled_rows=10).fit(X, y)
    assert_close(both.decision_function(X), at_once.decision_function(X), 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 20, 300, 650])
def test_save_then_load_is_the_identity_and_learning_goes_on(tmp_path, rows):
    X, y = spread(900, classes=3)
    one = AutoClassifier(**MIXED).partial_fit(X[:rows], y[:rows], classes=[0, 1, 2])
    one.save(tmp_path / "m.safetensors")
    again = AutoClassifier.load(tmp_path / "m.safetensors")
    assert model_bytes(again) == model_bytes(one)
    assert again.get_params() == one.get_params()
    learned = unpack_auto(from_bytes(model_bytes(one)))
    assert (learned.options.pooled_rows, learned.options.ridge) == (
        one.best_.pooled_rows,
        one.best_.ridge,
    )
    np.testing.assert_array_equal(learned.scores().of(X), one.decision_function(X).reshape(900, -1))
    for two in (one, again):
        two.partial_fit(X[rows:], y[rows:])
    assert model_bytes(again) == model_bytes(one)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.arrays.update({"2 C": np.zeros(1)}),
        lambda c: c.options.update(candidates="linear pooled_rows=-1 interactions"),
        lambda c: c.options.update(candidates="linear pooled_rows=x interactions"),
        lambda c: c.facts.update(names=[LINEAR, "interactions", "pooled_rows=10"]),
        lambda c: c.facts["models"].append(c.facts["models"][0]),
        lambda c: c.facts["models"][0]["options"].update(pooled_rows=10.0),
    ],
)
def test_a_file_that_cannot_be_is_refused(change):
    X, y = spread(100)
    contents = from_bytes(model_bytes(AutoClassifier(**MIXED).fit(X, y)))
    change(contents)
    with pytest.raises((ModelFileError, ValueError, KeyError)):
        AutoClassifier._from_contents(contents)


@pytest.mark.slow
@pytest.mark.parametrize("late", [103, 300])
def test_late_features_were_zero_in_every_row_before(late):
    X, y = spread(500)
    one = AutoClassifier(**MIXED).partial_fit(X[:late], y[:late])
    one._engine.add_features(["a", "b", "c", "d", "e"])
    one = wrap(type(one), one._engine)
    wide = np.column_stack([X, np.where(np.arange(500) >= late, y, 0.0)])
    again = AutoClassifier._from_contents(from_bytes(model_bytes(one)))
    for two in (one, again):
        two.partial_fit(wide[late:], y[late:])
    assert model_bytes(again) == model_bytes(one)
    alone = BalancedRidgeClassifier(pooled_rows=10).fit(wide, y)
    candidates = one._engine.candidates
    options = candidates.solver_options_for("pooled_rows=10", 1.0)
    found = candidates.states[LINEAR].solve(None, options)
    assert_close(found.of(wide).ravel(), alone.decision_function(wide), 1e-9)


@pytest.mark.parametrize(
    ("candidates", "says"),
    [
        (("pooled_rows=",), "finite number of rows"),
        (("pooled_rows=ten",), "finite number of rows"),
        (("pooled_rows=-1",), "finite number of rows"),
        (("pooled_rows=inf",), "finite number of rows"),
        (("pooled_rows=nan",), "finite number of rows"),
        (("pooled_rows=10", "pooled_rows=1e1"), "a candidate twice"),
    ],
)
def test_a_pooling_without_meaning_is_refused(candidates, says):
    with pytest.raises(ValueError, match=says):
        AutoClassifier(candidates=candidates).fit(*spread(50))


def test_names_are_the_same_however_a_number_is_written():
    assert [name_of(None, pooling_of(f"pooled_rows={n}")) for n in ("10", "1e1", "10.00")] == [
        "pooled_rows=10"
    ] * 3
    assert name_of(None, 0.25) == "pooled_rows=0.25"
    assert map_name("pooled_rows=10") == map_name(LINEAR) == LINEAR
    assert map_name("rm2") == "rm2"


def test_boundaries_count_among_the_memory():
    X, y = spread(50)
    limit = 8 * 2 * 2 * 4 * 4  # two classes: the moments, and as much for those of a chunk
    AutoClassifier(candidates=POOLED[:2], memory_limit=limit).fit(X, y)
    with pytest.raises(ValueError, match=r"4 \+ 4 \+ 4 terms.*name fewer candidates"):
        AutoClassifier(candidates=POOLED, memory_limit=limit).fit(X, y)


def test_a_class_that_was_never_seen_never_wins():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    X = rng.standard_normal((400, 2)) + 30.0 * np.eye(3)[y][:, :2]  # far apart: scores far below 0
    X[200:] = 10.0  # half-way between all of them
    for names in ((LINEAR,), ("pooled_rows=10",)):
        one = AutoClassifier(candidates=names, ridges=(1e-3,))
        scores = one.progressive_scores(X, y, classes=[0, 1, 2, 7])
        assert (scores[20:].argmax(axis=1) < 3).all()
        assert (scores[20:, 3] == -np.inf).all()
