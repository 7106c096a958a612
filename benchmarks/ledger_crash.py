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


def killed(folder, words, before, wanted, rng, kills):
    """Kill and start again until it has happened often enough; how many runs came to an end."""
    finished, whole = 0, undisturbed(folder, words)
    begin = time.monotonic()
    before()
    undisturbed(folder, words)
    usual = time.monotonic() - begin
    before()
    done = 0
    while done < kills:
        process = command(folder, words)
        try:
            process.wait(rng.uniform(0.3, 1.0) * usual)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            done += 1
        if process.wait() == 0:
            assert contents(folder / "l") == whole == wanted
            finished += 1
            before()
    assert undisturbed(folder, words) == wanted
    return finished + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--rows", type=int, default=600)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pyarrow.csv.write_csv(payments(rows=options.rows)[0], folder / "t.csv")

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
        f"{2 * options.kills} SIGKILLs at random moments, and the same command again. Every run "
        "that came to an end has the cells, the columns and the records of one that nobody "
        "disturbed, bit by bit.",
        report.table(
            ["command", "kills", "runs that ended"],
            [
                [f"ledger {name}", options.kills, runs]
                for name, runs in zip(("learn", "rollup"), finished, strict=True)
            ],
        ),
    )


if __name__ == "__main__":
    main()
