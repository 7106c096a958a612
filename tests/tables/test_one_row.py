"""Some rows unlearned or relabeled, from files and pipes, and files checked without learning."""

import os
import shutil

import numpy as np
import pytest
from builders import assert_same_tables
from delayed_labels import OPTIONS, of_day, write_days

from counterpoise.estimators.auto import wrap_engine
from counterpoise.tables.event_database import EventDatabase, pending_path
from counterpoise.tables.model import TableModel
from counterpoise.tables.records import add_rows, contains

HEAD = "customer,payment,amount,country,fraud"
LEARN = ["--label", "fraud", "--drop", "customer,payment"]


@pytest.fixture
def rows(tmp_path):
    """Rows of a file, in pieces of which each customer has some, and one a country of their own."""
    rng = np.random.default_rng(0)
    fraud = rng.random(300) < 0.2
    amount = rng.standard_normal(300) + fraud
    lines = [
        f"{i % 7},{i},{amount[i]:.4f},{'XDFU'[0 if i % 7 == 3 else 1 + i % 3]},{int(fraud[i])}"
        for i in range(300)
    ]
    (tmp_path / "t.csv").write_text("\n".join([HEAD, *lines]) + "\n")
    return lines


def write(path, lines):
    path.write_text("\n".join([HEAD, *lines]) + "\n")


@pytest.mark.slow
def test_rows_of_a_customer_are_unlearned_once(run, rows, tmp_path):
    write(tmp_path / "others.csv", [line for line in rows if not line.startswith("3,")])
    run("learn", "others.csv", *LEARN, "--model", "never")
    run("learn", "t.csv", *LEARN, "--model", "m")
    assert "43 rows unlearned" in run("unlearn", "m", "t.csv", "--where", "customer=3").err
    assert_same_tables("m", "never")
    before = (tmp_path / "m").read_bytes()
    assert "0 rows unlearned" in run("unlearn", "m", "t.csv", "--where", "customer=3").err
    assert (tmp_path / "m").read_bytes() == before
    assert "nothing new" in run("learn", "t.csv", "--model", "m").err
    # A column that the remaining rows do not have is still needed; all are unlearned together.
    write(tmp_path / "lacking.csv", rows)
    text = (tmp_path / "lacking.csv").read_text().replace("country", "land")
    (tmp_path / "lacking.csv").write_text(text)
    assert "has no column 'country'" in run("predict", "m", "lacking.csv", code=2).err
    assert "257 rows unlearned" in run("unlearn", "m", "t.csv").err
    assert not wrap_engine(TableModel.load("m").model).__sklearn_is_fitted__()


@pytest.mark.slow
def test_rows_from_a_pipe_are_unlearned(run, rows, tmp_path, monkeypatch):
    """Also of a model that learned from a pipe; the same rows twice are noticed."""

    def pipe(lines):
        read, write = os.pipe()
        os.write(write, ("\n".join([HEAD, *lines]) + "\n").encode())
        os.close(write)
        os.dup2(read, 0)
        os.close(read)

    saved = os.dup(0)
    try:
        pipe(rows)
        run("learn", "-", *LEARN, "--model", "m")
        mine = [line for line in rows if line.startswith("3,")]
        write(tmp_path / "others.csv", [line for line in rows if not line.startswith("3,")])
        run("learn", "others.csv", *LEARN, "--model", "never")
        pipe(mine)
        assert "43 rows unlearned" in run("unlearn", "m", "-").err
        assert_same_tables("m", "never")
        before = (tmp_path / "m").read_bytes()
        pipe(mine)
        assert "were unlearned before" in run("unlearn", "m", "-", code=2).err
        pipe(["3,1,5.0,Mars,0"])
        assert "was never learned" in run("unlearn", "m", "-", code=2).err
        assert (tmp_path / "m").read_bytes() == before
        pipe(rows)
        run("learn", "-", *LEARN, "--model", "whole")
        pipe(rows)
        assert "300 rows unlearned" in run("unlearn", "whole", "-").err
        assert not TableModel.load("whole").records
    finally:
        os.dup2(saved, 0)
        os.close(saved)


