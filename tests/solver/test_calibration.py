"""Progressive calibration: counts that add up, a curve that never falls, and odds that hold."""

from dataclasses import replace

import numpy as np
import pytest
from builders import assert_close, stream
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from counterpoise import BalancedRidgeClassifier
from counterpoise.errors import ModelFileError
from counterpoise.river import BalancedRidgeClassifier as Events
from counterpoise.solver.calibration import (
    BINS,
    LEVEL,
    MIN_SLOPE,
    SLOPE,
    SMOOTHNESS_PENALTY,
    Calibration,
    CalibrationCurve,
    log_odds,
)

LABELS = np.array(["a", "b", "c"])
ALL = np.ones(3, dtype=bool)


def make_scored_rows(rows=200, seed=0, labels=LABELS):
    """Return predicted probabilities of rows, their labels and their weights."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(len(labels), 0.3), rows) + 1e-6
    p /= p.sum(axis=1, keepdims=True)
    return p, labels[rng.integers(0, len(labels), rows)], rng.integers(0, 3, rows).astype(float)


def assert_same_calibration(one, two):
    """Compare the counts of each label, and the sums.

    A model of 16 rows is found by iteration to some 1e-10; 1e-8 leaves a factor of 100.
    """
    place = {label: k for k, label in enumerate(two.labels.tolist())}
    at = [place[label] for label in one.labels.tolist()]
    assert len(at) == len(two.labels)
    assert one.rows == two.rows
    np.testing.assert_array_equal(one.counts, two.counts[at])
    assert_close(one.sums, two.sums[at], 1e-8)


def make_skewed_stream(rows, seed, classes=2):
    """A stream of long tails to one side, which the exact link does not reckon with."""
    rng = np.random.default_rng(seed)
    y = rng.choice(classes, rows, p=[0.8, *np.full(classes - 1, 0.2 / (classes - 1))])
    return np.exp(rng.standard_normal((rows, 3)) + 1.5 * np.vstack([np.zeros(3), np.eye(3)])[y]), y


def loss(p, y):
    return -np.log(p[np.arange(len(y)), y]).mean()


# The value


@pytest.mark.slow
@given(st.integers(0, 200), st.integers(0, 10_000))
def test_calibration_counts_of_two_parts_add_up(cut, seed):
    p, y, w = make_scored_rows(seed=seed)
    whole = Calibration.of(LABELS, ALL, p, y, w)
    parts = [Calibration.of(LABELS, ALL, p[s], y[s], w[s]) for s in (slice(cut), slice(cut, None))]
    assert_same_calibration(parts[0].merge(parts[1]), whole)
    assert_same_calibration(parts[1].merge(parts[0]), whole)
    assert whole.counts.sum() == pytest.approx(3 * w.sum())
    assert whole.rows == (w > 0).sum()


def test_merged_calibrations_of_different_classes_stay_separate():
    p, y, _ = make_scored_rows(labels=LABELS[:2])
    two = Calibration.of(LABELS[:2], ALL[:2], p, y, None)
    q, z, _ = make_scored_rows(seed=1, labels=np.array(["c", "bb"]))
    other = Calibration.of(np.array(["c", "bb"]), ALL[:2], q, z, None)
    both = two.merge(other)
    assert both.labels.tolist() == ["a", "b", "c", "bb"]
    np.testing.assert_array_equal(both.counts, np.concatenate([two.counts, other.counts]))
    assert_same_calibration(replace(both.restrict_to(LABELS[:2]), rows=two.rows), two)
    assert not both.restrict_to(LABELS[:1]).rows


def test_two_classes_mirror_each_other():
    p, y, _ = make_scored_rows(labels=LABELS[:2])
    found = Calibration.of(LABELS[:2], ALL[:2], p, y, None)
    np.testing.assert_array_equal(found.counts[0], found.counts[1, ::-1, ::-1])
    assert_close(found.probabilities(p, LABELS[:2], ALL[:2])[:, 1],
                 found.probabilities(p[:, ::-1], LABELS[1::-1], ALL[:2])[:, 0], 1e-8)  # fmt: skip


def test_rows_of_an_unknown_class_are_not_counted():
    p, y, _ = make_scored_rows()
    seen = np.array([True, True, False])
    found = Calibration.of(LABELS, seen, p, y, None)
    assert found.labels.tolist() == ["a", "b"]
    assert found.rows == (y != "c").sum()


def test_without_calibration_counts_probabilities_stay_the_same():
    p, _, _ = make_scored_rows()
    assert Calibration.empty().probabilities(p, LABELS, ALL) is p


def count_bins(seed, rows, bins=BINS):
    """Counts of the rest and of a class in some of the bins, and sums of l."""
    rng = np.random.default_rng(seed)
    middle = np.sinh(np.linspace(-4.05, 4.05, bins))
    counts = rng.multinomial(rows, rng.dirichlet(np.full(2 * bins, 0.1))).reshape(2, bins)
    return counts.astype(float), counts.sum(axis=0) * middle


@pytest.mark.slow
@given(st.integers(0, 10_000), st.sampled_from([1, 2, 3, 30, 3000, 10**7]))
def test_the_curve_never_decreases(seed, rows):
    curve = CalibrationCurve.fit(*count_bins(seed, rows))
    logit = np.linspace(-50, 50, 4001)
    slope = np.diff(curve.of(logit)) / np.diff(logit)
    assert (slope >= MIN_SLOPE * (1 - 1e-6)).all()


@pytest.mark.slow
def test_the_curve_minimizes_loss_and_prior():
    """Compare with a general optimizer; the prior is an integral and a fitted line."""
    rng = np.random.default_rng(1)
    logit = np.sinh(np.linspace(-3.0, 1.0, 12))
    n = rng.integers(20, 200, 12).astype(float)
    ones = np.round(
        n / (1 + np.exp(-0.6 * logit + 0.7))
    )  # rises everywhere, so that nothing is pooled
    curve = CalibrationCurve.fit(np.stack([n - ones, ones]), n * logit)
    u, weight = np.arcsinh(logit), (ones + 0.5) * (n - ones + 0.5) / (n + 1)

    def objective(z):
        delta = z - logit
        c, a = np.polyfit(logit - weight @ logit / weight.sum(), delta, 1, w=np.sqrt(weight))
        bend = np.diff(np.diff(z) / np.diff(logit))
        rough = (bend**2 / ((u[2:] - u[:-2]) / 2)).sum()
        prior = SMOOTHNESS_PENALTY * rough + (a / LEVEL) ** 2 + (c / SLOPE) ** 2
        return (n * np.logaddexp(0, z) - ones * z).sum() + 0.5 * prior

    best = minimize(objective, logit, method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(
        curve.of(logit), best.x, atol=1e-4
    )  # what gradients by differences give


def test_the_curve_corrects_small_probabilities_of_a_rare_class():
    """Odds that were predicted as 1 to 150 are 1 to 15, those below 1 to 300 are right."""
    logit = np.repeat([-7.0, -6.4, -5.7, -5.0, -4.4], 20_000)
    true = np.where(logit > -5.5, logit + np.log(10.0), logit)
    y = np.random.default_rng(0).random(len(logit)) < 1 / (1 + np.exp(-true))
    p = np.stack([1 / (1 + np.exp(logit)), 1 / (1 + np.exp(-logit))], axis=1)
    found = Calibration.of(np.array([0, 1]), ALL[:2], p, y.astype(int), None)
    z = log_odds(found.probabilities(p, np.array([0, 1]), ALL[:2]))[::20_000, 1]
    # Four standard errors of the logarithm of a count of 20 at the least, and of 190 above it.
    np.testing.assert_allclose(z[:3], [-7.0, -6.4, -5.7], atol=0.9)
    np.testing.assert_allclose(z[3:], np.log(10.0) + np.array([-5.0, -4.4]), atol=0.3)


@pytest.mark.parametrize("weight", [1e-30, 1e50])
def test_a_single_bin_of_any_weight_can_be_fitted(weight):
    p = np.tile([0.3, 0.7], (5, 1))
    y = np.array(["a", "b", "b", "b", "b"])
    found = Calibration.of(LABELS[:2], ALL[:2], p, y, np.full(5, weight))
    q = found.probabilities(p, LABELS[:2], ALL[:2])[0, 1]
    assert q == pytest.approx(0.8 if weight > 1 else 0.7, abs=1e-6)


def test_log_odds_of_all_probabilities_are_finite():
    p = np.array([[0.0, 0.0, 1.0], [0.5, 0.5, 0.0], [1e-300, 1.0, 1e-300]])
    assert np.isfinite(log_odds(p)).all()
    assert np.isfinite(log_odds(p[:, 1:])).all()


# Models


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"half_life": 50.0}, {"pooled_rows": 5.0}, {"feature_map": "rm2"}]
)
@pytest.mark.parametrize("classes", [2, 4])
def test_calibration_does_not_depend_on_the_chunks(classes, options):
    X, y = stream(rows=400, classes=classes)
    w = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    whole = BalancedRidgeClassifier(calibrate=True, **options).partial_fit(X, y, sample_weight=w)
    for rows in (1, 7, 50, 200):
        parts = BalancedRidgeClassifier(calibrate=True, **options)
        for at in range(0, len(y), rows):
            s = slice(at, at + rows)
            parts.partial_fit(X[s], y[s], sample_weight=w[s])
        assert_same_calibration(parts._engine.state.calibration, whole._engine.state.calibration)
    pending = whole._engine.state.progressive.pending.rows
    first = 256 if options.get("feature_map") else 16  # a map is fixed by 256 rows
    assert first <= (w > 0).sum() - whole._engine.state.calibration.rows - pending < 1.2 * first
    single = BalancedRidgeClassifier(calibrate=True, **options)
    for x, label, weight in zip(X, y, w, strict=True):
        single.learn_one(x, label, weight)
    assert_same_calibration(single._engine.state.calibration, whole._engine.state.calibration)


@pytest.mark.slow
def test_events_are_calibrated_like_rows_in_which_late_features_are_zero():
    X, y = stream(rows=300, classes=3)
    X[:150, 4] = 0.0
    rows = BalancedRidgeClassifier(calibrate=True).partial_fit(X, y)
    events = Events(calibrate=True)
    for i, (x, label) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
        events.learn_one({f"x{j}": v for j, v in enumerate(x) if j < 4 or i >= 150}, label)
    assert_same_calibration(events._state.calibration, rows._engine.state.calibration)
    p = events.predict_stream_proba_one({f"x{j}": v for j, v in enumerate(X[0].tolist())})
    # By a curve of sums that are equal to 1e-8, where it may be 100 times as steep.
    np.testing.assert_allclose(
        [p[k] for k in range(3)], rows.predict_stream_proba(X[:1])[0], rtol=1e-6
    )


@pytest.mark.parametrize("classes", [2, 3])
def test_calibration_changes_stream_probabilities_only(classes):
    X, y = make_skewed_stream(500, 0, classes)
    plain = BalancedRidgeClassifier().fit(X, y)
    judged = BalancedRidgeClassifier(calibrate=True).fit(X, y)
    np.testing.assert_array_equal(judged.coef_, plain.coef_)
    np.testing.assert_array_equal(judged.predict_proba(X), plain.predict_proba(X))
    np.testing.assert_array_equal(
        judged.classes_[judged.predict_proba(X).argmax(1)], judged.predict(X)
    )
    p = judged.predict_stream_proba(X)
    assert np.abs(p - plain.predict_stream_proba(X)).max() > 1e-3
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    judged.calibrate = False
    np.testing.assert_array_equal(judged.predict_stream_proba(X), plain.predict_stream_proba(X))


def test_fifteen_rows_are_not_calibrated_and_the_link_is_exact():
    X, y = stream(rows=15)
    judged = BalancedRidgeClassifier(calibrate=True).fit(X, y)
    assert not judged._engine.state.calibration.rows
    plain = BalancedRidgeClassifier().fit(X, y)
    np.testing.assert_array_equal(judged.predict_stream_proba(X), plain.predict_stream_proba(X))


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_calibration_improves_the_odds_of_a_stream_with_long_tails(classes):
    X, y = make_skewed_stream(4000, 1, classes)
    more, truth = make_skewed_stream(4000, 2, classes)
    plain = loss(BalancedRidgeClassifier().fit(X, y).predict_stream_proba(more), truth)
    model = BalancedRidgeClassifier(calibrate=True).fit(X, y)
    assert loss(model.predict_stream_proba(more), truth) < 0.97 * plain
    before, after = model._engine.state.calibration.errors()
    assert after < 0.8 * before


@pytest.mark.slow
def test_merging_adds_calibration_counts_and_unlearning_keeps_them():
    X, y = stream(rows=300, classes=3)
    one, two = (BalancedRidgeClassifier(calibrate=True).fit(X[s], y[s])
                for s in (slice(0, 150), slice(150, None)))  # fmt: skip
    both = one.merge(two)
    merged = both._engine.state.calibration
    assert_same_calibration(
        merged, one._engine.state.calibration.merge(two._engine.state.calibration)
    )
    both.unlearn(X[:10], y[:10])
    assert_same_calibration(both._engine.state.calibration, merged)
    gone = y == 2
    rest = one.merge(two).unlearn(X[gone], y[gone])
    assert sorted(rest._engine.state.calibration.labels.tolist()) == [0, 1]
    assert np.isfinite(rest.predict_stream_proba(X)).all()


def test_bad_rows_do_not_change_the_calibration():
    X, y = stream(rows=100)
    model = BalancedRidgeClassifier(calibrate=True).fit(X, y)
    model.partial_fit(X, y)
    before = model._engine.state.calibration, model._engine.state.progressive, model.coef_
    bad = X.copy()
    bad[90, 1] = np.nan
    for rows in (bad, X * 1e300):
        with pytest.raises(ValueError, match="feature"):
            model.partial_fit(rows, y)
        assert model._engine.state.calibration is before[0]
        assert model._engine.state.progressive is before[1]
        np.testing.assert_array_equal(model.coef_, before[2])


def test_a_copy_is_calibrated_like_the_original():
    import copy
    import pickle

    X, y = stream(rows=400)
    model = BalancedRidgeClassifier(calibrate=True).fit(X[:250], y[:250])
    other, third = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    for one in (model, other, third):
        one.partial_fit(X[250:], y[250:])
        assert_same_calibration(one._engine.state.calibration, model._engine.state.calibration)


# Files


@pytest.mark.slow
@pytest.mark.parametrize("features", [None, "rm2"])
def test_calibration_survives_a_file(tmp_path, features):
    X, y = stream(rows=300, classes=3)
    names = np.array(["low", "middle", "high"])[y]
    model = BalancedRidgeClassifier(calibrate=True, feature_map=features).fit(X, names)
    model.save(tmp_path / "m")
    loaded = BalancedRidgeClassifier.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_stream_proba(X), model.predict_stream_proba(X))
    assert_same_calibration(loaded._engine.state.calibration, model._engine.state.calibration)
    for one in (model, loaded):
        one.partial_fit(X[:200], names[:200])
    model.save(tmp_path / "m")
    again = BalancedRidgeClassifier.load(tmp_path / "m")
    for one in (model, loaded, again):
        one.partial_fit(X[:200], names[:200])
        assert_same_calibration(one._engine.state.calibration, model._engine.state.calibration)


def wrong(name, change):
    def apply(contents):
        arrays = dict(contents.arrays)
        arrays[name] = change(arrays[name].copy())
        return replace(contents, arrays=arrays)

    return apply


def set_at(value, *at):
    def change(array):
        array[at] = value
        return array

    return change


def change_facts(**changes):
    def apply(contents):
        calibration = {**contents.facts["calibration"], **changes}
        return replace(contents, facts={**contents.facts, "calibration": calibration})

    return apply


COUNTS, SUMS = "calibration counts", "calibration sums"


@pytest.mark.parametrize(
    "change",
    [
        wrong(COUNTS, set_at(-1.0, 0, 0, 0)),
        wrong(COUNTS, set_at(1e70, 0, 0, 31)),
        wrong(COUNTS, lambda array: array[:, :, 1:]),
        wrong(COUNTS, lambda array: array[:1]),
        wrong(COUNTS, lambda array: array * 0.0),
        wrong(SUMS, set_at(1e9, 0, 31)),
        wrong(SUMS, set_at(-1e9, 1, BINS - 1)),
        wrong(SUMS, lambda array: array[:, ::-1].copy()),
        wrong(SUMS, lambda array: array[0]),
        change_facts(rows=-1),
        change_facts(rows=1.5),
        change_facts(rows=True),
        change_facts(labels={"type": "int64", "values": [0, 7]}),
        change_facts(labels={"type": "int64", "values": [0, 0]}),
        change_facts(more=1),
        lambda c: replace(c, facts={**c.facts, "calibration": None}),
        lambda c: replace(c, facts={k: v for k, v in c.facts.items() if k != "calibration"}),
        lambda c: replace(c, arrays={k: v for k, v in c.arrays.items() if k != SUMS}),
    ],
)
def test_impossible_calibration_counts_are_refused(change):
    X, y = stream(rows=300)
    contents = BalancedRidgeClassifier(calibrate=True).fit(X, y)._contents()
    BalancedRidgeClassifier._from_contents(contents)
    with pytest.raises(ModelFileError):
        BalancedRidgeClassifier._from_contents(change(contents))
