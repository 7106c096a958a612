"""A changed ledger is refused in one line, and a query reads one state of the file.

benchmarks/proofs/mutations.py changes ledgers in many more ways.
"""

import json
import random
import shutil
import sqlite3

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from ledgers import CHANGES, SEALED, a_year, change_ledger, ledger_answers, mutate_bytes, reseal

from counterpoise import Ledger
from counterpoise.errors import DataError
from counterpoise.ledger.query import Snapshot

KEYS = {"label": "fraud", "timestamp": "at", "by": "country"}


@pytest.fixture(scope="module")
def ledger_and_answers(tmp_path_factory):
    """A ledger of 14 days in which rows were removed, and what it answers."""
    folder = tmp_path_factory.mktemp("made")
    (table,), _ = a_year(days=14, rows=25)
    with Ledger.open(folder / "l", **KEYS) as ledger:
        ledger.learn(table)
        ledger.learn(table.slice(0, 30), name="twice", allow_overlap=True)
        ledger.unlearn(table.slice(0, 30), name="twice")
    return folder / "l", ledger_answers(folder / "l")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_a_changed_byte_is_refused_or_has_no_effect(ledger_and_answers, tmp_path, seed):
    path, answers = ledger_and_answers
    bad = tmp_path / "l"
    bad.write_bytes(mutate_bytes(path.read_bytes(), random.Random(seed)))
    for name, found in ledger_answers(bad).items():
        assert found == answers[name] or isinstance(found, DataError), name


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_field_row_or_table_is_refused_or_not_read(ledger_and_answers, tmp_path, name):
    path, answers = ledger_and_answers
    bad = tmp_path / "l"
    shutil.copy(path, bad)
    change_ledger(bad, name, random.Random(name))
    found = ledger_answers(bad)
    assert "is not a ledger, or is damaged" in str(found["check"])
    for query, answer in found.items():
        assert answer == answers[query] or isinstance(answer, DataError), query
        assert "\n" not in str(answer)


@pytest.mark.slow
@pytest.mark.parametrize("name", SEALED)
@pytest.mark.parametrize("seed", range(3))
def test_a_changed_ledger_with_a_right_digest_ends_in_no_other_error(
    ledger_and_answers, tmp_path, name, seed
):
    bad = tmp_path / "l"
    shutil.copy(ledger_and_answers[0], bad)
    change_ledger(bad, name, random.Random(seed))
    reseal(bad)
    ledger_answers(bad)  # raises all other errors


def test_a_sound_ledger_passes_its_check(ledger_and_answers, run):
    path, _ = ledger_and_answers
    with Ledger.open(path) as ledger:
        cells = ledger.summary()["cells"]
        assert ledger.check() == cells
    assert f"{cells} cells are as they were written" in run("ledger", "check", path).err


def test_a_damaged_ledger_fails_its_check(ledger_and_answers, run, tmp_path):
    bad = tmp_path / "bad"
    shutil.copy(ledger_and_answers[0], bad)
    base = sqlite3.connect(bad)
    base.execute("DELETE FROM cells WHERE segment = -1 AND start = (SELECT MAX(start) FROM cells)")
    base.commit()
    base.close()
    done = run("ledger", "check", "bad", code=2)
    assert "bad is not a ledger, or is damaged" in done.err


def test_totals_that_are_not_sums_fail_the_check_even_with_right_checksums(
    ledger_and_answers, tmp_path
):
    bad = tmp_path / "l"
    shutil.copy(ledger_and_answers[0], bad)
    with Ledger.open(bad) as ledger:
        file, index = ledger._file, ledger._snapshot.index
        cells = index.cells
        one = cells[(cells["label"] == 1) & (cells["segment"] == 0)][:1]
        (row,) = file.block(one).cells()
        with file.writing():
            file.put_cells([row._replace(segment=-1)._replace(checksum=0)])
            heads = file.heads(row.start, row.start).totals
            assert len(heads)
            file._is_sealed = True
            raise_digest(file)
        with pytest.raises(DataError, match=r"damaged \(a (cell|total) is not"):
            ledger.check()


def raise_digest(file):
    """Write the digest that belongs to the heads, as an attacker would."""
    base = file._base()
    (text,) = base.execute("SELECT value FROM meta WHERE name = 'digest'").fetchone()
    old = json.loads(text)
    old[0], old[1] = file._digest.buckets, f"{file._digest.heads:032x}"
    base.execute("UPDATE meta SET value = ? WHERE name = 'digest'", (json.dumps(old),))


def test_a_query_reads_one_state_while_another_process_writes(tmp_path, monkeypatch):
    (table,), _ = a_year(days=20, rows=30)
    with Ledger.open(tmp_path / "l", **KEYS) as writer:
        writer.learn(table.slice(0, 100))
    more = table.slice(100).append_column("late", pa.array(np.ones(len(table) - 100)))
    with Ledger.open(tmp_path / "l") as reader, Ledger.open(tmp_path / "l") as writer:
        read = Snapshot.cells

        def meanwhile(*given, **options):
            monkeypatch.undo()
            writer.learn(
                more, allow_new_columns=True
            )  # with more features, between metadata and cells
            return read(*given, **options)

        monkeypatch.setattr(Snapshot, "cells", meanwhile)
        models = reader.models(by="country", share_of_all=0.1)
        assert all(model.class_count_.sum() < 110 for model in models.values())
        assert all("late" not in model.names_ for model in models.values())
        assert "late" in reader.features


def test_a_ledger_without_its_digest_is_refused_and_stays(run, tmp_path):
    at, y = pd.date_range("2024-01-01", periods=60, freq="h"), np.arange(60) % 3 > 0
    frame = pd.DataFrame({"at": at, "x": np.arange(60.0) % 7, "y": np.where(y, "no", "yes")})
    frame.to_csv("t.csv", index=False)
    run("ledger", "learn", "t.csv", "-l", "l", "--label", "y", "--timestamp", "at")
    frame.assign(x=1.0).to_csv("more.csv", index=False)
    with sqlite3.connect("l") as base:
        base.execute("DELETE FROM meta WHERE name = 'digest'")
    base.close()
    before = (tmp_path / "l").read_bytes()
    for words in (["learn", "more.csv", "-l"], ["inspect"], ["check"]):
        assert "digest is missing" in run("ledger", *words, "l", code=2).err
    assert (tmp_path / "l").read_bytes() == before
