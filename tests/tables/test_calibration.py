"""Rows scored by command line before they are learned: kept, merged, inspected."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from builders import assert_close, learn

from counterpoise import AutoClassifier, BalancedRidgeClassifier
from counterpoise.readers import source
from counterpoise.tables.model import TableModel, learn_inputs


def table(rows, seed=0):
    """Long tails to one side, so that the exact link is wrong."""
    rng = np.random.default_rng(seed)
    y = rng.choice(["no", "yes"], rows, p=[0.8, 0.2])
    X = np.exp(rng.standard_normal((rows, 3)) + 1.5 * np.eye(3)[0] * (y == "yes")[:, None])
    return pd.DataFrame(X.round(6), columns=["a", "b", "c"]).assign(target=y)


def stream_of(run, model, file):
    return pd.read_csv(io.StringIO(run("predict", model, file).out))["proba_stream_yes"].to_numpy()


@pytest.fixture
def files(run):
    for seed, name in enumerate(["one.csv", "two.csv"]):
        table(1500, seed).to_csv(name, index=False)


@pytest.mark.slow
def test_calibration_corrects_stream_probabilities(run, files):
    learn(run, "m.st", "one.csv", more=["--calibrate"])
    learn(run, "plain.st", "one.csv")
    model = BalancedRidgeClassifier.load("m.st")
    plain = BalancedRidgeClassifier.load("plain.st")
    assert model.calibrate
    assert not plain.calibrate
    pending = model._engine.state.progressive.pending.rows
    assert model._engine.state.calibration.rows == 1500 - 16 - pending
    assert plain._engine.state.calibration is None
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    rows = table(1500, 1)
    X, truth = rows[["a", "b", "c"]].to_numpy(), (rows["target"] == "yes").to_numpy()
    p = stream_of(run, "m.st", "two.csv")
    np.testing.assert_allclose(p, model.predict_stream_proba(X)[:, 1], rtol=1e-12)

    def loss(p):
        return -np.log(np.where(truth, p, 1 - p)).mean()

    assert loss(p) < 0.98 * loss(stream_of(run, "plain.st", "two.csv"))
    found = json.loads(run("inspect", "m.st", "--json").out)["calibration"]
    assert found["rows"] == 1484 - pending
    assert found["corrected"] < found["error"]
    assert f"rows used for calibration\t{1484 - pending}" in run("inspect", "m.st").out
    assert json.loads(run("inspect", "plain.st", "--json").out)["calibration"] is None


@pytest.mark.slow
def test_the_option_is_saved_and_averaging_models_do_not_have_it(run, files):
    learn(run, "m.st", "one.csv")
    done = run("learn", "two.csv", "-m", "m.st", "--calibrate", code=2)
    assert "--calibrate is yes, but m.st was learned with no" in done.err
    learn(run, "m.st", "two.csv")
    assert BalancedRidgeClassifier.load("m.st")._engine.state.calibration is None


@pytest.mark.slow
def test_an_averaging_model_of_the_shell_calibrates(run, files):
    learn(run, "auto.st", "one.csv", "two.csv", more=["--feature-map", "auto", "--calibrate"])
    learn(run, "plain.st", "one.csv", "two.csv", more=["--feature-map", "auto"])
    assert AutoClassifier.load("auto.st").calibrate
    found = json.loads(run("inspect", "auto.st", "--json").out)
    assert found["calibration"]["rows"] > 0
    cost = ["--cost-miss", "20"]
    assert "not calibrated" in run("predict", "plain.st", "one.csv", *cost).err
    assert "not calibrated" not in run("predict", "auto.st", "one.csv", *cost).err
    done = run("learn", "two.csv", "-m", "plain.st", "--calibrate", code=2)
    assert "--calibrate is yes, but plain.st was learned with no" in done.err


@pytest.mark.slow
def test_calibration_counts_of_merged_files_add_up_even_if_one_has_none(run, files):
    for name in ("one", "two"):
        learn(run, f"{name}.st", f"{name}.csv", more=["--calibrate"])
    learn(run, "plain.st", "two.csv")
    run("merge", "one.st", "two.st", "-o", "both.st")
    run("merge", "one.st", "plain.st", "-o", "half.st")
    one, two, both, half = (
        BalancedRidgeClassifier.load(f"{name}.st")._engine.state
        for name in ("one", "two", "both", "half")
    )
    one, two = (state.calibration.merge(state.progressive.pending) for state in (one, two))
    both, half = both.calibration, half.calibration
    np.testing.assert_array_equal(both.counts, one.counts + two.counts)
    np.testing.assert_array_equal(half.counts, one.counts)
    run("unlearn", "both.st", "two.csv")
    left = BalancedRidgeClassifier.load("both.st")._engine.state.calibration
    np.testing.assert_array_equal(left.counts, both.counts)


@pytest.mark.slow
def test_a_run_in_two_parts_has_the_calibration_of_one_run(tmp_path):
    """The scoring model is in the file."""
    table(1500).to_csv(tmp_path / "one.csv", index=False)

    def learn_file(name, chunks=1000):
        learner, seen = (
            TableModel.open(str(tmp_path / name), {"label": "target"}, {"calibrate": True}, 100),
            [],
        )
        inputs = [(source(str(tmp_path / "one.csv")), "one.csv")]
        stop, watch = lambda: len(seen) >= chunks, lambda *chunk: seen.append(chunk)
        learn_inputs(learner, inputs, 300, stop, watch)
        return (tmp_path / name).read_bytes()

    whole = learn_file("whole")
    learn_file("parts", 5)
    assert BalancedRidgeClassifier.load(tmp_path / "parts").class_count_.sum() == 500
    assert learn_file("parts") == whole


@pytest.mark.parametrize("kind", ["number", "datetime"])
def test_a_late_missing_value_is_scored_the_same_in_chunks_of_any_size(run, kind):
    """The scoring model takes the mean at its boundary for a value that was never missing then."""
    rows, rng = table(1500), np.random.default_rng(1)
    if kind == "datetime":
        seconds = pd.to_timedelta(rng.integers(0, 4 * 10**7, 1500), unit="s")
        rows["a"] = (pd.Timestamp("2024-01-01") + seconds).strftime("%Y-%m-%d %H:%M:%S")
    rows.loc[(rng.random(1500) < 0.2) & (np.arange(1500) > 700), "a"] = None
    rows.to_csv("late.csv", index=False)
    for size in (8192, 37):
        more = ["--calibrate", "--chunk-rows", str(size)]
        learn(run, f"{size}.st", "late.csv", more=more)
    one, two = (BalancedRidgeClassifier.load(f"{n}.st")._engine.state for n in (8192, 37))
    assert_close(one.calibration.sums, two.calibration.sums, 1e-9)
    assert_close(stream_of(run, "8192.st", "late.csv"), stream_of(run, "37.st", "late.csv"), 1e-9)


@pytest.mark.slow
def test_weights_of_rows_count(run):
    rows, more = table(600).assign(w=2.0), ["--ridge", "0.1", "--calibrate"]
    rows.to_csv("w.csv", index=False)
    rows.drop(columns="w").to_csv("once.csv", index=False)
    learn(run, "w.st", "w.csv", more=["--weight", "w", *more])
    learn(run, "once.st", "once.csv", more=more)
    twice, once = (
        BalancedRidgeClassifier.load(name)._engine.state.calibration for name in ("w.st", "once.st")
    )
    assert twice.rows == once.rows
    assert_close(twice.counts.sum(), 2 * once.counts.sum())
