"""A model and its pending events: learned once, rebuilt after a crash, erased without trace."""

import contextlib
import json
import os
import shutil
import sqlite3
import stat
import time
from pathlib import Path

import numpy as np
import pytest
from builders import assert_close, write_frame
from delayed_labels import model_contents

from counterpoise import EventStore, TableClassifier
from counterpoise.errors import ConflictError, DataError
from counterpoise.estimators.auto import wrap_engine
from counterpoise.tables.alerts import Threshold
from counterpoise.tables.event_database import pending_path
from counterpoise.tables.event_store import PredictionSettings
from counterpoise.tables.model import TableModel

START = 120  # rows that the model has learned from a file


def rows_of(first, n, seed=0):
    """Events with ids from a number on, and their labels."""
    rng = np.random.default_rng((seed, first))
    y = rng.random(n) < 0.3
    return [
        {
            "id": f"p{first + i}",
            "shop": f"s{rng.integers(4)}",
            "amount": round(float(rng.standard_normal() + 2 * y[i]), 4),
            "hour": int(rng.integers(24)),
            "y": "yes" if y[i] else "no",
        }
        for i in range(n)
    ]


def events(rows):
    return [{name: value for name, value in row.items() if name != "y"} for row in rows]


def labels(rows):
    return [{"id": row["id"], "y": row["y"]} for row in rows]


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A model file."""
    import pandas as pd

    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame(events_with_labels(rows_of(10_000, START)))
    TableClassifier().fit(frame.drop(columns="id"), "y").save("m")
    return str(tmp_path / "m")


def events_with_labels(rows):
    return [dict(row) for row in rows]


def assert_learned(path, rows, tolerance=1e-9):
    """Compare a model with one that has learned the first rows and these."""
    import pandas as pd

    one = TableModel.load(path)
    batch = pd.DataFrame(rows_of(10_000, START) + rows).drop(columns="id")
    TableClassifier().fit(batch, "y").save("batch")
    two = TableModel.load("batch")
    assert one.model.class_count.tolist() == two.model.class_count.tolist()
    assert set(one.encoding.features) == set(two.encoding.features)
    order = [one.encoding.features.index(feature) for feature in two.encoding.features]
    assert_close(wrap_engine(one.model).coef_[:, order], wrap_engine(two.model).coef_, tolerance)


def copy_files(path, folder):
    """Copy all files of a store and its model as a crash of this moment would leave them."""
    folder.mkdir()
    for name in os.listdir(os.path.dirname(path)):
        if name == "m" or name.startswith("m.pending"):
            shutil.copy(Path(path).parent / name, folder / name)
    return str(folder / "m")


def test_an_event_is_learned_once_when_its_label_comes(path):
    rows = rows_of(0, 30)
    with EventStore(path, id="id") as store:
        answers = store.predict(events(rows))
        assert [one["id"] for one in answers] == [row["id"] for row in rows]
        assert (len(store), store.learned_ids) == (30, 0)
        assert store.label(labels(rows[:10])) == ["learned"] * 10
        assert store.label(labels(rows[:10])) == ["unchanged"] * 10
        assert (len(store), store.learned_ids) == (20, 10)
        assert sum(store.quality.values()) == 10
    assert_learned(path, rows[:10])
    with EventStore(path) as store:
        assert store.predict(events(rows[10:])) == answers[10:]
        store.label(labels(rows[10:]))
    assert_learned(path, rows)
    assert stat.S_IMODE(os.stat(pending_path(path)).st_mode) == 0o600


def test_answers_are_those_of_the_shell(path, run):
    rows = rows_of(0, 20)
    with EventStore(path, id="id") as store:
        store.set_predictions(PredictionSettings(Threshold(0.6), explain=2))
        answers = store.predict(events(rows))
        version = store.version
    import pandas as pd

    name = write_frame(pd.DataFrame(events(rows)), "rows.jsonl")
    printed = run(
        "predict", path, name, "--id", "id", "--explain", "2", "--threshold", "0.6",
        "--output-format", "jsonl",
    ).out  # fmt: skip
    expected = [json.loads(line) for line in printed.splitlines()]
    assert answers == [{**one, "model": version} for one in expected]


def test_labels_wait_for_their_events(path):
    rows = rows_of(0, 12)
    with EventStore(path, id="id") as store:
        assert store.label(labels(rows)) == ["waiting"] * 12
        wrong = [{**one, "y": "no" if one["y"] == "yes" else "yes"} for one in labels(rows[:3])]
        assert store.label(wrong) == ["revised"] * 3
        assert store.label(labels(rows[:4])) == ["revised"] * 3 + ["unchanged"]
        assert store.waiting_labels == 12
        store.predict(events(rows[:8]))
        assert (len(store), store.waiting_labels, store.learned_ids) == (0, 4, 8)
    assert_learned(path, rows[:8])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_crash_at_any_moment_rebuilds_the_model_bit_identically(path, tmp_path, seed):
    """The files after every change, opened and saved, are those of the process that lived on."""
    rng, rows = np.random.default_rng(seed), rows_of(0, 120, seed)
    learned, pending, due = {}, [], list(rows)
    store = EventStore(path, id="id", keep=True)
    for step in range(24):
        kind = rng.integers(5)
        if kind == 0 or not pending:
            pending, due = pending + due[:9], due[9:]
            store.predict(events(pending[-9:]))
        elif kind in (1, 2):
            k = int(rng.integers(1, 7))
            some, pending = pending[:k], pending[k:]
            store.label(labels(some))
            learned |= {row["id"]: row for row in some}
        elif kind == 3 and learned:
            one = dict(learned[str(rng.choice(sorted(learned)))])
            one["y"] = "no" if one["y"] == "yes" else "yes"
            assert store.label(labels([one])) == ["revised"]
            learned[one["id"]] = one
        elif kind == 4 and learned:
            one = str(rng.choice(sorted(learned)))
            assert store.erase([one]) == ["learned"]
            del learned[one]
        if step % 7 == 6:
            store.save()
        crashed = copy_files(path, tmp_path / f"crash{step}")
        with EventStore(crashed) as other:
            assert other.version == store.version
            assert len(other) == len(store) == len(pending)
            other.save()
        living = str(tmp_path / f"living{step}")
        store.model.finish()
        store.model.save(living)
        assert model_contents(crashed) == model_contents(living)
    store.close()
    assert_learned(path, list(learned.values()))


@pytest.mark.slow
def test_a_change_that_cannot_be_committed_did_not_happen(path):
    """The disk is full, by SQLite's own limit: store and model are as before."""
    rows = rows_of(0, 400)

    def change(store):
        with store.group():
            store.label(labels(rows[5:8]))
            store.predict(events(rows[20:]))

    with EventStore(path, id="id") as store:
        store.predict(events(rows[:20]))
        store.label(labels(rows[:5]))
        before, base = store.version, store._base._base
        pages = base.execute("PRAGMA page_count").fetchone()[0]
        base.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(DataError, match="disk is full"):
            change(store)
        assert store.version == before
        assert (len(store), store.learned_ids) == (15, 5)
        base.execute("PRAGMA max_page_count = 1000000")
        change(store)
        assert (len(store), store.learned_ids) == (392, 8)
    assert_learned(path, rows[:8])


