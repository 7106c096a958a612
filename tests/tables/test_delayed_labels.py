"""Pending events: formats, options, revisions, erasure, expiry, damage and full disks."""

import json
import os
import random
import shutil
import signal
import stat
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from builders import assert_close, write_frame
from delayed_labels import DYING, NightlyJob, spoil_store

from counterpoise.estimators.auto import wrap_engine
from counterpoise.tables.event_database import EventDatabase, pending_path
from counterpoise.tables.model import TableModel

ROWS = 60
LEARN = ["--id", "id", "--label", "y", "--drop", "customer", "--model", "m"]


def payments(day, rows=ROWS):
    """Payments of a day with their labels."""
    rng = np.random.default_rng(day)
    y = rng.random(rows) < 0.3
    frame = {
        "id": [f"p{day}-{i:03d}" for i in range(rows)],
        "customer": [f"customer-{i % 9}" for i in range(rows)],
        "shop": [f"s{i % 4}" for i in range(rows)],
        "amount": rng.standard_normal(rows).round(6) + y,
        "y": np.where(y, "yes", "no"),
    }
    return pd.DataFrame(frame)


def events(frame, name):
    """Write a frame without its labels."""
    return write_frame(frame.drop(columns="y"), name)


def labels(frame, name):
    """Write the ids and labels of a frame."""
    return write_frame(frame[["id", "y"]], name)


def assert_learned(run, frame, *options):
    """The model of the store equals, to rounding, one that learned these rows."""
    if os.path.exists("batch"):
        os.unlink("batch")
    write_frame(frame.drop(columns=["id", "customer"]), "batch.csv")
    run("learn", "batch.csv", "--label", "y", "--model", "batch", *options)
    one, two = TableModel.load("m"), TableModel.load("batch")
    assert one.model.class_count.tolist() == two.model.class_count.tolist()
    order = [one.encoding.features.index(feature) for feature in two.encoding.features]
    assert len(order) == len(one.encoding.features)
    assert one.held[order].tolist() == two.held.tolist()
    assert_close(wrap_engine(one.model).coef_[:, order], wrap_engine(two.model).coef_, 1e-9)


def stored_bytes():
    """All bytes of the store and its companions."""
    return b"".join(
        Path(name).read_bytes() for name in sorted(os.listdir()) if name.startswith("m.pending")
    )


def contents():
    """All values in the tables of the store, batches decoded."""
    with EventDatabase(pending_path("m")) as store:
        tables = [store._read(n).to_pylist() for n in store.base.select("contents")]
        rows = [list(store.base.select(t).values()) for t in ("events", "labels", "learned")]
    return repr(tables) + repr(rows)


@pytest.mark.slow
def test_conditions_with_chunks_that_match_nothing(run, tmp_path):
    """Erasure reads chunks without a learned row, and chunks that match no condition."""
    frame = payments(0)
    run("learn", events(frame, "e.csv"), *LEARN, "--chunk-rows", "7")
    some = frame.iloc[:23]
    run("learn", "--labels", labels(some, "l.csv"), "--model", "m")
    printed = run("unlearn", "m", "--where", "customer=customer-3", "e.csv").err
    assert "e.csv: 3 rows unlearned" in printed
    assert "4 pending events erased" in printed
    printed = run("relabel", "m", "e.csv", "--where", "id=p0-005", "--new-label", "yes").err
    some = some[some.customer != "customer-3"].copy()
    some.loc[some.id == "p0-005", "y"] = "yes"
    assert_learned(run, some)
    run("learn", "--labels", labels(frame.iloc[23:26], "more.csv"), "--model", "m")


@pytest.mark.slow
def test_options_of_events_create_the_model(run, tmp_path):
    frame = payments(0)
    options = ["--hash", "shop=4", "--ridge", "5", "--missing", "error", "--positive", "yes"]
    run("learn", events(frame, "e.csv"), *LEARN, *options)
    more = events(payments(1), "e1.csv")
    for option, message in (
        (["--ridge", "6"], "--ridge is 6, but m.pending was created with 5; leave the option"),
        (["--missing", "drop"], "--missing is drop, but m.pending was created with error"),
        (["--pooled-rows", "30"], "--pooled-rows is 30, but m.pending was created without it"),
    ):
        assert message in run("learn", more, "--id", "id", *option, "--model", "m", code=2).err
    run("learn", more, "--id", "id", "--ridge", "5", "--model", "m")
    run("learn", "--labels", labels(frame, "l.csv"), "--model", "m")
    assert_learned(run, frame, *options)
    stored = TableModel.load("m")
    assert wrap_engine(stored.model).ridge == 5.0
    assert stored.encoding.columns.buckets == {"shop": 4}
    assert stored.encoding.columns.missing == "error"
    assert stored.encoding.columns.drop == ("customer", "id")


