"""Journeys through the package: Python calls of a warm call, and CPU time of a cold start.

Run it with OPENBLAS_NUM_THREADS=1, since a limit of threads takes calls of its own.

Writes results/journeys.md, next to the figures of an earlier commit in
results/journeys_before.json. ``--save FILE`` only saves figures. ``--start-up OLD NEW`` writes
results/startup.md, in turns by the Pythons of two environments, each with the wheel of a version.
"""

import argparse
import contextlib
import io
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import report
from counterpoise import AutoClassifier, BalancedRidgeClassifier
from counterpoise.cli import main as command
from counterpoise.river import BalancedRidgeClassifier as RiverModel

BEFORE = report.RESULTS / "journeys_before.json"
ROUNDS, D = 5, 10


class Tracer:
    """Counts calls of Python functions in this thread, while it is entered."""

    def __init__(self):
        self.calls = self.own = self.between = self.out = 0

    def __enter__(self):
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)

    def _event(self, frame, event, _):
        if event != "call" or frame.f_globals is globals():
            return
        self.calls += 1
        callee = _module(frame)
        self.own += bool(callee)
        caller = "" if frame.f_back is None else _module(frame.f_back)
        if caller and caller != callee:
            self.between += bool(callee)
            self.out += not callee


def _module(frame):
    """Return the module of ours that a frame belongs to, or an empty text."""
    name = frame.f_globals.get("__name__") or ""
    return name if name.split(".")[0] == "counterpoise" else ""


def trace(work):
    """Return calls, those of our functions, between our modules and out of them: medians."""
    work(), work()
    found = []
    for _ in range(ROUNDS):
        with Tracer() as tracer:
            work()
        found.append((tracer.calls, tracer.own, tracer.between, tracer.out))
    return [int(statistics.median(column)) for column in zip(*found, strict=True)]


def draw(n, seed=0):
    """Return n rows and labels."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.2).astype(int)
    return rng.standard_normal((n, D)) + 0.5 * y[:, None], y


def chunks_of(size, seed=1):
    """Yield chunks without end."""
    X, y = draw(20 * size, seed)
    while True:
        for start in range(0, len(y), size):
            yield X[start : start + size], y[start : start + size]


def by_command_line():
    for name, rows, more in (
        ("600 rows", 600, []),
        ("4 chunks of 1,000 rows", 4000, ["--chunk-rows", "1000"]),
    ):
        with tempfile.TemporaryDirectory() as folder:
            X, y = draw(rows)
            path, model = Path(folder) / "rows.csv", Path(folder) / "m.safetensors"
            head = ",".join([*(f"x{j}" for j in range(D)), "y"])
            np.savetxt(path, np.column_stack([X, y]), "%.6g", ",", header=head, comments="")
            words = ["learn", str(path), "--label", "y", "--model", str(model), *more]

            def learn(model=model, words=words):
                model.unlink(missing_ok=True)
                sys.argv = ["counterpoise", *words]
                with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
                    command()
                if not model.exists():
                    raise RuntimeError("nothing was learned")

            yield f"command line: learn a CSV, {name}", trace(learn)


def in_chunks():
    model, chunks = BalancedRidgeClassifier().partial_fit(*draw(1000)), chunks_of(100)
    yield "partial_fit, 100 rows", trace(lambda: model.partial_fit(*next(chunks)))
    X, y = next(chunks)

    def learn_and_predict():
        model.partial_fit(X, y)
        model.predict(X)

    yield "partial_fit and predict, 100 rows", trace(learn_and_predict)
    yield "predict again, 100 rows", trace(lambda: model.predict(X))


def one_by_one():
    X, y = draw(1000)
    model = RiverModel()
    events = [
        (dict(zip([f"x{j}" for j in range(D)], x, strict=True)), label)
        for x, label in zip(X.tolist(), y.tolist(), strict=True)
    ]
    for x, label in events:
        model.learn_one(x, label)
        model.predict_one(x)
    more = iter(events)
    yield "river: learn_one", trace(lambda: model.learn_one(*next(more)))
    yield "river: predict_one", trace(lambda: model.predict_one(events[0][0]))


def progressively():
    model, chunks = BalancedRidgeClassifier().partial_fit(*draw(1000)), chunks_of(256)
    yield "progressive_scores, 256 rows", trace(lambda: model.progressive_scores(*next(chunks)))


def choosing():
    model = AutoClassifier().partial_fit(*draw(1000))
    X, _ = draw(100, 2)
    yield "averaging: predict, 100 rows", trace(lambda: model.predict(X))
    for name, size in (("one row", 1), ("100 rows", 100)):
        chunks = chunks_of(size)
        yield (
            f"averaging: partial_fit, {name}",
            trace(lambda c=chunks: model.partial_fit(*next(c))),
        )


def on_spark():
    if shutil.which("java") is None:
        return
    from pyspark.sql import SparkSession

    from counterpoise.spark import fit

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    X, y = draw(400)
    table = [[*x, label] for x, label in zip(X.tolist(), y.tolist(), strict=True)]
    names = [*(f"x{j}" for j in range(D)), "y"]
    frame = spark.createDataFrame(table, names).repartition(2).cache()
    yield "Spark: fit, 2 partitions, on the driver", trace(lambda: fit(frame, "y"))
    spark.stop()


def cpu_seconds(python, words, folder):
    """Return the CPU seconds of a command, run by a Python in a folder."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # the first run compiles, as pip does
    process = subprocess.Popen(
        [python, "-c", "from counterpoise.cli import main; main()", *words],
        cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"counterpoise {' '.join(words)} failed")
    return used.ru_utime + used.ru_stime


