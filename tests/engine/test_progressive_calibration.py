"""Calibration in every API: one result, independent of chunks; fit is independent of the order."""

import warnings

import numpy as np
import pandas as pd
import pytest

from counterpoise import BalancedRidgeClassifier, CostSensitiveClassifier, TableClassifier
from counterpoise.engine.progressive_calibration import LabelOrder
from counterpoise.river import BalancedRidgeClassifier as Events

NAMES = ["a", "b", "c"]
CURVE = 1e-5  # Newton's steps end where the loss falls by less than 1e-9 of itself


def table(rows=700, share=0.3, seed=0):
    """Rows with long tails, so that the exact link is wrong."""
    rng = np.random.default_rng(seed)
    y = (rng.random(rows) < share).astype(int)
    X = np.exp(rng.standard_normal((rows, 3))) + y[:, None] * [2.0, 0.5, 0.0]
    return pd.DataFrame(X.round(6), columns=NAMES).assign(y=y)


def assert_same_counts(one, two):
    assert one.rows == two.rows > 0
    np.testing.assert_array_equal(one.counts, two.counts)
    np.testing.assert_allclose(one.sums, two.sums, atol=1e-6)


def by_arrays(frame, rows):
    model = BalancedRidgeClassifier(calibrate=True)
    for at in range(0, len(frame), rows):
        part = frame[at : at + rows]
        model.partial_fit(part[NAMES], part["y"].to_numpy())
    return model._engine.state.calibration


def by_saved_arrays(frame, rows, path):
    model = BalancedRidgeClassifier(calibrate=True)
    for at in range(0, len(frame), rows):
        part = frame[at : at + rows]
        model.partial_fit(part[NAMES], part["y"].to_numpy()).save(path)
        model = BalancedRidgeClassifier.load(path)
    return model._engine.state.calibration


def by_events(frame):
    model = Events(calibrate=True)
    for event in frame.to_dict("records"):
        label = event.pop("y")
        model.learn_one(event, label)
    return model._state.calibration


def by_tables(frame, rows, parts):
    model = TableClassifier(BalancedRidgeClassifier(calibrate=True), chunk_rows=rows)
    for part in np.array_split(np.arange(len(frame)), parts):
        model.partial_fit(frame.iloc[part], "y")
    return model.estimator_._engine.state.calibration


def by_shell(run, frame, rows, parts):
    words = ["--label", "y", "-m", f"m{rows}.st", "--calibrate", "--chunk-rows", str(rows)]
    for k, part in enumerate(np.array_split(np.arange(len(frame)), parts)):
        frame.iloc[part].to_csv(f"{rows}-{k}.csv", index=False)
        run("learn", f"{rows}-{k}.csv", *words)
    return BalancedRidgeClassifier.load(f"m{rows}.st")._engine.state.calibration


@pytest.mark.slow
def test_every_api_has_the_same_counts_whatever_the_chunks(run, tmp_path):
    frame = table()
    whole = by_arrays(frame, len(frame))
    assert_same_counts(by_arrays(frame, 97), whole)
    assert_same_counts(by_saved_arrays(frame, 97, tmp_path / "m"), whole)
    assert_same_counts(by_events(frame), whole)
    assert_same_counts(by_tables(frame, 8192, 1), whole)
    assert_same_counts(by_tables(frame, 50, 3), whole)
    assert_same_counts(by_shell(run, frame, 8192, 1), whole)
    assert_same_counts(by_shell(run, frame, 60, 3), whole)


# Defaults


@pytest.mark.slow
def test_calibration_is_off_by_default_except_for_risks(run):
    frame = table(200)
    assert not BalancedRidgeClassifier().calibrate
    assert not Events().calibrate
    assert not TableClassifier().fit(frame, "y").estimator_.calibrate
    frame.to_csv("t.csv", index=False)
    run("learn", "t.csv", "--label", "y", "-m", "m.st")
    assert not BalancedRidgeClassifier.load("m.st").calibrate
    assert (
        CostSensitiveClassifier()
        .fit(frame[NAMES], frame["y"])
        .estimator_._engine.state.calibration.rows
        == 200
    )
    assert TableClassifier(CostSensitiveClassifier()).fit(frame, "y").estimator_.calibrate


@pytest.mark.slow
def test_costs_hint_at_calibration_once(run):
    table(200).to_csv("t.csv", index=False)
    run("learn", "t.csv", "--label", "y", "-m", "m.st")
    run("learn", "t.csv", "--label", "y", "-m", "c.st", "--calibrate")
    hint = "learn it with --calibrate"
    assert run("predict", "m.st", "t.csv", "--cost-miss", "5").err.count(hint) == 1
    assert run("evaluate", "m.st", "t.csv", "--cost-miss", "5").err.count(hint) == 1
    assert hint not in run("predict", "c.st", "t.csv", "--cost-miss", "5").err
    assert hint not in run("predict", "m.st", "t.csv").err


