"""Candidates with quadratic boundaries: other looks at the moments of the linear one."""

import numpy as np
import pytest
from samples import assert_close, assert_same_model, stream

from counterpoise import AutoClassifier, BalancedRidgeClassifier
from counterpoise.engine.parameters import LINEAR, map_name, name_of, pooling_of
from counterpoise.engine.ranking import PrequentialCounts, best
from counterpoise.modelfile.container import ModelFileError, from_bytes, to_bytes
from counterpoise.modelfile.engines import chosen_of

POOLED = (LINEAR, "pooled_rows=1000", "pooled_rows=10")
MIXED = {
    "candidates": (LINEAR, "pooled_rows=10", "interactions"),
    "ridges": (10.0, 1.0, 0.1),
    "kept_rows": 0,
}


def spread(rows=800, seed=0, classes=2):
    """Classes about the same mean, one wider than the other."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    return rng.standard_normal((rows, 4)) * (1.0 + 2.0 * y[:, None]), y


def shifted(rows=800, seed=0):
    """Classes of the same covariance, apart by their means."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    return rng.standard_normal((rows, 12)) + 0.4 * y[:, None], y


def content(one):
    return to_bytes(one.contents())


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


def test_rows_are_judged_by_the_densities_of_the_last_refresh():
    X, y = spread(40)
    one = AutoClassifier(kept_rows=0, candidates=POOLED).fit(X[:20], y[:20])
    before = BalancedRidgeClassifier(pooled_rows=10).fit(X[:20], y[:20])
    judged = one.candidates_.judges[2].scores(X[20:])[:, 0, 0]
    assert_close(judged, before.decision_function(X[20:]))
    one.partial_fit(X[20:22], y[20:22])  # no refresh is due
    assert_close(one.candidates_.judges[2].scores(X[20:])[:, 0, 0], judged, 0.0)


def test_what_was_judged_is_the_g_mean_of_the_progressive_scores():
    X, y = spread(500)
    one = AutoClassifier(kept_rows=0, candidates=("pooled_rows=10",))
    scores = one.progressive_scores(X, y)
    rows = np.arange(16, 500)
    w, found = np.sqrt(rows), (scores[rows] > 0) == (y[rows] == 1)
    last, mine = np.sqrt(500), [y[rows] == k for k in (0, 1)]
    recall = [(w[k & found].sum() + last / 2) / (w[k].sum() + last) for k in mine]
    ((ridge, G),) = one.g_means_["pooled_rows=10"].items()
    assert_close(G, np.sqrt(recall[0] * recall[1]), 1e-12)
    assert ridge == one.best_.ridge_


def test_moments_are_learned_once_whoever_looks_at_them():
    X, y = spread(600)
    one = AutoClassifier(kept_rows=0, candidates=POOLED, drop=False).fit(X, y)
    assert list(one.candidates_.states) == [LINEAR]
    assert sum(name.endswith(" C") for name in one.contents().arrays) == 1
    alone = AutoClassifier(kept_rows=0, candidates=(LINEAR,), drop=False).fit(X, y)
    G, alone_G = (list(it.g_means_[LINEAR].values()) for it in (one, alone))
    assert_close(G, alone_G, 1e-12)
    assert_same_model(alone.best_, BalancedRidgeClassifier(ridge=alone.best_.ridge).fit(X, y))


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_classes_of_their_own_spread_are_told_apart_by_quadratic_boundaries(classes):
    X, y = spread(1200, classes=classes)
    one = AutoClassifier(kept_rows=0, candidates=POOLED).fit(X[:800], y[:800])
    linear = BalancedRidgeClassifier().fit(X[:800], y[:800])
    assert one.best_.pooled_rows == 10.0
    assert one.score(X[800:], y[800:]) > linear.score(X[800:], y[800:]) + 0.1
    assert LINEAR in one.dropped_  # and what it had learned stays, for the others look at it
    assert list(one.candidates_.states) == [LINEAR]


@pytest.mark.parametrize("seed", range(5))
def test_classes_of_the_same_spread_stay_linear(seed):
    one = AutoClassifier(kept_rows=0, candidates=POOLED).fit(*shifted(seed=seed))
    assert one.best_.pooled_rows is None


