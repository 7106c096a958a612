"""Commands and calls that are interrupted: files, pipelines, delayed labels, ledgers, signals.

Each time the command is started again. In the end its files must be those of a run that was not
interrupted, bit by bit. ``nightly`` is a job of many commands, checked after every day.
"""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from delayed_labels import PLAIN, NightlyJob, model_contents, of_day, write_days
from estimators.test_interrupts import CALLS, strike
from fork_server import NOWHERE, ForkServer
from pipelines import CHUNK, FORMATS, ROWS

from benchmarks import ROOT, processes, report
from counterpoise.estimators.auto import wrap_engine
from counterpoise.ledger.synthetic import payments
from counterpoise.tables.model import TableModel

# Files and pipelines

LEARN = ["learn", "t.csv", "--label", "y", "-m", "m", "--checkpoint-every", "16384"]
DYING = (ROOT / "tests" / "tables" / "test_crash.py").read_text().split('"""')[3]
POINTS = [
    (call, when, count)
    for call in ("write", "fsync", "replace")
    for when in ("before", "half", "after")
    for count in (1, 2, 60)
    if when != "half" or call == "write"
]


def write_rows(path, rows):
    """Write rows of 8 numbers and a category, 2% of them positive."""
    rng = np.random.default_rng(0)
    y = rng.random(rows) < 0.02
    columns = {f"x{j}": np.round(rng.standard_normal(rows) + y * (j < 3), 4) for j in range(8)}
    town = np.array(["Aachen", "Bonn", "Celle", "Dresden"])[rng.integers(0, 4, rows)]
    pa.csv.write_csv(pa.table({**columns, "town": town, "y": y.astype(int)}), path)


def count_rows(folder):
    """Return the rows that the file on the disk has learned; it must be whole."""
    if not (folder / "m").exists():
        return 0
    stored = TableModel.load(str(folder / "m"))
    (record,) = stored.records.values()
    assert wrap_engine(stored.model).class_count_.sum() == record.mark.rows
    return record.mark.rows


def kill_learn(folder, whole, wanted):
    """Kill and start again until it has happened often enough; return the runs that finished."""
    rng, kills, rows, finished = np.random.default_rng(0), 0, 0, 0
    seconds = time_learn(folder)
    while kills < wanted:
        process = processes.start(folder, *LEARN)
        number = signal.SIGTERM if rng.random() < 0.1 else signal.SIGKILL
        kills += processes.kill_after(process, rng.uniform(0.2, 1.0) * seconds, number)
        before, rows = rows, count_rows(folder)
        assert rows >= before, "rows were lost"
        if process.returncode == 0:
            check_whole(folder, whole)
            finished, rows = finished + 1, 0
            print(f"{kills} kills, {finished} runs finished", flush=True)
    processes.run(folder, *LEARN)
    check_whole(folder, whole)
    return finished + 1


def time_learn(folder):
    """Return the seconds of a whole run."""
    start = time.monotonic()
    processes.run(folder, *LEARN)
    (folder / "m").unlink()
    return time.monotonic() - start


def check_whole(folder, whole):
    """Check that a finished run left the model of an undisturbed run and no other file."""
    assert (folder / "m").read_bytes() == whole, "the bytes differ"
    assert sorted(os.listdir(folder)) == ["m", "t.csv"]
    (folder / "m").unlink()