# The order of rows


@pytest.mark.parametrize("options", [{}, {"feature_map": "rm2"}, {"pooled_rows": 5.0}])
def test_fit_does_not_depend_on_the_order_of_rows(options):
    frame = table(1500)
    order = np.argsort(frame["y"], kind="stable")
    X, y = frame[NAMES].to_numpy(), frame["y"].to_numpy()
    if "feature_map" in options:  # which the first rows fix
        options["feature_map"] = BalancedRidgeClassifier(**options).fit(X, y).feature_map_
    model = BalancedRidgeClassifier(calibrate=True, **options).fit(X, y)
    by_label = BalancedRidgeClassifier(calibrate=True, **options).fit(X[order], y[order])
    assert_same_counts(by_label._engine.state.calibration, model._engine.state.calibration)
    np.testing.assert_allclose(
        by_label.predict_stream_proba(X), model.predict_stream_proba(X), rtol=CURVE
    )
    assert abs(by_label.predict_stream_proba(X)[:, 1].mean() - y.mean()) < 0.02


@pytest.mark.slow
def test_fit_on_a_frame_does_not_depend_on_the_order_of_rows():
    frame = table(1500)
    rng = np.random.default_rng(1)
    frame["kind"] = rng.choice(["u", "v", "w"], len(frame))
    frame.loc[rng.random(len(frame)) < 0.2, "b"] = np.nan
    order = np.argsort(frame["y"], kind="stable")
    one, two = (
        TableClassifier(BalancedRidgeClassifier(calibrate=True), chunk_rows=200).fit(rows, "y")
        for rows in (frame, frame.iloc[order])
    )
    assert one.estimator_._engine.state.calibration.rows == len(frame)
    np.testing.assert_allclose(
        two.predict_stream_proba(frame), one.predict_stream_proba(frame), rtol=CURVE
    )


