"""A model that chooses by itself on long streams: test-then-train, and what it costs to go on.

With ``--only LEARNER`` (again and again) some learners are run anew, and the rest is taken from the
last results; with ``--missing`` only what these lack. What is known is written after every run.
With ``--fit`` it measures sorted files and few rows for each class instead, to choosing_fit.md.
"""

import argparse
import csv
import os
import sys
import time
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from paper import datasets
from river import forest, tree
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import make_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks import report
from benchmarks.proofs.nonlinear import GRID, dicts, scored
from counterpoise import AutoClassifier, BalancedRidgeClassifier
from counterpoise.engine.parameters import CANDIDATES
from counterpoise.modelfile import container as modelfile

SETS = ("cod-rna", "ijcnn1", "skin-nonskin")
FIRST = 256  # rows that batch learners wait for
TUNED, MOST = 2048, 16_384  # rows up to which SVC is tuned, and up to which it is fitted again
CHUNK = 4096


def stream(name):
    X, y = datasets.load(name)
    order = np.random.default_rng(0).permutation(len(y))
    return np.ascontiguousarray(X[order]), np.where(y[order] > 0, 1, -1)


# Each learner takes a stream and returns its guesses, -1 or 1, made before each label was seen.


def progressive(make):
    def run(X, y):
        return np.where(make().progressive_scores(X, y, classes=[-1, 1]) > 0, 1, -1)

    return run


def doubling(fit, most=10**9):
    """A batch learner that is fitted anew, on all rows so far, whenever these have doubled."""

    def run(X, y):
        guesses, at, model = np.full(len(y), -1), FIRST, None
        while at < len(y):
            model = fit(X[:at], y[:at]) if at <= most else model
            guesses[at : 2 * at] = model.predict(X[at : 2 * at])
            at *= 2
        return guesses

    return run


def boosting(X, y):
    return HistGradientBoostingClassifier(class_weight="balanced", random_state=0).fit(X, y)


class Tuned:
    """SVC whose C and gamma are sought while the stream is short, and kept then."""

    def __init__(self):
        self.found = {}

    def __call__(self, X, y):
        model = make_pipeline(StandardScaler(), SVC(class_weight="balanced"))
        if len(y) > TUNED:
            return model.set_params(**self.found).fit(X, y)
        grid = {**GRID, "svc__gamma": [g / X.shape[1] for g in GRID["svc__gamma"]]}
        search = GridSearchCV(model, grid, scoring=make_scorer(scored), cv=5).fit(X, y)
        self.found = search.best_params_
        return search


def events(make):
    def run(X, y):
        model, guesses = make(), []
        for x, label in zip(dicts(X), y.tolist(), strict=True):
            guesses.append(model.predict_one(x) or -1)
            model.learn_one(x, label)
        return np.array(guesses)

    return run


def smaller():
    """Half of the landmarks, and half of the kept rows."""
    rich = CANDIDATES[-1].replace(":600", ":300")
    return AutoClassifier(candidates=(*CANDIDATES[:-1], rich), kept_rows=64)


LEARNERS = {
    "chooser": progressive(AutoClassifier),
    "chooser, 300 landmarks, 64 kept rows": progressive(smaller),
    "linear": progressive(BalancedRidgeClassifier),
    "SVC, grid, at doublings": lambda X, y: doubling(Tuned(), MOST)(X, y),
    "HistGB, at doublings": doubling(boosting),
    "river HT": events(tree.HoeffdingTreeClassifier),
    "river ARF": events(lambda: forest.ARFClassifier(seed=0)),
}