def test_quadratic_boundaries_must_be_ahead_by_half_a_standard_error():
    labels, total = np.array([0, 1]), np.array([100.0, 100.0])
    close, ahead = (np.array([[[88.0], [n], [86.0]]] * 2) for n in (88.5, 91.0))
    assert best(PrequentialCounts(labels, total, close[:, :2]), 1, None, [1])[0] == 0
    assert best(PrequentialCounts(labels, total, close[:, :2]), 1)[0] == 1
    assert best(PrequentialCounts(labels, total, ahead[:, :2]), 1, None, [1])[0] == 1
    # Of the others the richest within a standard error is what they must be ahead of.
    assert best(PrequentialCounts(labels, total, close), 1, None, [1])[0] == 1
    assert (
        best(PrequentialCounts(labels, total, close - [[0.0], [2.0], [0.0]]), 1, None, [1])[0] == 2
    )


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 7, 100])
def test_chunks_do_not_matter(size):
    X, y = spread(300, classes=3)
    whole, one = AutoClassifier(**MIXED).partial_fit(X, y), AutoClassifier(**MIXED)
    for at in range(0, len(y), size):
        one.partial_fit(X[at : at + size], y[at : at + size])
    assert one.best_.pooled_rows == whole.best_.pooled_rows == 10.0
    assert_close(one.decision_function(X), whole.decision_function(X))
    assert_close(one.candidates_.tally.hits, whole.candidates_.tally.hits, 1e-12)


def test_the_choice_can_be_merged():
    X, y = spread(600)
    one = AutoClassifier(kept_rows=0, candidates=POOLED).fit(X[:400], y[:400])
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
    assert content(again) == content(one)
    assert again.get_params() == one.get_params()
    learned = chosen_of(from_bytes(content(one)))  # whoever only predicts reads it like this
    assert (learned.options.pooled_rows, learned.options.ridge) == (
        one.best_.pooled_rows,
        one.best_.ridge,
    )
    np.testing.assert_array_equal(learned.scores.of(X), one.decision_function(X).reshape(900, -1))
    for two in (one, again):
        two.partial_fit(X[rows:], y[rows:])
    assert content(again) == content(one)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.arrays["1 judge roots"].fill(np.nan),
        lambda c: c.arrays["1 judge means"].fill(1e300),
        lambda c: c.arrays.pop("1 judge roots"),
        lambda c: c.arrays.update({"1 judge roots": np.zeros((2, 4, 3))}),
        lambda c: c.arrays.update({"1 judge coef": np.zeros((3, 1, 4))}),
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
    contents = from_bytes(content(AutoClassifier(**MIXED).fit(X, y)))
    change(contents)
    with pytest.raises((ModelFileError, ValueError, KeyError)):
        AutoClassifier.from_contents(contents)


@pytest.mark.slow
@pytest.mark.parametrize("late", [103, 300])
def test_late_features_count_for_nothing_until_the_next_refresh(late):
    X, y = spread(500)
    one = AutoClassifier(**MIXED, drop=False).partial_fit(X[:late], y[:late])
    before = one.candidates_.judges[1].scores(X)
    one.widen(["a", "b", "c", "d", "e"])
    wide = np.column_stack([X, np.where(np.arange(500) >= late, y, 0.0)])
    assert_close(one.candidates_.judges[1].scores(wide), before, 0.0)
    again = AutoClassifier.from_contents(from_bytes(content(one)))
    for two in (one, again):
        two.partial_fit(wide[late:], y[late:])
    assert content(again) == content(one)
    alone = BalancedRidgeClassifier(pooled_rows=10).fit(wide, y)
    candidates = one.candidates_
    found = candidates.states[LINEAR].solve(None, candidates.looked("pooled_rows=10", 1.0))
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
    AutoClassifier(kept_rows=0, candidates=POOLED[:2], memory_limit=limit).fit(X, y)
    with pytest.raises(ValueError, match=r"4 \+ 4 \+ 4 terms.*name fewer candidates"):
        AutoClassifier(kept_rows=0, candidates=POOLED, memory_limit=limit).fit(X, y)


def test_a_class_that_was_never_seen_never_wins():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    X = rng.standard_normal((400, 2)) + 30.0 * np.eye(3)[y][:, :2]  # far apart: scores far below 0
    X[200:] = 10.0  # half-way between all of them
    for names in ((LINEAR,), ("pooled_rows=10",)):
        one = AutoClassifier(kept_rows=0, candidates=names, ridges=(1e-3,))
        scores = one.progressive_scores(X, y, classes=[0, 1, 2, 7])
        assert (scores[20:].argmax(axis=1) < 3).all()
        assert (scores[20:, 3] == -np.inf).all()
