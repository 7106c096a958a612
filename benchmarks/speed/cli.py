"""Tables next to other libraries: files of 10 million rows, frames with text, and predictions.

Each figure is the best of several, whose learners take turns: files in separate processes, frames
and predictions in one.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks import report
from counterpoise import BalancedRidgeClassifier, TableClassifier
from counterpoise.readers import source
from counterpoise.tables.model import TableModel, learn_inputs
from counterpoise.tables.predict import Predictor, open_writer, predict

WIDTHS, CHUNK_ROWS, CATEGORIES = (10, 30, 60), 8192, (10, 1000)

READ_CSV = """
for batch in pyarrow.csv.open_csv(path): pass
"""
READ_PARQUET = """
for batch in pyarrow.parquet.ParquetFile(path).iter_batches(): pass
"""
READ_PARQUET_IN_PARTS = """
file = pyarrow.parquet.ParquetFile(path, buffer_size=1 << 16, pre_buffer=False)
for batch in file.iter_batches(32768): pass
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
start, used = time.perf_counter(), time.process_time()
{}
took, used = time.perf_counter() - start, time.process_time() - used
print(json.dumps([took, used, megabytes("VmHWM") - before]))
"""


def write_rows(path, rows):
    """Write numbers with four decimals, 2% of the rows in the rare class, as CSV or Parquet."""
    rng, writer = np.random.default_rng(0), None
    make = pa.csv.CSVWriter if path.suffix == ".csv" else pa.parquet.ParquetWriter
    for start in range(0, rows, 100_000):
        n = min(100_000, rows - start)
        y = rng.random(n) < 0.02
        X = np.round(rng.standard_normal((n, 30)) + 0.3 * y[:, None], 4)
        table = pa.table({**{f"x{j}": X[:, j] for j in range(30)}, "y": y.astype(int)})
        writer = writer or make(str(path), table.schema)
        writer.write_table(table)
    writer.close()


def measure(code, path):
    """Return elapsed and processor seconds, and megabytes above the imports, of a process."""
    command = [sys.executable, "-c", MEASURED.replace("{}", code), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def learn_file(options, kind, ways):
    """Return the rows of a table of learning from a large file, next to ways to read it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"t.{kind}"
        write_rows(path, options.rows)
        size, found = path.stat().st_size / 1e9, {code: [] for code in (LEARN, *ways.values())}
        for _ in range(options.times):
            for code, each in found.items():
                each.append(measure(code, path))
    best = {code: np.min(each, axis=0) for code, each in found.items()}
    elapsed, used, _ = best[LEARN]
    megabytes = max(m for *_, m in found[LEARN])
    for name, code in ways.items():
        a, b, _ = best[code]
        yield [
            name, f"{size:.2f}", f"{a:.1f}", f"{elapsed:.1f}", f"{elapsed / a:.2f}", f"{b:.1f}",
            f"{used:.1f}", f"{used / b:.2f}", f"{options.rows / elapsed:,.0f}", f"{megabytes:.0f}",
        ]  # fmt: skip


def write_learned(options, name, title, peers, rows):
    """Write the table of learning from a large file."""
    report.write(
        name,
        title,
        f"`counterpoise learn` on {options.rows:,} rows of 30 numbers and a label, checkpoints "
        f"every million rows, next to pyarrow reading the same file and doing nothing else: "
        f"{peers}. Best of {options.times}, taking turns, each in a separate process, imports not "
        "counted; memory is the largest growth of the resident set above the imports.",
        report.table(
            ["pyarrow", "GB", "pyarrow, s", "learn, s", "ratio", "pyarrow, CPU s", "learn, CPU s",
             "CPU ratio", "rows/s", "memory, MB"],
            list(rows),
        ),
    )  # fmt: skip


def csv(options):
    """Write the table of learning from a CSV file."""
    peers = "`csv.open_csv`, which uses one thread"
    rows = learn_file(options, "csv", {"`open_csv`": READ_CSV})
    write_learned(options, "cli", "Learning from CSV", peers, rows)