def resident():
    """Megabytes of memory that the process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def growth(X, y, parts=10):
    """Time and memory of the averaging classifier in each tenth of a stream."""
    model, rows, step = AutoClassifier(), [], len(y) // parts
    for part in range(parts):
        begun = time.process_time()
        for at in range(part * step, (part + 1) * step, CHUNK):
            stop = min(at + CHUNK, (part + 1) * step)
            model.partial_fit(X[at:stop], y[at:stop])
        spent = time.process_time() - begun
        size = len(modelfile.to_bytes(model._contents())) / 1e6
        rows.append(
            [
                f"{(part + 1) * step:,}",
                f"{1e6 * spent / step:.0f}",
                f"{size:.2f}",
                f"{resident():.0f}",
            ]
        )
    return rows


SORTED = ("mammographic", "spambase", "mushroom", "cod-rna", "ijcnn1", "skin-nonskin")
LONGEST = 20_000  # rows to learn, and to evaluate, of a set
FEW = (3, 5, 10, 25)  # rows of each class
DRAWS = 10


def quality(model, X, y):
    """G-mean and area under the ROC curve, as text."""
    area = roc_auc_score(y, model.decision_function(X))
    return f"{scored(y, model.predict(X)):.3f}, {area:.3f}"


def streamed(X, y):
    """A model that has learned chunks of 1,000 rows, and whether it warned of its first rows."""
    model = AutoClassifier()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for at in range(0, len(y), 1000):
            model.partial_fit(X[at : at + 1000], y[at : at + 1000])
    return model, any("the first" in str(one.message) for one in caught)


def sorted_rows():
    """Quality after fits and streams of shuffled rows and of rows sorted by one feature."""
    for name in SORTED:
        X, y = stream(name)
        half = min(len(y) // 2, LONGEST)
        X, y, test = X[: 2 * half], y[: 2 * half], slice(half, 2 * half)
        means = [X[:half][y[:half] == label].mean(axis=0) for label in (-1, 1)]
        apart = np.abs(means[1] - means[0]) / np.maximum(X[:half].std(axis=0), 1e-12)
        order = np.argsort(X[:half, apart.argmax()], kind="stable")
        cells = [quality(BalancedRidgeClassifier().fit(X[:half], y[:half]), X[test], y[test])]
        for rows in (np.arange(half), order):
            fitted = AutoClassifier().fit(X[rows], y[rows])
            learned, warned = streamed(X[rows], y[rows])
            cells += [quality(fitted, X[test], y[test]), quality(learned, X[test], y[test])]
            cells[-1] += ", warned" if warned else ""
        yield [name, f"{half:,}", *cells]


def few_rows():
    """Mean G-mean of the linear model and of the average, learned from few rows of each class."""
    sets = {"iris": load_iris, "wine": load_wine, "digits": load_digits}
    for name, load in sets.items():
        X, y = load(return_X_y=True)
        for count in FEW:
            found = []
            for run in range(DRAWS):
                rng = np.random.default_rng([run, count])
                rows = rng.permutation(len(y))
                some = [rows[y[rows] == label][:count] for label in np.unique(y)]
                rest = np.setdiff1d(rows, np.concatenate(some))
                some = rng.permutation(np.concatenate(some))
                models = BalancedRidgeClassifier(), AutoClassifier()
                guesses = [one.fit(X[some], y[some]).predict(X[rest]) for one in models]
                recalls = [
                    [(one == y[rest])[y[rest] == k].mean() for k in set(y)] for one in guesses
                ]
                found.append(np.exp(np.mean(np.log(np.maximum(recalls, 1e-300)), axis=1)))
            yield [name, count, *(f"{G:.3f}" for G in np.mean(found, axis=0))]


def write_fits():
    with threadpool_limits(1):
        ordered = report.table(
            ["set", "rows", "linear", "fit, shuffled", "stream, shuffled", "fit, sorted",
             "stream, sorted"],
            list(sorted_rows()),
        )  # fmt: skip
        few = report.table(["set", "rows of each class", "linear", "averaging"], list(few_rows()))
    report.write(
        "choosing_fit",
        "The averaging classifier on sorted rows, and on few",
        "Held-out G-mean and area under the ROC curve of `BalancedRidgeClassifier()` and "
        "`AutoClassifier()`. One half is learned, at most "
        f"{LONGEST:,} rows, and the other is evaluated. The rows are in a random order (seed 0), "
        "or sorted by the feature whose class means differ most. A fit gets all rows, a stream "
        "chunks of 1,000; *warned* streams reported that they had left their first rows. "
        + report.machine("scikit-learn", "numpy"),
        ordered,
        f"Few rows of each class: mean G-mean on all other rows over {DRAWS} draws.",
        few,
    )


def known():
    """G-mean and rows a second of the last results, by set and learner."""
    path = report.RESULTS / "choosing.csv"
    if not path.exists():
        return {}
    with open(path, newline="") as file:
        rows = list(csv.reader(file))[1:]
    return {(name, learner): (float(G), float(rate)) for name, learner, G, rate in rows}


def write(found):
    with open(report.RESULTS / "choosing.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["set", "learner", "progressive G-mean", "rows a second"])
        for name in SETS:
            for learner in LEARNERS:
                if (name, learner) in found:
                    G, rate = found[name, learner]
                    writer.writerow([name, learner, f"{G:.6f}", f"{rate:.0f}"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=list(LEARNERS), metavar="LEARNER")
    parser.add_argument("--missing", action="store_true", help="only what the last results lack")
    parser.add_argument("--fit", action="store_true", help="sorted files and few rows, instead")
    options = parser.parse_args()
    if options.fit:
        write_fits()
        return
    found, costs = known(), []
    with threadpool_limits(1):
        for name in SETS:
            X, y = stream(name)
            costs.append(f"{name}, {len(y):,} rows:")
            columns = ["rows", "µs per row", "MB of state", "MB of process"]
            costs.append(report.table(columns, growth(X, y)))
            for learner in options.only or LEARNERS:
                if options.missing and (name, learner) in found:
                    continue
                begun = time.process_time()
                guesses = LEARNERS[learner](X, y)
                rate = len(y) / (time.process_time() - begun)
                found[name, learner] = scored(y, guesses), rate
                write(found)
                print(name, learner, found[name, learner], file=sys.stderr, flush=True)
    head = [f"{name} G-mean, rows/s" for name in SETS]
    quality = {
        learner: [
            "{:.4f}, {:,.0f}".format(*found[name, learner]) if (name, learner) in found else "-"
            for name in SETS
        ]
        for learner in LEARNERS
    }
    report.write(
        "choosing",
        "A model that chooses by itself, on long streams",
        "Test-then-train: progressive G-mean over all rows, and rows per second of processor time, "
        "predicting and learning, one thread, one run, rows in one random order (seed 0), "
        "raw units. Batch learners are fitted anew, on all rows so far, whenever "
        f"these have doubled, from {FIRST} rows on; SVC (RBF, balanced, 16 settings by 5-fold "
        f"cross-validation) is tuned up to {TUNED:,} rows and fitted up to {MOST:,}. river's trees "
        "know no class weights. - was not run. The load of the machine at the end was "
        f"{report.load()}. " + report.machine("scikit-learn", "river", "numpy"),
        report.table(["learner", *head], [[name, *cells] for name, cells in quality.items()]),
        f"What the chooser costs as a stream grows, learned {CHUNK:,} rows at a time: time for a "
        "row in each tenth, size of all that it holds (its model file), memory of the process. "
        "The first tenth has the warm-up.",
        *costs,
    )


if __name__ == "__main__":
    main()
