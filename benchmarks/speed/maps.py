"""Cost of feature maps: mapped features, memory, and time to learn, solve and predict."""

import time

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import report
from counterpoise import BalancedRidgeClassifier

INPUTS, ROWS, ROUNDS = 20, 4096, 5
MAPS = (None, "rm2", "rm3", "interactions", "poly2", "rff:400", "rff:1000", "poly3")


def draw(rows, seed):
    """Return rows and labels."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, INPUTS))
    return X, (np.abs(X[:, :3]).sum(axis=1) > 4.0).astype(int)


def time_call(call):
    """Return the seconds of a call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def costs(features):
    """Return the number of mapped features, and a function for each measure."""
    (X, y), (X_more, y_more) = draw(ROWS, 0), draw(1024, 1)
    model = BalancedRidgeClassifier(feature_map=features, ridge=0.1).fit(X, y)
    for i in range(4):  # single rows bind the moments once
        model.learn_one(X[i], int(y[i]))
    d = model.coef_.shape[1]
    steps = 1024 if d <= 500 else 128

    def solve():
        model.learn_one(X[0], int(y[0]))
        model.predict(X[:1])

    def one_by_one():
        for i in range(steps):
            model.learn_one(X[i], int(y[i]))

    return d, {
        "learn, chunks": lambda: 1e6 * time_call(lambda: model.partial_fit(X, y)) / ROWS,
        "learn, one by one": lambda: 1e6 * time_call(one_by_one) / steps,
        "test-then-train": lambda: (
            1e6
            * time_call(lambda: model.progressive_scores(X_more[:steps], y_more[:steps]))
            / steps
        ),
        "solve, ms": lambda: 1e3 * time_call(solve),
        "predict": lambda: 1e6 * time_call(lambda: model.predict(X)) / ROWS,
    }


if __name__ == "__main__":
    report.parse(__doc__)
    found = {name: costs(name) for name in MAPS}
    best = {name: {} for name in MAPS}
    with threadpool_limits(1):
        for _ in range(ROUNDS):
            for name, (_, measures) in found.items():
                for what, measure in measures.items():
                    best[name][what] = min(best[name].get(what, np.inf), measure())
    heads = ["map", "features", "MB per class", *next(iter(best.values()))]
    report.write(
        "maps",
        "Cost of feature maps",
        f"{INPUTS} features, 2 classes, one thread, best of {ROUNDS} rounds in which every map "
        f"takes a turn. Microseconds per row: learning {ROWS:,} rows at a time and one at a "
        "time, scoring each row before learning it with weights that are exact at every step, and "
        "predicting. A solve is one solution of the system, after which predictions are cheap.",
        report.table(
            heads,
            [
                [
                    name or "none",
                    f"{found[name][0]:,}",
                    f"{8 * found[name][0] ** 2 / 1e6:.2f}",
                    *[f"{value:,.2f}" for value in best[name].values()],
                ]
                for name in MAPS
            ],
        ),
    )
