"""Learning CSR chunks against the same rows dense, by features and share of entries."""

import time

import numpy as np
import scipy.sparse as sp

from benchmarks import report
from counterpoise import BalancedRidgeClassifier

ROWS, ROUNDS = 1000, 5


def seconds(X, y):
    """Processor time of learning a chunk into a model that knows its classes, best of several."""
    model, best = BalancedRidgeClassifier().partial_fit(X, y), np.inf
    for _ in range(ROUNDS):
        start = time.process_time()
        model.partial_fit(X, y)
        best = min(best, time.process_time() - start)
    return best


if __name__ == "__main__":
    rng, rows = np.random.default_rng(0), []
    y = (rng.random(ROWS) < 0.1).astype(int)
    for d in (100, 500, 2000):
        for share in (0.003, 0.01, 0.03, 0.1, 0.3):
            X = sp.random_array((ROWS, d), density=share, format="csr", rng=rng)
            sparse, dense = seconds(X, y), seconds(X.toarray(), y)
            times = [f"{1e3 * t:.1f}" for t in (sparse, dense)]
            rows.append([f"{d:,} features, {share:.1%} filled", *times, f"{sparse / dense:.2f}"])
    report.write(
        "sparse",
        "Sparse chunks",
        f"`partial_fit` of chunks of {ROWS:,} rows, 10 % minority: milliseconds of processor time, "
        f"best of {ROUNDS}. Zeros are filled in where that is quicker, by a rule that was made of "
        "such figures (`rows.py`). " + report.machine("numpy", "scipy"),
        report.table(["chunk", "CSR", "dense", "CSR / dense"], rows),
    )
