"""Blocks of steps from one inverse = refitting from scratch before each row, on awkward streams."""

import numpy as np
import pytest
from builders import assert_progressive

from counterpoise import BalancedRidgeClassifier
from counterpoise.stepwise import progressive

D, ROWS = 30, 480


def base(rows=ROWS, d=D, minority=0.15, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(rows) < minority).astype(int)
    return rng.standard_normal((rows, d)) + 0.4 * y[:, None], y


def jumping():
    X, y = base()
    X[245:] += 20.0
    X[397:] *= 100.0
    return X, y


def outlying():
    X, y = base()
    X[[250, 405]] *= 1e3
    return X, y


def jittering():
    X, y = base()
    return X + 1e3 * np.sin(np.arange(ROWS))[:, None], y


def beginning_with_one_class():
    X, y = base()
    return X, np.where(np.arange(ROWS) < 200, 0, y)


def sorted_by_class():
    X, y = base(minority=0.5)
    order = np.argsort(y, kind="stable")
    return X[order], y[order]


def collinear():
    X, y = base()
    X[:, 1], X[:, 2], X[:, 3] = X[:, 0], X[:, 0] - X[:, 4], 5.0
    return X, y


def growing():
    """Ranges grow inside every block."""
    X, y = base()
    return X * (1.0 + np.arange(ROWS) / 60.0)[:, None], y


def heavy():
    y = base()[1]
    return np.random.default_rng(3).standard_t(1.5, size=(ROWS, D)), y


def rare():
    X, y = base(3000, minority=0.001, seed=1)
    y[[40, 1500]] = 1
    return X, y


STREAMS = [
    jumping,
    outlying,
    jittering,
    beginning_with_one_class,
    sorted_by_class,
    collinear,
    growing,
    heavy,
    rare,
]
OPTIONS = [
    {},
    {"penalize_intercept": False},
    {"fit_intercept": False},
    {"half_life": 200.0},
    {"class_weight": None, "ridge": 1e-3},
]


@pytest.fixture
def block_scorers(monkeypatch):
    """List of all block scorers that were constructed."""
    begun = []

    class RecordedScorer(progressive.BlockScorer):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            begun.append(self)

    monkeypatch.setattr(progressive, "BlockScorer", RecordedScorer)
    monkeypatch.setattr(progressive, "MIN_FEATURES_FOR_BLOCKS", 1)
    return begun


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.__name__)
def test_blocks_score_awkward_streams_within_the_bound(stream, options, block_scorers):
    X, y = stream()
    step = 7 if len(y) == ROWS else 53
    assert_progressive(X, y, options, rows=range(20, len(y), step))
    assert_progressive(X, y, options, delay=11, rows=range(20, len(y), 3 * step))


def score_by_elimination(monkeypatch, X, y, options=None):
    """Scores and moments by elimination alone."""
    with monkeypatch.context() as patch:
        patch.setattr(progressive, "MIN_FEATURES_FOR_BLOCKS", 10**9)
        model = BalancedRidgeClassifier(**(options or {}))
        return model.progressive_scores(X, y), model._engine.state.moments


@pytest.mark.parametrize("bound", [1e-2, 1e-5, 2e-9])
def test_the_error_is_within_the_requested_bound(bound, block_scorers, monkeypatch):
    monkeypatch.setattr(progressive, "SCORE_ERROR_BOUND", bound)
    X, y = base(1500, 20)
    scores = BalancedRidgeClassifier().progressive_scores(X, y)
    blocks, _, _, given_up = block_scorers[0].counts
    assert given_up < 0.05 * blocks
    off = np.abs(scores - score_by_elimination(monkeypatch, X, y)[0])
    assert off.max() <= bound
    assert bound < 1e-8 or off.max() > 1e-9  # a loose bound is used, so the tight one is felt


def test_a_bound_that_cannot_be_met_ends_the_block_scorer(block_scorers, monkeypatch):
    monkeypatch.setattr(progressive, "SCORE_ERROR_BOUND", 0.0)
    X, y = base(200, 12)
    scores = BalancedRidgeClassifier().progressive_scores(X, y)
    blocks, _, _, given_up = block_scorers[0].counts
    assert given_up == blocks > 0
    np.testing.assert_allclose(
        scores, score_by_elimination(monkeypatch, X, y)[0], rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("options", [{}, {"half_life": 90.0}], ids=str)
def test_a_block_is_learned_like_its_rows(options, block_scorers, monkeypatch):
    X, y = base(700, 17)
    X[:, 3] = X[:, 3] > 0.0
    X[500:, 5] += 1e4  # the anchor moves
    model = BalancedRidgeClassifier(**options)
    model.progressive_scores(X, y)
    assert block_scorers[0].counts[3] < block_scorers[0].counts[0]
    mine, other = model._engine.state.moments, score_by_elimination(monkeypatch, X, y, options)[1]
    for name in (
        "n",
        "N",
        "weight_remainder",
        "min_row_weight",
        "stream",
        "nonconstant_weight",
        "row_hashes",
        "anchor",
    ):
        np.testing.assert_array_equal(getattr(mine, name), getattr(other, name), err_msg=name)
    for name in ("mean", "C", "max_scatter"):  # sums in another order
        one, two = getattr(mine, name), getattr(other, name)
        assert np.abs(one - two).max() <= 1e-13 * np.abs(two).max(), name
    np.testing.assert_array_equal(mine.C, mine.C.transpose(0, 2, 1))


def test_one_inverse_serves_many_blocks(block_scorers):
    X, y = base(4000, 20, minority=0.5)
    BalancedRidgeClassifier().progressive_scores(X, y)
    blocks, rounds, inverses, given_up = block_scorers[0].counts
    assert inverses < 0.25 * blocks
    assert rounds < 4 * blocks
    assert given_up < 0.02 * blocks
