"""Labels that come later: each event is learned exactly once, in the order of the labels."""

import os
import shutil
import signal

import pandas as pd
import pytest
from delayed_labels import DYING, OPTIONS, PLAIN, model_contents, of_day, write_days

from counterpoise.tables.event_database import EventDatabase, pending_path

DAYS = 5
POINTS = [
    ("_add_batch", "after", 1), ("_add_batch", "before", 4), ("plan", "before", 2),
    ("plan", "after", 2), ("replace", "before", 2), ("replace", "after", 2),
    ("settle", "before", 2), ("settle", "after", 2), ("_carry_out", "after", 1),
    ("_commit", "before", 1), ("compact", "before", 1), ("fsync", "after", 3),
]  # fmt: skip
CHUNKS = ["--chunk-rows", "64", "--checkpoint-every", "64"]


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    folder = tmp_path_factory.mktemp("days")
    write_days(folder, DAYS, 150, 3)
    return folder


@pytest.fixture
def here(days, tmp_path):
    for file in days.glob("*.csv"):
        shutil.copy(file, tmp_path)
    return tmp_path


def learn_joined(run, chunks=()):
    """The model of the joined rows, in the order in which their labels came."""
    for day in range(1, DAYS):
        run("learn", f"joined{day:02d}.csv", *PLAIN, *chunks)
    return model_contents("joined")


@pytest.mark.slow
def test_late_labels_are_learned_like_the_joined_rows(run, here):
    for day in range(DAYS):
        run(*of_day(day))
    assert model_contents("m") == learn_joined(run)
    with EventDatabase(pending_path("m")) as store:
        rows = sum(len((here / f"labels{k:02d}.csv").read_text().split()) - 1 for k in range(DAYS))
        assert len(store) == 150 * DAYS - rows


@pytest.mark.slow
def test_the_same_files_again_change_nothing(run, here):
    for day in range(DAYS):
        run(*of_day(day))
    before = (here / "m").read_bytes()
    for day in (0, 3):
        assert "no new events" in run(*of_day(day)).err
    (here / "day03.csv").rename(here / "another.csv")
    (here / "labels03.csv").rename(here / "others.csv")
    run("learn", "another.csv", "--labels", "others.csv", "--model", "m")
    assert model_contents("m") == learn_joined(run)
    assert (here / "m").stat().st_size == pytest.approx(len(before), abs=40)


@pytest.mark.slow
def test_learning_continues_in_files_that_grow(run, here):
    """Events and labels of all days in two growing files."""
    for day in range(DAYS):
        for name, part in (("events.csv", "day"), ("labels.csv", "labels")):
            text = (here / f"{part}{day:02d}.csv").read_text()
            with open(name, "a") as file:
                file.write(text if not day else text.split("\n", 1)[1])
        run("learn", "events.csv", "--labels", "labels.csv", *OPTIONS)
    assert model_contents("m")[5] == learn_joined(run)[5]


@pytest.mark.slow
def test_a_kill_at_any_point_loses_and_repeats_no_row(run, forks, here):
    """A short version of benchmarks/proofs/kills.py, at chosen points."""
    for day in range(DAYS):
        run(*of_day(day), *CHUNKS)
    whole = (here / "m").read_bytes()
    assert model_contents("m") == learn_joined(run, CHUNKS)
    for point in POINTS:
        (here / "m").unlink()
        os.unlink(pending_path("m"))
        died = 0
        for day in range(DAYS):
            process = forks.start(["-c", DYING, *point, *of_day(day), *CHUNKS], cwd=here)
            died += process.wait() == -signal.SIGKILL
            run(*of_day(day), *CHUNKS)
        assert died, point
        assert (here / "m").read_bytes() == whole, point


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_events_of_other_formats(run, here, kind):
    """Types are kept while events wait; labels may be text."""
    for day in range(DAYS):
        for name in ("day", "joined"):
            frame = pd.read_csv(f"{name}{day:02d}.csv", dtype={"payment": str})
            frame["big"] = frame.amount > 50
            if kind == "jsonl":
                frame.to_json(f"{name}{day:02d}.jsonl", orient="records", lines=True)
            else:
                frame.to_parquet(f"{name}{day:02d}.parquet")
        run("learn", f"day{day:02d}.{kind}", "--labels", f"labels{day:02d}.csv", *OPTIONS)
    for day in range(1, DAYS):
        run("learn", f"joined{day:02d}.{kind}", *PLAIN)
    assert model_contents("m") == model_contents("joined")


@pytest.mark.slow
def test_a_model_of_labeled_rows_continues_with_late_labels(run, here):
    run("learn", "joined01.csv", *PLAIN)
    shutil.copy("joined", "m")
    run("learn", "day02.csv", "day01.csv", "day00.csv", "--id", "payment", "--model", "m")
    rows = (here / "labels02.csv").read_text().splitlines(keepends=True)
    (here / "some.csv").write_text("".join(rows))
    run("learn", "--labels", "some.csv", "--model", "m")
    run("learn", "joined02.csv", "--model", "joined")
    assert model_contents("m")[5] == model_contents("joined")[5]


