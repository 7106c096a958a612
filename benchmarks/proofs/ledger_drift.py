"""Drift detected from moments, compared with river's detectors on rows.

False alarms on stationary streams of 1,000 buckets with five kinds of features, and buckets until a
shift of one feature of the rare class is detected, from bucket 500 on. ADWIN and Page-Hinkley read
all rows: the errors of the exact classifier that predicts each row before it learns it, and ADWIN
also the values of each feature by class, which is what the ledger has. Alarms of one bucket count
as one.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from river.drift import ADWIN, PageHinkley

from benchmarks import report
from counterpoise import BalancedRidgeClassifier, Ledger

BUCKETS, CHANGE, COMMON, RARE, D, DAY = 1000, 500, 200, 20, 5, 86_400
LEVELS = (0.01, 0.001)
KINDS = ("normal", "Student t3", "log-normal", "daily level", "zero-inflated")
SHIFTS = (("normal", 0.2), *((kind, 0.5) for kind in KINDS), ("normal", 1.0))
DETECTORS = (
    *(f"ledger, level {level}" for level in LEVELS), "ADWIN, each feature by class",
    "ADWIN, errors", "Page-Hinkley, errors",
)  # fmt: skip


def draw(kind, bucket, rng):
    """Return features of a standard deviation near 1, of shape (rows, D)."""
    shape = len(bucket), D
    if kind == "Student t3":
        return rng.standard_t(3.0, shape) / np.sqrt(3.0)
    if kind == "log-normal":
        return rng.lognormal(0.0, 1.0, shape) / 2.16
    if kind == "zero-inflated":  # 9 of 10 values are 0
        return rng.lognormal(0.0, 1.0, shape) * (rng.random(shape) < 0.1) / 0.84
    X = rng.standard_normal(shape)
    X[:, 1:] += 0.5 * X[:, :-1]
    return X + rng.standard_normal((BUCKETS, D))[bucket] if kind == "daily level" else X


def stream(kind, shift, seed):
    """Return buckets, rows and classes; feature 0 of the rare class shifts in the middle."""
    rng = np.random.default_rng(seed)
    bucket = np.repeat(np.arange(BUCKETS), COMMON + RARE)
    y = np.tile(np.repeat([0, 1], [COMMON, RARE]), BUCKETS)
    X = draw(kind, bucket, rng) + 0.7 * y[:, None]
    X[(y == 1) & (bucket >= CHANGE), 0] += shift
    order = np.lexsort((rng.random(len(y)), bucket))
    return bucket[order], X[order], y[order]


def by_moments(bucket, X, y):
    """Return the buckets with alarms of the ledger, at each level."""
    at = (bucket * DAY).astype("datetime64[s]")
    rows = {"at": at, **{f"x{j}": X[:, j] for j in range(D)}, "y": y}
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger.open(Path(folder) / "l", label="y", time="at") as ledger,
    ):
        ledger.learn(rows)
        return [np.flatnonzero(ledger.drift(level=level).alarms) for level in LEVELS]


def by_rows(bucket, X, y):
    """Return the buckets with alarms of river's detectors."""
    scores = BalancedRidgeClassifier().progressive_scores(X, y)
    wrong = ((np.ravel(scores) > 0).astype(int) != y).astype(float)
    features = [
        watch(ADWIN(), bucket[y == k], X[y == k, j]) for k in (0, 1) for j in range(D)
    ]  # fmt: skip
    errors = [watch(detector, bucket, wrong) for detector in (ADWIN(), PageHinkley())]
    return [np.array(sorted(set().union(*features)), dtype=int)] + [
        np.array(sorted(found), dtype=int) for found in errors
    ]


def watch(detector, bucket, values):
    """Return the buckets in which a detector has detected a change."""
    found = set()
    for b, value in zip(bucket.tolist(), values.tolist(), strict=True):
        detector.update(value)
        if detector.drift_detected:
            found.add(b)
    return found


def delays(found):
    """Return the median of the buckets until an alarm, its quartiles, and the misses, as text."""
    after = [one[one >= CHANGE][:1] - CHANGE for one in found]
    detected = np.concatenate(after)
    if not len(detected):
        return "never"
    low, middle, high = np.percentile(detected, [25, 50, 75])
    missed = len(found) - len(detected)
    return f"{middle:.0f} ({low:.0f} to {high:.0f}{f'; {missed} missed' if missed else ''})"


def alarms(kind, shift, seeds):
    """Return the alarms of each detector on each stream."""
    found = {name: [] for name in DETECTORS}
    for seed in range(seeds):
        drawn = stream(kind, shift, seed)
        for name, mine in zip(DETECTORS, by_moments(*drawn) + by_rows(*drawn), strict=True):
            found[name].append(mine)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    false = {name: [name] for name in DETECTORS}
    delay = {name: [name] for name in DETECTORS}
    for kind in KINDS:
        for name, found in alarms(kind, 0.0, options.seeds).items():
            count = np.array([len(one) for one in found])
            error = count.std(ddof=1) / np.sqrt(len(count))
            false[name].append(f"{count.mean():.2f} ± {error:.2f}")
        print(kind, [row[-1] for row in false.values()], flush=True)
    for kind, shift in SHIFTS:
        for name, found in alarms(kind, shift, options.seeds // 2).items():
            delay[name].append(delays(found))
        print(kind, shift, [row[-1] for row in delay.values()], flush=True)
    expected = " and ".join(f"{BUCKETS * level:g}" for level in LEVELS)
    report.write(
        "ledger_drift",
        "Drift from moments",
        f"{options.seeds} streams of {BUCKETS:,} buckets for each kind, each bucket with "
        f"{COMMON} common and {RARE} rare rows of {D} features. {report.machine('river')}",
        f"Alarms in {BUCKETS:,} buckets without a change: mean and its standard error. A level is "
        f"the probability of an alarm in a bucket, so that at most {expected} alarms are expected. "
        "*Daily level*: normal features with a level that is drawn for each bucket, with the "
        "standard deviation 1. *Zero-inflated*: 9 of 10 values are 0, others log-normal. ADWIN has "
        "river's default confidence for each of its detectors.",
        report.table(["detector", *KINDS], list(false.values())),
        "Buckets until the shift of one feature of the rare class is detected, by half as many "
        "streams: median and quartiles; shifts are in standard deviations. An alarm raised by "
        "chance after the change counts as a detection.",
        report.table(
            ["detector", *(f"{kind}, {shift}" for kind, shift in SHIFTS)], list(delay.values())
        ),
    )


if __name__ == "__main__":
    main()
