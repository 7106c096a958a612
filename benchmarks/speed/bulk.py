"""Learning in bulk and in small calls against bare products, and sparse rows against dense ones."""

import time

import numpy as np
import psutil
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier
from threadpoolctl import threadpool_limits

from benchmarks import report
from counterpoise import AutoClassifier, BalancedRidgeClassifier

CHUNK, ROUNDS, CPU_TIME = 10_000, 7, time.process_time


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


SPARSE_ROWS, SPARSE_ROUNDS, SPARSE_CHUNKS = 1000, 2, 16


def learn_chunks(model, chunks):
    """Learn chunks, and finish the scatters, to which products of CSR rows are added later."""
    for X, y in chunks:
        model.partial_fit(X, y)
    return model._engine.state.moments.C


def mean_chunk(X, y):
    """Return the CPU time of learning a chunk into a model that has seen its classes."""
    model, chunks = BalancedRidgeClassifier().partial_fit(X, y), [(X, y)] * SPARSE_CHUNKS
    times = [time_call(learn_chunks, model, chunks, clock=CPU_TIME) for _ in range(SPARSE_ROUNDS)]
    return min(times) / SPARSE_CHUNKS


def wide_chunks(d, entries=20):
    """Return the CPU time per chunk of wide CSR rows, and of the products by SciPy."""
    rng, best = np.random.default_rng(0), np.full(2, np.inf)
    y = (rng.random(SPARSE_ROWS) < 0.1).astype(int)
    model = BalancedRidgeClassifier(memory_limit=32.0 * d * d + 1e9)
    chunks = [
        (sp.random_array((SPARSE_ROWS, d), density=entries / d, format="csr", rng=rng), y)
        for _ in range(SPARSE_CHUNKS)
    ]
    learn_chunks(model, chunks)  # the memory of the scatters is there then
    for _ in range(SPARSE_ROUNDS):
        ours = time_call(learn_chunks, model, chunks, clock=CPU_TIME)
        bare = time_call(lambda: [X.T @ X for X, _ in chunks], clock=CPU_TIME)
        best = np.minimum(best, [ours, bare])
    return best / SPARSE_CHUNKS


def write_sparse(options):
    """Write milliseconds of sparse chunks next to dense ones."""
    wide = []
    for d in (2_000, 10_000, 20_000):
        ours, bare = wide_chunks(d)
        wide.append([f"{d:,}", f"{1e3 * ours:.1f}", f"{1e3 * bare:.1f}", f"{ours / bare:.0f}"])
    rng, rows = np.random.default_rng(0), []
    y = (rng.random(SPARSE_ROWS) < 0.1).astype(int)
    for d in (100, 500, 2000):
        for share in (0.003, 0.01, 0.03, 0.1, 0.3):
            X = sp.random_array((SPARSE_ROWS, d), density=share, format="csr", rng=rng)
            sparse, dense = mean_chunk(X, y), mean_chunk(X.toarray(), y)
            times = [f"{1e3 * t:.1f}" for t in (sparse, dense)]
            rows.append([f"{d:,} features, {share:.1%} filled", *times, f"{sparse / dense:.2f}"])
    report.write(
        "sparse",
        "Sparse chunks",
        f"`partial_fit` of chunks of {SPARSE_ROWS:,} rows, 10% minority: milliseconds of CPU time "
        f"per chunk, mean over {SPARSE_CHUNKS} chunks, best of {SPARSE_ROUNDS}. Chunks become "
        "dense where that is faster, by a rule that was made from such figures "
        "(`moments/accumulate.py`). The products of other chunks are added to the scatters "
        "together (`moments/moments.py`), at the latest when they are used. That is included.",
        report.table(["chunk", "CSR", "dense", "CSR / dense"], rows),
        f"Wide chunks of {SPARSE_ROWS:,} rows with about 20 entries each, mean over "
        f"{SPARSE_CHUNKS} different chunks, best of {SPARSE_ROUNDS}, next to SciPy's `X.T @ X`, "
        "which is sparse. The scatters are dense, of two classes.",
        report.table(["features", "partial_fit", "X.T @ X", "ratio"], wide),
    )


CALL_CHUNKS, CALLS, WARMUP_ROWS = (1, 10, 100), 200, 1300


def microseconds_per_call(d, rows):
    """Return the CPU time of learning a small chunk, and of its bare products."""
    rng, best = np.random.default_rng(0), np.full(2, np.inf)
    X, y = rng.standard_normal((rows * CALLS, d)), (rng.random(rows * CALLS) < 0.1).astype(int)
    chunks = [(X[i : i + rows], y[i : i + rows]) for i in range(0, len(y), rows)]
    model = BalancedRidgeClassifier().fit(rng.standard_normal((1000, d)), np.arange(1000) % 2)
    for _ in range(ROUNDS):
        for j, action in enumerate((model.partial_fit, bare_products)):
            start = time.process_time()
            for chunk in chunks:
                action(*chunk)
            best[j] = min(best[j], (time.process_time() - start) / CALLS * 1e6)
    return best


def first_predictions(c, d=30):
    """Return milliseconds of the first predict and the first predict_proba of c classes."""
    rng, best = np.random.default_rng(0), np.full(2, np.inf)
    y = rng.integers(0, c, 20 * c)
    X = rng.standard_normal((len(y), d)) + rng.standard_normal((c, d))[y]
    for _ in range(ROUNDS):
        for j, method in enumerate(("predict", "predict_proba")):
            model = BalancedRidgeClassifier().fit(X, y)
            best[j] = min(best[j], time_call(getattr(model, method), X[:10], clock=CPU_TIME) * 1e3)
    return best


def write_calls(_):
    """Write the cost of a call for few rows, and of the averaging classifier's warm-up."""
    rows = []
    with threadpool_limits(1):
        for d in (10, 30, 100):
            for n in CALL_CHUNKS:
                ours, bare = microseconds_per_call(d, n)
                rows.append([f"{n} × {d}", f"{ours:.1f}", f"{bare:.1f}", f"{ours / bare:.2f}"])
        first = {c: first_predictions(c) for c in (2, 16, 64, 128)}
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((WARMUP_ROWS, 30)), (rng.random(WARMUP_ROWS) < 0.1).astype(int)
        model, start = AutoClassifier(), time.process_time()
        for i in range(WARMUP_ROWS):
            model.partial_fit(X[i : i + 1], y[i : i + 1])
        warmup = time.process_time() - start
    report.write(
        "calls",
        "Calls for few rows",
        f"`partial_fit` of small chunks, 10% minority: microseconds of CPU time per call, best of "
        f"{ROUNDS} rounds, one BLAS thread. *Bare products* are as in [bulk](bulk.md). Batches of "
        "few rows are learned row by row (`engine/state.py`).",
        report.table(["chunk", "partial_fit", "bare products", "ours / bare"], rows),
        f"`AutoClassifier` learns its first {WARMUP_ROWS:,} rows of 30 features, one in each call, "
        f"in {warmup:.2f} s of CPU time.",
        "The first prediction of 10 rows of 30 features after learning, in milliseconds: it solves "
        "for the coefficients, and `predict_proba` also for the link of all pairs of classes.",
        report.table(
            ["classes", "predict", "predict_proba", "ratio"],
            [[c, f"{a:.2f}", f"{b:.2f}", f"{b / a:.1f}"] for c, (a, b) in first.items()],
        ),
    )


if __name__ == "__main__":
    TABLES = {"dense": write_dense, "sparse": write_sparse, "calls": write_calls}
    options = report.parse(__doc__, TABLES, rows=1_000_000)
    for part in options.parts:
        TABLES[part](options)
