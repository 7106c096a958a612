"""Cost of the averaging classifier: fits, single rows, long streams, and sorted or few rows.

Soybean and dna come with no library that we use; synthetic rows of the same shape replace them.
"""

import os
import time
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from benchmarks import report
from benchmarks.data_sets import shuffled_stream
from benchmarks.learners import g_mean
from counterpoise import AutoClassifier, BalancedRidgeClassifier
from counterpoise.engine.parameters import LINEAR
from counterpoise.modelfile import container as modelfile

SHAPES = {  # rows, columns of text, values of each, classes
    "soybean": (683, 35, 4, 19),
    "dna": (3186, 60, 3, 3),
}
LEARNED_ROWS, SINGLE_ROWS, MAX_RATIO = 2000, 1000, 3.0


def one_hot(n, columns, values, c):
    """Return one-hot columns whose frequencies depend on the class, and labels."""
    rng = np.random.default_rng(0)
    share = 1.0 / np.arange(1, c + 1) ** 0.7
    y = rng.choice(c, n, p=share / share.sum())
    chance = rng.dirichlet(np.ones(values), (c, columns)).cumsum(axis=2)
    X = (rng.random((n, columns, 1)) > chance[y]).sum(axis=2)
    return (X[:, :, None] == np.arange(values)).reshape(n, -1).astype(float), y


def fits():
    """Yield the seconds of a fit and of the first prediction, which solves."""
    for name, shape in SHAPES.items():
        X, y = one_hot(*shape)
        start = time.process_time()
        model = AutoClassifier().fit(X, y)
        fitted = time.process_time()
        model.predict(X[:1])
        seconds = [f"{fitted - start:.2f}", f"{time.process_time() - fitted:.2f}"]
        yield [f"{name}'s shape", len(y), X.shape[1], shape[-1], *seconds]


def microseconds(models, X, y, predict):
    """Return the CPU time per row in which all models learn, and first predict if ``predict``."""
    start = time.process_time()
    for x, label in zip(X, y, strict=True):
        for model in models:
            if predict:
                model.predict_one(x)
            model.learn_one(x, label)
    return 1e6 * (time.process_time() - start) / len(y)


def single_rows():
    """Yield microseconds of single rows, next to separate models of all candidates."""
    for d in (8, 22):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((LEARNED_ROWS + 4 * SINGLE_ROWS, d))
        y = (X[:, 0] * X[:, 1] > 0.8).astype(int)
        first = X[:LEARNED_ROWS], y[:LEARNED_ROWS]
        averaging = AutoClassifier().fit(*first)
        averaging.predict(X[:1])
        alone = [
            BalancedRidgeClassifier(feature_map=None if one == LINEAR else one, ridge=1.0)
            for one in averaging.maps_
            if one == LINEAR or not isinstance(one, str)
        ]
        for one in alone:
            one.fit(*first)
        at = LEARNED_ROWS
        for what, predict in (("learn", False), ("predict, then learn", True)):
            took = []
            for models in ([averaging], alone):
                rows = slice(at, at + SINGLE_ROWS)
                took.append(microseconds(models, X[rows], y[rows], predict))
                at += SINGLE_ROWS
            yield [what, d, *(f"{t:.0f}" for t in took), f"{took[0] / took[1]:.2f}"]


def write_cost(options):
    """Write the cost of fits and of single rows."""
    report.write(
        "chooser",
        "Cost of the averaging classifier",
        "`AutoClassifier()`, CPU time, one thread, one run.",
        "Seconds to fit rows and to predict the first row. The sets are synthetic, in the shape of "
        "the sets that they are named after (text as one-hot columns):",
        report.table(
            ["rows like", "rows", "d", "classes", "fit", "first prediction"], list(fits())
        ),
        f"Microseconds per single row, after {LEARNED_ROWS:,} rows: of the averaging classifier, "
        "and of separate models of its candidates, each with its map and exact coefficients at "
        f"every prediction. The limit is {MAX_RATIO:.0f} times as much:",
        report.table(["call", "d", "averaging", "its candidates", "ratio"], list(single_rows())),
    )