@pytest.mark.slow
def test_a_row_can_get_another_label(run, rows, tmp_path):
    fields = [line.split(",") for line in rows]
    right = [",".join([*f[:-1], "1" if f[1] in ("8", "9") else f[-1]]) for f in fields]
    wrong = sum(1 for f in fields if f[1] in ("8", "9") and f[-1] == "0")
    write(tmp_path / "right.csv", right)
    run("learn", "right.csv", *LEARN, "--model", "right")
    run("learn", "t.csv", *LEARN, "--model", "m")
    printed = [
        run("relabel", "m", "t.csv", "--where", f"payment={k}", "--new-label", "1").err
        for k in (8, 9)
    ]
    assert sum("1 row relabeled" in text for text in printed) == wrong > 0
    assert_same_tables("m", "right")
    before = (tmp_path / "m").read_bytes()
    assert (
        "0 rows relabeled"
        in run("relabel", "m", "t.csv", "--where", "payment=8", "--new-label", "1").err
    )
    assert (tmp_path / "m").read_bytes() == before
    assert (
        "--new-label: unknown class '7' (classes: 0, 1)"
        in run("relabel", "m", "t.csv", "--where", "payment=8", "--new-label", "7", code=2).err
    )
    assert "--where" in run("relabel", "m", "t.csv", "--new-label", "1", code=2).err
    # Every version of a row is found: it can be relabeled again, and goes with its customer.
    back = run("relabel", "m", "t.csv", "--where", "payment=8", "--new-label", "0").err
    assert "1 row relabeled" in back
    assert (
        "1 row relabeled"
        in run("relabel", "m", "t.csv", "--where", "payment=8", "--new-label", "1").err
    )
    assert_same_tables("m", "right")
    write(tmp_path / "others.csv", [line for line in right if not line.startswith("1,")])
    run("learn", "others.csv", *LEARN, "--model", "never")
    assert "43 rows unlearned" in run("unlearn", "m", "t.csv", "--where", "customer=1").err
    assert_same_tables("m", "never")
    run("unlearn", "m", "t.csv")
    assert not wrap_engine(TableModel.load("m").model).__sklearn_is_fitted__()


@pytest.mark.slow
def test_many_rows_can_get_the_labels_of_a_file(run, rows, tmp_path):
    fields = [line.split(",") for line in rows]
    new = {f[1]: "1" if f[-1] == "0" else "0" for f in fields[::9]}
    right = [",".join([*f[:-1], new.get(f[1], f[-1])]) for f in fields]
    write(tmp_path / "right.csv", right)
    run("learn", "right.csv", *LEARN, "--model", "right")
    run("learn", "t.csv", *LEARN, "--model", "m")
    lines = ["payment,fraud", *(f"{one},{label}" for one, label in new.items())]
    (tmp_path / "new.csv").write_text("\n".join(lines) + "\n")
    command = ["relabel", "m", "t.csv", "--labels", "new.csv"]
    assert "--labels requires --id" in run(*command, code=2).err
    command += ["--id", "payment"]
    assert f"{len(new)} rows relabeled" in run(*command).err
    assert_same_tables("m", "right")
    before = (tmp_path / "m").read_bytes()
    assert "0 rows relabeled" in run(*command).err
    for line, message in (
        ("9999,1", "new.csv, row 35: no learned row of the named files has payment '9999'"),
        ("1,7", "new.csv, row 35: label '7' is not one of 0, 1"),
        ("0,1", "new.csv, row 35: payment '0' is also that of new.csv, row 1"),
    ):
        (tmp_path / "new.csv").write_text("\n".join([*lines, line]) + "\n")
        assert message in run(*command, code=2).err
    assert (tmp_path / "m").read_bytes() == before