def test_revised_labels_and_erased_events_leave_no_trace(path):
    rows = rows_of(0, 40)
    for row in rows[30:]:
        row["id"] = f"person-{row['id']}"  # longer than a coincidence
        row["shop"] = f"only-{row['id']}"
    with EventStore(path, id="id", keep=True) as store:
        store.predict(events(rows))
        wrong = [{**row, "y": "no" if row["y"] == "yes" else "yes"} for row in rows[:35]]
        assert store.label(labels(wrong)) == ["learned"] * 35
        assert store.label(labels(rows[:35])) == ["revised"] * 35
        gone = [row["id"] for row in rows[30:]]
        assert store.erase([*gone, "never"]) == ["learned"] * 5 + ["pending"] * 5 + [None]
        everything = b"".join(
            Path(name).read_bytes() for name in os.listdir() if name.startswith("m")
        )
        for one in gone:
            assert one.encode() not in everything
    assert_learned(path, rows[:30])


def test_an_event_that_was_not_kept_is_given_again(path):
    rows = rows_of(0, 6)
    with EventStore(path, id="id") as store:
        store.predict(events(rows))
        store.label(labels(rows))
        other = {**rows[0], "y": "no" if rows[0]["y"] == "yes" else "yes"}
        with pytest.raises(ConflictError, match="were deleted when it was learned; give them"):
            store.label(labels([other]))
        with pytest.raises(ConflictError, match="were deleted when it was learned"):
            store.erase(["p0"])
        with pytest.raises(ConflictError, match="was learned with other features"):
            store.label([{**other, "amount": 99.0}])
        assert store.label([other]) == ["revised"]
        assert store.learn([dict(reversed(other.items()))]) == ["unchanged"]
    assert_learned(path, [other, *rows[1:]])