# Streams of single rows

STREAM_ROWS, WARMUP_ROWS, BUFFERED_ROWS = 20_000, 1200, 1300


def synthetic_stream(n, d, c):
    """Return rows whose class depends on the product of two features, and labels."""
    X = np.random.default_rng(0).standard_normal((n, d))
    product = X[:, 0] * X[:, 1]
    if c == 2:
        return X, (product > 0.8).astype(int)
    return X, np.digitize(product + 0.3 * X[:, 2], [-1.0, -0.3, 0.3, 1.0])


def test_then_train(n):
    """Yield rows per second of predict_one and learn_one, of all rows and after the warm-up."""
    for d in (10, 30):
        for c in (2, 5):
            X, y = synthetic_stream(n, d, c)
            start = time.process_time()
            model = AutoClassifier().partial_fit(X[:1], y[:1])
            for at in range(1, n):
                if at == WARMUP_ROWS:
                    ready = time.process_time()
                model.predict_one(X[at])
                model.learn_one(X[at], y[at])
            end = time.process_time()
            after = (n - WARMUP_ROWS) / (end - ready)
            yield [d, c, f"{n / (end - start):,.0f}", f"{after:,.0f}"]


def single_partial_fits():
    """Return the seconds in which single rows from the first one on are learned."""
    X, y = synthetic_stream(BUFFERED_ROWS, 10, 2)
    start, model = time.process_time(), AutoClassifier()
    for at in range(BUFFERED_ROWS):
        model.partial_fit(X[at : at + 1], y[at : at + 1])
    learned = time.process_time()
    model.predict(X[:1])
    return learned - start, time.process_time() - start


def write_stream(options):
    """Write the rates of streams of single rows."""
    n = min(options.rows, STREAM_ROWS)
    learned, predicted = single_partial_fits()
    report.write(
        "auto_stream",
        "The averaging classifier on single rows",
        f"`AutoClassifier()`, `predict_one` and then `learn_one` on {n:,} synthetic rows: rows per "
        "second of CPU time, one thread, one run. The first 1,200 rows fix the maps.",
        report.table(["d", "classes", "all rows", "after the warm-up"], list(test_then_train(n))),
        f"{BUFFERED_ROWS:,} single rows by `partial_fit` take {learned:.2f} s, and {predicted:.2f} "
        "s with a prediction after them.",
    )


# Growth with the stream

SETS, CHUNK, PARTS = ("cod-rna", "ijcnn1", "skin-nonskin"), 4096, 10


def growth(X, y):
    """Yield time and memory of the averaging classifier in each tenth of a stream."""
    model, step = AutoClassifier(), len(y) // PARTS
    for part in range(PARTS):
        start = time.process_time()
        for at in range(part * step, (part + 1) * step, CHUNK):
            stop = min(at + CHUNK, (part + 1) * step)
            model.partial_fit(X[at:stop], y[at:stop])
        spent = time.process_time() - start
        size = len(modelfile.to_bytes(model._contents())) / 1e6
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        resident = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
        rows = f"{(part + 1) * step:,}"
        yield [rows, f"{1e6 * spent / step:.0f}", f"{size:.2f}", f"{resident:.0f}"]


def write_growth(options):
    """Write time and memory as streams grow."""
    parts = []
    for name in SETS:
        X, y = shuffled_stream(name)
        X, y = X[: options.rows], y[: options.rows]
        head = ["rows", "µs per row", "MB of state", "MB of process"]
        parts += [f"{name}, {len(y):,} rows:", report.table(head, list(growth(X, y)))]
    report.write(
        "auto_growth",
        "The averaging classifier as a stream grows",
        f"Learned {CHUNK:,} rows at a time: time per row in each tenth, size of the model file, "
        "memory of the process. The first tenth has the warm-up.",
        *parts,
    )


# Sorted rows, and few rows

