"""Rows of files, frames and events that decay by the clock, or by class: the same model."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from counterpoise import AutoClassifier, BalancedRidgeClassifier, TableClassifier
from counterpoise.ledger.synthetic import payments

HOUR = 3600.0


@pytest.fixture(scope="module")
def table():
    return payments(days=20, rows=30)[0].drop_columns("country")


def arrays(table):
    """Features, labels, and times in seconds."""
    X = np.column_stack([table[name].to_numpy() for name in ("amount", "age", "night")])
    t = table["at"].to_numpy().astype("datetime64[s]").astype(float)
    return X, np.array(table["fraud"].to_pylist()), t


def assert_close(model, wanted):
    """Equal to rounding, which any chunking keeps to 1e-10."""
    assert np.allclose(model.coef_, wanted.coef_, rtol=1e-10, atol=1e-14)
    assert np.allclose(model.class_count_, wanted.class_count_, rtol=1e-10)


@pytest.mark.slow
def test_files_decay_by_a_column_of_times(run, tmp_path, table):
    X, y, t = arrays(table)
    late, early = table.slice(len(table) // 2), table.slice(0, len(table) // 2)
    pa.csv.write_csv(late, tmp_path / "late.csv")
    pa.csv.write_csv(early, tmp_path / "early.csv")
    words = (
        "--label",
        "fraud",
        "--timestamp",
        "at",
        "--half-life",
        "50h",
        "-m",
        "m",
        "--no-calibrate",
    )
    run("learn", "late.csv", *words, "--chunk-rows", "100")
    run("learn", "early.csv", "-m", "m")  # old rows come later: their weight depends on their age
    model = BalancedRidgeClassifier.load(tmp_path / "m")
    wanted = BalancedRidgeClassifier().fit(X, y, 2.0 ** ((t - t.max()) / (50 * HOUR)))
    assert_close(model, wanted)
    assert list(model.feature_names_in_) == ["amount", "age", "night"]
    run("learn", "early.csv", *words[:-3], "-m", "n", "--no-calibrate")
    run("learn", "late.csv", *words[:-3], "-m", "o", "--no-calibrate")
    run("merge", "n", "o", "-o", "both")
    assert_close(BalancedRidgeClassifier.load(tmp_path / "both"), wanted)
    plain = table.drop_columns(["at", "fraud"])  # rows to predict need no time
    pa.csv.write_csv(plain, tmp_path / "new.csv")
    scores = [float(line.split(",")[1]) for line in run("predict", "m", "new.csv").out.split()[1:]]
    assert len(scores) == len(table)
    assert "half_life" in run("inspect", "m").out


def test_frames_and_events_decay_equally(tmp_path, table):
    from counterpoise.river import BalancedRidgeClassifier as Events

    X, y, t = arrays(table)
    inside = BalancedRidgeClassifier(half_life="50h")
    frame = TableClassifier(inside, label="fraud", columns={"at": "timestamp"}).fit(table)
    wanted = BalancedRidgeClassifier().fit(X, y, 2.0 ** ((t - t.max()) / (50 * HOUR)))
    assert_close(frame.estimator_, wanted)
    frame.save(tmp_path / "m")
    frame = TableClassifier.load(tmp_path / "m")
    assert frame.columns == {"at": "timestamp"}
    assert frame.partial_fit(table.slice(0, 0)).estimator_.half_life == "50h"
    events, many = Events(half_life="50h"), Events(half_life="50h")
    order = np.random.default_rng(0).permutation(len(y))
    for i in order.tolist():
        row = dict(zip(("amount", "age", "night"), X[i].tolist(), strict=True))
        events.learn_one(row, y[i].item(), t=t[i])
        events.predict_one(row)
    names = table.select(["amount", "age", "night"])
    many.learn_many(names.to_pandas(), y.tolist(), t=table["at"].to_pandas())
    events.save(tmp_path / "events")
    row = dict(zip(("amount", "age", "night"), X[0].tolist(), strict=True))
    p = dict(
        zip(wanted.classes_.tolist(), wanted.predict_stream_proba(X[:1])[0].tolist(), strict=True)
    )
    half, rest = Events(half_life="50h"), Events(half_life="50h")
    cut = len(y) // 3
    half.learn_many(names.slice(cut).to_pandas(), y[cut:].tolist(), t=t[cut:])
    rest.learn_many(names.slice(0, cut).to_pandas(), y[:cut].tolist(), t=t[:cut])
    for model in (events, many, Events.load(tmp_path / "events"), half.merge(rest)):
        assert model.predict_stream_proba_one(row) == pytest.approx(p, rel=1e-9)
    with pytest.raises(ValueError, match="pass t="):
        events.learn_one(row, "ok")


def test_the_command_line_accepts_a_half_life_for_each_class(run, tmp_path, table):
    X, y, _ = arrays(table)
    pa.csv.write_csv(table, tmp_path / "t.csv")
    words = ("--label", "fraud", "--drop", "at", "--half-life", "fraud=20,ok=300", "-m", "m")
    run("learn", "t.csv", *words)
    wanted = BalancedRidgeClassifier(half_life={"fraud": 20.0, "ok": 300.0}).fit(X, y)
    assert_close(BalancedRidgeClassifier.load(tmp_path / "m"), wanted)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--half-life", "7d"], "requires the time of each row; name its column with --timestamp"),
        (
            ["--half-life", "7", "--timestamp", "at"],
            "requires a half-life; give a time such as 7d",
        ),
        (
            ["--half-life", "soon", "--timestamp", "at"],
            "or a time such as 12h, 7d or 2w; got 'soon'",
        ),
        (["--half-life", "7d", "--timestamp", "when"], "has no column 'when'"),
        (["--half-life", "7d", "--timestamp", "fraud"], "fraud"),
        (["--half-life", "7d", "--timestamp", "at", "--feature-map", "auto"], "decays by rows"),
    ],
)
def test_an_impossible_clock_is_reported(run, tmp_path, table, words, message):
    pa.csv.write_csv(table, tmp_path / "t.csv")
    found = run("learn", "t.csv", "--label", "fraud", "-m", "m", *words, code=2)
    assert message in " ".join(found.err.replace("│", " ").split())
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("cell", "message"),
    [("", "row 5: no value in column 'at', the time of the row"), ("soon", "'soon'")],
)
def test_a_row_without_a_time_is_reported_and_no_row_is_learned(
    run, tmp_path, table, cell, message
):
    pa.csv.write_csv(table, tmp_path / "t.csv")
    words = ("--label", "fraud", "--timestamp", "at", "--half-life", "50h", "-m", "m")
    run("learn", "t.csv", *words)
    before = (tmp_path / "m").read_bytes()
    lines = (tmp_path / "t.csv").read_text().splitlines()
    lines[5] = cell + lines[5][lines[5].index(",") :]
    (tmp_path / "bad.csv").write_text("\n".join(lines) + "\n")
    found = run("learn", "bad.csv", "-m", "m", "--allow-overlap", code=2)
    assert message in " ".join(found.err.split())
    assert (tmp_path / "m").read_bytes() == before


def test_averaging_models_cannot_decay_by_the_clock(table):
    with pytest.raises(ValueError, match="half_life"):
        TableClassifier(AutoClassifier(), label="fraud", columns={"at": "timestamp"}).fit(table)


def test_a_check_accepts_times_without_a_half_life(run, tmp_path, table):
    pa.csv.write_csv(table, tmp_path / "t.csv")
    words = ("check", "t.csv", "--label", "fraud", "--timestamp", "at")
    assert "0 problems found" in run(*words).err
    run("learn", "t.csv", "--label", "fraud", "--timestamp", "at", "--half-life", "7d", "-m", "m")
    assert "0 problems found" in run(*words, "-m", "m").err
    bad = table.to_pandas()
    bad["at"] = bad["at"].astype(str)
    bad.loc[2, "at"] = "soon"
    bad.to_csv("bad.csv", index=False)
    assert "bad.csv, row 3: " in run("check", "bad.csv", *words[2:], code=1).out
