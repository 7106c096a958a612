"""What a model that chooses costs: whole fits with many classes, and single rows.

Soybean and dna come with no library that we use; rows of the same shape, made up, stand for them.
"""

import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import report
from counterpoise import AutoClassifier, BalancedRidgeClassifier
from counterpoise.engine.parameters import LINEAR

SHAPES = {  # rows, columns of words, words of each, classes
    "soybean": (683, 35, 4, 19),
    "dna": (3186, 60, 3, 3),
}
ROWS, FEATURES = 2000, (8, 22)  # rows learned before single ones come
SINGLE = 1000
LIMIT = 3.0


def words(n, columns, values, c):
    """Columns of words, one-hot, whose frequencies depend on the class; classes get rarer."""
    rng = np.random.default_rng(0)
    share = 1.0 / np.arange(1, c + 1) ** 0.7
    y = rng.choice(c, n, p=share / share.sum())
    chance = rng.dirichlet(np.ones(values), (c, columns)).cumsum(axis=2)
    X = (rng.random((n, columns, 1)) > chance[y]).sum(axis=2)
    return (X[:, :, None] == np.arange(values)).reshape(n, -1).astype(float), y


def fits():
    for name, shape in SHAPES.items():
        X, y = words(*shape)
        begun = time.process_time()
        model = AutoClassifier().fit(X, y)
        fitted = time.process_time()
        model.predict(X[:1])
        looked = time.process_time()
        seconds = [f"{fitted - begun:.2f}", f"{looked - fitted:.2f}"]
        yield [f"{name}'s shape", len(y), X.shape[1], shape[-1], *seconds]


def numbers(d):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS + 4 * SINGLE, d))
    return X, (X[:, 0] * X[:, 1] > 0.8).astype(int)


def microseconds(models, X, y, look):
    """Processor time for all of these models to learn a row, after a look if that is asked for."""
    begun = time.process_time()
    for x, label in zip(X, y, strict=True):
        for model in models:
            if look:
                model.predict_one(x)
            model.learn_one(x, label)
    return 1e6 * (time.process_time() - begun) / len(y)


def singles():
    for d in FEATURES:
        X, y = numbers(d)
        chooser = AutoClassifier().fit(X[:ROWS], y[:ROWS])
        chooser.predict(X[:1])
        alone = [
            BalancedRidgeClassifier(feature_map=None if one == LINEAR else one, ridge=1.0)
            for one in chooser.maps_
            if one == LINEAR or not isinstance(one, str)
        ]
        for one in alone:
            one.fit(X[:ROWS], y[:ROWS])
        at = ROWS
        for what, look in (("learn", False), ("predict, then learn", True)):
            took = []
            for models in ([chooser], alone):
                rows = slice(at, at + SINGLE)
                took.append(microseconds(models, X[rows], y[rows], look))
                at += SINGLE
            yield [what, d, *(f"{t:.0f}" for t in took), f"{took[0] / took[1]:.2f}"]


def main():
    with threadpool_limits(1):
        fitted, events = list(fits()), list(singles())
    report.write(
        "chooser",
        "What a model that chooses costs",
        "`AutoClassifier()`, processor time, one thread, one run; load "
        f"{report.load()}. " + report.machine("numpy"),
        "Seconds to fit rows and to look at the model for the first time. The sets are made up, in "
        "the shape of those that they are named after (words as one-hot columns):",
        report.table(["rows like", "rows", "d", "classes", "fit", "first look"], fitted),
        f"Microseconds for a single row, after {ROWS:,} rows: of the chooser, and of its "
        "candidates' own models one after the other, each with its map and exact weights at every "
        f"look. The limit is {LIMIT:.0f} times as much:",
        report.table(["what", "d", "chooser", "its candidates", "ratio"], events),
    )


if __name__ == "__main__":
    main()