def test_few_different_rows_are_spread_over_all_folds():
    """The feature is one boolean: a model without one of its values could not score that value."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, 2000)
    y = (rng.random(2000) < np.where(x == 1, 0.3, 0.05)).astype(int)
    model = BalancedRidgeClassifier(calibrate=True).fit(x[:, None], y)
    p = model.predict_stream_proba([[0], [1]])[:, 1]
    np.testing.assert_allclose(p, [y[x == 0].mean(), y[x == 1].mean()], atol=0.01)


def sorted_rows(rows=1000):
    frame = table(rows, 0.32)
    return frame.iloc[np.argsort(frame["y"], kind="stable")]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 1000])
@pytest.mark.parametrize("first", [0, 1])
def test_sorted_rows_do_not_count_and_one_warning_is_given(rows, first):
    frame = sorted_rows(400)
    frame = frame if first == 0 else frame[::-1]
    X, y = frame[NAMES].to_numpy(), frame["y"].to_numpy()
    model = BalancedRidgeClassifier(calibrate=True)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for at in range(0, len(y), rows):
            model.partial_fit(X[at : at + rows], y[at : at + rows])
    assert [str(one.message)[:17] for one in found] == ["labels are sorted"]
    calibration = model._engine.state.calibration
    assert calibration.rows < 20  # before the order could be tested
    assert abs(model.predict_stream_proba(X)[:, 1].mean() - y.mean()) < 0.1


def test_the_shell_prints_a_note_about_sorted_rows(run):
    sorted_rows().to_csv("t.csv", index=False)
    err = run("learn", "t.csv", "--label", "y", "-m", "m.st", "--calibrate").err
    assert err.count("labels are sorted") == 1
    err = run("learn", "t.csv", "--label", "y", "-m", "plain.st").err
    assert "sorted" not in err


@pytest.mark.slow
def test_tables_and_events_warn_about_sorted_rows():
    frame = sorted_rows(300)
    with pytest.warns(UserWarning, match="labels are sorted"):
        TableClassifier(BalancedRidgeClassifier(calibrate=True)).partial_fit(frame, "y")
    with pytest.warns(UserWarning, match="labels are sorted"):
        by_events(frame)


@pytest.mark.slow
@pytest.mark.parametrize("shares", [[0.999, 0.001], [0.5, 0.5], [0.6, 0.3, 0.1]])
def test_random_labels_are_never_taken_for_sorted_ones(shares):
    """20 streams; a single false alarm has a probability below 1e-6."""
    for seed in range(20):
        y = np.random.default_rng(seed).choice(len(shares), 20_000, p=shares)
        order, rows = LabelOrder(), 0
        for at in range(0, len(y), 500):
            order, rows = order.with_rows(y[at : at + 500]), rows + 500
            order = order.test(rows)
        assert not order.was_sorted


@pytest.mark.parametrize("share", [0.002, 0.05, 0.5])
def test_sorted_labels_are_found_after_a_random_stream(share):
    rng = np.random.default_rng(0)
    y = (rng.random(20_000) < share).astype(int)
    order, rows = LabelOrder(), 0
    for part in (y, np.sort(y)):
        for at in range(0, len(part), 1000):
            order, rows = order.with_rows(part[at : at + 1000]), rows + 1000
            order = order.test(rows)
        assert order.is_sorted == (part is not y)
    for at in range(0, len(y), 1000):  # and are over when the order is random again
        order, rows = order.with_rows(y[at : at + 1000]), rows + 1000
        order = order.test(rows)
    assert not order.is_sorted


def test_a_base_rate_that_falls_is_not_an_order():
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.random(20_000) < share for share in (0.3, 0.01, 0.0005)]).astype(int)
    order, rows = LabelOrder(), 0
    for at in range(0, len(y), 1000):
        order, rows = order.with_rows(y[at : at + 1000]), rows + 1000
        order = order.test(rows)
        assert not order.was_sorted


# Classes that decay to nothing


def make_clocked_table():
    """A class that is not seen any more, and one row of a mistyped year."""
    frame = table(300)
    frame["at"] = pd.date_range("2024-01-01", periods=len(frame), freq="h").astype(str)
    late = frame[frame["y"] == 0][:1].assign(at="2204-01-01 00:00:00")
    return frame, late


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the latest row is of 2204")
def test_a_class_that_has_decayed_loses_its_counts_and_the_file_can_be_loaded(run):
    frame, late = make_clocked_table()
    frame.to_csv("t.csv", index=False)
    late.to_csv("late.csv", index=False)
    words = ["--label", "y", "-m", "m.st"]
    clock = ["--timestamp", "at", "--half-life", "7d", "--calibrate"]
    run("learn", "t.csv", *words, *clock)
    assert BalancedRidgeClassifier.load("m.st")._engine.state.calibration.rows > 0
    run("learn", "late.csv", *words, "--allow-future")
    model = BalancedRidgeClassifier.load("m.st")
    assert model.classes_.tolist() == [0]
    assert model._engine.state.calibration is None
    run("predict", "m.st", "t.csv")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the latest row is of 2204")
@pytest.mark.parametrize("kind", ["arrays", "events"])
def test_a_class_that_has_decayed_loses_its_counts_in_python(kind, tmp_path):
    frame, late = make_clocked_table()
    both = pd.concat([frame, late])
    t = pd.to_datetime(both["at"]).astype("datetime64[s]").to_numpy()
    t = t.astype(np.int64).astype(float)
    if kind == "arrays":
        model = BalancedRidgeClassifier(calibrate=True, half_life="7d")
        model.partial_fit(both[NAMES][:-1], both["y"][:-1], t=t[:-1])
        model.partial_fit(both[NAMES][-1:], both["y"][-1:], t=t[-1:])
        state = model._engine.state
    else:
        model = Events(calibrate=True, half_life="7d")
        for event, label, when in zip(
            both[NAMES].to_dict("records"), both["y"].tolist(), t.tolist(), strict=True
        ):
            model.learn_one(event, label, t=when)
        state = model._state
    assert not state.calibration.rows
    model.save(tmp_path / "m")
    type(model).load(tmp_path / "m")


def test_what_cannot_be_loaded_is_not_saved(tmp_path):
    """A fault of our own, made by hand: the older file stays."""
    frame = table(100)
    model = BalancedRidgeClassifier(calibrate=True).fit(frame[NAMES], frame["y"])
    model.save(tmp_path / "m")
    before = (tmp_path / "m").read_bytes()
    model._engine.state.calibration.counts[0, 0, 0] = -1.0
    with pytest.raises(ValueError, match="not written, because it could not be loaded"):
        model.save(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == before


def test_fit_does_not_depend_on_the_names_of_columns():
    rng = np.random.default_rng(0)
    y = (rng.random(400) < 0.2).astype(int)
    X = rng.standard_normal((400, 3)) + y[:, None]
    plain = BalancedRidgeClassifier(calibrate=True).fit(X, y).predict_stream_proba(X)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    named = BalancedRidgeClassifier(calibrate=True).fit(frame, y).predict_stream_proba(frame)
    np.testing.assert_array_equal(named, plain)
