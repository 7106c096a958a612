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
LEVEL = 0.01


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
    """Buckets with alarms."""
    at = (bucket * DAY).astype("datetime64[s]")
    rows = {"at": at, **{f"x{j}": X[:, j] for j in range(D)}, "y": y}
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger.open(Path(folder) / "l", label="y", time="at") as ledger,
    ):
        ledger.learn(rows)
        return np.flatnonzero(ledger.drift(level=LEVEL).alarms)


def by_errors(bucket, X, y, detector):
    """Buckets in which a detector of river has seen its errors change."""
    scores = BalancedRidgeClassifier().progressive_scores(X, y)
    wrong = ((np.ravel(scores) > 0).astype(int) != y).astype(float)
    found = set()
    for i, error in enumerate(wrong.tolist()):
        detector.update(error)
        if detector.drift_detected:
            found.add(int(bucket[i]))
    return np.array(sorted(found), dtype=int)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    finders = {
        f"ledger, level {LEVEL}": by_sums,
        "ADWIN on errors": lambda *rows: by_errors(*rows, ADWIN()),
        "Page-Hinkley on errors": lambda *rows: by_errors(*rows, PageHinkley()),
    }
    rows = {name: [name] for name in finders}
    for shift in (0.0, 0.2, 0.5, 1.0):
        for name, find in finders.items():
            found = [find(*stream(shift, seed)) for seed in range(options.seeds)]
            if shift == 0.0:
                rows[name].append(f"{np.mean([len(one) for one in found]):.1f}")
                continue
            delay = [one[one >= CHANGE][0] - CHANGE if (one >= CHANGE).any() else None
                     for one in found]  # fmt: skip
            known = [float(one) for one in delay if one is not None]
            missed = len(delay) - len(known)
            said = f"{np.median(known):.0f}" if known else "never"
            rows[name].append(said + (f" (missed {missed} of {len(delay)})" if missed else ""))
        print(shift, [row[-1] for row in rows.values()], flush=True)
    head = ["detector", "alarms in 1,000 buckets without change", *(
        f"delay after {shift} deviations" for shift in (0.2, 0.5, 1.0))]  # fmt: skip
    report.write(
        "ledger_drift",
        "Drift from sums",
        f"{options.seeds} streams of {BUCKETS:,} buckets, each with {COMMON} common and {RARE} "
        f"rare rows of {D} features. Means of the counts, medians of the delays in buckets. An "
        f"alarm raised by chance after the change counts as found. {report.machine('river')}",
        report.table(head, list(rows.values())),
    )


if __name__ == "__main__":
    main()