SORTED = ("mammographic", "spambase", "mushroom", "cod-rna", "ijcnn1", "skin-nonskin")
MAX_ROWS = 20_000  # to learn, and to evaluate, of a set
CLASS_ROWS, DRAWS = (3, 5, 10, 25), 10


def quality(model, X, y):
    """Return G-mean and area under the ROC curve, as text."""
    area = roc_auc_score(y, model.decision_function(X))
    return f"{g_mean(y, model.predict(X)):.3f}, {area:.3f}"


def learn_chunks(X, y):
    """Return a model that learned chunks of 1,000 rows, and whether it warned of its first rows."""
    model = AutoClassifier()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for at in range(0, len(y), 1000):
            model.partial_fit(X[at : at + 1000], y[at : at + 1000])
    return model, any("the first" in str(one.message) for one in caught)


def sorted_rows(max_rows):
    """Yield the quality after fits and streams of shuffled rows and of sorted rows."""
    for name in SORTED:
        X, y = shuffled_stream(name)
        half = min(len(y) // 2, max_rows)
        X, y, test = X[: 2 * half], y[: 2 * half], slice(half, 2 * half)
        means = [X[:half][y[:half] == label].mean(axis=0) for label in (-1, 1)]
        distance = np.abs(means[1] - means[0]) / np.maximum(X[:half].std(axis=0), 1e-12)
        order = np.argsort(X[:half, distance.argmax()], kind="stable")
        cells = [quality(BalancedRidgeClassifier().fit(X[:half], y[:half]), X[test], y[test])]
        for rows in (np.arange(half), order):
            fitted = AutoClassifier().fit(X[rows], y[rows])
            learned, warned = learn_chunks(X[rows], y[rows])
            cells += [quality(fitted, X[test], y[test]), quality(learned, X[test], y[test])]
            cells[-1] += ", warned" if warned else ""
        yield [name, f"{half:,}", *cells]


def few_rows():
    """Yield the mean G-mean of both models, learned from few rows of each class."""
    for name, load in {"iris": load_iris, "wine": load_wine, "digits": load_digits}.items():
        X, y = load(return_X_y=True)
        for count in CLASS_ROWS:
            found = []
            for run in range(DRAWS):
                rng = np.random.default_rng([run, count])
                rows = rng.permutation(len(y))
                some = [rows[y[rows] == label][:count] for label in np.unique(y)]
                rest = np.setdiff1d(rows, np.concatenate(some))
                some = rng.permutation(np.concatenate(some))
                found.append(
                    [
                        g_mean(y[rest], model.fit(X[some], y[some]).predict(X[rest]))
                        for model in (BalancedRidgeClassifier(), AutoClassifier())
                    ]
                )
            yield [name, count, *(f"{G:.3f}" for G in np.mean(found, axis=0))]


def write_sorted(options):
    """Write the quality on sorted rows and on few rows."""
    head = "set", "rows", "linear", "fit, shuffled", "stream, shuffled", "fit, sorted"
    max_rows = min(options.rows, MAX_ROWS)
    report.write(
        "choosing_fit",
        "The averaging classifier on sorted rows, and on few",
        "Held-out G-mean and area under the ROC curve of `BalancedRidgeClassifier()` and "
        f"`AutoClassifier()`. One half is learned, at most {max_rows:,} rows, and the other is "
        "evaluated. The rows are in a random order (seed 0), or sorted by the feature whose class "
        "means differ most. A fit gets all rows, a stream chunks of 1,000; *warned* streams "
        "reported that they had left their first rows.",
        report.table([*head, "stream, sorted"], list(sorted_rows(max_rows))),
        f"Few rows of each class: mean G-mean on all other rows over {DRAWS} draws.",
        report.table(["set", "rows of each class", "linear", "averaging"], list(few_rows())),
    )


if __name__ == "__main__":
    TABLES = {
        "cost": write_cost,
        "stream": write_stream,
        "growth": write_growth,
        "sorted": write_sorted,
    }
    options = report.parse(__doc__, TABLES, rows=1_000_000)
    with threadpool_limits(1):
        for part in options.parts:
            TABLES[part](options)