@pytest.mark.slow
def test_formats_and_new_columns_are_mixed(run, tmp_path):
    """Each batch is learned as its own file would be."""
    days = [payments(day) for day in range(5)]
    for day in (2, 3, 4):
        days[day]["device"] = np.arange(ROWS) % 7 + 0.5
    days[4]["agent"] = "x"
    run("learn", events(days[0], "e0.csv"), *LEARN)
    run("learn", events(days[1], "e1.parquet"), "--id", "id", "--model", "m")
    printed = run("learn", events(days[2], "e2.csv"), "--id", "id", "--model", "m", code=2).err
    assert "e2.csv has column 'device'" in printed
    assert "--allow-new-columns" in printed
    run("learn", "e2.csv", "--id", "id", "--model", "m", "--allow-new-columns")
    run("learn", events(days[3], "e3.jsonl"), "--id", "id", "--model", "m")
    run("learn", events(days[4], "e4.csv"), "--id", "id", "--model", "m", "--drop", "agent")
    mixed = pd.concat(days).sample(frac=1.0, random_state=0)
    for part in range(3):
        run("learn", "--labels", labels(mixed[part::3], f"l{part}.csv"), "--model", "m")
    frame = mixed.drop(columns="agent").fillna({"device": 0.0})
    one = TableModel.load("m")
    frame["device"] = frame.device.astype(float)
    write_frame(frame.drop(columns=["id", "customer"]), "batch.csv")
    run("learn", "batch.csv", "--label", "y", "--model", "batch")
    two = TableModel.load("batch")
    order = [one.encoding.features.index(feature) for feature in two.encoding.features]
    assert_close(wrap_engine(one.model).coef_[:, order], wrap_engine(two.model).coef_, 1e-9)
    assert one.model.class_count.tolist() == two.model.class_count.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_no_row_is_learned_twice_without_the_option(run, tmp_path, kind):
    """A labeled file with the ids of pending events takes their place."""
    frame = payments(0)
    old = write_frame(frame.iloc[50:].drop(columns="id"), "old.csv")
    run("learn", old, "--label", "y", "--drop", "customer", "--model", "m")
    run("learn", events(frame.iloc[:50], f"e.{kind}"), "--id", "id", "--model", "m")
    run("learn", "--labels", labels(frame.iloc[:10], "l.csv"), "--model", "m")
    before = Path("m").read_bytes()
    printed = run("learn", write_frame(frame.iloc[5:20], f"j.{kind}"), "--model", "m", code=2).err
    assert f"j.{kind}, row 1: id 'p0-005' was learned already" in printed
    assert Path("m").read_bytes() == before
    run("learn", write_frame(frame.iloc[10:20], f"k.{kind}"), "--model", "m")
    assert "nothing new" in run("learn", f"k.{kind}", "--model", "m").err
    assert_learned(run, pd.concat([frame.iloc[:20], frame.iloc[50:]]))
    again = run("learn", "--labels", labels(frame.iloc[10:11], "a.csv"), "--model", "m", code=2).err
    assert "'p0-010' has its label already" in again
    with EventDatabase(pending_path("m")) as store:
        assert len(store) == 30
    # Erasure names the labeled file that it needs, and finds the rows of both.
    where = ["--where", "customer=customer-2"]
    needs = run("unlearn", "m", f"e.{kind}", *where, code=2).err
    assert f"id 'p0-011' was learned from k.{kind}; name this file too" in needs
    run("unlearn", "m", f"e.{kind}", f"k.{kind}", "old.csv", *where)
    left = pd.concat([frame.iloc[:20], frame.iloc[50:]])
    assert_learned(run, left[left.customer != "customer-2"])
    assert "p0-011" not in contents()


@pytest.mark.slow
def test_labels_wait_for_their_events(run, tmp_path):
    frame = payments(0)
    run("learn", events(frame.iloc[:40], "e.csv"), *LEARN)
    printed = run("learn", "--labels", labels(frame, "l.csv"), "--model", "m").err
    assert "40 events learned" in printed
    assert "labels that wait for their events: 20" in printed
    # A label that waits is revised, or refused if it comes twice.
    late = frame.iloc[40:].copy()
    late.loc[late.id == "p0-041", "y"] = "yes"
    again = run("learn", "--labels", labels(late, "again.csv"), "--model", "m", code=2).err
    assert "'p0-040' has its label already in l.csv, row 41; leave the row out, or change" in again
    printed = run("relabel", "m", "--labels", labels(late, "new.csv")).err
    assert "20 labels that waited for events replaced" in printed
    printed = run("learn", events(late, "late.csv"), "--id", "id", "--model", "m").err
    assert "20 events learned" in printed
    assert "wait" not in printed
    assert_learned(run, pd.concat([frame.iloc[:40], late]))