def parquet(options):
    """Write the table of learning from a Parquet file."""
    peers = (
        "`ParquetFile.iter_batches`, which uses all cores, and the same with the options of our "
    )
    peers += "reader: batches of 32,768 rows, `pre_buffer=False` and a small buffer"
    ways = {"`iter_batches`": READ_PARQUET, "`iter_batches`, our options": READ_PARQUET_IN_PARTS}
    rows = learn_file(options, "parquet", ways)
    write_learned(options, "parquet", "Learning from Parquet", peers, rows)


# Frames: numbers and a text label, with and without categories


def numbers(rows, d):
    """Return numbers with four decimals and a text label, 2% of the rows in the rare class."""
    rng = np.random.default_rng(d)
    y = rng.random(rows) < 0.02
    X = np.round(rng.standard_normal((rows, d)) + 0.3 * y[:, None], 4)
    label = pa.array(np.where(y, "fraud", "ok").tolist())
    return pa.table({**{f"x{j}": X[:, j] for j in range(d)}, "y": label})


def payments(rows):
    """Return seven numbers, columns of 10 and 1,000 categories and a text label."""
    rng = np.random.default_rng(0)
    texts = [[f"c{i}" for i in rng.integers(0, count, rows)] for count in CATEGORIES]
    table = numbers(rows, 7)
    for name, column in zip(("shop", "city"), texts, strict=True):
        table = table.append_column(name, pa.array(column))
    return table


def loop(batches):
    """Learn batches of Arrow by a plain loop."""
    model = BalancedRidgeClassifier()
    for batch in batches:
        *columns, y = batch.columns
        X = np.column_stack([column.to_numpy() for column in columns])
        model.partial_fit(X, np.array(y.to_pylist()))


def sgd(frame, passes=None):
    """Fit scikit-learn's pipeline; by default as many passes as it takes."""
    X, label = frame.drop(columns="y"), frame["y"]
    encoder = ColumnTransformer(
        [
            ("number", StandardScaler(), [name for name in X if name.startswith("x")]),
            ("category", OneHotEncoder(handle_unknown="ignore"), ["shop", "city"]),
        ]
    )
    some = {} if passes is None else {"max_iter": passes}
    with warnings.catch_warnings(action="ignore"):
        make_pipeline(encoder, SGDClassifier(random_state=0, **some)).fit(X, label)


def learn(path):
    """Learn a file into a new model file."""
    model = f"{path}.safetensors"
    if os.path.exists(model):
        os.unlink(model)
    learn_inputs(TableModel.open(model, {"label": "y"}, {}), [(source(path), "t")])


def compare(ways, times):
    """Return the least processor and elapsed seconds of each way; they take turns."""
    found = {name: [] for name in ways}
    for _ in range(times):
        for name, way in ways.items():
            start = time.process_time(), time.perf_counter()
            way()
            end = time.process_time(), time.perf_counter()
            found[name].append([end[0] - start[0], end[1] - start[1]])
    return {name: np.min(each, axis=0) for name, each in found.items()}


def ratio_rows(what, found, rows):
    """Return the rows of a table: our way, the first one, next to each other way."""
    (name, ours), *others = found.items()
    return [
        [what, name, peer, f"{rows / ours[0]:,.0f}", f"{rows / theirs[0]:,.0f}",
         f"{ours[0] / theirs[0]:.2f}", f"{ours[1] / theirs[1]:.2f}"]
        for peer, theirs in others
    ]  # fmt: skip


RATIO_HEAD = ["rows", "ours", "peer", "rows/s", "peer, rows/s", "CPU ratio", "elapsed ratio"]


