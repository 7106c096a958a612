"""Files of ledgers: each row is learned exactly once, and an impossible request has one message."""

import signal
import sqlite3

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from fork_server import PIPE
from ledgers import a_year

from counterpoise import Ledger
from counterpoise.errors import BusyError
from counterpoise.ledger import ingest

KEYS = {"label": "fraud", "timestamp": "at", "by": "country"}


def contents(path):
    """Everything in a ledger except the last writer."""
    with sqlite3.connect(path) as base:
        tables = ("cells", "heads", "meta")
        found = {name: sorted(base.execute(f"SELECT * FROM {name}").fetchall()) for name in tables}
    base.close()
    found["meta"] = [row for row in found["meta"] if row[0] not in ("writer", "digest")]
    return found


@pytest.fixture
def table():
    (made,), _ = a_year(days=30, rows=40)
    return made


@pytest.fixture
def ledger(tmp_path, table):
    with Ledger.open(tmp_path / "l", **KEYS) as opened:
        opened.learn(table)
        yield opened


# Exactly once


@pytest.mark.slow
def test_an_input_is_learned_once_and_then_what_is_new(tmp_path, table):
    path = tmp_path / "t.csv"
    pa.csv.write_csv(table.slice(0, 700), path)
    with Ledger.open(tmp_path / "l", **KEYS) as ledger:
        assert ledger.learn(path) == 700
        assert ledger.learn(path) == 0
        with path.open("ab") as file:
            pa.csv.write_csv(table.slice(700), file, pa.csv.WriteOptions(include_header=False))
        assert ledger.learn(str(path)) == len(table) - 700
        path.rename(tmp_path / "renamed.csv")
        assert ledger.learn(tmp_path / "renamed.csv") == 0
        assert ledger.records == {"renamed.csv": len(table)}
        assert ledger.model().class_count_.sum() == len(table)


@pytest.mark.slow
def test_a_frame_is_recognized_by_its_rows_or_by_its_name(tmp_path, table):
    with Ledger.open(tmp_path / "l", **KEYS) as ledger:
        assert ledger.learn(table.slice(0, 500), name="today") == 500
        assert ledger.learn(table, name="today") == len(table) - 500
        assert ledger.learn(table.to_pandas(), name="today") == 0
        with pytest.raises(ValueError, match="begins with the same rows as today"):
            ledger.learn(table)
        with pytest.raises(ValueError, match="today has changed"):
            ledger.learn(table.slice(3), name="today")


@pytest.mark.slow
def test_frames_of_any_kind_are_the_same_rows(tmp_path, table):
    polars = pytest.importorskip("polars")
    found = []
    for i, frame in enumerate((table, table.to_pandas(), polars.from_arrow(table))):
        with Ledger.open(tmp_path / str(i), **KEYS) as ledger:
            ledger.learn(frame, name="f")
            found.append(ledger.model().coef_)
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


@pytest.mark.slow
def test_an_existing_ledger_has_its_settings(tmp_path, ledger, table):
    with Ledger.open(tmp_path / "l") as again:
        assert np.array_equal(again.model().coef_, ledger.model().coef_)
        assert again.learn(table) == 0
        more = table.set_column(0, "at", pa.array(table["at"].to_numpy() + np.timedelta64(30, "D")))
        again.learn(more)
    assert ledger.model().class_count_.sum() == 2 * len(table)  # it sees what others write
    with pytest.raises(ValueError, match=r"every is month, but .* has day"):
        Ledger.open(tmp_path / "l", every="month")


DYING = """
import os, signal, sys
from counterpoise import Ledger
from counterpoise.ledger import ingest
from counterpoise.ledger.storage import File
ingest.BATCH_ROWS, ingest.EVERY = 1, 8192
name, count, what = sys.argv[1], int(sys.argv[2]), sys.argv[3]
before = getattr(File, name)
def dying(self, *given):
    global count
    count -= 1
    if count == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return before(self, *given)
setattr(File, name, dying)
with Ledger.open("l", label="fraud", timestamp="at", by="country") as ledger:
    if what == "learn":
        ledger.learn("t.csv")
    else:
        ledger.rollup("2024-02-01", every="month")
"""


