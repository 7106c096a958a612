"""The G-mean that a ledger estimates without rows, beside that of the rows.

Every set of the paper that COUNTERPOISE_DATA has is cut into halves, five times. A model of the one
half is judged on the other: by the mean and the variance of its scores in each class, as if these
were normal, which is what a ledger does; and by predicting the rows.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from paper.datasets import SETS, load

from benchmarks import report
from counterpoise import BalancedRidgeClassifier, Ledger

ROWS, DAY = 10_000, 86_400
HALVES = {"until": "1970-01-02"}, {"since": "1970-01-02"}


def judged(X, y, seed):
    """Estimated and true G-mean of the model of one half on the other."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))[:ROWS]
    X, y = X[order], y[order]
    late = np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        mine = np.flatnonzero(y == label)
        late[mine[len(mine) // 2 :]] = True
    at = (late * DAY).astype("datetime64[s]")
    rows = {"at": at, **{f"x{j}": X[:, j] for j in range(X.shape[1])}, "y": y}
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger.open(Path(folder) / "l", label="y", time="at") as ledger,
    ):
        ledger.learn(rows)
        estimate = ledger.compare(*HALVES).g_mean[0, 1]
    predicted = BalancedRidgeClassifier().fit(X[~late], y[~late]).predict(X[late])
    recall = [(predicted[y[late] == k] == k).mean() for k in np.unique(y)]
    return float(estimate), float(np.sqrt(np.prod(recall)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    found = {}
    for name in SETS:
        try:
            X, y = load(name)
        except FileNotFoundError:
            continue
        found[name] = np.array([judged(X, y, seed) for seed in range(options.seeds)])
        print(name, found[name].mean(axis=0), flush=True)
    means = np.array([one.mean(axis=0) for one in found.values()])
    off = np.array([np.abs(one[:, 0] - one[:, 1]).mean() for one in found.values()])
    rows = [
        [name, f"{one[0]:.3f}", f"{one[1]:.3f}", f"{apart:.3f}"]
        for name, one, apart in zip(found, means, off, strict=True)
    ]
    report.write(
        "ledger_gmean",
        "The estimated G-mean",
        f"{len(found)} sets of the paper, at most {ROWS:,} rows, {options.seeds} halves each: the "
        "estimate by the mean and the variance of the scores of each class, beside the G-mean of "
        f"the rows. On average it is {off.mean():.3f} off, at most {off.max():.3f}; the "
        f"correlation over the sets is {np.corrcoef(means.T)[0, 1]:.3f}. "
        f"{report.machine('counterpoise', 'numpy')}",
        report.table(["set", "estimate", "of the rows", "off"], rows),
    )


if __name__ == "__main__":
    main()