@pytest.mark.slow
def test_one_person_among_late_labels(run, tmp_path):
    """Events that were learned are unlearned, and those that wait are dropped."""
    write_days(tmp_path, 4, 100, 3)
    for day in range(4):
        run(*of_day(day))
    shutil.copy("m", "before")
    with EventDatabase(pending_path("m")) as store:
        waited = len(store)
    days = [f"day{day:02d}.csv" for day in range(4)]
    assert "contains labels" in run("unlearn", "m", "labels01.csv", code=2).err
    printed = run("unlearn", "m", "--where", "country=X", *days).err
    texts = [(tmp_path / f"joined{day:02d}.csv").read_text() for day in range(1, 4)]
    joined = [line for text in texts for line in text.splitlines()[1:]]
    events = [line for name in days for line in (tmp_path / name).read_text().splitlines()[1:]]
    mine = sum(",X," in line for line in joined)
    assert f"{sum(',X,' in line for line in events) - mine:,} pending events erased" in printed
    rest = [line for line in joined if ",X," not in line]
    (tmp_path / "rest.csv").write_text(
        "\n".join(["payment,amount,country,hour,fraud", *rest]) + "\n"
    )
    run("learn", "rest.csv", "--label", "fraud", "--drop", "payment", "--model", "never")
    assert_same_tables("m", "never")
    with EventDatabase(pending_path("m")) as store:
        assert len(store) == waited - (sum(",X," in line for line in events) - mine)
    before = (tmp_path / "m").read_bytes()
    run("unlearn", "m", "--where", "country=X", *days)
    assert (tmp_path / "m").read_bytes() == before
    run("learn", "--labels", "labels03.csv", *OPTIONS)  # learning continues


def test_bad_conditions_are_refused(run, rows):
    run("learn", "t.csv", *LEARN, "--model", "m")
    assert (
        "no column 'client', named by --where"
        in run("unlearn", "m", "t.csv", "--where", "client=3", code=2).err
    )
    assert "must be COLUMN=VALUE" in run("unlearn", "m", "t.csv", "--where", "client", code=2).err
    assert "name the files" in run("unlearn", "m", code=2).err
    assert "no pending events" in run("unlearn", "m", "--where", "customer=3", code=2).err


def test_unlearned_rows_are_stored_as_ranges():
    rng = np.random.default_rng(0)
    places = set()
    ranges = ()
    for _ in range(50):
        more = rng.integers(0, 60, 3).tolist()
        places |= set(more)
        ranges = add_rows(ranges, more)
        assert np.flatnonzero(contains(ranges, np.arange(70))).tolist() == sorted(places)


# Checking


@pytest.mark.slow
def test_all_problems_are_reported_together_before_anything_is_written(run, rows, tmp_path):
    lines = [*rows]
    lines[4] = "1,4,,D,0"
    lines[10] = "1,10,0.5,D,"
    lines[20] = "1,20,0.5,,1"
    lines[30] = "1,30,zehn,D,1"
    write(tmp_path / "bad.csv", lines)
    before = sorted(tmp_path.iterdir())
    strictly = [*LEARN, "--missing", "error"]
    found = run("check", "bad.csv", *strictly, code=1)
    printed = found.out.splitlines()
    assert [line.split(":")[0] for line in printed] == [
        f"bad.csv, row {k}" for k in (5, 11, 21, 31)
    ]
    assert "'amount'" in printed[0]
    assert "'zehn' and mostly numbers" in printed[3]
    assert "300 rows read, 4 problems found" in found.err
    assert sorted(tmp_path.iterdir()) == before
    assert run("check", "t.csv", *LEARN).out == ""
    run("learn", "t.csv", *strictly, "--model", "m")
    known = run("check", "bad.csv", "--model", "m", code=1).out
    assert "row 31: column 'amount' contains 'zehn', which is not a number" in known
    assert known.count("\n") == 4
    assert "more" in run("check", "bad.csv", "--model", "m", "--max-problems", "2", code=1).err


def test_problems_of_columns_are_reported_once(run, tmp_path):
    lines = [f"{k},{k},2026-01-{1 + k % 28:02d},c{k},{k % 2}" for k in range(1500)]
    write(tmp_path / "t.csv", lines)
    printed = run("check", "t.csv", *LEARN, code=1).out.splitlines()
    assert len(printed) == 1, printed
    assert "column 'country' has more than 1,000 categories" in printed[0]
