"""A nightly job: delayed, revised and unknown labels, a new column, erasures and mistakes."""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nightly_job import NightlyJob

from benchmarks import report

COMMAND = [sys.executable, "-c", "from counterpoise.cli import main; main()"]


def batch(path, model):
    """Learn a file into a new model."""
    options = ["--label", "fraud", "--ridge", "2", "--quiet"]
    subprocess.run([*COMMAND, "learn", path, *options, "--model", model], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--events", type=int, default=2_000)
    options = parser.parse_args()
    commands = 0

    def call(folder, *arguments):
        nonlocal commands
        commands += 1
        done = subprocess.run(
            [*COMMAND, *arguments], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (arguments, done.stderr)
        with open(folder / "log", "a") as log:
            log.write(done.stdout + done.stderr)
        return done.stderr

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = NightlyJob(
            folder, lambda *given: call(folder / "job", *given), options.days, options.events
        )
        start = time.monotonic()
        for day in range(options.days):
            job.run_day(day)
            job.check(
                lambda path, model: subprocess.run(
                    [
                        *COMMAND,
                        "learn",
                        path,
                        "--label",
                        "fraud",
                        "--ridge",
                        "2",
                        "-m",
                        model,
                        "-q",
                    ],
                    check=True,
                )
            )
            print(f"day {day}: {time.monotonic() - start:.0f} s", flush=True)
        size = (folder / "job" / "m.pending").stat().st_size
        counts = job.counts
    report.write(
        "nightly",
        "A nightly job of 30 days",
        report.machine("numpy", "pyarrow", "safetensors"),
        f"{options.days} days of {options.events:,} payments as CSV, Parquet and JSON lines. "
        "Labels come 0 to 20 days late, a few before their event, 3% never, and one per day for a "
        "payment that never comes. A column is new on one day. One day is logged twice, another "
        "one in cents and corrected days later. Some pending payments come again in a "
        f"file with labels. {len(job.erased)} customers are erased. The job is {commands} "
        "commands: `learn --id --labels`, `learn`, `relabel --labels` and `unlearn --where`.",
        report.table(
            ["what", "number"],
            [
                ["events", f"{counts['events']:,}"],
                ["labels", f"{counts['labels']:,}"],
                ["of these before their event, or without one", f"{counts['unknown']:,}"],
                ["revised labels", f"{counts['revised']:,}"],
                ["erased rows", f"{counts['erased']:,}"],
                ["rows in the model at the end", f"{len(job.learned):,}"],
                ["pending events at the end", f"{len(job.pending):,}"],
                ["labels that wait at the end", f"{len(job.labels):,}"],
                ["size of the store at the end (MB)", f"{size / 1e6:.1f}"],
            ],
        ),
        "After every day:\n\n"
        "- The coefficients equal those of a model that learned in one step what should have been "
        f"learned. The largest relative difference was {job.largest:.1g}; 1e-9 was allowed.\n"
        "- Each row is in the model once, or pending once: the ids of the store are those "
        "expected, and the class counts are equal.\n"
        "- No erased customer is in a file of the job, in a table of the store or in a batch, "
        "decoded. The files of inputs are not part of the job.",
    )


if __name__ == "__main__":
    main()
