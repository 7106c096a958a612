"""A year that some rows lack: events of river with 1 % of gaps, a shell with 10 %.

The year, around 2010 in raw units, tells most of what there is to tell. Taken as 0 it is two
thousand years away from all others, and a few such rows hide what it says.
"""

import argparse
import io
import subprocess
import sys
import tempfile
from contextlib import chdir

import numpy as np
import pandas as pd
from river import metrics

from benchmarks import report
from counterpoise.river import BalancedRidgeClassifier

COMMAND = [sys.executable, "-c", "from counterpoise.cli import main; main()"]
EARLY = 100  # events that are learned before the first is judged


def films(n, seed, share):
    """Rows with a year and two other columns, a rare label, and rows whose year is to be absent."""
    rng = np.random.default_rng(seed)
    year = rng.integers(2000, 2021, n).astype(float)
    votes, length = rng.lognormal(6.0, 1.0, n), rng.normal(100.0, 15.0, n)
    risk = (year - 2010.0) / 6.0 + 0.05 * (np.log(votes) - 6.0) + 0.5 * rng.normal(size=n)
    hit = risk > 1.8  # one in seventeen
    frame = pd.DataFrame({"year": year, "votes": votes, "length": length, "hit": hit})
    lacks = np.random.default_rng(seed + 1000).random(n) < share
    lacks[0] = False
    return frame, lacks


def g_mean(true, found):
    """Geometric mean of the recalls of both classes."""
    recalls = [np.mean(found[true == label] == label) for label in (False, True)]
    return float(np.sqrt(recalls[0] * recalls[1]))


def events(frame, lacks, absent):
    """Progressive G-mean of river's face."""
    model, score = BalancedRidgeClassifier(absent=absent), metrics.GeometricMean()
    labels = frame.pop("hit").tolist()
    for i, (x, gone, y) in enumerate(zip(frame.to_dict("records"), lacks, labels, strict=True)):
        if gone:
            del x["year"]
        if i >= EARLY:
            score.update(y, model.predict_one(x))
        model.learn_one(x, y)
    return score.get()


def shell(frame, lacks, *options):
    """G-mean of the second half by a model of the first: of rows with a year, and of all."""
    half = len(frame) // 2
    table = frame.copy()
    table.loc[lacks, "year"] = np.nan
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        table[:half].to_csv("one.csv", index=False)
        table[half:].to_csv("two.csv", index=False)
        _run("learn", "one.csv", "--label", "hit", "--model", "m", *options)
        told = pd.read_csv(io.StringIO(_run("predict", "m", "two.csv")))["prediction"]
    true, found = table["hit"][half:].to_numpy(), told.to_numpy().astype(bool)
    there = ~lacks[half:]
    return g_mean(true[there], found[there]), g_mean(true, found)


def _run(*arguments):
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=4_000)
    parser.add_argument("--streams", type=int, default=3)
    options = parser.parse_args()
    n, seeds = options.events, range(options.streams)
    rows, found = [], {}
    for name, share, absent in (
        ("no year is absent", 0.0, "zero"),
        ('1 % absent, `absent="zero"`', 0.01, "zero"),
        ('1 % absent, `absent="missing"`', 0.01, "missing"),
    ):
        found[name] = each = [events(*films(n, seed, share), absent) for seed in seeds]
        rows.append([name, f"{np.mean(each):.4f}", f"{min(each):.4f}", f"{max(each):.4f}"])
    whole, _, filled = (np.array(each) for each in found.values())
    worst = float(np.max(whole - filled))
    assert worst <= 0.01, worst
    shells, kept = [], {}
    for name, share, more in (
        ("no year is blank", 0.0, ()),
        ("10 % blank, as by default (`--missing mean`)", 0.1, ()),
        ("10 % blank, `--missing indicate`", 0.1, ("--missing", "indicate")),
    ):
        kept[name] = pairs = np.array([shell(*films(5 * n, seed, share), *more) for seed in seeds])
        there, everything = pairs.mean(axis=0)
        shells.append([name, f"{there:.4f}", f"{everything:.4f}"])
    first, second, _ = kept.values()
    apart = float(first[:, 0].mean() - second[:, 0].mean())
    assert apart <= 0.01, apart
    report.write(
        "missing",
        "A year that some rows lack",
        report.machine("numpy", "river"),
        f"{options.streams} made-up streams with a `year` from 2000 to 2020 in raw units, which "
        "tells most of what there is to tell, two other columns, and a class that one row in "
        "seventeen has. Progressive G-mean of "
        f"{n:,} events through river's face, each predicted before it is learned:",
        report.table(["events", "mean", "least", "most"], rows),
        f"Filled, a stream loses at most {worst:.4f} of its G-mean.",
        f"The same in a shell: `learn` of {5 * n // 2:,} rows, `predict` of as many later ones. Of "
        "rows whose year is blank nobody can know what the year would have told, so that rows that "
        "have one are judged apart.",
        report.table(["rows", "G-mean where there is a year", "of all rows"], shells),
    )


if __name__ == "__main__":
    main()
