"""Calibration of the averaging model: rows are scored by an average without them."""

import copy
import warnings
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from builders import assert_close, model_bytes, stream

from counterpoise import AutoClassifier, CostSensitiveClassifier, TableClassifier
from counterpoise import river as river_estimators
from counterpoise.engine.averaging import Average
from counterpoise.engine.candidates import BOUNDARY_PARTS, MAX_RECENT_ROWS
from counterpoise.engine.progressive_calibration import FIRST_BOUNDARY_ROWS, after_boundary
from counterpoise.errors import ModelFileError
from counterpoise.modelfile.container import from_bytes
from counterpoise.solver.link import Link

LINES = {"candidates": ("linear", "pooled_rows=10"), "ridges": (1.0, 0.1)}  # no map, no warm-up
MAPS = {"candidates": ("linear", "pooled_rows=10", "interactions"), "ridges": (1.0, 0.1)}
OPTIONS = pytest.mark.parametrize("options", [LINES, MAPS], ids=["no map", "map"])
CLASSES = pytest.mark.parametrize("classes", [2, 3])


def make_calibrated(**options):
    return AutoClassifier(**{**LINES, "calibrate": True, **options})


def learn_chunks(model, X, y, size):
    for start in range(0, len(y), size):
        model.partial_fit(X[start : start + size], y[start : start + size])
    return model


def learn_one_by_one(model, X, y):
    for x, label in zip(X, y.tolist(), strict=True):
        model.learn_one(x, label)
    model.predict(X[:1])  # learns the deferred rows


def candidates_of(model):
    return model._engine.candidates


def assert_same_counts(one, two):
    """Check that rows counted alike; averages of other chunks differ by rounding."""
    one, two = candidates_of(one), candidates_of(two)
    assert one.rows == two.rows
    now, then = one.progressive, two.progressive
    assert (now.rows, now.until) == (then.rows, then.until)
    assert vars(now.order) == vars(then.order)
    pairs = [(one.calibration, two.calibration), (now.pending, then.pending)]
    for mine, theirs in pairs:
        assert mine.labels.tolist() == theirs.labels.tolist()
        np.testing.assert_array_equal(mine.counts, theirs.counts)
        assert_close(mine.sums, theirs.sums, 1e-8)
    np.testing.assert_array_equal(one.recent, two.recent)