def frames(options):
    """Write the table of learning frames and files with text."""
    rows, lines = options.rows // 25, []
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "t.csv")
        for d in WIDTHS:
            table = numbers(rows, d)
            pa.csv.write_csv(table, path)
            ways = {
                "`TableClassifier`": lambda t=table: TableClassifier().partial_fit(t, "y"),
                "loop over batches": lambda t=table: loop(t.to_batches(CHUNK_ROWS)),
            }
            lines += ratio_rows(f"{d} numbers", compare(ways, options.times), rows)
            ways = {
                "`learn` on CSV": lambda: learn(path),
                "loop over `csv.open_csv`": lambda: loop(pa.csv.open_csv(path)),
            }
            lines += ratio_rows(f"{d} numbers", compare(ways, options.times), rows)
        table = payments(rows)
        pa.csv.write_csv(table, path)
        frame = table.to_pandas()
        ways = {
            "`TableClassifier`": lambda: TableClassifier().fit(frame, "y"),
            "scikit-learn": lambda: sgd(frame),
            "scikit-learn, one pass": lambda: sgd(frame, 1),
        }
        what = f"7 numbers, {CATEGORIES[0]} + {CATEGORIES[1]:,} categories"
        lines += ratio_rows(what, compare(ways, options.times), rows)
        ways = {
            "`learn` on CSV": lambda: learn(path),
            "pandas, scikit-learn": lambda: sgd(pd.read_csv(path)),
            "pandas, scikit-learn, one pass": lambda: sgd(pd.read_csv(path), 1),
        }
        lines += ratio_rows(what, compare(ways, options.times), rows)
    report.write(
        "frames",
        "Learning tables with text",
        f"{rows:,} rows with a text label. The loop stacks the columns of batches and calls "
        "`partial_fit` of `BalancedRidgeClassifier`. scikit-learn is a `ColumnTransformer` with "
        "`OneHotEncoder` and `StandardScaler`, then `SGDClassifier`, with its default number of "
        f"passes and with one. Best of {options.times}, taking turns in one process, one BLAS "
        "thread; rows per second of processor time.",
        report.table(RATIO_HEAD, lines),
    )


def predictions(options):
    """Write the table of predictions as CSV."""
    rows = options.rows // 25
    with tempfile.TemporaryDirectory() as folder:
        path, ours, theirs = (str(Path(folder) / name) for name in ("t.csv", "p.csv", "q.csv"))
        pa.csv.write_csv(numbers(rows, 10), path)
        learn(path)
        stored = TableModel.load(f"{path}.safetensors")
        predictor = Predictor(stored, stored.positive)
        (whole,) = [pa.concat_tables(predict(predictor, source(path)))]
        frame = pl.from_arrow(whole)

        def write():
            with open_writer(ours, "csv") as out:
                for start in range(0, rows, CHUNK_ROWS):
                    out.write(whole.slice(start, CHUNK_ROWS))

        def all_of_it():
            with open_writer(ours, "csv") as out:
                for table in predict(predictor, source(path)):
                    out.write(table)

        def all_of_theirs():
            table = pl.read_csv(path)
            X = table.drop("y").to_numpy()
            scores = stored.scorer.scores
            f = scores.of(np.ascontiguousarray(X))
            balanced, stream = (scores.probabilities(f, stream=one) for one in (False, True))
            columns = [scores.classes.best(f), f[:, 0], *balanced.T, *stream.T]
            pl.DataFrame(dict(zip(frame.columns, columns, strict=True))).write_csv(theirs)

        lines = ratio_rows(
            "write 6 columns",
            compare({"writer": write, "polars": lambda: frame.write_csv(theirs)}, options.times),
            rows,
        )
        ways = {"`predict`": all_of_it, "polars and our scores": all_of_theirs}
        lines += ratio_rows("read, score, write", compare(ways, options.times), rows)
    report.write(
        "predict",
        "Predictions as CSV",
        f"{rows:,} rows of 10 numbers, as CSV, to label, score and four probabilities, as CSV. "
        f"Best of {options.times}, taking turns in one process.",
        report.table(RATIO_HEAD, lines),
    )


PARTS = {"csv": csv, "parquet": parquet, "frames": frames, "predict": predictions}


def main():
    """Write the tables."""
    options = report.parse(__doc__, PARTS, rows=10_000_000, times=3)
    for name in options.parts:
        PARTS[name](options)


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