def write_files(options):
    """Kill ``learn`` of a file at random moments and at every point of saving, and pipelines."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder / "t.csv", options.rows)
        processes.run(folder, *LEARN)
        whole = (folder / "m").read_bytes()
        assert count_rows(folder) == options.rows
        (folder / "m").unlink()
        finished = kill_learn(folder, whole, options.kills)
        for point in POINTS:
            died = subprocess.run(
                [sys.executable, "-c", DYING, *map(str, point), *LEARN],
                cwd=folder, stderr=subprocess.DEVNULL, check=False,
            )  # fmt: skip
            assert died.returncode == -signal.SIGKILL or point[2] > options.rows // 16_384
            count_rows(folder)
            processes.run(folder, *LEARN)
            check_whole(folder, whole)
    lines = []
    for kind in FORMATS:
        program = [sys.executable, str(ROOT / "tests" / "pipelines.py"), kind]
        done = subprocess.run(
            [*program, str(options.signals), "1"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        lines.append(f"- {done.stdout.strip()}; model and metrics")
        print(lines[-1], flush=True)
    report.write(
        "crash",
        "Killed and started again",
        f"A run over {options.rows:,} rows of CSV (8 numbers, one category), saving every 16,384 "
        f"rows, was killed at {options.kills} random moments (one in ten by SIGTERM, the others by "
        f"SIGKILL) and each time started again; it came to its end {finished} times. It was also "
        f"killed at {len(POINTS)} points of saving: before, half-way through and after the "
        "temporary write, before and after each fsync and the rename.",
        "- Whenever it was killed, the file on the disk was whole, and its counts added up to the "
        "rows that it records as read.\n- In the end it was, every time, bit-identical to the file "
        "of a run that was not disturbed.",
        f"Then `producer | counterpoise learn -` with `--ridge gcv --metrics`, {ROWS:,} rows in "
        f"chunks of {CHUNK}, was stopped by {options.signals} signals for each format (SIGINT and "
        "SIGTERM to the process group, so that the producer dies too, in the middle of a row or "
        "at the end of a line) and resumed from the start of the stream; sometimes it was let "
        "come to its end. A stop is an exit code of 130 or 143; other signals came before `learn` "
        "caught them, or after its end. Parquet, which a pipe cannot carry, is a file.",
        "\n".join(lines),
    )


# Delayed labels

OFTEN = ["--chunk-rows", "512", "--checkpoint-every", "512"]


def learn_days(folder, days, kills, rng):
    """Learn day by day, killed at random moments after a change on disk; return the kills."""
    done, seconds = 0, 0.2
    for day in range(days):
        # Spread over the days; a day that ends before it is killed leaves its kills to the next.
        wanted = min(kills, kills * (day + 1) // max(days - 3, 1))
        while True:
            before = processes.file_states(folder, "m*")
            process = processes.start(folder, *of_day(day), *OFTEN)
            processes.wait_for_change(process, folder, "m*", before)
            changed = time.monotonic()
            if done < wanted and processes.kill_after(process, rng.uniform(0.0, 1.0) * seconds):
                done += 1
                continue
            assert process.wait() == 0, process.returncode
            seconds = max(0.05, time.monotonic() - changed)
            break
    return done


def write_labels(options):
    """Kill ``learn --labels`` of daily files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_days(folder, options.days, options.events, 9)
        for day in range(options.days):
            processes.run(folder, *of_day(day), *OFTEN)
            if day:
                processes.run(folder, "learn", f"joined{day:02d}.csv", *PLAIN, *OFTEN)
        whole = (folder / "m").read_bytes()
        assert model_contents(folder / "m") == model_contents(folder / "joined"), (
            "not the joined rows"
        )
        (folder / "m").unlink()
        (folder / "m.pending").unlink()
        kills = learn_days(folder, options.days, options.kills, np.random.default_rng(0))
        assert kills >= options.kills
        assert (folder / "m").read_bytes() == whole, "the bytes differ"
        size = (folder / "m.pending").stat().st_size
        left = sorted(p.name for p in folder.iterdir() if not p.name.endswith(".csv"))
        assert left == ["joined", "m", "m.pending"], left
        rows = sum(
            len((folder / f"labels{day:02d}.csv").read_text().splitlines()) - 1
            for day in range(options.days)
        )
    report.write(
        "late",
        "Delayed labels, killed on the way",
        f"{options.days} daily files of {options.events:,} events each. Their labels come 1 to 9 "
        "days late, in any order, and 3% never. `learn day.csv --labels labels.csv --id payment` "
        f"ran once per day, saving every 512 rows, and was killed by SIGKILL at {kills} random "
        "moments, all of them after it had changed the model or the pending events, each time to "
        "be started again.",
        f"- {rows:,} labels came, and as many rows were learned: moments, calibration, features "
        "and scores of late rows are bit-identical to those of a model that learned the joined "
        "rows in the order in which their labels came.\n"
        "- The model file is, byte by byte, that of a run that was not disturbed. The pending "
        f"events take {size / 1e6:.1f} MB.",
    )


