"""Spark gives the single-machine answer: large sets, 20 million rows, kills and restarts."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet
from paper import datasets

from benchmarks import ROOT, report
from benchmarks.speed.spark import start_session, write_rows
from counterpoise import BalancedRidgeClassifier
from counterpoise.modelfile import container as modelfile
from counterpoise.spark import fit
from counterpoise.tables.model import TableModel

LARGE_SETS = ("skin-nonskin", "ijcnn1", "cod-rna", "mushroom")
PARTITIONS = (1, 2, 7, 64)


def distance(one, two):
    """Return the largest difference of a coefficient, relative to the largest one."""
    a = np.append(one.coef_.ravel(), one.intercept_)
    b = np.append(two.coef_.ravel(), two.intercept_)
    return float(np.abs(a - b).max() / np.abs(b).max())


def on_sets(spark):
    """Yield distances of public sets, by the number of partitions."""
    for name in LARGE_SETS:
        X, y = datasets.load(name)
        frame = spark.createDataFrame(
            pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(y=y)
        )
        frame = frame.cache()
        alone = BalancedRidgeClassifier().fit(X, y)
        yield [
            name,
            f"{len(X):,}",
            *(f"{distance(fit(frame.repartition(p), 'y'), alone):.0e}" for p in PARTITIONS),
        ]
        frame.unpersist()


def on_many(spark, folder, n, d=10):
    """Return distances of synthetic rows, and whether two fits are bit-identical."""
    write_rows(folder, n, d, files=64)
    alone = BalancedRidgeClassifier()
    for path in sorted(folder.glob("*.parquet")):
        part = pyarrow.parquet.read_table(path).to_pandas()
        alone.partial_fit(part.drop(columns="y").to_numpy(), part["y"].to_numpy())
    frame = spark.read.parquet(str(folder))
    found = [
        f"{distance(fit(frame.coalesce(p) if p < 64 else frame.repartition(p), 'y'), alone):.0e}"
        for p in PARTITIONS
    ]
    twice = {
        modelfile.to_bytes(fit(spark.read.parquet(str(folder)), "y")._contents()) for _ in range(2)
    }
    return ["synthetic", f"{n:,}", *found], len(twice) == 1


STREAM = """
import sys, random, time, os
sys.path.insert(0, {root!r})
from benchmarks.speed.spark import start_session
from counterpoise.spark import ModelSink
random.seed({seed})
spark = start_session()
sink = ModelSink({path!r}, "y")
def learn(batch, number):
    sink(batch, number)
    open({done!r}, "a").write(f"{{number}}\\n")
    time.sleep(0.3)  # time to be killed between learning and the checkpoint
frame = spark.readStream.schema("x double, word string, y int")
frame = frame.option("maxFilesPerTrigger", 1).json({source!r})
query = frame.writeStream.foreachBatch(learn).option("checkpointLocation", {check!r})
query.trigger(availableNow=True).start().awaitTermination()
"""


def kill_query(folder, kills, files=24, size=500):
    """Kill a streaming query, half of the times right after a batch was learned."""
    rng, source = np.random.default_rng(0), folder / "in"
    source.mkdir()
    made = []
    for k in range(files):
        words = rng.choice(list("abc")[: 1 + k % 3], size)
        part = pd.DataFrame(
            {"x": rng.normal(size=size), "word": words, "y": rng.integers(0, 2, size)}
        )
        part.to_json(source / f"{k:03}.json", orient="records", lines=True)
        made.append(part)
    path, done = str(folder / "model.safetensors"), folder / "done"
    done.touch()
    for attempt in range(kills + 1):
        code = STREAM.format(
            root=str(ROOT), seed=attempt, path=path, done=str(done),
            source=str(source), check=str(folder / "check"),
        )  # fmt: skip
        before = len(done.read_text().split())
        child = subprocess.Popen(
            [sys.executable, "-c", code], start_new_session=True, stderr=subprocess.DEVNULL
        )
        if attempt == kills:
            child.wait()
            break
        while len(done.read_text().split()) < before + 1 + attempt % 2 and child.poll() is None:
            time.sleep(0.02)
        if attempt % 2:
            time.sleep(random.Random(attempt).random() * 0.5)
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    learned = [int(number) for number in done.read_text().split()]
    again = len(learned) - len(set(learned))
    stored, rows_in = TableModel.load(path), pd.concat(made)
    exact = stored.model.class_count.tolist() == rows_in["y"].value_counts().sort_index().tolist()
    return exact and stored.records["- spark stream"].mark.rows == len(rows_in), again, len(rows_in)


def main():
    """Write the table."""
    options = report.parse(__doc__, rows=20_000_000, kills=10)
    spark = start_session()
    lines = list(on_sets(spark))
    with tempfile.TemporaryDirectory() as name:
        line, identical = on_many(spark, Path(name), options.rows)
    lines.append(line)
    spark.stop()
    with tempfile.TemporaryDirectory() as name:
        exact, again, n = kill_query(Path(name), options.kills)
    report.write(
        "spark_proof", "Spark gives the single-machine answer",
        "Largest difference of a coefficient from that of one machine, relative to the largest "
        "coefficient.",
        report.table(["rows of", "rows", *(f"{p} partitions" for p in PARTITIONS)], lines),
        f"The 64 Parquet files of {options.rows:,} rows read and fitted twice: "
        f"{'bit-identical' if identical else 'NOT bit-identical'}.",
        f"A streaming query killed with SIGKILL and restarted {options.kills} times, of which half "
        f"right after a micro-batch was learned and before its checkpoint: {again} batches were "
        f"passed again, and each of the {n:,} rows was counted "
        f"{'exactly once' if exact else 'WRONGLY'}.",
    )  # fmt: skip
    if not (exact and identical):
        sys.exit(1)


if __name__ == "__main__":
    main()
