"""Daily files of events whose labels arrive days late, for the tests and for benchmarks/late.py."""

import contextlib
import sqlite3

import numpy as np

from counterpoise.modelfile import container as modelfile

HEAD = "payment,amount,country,hour"
OPTIONS = ["--label", "fraud", "--id", "payment", "--model", "m"]
PLAIN = ["--label", "fraud", "--drop", "payment", "--model", "joined"]


# Dies at one call of a function through which events and labels go, before or after it has worked.
DYING = """
import os, sys
where, when, count = sys.argv.pop(1), sys.argv.pop(1), int(sys.argv.pop(1))
from counterpoise import atomic_write
from counterpoise.tables.event_store import EventStore
owner = os if where in ("replace", "fsync") else EventStore
real = getattr(owner, where)
def dying(*arguments, **options):
    global count
    count -= 1
    if count == 0 and when == "before":
        os.kill(os.getpid(), 9)
    result = real(*arguments, **options)
    if count == 0:
        os.kill(os.getpid(), 9)
    return result
setattr(owner, where, dying)
from counterpoise.cli import main
main()
"""


def write_days(folder, days=20, events=500, latest=9, seed=0):
    """Files of events and of labels of each day, and the rows of these labels joined.

    The label of an event comes 1 to ``latest`` days after it, in any order; some never come.
    """
    rng = np.random.default_rng(seed)
    due = {day: [] for day in range(days + latest + 1)}
    for day in range(days):
        fraud = rng.random(events) < 0.05
        amount = np.exp(rng.standard_normal(events) + 3.0 + fraud)
        country, hour = rng.integers(0, 4, events), rng.integers(0, 24, events)
        cells = [
            f"{day * events + i:07d},{amount[i]:.2f},{'DFUX'[country[i]]},{hour[i]}"
            for i in range(events)
        ]
        (folder / f"day{day:02d}.csv").write_text("\n".join([HEAD, *cells]) + "\n")
        for i, cell in enumerate(cells):
            if rng.random() < 0.97:
                due[day + int(rng.integers(1, latest + 1))].append((cell, int(fraud[i])))
        late = [due[day][k] for k in rng.permutation(len(due[day]))]
        lines = [f"{cell.split(',')[0]},{label}" for cell, label in late]
        (folder / f"labels{day:02d}.csv").write_text("\n".join(["payment,fraud", *lines]) + "\n")
        lines = [f"{cell},{label}" for cell, label in late]
        (folder / f"joined{day:02d}.csv").write_text("\n".join([f"{HEAD},fraud", *lines]) + "\n")
    return due


def of_day(day):
    """The command of a day, without its name and options."""
    return ["learn", f"day{day:02d}.csv", "--labels", f"labels{day:02d}.csv", *OPTIONS]


def learned(path):
    """All that a model file holds but the names and the hashes of its inputs."""
    contents = modelfile.load(path)
    stream = {k: v for k, v in contents.stream.items() if k not in ("inputs", "order")}
    arrays = {name: value.tobytes() for name, value in contents.arrays.items()}
    return contents.kind, contents.options, contents.facts, stream, contents.lists, arrays


LOOP = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, 1, 1 FROM n"


def spoil_store(path, good, rng):
    """Write a store of pending events with flipped bytes, a cut end, or changed fields or rows."""
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    data, way = bytearray(good), rng.randrange(6)
    if way < 3:
        for _ in range(rng.choice((1, 1, 1, 2, 8))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif way == 3 and not rng.randrange(3):
        del data[rng.randrange(len(data)) :]
    path.write_bytes(data)
    if way < 3 or data != good:
        return
    with contextlib.closing(sqlite3.connect(path)) as base, base:
        tables = [name for (name,) in base.execute("SELECT name FROM sqlite_master")]
        rows = {name: base.execute(f"SELECT * FROM {name}").fetchall() for name in tables}
        table = rng.choice([name for name in tables if rows[name]])
        names = [row[1] for row in base.execute(f"PRAGMA table_info({table})")]
        row, name = rng.choice(rows[table]), rng.choice(names)
        where, value = f"WHERE {names[0]} = ?", rng.choice(["7", "", "x" * 40, -1, 5, None, 1e300])
        if way == 3:
            base.execute(f"DELETE FROM {table} {where}", row[:1])
        elif way == 4 and not rng.randrange(4):
            base.execute(f"DROP TABLE {table}")
            base.execute(f"CREATE VIEW {table} AS {LOOP}")
        else:
            with contextlib.suppress(sqlite3.IntegrityError):
                base.execute(f"UPDATE OR REPLACE {table} SET {name} = ? {where}", (value, row[0]))
