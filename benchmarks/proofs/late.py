"""Delayed labels, killed on the way: the model is that of the rows in the order of their labels."""

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from late_labels import PLAIN, learned, of_day, write_days

from benchmarks import report

COMMAND = [sys.executable, "-c", "from counterpoise.cli import main; main()"]
OFTEN = ["--chunk-rows", "512", "--checkpoint-every", "512"]


def run(folder, *arguments):
    """One command to its end."""
    subprocess.run(
        [*COMMAND, *arguments], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        check=True,
    )  # fmt: skip


def state(folder):
    """When the model and the pending events were last changed."""
    files = [folder / "m", folder / "m.pending"]
    return [file.stat().st_mtime_ns if file.exists() else 0 for file in files]


def disturbed(folder, days, kills, rng):
    """Learn day by day, killed so often at random moments after something changed; how often."""
    done, rest = 0, 0.2
    for day in range(days):
        # Spread over the days; one that ends before it is killed leaves its kills to the next.
        wanted = min(kills, kills * (day + 1) // max(days - 3, 1))
        while True:
            before = state(folder)
            process = subprocess.Popen(
                [*COMMAND, *of_day(day), *OFTEN], cwd=folder, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
            while process.poll() is None and state(folder) == before:
                time.sleep(0.001)
            changed = time.monotonic()
            if done < wanted:
                end = changed + rng.uniform(0.0, 1.0) * rest
                while time.monotonic() < end and process.poll() is None:
                    time.sleep(0.001)
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    done += 1
                    continue
            process.wait()
            assert process.returncode == 0, process.returncode
            rest = max(0.05, time.monotonic() - changed)
            break
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=20)
    parser.add_argument("--events", type=int, default=5_000)
    parser.add_argument("--kills", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_days(folder, options.days, options.events, 9)
        for day in range(options.days):
            run(folder, *of_day(day), *OFTEN)
            if day:
                run(folder, "learn", f"joined{day:02d}.csv", *PLAIN, *OFTEN)
        whole = (folder / "m").read_bytes()
        assert learned(folder / "m") == learned(folder / "joined"), "not the joined rows"
        (folder / "m").unlink()
        (folder / "m.pending").unlink()
        kills = disturbed(folder, options.days, options.kills, np.random.default_rng(0))
        assert kills >= options.kills
        assert (folder / "m").read_bytes() == whole, "the bytes differ"
        size = (folder / "m.pending").stat().st_size
        left = sorted(p.name for p in folder.iterdir() if not p.name.endswith(".csv"))
        assert left == ["joined", "m", "m.pending"], left
        learned_rows = sum(
            len((folder / f"labels{day:02d}.csv").read_text().splitlines()) - 1
            for day in range(options.days)
        )
    report.write(
        "late",
        "Delayed labels, killed on the way",
        report.machine("numpy", "pyarrow", "safetensors"),
        f"{options.days} daily files of {options.events:,} events each. Their labels come 1 to 9 "
        "days late, in any order, and 3% never. `learn day.csv --labels labels.csv --id payment` "
        f"ran once a day, saving every 512 rows, and was killed by SIGKILL at {kills} random "
        "moments, all of them after it had changed the model or the pending events, each time to "
        "be started again.",
        f"- {learned_rows:,} labels came, and as many rows were learned: moments, calibration, "
        "features and scores of late rows are bit-identical to those of a model that learned the "
        "joined rows in the order in which their labels came.\n"
        "- The model file is, byte by byte, that of a run that was not disturbed. The pending "
        f"events take {size / 1e6:.1f} MB.",
    )


if __name__ == "__main__":
    main()