@pytest.mark.slow
def test_a_wrong_label_does_not_wait(run, tmp_path):
    """A label is refused when it comes, not when its event comes."""
    frame = payments(0)
    run("learn", events(frame, "e.csv"), *LEARN, "--classes", "no,yes")
    run("learn", "--labels", labels(frame, "l.csv"), "--model", "m")
    bad = pd.DataFrame({"id": ["a", "b"], "y": ["no", "maybe"]})
    printed = run("learn", "--labels", labels(bad, "bad.csv"), "--model", "m", code=2).err
    assert "bad.csv, row 2: label 'maybe'" in printed
    with EventDatabase(pending_path("m")) as store:
        assert store.waiting_labels == 0
    bad["y"] = "no"
    run("learn", "--labels", labels(bad, "bad.csv"), "--model", "m")
    with EventDatabase(pending_path("m")) as store:
        assert store.waiting_labels == 2


@pytest.mark.slow
def test_learned_rows_are_deleted_and_others_expire(run, tmp_path):
    frame = payments(0)
    frame["customer"] = [f"unique-{i:04d}" for i in range(ROWS)]
    run("learn", events(frame, "e.csv"), *LEARN, "--expire", "90d")
    run("learn", "--labels", labels(frame.iloc[:50], "l.csv"), "--model", "m")
    found = contents()
    assert "unique-0049" not in found
    assert "unique-0050" in found
    assert b"unique-0049" not in stored_bytes()
    run(
        "learn",
        "--labels",
        write_frame(pd.DataFrame({"id": ["x"], "y": ["no"]}), "x.csv"),
        "-m",
        "m",
    )
    with EventDatabase(pending_path("m")) as store:
        assert store.expire_after == 90 * 86_400.0
        assert store.expire(time.time() - 3600.0) == (0, 0)
        assert (len(store), store.waiting_labels) == (10, 1)
        assert store.expire(time.time() + 3600.0) == (10, 1)
        files = [name for name in sorted(os.listdir()) if name.startswith("m.pending")]
        assert files == ["m.pending", "m.pending-shm", "m.pending-wal"]
        assert {stat.S_IMODE(os.stat(name).st_mode) for name in files} == {0o600}
        assert (len(store), store.waiting_labels) == (0, 0)
    printed = run(
        "learn", events(payments(1), "e1.csv"), "--id", "id", "--expire", "0.000001s", "-m", "m"
    )
    assert "expired: 60 events without a label, 0 labels without an event" in printed.err


@pytest.mark.slow
def test_revisions_of_delayed_labels(run, tmp_path):
    """A row is relabeled again and again, and erased with its present label."""
    frame = payments(0)
    run("learn", events(frame, "e.csv"), *LEARN)
    run("learn", "--labels", labels(frame, "l.csv"), "--model", "m")
    for turn in range(3):
        frame.loc[turn::5, "y"] = np.where(frame.y[turn::5] == "yes", "no", "yes")
        labels(frame, f"new{turn}.csv")
        printed = run("relabel", "m", "e.csv", "--labels", f"new{turn}.csv").err
        assert "12 rows relabeled" in printed
        assert_learned(run, frame)
    before = Path("m").read_bytes()
    assert "0 rows relabeled" in run("relabel", "m", "e.csv", "--labels", "new2.csv").err
    assert Path("m").read_bytes() == before
    assert "7 rows unlearned" in run("unlearn", "m", "e.csv", "--where", "customer=customer-0").err
    assert_learned(run, frame[frame.customer != "customer-0"])
    # A whole file of events is unlearned, and can be learned corrected.
    assert "53 rows unlearned" in run("unlearn", "m", "e.csv").err
    frame["amount"] += 1.0
    events(frame, "corrected.csv")
    printed = run("learn", "corrected.csv", "--labels", "new2.csv", "--id", "id", "-m", "m").err
    assert "60 events learned" in printed
    assert_learned(run, frame)


