"""A year that some rows do not have: 1% of river's events, 10% of the rows of a file.

The year, around 2010 in raw units, has most of the information. As 0 it is two thousand years away
from all others, and a few such rows hide it.
"""

import io
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from river import metrics

from benchmarks import processes, report
from benchmarks.learners import g_mean
from counterpoise.river import BalancedRidgeClassifier

UNSCORED_EVENTS = 100  # learned before the first is scored


def draw_films(n, seed, share):
    """Return rows with a year, two other columns and a rare label, and which years are missing."""
    rng = np.random.default_rng(seed)
    year = rng.integers(2000, 2021, n).astype(float)
    votes, length = rng.lognormal(6.0, 1.0, n), rng.normal(100.0, 15.0, n)
    risk = (year - 2010.0) / 6.0 + 0.05 * (np.log(votes) - 6.0) + 0.5 * rng.normal(size=n)
    hit = risk > 1.8  # one in seventeen
    frame = pd.DataFrame({"year": year, "votes": votes, "length": length, "hit": hit})
    missing = np.random.default_rng(seed + 1000).random(n) < share
    missing[0] = False
    return frame, missing


def score_events(frame, missing, absent):
    """Return the progressive G-mean of river's events."""
    model, score = BalancedRidgeClassifier(absent=absent), metrics.GeometricMean()
    labels = frame.pop("hit").tolist()
    for i, (x, skip, y) in enumerate(zip(frame.to_dict("records"), missing, labels, strict=True)):
        if skip:
            del x["year"]
        if i >= UNSCORED_EVENTS:
            score.update(y, model.predict_one(x))
        model.learn_one(x, y)
    return score.get()


def score_files(frame, missing, *options):
    """Return the G-mean of the second half by a model of the first: of rows with a year, of all."""
    half = len(frame) // 2
    table = frame.copy()
    table.loc[missing, "year"] = np.nan
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table[:half].to_csv(folder / "one.csv", index=False)
        table[half:].to_csv(folder / "two.csv", index=False)
        processes.run(folder, "learn", "one.csv", "--label", "hit", "--model", "m", *options)
        predict = [*processes.COMMAND, "predict", "m", "two.csv"]
        printed = subprocess.run(predict, cwd=folder, capture_output=True, text=True, check=True)
    predicted = pd.read_csv(io.StringIO(printed.stdout))["prediction"].to_numpy().astype(bool)
    true, has_year = table["hit"][half:].to_numpy(), ~missing[half:]
    return g_mean(true[has_year], predicted[has_year]), g_mean(true, predicted)


def main():
    """Write the table."""
    options = report.parse(__doc__, events=4_000, streams=3)
    n, seeds = options.events, range(options.streams)
    rows, found = [], {}
    for name, share, absent in (
        ("no year is missing", 0.0, "zero"),
        ('1% missing, `absent="zero"`', 0.01, "zero"),
        ('1% missing, `absent="missing"`', 0.01, "missing"),
    ):
        found[name] = each = [score_events(*draw_films(n, seed, share), absent) for seed in seeds]
        rows.append([name, f"{np.mean(each):.4f}", f"{min(each):.4f}", f"{max(each):.4f}"])
    whole, _, filled = (np.array(each) for each in found.values())
    worst = float(np.max(whole - filled))
    assert n < 1000 or worst <= 0.01, worst
    shells, kept = [], {}
    for name, share, more in (
        ("no year is missing", 0.0, ()),
        ("10% missing, as by default (`--missing mean`)", 0.1, ()),
        ("10% missing, `--missing indicate`", 0.1, ("--missing", "indicate")),
    ):
        kept[name] = pairs = np.array(
            [score_files(*draw_films(5 * n, seed, share), *more) for seed in seeds]
        )
        with_year, everything = pairs.mean(axis=0)
        shells.append([name, f"{with_year:.4f}", f"{everything:.4f}"])
    first, second, _ = kept.values()
    loss = float(first[:, 0].mean() - second[:, 0].mean())
    assert n < 1000 or loss <= 0.01, loss
    report.write(
        "missing",
        "A year that some rows do not have",
        f"{options.streams} synthetic streams with a `year` from 2000 to 2020 in raw units, which "
        "has most of the information, two other columns, and a class that one row in seventeen "
        f"has. Progressive G-mean of {n:,} events of river, each predicted before it is learned:",
        report.table(["events", "mean", "least", "most"], rows),
        f"Imputed, a stream loses at most {worst:.4f} of its G-mean.",
        f"The same by the command line: `learn` of {5 * n // 2:,} rows, `predict` of as many later "
        "rows. Rows that have a year are also evaluated separately.",
        report.table(["rows", "G-mean of rows with a year", "of all rows"], shells),
    )


if __name__ == "__main__":
    main()