# Ledgers

MODULES = (
    "counterpoise.cli.app", "counterpoise.cli.ledger", "counterpoise.cli.messages",
    "counterpoise.ledger.ledger", "counterpoise.readers", "pyarrow.csv", "rich.console",
)  # fmt: skip
PROGRAM = """
from counterpoise.ledger import ingest
ingest.BATCH_ROWS = ingest.EVERY = 8192
from counterpoise.cli import main
main()
"""
LEDGER = {
    "learn": ["t.csv", "-l", "l", "--label", "fraud", "--timestamp", "at", "--by", "country"],
    "rollup": ["l", "--until", "2025-01-01", "--every", "quarter"],
}
PARTIAL = {
    "learn": "SELECT COUNT(*) FROM cells",
    "rollup": "SELECT COUNT(*) FROM meta WHERE name = 'coarse' AND value <> '[]'",
}


def contents(path):
    """Return all that a ledger contains, except its last writer."""
    base = sqlite3.connect(path)
    tables = ("cells", "heads", "meta")
    found = {name: sorted(base.execute(f"SELECT * FROM {name}").fetchall()) for name in tables}
    base.close()
    found["meta"] = [row for row in found["meta"] if row[0] not in ("writer", "digest")]
    return found


def is_partial(path, command):
    """Return whether a killed run has left a part of its work."""
    try:
        base = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        (count,) = base.execute(PARTIAL[command]).fetchone()
        base.close()
    except sqlite3.Error:
        return False
    return count > 0


def kill_ledger(server, folder, command, reset, kills, rng):
    """Kill a command after changes on disk; return kills with partial work, and runs that ended."""
    path = folder / "l"

    def start():
        arguments = ["-c", PROGRAM, "ledger", command, *LEDGER[command]]
        return server.start(arguments, cwd=folder, stdout=NOWHERE, stderr=NOWHERE)

    reset()
    process = start()
    processes.wait_for_change(process, folder, "l*", processes.file_states(folder, "l*"))
    begin = time.monotonic()
    assert process.wait() == 0
    seconds, whole = time.monotonic() - begin, contents(path)
    reset()
    done = partial = finished = 0
    while done < kills or not finished:
        before, process = processes.file_states(folder, "l*"), start()
        if done < kills and processes.wait_for_change(process, folder, "l*", before):
            processes.kill_after(process, rng.uniform(0.0, 1.0) * seconds)
        if process.wait() == -signal.SIGKILL:
            done += 1
            partial += is_partial(path, command)
            print(command, done, partial, finished, flush=True)
        else:
            assert process.returncode == 0
            assert contents(path) == whole
            finished += 1
            reset()
    return partial, finished


def write_ledger(options):
    """Kill ``ledger learn`` and ``ledger rollup``."""
    rng, rows = np.random.default_rng(0), []
    with tempfile.TemporaryDirectory() as name, ForkServer(MODULES) as server:
        folder = Path(name)
        table = payments(rows=options.payments)[0]
        pyarrow.csv.write_csv(table, folder / "t.csv")

        def empty():
            for path in folder.glob("l*"):
                path.unlink()

        def restore():
            empty()
            shutil.copy(folder / "copy", folder / "l")

        for command, reset in (("learn", empty), ("rollup", restore)):
            counts = kill_ledger(server, folder, command, reset, options.kills, rng)
            rows.append([f"ledger {command}", options.kills, *counts])
            if command == "learn":
                arguments = ["-c", PROGRAM, "ledger", command, *LEDGER[command]]
                assert server.start(arguments, cwd=folder).wait() == 0
                shutil.copy(folder / "l", folder / "copy")
    report.write(
        "ledger_crash",
        "A ledger killed",
        f"{2 * options.kills} SIGKILLs at random moments after something had changed on disk, and "
        "the same command again. Every run that came to an end has the cells, the columns and the "
        "records of a run that was not disturbed, bit by bit. `learn` writes every 8,192 rows "
        f"here, of {table.num_rows:,}; `rollup` writes once.",
        report.table(["command", "kills", "work half done", "runs that ended"], rows),
    )


