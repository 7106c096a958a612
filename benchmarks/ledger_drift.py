"""Drift found by sums alone, beside river's detectors on the errors of a classifier.

False alarms on stationary streams of 1,000 buckets, and buckets until a shift of one feature of the
rare class is found, from bucket 500 on. ADWIN and Page-Hinkley watch the errors, row by row, of the
exact classifier that predicts each row before it learns it; they need all rows, and those of a
bucket count as one alarm.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import report
from river.drift import ADWIN, PageHinkley

from counterpoise import BalancedRidgeClassifier, Ledger

BUCKETS, CHANGE, COMMON, RARE, D, DAY = 1000, 500, 200, 20, 5, 86_400
LEVELS = (0.01, 0.001)
SHIFTS = (0.2, 0.5, 1.0)


def stream(shift, seed):
    """Rows of two classes, bucket by bucket; feature 0 of the rare class shifts in the middle."""
    rng = np.random.default_rng(seed)
    bucket = np.repeat(np.arange(BUCKETS), COMMON + RARE)
    y = np.tile(np.repeat([0, 1], [COMMON, RARE]), BUCKETS)
    X = rng.standard_normal((len(y), D))
    X[:, 1:] += 0.5 * X[:, :-1]
    X += 0.7 * y[:, None]
    X[(y == 1) & (bucket >= CHANGE), 0] += shift
    order = np.lexsort((rng.random(len(y)), bucket))
    return bucket[order], X[order], y[order]


def by_sums(bucket, X, y):
    """Buckets with alarms, at each level."""
    at = (bucket * DAY).astype("datetime64[s]")
    rows = {"at": at, **{f"x{j}": X[:, j] for j in range(D)}, "y": y}
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger.open(Path(folder) / "l", label="y", time="at") as ledger,
    ):
        ledger.learn(rows)
        return [np.flatnonzero(ledger.drift(level=level).alarms) for level in LEVELS]


def by_errors(bucket, X, y):
    """Buckets in which detectors of river have seen the errors change."""
    scores = BalancedRidgeClassifier().progressive_scores(X, y)
    wrong = ((np.ravel(scores) > 0).astype(int) != y).astype(float)
    found = []
    for detector in (ADWIN(), PageHinkley()):
        alarms = set()
        for i, error in enumerate(wrong.tolist()):
            detector.update(error)
            if detector.drift_detected:
                alarms.add(int(bucket[i]))
        found.append(np.array(sorted(alarms), dtype=int))
    return found


def delayed(found):
    """Median of the buckets until an alarm, with quartiles, and how many streams had none."""
    after = [one[one >= CHANGE][:1] - CHANGE for one in found]
    known = np.concatenate(after)
    if not len(known):
        return "never"
    low, middle, high = np.percentile(known, [25, 50, 75])
    missed = len(found) - len(known)
    return f"{middle:.0f} ({low:.0f} to {high:.0f}{f'; {missed} missed' if missed else ''})"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    options = parser.parse_args()
    names = [*(f"ledger, level {level}" for level in LEVELS), "ADWIN, its errors",
             "Page-Hinkley, its errors"]  # fmt: skip
    rows = {name: [name] for name in names}
    for shift in (0.0, *SHIFTS):
        found = {name: [] for name in names}
        for seed in range(options.seeds):
            drawn = stream(shift, seed)
            for name, alarms in zip(names, by_sums(*drawn) + by_errors(*drawn), strict=True):
                found[name].append(alarms)
        for name, mine in found.items():
            if shift == 0.0:
                count = np.array([len(one) for one in mine])
                error = count.std(ddof=1) / np.sqrt(len(count))
                rows[name].append(f"{count.mean():.2f} ± {error:.2f}")
            else:
                rows[name].append(delayed(mine))
        print(shift, [row[-1] for row in rows.values()], flush=True)
    head = ["detector", f"alarms in {BUCKETS:,} buckets without change", *(
        f"delay after {shift} deviations" for shift in SHIFTS)]  # fmt: skip
    report.write(
        "ledger_drift",
        "Drift from sums",
        f"{options.seeds} streams of {BUCKETS:,} buckets for each column, each bucket with "
        f"{COMMON} common and {RARE} rare rows of {D} features. Alarms: mean and its standard "
        f"error; a level is the probability of one in a bucket, so that at most "
        f"{', '.join(f'{1000 * level:g}' for level in LEVELS)} are expected. Delays: median and "
        "quartiles, in buckets; an alarm raised by chance after the change counts as found. "
        f"{report.machine('river')}",
        report.table(head, list(rows.values())),
    )


if __name__ == "__main__":
    main()