# Bad input: one message, and all is as it was

BAD = {
    "events without the id": (
        ("day01.csv", lambda text: text.replace("payment", "number")),
        "no column 'payment', named by --id"
    ),
    "labels without the id": (
        ("labels02.csv", lambda text: text.replace("payment", "number")),
        "no column 'payment', named by --id"
    ),
    "labels without the label": (
        ("labels02.csv", lambda text: text.replace("fraud", "bad")),
        "no column 'fraud', named by --label"
    ),
    "an id twice among the events": (
        ("day01.csv", lambda text: text + text.splitlines()[3] + "\n"),
        "day01.csv, row 151: payment '0000152' is also that of day01.csv, row 3",
    ),
    "an id that waits": (
        ("day01.csv", lambda text: text.replace("0000152", "0000004")),
        "day01.csv, row 3: payment '0000004' is also that of day00.csv, row 5",
    ),
    "an id twice among the labels": (
        ("labels02.csv", lambda text: text + text.splitlines()[1] + "\n"),
        "is also that of labels02.csv, row 1"
    ),
    "no id": (("day01.csv", lambda text: text + ",5,D,3\n"), "row 151: no id in column 'payment'"),
    "no label": (("labels02.csv", lambda text: text + "0000003,\n"), "no label in column 'fraud'"),
    "an event that is not a number": (
        ("day01.csv", lambda text: text + "888,five,D,3\n"),
        "row 151: column 'amount' contains 'five'"
    ),
    "events with another column": (
        ("day01.csv", lambda text: text.replace("hour", "minute")),
        "day01.csv has no column 'hour', which the model has learned; to learn tables of both "
        "kinds, with 0 where a column is absent, use --allow-new-columns",
    ),
    "events with labels": (
        ("day01.csv", lambda text: text.replace("hour", "fraud")),
        "'fraud'"
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("what", BAD)
def test_bad_events_and_labels(run, here, what):
    (name, spoil), message = BAD[what]
    run(*of_day(0))
    run("learn", "--labels", "labels01.csv", *OPTIONS)
    good, before = (here / name).read_text(), (here / "m").read_bytes()
    (here / name).write_text(spoil(good))
    if name == "labels02.csv":
        run("learn", "day01.csv", *OPTIONS)
    failed = run("learn", "day01.csv", "--labels", "labels02.csv", *OPTIONS, code=2)
    assert message in failed.err
    assert len([line for line in failed.err.splitlines() if "new events" not in line]) == 1
    assert (here / "m").read_bytes() == before
    (here / name).write_text(good)
    run("learn", "day01.csv", "--labels", "labels02.csv", *OPTIONS)  # and learning continues
    run("learn", "joined01.csv", *PLAIN)
    run("learn", "joined02.csv", *PLAIN)
    assert model_contents("m")[5] == model_contents("joined")[5]


@pytest.mark.slow
def test_an_event_cannot_have_two_labels(run, here):
    run(*of_day(0))
    run(*of_day(1))
    first = (here / "labels01.csv").read_text().splitlines()[1].split(",")[0]
    (here / "again.csv").write_text(f"payment,fraud\n{first},1\n")
    before = (here / "m").read_bytes()
    failed = run("learn", "--labels", "again.csv", "--model", "m", code=2)
    assert f"payment '{first}' has its label already" in failed.err
    assert (here / "m").read_bytes() == before


@pytest.mark.slow
def test_an_older_model_is_noticed(run, here):
    run(*of_day(0))
    run(*of_day(1))
    shutil.copy("m", "old")
    run(*of_day(2))
    shutil.copy("old", "m")
    failed = run(*of_day(3), code=2)
    assert "belongs to another state of" in failed.err


@pytest.mark.slow
def test_contradictory_options_are_refused(run, here):
    needs = ["--label", "fraud", "--model", "m"]
    assert "--id" in run("learn", "day00.csv", "--labels", "labels00.csv", *needs, code=2).err
    assert "name the files" in run("learn", *needs, code=2).err
    alone = run("learn", "day00.csv", "--expire", "90d", *needs, code=2).err
    assert "--expire requires --id and --labels" in alone
    soon = run("learn", "day00.csv", "--id", "payment", "--expire", "soon", *needs, code=2).err
    assert "must be a time such as 12h, 90d or 2w; got 'soon'" in soon
    twice = run("learn", "-", "--labels", "-", "--id", "payment", *needs, code=2).err
    assert "cannot be events and labels; name a file" in twice
    run(*of_day(0))
    assert "joins by 'payment'" in run("learn", "day01.csv", "--id", "hour", *needs, code=2).err
    (here / "x.pending").write_text("this is not a database, and not empty either " * 20)
    strange = run(
        "learn", "day01.csv", "--id", "payment", "--label", "fraud", "--model", "x", code=2
    )
    assert "x.pending is damaged: file is not a database" in strange.err