@pytest.mark.parametrize("point", ["put_cells 1", "put_cells 3", "put_values 2", "put 15"])
def test_a_process_killed_while_learning_ends_with_the_bits_of_an_uninterrupted_one(
    forks, tmp_path, point, monkeypatch
):
    monkeypatch.setattr(ingest, "BATCH_ROWS", 1)
    monkeypatch.setattr(ingest, "EVERY", 8192)
    (table,), _ = a_year(days=60, rows=400)
    pa.csv.write_csv(table, tmp_path / "t.csv")
    with Ledger.open(tmp_path / "whole", **KEYS) as ledger:
        ledger.learn(tmp_path / "t.csv")
    killed = forks.start(["-c", DYING, *point.split(), "learn"], cwd=tmp_path)
    assert killed.wait() == -signal.SIGKILL
    with Ledger.open(tmp_path / "l", **KEYS) as ledger:
        ledger.learn(tmp_path / "t.csv")
    assert contents(tmp_path / "l") == contents(tmp_path / "whole")


def test_a_stopped_run_learns_complete_batches_and_continues_with_the_same_bits(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(ingest, "BATCH_ROWS", 2 * ingest.CHUNK_ROWS)
    (table,), _ = a_year(days=60, rows=800)
    pa.csv.write_csv(table, tmp_path / "t.csv")
    with Ledger.open(tmp_path / "whole", **KEYS) as ledger:
        ledger.learn(tmp_path / "t.csv")
    chunks = []
    with Ledger.open(tmp_path / "l", **KEYS) as ledger:
        new = ledger.learn(
            tmp_path / "t.csv",
            stop=lambda: len(chunks) >= 3,
            watch=lambda source, rows: chunks.append(rows),
        )
        assert sum(chunks) > new == 2 * ingest.CHUNK_ROWS == ledger.records["t.csv"]
        assert list(ledger.changed_rows.values()) == [new]
        assert ledger.learn(tmp_path / "t.csv") == len(table) - new
    assert contents(tmp_path / "l") == contents(tmp_path / "whole")


def test_an_error_in_one_file_leaves_the_files_before_it_learned(tmp_path, table):
    pa.csv.write_csv(table, tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text((tmp_path / "a.csv").read_text() + "never,DE,1,1,1,ok\n")
    with Ledger.open(tmp_path / "l", **KEYS) as ledger:
        with pytest.raises(ValueError, match=r"b\.csv.*never"):
            ledger.learn([tmp_path / "a.csv", tmp_path / "b.csv"], allow_overlap=True)
        assert ledger.records == {"a.csv": len(table)}
        ledger.check()


@pytest.mark.parametrize(
    "point", ["put_cells 1", "put_cells 2", "put_totals 1", "put_values 1", "shrink 1"]
)
def test_a_process_killed_while_merging_buckets_can_merge_them_again(forks, tmp_path, table, point):
    for name in ("l", "whole"):
        with Ledger.open(tmp_path / name, **KEYS) as ledger:
            ledger.learn(table)
    with Ledger.open(tmp_path / "whole") as ledger:
        ledger.rollup("2024-02-01")
    killed = forks.start(["-c", DYING, *point.split(), "rollup"], cwd=tmp_path)
    assert killed.wait() == -signal.SIGKILL
    with Ledger.open(tmp_path / "l") as ledger:
        ledger.rollup("2024-02-01")
    assert contents(tmp_path / "l") == contents(tmp_path / "whole")


# Bad input


def set_values(table, name, values):
    return table.set_column(table.column_names.index(name), name, pa.array(values))


def texts(table, row, value):
    at = [str(one) for one in table["at"].to_pylist()]
    at[row] = value
    return set_values(table, "at", at)


BAD = {
    "a time that is none": (lambda t: texts(t, 5, "soon"), "row 6: column 'at' contains 'soon'"),
    "no time": (lambda t: texts(t, 5, None), "row 6: no value in column 'at', the time of the row"),
    "milliseconds": (
        lambda t: set_values(
            t, "at", t["at"].cast(pa.timestamp("ms")).cast("int64").to_numpy() * 1.0
        ),
        r"row 1: time 1.7.*e.12 in column 'at' is beyond the year 9999",
    ),
    "no column of time": (lambda t: t.drop_columns("at"), "has no column 'at', the time"),
    "no segment": (lambda t: t.drop_columns("country"), "has no column 'country', a segment"),
    "many segments": (
        lambda t: set_values(t, "country", [f"c{i}" for i in range(len(t))]),
        "column 'country' has more than 1,000 values, each of them a segment; make segments of",
    ),
    "no number": (
        lambda t: set_values(t, "amount", ["1"] * (len(t) - 1) + ["much"]),
        "column 'amount' contains",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("what", BAD)
def test_bad_rows_leave_a_ledger_as_it_was(ledger, table, tmp_path, what):
    spoil, message = BAD[what]
    before = contents(tmp_path / "l")
    with pytest.raises(ValueError, match=message) as raised:
        ledger.learn(spoil(table), name="bad", allow_overlap=True)
    assert "\n" not in str(raised.value)
    assert contents(tmp_path / "l") == before
    assert ledger.learn(table) == 0
    assert ledger.model().class_count_.sum() == len(table)


def test_buckets_finer_than_the_data_are_refused(tmp_path):
    frame = {"at": ["2024-01-01", "2024-01-02"], "x": [1.0, 2.0], "y": [0, 1]}
    hours = Ledger.open(tmp_path / "l", label="y", timestamp="at", every="hour")
    with hours, pytest.raises(ValueError, match='hour are finer than that; use every="day"'):
        hours.learn(frame)
    assert list(tmp_path.iterdir()) == []  # a ledger that learned nothing is none
    with Ledger.open(tmp_path / "l", label="y", timestamp="at") as ledger:
        assert ledger.learn(frame) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"since": "2024-01-09", "until": "2024-01-05"}, "until is 2024-01-05, .* not after since"),
        ({"since": "2030-01-01"}, r"empty: since 2030-01-01 \(rows: 2024-01-0. to "),
        ({"since": "never"}, "must be a date or time like"),
        ({"until": "2024-01-05 12:00"}, "is within the bucket from 2024-01-05 to 2024-01-06"),
        ({"where": {"town": "x"}}, "where: .town. is not a segment column"),
        ({"where": {"country": "XX"}}, "no row has country 'XX'; the ledger has DE, FR"),
        ({"where": {"country": {"but": "DE"}}}, "write {'not': values}"),
        ({"half_life": "soon"}, "half_life must be a number of days, or a time such as 12h"),
        ({"half_life": 0}, "must be a number of days"),
        ({"scale": "minmax"}, "scale must be 'standard' or None"),
        ({"feature_map": "poly2"}, "maps rows, which a ledger does not store"),
    ],
)
def test_an_impossible_selection_is_refused(ledger, named, message):
    with pytest.raises(ValueError, match=message) as raised:
        ledger.model(**named)
    assert "\n" not in str(raised.value)


