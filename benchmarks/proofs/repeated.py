"""The paper's quick run made twice, by two processes and by one: the same tables, bit by bit."""

import subprocess
import sys
import tempfile
from pathlib import Path

from paper.times import TIMED_TABLES

from benchmarks import ROOT, report


def tables(folder, workers):
    """Return the tables of a run, except those with times."""
    command = [sys.executable, "-m", "paper", "--quick", "--out", folder, "--workers", str(workers)]
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    results = sorted((Path(folder) / "results").glob("*.csv"))
    return {path.name: path.read_bytes() for path in results if path.name not in TIMED_TABLES}


if __name__ == "__main__":
    report.parse(__doc__)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        first, second = tables(one, 2), tables(two, 1)
    assert first.keys() == second.keys()
    different = [name for name in first if first[name] != second[name]]
    report.write(
        "repeated",
        "The paper's quick run, twice",
        "Once by two processes, once by one process.",
        f"{len(first)} tables without times, {len(different)} of which differ in a bit.",
        report.table(
            ["table", "bytes", "same"],
            [
                [name, f"{len(text):,}", "no" if name in different else "yes"]
                for name, text in first.items()
            ],
        ),
    )
    sys.exit(bool(different))
