"""What a map of the features costs: terms, memory, and time to learn, look and predict."""

import time

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import report
from counterpoise import BalancedRidgeClassifier

INPUTS, ROWS, ROUNDS = 20, 4096, 5
MAPS = (None, "rm2", "rm3", "interactions", "poly2", "rff:400", "rff:1000", "poly3")


def data(rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, INPUTS))
    return X, (np.abs(X[:, :3]).sum(axis=1) > 4.0).astype(int)


def once(act):
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def costs(features):
    (X, y), (X_more, y_more) = data(ROWS, 0), data(1024, 1)
    model = BalancedRidgeClassifier(feature_map=features, ridge=0.1).fit(X, y)
    for i in range(4):  # single rows bind the moments once
        model.learn_one(X[i], int(y[i]))
    d = model.coef_.shape[1]
    steps = 1024 if d <= 500 else 128

    def look():
        model.learn_one(X[0], int(y[0]))
        model.predict(X[:1])

    def one_by_one():
        for i in range(steps):
            model.learn_one(X[i], int(y[i]))

    return d, {
        "learn, chunks": lambda: 1e6 * once(lambda: model.partial_fit(X, y)) / ROWS,
        "learn, one by one": lambda: 1e6 * once(one_by_one) / steps,
        "test-then-train": lambda: (
            1e6 * once(lambda: model.progressive_scores(X_more[:steps], y_more[:steps])) / steps
        ),
        "look, ms": lambda: 1e3 * once(look),
        "predict": lambda: 1e6 * once(lambda: model.predict(X)) / ROWS,
    }


if __name__ == "__main__":
    found = {name: costs(name) for name in MAPS}
    best = {name: {} for name in MAPS}
    with threadpool_limits(1):
        for _ in range(ROUNDS):
            for name, (_, measures) in found.items():
                for what, measure in measures.items():
                    best[name][what] = min(best[name].get(what, np.inf), measure())
    heads = ["map", "terms", "MB a class", *next(iter(best.values()))]
    report.write(
        "maps",
        "What a map of the features costs",
        f"{INPUTS} features, 2 classes, one thread, best of {ROUNDS} rounds in which every map "
        f"takes a turn. Microseconds a row: learning {ROWS:,} rows at a time and one at a "
        "time, scoring each row before learning it with weights that are exact at every step, and "
        "predicting. A look is one solution of the system, after which predictions are cheap. "
        + report.machine("numpy", "scipy"),
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