def start_up(pythons):
    """Return CPU seconds of commands for each Python, which take turns: the best of some rounds."""
    found = [{"predict one row": [], "learn 600 rows": [], "--help": []} for _ in pythons]
    with tempfile.TemporaryDirectory() as folder:
        X, y = draw(600)
        head = ",".join([*"abcd", "y"])
        for name, count in (("rows.csv", 600), ("one.csv", 1)):
            table = np.column_stack([X[:count, :4], y[:count]])
            np.savetxt(Path(folder) / name, table, "%.6g", ",", header=head, comments="")
        learn = ["learn", "rows.csv", "--label", "y", "-m"]
        for k, python in enumerate(pythons):
            cpu_seconds(python, [*learn, f"m{k}"], folder)
        for i in range(ROUNDS):
            for k, python in enumerate(pythons):
                ways = (["predict", f"m{k}", "one.csv"], [*learn, f"n{k} {i}"], ["--help"])
                for name, words in zip(found[k], ways, strict=True):
                    found[k][name].append(cpu_seconds(python, words, folder))
    return [{name: round(min(each), 3) for name, each in one.items()} for one in found]


def write_start_up(before, after):
    """Write results/startup.md."""
    report.write(
        "startup",
        "Start-up of the command line",
        "CPU time (user and system) of a whole process, from the start of Python to its end, the "
        f"best of {ROUNDS} rounds in which both versions take turns, with one BLAS thread. Both "
        "are wheels whose Python files are compiled. Rows have four columns. Before is commit "
        f"{json.loads(BEFORE.read_text())['commit']}.",
        report.table(
            ["command", "before, ms", "after, ms", "after / before"],
            [
                [name, f"{1000 * old:.0f}", f"{1000 * after[name]:.0f}", f"{after[name] / old:.2f}"]
                for name, old in before.items()
            ],
        ),
    )


def measure():
    """Return the figures of every journey, by name."""
    # Spark before the command line, whose delayed imports stay in the process
    journeys = (on_spark, in_chunks, one_by_one, progressively, choosing, by_command_line)
    return {name: figures for journey in journeys for name, figures in journey()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", metavar="FILE", help="only save the figures, as JSON")
    parser.add_argument("--commit", default="", help="what to call them, with --save")
    parser.add_argument("--before", default=BEFORE, metavar="FILE", help="figures to compare with")
    parser.add_argument("--start-up", nargs=2, metavar="PYTHON", help="only write startup.md")
    parser.add_argument("--results", type=Path, default=report.RESULTS)
    options = parser.parse_args()
    report.use(options.results)
    if options.start_up:
        write_start_up(*start_up(options.start_up))
        return
    before = json.loads(Path(options.before).read_text())
    found = {"python": platform.python_version(), "figures": measure()}
    if options.save:
        text = json.dumps({"commit": options.commit, **found}, indent=2)
        Path(options.save).write_text(text + "\n")
        return
    if before["python"].split(".")[:2] != found["python"].split(".")[:2]:
        print("warning: the figures before are those of another Python", file=sys.stderr)
    nothing = [""] * 4
    lines = []
    for name in dict.fromkeys([*before["figures"], *found["figures"]]):
        pair = [kept["figures"].get(name, nothing) for kept in (before, found)]
        cells = [
            f"{count:,}" if count != "" else ""
            for both in zip(*pair, strict=True)
            for count in both
        ]
        lines.append([name, *cells])
    heads = ("Python calls", "our functions", "between our modules", "out of ours")
    report.write(
        "journeys",
        "Journeys through the package",
        f"Calls of Python functions that one warm call makes in its own thread, as "
        f"`sys.setprofile` sees them: all of them; those of functions of counterpoise; those from "
        f"a function of one module of counterpoise to one of another; those from counterpoise into "
        f"other packages. Medians of {ROUNDS} calls in a row, {D} features, two classes, one BLAS "
        f"thread; models have learned 1,000 rows. Before is commit {before['commit']}.",
        report.table(
            ["", *(f"{head}, {when}" for head in heads for when in ("before", "after"))], lines
        ),
    )


if __name__ == "__main__":
    main()
