"""Never drifting: long streams against the batch solution on the same rows."""

import time
import warnings

import numpy as np
from sklearn.linear_model import RidgeClassifier
from sklearn.preprocessing import StandardScaler

from benchmarks import report
from counterpoise import BalancedRidgeClassifier
from counterpoise.errors import PrecisionWarning
from counterpoise.moments.downdate import MAX_RELATIVE_ERROR
from counterpoise.solver.scores import WARN_RELATIVE_ERROR

ROWS, D = 10_000_000, 20
RIDGE = 1e-4


def stream(rows, d=D, minority=0.01, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(rows) < minority).astype(np.int64)
    X = rng.standard_normal((rows, d))
    X[:, 1:] += 0.5 * X[:, :-1]
    X[y == 1] += np.linspace(0.0, 1.0, d)
    return X, y


def distance(one, two):
    return np.linalg.norm(one - two) / np.linalg.norm(two)


def scaled_batch(X, y):
    """Weights of the batch solver on [1, Z] and the scaler's divisors."""
    scaler = StandardScaler().fit(X)
    Z = np.empty((len(X), X.shape[1] + 1))
    Z[:, 0] = 1.0
    Z[:, 1:] = scaler.transform(X)
    batch = RidgeClassifier(
        alpha=RIDGE * len(y) / 2, class_weight="balanced", fit_intercept=False, solver="cholesky"
    )
    return np.ravel(batch.fit(Z, y).coef_)[1:], scaler.scale_


def in_mixed_chunks(X, y):
    rng, at, chunks = np.random.default_rng(1), 0, 0
    model = BalancedRidgeClassifier(ridge=RIDGE)
    while at < len(y):
        step = int(10 ** rng.uniform(0.0, 5.0))
        model.partial_fit(X[at : at + step], y[at : at + step])
        at, chunks = at + step, chunks + 1
    return model, chunks


def long_stream():
    X, y = stream(ROWS)
    rows = []
    model, chunks = in_mixed_chunks(X, y)
    w, s = scaled_batch(X, y)
    rows.append(
        [f"{ROWS:,} rows in {chunks} chunks of 1 to 100,000", distance(model.coef_[0] * s, w)]
    )
    X += 1e8
    model, _ = in_mixed_chunks(X, y)
    X -= 1e8  # exact: what the addition rounded away is gone for both
    w, s = scaled_batch(X, y)
    rows.append(["the same, every feature shifted by 1e8", distance(model.coef_[0] * s, w)])
    return rows


def by_turns(times=50_000):
    X, y = stream(10_000, minority=0.1)
    rng = np.random.default_rng(2)
    model = BalancedRidgeClassifier().fit(X, y)
    before = model.coef_
    for _ in range(times):
        row, label = 3.0 * rng.standard_normal((1, D)), rng.integers(0, 2, 1)
        model.partial_fit(row, label).unlearn(row, label)
    return [[f"{times:,} rows learned and unlearned, one by one", distance(model.coef_, before)]]


def removals():
    """What the estimate says, and the error that is really there."""
    rows = []
    X, y = stream(1_000_000, minority=0.1)
    model = BalancedRidgeClassifier()
    for i in range(0, len(y), 10_000):
        model.partial_fit(X[i : i + 10_000], y[i : i + 10_000])
    rows.append(
        ["1,000,000 rows learned, all but 50 unlearned", *unlearned(model, X, y, 50, 10_000)]
    )
    for size in (1e3, 1e5, 1e6, 1e7, 1e10):
        X, y = stream(1_000, minority=0.2)
        X, y = np.vstack([X, X[:1]]), np.append(y, 1)
        X[-1, 3] = size
        model = BalancedRidgeClassifier().fit(X, y)
        name = f"an outlier of {size:.0e} learned after 1,000 rows and unlearned"
        rows.append([name, *unlearned(model, X, y, 1_000, 1)])
    return rows


def unlearned(model, X, y, kept, step):
    said, estimate = "silent", None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            for i in range(kept, len(y), step):
                model.unlearn(X[i : i + step], y[i : i + step])
        except ValueError:
            said = "refused"
    if said == "refused":
        return [said, f"above {MAX_RELATIVE_ERROR:.0e}", "model unchanged"]
    if any(w.category is PrecisionWarning for w in caught):
        said = "warned"
    estimate = model._engine.state.moments.relative_error().max()
    fresh = BalancedRidgeClassifier().fit(X[:kept], y[:kept])
    return [said, f"{estimate:.0e}", f"{distance(model.coef_, fresh.coef_):.0e}"]


if __name__ == "__main__":
    start = time.time()
    drift = long_stream() + by_turns()
    report.write(
        "drift",
        "Never drifting",
        f"d = {D}, 1% minority, coefficients in scaled units against scikit-learn's "
        f"RidgeClassifier on all rows in one step, with the same ridge ({RIDGE:g}); rows learned "
        "and unlearned by turns against the coefficients before. One run. "
        + report.machine("numpy", "scipy", "scikit-learn"),
        report.table(
            ["stream", "relative distance of the coefficients"],
            [[name, f"{value:.1e}"] for name, value in drift],
        ),
        f"Precision loss by `unlearn`: it warns above an estimate of {WARN_RELATIVE_ERROR:.0e} and "
        f"refuses above {MAX_RELATIVE_ERROR:.0e}. The true error is the distance to a fit on the "
        "remaining rows.",
        report.table(["what", "unlearn", "estimate", "true error"], removals()),
    )
    print(f"{time.time() - start:.0f} s")
