"""A ledger killed at random moments, while it learns and while it merges buckets.

Each time the command is started again; in the end the ledger must have the bits of one that nobody
disturbed: every cell, every column, and the record of the input.
"""

import argparse
import shutil
import signal
import sqlite3
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow.csv
from forks import NOWHERE, Forks

from benchmarks import report
from counterpoise.ledger.synthetic import payments

MODULES = (
    "counterpoise.cli.app", "counterpoise.cli.ledger", "counterpoise.cli.messages",
    "counterpoise.ledger.ledger", "counterpoise.readers", "pyarrow.csv", "rich.console",
)  # fmt: skip
PROGRAM = """
import sys
from counterpoise.ledger import ingest
ingest.BATCH_ROWS = ingest.EVERY = 8192
from counterpoise.cli import main
main()
"""
LEARN = ["learn", "t.csv", "-l", "l", "--label", "fraud", "--timestamp", "at", "--by", "country"]
ROLLUP = ["rollup", "l", "--until", "2025-01-01", "--every", "quarter"]


def contents(path):
    """Everything in a ledger except the last writer."""
    base = sqlite3.connect(path)
    tables = ("cells", "totals", "heads", "meta")
    found = {name: sorted(base.execute(f"SELECT * FROM {name}").fetchall()) for name in tables}
    base.close()
    found["meta"] = [row for row in found["meta"] if row[0] not in ("writer", "digest")]
    return found


class Runs:
    """Commands in one folder, forked from a process that has imported everything."""

    def __init__(self, forks, folder):
        self.forks, self.folder = forks, folder

    def start(self, words):
        given = ["-c", PROGRAM, "ledger", *words]
        return self.forks.start(given, cwd=self.folder, stdout=NOWHERE, stderr=NOWHERE)

    def undisturbed(self, words):
        assert self.start(words).wait() == 0
        return contents(self.folder / "l")


def on_disk(folder):
    """What a change on disk changes: the files of the ledger, their sizes and times."""
    found = []
    for path in sorted(folder.glob("l*")):
        with suppress(FileNotFoundError):
            status = path.stat()
            found.append((path.name, status.st_size, status.st_mtime_ns))
    return found


def changing(folder, process, before):
    """Wait until something has changed on disk; whether the process still runs."""
    while process.poll() is None:
        if on_disk(folder) != before:
            return True
        time.sleep(0.001)
    return False


def part_way(folder, words):
    """Whether a killed run has left a part of its work behind, and not all of it."""
    try:
        base = sqlite3.connect(f"file:{folder / 'l'}?mode=ro", uri=True)
        if words is ROLLUP:
            found = base.execute(
                "SELECT COUNT(*) FROM meta WHERE name = 'coarse' AND value <> '[]'"
            ).fetchone()
        else:
            found = base.execute("SELECT COUNT(*) FROM cells").fetchone()
        base.close()
    except sqlite3.Error:
        return False
    return found[0] > 0


def killed(runs, words, before, wanted, rng, kills):
    """Kill and start again until it has happened often enough.

    Every kill comes after something has changed on disk. Returns how many found work half done,
    and how many runs came to an end.
    """
    folder = runs.folder
    before()
    process = runs.start(words)
    changing(folder, process, on_disk(folder))
    begin = time.monotonic()
    assert process.wait() == 0
    usual = time.monotonic() - begin
    assert contents(folder / "l") == wanted
    before()
    done = midway = finished = 0
    while done < kills:
        process = runs.start(words)
        if changing(folder, process, on_disk(folder)):
            end = time.monotonic() + rng.uniform(0.0, 1.0) * usual
            while process.poll() is None and time.monotonic() < end:
                time.sleep(0.001)
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            if process.wait() == -signal.SIGKILL:
                done += 1
                midway += part_way(folder, words)
                print(words[0], done, midway, finished, flush=True)
        if process.wait() == 0:
            assert contents(folder / "l") == wanted
            finished += 1
            before()
    assert runs.undisturbed(words) == wanted
    return midway, finished + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--rows", type=int, default=600)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name, Forks(MODULES) as forks:
        folder = Path(name)
        runs = Runs(forks, folder)
        table = payments(rows=options.rows)[0]
        rows = table.num_rows
        pyarrow.csv.write_csv(table, folder / "t.csv")

        def empty():
            for path in folder.glob("l*"):
                path.unlink()

        learned = runs.undisturbed(LEARN)
        shutil.copy(folder / "l", folder / "copy")
        empty()
        finished = [killed(runs, LEARN, empty, learned, rng, options.kills)]

        def restored():
            empty()
            shutil.copy(folder / "copy", folder / "l")

        restored()
        merged = runs.undisturbed(ROLLUP)
        restored()
        finished.append(killed(runs, ROLLUP, restored, merged, rng, options.kills))
    report.write(
        "ledger_crash",
        "A ledger killed",
        f"{2 * options.kills} SIGKILLs at random moments after something had changed on disk, and "
        "the same command again. Every run that came to an end has the cells, the columns and the "
        "records of one that nobody disturbed, bit by bit. `learn` writes every 8,192 rows here, "
        f"of {rows:,}; `rollup` writes once.",
        report.table(
            ["command", "kills", "work half done", "runs that ended"],
            [
                [f"ledger {name}", options.kills, *counts]
                for name, counts in zip(("learn", "rollup"), finished, strict=True)
            ],
        ),
    )


if __name__ == "__main__":
    main()
