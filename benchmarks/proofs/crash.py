"""A run of 2 million rows, killed at 50 random moments and at every point of saving.

Each time it is started again, and in the end its file must be that of a run that nobody disturbed.
Then 100 signals to whole pipelines for each format that a stream can have.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from pipelines import CHUNK, FORMATS, ROWS

from benchmarks import ROOT, report
from counterpoise.estimators.auto import wrap_engine
from counterpoise.tables.model import TableModel

LEARN = ["learn", "t.csv", "--label", "y", "-m", "m", "--checkpoint-every", "16384"]
COMMAND = [sys.executable, "-c", "from counterpoise.cli import main; main()", *LEARN]
DYING = (ROOT / "tests" / "tables" / "test_crash.py").read_text().split('"""')[3]


def write_rows(path, rows):
    rng = np.random.default_rng(0)
    y = rng.random(rows) < 0.02
    columns = {f"x{j}": np.round(rng.standard_normal(rows) + y * (j < 3), 4) for j in range(8)}
    town = np.array(["Aachen", "Bonn", "Celle", "Dresden"])[rng.integers(0, 4, rows)]
    pa.csv.write_csv(pa.table({**columns, "town": town, "y": y.astype(int)}), path)


def rows_in(folder):
    """Rows that the file on the disk has learned; it must be whole."""
    if not (folder / "m").exists():
        return 0
    stored = TableModel.load(str(folder / "m"))
    (record,) = stored.records.values()
    assert wrap_engine(stored.model).class_count_.sum() == record.mark.rows
    return record.mark.rows


def killed(folder, rng, wanted):
    """Kill and start again, looking at the file in between, until it has happened often enough."""
    kills, seen, finished = 0, 0, 0
    while kills < wanted:
        process = subprocess.Popen(COMMAND, cwd=folder, stderr=subprocess.DEVNULL)
        end = time.monotonic() + rng.uniform(1.0, 4.5)
        while time.monotonic() < end and process.poll() is None:
            time.sleep(0.005)
        number = signal.SIGTERM if rng.random() < 0.1 else signal.SIGKILL
        if process.poll() is None:
            process.send_signal(number)
            kills += 1
        process.wait()
        now = rows_in(folder)
        assert now >= seen, "rows were lost"
        seen = now
        if process.returncode == 0:
            finished += 1
            yield kills, finished
            (folder / "m").unlink()
            seen = 0
    subprocess.run(COMMAND, cwd=folder, stderr=subprocess.DEVNULL, check=True)
    yield kills, finished + 1


def pipelines(signals):
    """What tests/pipelines.py says of each format; it fails if one byte differs."""
    for kind in FORMATS:
        command = [sys.executable, str(ROOT / "tests" / "pipelines.py"), kind, str(signals), "1"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        print(done.stdout.strip(), flush=True)
        yield done.stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--signals", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder / "t.csv", options.rows)
        subprocess.run(COMMAND, cwd=folder, stderr=subprocess.DEVNULL, check=True)
        whole = (folder / "m").read_bytes()
        assert rows_in(folder) == options.rows
        (folder / "m").unlink()
        for kills, finished in killed(folder, np.random.default_rng(0), options.kills):
            assert (folder / "m").read_bytes() == whole, "the bytes differ"
            print(f"{kills} kills, {finished} runs finished, each bit-identical", flush=True)
        points = 0
        for call in ("write", "fsync", "replace"):
            for when in ("before", "half", "after"):
                if when == "half" and call != "write":
                    continue
                for count in (1, 2, 60):
                    (folder / "m").unlink(missing_ok=True)
                    arguments = [sys.executable, "-c", DYING, call, when, str(count), *LEARN]
                    died = subprocess.run(
                        arguments, cwd=folder, stderr=subprocess.DEVNULL, check=False
                    )
                    assert died.returncode == -signal.SIGKILL
                    rows_in(folder)
                    subprocess.run(COMMAND, cwd=folder, stderr=subprocess.DEVNULL, check=True)
                    assert (folder / "m").read_bytes() == whole
                    assert sorted(os.listdir(folder)) == ["m", "t.csv"]
                    points += 1
    lines = list(pipelines(options.signals))
    report.write(
        "crash",
        "Killed and started again",
        report.machine("numpy", "pyarrow", "safetensors"),
        f"A run over {options.rows:,} rows of CSV (8 numbers, one category), saving every 16,384 "
        f"rows, was killed at {kills} random moments (one in ten by SIGTERM, the others by "
        f"SIGKILL) and each time started again; it came to its end {finished} times. It was also "
        f"killed at {points} points of saving: before, half-way through and after the temporary "
        "write, before and after each fsync and the rename.",
        "- Whenever it was killed, the file on the disk was whole, and its counts added up to the "
        "rows that it says it has read.\n- In the end it was, every time, bit-identical to the "
        "file of a run that nobody disturbed.",
        f"Then `producer | counterpoise learn -` with `--ridge gcv --metrics`, {ROWS:,} rows in "
        f"chunks of {CHUNK}, was stopped by {options.signals} signals for each format (SIGINT and "
        "SIGTERM to the process group, so that the producer dies too, in the middle of a row or "
        "at the end of a line) and went on from the start of the stream; some times it was let "
        "come to its end. A stop is an exit code of 130 or 143; other signals came before "
        "`learn` caught them, or after its end. Parquet, which no pipe can carry, is a file.",
        "\n".join(f"- {line}; model and metrics" for line in lines),
    )


if __name__ == "__main__":
    main()