@pytest.mark.slow
def test_a_kill_while_unlearning_loses_and_repeats_no_row(run, forks, tmp_path):
    """The same command again ends as one that was not disturbed."""
    frame = payments(0)
    run("learn", events(frame, "e.csv"), *LEARN)
    run("learn", "--labels", labels(frame.iloc[:50], "l.csv"), "--model", "m")
    frame["y"] = "yes"
    labels(frame.iloc[10:30], "new.csv")
    write_frame(frame.iloc[50:55], "joined.csv")
    for name in ("m", "m.pending"):
        shutil.copy(name, f"{name}.good")
    for command in (
        ["unlearn", "m", "e.csv", "--where", "customer=customer-0"],
        ["relabel", "m", "e.csv", "--labels", "new.csv"],
        ["learn", "joined.csv", "--model", "m"],
    ):
        for name in ("m", "m.pending"):
            shutil.copy(f"{name}.good", name)
        run(*command)
        model, store = Path("m").read_bytes(), contents()
        for point in (
            ("plan", "after", 1), ("replace", "before", 1), ("replace", "after", 1),
            ("_carry_out", "after", 1),
        ):  # fmt: skip
            for name in ("m", "m.pending"):
                shutil.copy(f"{name}.good", name)
            process = forks.start(["-c", DYING, *point, *command], cwd=tmp_path)
            assert process.wait() == -signal.SIGKILL, (command, point)
            run(*command)
            assert Path("m").read_bytes() == model, (command, point)
            assert contents() == store, (command, point)


@pytest.mark.slow
def test_pending_events_are_erased_before_there_is_a_model(run, tmp_path):
    run("learn", events(payments(0), "e.csv"), *LEARN)
    assert "7 pending events erased" in run("unlearn", "m", "--where", "customer=customer-1").err
    assert b"customer-1" not in stored_bytes()
    assert "customer-1" not in contents()


@pytest.mark.slow
def test_merging_reports_pending_events(run, tmp_path):
    frame = payments(0)
    run("learn", events(frame, "e.csv"), *LEARN)
    run("learn", "--labels", labels(frame.iloc[:40], "l.csv"), "--model", "m")
    run(
        "learn",
        write_frame(payments(1), "j.csv"),
        "--label",
        "y",
        "--drop",
        "customer,id",
        "-m",
        "n",
    )
    printed = run("merge", "m", "n", "--output", "both").err
    assert "warning: 20 pending events and 0 labels stay in m.pending" in printed
    assert "warning: both does not contain the 40 ids of m.pending" in printed
    assert wrap_engine(TableModel.load("both").model).class_count_.sum() == 100
    shutil.copy("m", "copy")
    assert "was learned by m and by copy" in run("merge", "m", "copy", "-o", "b", code=2).err
    assert "was learned by both and by m" in run("merge", "both", "m", "-o", "b", code=2).err
    shutil.copy("m.pending", "both.pending")
    assert "both.pending has events" in run("merge", "m", "n", "-o", "both", code=2).err
    os.unlink("both.pending")
    run("merge", "m", "n", "--output", "m")
    run("learn", "--labels", labels(frame.iloc[40:], "l2.csv"), "--model", "m")
    assert_learned(run, pd.concat([frame, payments(1)]))


def test_a_mistake_leaves_no_store(run, tmp_path):
    events(payments(0), "e.csv")
    assert (
        "no column 'it'"
        in run("learn", "e.csv", "--id", "it", "--label", "y", "--model", "m", code=2).err
    )
    assert sorted(os.listdir()) == ["e.csv"]


# Damage

FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from counterpoise.cli import main
main()
"""


@pytest.mark.slow
def test_a_full_disk_is_one_error(run, forks, tmp_path):
    frame = payments(0, 3000)
    run("learn", events(frame.iloc[:1500], "e.csv"), *LEARN)
    run("learn", "--labels", labels(frame.iloc[:1000], "l.csv"), "--model", "m")
    before = Path("m").read_bytes()
    events(frame.iloc[1500:], "e2.csv")
    labels(frame.iloc[1000:], "l2.csv")
    command = ["learn", "e2.csv", "--labels", "l2.csv", "--id", "id", "--model", "m"]
    for limit in (20_000, 100_000):
        line = forks.line(["-c", FULL, limit, *command]) + " 2> printed"
        assert os.waitstatus_to_exitcode(os.system(f"cd {tmp_path} && {line}")) == 2
        printed = Path("printed").read_text()
        assert printed.count("\n") == 1, printed
        assert "m.pending cannot be" in printed
        assert Path("m").read_bytes() == before
    run(*command)
    assert_learned(run, frame)


@pytest.mark.slow
def test_damaged_stores_are_refused(run, tmp_path):
    """A short version of benchmarks/proofs/mutations.py."""
    frame = payments(0)
    run("learn", events(frame, "e.csv"), *LEARN)
    run("learn", "--labels", labels(frame.iloc[:20], "l.csv"), "--model", "m")
    labels(frame.iloc[20:50], "l2.csv")
    for name in ("m", "m.pending"):
        shutil.copy(name, f"{name}.good")
    command = ["learn", "--labels", "l2.csv", "--model", "m"]
    run(*command)
    right = Path("m").read_bytes()
    shutil.copy("m.good", "m")
    before = Path("m").read_bytes()
    shutil.copy("m.pending.good", "m.pending")
    good = (tmp_path / "m.pending.good").read_bytes()
    refused = 0
    for case in range(24):
        spoil_store(tmp_path / "m.pending", good, random.Random(case))
        try:
            printed = run(*command, code=2).err
        except AssertionError:
            assert Path("m").read_bytes() == right, case
        else:
            refused += 1
            lines = [line for line in printed.splitlines() if "new labels" not in line]
            assert len(lines) == 1, printed
            assert lines[0].startswith("counterpoise: m.pending "), printed
            assert Path("m").read_bytes() == before, case
        shutil.copy("m.good", "m")
    assert refused > 10, refused


@pytest.mark.slow
def test_a_nightly_job_of_ten_days(run, tmp_path, monkeypatch):
    """A short version of benchmarks/proofs/kills.py."""
    job = NightlyJob(tmp_path, lambda *given: run(*given).err, days=10, events=60)
    monkeypatch.chdir(job.job)
    for day in range(10):
        job.run_day(day)
    job.check(
        lambda path, model: run("learn", path, "--label", "fraud", "--ridge", "2", "-m", model)
    )
    assert all(job.counts.values()), job.counts


def write_days():
    """Write two days of events, the second one with a new column, and their labels."""
    days = [pd.DataFrame({"id": np.arange(40) + 100 * k, "cust": [f"C{i % 7}" for i in range(40)],
                          "x": np.arange(40) % 9.0}) for k in range(2)]  # fmt: skip
    days[1]["device"] = np.arange(40) % 3
    for k, day in enumerate(days):
        day.to_csv(f"e{k}.csv", index=False)
        labels = np.where(day["x"] > 4, "yes", "no")
        day[["id"]].assign(y=labels).to_csv(f"l{k}.csv", index=False)


def test_a_new_column_is_dropped_before_the_first_labels(run):
    write_days()
    run("learn", "e0.csv", "--id", "id", "--label", "y", "--drop", "cust", "-m", "m")
    run("learn", "e1.csv", "--id", "id", "--drop", "device", "-m", "m")
    run("learn", "--labels", "l0.csv", "-m", "m")
    run("learn", "--labels", "l1.csv", "-m", "m")
    found = json.loads(run("inspect", "m", "--json").out)
    assert sum(found["classes"].values()) == 80
    assert "device" not in json.dumps(found["weights"])


def test_pending_events_are_erased_by_a_condition_before_the_first_labels(run, tmp_path):
    write_days()
    run("learn", "e0.csv", "--id", "id", "--label", "y", "--drop", "cust", "-m", "m")
    assert "6 pending events erased" in run("unlearn", "m", "e0.csv", "--where", "cust=C3").err
    assert b"C3" not in (tmp_path / "m.pending").read_bytes()


@pytest.mark.slow
def test_a_store_that_is_missing_next_to_its_model_is_named(run):
    frame = payments(0)
    run("learn", events(frame, "e.csv"), *LEARN)
    run("learn", "--labels", labels(frame.iloc[:23], "l.csv"), "--model", "m")
    more = payments(1)
    os.rename("m.pending", "away")
    missing = "m.pending is missing; copy it next to the model"
    assert missing in run("unlearn", "m", "e.csv", code=2).err
    assert missing in run("unlearn", "m", "--where", "customer=customer-3", code=2).err
    words = ("e.csv", "--where", "id=p0-005", "--new-label", "yes")
    assert missing in run("relabel", "m", *words, code=2).err
    shutil.copy("m", "copy")
    done = run("learn", write_frame(more, "more.csv"), "--model", "m")
    assert f"warning: {missing}, or continue without its events and ids" in done.err
    shutil.copy("copy", "m")
    done = run("learn", events(more, "new.csv"), "--id", "id", "--model", "m")
    assert f"warning: {missing}" in done.err
    os.unlink("m.pending")
    shutil.copy("copy", "m")
    os.rename("away", "m.pending")
    done = run("learn", events(more, "new.csv"), "--model", "m", "--id", "id", "--strict")
    assert missing not in done.err