@pytest.mark.slow
def test_a_selection_of_one_class_is_refused(tmp_path, table):
    honest = table.filter(pa.compute.equal(table["fraud"], "ok"))
    with Ledger.open(tmp_path / "l", **KEYS) as ledger:
        ledger.learn(honest)
        with pytest.raises(ValueError, match="rows of one class, 'ok', and two are needed"):
            ledger.model()


@pytest.mark.slow
def test_a_file_that_is_not_a_ledger_is_refused(tmp_path, ledger):
    ledger.close()
    good = (tmp_path / "l").read_bytes()
    (tmp_path / "text").write_text("at,country\n" * 100)
    sqlite3.connect(tmp_path / "other").execute("CREATE TABLE t (a)").connection.close()
    (tmp_path / "cut").write_bytes(good[: len(good) // 2])
    (tmp_path / "flipped").write_bytes(good)
    at = good.rindex(np.float64(1.0).tobytes())
    with (tmp_path / "flipped").open("r+b") as file:
        file.seek(at)
        file.write(np.float64(2.0).tobytes())
    with (tmp_path / "later").open("wb") as file:
        file.write(good)
    base = sqlite3.connect(tmp_path / "later")
    base.execute("PRAGMA user_version = 7")
    base.close()
    for name, message in {
        "text": "is not a ledger, or is damaged",
        "other": "is not a ledger; name another file",
        "cut": "is not a ledger, or is damaged",
        "flipped": "is damaged .a cell is not as it was written",
        "later": "is a ledger of version 7; this program reads version 4",
        "missing": "does not exist, and creating it requires label",
        ".": "is not a file but a folder",
    }.items():
        with pytest.raises(ValueError, match=message), Ledger.open(tmp_path / name) as bad:
            bad.model()


HOLDING = """
import os
from counterpoise import Ledger
with Ledger.open("l") as ledger, ledger._file.exclusive(0):
    os.write(1, b"held\\n")
    os.read(0, 1)
"""


def test_the_second_writer_waits_and_then_names_the_first(forks, tmp_path, ledger, table):
    holder = forks.start(["-c", HOLDING], cwd=tmp_path, stdin=PIPE)
    assert holder.stdout.readline() == b"held\n"
    before = ledger.model().coef_  # looking needs no lock
    second = Ledger.open(tmp_path / "l", wait=0.2)
    with pytest.raises(BusyError, match=r"written by process \d+ on .* since 20.*waited 0.2"):
        second.drop("2024-01-10")
    second.close()
    holder.stdin.close()
    holder.wait()
    assert np.array_equal(ledger.model().coef_, before)
    with Ledger.open(tmp_path / "l", wait=60) as second:
        assert second.drop("2024-01-10") > 0


WAITING = """
import os, time
from counterpoise import Ledger
def announce_sleep(seconds, sleep=time.sleep):
    os.write(1, b"waits\\n")
    sleep(seconds)
time.sleep = announce_sleep
with Ledger.open("l", label="y", timestamp="at", wait=60) as ledger:
    print(ledger.learn({"at": ["2024-01-01", "2024-01-02"], "x": [1.0, 2.0], "y": [0, 1]}))
"""


def test_who_waits_for_a_ledger_that_is_not_begun_after_all_begins_it(forks, tmp_path):
    with Ledger.open(tmp_path / "l", label="y", timestamp="at") as failing:
        lock = failing.lock()
        lock.__enter__()
        second = forks.start(["-c", WAITING], cwd=tmp_path)
        assert second.stdout.readline() == b"waits\n"
        lock.__exit__(ValueError, ValueError("no way"), None)
        out, err = second.communicate()
        assert out.endswith(b"2\n"), err
    with Ledger.open(tmp_path / "l") as ledger:
        assert ledger.model().class_count_.tolist() == [1.0, 1.0]


def test_a_ledger_that_goes_while_another_opens_it_is_a_new_one(tmp_path, monkeypatch):
    beginning = {"label": "y", "timestamp": "at"}
    with Ledger.open(tmp_path / "l", **beginning) as failing:
        lock, connect = failing.lock(), sqlite3.connect
        lock.__enter__()

        def late(*where, **options):
            monkeypatch.undo()
            lock.__exit__(ValueError, ValueError("no way"), None)
            return connect(*where, **options)

        monkeypatch.setattr(sqlite3, "connect", late)
        with Ledger.open(tmp_path / "l", **beginning) as second:
            assert second.learn({"at": ["2024-01-01"] * 2, "x": [1.0, 2.0], "y": [0, 1]}) == 2
    with Ledger.open(tmp_path / "l") as ledger:
        assert ledger.model().class_count_.tolist() == [1.0, 1.0]


@pytest.mark.slow
def test_a_full_disk_leaves_a_ledger_as_it_was(ledger, table, tmp_path):
    before = contents(tmp_path / "l")
    ledger._file._base().execute("PRAGMA max_page_count = 1")  # SQLite's own way to be full
    more = set_values(table, "at", table["at"].to_numpy() + np.timedelta64(300, "D"))
    with pytest.raises(OSError, match="No space left on device"):
        ledger.learn(more)
    ledger._file._base().execute("PRAGMA max_page_count = 1000000")
    assert contents(tmp_path / "l") == before
    assert ledger.learn(more) == len(more)


@pytest.mark.slow
def test_missing_numbers_are_imputed_as_in_a_model_file(tmp_path, table, run):
    values = table["age"].to_numpy().copy()
    values[5::7] = np.nan
    path = tmp_path / "t.csv"
    pa.csv.write_csv(set_values(table, "age", pa.array(values, from_pandas=True)), path)
    run("learn", path, "--label", "fraud", "--drop", "at", "--no-calibrate", "-m", "m")
    with Ledger.open(tmp_path / "l", **KEYS) as ledger:
        ledger.learn(path)
    with Ledger.open(tmp_path / "l") as ledger:
        ledger.save(ledger.model(), tmp_path / "n")
    one, two = (run("predict", name, path).out.splitlines() for name in ("m", "n"))
    assert one[0] == two[0]
    scores = [[float(row.split(",")[1]) for row in rows[1:]] for rows in (one, two)]
    assert np.allclose(*scores, atol=1e-10)


@pytest.mark.slow
def test_time_is_not_a_feature_and_weights_count(tmp_path, table):
    weighted = table.append_column("w", pa.array(np.tile([1.0, 2.0], len(table))[: len(table)]))
    with Ledger.open(tmp_path / "l", columns={"w": "weight", "country": "drop"}, **KEYS) as ledger:
        ledger.learn(weighted)
        assert ledger.features == ["amount", "age", "night"]
        assert ledger.model().class_count_.sum() == weighted["w"].to_numpy().sum()
        assert sorted(ledger.models(by="country")) == ["DE", "FR", "NL", "US"]
