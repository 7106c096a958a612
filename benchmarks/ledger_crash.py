"""A ledger killed at random moments, while it learns and while it merges buckets.

Each time the command is started again; in the end the ledger must have the bits of one that nobody
disturbed: every cell, every column, and the record of the input.
"""

import argparse
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow.csv
import report

from counterpoise.ledger.demo import payments

PROGRAM = """
import sys
from counterpoise.ledger import filler, filling
filler.BATCH_ROWS = filling.EVERY = 8192
from counterpoise.cli import main
main()
"""
LEARN = ["learn", "t.csv", "-l", "l", "--label", "fraud", "--time", "at", "--by", "country"]
ROLLUP = ["rollup", "l", "--until", "2025-01-01", "--every", "quarter"]


def contents(path):
    """All that a ledger holds, but for who wrote it and how often."""
    base = sqlite3.connect(path)
    tables = ("cells", "labels", "segments", "inputs", "meta")
    found = {name: sorted(base.execute(f"SELECT * FROM {name}").fetchall()) for name in tables}
    base.close()
    found["meta"] = [row for row in found["meta"] if row[0] not in ("writer", "change")]
    return found


def command(folder, words):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "ledger", *words], cwd=folder, stderr=subprocess.DEVNULL
    )


def undisturbed(folder, words):
    assert command(folder, words).wait() == 0
    return contents(folder / "l")


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


def killed(folder, words, before, wanted, rng, kills):
    """Kill and start again until it has happened often enough.

    Every kill comes after something has changed on disk. Returns how many found work half done,
    and how many runs came to an end.
    """
    before()
    process = command(folder, words)
    changing(folder, process, on_disk(folder))
    begin = time.monotonic()
    assert process.wait() == 0
    usual = time.monotonic() - begin
    assert contents(folder / "l") == wanted
    before()
    done = midway = finished = 0
    while done < kills:
        process = command(folder, words)
        if changing(folder, process, on_disk(folder)):
            try:
                process.wait(rng.uniform(0.0, 1.0) * usual)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                done += process.wait() == -signal.SIGKILL
                midway += part_way(folder, words)
        if process.wait() == 0:
            assert contents(folder / "l") == wanted
            finished += 1
            before()
    assert undisturbed(folder, words) == wanted
    return midway, finished + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--rows", type=int, default=600)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = payments(rows=options.rows)[0]
        rows = table.num_rows
        pyarrow.csv.write_csv(table, folder / "t.csv")

        def empty():
            for path in folder.glob("l*"):
                path.unlink()

        learned = undisturbed(folder, LEARN)
        shutil.copy(folder / "l", folder / "copy")
        empty()
        finished = [killed(folder, LEARN, empty, learned, rng, options.kills)]

        def restored():
            empty()
            shutil.copy(folder / "copy", folder / "l")

        restored()
        merged = undisturbed(folder, ROLLUP)
        restored()
        finished.append(killed(folder, ROLLUP, restored, merged, rng, options.kills))
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