def test_labeled_events_are_learned_without_a_prediction(path):
    rows = rows_of(0, 10)
    with EventStore(path, id="id") as store:
        store.predict(events(rows[:5]))
        assert store.learn(rows) == ["learned"] * 10
        assert (len(store), store.learned_ids) == (0, 10)
        with pytest.raises(DataError, match="row 1: an event without features"):
            store.learn(labels(rows))
    assert_learned(path, rows)


@pytest.mark.parametrize(
    ("change", "message", "field"),
    [
        ({"id": None}, "the id in field 'id' must be an integer or text", "id"),
        ({"id": ""}, "the id in field 'id' must be", "id"),
        ({"id": "x" * 1001}, "the id in field 'id' must be", "id"),
        ({"id": True}, "the id in field 'id' must be", "id"),
        ({"id": 1.5}, "the id in field 'id' must be", "id"),
        ({"amount": "much"}, "column 'amount'", None),
        ({"amount": {"a": 1}}, "column 'amount': nested values", None),
        ({"amount": float("nan")}, "not a JSON object", None),
        ({"amount": 1e300}, "column 'amount'", None),
        ({"other": 1.0}, "'other', which the model has not learned", None),
        ({"y": "no"}, "has its label 'y' already", "y"),
        ({"shop": "\ud800"}, "not a JSON object", None),
    ],
)
def test_bad_events_are_refused(path, change, message, field):
    good, bad = events(rows_of(0, 2))
    with EventStore(path, id="id") as store:
        before = store.version
        with pytest.raises(DataError, match=r"row 2|amount|other") as caught:
            store.predict([good, {**bad, **change}])
        assert message in str(caught.value)
        assert caught.value.field == field
        assert (len(store), store.version) == (0, before)
        store.predict([good, bad])
        assert len(store) == 2


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ({"id": "p0"}, "row 1: no label in field 'y'"),
        ({"y": "no"}, "row 1: no id in field 'id'"),
        ({"id": "p0", "y": "maybe"}, "row 1: label 'maybe' is not one of 'no', 'yes'"),
        ({"id": "p0", "y": None}, "row 1: label None"),
        ({"id": "p0", "y": ["no"]}, "is not one of"),
        ([], "row 1: not a JSON object"),
    ],
)
def test_bad_labels_are_refused(path, label, message):
    with EventStore(path, id="id") as store:
        store.predict(events(rows_of(0, 1)))
        with pytest.raises(DataError) as caught:
            store.label([label])
        assert message in str(caught.value)
        with pytest.raises(DataError, match="row 2: id 'p1' occurs twice"):
            store.learn([*rows_of(1, 1), *rows_of(1, 1)])
        assert (len(store), store.waiting_labels, store.learned_ids) == (1, 0, 0)


def test_an_id_is_used_once(path):
    rows = rows_of(0, 3)
    with EventStore(path, id="id") as store:
        first = store.predict(events(rows))
        assert store.predict(events(rows)) == first
        assert store.predict([dict(reversed(events(rows)[0].items()))]) == first[:1]
        other = {**events(rows)[0], "amount": 99.0}
        with pytest.raises(ConflictError, match="'p0' was given with other features"):
            store.predict([other])
        with pytest.raises(ConflictError, match="'p0' was given with other features"):
            store.learn([{**other, "y": "no"}])
        with pytest.raises(DataError, match="row 2: id 'p1' occurs twice"):
            store.predict(events(rows_of(1, 1) * 2))
        store.label(labels(rows[:1]))
        with pytest.raises(ConflictError, match="'p0' was learned already"):
            store.predict(events(rows[:1]))


def test_dropped_alerts_are_learned_with_their_weight(path):
    """The rows of dropped alerts stand for those of all alerts."""
    rows = rows_of(0, 300)
    with EventStore(path, id="id", keep=True) as store:
        store.set_predictions(PredictionSettings(Threshold(0.4), explore=0.25))
        answers = store.predict(events(rows))
        results = store.label(labels(rows))
        counts = store.model.class_counts
        by_id = dict(zip([row["id"] for row in rows], results, strict=True))
        weights = {one["id"]: 4.0 if one.get("explored") else 1.0 for one in answers}
        for one in answers:
            assert ("explored" in one) == (one["proba_balanced_yes"] >= 0.4)
            assert (by_id[one["id"]] == "ignored") == one["alert"]
        learned = [row for row in rows if by_id[row["id"]] == "learned"]
        first = [row["y"] for row in rows_of(10_000, START)]
        for name in ("no", "yes"):
            expected = sum(weights[row["id"]] for row in learned if row["y"] == name)
            assert counts[name] == pytest.approx(first.count(name) + expected)
        ignored = [row for row in rows if by_id[row["id"]] == "ignored"]
        assert len(ignored) > 20
        assert store.erase([row["id"] for row in rows]) == ["learned"] * 300
    assert_learned(path, [], 1e-7)


