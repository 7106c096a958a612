"""Throughput on Spark, against a job that only sums every column of the same file."""

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from pyspark import TaskContext
from pyspark.sql import SparkSession

from benchmarks import report
from counterpoise.modelfile import container as modelfile
from counterpoise.spark import fit

ROUNDS = 3


def start_session(cores=2):
    """Return a local Spark session."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{cores},4]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "4g")
    session = builder.config("spark.sql.shuffle.partitions", "8").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def write_rows(folder, n, d, files=8, seed=0):
    """Write Parquet files of synthetic rows, 2% of them positive."""
    rng = np.random.default_rng(seed)
    for k in range(files):
        m = n // files
        y = (rng.random(m) < 0.02).astype(np.int64)
        columns = {f"x{j}": rng.normal(size=m) + 0.3 * y * (j % 3) for j in range(d)}
        pa.parquet.write_table(pa.table({**columns, "y": y}), folder / f"{k:02}.parquet")


def sum_columns(frame):
    """Sum every column in Python, by the same interface: the peer."""

    def add(batches):
        total = None
        for batch in batches:
            part = [pa.compute.sum(column).as_py() or 0.0 for column in batch.columns]
            total = part if total is None else [a + b for a, b in zip(total, part, strict=True)]
        sums = [float(v) for v in total or [0.0]]
        yield pa.RecordBatch.from_arrays(
            [pa.array([TaskContext.get().partitionId()]), pa.array([sums])], ["part", "sums"]
        )

    return frame.mapInArrow(add, "part long, sums array<double>").collect()


def time_call(work, *arguments):
    start = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - start


def main():
    """Write the table."""
    options = report.parse(__doc__, rows=8_000_000)
    spark, lines = start_session(), []
    for d, n in ((10, options.rows), (30, options.rows * 3 // 8), (100, options.rows // 10)):
        with tempfile.TemporaryDirectory() as name:
            write_rows(Path(name), n, d)
            frame = spark.read.parquet(name)
            fit(frame.limit(1000), "y")  # everything warm
            best = {}
            for _ in range(ROUNDS):
                best["sum"] = min(best.get("sum", np.inf), time_call(sum_columns, frame))
                best["fit"] = min(best.get("fit", np.inf), time_call(fit, frame, "y"))
            moments = len(modelfile.to_bytes(fit(frame, "y")._contents()))
        lines.append(
            [d, f"{n:,}", f"{best['sum']:.1f}", f"{best['fit']:.1f}",
             f"{best['fit'] / best['sum']:.2f}", f"{n / best['fit'] / 1e6:.2f}",
             f"{moments / 1e3:,.0f}"]
        )  # fmt: skip
    spark.stop()
    head = ["d", "rows", "sum, s", "fit, s", "ratio", "million rows per second", "kB per partition"]
    report.write(
        "spark", "On Spark",
        f"local[2], 8 Parquet files of doubles, best of {ROUNDS} rounds in which both take a turn. "
        "The peer is a `mapInArrow` job that sums every column of the same files. The last column "
        "is the size of the moments that one partition sends.",
        report.table(head, lines),
    )  # fmt: skip


if __name__ == "__main__":
    main()