# A nightly job


def write_nightly(options):
    """Run a job of 30 days and check it after each day."""
    commands = 0

    def call(*arguments):
        nonlocal commands
        commands += 1
        done = subprocess.run(
            [*processes.COMMAND, *arguments], cwd=folder / "job", capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, (arguments, done.stderr)
        with open(folder / "job" / "log", "a") as log:
            log.write(done.stdout + done.stderr)
        return done.stderr

    def learn(path, model):
        processes.run(folder, "learn", path, "--label", "fraud", "--ridge", "2", "-m", model)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = NightlyJob(folder, call, options.nights, options.night_events)
        for day in range(options.nights):
            job.run_day(day)
            job.check(learn)
            print(f"day {day}", flush=True)
        size = (folder / "job" / "m.pending").stat().st_size
    counts = {
        "events": job.counts["events"],
        "labels": job.counts["labels"],
        "of these before their event, or without one": job.counts["unknown"],
        "revised labels": job.counts["revised"],
        "erased rows": job.counts["erased"],
        "rows in the model at the end": len(job.learned),
        "pending events at the end": len(job.pending),
        "labels that wait at the end": len(job.labels),
    }
    rows = [[name, f"{count:,}"] for name, count in counts.items()]
    report.write(
        "nightly",
        f"A nightly job of {options.nights} days",
        f"{options.nights} days of {options.night_events:,} payments as CSV, Parquet and JSON "
        "lines. Labels come 0 to 20 days late, a few before their event, 3% never, and one per day "
        "for a payment that never comes. A column is new on one day. One day is logged twice, "
        "another one in cents and corrected days later. Some pending payments come again in a file "
        f"with labels. {len(job.erased)} customers are erased. The job is {commands} commands: "
        "`learn --id --labels`, `learn`, `relabel --labels` and `unlearn --where`.",
        report.table(
            ["what", "number"],
            [*rows, ["size of the store at the end (MB)", f"{size / 1e6:.1f}"]],
        ),
        "After every day:\n\n"
        "- The coefficients equal those of a model that learned in one step what should have been "
        f"learned. The largest relative difference was {job.largest:.1g}; 1e-9 was allowed.\n"
        "- Each row is in the model once, or pending once: the ids of the store are those "
        "expected, and the class counts are equal.\n"
        "- No erased customer is in a file of the job, in a table of the store or in a batch, "
        "decoded. The files of inputs are not part of the job.",
    )


# Signals into calls


def write_signals(options):
    """Send real signals into calls that succeed and calls that fail."""
    warnings.simplefilter("ignore")
    rng, rows = np.random.default_rng(0), []
    each = -(-options.strikes // len(CALLS))
    for name in CALLS:
        hits, undone = strike(name, each, rng)
        rows.append([name, f"{hits:,}", f"{undone:,}", 0])
        print(rows[-1], flush=True)
    report.write(
        "interrupts",
        "Signals into calls",
        f"{each * len(CALLS):,} signals (SIGALRM, whose handler raises as Ctrl-C does), each at a "
        "random moment of a call that learns, unlearns or fails. *As before* counts the models "
        "that were bit by bit as before the call, the others were as after it; *lost* those that "
        "were neither.",
        report.table(["call", "signals", "as before", "lost"], rows),
    )


if __name__ == "__main__":
    TABLES = {
        "files": write_files, "labels": write_labels, "ledger": write_ledger,
        "nightly": write_nightly, "signals": write_signals,
    }  # fmt: skip
    options = report.parse(
        __doc__, TABLES, kills=50, rows=2_000_000, signals=100, days=20, events=5_000,
        payments=600, nights=30, night_events=2_000, strikes=10_000,
    )  # fmt: skip
    for part in options.parts:
        TABLES[part](options)