def test_the_shell_and_the_store_share_their_events(path, run):
    """Events of files get labels one by one, and events that came alone labels from a file."""
    import pandas as pd

    rows = rows_of(0, 40)
    run("learn", write_frame(pd.DataFrame(events(rows[:20])), "e.csv"), "--id", "id", "-m", path)
    with EventStore(path) as store:
        store.predict(events(rows[20:]))
        assert len(store) == 40
        assert store.label(labels(rows[10:30])) == ["learned"] * 20
        with pytest.raises(ConflictError, match="with other features in e"):
            store.predict(events(rows[:1]))
    printed = run("learn", write_frame(pd.DataFrame(events(rows[39:])), "d.csv"), "-m", path,
                  "--id", "id", code=2).err  # fmt: skip
    assert "'p39' is also that of an event that came alone" in printed
    others = rows[:10] + rows[30:39]
    name = write_frame(pd.DataFrame(labels(others)), "l.csv")
    assert "19 events learned" in run("learn", "--labels", name, "--model", path).err
    assert_learned(path, rows[:39])
    assert "1 pending event erased" in run("unlearn", path, "--where", "id=p39").err
    with EventStore(path) as store:
        assert (len(store), store.learned_ids) == (0, 39)


def test_the_shell_reports_kept_events(path, run):
    rows = rows_of(0, 12)
    with EventStore(path, id="id", keep=True) as store:
        store.predict(events(rows))
        store.label(labels(rows[:9]))
    kept = sum(row["shop"] == "s1" for row in rows[:9])
    pending = sum(row["shop"] == "s1" for row in rows[9:])
    printed = run("unlearn", path, "--where", "shop=s1").err
    assert f"{kept} learned events with shop 's1' came alone and stay" in printed
    assert f"{pending} pending event" in printed


def test_the_shell_learns_the_log_of_a_killed_process(path, run, tmp_path):
    rows = rows_of(0, 20)
    store = EventStore(path, id="id")
    store.predict(events(rows))
    store.label(labels(rows[:12]))
    crashed = copy_files(path, tmp_path / "crash")
    store.close()
    again = copy_files(crashed, tmp_path / "again")
    printed = run("merge", again, path, "--output", "both", code=2).err
    assert "has rows that" in printed
    import pandas as pd

    name = write_frame(pd.DataFrame(labels(rows[12:])), "l.csv")
    assert "8 events learned" in run("learn", "--labels", name, "--model", crashed).err
    assert_learned(crashed, rows)


def test_old_events_and_labels_expire(path):
    rows = rows_of(0, 10)
    with EventStore(path, id="id") as store:
        store.predict(events(rows[:6]))
        store.label(labels(rows[6:]))
        assert store.expire(time.time() - 60.0) == (0, 0)
        assert store.expire(time.time() + 60.0) == (6, 4)
        assert (len(store), store.waiting_labels) == (0, 0)


@pytest.mark.parametrize("table", ["rows", "learned", "log", "kept"])
def test_a_changed_row_is_detected(path, tmp_path, table):
    rows = rows_of(0, 10)
    with EventStore(path, id="id", keep=True) as store:
        store.predict(events(rows))
        store.label(labels(rows[:5]))
        crashed = copy_files(path, tmp_path / "crash")
    column = {"rows": "event", "learned": "label", "log": "change", "kept": "event"}[table]
    with contextlib.closing(sqlite3.connect(pending_path(crashed))) as base, base:
        base.execute(f"UPDATE {table} SET {column} = replace({column}, 'n', 'm')")
    with pytest.raises(DataError, match="is damaged"):
        EventStore(crashed)


def test_a_model_that_cannot_be_served_is_refused(path, tmp_path):
    import pandas as pd

    with pytest.raises(DataError, match="has no pending events"):
        EventStore(path)
    frame = pd.DataFrame({"amount": [1.0, 2.0], "y": ["no", "no"]})
    TableClassifier().fit(frame, "y").save("one")
    with pytest.raises(DataError, match="one class only"):
        EventStore("one", id="id")
    assert not os.path.exists(pending_path("one"))
    with EventStore(path, id="id") as store:
        with pytest.raises(DataError, match="is being written by another process"):
            EventStore(path)
        with pytest.raises(DataError, match="explore requires a rule"):
            store.set_predictions(PredictionSettings(explore=0.1))
