"""Learning in bulk against the bare products that it cannot do without."""

import time

import numpy as np
import psutil
from sklearn.linear_model import SGDClassifier
from threadpoolctl import threadpool_limits

from benchmarks import report
from counterpoise import BalancedRidgeClassifier

CHUNK, ROUNDS = 10_000, 7


def bare(X, y):
    for k in (0, 1):
        Xk = X[y == k]
        Xk.T @ Xk


def seconds(action, *arguments):
    start = time.perf_counter()
    action(*arguments)
    return time.perf_counter() - start


def race(rows, d):
    """Best total of several rounds; within a round the three take turns at every chunk."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((rows, d)), (rng.random(rows) < 0.05).astype(int)
    chunks = [(X[i : i + CHUNK], y[i : i + CHUNK]) for i in range(0, rows, CHUNK)]
    best = np.full(3, np.inf)
    for _ in range(ROUNDS):
        model = BalancedRidgeClassifier().partial_fit(X[:100], y[:100])
        sgd = SGDClassifier().partial_fit(X[:100], y[:100], classes=[0, 1])
        runners = [bare, model.partial_fit, sgd.partial_fit]
        total = np.zeros(3)
        for i, chunk in enumerate(chunks):
            for j in np.roll(np.arange(3), i):
                total[j] += seconds(runners[j], *chunk)
        best = np.minimum(best, total)
    return best


def resident():
    return psutil.Process().memory_info().rss / 1e6


def memory():
    rng = np.random.default_rng(0)
    model, after = BalancedRidgeClassifier(), {}
    for i in range(1, 1001):
        X, y = rng.standard_normal((CHUNK, 30)), (rng.random(CHUNK) < 0.05).astype(int)
        model.partial_fit(X, y)
        if i in (10, 100, 1000):
            after[i] = resident()
    return after


if __name__ == "__main__":
    rows = []
    for n, d, threads in ((1_000_000, 30, 1), (200_000, 200, 1), (200_000, 200, 2)):
        with threadpool_limits(threads):
            products, ours, sgd = race(n, d)
        rows.append(
            [
                f"{n:,} × {d}, {threads}",
                f"{products:.3f}",
                f"{ours:.3f}",
                f"{sgd:.3f}",
                f"{ours / products:.2f}",
                f"{ours / sgd:.2f}",
            ]
        )
    after = memory()
    report.write(
        "bulk",
        "Learning in bulk",
        f"Chunks of {CHUNK:,} rows, 5 % minority, float64. Seconds for the whole stream, best of "
        f"{ROUNDS} rounds; within a round the three take turns at every chunk. *Bare products* is "
        "`Xk = X[y==k]; Xk.T @ Xk` for both classes, which NumPy computes by `dsyrk`. The last "
        "figure of a stream is the number of threads that BLAS may take; up to 512 features our "
        "products take none. " + report.machine("numpy", "scipy", "scikit-learn"),
        report.table(
            [
                "stream, threads",
                "bare products",
                "BalancedRidgeClassifier",
                "SGDClassifier",
                "ours / bare",
                "ours / SGD",
            ],
            rows,
        ),
        "Resident memory in MB after so many chunks of 10,000 × 30:",
        report.table(["chunks", "MB"], [[f"{i:,}", f"{mb:.1f}"] for i, mb in after.items()]),
    )
