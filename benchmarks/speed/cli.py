"""``learn`` on 10 million rows of 30 columns: memory, and time next to pyarrow alone.

Each figure is the best of several, in separate processes that take turns.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from benchmarks import report

READ_CSV = """
for batch in pyarrow.csv.open_csv(path): pass
"""
READ_PARQUET = """
for batch in pyarrow.parquet.ParquetFile(path).iter_batches(): pass
"""
LEARN = """
learner = TableModel.open(path + ".safetensors", {"label": "y"}, {})
learn_inputs(learner, [(source(path), "t")], 1_000_000, lambda: False, lambda *_: None)
"""
MEASURED = """
import json, os, sys, time
import pyarrow.csv, pyarrow.parquet
from counterpoise.tables.model import TableModel, learn_inputs
from counterpoise.readers import source
def megabytes(field):
    # Not ru_maxrss, which includes the process that this one was forked from.
    (line,) = (l for l in open("/proc/self/status") if l.startswith(field))
    return int(line.split()[1]) / 1024
path = sys.argv[1]
if os.path.exists(path + ".safetensors"): os.unlink(path + ".safetensors")
before = megabytes("VmRSS")
start = time.perf_counter()
{}
took = time.perf_counter() - start
print(json.dumps([took, megabytes("VmHWM") - before]))
"""


def write_rows(path, rows):
    """Write numbers with four decimals, 2% of the rows in the rare class."""
    rng = np.random.default_rng(0)
    csv = parquet = None
    for start in range(0, rows, 100_000):
        n = min(100_000, rows - start)
        y = rng.random(n) < 0.02
        X = np.round(rng.standard_normal((n, 30)) + 0.3 * y[:, None], 4)
        table = pa.table({**{f"x{j}": X[:, j] for j in range(30)}, "y": y.astype(int)})
        if csv is None:
            csv = pa.csv.CSVWriter(f"{path}.csv", table.schema)
            parquet = pa.parquet.ParquetWriter(f"{path}.parquet", table.schema)
        csv.write_table(table)
        parquet.write_table(table)
    csv.close()
    parquet.close()


def measure(code, path):
    """Return seconds and megabytes above the imports, in a separate process."""
    command = [sys.executable, "-c", MEASURED.replace("{}", code), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main():
    """Write the table."""
    options = report.parse(__doc__, rows=10_000_000, times=3)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t"
        write_rows(path, options.rows)
        for kind, read in (("csv", READ_CSV), ("parquet", READ_PARQUET)):
            file = f"{path}.{kind}"
            size = Path(file).stat().st_size / 1e9
            alone, ours = [], []
            for _ in range(options.times):
                alone.append(measure(read, file))
                ours.append(measure(LEARN, file))
            a, b = min(t for t, _ in alone), min(t for t, _ in ours)
            megabytes = max(m for _, m in ours)
            rows.append(
                [kind, f"{size:.2f}", f"{a:.1f}", f"{b:.1f}", f"{b / a:.2f}",
                 f"{options.rows / b:,.0f}", f"{megabytes:.0f}"]
            )  # fmt: skip
    report.write(
        "cli",
        "Learning from files",
        f"`counterpoise learn` on {options.rows:,} rows of 30 numbers and a label, checkpoints "
        "every million rows, next to pyarrow reading the same file and doing nothing else "
        "(`csv.open_csv`, which uses one thread; `ParquetFile.iter_batches`, which uses all). Best "
        f"of {options.times}, taking turns, each in a separate process, imports not counted; "
        "memory is the largest growth of the resident set above the imports.",
        report.table(
            ["file", "GB", "pyarrow, s", "learn, s", "ratio", "rows/s", "memory, MB"], rows
        ),
    )


if __name__ == "__main__":
    main()
