"""Daily files of events whose labels arrive late, and a nightly job, for tests and benchmarks."""

import contextlib
import os
import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
from builders import write_frame

from counterpoise.estimators.auto import wrap_engine
from counterpoise.modelfile import container as modelfile
from counterpoise.tables.event_database import EventDatabase, pending_path
from counterpoise.tables.model import TableModel

HEAD = "payment,amount,country,hour"
OPTIONS = ["--label", "fraud", "--id", "payment", "--model", "m"]
PLAIN = ["--label", "fraud", "--drop", "payment", "--model", "joined"]


# Dies at one call of a function through which events and labels go, before or after it has worked.
DYING = """
import os, sys
where, when, count = sys.argv.pop(1), sys.argv.pop(1), int(sys.argv.pop(1))
from counterpoise import atomic_write
from counterpoise.tables.event_database import EventDatabase
owner = os if where in ("replace", "fsync") else EventDatabase
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
    """Return the command of a day."""
    return ["learn", f"day{day:02d}.csv", "--labels", f"labels{day:02d}.csv", *OPTIONS]


def model_contents(path):
    """Return the contents of a model file, except the names and the hashes of its inputs."""
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


# A nightly job

MAX_DELAY = 20
FORMATS = {2: "parquet", 4: "jsonl"}  # by the day modulo 5; else CSV


class NightlyJob:
    """A job that runs once per day, and the rows that it should have learned.

    Labels come 0 to 20 days late, some before their event, some never, and some are revised. A
    column is new from one day on, formats are mixed, one day is logged twice and another one
    wrong, some rows come with their labels, and customers are erased.

    ``folder`` gets ``inputs`` with the files of each day, and ``job`` with the model. ``run`` runs
    a command in ``job`` and returns the text that it printed.
    """

    def __init__(self, folder, run, days=30, events=400, seed=0):
        self.inputs, self.job = folder / "inputs", folder / "job"
        self.inputs.mkdir()
        self.job.mkdir()
        self.run, self.days, self.events = run, days, events
        self.rng = np.random.default_rng(seed)
        self.new_column, self.wrong_day = days * 2 // 5, days // 3
        self.corrected_on, self.twice_day = self.wrong_day + days // 8 + 1, days * 3 // 5
        self.joined_on = days * 2 // 3
        self.erase_on = {days * k // 4 for k in (1, 2, 3)} | {days - 1}
        self.rows = {}  # all events that came, by id
        self.due = {day: [] for day in range(-1, days + MAX_DELAY + 2)}
        self.labels, self.learned, self.pending = {}, {}, set()
        self.files, self.erased, self.counts = {}, [], dict.fromkeys(
            ("events", "labels", "revised", "erased", "unknown"), 0
        )  # fmt: skip
        self.erased_ids = set()
        self.largest = 0.0
        self.next_day = self._events(0)

    # The days

    def run_day(self, day):
        """Run the commands of one day."""
        frame, self.next_day = self.next_day, self._events(day + 1)
        name = self._write(self._log_rows(frame, day), f"day{day:02d}", FORMATS.get(day % 5, "csv"))
        self._schedule(day, [self.next_day] if day else [frame, self.next_day])
        options = ["--id", "payment", "--label", "fraud", "--drop", "customer", "--ridge", "2"]
        options += ["--classes", "no,yes"]
        options = options if day == 0 else ["--id", "payment"]
        if day == self.new_column:
            options.append("--allow-new-columns")
        labels = self._write_labels(self.due[day], f"labels{day:02d}")
        self._add(frame, name)
        self._label(self.due[day])
        self.run("learn", name, "--labels", labels, *options, "--model", "m")
        if day == self.twice_day:
            copy = self._write(frame, f"copy{day:02d}", FORMATS.get(day % 5, "csv"))
            printed = self.run("learn", copy, "--id", "payment", "--model", "m")
            assert "no new events" in printed, printed
        if day == self.corrected_on:
            self._correct()
        if day == self.joined_on:
            self._learn_joined()
        if day % 3 == 2:
            self._revise(day)
        if day in self.erase_on:
            self._erase()

    def _events(self, day):
        n = self.events
        fraud = self.rng.random(n) < 0.06
        customers = [k for k in range(n // 2) if f"customer-{k:05d}" not in self.erased]
        frame = pd.DataFrame(
            {
                "payment": [f"P{day:02d}-{i:05d}" for i in range(n)],
                "customer": [f"customer-{k:05d}" for k in self.rng.choice(customers, n)],
                "shop": self.rng.choice(list("ABCDEF"), n),
                "amount": np.exp(self.rng.standard_normal(n) + 3.0 + fraud).round(2),
                "hour": self.rng.integers(0, 24, n),
            }
        )
        if day >= self.new_column:
            frame["device"] = (self.rng.random(n) + 0.5 * fraud).round(4)
        frame["fraud"] = np.where(fraud, "yes", "no")
        return frame

    def _log_rows(self, frame, day):
        """Return the rows of customers that are not erased; amounts of one day are wrong."""
        frame = frame[~frame.customer.isin(self.erased)]
        return frame.assign(amount=frame.amount * 100) if day == self.wrong_day else frame

    def _schedule(self, day, frames):
        """Decide when the labels of events come: late, never, or before the event."""
        for frame in frames:
            for one, label in zip(frame.payment, frame.fraud, strict=True):
                come = int(one[1:3]) + int(self.rng.integers(0, MAX_DELAY + 1))
                if self.rng.random() < 0.005 and come > day:
                    come = int(one[1:3]) - 1
                if self.rng.random() < 0.97:
                    self.due[max(come, day)].append((one, label))
        self.due[day].append((f"never-{day:02d}", "no"))

    def _add(self, frame, name):
        frame = frame[~frame.customer.isin(self.erased)]
        day = int(frame.payment.iloc[0][1:3])
        logged = self._log_rows(frame, day)
        self.files[name] = list(frame.payment)
        for row in logged.to_dict("records"):
            self.rows[row["payment"]] = row
            self.pending.add(row["payment"])
        self.counts["events"] += len(frame)
        self._join()

    def _label(self, pairs):
        self.counts["labels"] += len(pairs)
        self.labels |= dict(pairs)
        self.counts["unknown"] += sum(one not in self.rows for one, _ in pairs)
        self._join()

    def _join(self):
        for one in [one for one in self.labels if one in self.pending]:
            self.learned[one] = self.labels.pop(one)
            self.pending.discard(one)

    def _correct(self):
        """Unlearn the day that was logged wrong, and learn it again with its labels."""
        (wrong,) = [name for name in self.files if f"day{self.wrong_day:02d}" in name]
        ids = [one for one in self.files.pop(wrong) if one in self.rows]
        self.run("unlearn", "m", wrong)
        known = [(one, self.learned.pop(one)) for one in ids if one in self.learned]
        frame = pd.DataFrame([self.rows[one] for one in ids])
        frame["amount"] = (frame.amount / 100).round(2)
        name = self._write(frame, "corrected", "csv")
        labels = self._write_labels(known, "again")
        options = ["--id", "payment", "--allow-new-columns", "--model", "m"]
        self.run("learn", name, "--labels", labels, *options)
        self.files[name] = ids
        for row in frame.to_dict("records"):
            self.rows[row["payment"]] = row
            self.pending.add(row["payment"])
        self.labels |= dict(known)
        self._join()

    def _learn_joined(self):
        """Learn some pending events from a file that has their labels."""
        ids = sorted(self.pending)[:: max(1, len(self.pending) // 30)]
        ids = [one for one in ids if "device" in self.rows[one]]
        frame = pd.DataFrame([self.rows[one] for one in ids])
        name = str(Path("..", "inputs", "joined.csv"))
        frame.to_csv(self.job / name, index=False)
        self.run("learn", name, "--model", "m")
        self.files[name] = ids
        for one in ids:
            self.learned[one] = self.rows[one]["fraud"]
            self.pending.discard(one)
        for day in self.due:  # they do not come a second time
            self.due[day] = [pair for pair in self.due[day] if pair[0] not in ids]

    def _revise(self, day):
        """Correct labels that were learned, and one that waits for its event."""
        ids = [one for one in self.learned if self.rng.random() < 0.01]
        waiting = [one for one in self.labels if one.startswith("P")][:1]
        pairs = [(one, "no" if self.learned[one] == "yes" else "yes") for one in ids]
        pairs += [(one, "yes") for one in waiting]
        labels = self._write_labels(pairs, f"revised{day:02d}")
        files = [name for name, has in self.files.items() if set(has) & set(ids)]
        self.run("relabel", "m", *files, "--labels", labels)
        for one, label in pairs:
            (self.labels if one in waiting else self.learned)[one] = label
        self.counts["revised"] += len(pairs)

    def _erase(self):
        """Erase a customer with learned rows."""
        customer = self.rows[str(self.rng.choice(sorted(self.learned)))]["customer"]
        self.run("unlearn", "m", "--where", f"customer={customer}", *self.files)
        gone = {one for one, row in self.rows.items() if row["customer"] == customer}
        self.erased.append(customer)
        self.counts["erased"] += len(gone & (self.pending | set(self.learned)))
        self.erased_ids |= gone
        self.pending -= gone
        self.learned = {one: label for one, label in self.learned.items() if one not in gone}
        self.rows = {one: row for one, row in self.rows.items() if one not in gone}

    def _write(self, frame, name, kind):
        frame = frame[~frame.customer.isin(self.erased)].drop(columns="fraud")
        path = self.inputs / f"{name}.{kind}"
        write_frame(frame, str(path))
        return str(Path("..", "inputs", path.name))

    def _write_labels(self, pairs, name):
        path = self.inputs / f"{name}.csv"
        lines = ["payment,fraud", *(f"{one},{label}" for one, label in pairs)]
        path.write_text("\n".join(lines) + "\n")
        return str(Path("..", "inputs", path.name))

    # What should have become of it

    def check(self, learn):
        """Compare the model with a batch fit, and the store with what should be in it.

        ``learn`` learns a file into a model.
        """
        table = pd.DataFrame(
            [{**self.rows[one], "fraud": label} for one, label in self.learned.items()]
        )
        table = table.drop(columns=["payment", "customer"])
        if "device" in table:
            table["device"] = table.device.fillna(0.0)
        path, batch = self.inputs / "batch.csv", self.inputs / "batch"
        table.to_csv(path, index=False)
        batch.unlink(missing_ok=True)
        learn(path, batch)
        one, two = TableModel.load(str(self.job / "m")), TableModel.load(str(batch))
        assert one.model.class_count.tolist() == two.model.class_count.tolist()
        assert set(one.encoding.features) == set(two.encoding.features)
        order = [one.encoding.features.index(feature) for feature in two.encoding.features]
        difference = np.abs(
            wrap_engine(one.model).coef_[:, order] - wrap_engine(two.model).coef_
        ).max()
        difference /= np.abs(wrap_engine(two.model).coef_).max()
        assert difference < 1e-9, difference
        self.largest = max(self.largest, float(difference))
        with EventDatabase(pending_path(str(self.job / "m"))) as store:
            base = store.base
            ids = {kind: set(base.select(kind)) for kind in ("events", "labels", "learned")}
            assert ids == {
                "events": self.pending, "labels": set(self.labels), "learned": set(self.learned)
            }  # fmt: skip
            batches = [store._read(n) for n in base.select("contents")]
            assert sum(batch.num_rows for batch in batches) == len(store)
            text = repr([batch.to_pylist() for batch in batches]) + repr(base.state)
            text += "".join(repr(base.select(name)) for name in (*ids, "inputs", "steps"))
        for name in sorted(os.listdir(self.job)):
            text += (self.job / name).read_bytes().decode("latin-1")
        gone = self.erased_ids - set(self.labels)  # a label that comes later waits
        for one in (*self.erased, *sorted(gone)):
            assert one not in text, one
