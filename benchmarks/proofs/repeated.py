"""The paper's quick run made twice, by two processes and by one: the same tables, bit by bit."""

import subprocess
import sys
import tempfile
from pathlib import Path

from paper.times import TIMED_TABLES

from benchmarks import ROOT, report


def tables(folder, workers):
    """What a run writes, but for times."""
    command = [sys.executable, "-m", "paper", "--quick", "--out", folder, "--workers", str(workers)]
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    results = sorted((Path(folder) / "results").glob("*.csv"))
    return {path.name: path.read_bytes() for path in results if path.name not in TIMED_TABLES}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        first, second = tables(one, 2), tables(two, 1)
    assert first.keys() == second.keys()
    unlike = [name for name in first if first[name] != second[name]]
    report.write(
        "repeated",
        "The paper's quick run, twice",
        "Once by two processes, once by one. " + report.machine("numpy", "scipy", "scikit-learn"),
        f"{len(first)} tables without times, {len(unlike)} of which differ by a bit.",
        report.table(
            ["table", "bytes", "same"],
            [
                [name, f"{len(text):,}", "no" if name in unlike else "yes"]
                for name, text in first.items()
            ],
        ),
    )
    sys.exit(bool(unlike))
