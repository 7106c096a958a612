"""Learning in bulk, dense rows against bare products and sparse rows against dense ones."""

import time

import numpy as np
import psutil
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier
from threadpoolctl import threadpool_limits

from benchmarks import report
from counterpoise import BalancedRidgeClassifier

CHUNK, ROUNDS = 10_000, 7


def bare_products(X, y):
    """Compute the products that learning needs."""
    for k in (0, 1):
        Xk = X[y == k]
        Xk.T @ Xk


def time_call(action, *arguments, clock=time.perf_counter):
    """Return the seconds of a call."""
    start = clock()
    action(*arguments)
    return clock() - start


def best_totals(rows, d):
    """Return the best total of each learner; they take turns at every chunk."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((rows, d)), (rng.random(rows) < 0.05).astype(int)
    chunks = [(X[i : i + CHUNK], y[i : i + CHUNK]) for i in range(0, rows, CHUNK)]
    best = np.full(3, np.inf)
    for _ in range(ROUNDS):
        model = BalancedRidgeClassifier().partial_fit(X[:100], y[:100])
        sgd = SGDClassifier().partial_fit(X[:100], y[:100], classes=[0, 1])
        runners = [bare_products, model.partial_fit, sgd.partial_fit]
        total = np.zeros(3)
        for i, chunk in enumerate(chunks):
            for j in np.roll(np.arange(3), i):
                total[j] += time_call(runners[j], *chunk)
        best = np.minimum(best, total)
    return best


def memory(chunks):
    """Return the resident memory in MB after some numbers of chunks."""
    rng = np.random.default_rng(0)
    model, after = BalancedRidgeClassifier(), {}
    for i in range(1, chunks + 1):
        X, y = rng.standard_normal((CHUNK, 30)), (rng.random(CHUNK) < 0.05).astype(int)
        model.partial_fit(X, y)
        if i in (chunks // 100, chunks // 10, chunks):
            after[i] = psutil.Process().memory_info().rss / 1e6
    return after


def write_dense(options):
    """Write seconds and memory of dense rows."""
    rows = []
    for n, d, threads in (
        (options.rows, 30, 1),
        (options.rows // 5, 200, 1),
        (options.rows // 5, 200, 2),
    ):
        with threadpool_limits(threads):
            products, ours, sgd = best_totals(n, d)
        times = [f"{t:.3f}" for t in (products, ours, sgd)]
        ratios = [f"{ours / products:.2f}", f"{ours / sgd:.2f}"]
        rows.append([f"{n:,} × {d}, {threads}", *times, *ratios])
    learners = ["bare products", "BalancedRidgeClassifier", "SGDClassifier"]
    after = memory(max(options.rows // 1000, 100))
    report.write(
        "bulk",
        "Learning in bulk",
        f"Chunks of {CHUNK:,} rows, 5% minority, float64. Seconds for the whole stream, best of "
        f"{ROUNDS} rounds; within a round the three take turns at every chunk. *Bare products* is "
        "`Xk = X[y==k]; Xk.T @ Xk` for both classes, which NumPy computes by `dsyrk`. The last "
        "figure of a stream is the number of threads that BLAS may use; up to 512 features our "
        "products use none.",
        report.table(["stream, threads", *learners, "ours / bare", "ours / SGD"], rows),
        "Resident memory in MB after some chunks of 10,000 × 30:",
        report.table(["chunks", "MB"], [[f"{i:,}", f"{mb:.1f}"] for i, mb in after.items()]),
    )


SPARSE_ROWS, SPARSE_ROUNDS = 1000, 5


def best_chunk(X, y):
    """Return the CPU time of learning a chunk into a model that has seen its classes."""
    model = BalancedRidgeClassifier().partial_fit(X, y)
    times = [
        time_call(model.partial_fit, X, y, clock=time.process_time) for _ in range(SPARSE_ROUNDS)
    ]
    return min(times)


def write_sparse(options):
    """Write milliseconds of sparse chunks next to dense ones."""
    rng, rows = np.random.default_rng(0), []
    y = (rng.random(SPARSE_ROWS) < 0.1).astype(int)
    for d in (100, 500, 2000):
        for share in (0.003, 0.01, 0.03, 0.1, 0.3):
            X = sp.random_array((SPARSE_ROWS, d), density=share, format="csr", rng=rng)
            sparse, dense = best_chunk(X, y), best_chunk(X.toarray(), y)
            times = [f"{1e3 * t:.1f}" for t in (sparse, dense)]
            rows.append([f"{d:,} features, {share:.1%} filled", *times, f"{sparse / dense:.2f}"])
    report.write(
        "sparse",
        "Sparse chunks",
        f"`partial_fit` of chunks of {SPARSE_ROWS:,} rows, 10% minority: milliseconds of CPU time, "
        f"best of {SPARSE_ROUNDS}. Chunks become dense where that is faster, by a rule that was "
        "made from such figures (`moments/accumulate.py`).",
        report.table(["chunk", "CSR", "dense", "CSR / dense"], rows),
    )


if __name__ == "__main__":
    TABLES = {"dense": write_dense, "sparse": write_sparse}
    options = report.parse(__doc__, TABLES, rows=1_000_000)
    for part in options.parts:
        TABLES[part](options)