def rare_stream(rows, seed):
    """Return heavy-tailed rows with 2% positives, labels, and the true probabilities."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(4, (rows, 4))
    p = 1.0 / (1.0 + np.exp(5.0 - X[:, 0] - 0.5 * X[:, 1]))
    return X, (rng.random(rows) < p).astype(int), p


@OPTIONS
@CLASSES
def test_counts_do_not_depend_on_chunks(options, classes):
    X, y = stream(700, d=3, classes=classes, minority=0.2)
    whole = learn_chunks(make_calibrated(**options), X, y, 700)
    assert candidates_of(whole).calibration.rows > 300
    for size in (7, 100):
        assert_same_counts(learn_chunks(make_calibrated(**options), X, y, size), whole)
    sparse = make_calibrated(**options).partial_fit(sp.csr_matrix(X), y)
    assert_same_counts(sparse, whole)


@OPTIONS
def test_single_rows_and_events_count_as_chunks_do(options):
    X, y = stream(600, d=3, minority=0.2)
    whole = learn_chunks(make_calibrated(**options), X, y, 600)
    fits, ones = make_calibrated(**options), make_calibrated(**options)
    events = river_estimators.AutoClassifier(**options, calibrate=True)
    for i, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
        fits.partial_fit(x[None], [label])
        ones.learn_one(x, label)
        events.learn_one(dict(zip("abc", x.tolist(), strict=True)), label)
        if i % 150 == 149:  # deferred rows are learned at other times
            ones.predict_stream_proba(X[:2])
    assert_same_counts(fits, whole)
    assert_same_counts(ones, whole)
    found = events._model.candidates
    np.testing.assert_array_equal(found.calibration.counts, candidates_of(whole).calibration.counts)
    event = dict(zip("abc", X[0].tolist(), strict=True))
    p = events.predict_stream_proba_one(event)
    assert_close(list(p.values()), whole.predict_stream_proba(X[:1])[0], 1e-6)
    assert p != pytest.approx(events.predict_proba_one(event), abs=1e-3)


def test_each_row_is_scored_by_the_average_of_the_last_boundary():
    X, y = stream(400, d=3, minority=0.2)
    boundaries, model = (
        [FIRST_BOUNDARY_ROWS],
        make_calibrated(candidates=("linear",), ridges=(1.0,)),
    )
    while boundaries[-1] <= 400:
        boundaries.append(after_boundary(boundaries[-1], BOUNDARY_PARTS))
    model.partial_fit(X[: boundaries[-2]], y[: boundaries[-2]])
    before = candidates_of(model)
    expected = np.zeros((2, 2))
    for start, stop in pairwise(boundaries[:-1]):
        plain = AutoClassifier(candidates=("linear",), ridges=(1.0,)).fit(X[:start], y[:start])
        f = plain.decision_function(X[start:stop])
        recent = plain.decision_function(X[max(0, start - MAX_RECENT_ROWS) : start])
        share = y[:start].mean()
        z = (f - recent.mean()) / recent.std() + np.log(share / (1.0 - share))
        silent = 0.25 / np.sqrt(start)
        p = (1.0 - silent) / (1.0 + np.exp(-z)) + silent * share
        for k in (0, 1):
            mine = y[start:stop] == k
            expected[k] += mine.sum(), np.log(p[mine] / (1.0 - p[mine])).sum()
    total = before.calibration.merge(before.progressive.count_pending())
    counts = total.counts[total.labels.tolist().index(1)]
    np.testing.assert_array_equal(counts.sum(axis=1), expected[:, 0])
    sums = total.sums[total.labels.tolist().index(1)]
    assert_close(sums.sum(), expected[:, 1].sum(), 1e-6)


@OPTIONS
@CLASSES
def test_a_saved_model_continues_bit_identically(options, classes):
    X, y = stream(900, d=3, classes=classes, minority=0.2)
    for rows in (100, 500):  # within the warm-up of the map, and between two boundaries
        model = learn_chunks(make_calibrated(**options), X[:rows], y[:rows], 50)
        loaded = AutoClassifier._from_contents(from_bytes(model_bytes(model)))
        for one in (model, loaded):
            learn_chunks(one, X[rows:], y[rows:], 60)
        assert model_bytes(model) == model_bytes(loaded)
        np.testing.assert_array_equal(model.predict_stream_proba(X), loaded.predict_stream_proba(X))


def test_a_model_that_starts_to_average_has_no_scoring_model_in_its_warm_up():
    X, y = stream(600, d=3, minority=0.2)
    model = make_calibrated(**MAPS).partial_fit(X[:200], y[:200])
    now = candidates_of(model).progressive
    first = max(one.config.rows for one in candidates_of(model).states.values())
    assert (now.rows, now.until, now.scores) == (200, first, None)
    model.partial_fit(X[200:], y[200:])
    assert isinstance(candidates_of(model).progressive.scores.solution, Average)
    assert candidates_of(model)._all_counts().rows == 600 - first


def test_merging_adds_counts():
    X, y = stream(800, d=3, minority=0.2)
    one = make_calibrated().partial_fit(X[:500], y[:500])
    two = make_calibrated().partial_fit(X[500:], y[500:])
    merged = one.merge(two)
    counts = [candidates_of(model)._all_counts() for model in (one, two, merged)]
    assert counts[2].rows == counts[0].rows + counts[1].rows
    np.testing.assert_array_equal(counts[2].counts, counts[0].counts + counts[1].counts)
    recent = np.vstack([X[:500], X[500:]])[-MAX_RECENT_ROWS:]
    np.testing.assert_array_equal(candidates_of(merged).recent, recent)
    merged.partial_fit(X[:40], y[:40])
    assert candidates_of(merged)._all_counts().rows == counts[2].rows + 40
    plain = AutoClassifier(**LINES).partial_fit(X[500:], y[500:])
    assert candidates_of(plain.merge(one)).calibration.rows == counts[0].rows
    assert candidates_of(one.merge(plain))._all_counts().rows == counts[0].rows


@OPTIONS
def test_fit_does_not_depend_on_the_order_of_rows(options):
    X, y = stream(600, d=3, minority=0.2)
    order = np.random.default_rng(1).permutation(600)
    one, two = (make_calibrated(**options).fit(X[at], y[at]) for at in (np.arange(600), order))
    assert model_bytes(one) == model_bytes(two)
    assert candidates_of(one).calibration.rows > 50
    by_label = np.argsort(y, kind="stable")
    assert model_bytes(make_calibrated(**options).fit(X[by_label], y[by_label])) == model_bytes(one)


@OPTIONS
def test_only_stream_probabilities_change(options):
    X, y = stream(600, d=3, minority=0.2)
    one, plain = make_calibrated(**options).fit(X, y), AutoClassifier(**options).fit(X, y)
    assert_close(one.decision_function(X), plain.decision_function(X), 1e-8)
    assert_close(one.predict_proba(X), plain.predict_proba(X), 1e-8)
    assert np.abs(one.predict_stream_proba(X) - plain.predict_stream_proba(X)).max() > 0.01
    contents = from_bytes(model_bytes(plain))
    assert "calibrate" not in contents.options
    assert not {"calibration", "progressive"} & set(contents.facts)
    assert not [name for name in contents.arrays if name.startswith(("last rows", "progressive"))]
    one.set_params(calibrate=False)
    before = one.predict_stream_proba(X)
    assert_close(before, plain.predict_stream_proba(X), 1e-8)
    one.set_params(calibrate=True)
    assert np.abs(one.predict_stream_proba(X) - before).max() > 0.01
    plain.set_params(calibrate=True).partial_fit(X, y)
    assert candidates_of(plain).calibration.rows > 200


@pytest.mark.slow
def test_log_loss_of_rare_positives_improves():
    excess = {False: 0.0, True: 0.0}  # of log loss over that of the true probabilities
    for seed in range(3):
        X, y, _ = rare_stream(20_000, seed=seed)
        X_test, _, true = rare_stream(20_000, seed=seed + 100)
        assert true.mean() == pytest.approx(0.02, abs=0.01)
        best = -(true * np.log(true) + (1.0 - true) * np.log1p(-true)).mean()
        for calibrate in excess:
            model = AutoClassifier(candidates=("linear",), calibrate=calibrate)
            q = np.clip(model.fit(X, y).predict_stream_proba(X_test)[:, 1], 1e-12, 1.0 - 1e-12)
            excess[calibrate] += -(true * np.log(q) + (1.0 - true) * np.log1p(-q)).mean() - best
    # Of six seeds, each with about 400 positives, 0.16 to 0.94 of the excess is left, 0.34 in all.
    assert excess[True] < excess[False] * 2.0 / 3.0


def test_sorted_labels_do_not_count_and_warn_once():
    X, y = stream(2000, d=3, minority=0.5)
    by_label = np.argsort(y, kind="stable")
    X, y = X[by_label], y[by_label]
    with pytest.warns(UserWarning, match="labels are sorted") as caught:
        model = learn_chunks(
            make_calibrated().partial_fit(X[:1], y[:1], classes=[0, 1]), X[1:], y[1:], 50
        )
    assert len([one for one in caught if "sorted" in str(one.message)]) == 1
    assert caught[0].filename == __file__
    assert model._engine.has_sorted_labels
    ones = make_calibrated()
    with pytest.warns(UserWarning, match="labels are sorted") as caught:
        learn_one_by_one(ones, X, y)
    assert len([one for one in caught if "sorted" in str(one.message)]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not make_calibrated().fit(X, y)._engine.has_sorted_labels


def test_features_that_come_late_keep_the_counts():
    model = river_estimators.AutoClassifier(**LINES, calibrate=True)
    X, y = stream(500, d=3, minority=0.2)
    for i, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
        event = dict(zip("abc" if i >= 300 else "ab", x.tolist(), strict=False))
        model.learn_one(event, label)
    found = model._model.candidates
    first = next(n for n in (16, 32, 48) if len(set(y[:n].tolist())) == 2)
    assert found._all_counts().rows == 500 - first
    assert found.recent.shape == (500, 3)
    np.testing.assert_array_equal(found.recent[:300, 2], 0.0)
    assert sum(model.predict_stream_proba_one(event).values()) == pytest.approx(1.0)


def test_tables_and_decisions_by_cost_calibrate_too():
    import pandas as pd

    X, y = stream(600, d=3, minority=0.2)
    frame = pd.DataFrame(X, columns=list("abc")).assign(b=lambda t: t["b"].where(t.index % 9 > 0))
    table = TableClassifier(make_calibrated()).fit(frame, y)
    assert table._model.model.candidates.calibration.rows > 300
    counts = [
        learn_chunks(TableClassifier(make_calibrated()), frame, y, size)._model.model.candidates
        for size in (50, 600)
    ]
    assert counts[0].calibration.rows == counts[1].calibration.rows > 300
    np.testing.assert_array_equal(counts[0].calibration.counts, counts[1].calibration.counts)
    risk = CostSensitiveClassifier(make_calibrated()).fit(X, y)
    np.testing.assert_array_equal(
        risk.predict_proba(X), make_calibrated().fit(X, y).predict_stream_proba(X)
    )


def test_decaying_rows_count():
    X, y = stream(600, d=3, minority=0.2)
    model = learn_chunks(make_calibrated(half_life=100.0), X, y, 64)
    assert candidates_of(model).calibration.rows > 300
    loaded = AutoClassifier._from_contents(from_bytes(model_bytes(model)))
    np.testing.assert_array_equal(model.predict_stream_proba(X), loaded.predict_stream_proba(X))


def test_rows_of_weights_count_by_weight():
    X, y = stream(500, d=3, minority=0.2)
    w = np.random.default_rng(0).integers(0, 3, 500).astype(float)
    found = candidates_of(make_calibrated().fit(X, y, sample_weight=w))._all_counts()
    assert 0 < found.rows < (w > 0).sum()
    assert found.counts[0].sum() < w.sum()
    assert found.counts[0].sum() > found.rows


@pytest.mark.parametrize("seen", [[True, True], [True, True, True], [True, False, True]])
def test_standardized_scores_have_the_class_frequencies_at_their_mean(seen):
    seen, rng = np.array(seen), np.random.default_rng(0)
    c, share = len(seen), np.where(seen, 0.7, 0.0)
    share[-1] = 0.1
    share /= share.sum()
    f = 1e3 + 50.0 * rng.standard_normal((4000, 1 if c == 2 else c))
    f[:, ~seen[: f.shape[1]]] = -np.inf
    link = Link((1.0, 1.0), np.zeros(c), share, 0.0).standardize(f, seen)
    assert_close(link.probabilities(f.mean(axis=0)[None], seen, stream=True)[0], share, 1e-9)
    again = Link((1.0, 1.0), np.zeros(c), share, 0.0).standardize(3.0 * f - 7.0, seen)
    assert_close(
        again.probabilities(3.0 * f - 7.0, seen, stream=True),
        link.probabilities(f, seen, stream=True),
        1e-9,
    )
    constant = Link((1.0, 1.0), np.zeros(c), share, 0.0).standardize(0.0 * f[:, :1] + f[:1], seen)
    assert constant.slopes[1] == 0.0


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.arrays.pop("last rows"),
        lambda c: c.arrays["last rows"].fill(1e300),
        lambda c: c.arrays.update({"last rows": np.zeros((3, 2))}),
        lambda c: c.arrays.update({"last rows": np.zeros((0, 3))}),
        lambda c: c.arrays.update({"last rows": np.zeros((2000, 3))}),
        lambda c: c.arrays.update({"last rows": np.zeros(3)}),
        lambda c: c.arrays["calibration counts"].fill(-1.0),
        lambda c: c.arrays["calibration sums"].fill(1e9),
        lambda c: c.facts["calibration"].update(rows=-3),
        lambda c: c.facts["calibration"]["labels"].update(values=[0, 9]),
        lambda c: c.facts.pop("calibration"),
        lambda c: c.facts.pop("progressive"),
        lambda c: c.facts["progressive"].update(until=10**6),
        lambda c: c.facts["progressive"].update(rows=0),
        lambda c: c.facts["progressive"].pop("scores"),
        lambda c: c.facts["progressive"]["scores"].pop("parts"),
        lambda c: c.facts["progressive"]["scores"].update(parts=[]),
        lambda c: c.facts["progressive"]["scores"].update(parts=["linear"]),
        lambda c: c.facts["progressive"]["scores"].update(parts=["none", "linear", "linear"]),
        lambda c: c.facts["progressive"]["scores"].update(parts=["interactions"] * 3),
        lambda c: c.facts["progressive"]["scores"].update(slopes=[1.0, -1.0]),
        lambda c: c.facts["progressive"]["scores"].update(slots=[0, 7]),
        lambda c: c.facts["progressive"]["scores"].update(silent=2.0),
        lambda c: c.arrays.pop("progressive 0 coef"),
        lambda c: c.arrays.update({"progressive 9 coef": np.zeros((1, 3))}),
        lambda c: c.arrays.update({"progressive shift": np.zeros(3)}),
        lambda c: c.arrays["progressive frequency"].fill(0.0),
        lambda c: c.options.update(calibrate="yes"),
    ],
)
def test_a_file_of_impossible_counts_is_refused(change):
    X, y = stream(700, d=3, minority=0.2)
    data = model_bytes(make_calibrated(**MAPS).partial_fit(X, y))
    contents = from_bytes(data)
    assert len(contents.facts["progressive"]["scores"]["parts"]) == 3
    AutoClassifier._from_contents(copy.deepcopy(contents))
    change(contents)
    with pytest.raises(ModelFileError):
        AutoClassifier._from_contents(contents)
