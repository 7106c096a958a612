"""Several classes: recall of every class, next to batch learners that are balanced too.

Every set of several classes that comes with scikit-learn and river, long-tailed cuts of them, and
synthetic sets of 3 to 50 classes with imbalance up to 1 to 1,000: 10 runs of 2 folds, stratified.
Nothing is set for a single set.

``--only LEARNER`` and ``--sets NAME`` (repeatable) run some columns and rows again. ``--missing``
runs only what the tracked results do not have. All other results are kept. Results are written
after every set, so that an interrupted run resumes with ``--missing``.
"""

import argparse
import csv
import itertools
import os
import sys
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one process a core, one thread a process

import numpy as np
from joblib import Parallel, delayed
from paper.protocol import RUNS, halves
from paper.rank_tests import wilcoxon_p
from river.datasets import ImageSegments, synth
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks import report
from counterpoise import AutoClassifier, BalancedRidgeClassifier


def tail(c, first, last):
    """Rows of c classes: a power of their rank, from first down to last."""
    fall = np.log(first / last) / np.log(c)
    return np.rint(first * np.arange(1, c + 1) ** -fall).astype(int)


def bundled(load):
    return lambda run: load(return_X_y=True)


def river_rows(stream):
    rows = list(stream)
    X = np.array([list(x.values()) for x, _ in rows], dtype=float)
    return X, np.unique([y for _, y in rows], return_inverse=True)[1]


def segments(run):
    return river_rows(ImageSegments())


def cut(make, first, last):
    """Classes in an order drawn anew for each run, and of each only as many rows as it may have."""

    def sample(run):
        X, y = make(run)
        rng = np.random.default_rng(run)
        labels = rng.permutation(np.unique(y))
        sizes = np.geomspace(first, last, len(labels)).round().astype(int)
        kept = [
            rng.permutation(np.flatnonzero(y == label))[:size]
            for label, size in zip(labels, sizes, strict=True)
        ]
        kept = np.concatenate(kept)
        return X[kept], y[kept]

    return sample


def generated(make, rows):
    return lambda run: river_rows(make(seed=run).take(rows))


def waves(seed):
    return synth.Waveform(seed=seed)


def lamps(seed):
    return synth.LED(seed=seed, noise_percentage=0.05, irrelevant_features=True)


def made(sizes, d, means, noise=None):
    """A stream drawn anew for each run: means plus noise of every class, mixed by one matrix."""

    def sample(run):
        rng = np.random.default_rng([run, len(sizes), d])
        centres = means(rng, len(sizes), d)
        rows = []
        for centre, size in zip(centres, sizes, strict=True):
            around = (noise or normal)(rng, d)
            rows.append(around(size) + centre)
        mixed = np.concatenate(rows) @ rng.standard_normal((d, d))
        return mixed, np.repeat(np.arange(len(sizes)), sizes)

    return sample


def apart(spread):
    """Means drawn around the origin."""
    return lambda rng, c, d: spread * rng.standard_normal((c, d))


def line(step):
    """Means along one direction, in an order that says nothing about their sizes."""

    def means(rng, c, d):
        direction = rng.standard_normal(d)
        places = step * rng.permutation(c)
        return places[:, None] * direction / np.linalg.norm(direction)

    return means


def normal(rng, d):
    return lambda size: rng.standard_normal((size, d))


def own_covariance(rng, d):
    """Normal, with axes and lengths of its own: standard deviations of 0.4 to 2.5, mostly."""
    turned = np.linalg.qr(rng.standard_normal((d, d)))[0] * np.exp(0.5 * rng.standard_normal(d))
    return lambda size: rng.standard_normal((size, d)) @ turned.T


def heavy(rng, d):
    """Student's t with 3 degrees of freedom."""
    return lambda size: rng.standard_t(3, (size, d))


def skewed(rng, d):
    """Log-normal noise around its mean."""
    return lambda size: np.exp(rng.standard_normal((size, d))) - np.exp(0.5)


def blobs(rng, d):
    """Two heaps, both far from the mean of the class."""
    side = 1.5 * rng.standard_normal(d)
    return lambda size: (
        rng.standard_normal((size, d)) + rng.choice([-1.0, 1.0], size)[:, None] * side
    )


GROUPS = {
    "bundled": {
        "iris": bundled(load_iris),
        "wine": bundled(load_wine),
        "digits": bundled(load_digits),
        "segments": segments,
    },
    "long tails of bundled sets": {
        "iris, 50 to 8": cut(bundled(load_iris), 50, 8),
        "wine, 48 to 8": cut(bundled(load_wine), 48, 8),
        "digits, 174 to 20": cut(bundled(load_digits), 174, 20),
        "digits, 174 to 10": cut(bundled(load_digits), 174, 10),
        "digits, 174 to 5": cut(bundled(load_digits), 174, 5),
        "segments, 330 to 8": cut(segments, 330, 8),
    },
    "long tails of river's generators": {
        "waveform, 1,000 to 10": cut(generated(waves, 6_000), 1_000, 10),
        "LED, 1,000 to 10": cut(generated(lamps, 15_000), 1_000, 10),
    },
    "synthetic": {
        "normal, 3, 1:1,000": made(tail(3, 10_000, 10), 5, apart(1.5)),
        "normal, 4, 9000/900/90/10": made([9_000, 900, 90, 10], 6, apart(1.5)),
        "normal, 10, 1:100": made(tail(10, 2_000, 20), 10, apart(1.2)),
        "normal, 10, 1:1,000": made(tail(10, 8_000, 8), 10, apart(1.2)),
        "normal, 26, 1:100": made(tail(26, 2_000, 20), 16, apart(1.0)),
        "normal, 26, 1:1,000": made(tail(26, 8_000, 8), 16, apart(1.0)),
        "normal, 50, 1:1,000": made(tail(50, 8_000, 8), 20, apart(1.0)),
        "line, 3, 1:100": made(tail(3, 2_000, 20), 5, line(4.0)),
        "line, 5, 1:100": made(tail(5, 2_000, 20), 5, line(4.0)),
        "own shape, 3, 1:1,000": made(tail(3, 10_000, 10), 5, apart(1.0), own_covariance),
        "own shape, 4, 1:100": made(tail(4, 4_000, 40), 8, apart(0.7), own_covariance),
        "own shape, 10, 1:30": made(tail(10, 1_500, 50), 10, apart(0.8), own_covariance),
        "own shape, 26, 1:100": made(tail(26, 2_000, 20), 16, apart(0.8), own_covariance),
        "own shape, 50, 1:100": made(tail(50, 2_000, 20), 20, apart(0.8), own_covariance),
        "heavy tails, 4, 1:1,000": made(tail(4, 10_000, 10), 6, apart(2.0), heavy),
        "heavy tails, 10, 1:100": made(tail(10, 2_000, 20), 10, apart(1.5), heavy),
        "skewed, 4, 1:100": made(tail(4, 2_000, 20), 6, apart(1.5), skewed),
        "skewed, 10, 1:100": made(tail(10, 2_000, 20), 10, apart(1.5), skewed),
        "two heaps, 4, 1:100": made(tail(4, 4_000, 40), 8, apart(1.5), blobs),
        "two heaps, 10, 1:100": made(tail(10, 4_000, 40), 10, apart(1.5), blobs),
    },
}
REAL = {**GROUPS["bundled"], **GROUPS["long tails of bundled sets"]}
SETS = {name: make for group in GROUPS.values() for name, make in group.items()}


def scaled(make):
    return lambda X, y: make_pipeline(StandardScaler(), make()).fit(X, y)


def ours(make):
    return lambda X, y: make().partial_fit(X, y)


def shared_rest(X, y):
    """One-vs-rest where a row of the rest weighs the same whatever its class, b = 1e-4."""
    one = RidgeClassifier(alpha=1e-4 * len(y) / 2.0, class_weight="balanced")
    return make_pipeline(StandardScaler(), OneVsRestClassifier(one)).fit(X, y)


def equal(y):
    c = len(np.unique(y))
    return np.full(c, 1.0 / c)


def shrunk_lda(X, y):
    model = LinearDiscriminantAnalysis("lsqr", shrinkage="auto", priors=equal(y))
    return make_pipeline(StandardScaler(), model).fit(X, y)


def qda(X, y):
    model = QuadraticDiscriminantAnalysis(solver="eigen", shrinkage=0.1, priors=equal(y))
    return make_pipeline(StandardScaler(), model).fit(X, y)


def boosting(X, y):
    return HistGradientBoostingClassifier(class_weight="balanced", random_state=0).fit(X, y)


LEARNERS = {
    "ours": ours(BalancedRidgeClassifier),
    "ovr": ours(lambda: BalancedRidgeClassifier(multi_class="ovr")),
    "pooled_rows=100": ours(lambda: BalancedRidgeClassifier(pooled_rows=100.0)),
    "pooled_rows=10": ours(lambda: BalancedRidgeClassifier(pooled_rows=10.0)),
    "chooser": ours(AutoClassifier),
    "shared rest": shared_rest,
    "Ridge": scaled(lambda: RidgeClassifier(class_weight="balanced")),
    "Logistic": scaled(lambda: LogisticRegression(class_weight="balanced", max_iter=1_000)),
    "LDA": scaled(LinearDiscriminantAnalysis),
    "LDA, shrunk": shrunk_lda,
    "QDA": qda,
    "SVC": scaled(lambda: SVC(class_weight="balanced")),
    "HistGB": boosting,
}
LINEAR = ["ovr", "shared rest", "Ridge", "Logistic", "LDA", "LDA, shrunk"]


def recalls(y, predicted):
    """Recall of each class."""
    return np.array([(predicted[y == label] == label).mean() for label in np.unique(y)])


def job(name, run, learners):
    """G-mean, mean and smallest recall on the half that was held out, and CPU seconds."""
    X, y = SETS[name](run)
    parts = halves(y, run, stratified=True)
    found = {}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rivals speak of collinear features and of iterations
        for half, learner in itertools.product((0, 1), learners):
            mine, other = parts[half], parts[1 - half]
            start = time.process_time()
            predicted = LEARNERS[learner](X[mine], y[mine]).predict(X[other])
            spent = time.process_time() - start
            recall = recalls(y[other], predicted)
            g = np.prod(recall) ** (1.0 / len(recall))
            found[name, run, half, learner] = g, recall.mean(), recall.min(), spent
    print(".", end="", file=sys.stderr, flush=True)
    return found


def kept():
    """Rows of the last results, by set, run, half and learner."""
    path = report.RESULTS / "several.csv"
    if not path.exists():
        return {}
    with open(path, newline="") as file:
        rows = list(csv.reader(file))[1:]
    return {
        (name, int(run), int(half), learner): tuple(map(float, values))
        for name, run, half, learner, *values in rows
    }


def write(found):
    """All that is known, in order, to several.csv."""
    order = [SETS, range(RUNS), (0, 1), LEARNERS]
    whole = report.RESULTS / "several.csv.new"
    with open(whole, "w", newline="") as file:
        writer = csv.writer(file)
        head = ["set", "run", "half", "learner", "G-mean", "mean recall", "least recall", "seconds"]
        writer.writerow(head)
        for cell in itertools.product(*order):
            if cell in found:
                *scores, spent = found[cell]
                writer.writerow([*cell, *[f"{s:.4f}" for s in scores], f"{spent:.3f}"])
    whole.replace(report.RESULTS / "several.csv")


def measured(learners, sets, missing):
    """Run some learners on some sets, and write all that is known after each."""
    found = kept()
    if not missing:
        found = {
            cell: value
            for cell, value in found.items()
            if cell[0] not in sets or cell[3] not in learners
        }
    for name in sets:
        todo = {
            run: [one for one in learners if {(name, run, half, one) for half in (0, 1)} - {*found}]
            for run in range(RUNS)
        }
        jobs = [delayed(job)(name, run, some) for run, some in todo.items() if some]
        for part in Parallel(-1)(jobs):
            found |= part
        if jobs:
            write(found)
            print(f" {name}", file=sys.stderr, flush=True)
    return found


def mean(values, learner, sets, what):
    """Mean over sets of the mean over folds, or None where a set is not whole."""
    cells = [values.get((learner, name), []) for name in sets]
    if any(len(cell) < 2 * RUNS for cell in cells):
        return None
    return float(np.mean([np.mean(cell, axis=0)[what] for cell in cells]))


def shown(number, digits):
    return "-" if number is None else f"{number:.{digits}f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=list(LEARNERS), metavar="LEARNER")
    parser.add_argument("--sets", action="append", choices=list(SETS), metavar="NAME")
    parser.add_argument(
        "--missing", action="store_true", help="only what the tracked results do not have"
    )
    options = parser.parse_args()
    learners, sets = options.only or list(LEARNERS), options.sets or list(SETS)
    values = {}
    for (name, _, _, learner), cell in measured(learners, sets, options.missing).items():
        values.setdefault((learner, name), []).append(cell)
    rows = []
    for name in SETS:
        X, y = SETS[name](0)
        sizes = np.unique_counts(y).counts
        found = [mean(values, learner, [name], 0) for learner in LEARNERS]
        top = max((g for g in found if g is not None), default=None)
        cells = [f"**{g:.3f}**" if g is not None and g == top else shown(g, 3) for g in found]
        rows.append([name, len(sizes), X.shape[1], f"{len(y):,}", sizes.min(), *cells])
    means = [
        [
            f"G-mean, {title} ({len(some)})",
            *[shown(mean(values, learner, some, 0), 4) for learner in LEARNERS],
        ]
        for title, some in {**GROUPS, "all": SETS}.items()
    ]
    for what, title in enumerate(["mean recall, all", "least recall, all"], 1):
        cells = [shown(mean(values, learner, SETS, what), 4) for learner in LEARNERS]
        means.append([title, *cells])
    means.append(["seconds per fold", *[shown(mean(values, one, SETS, 3), 2) for one in LEARNERS]])
    compared = []
    for other in LEARNERS:
        if other == "ours":
            continue
        cells = []
        for some in (REAL, SETS):
            pairs = [(mean(values, "ours", [n], 0), mean(values, other, [n], 0)) for n in some]
            one, two = np.array([pair for pair in pairs if None not in pair]).T
            cells += [(one > two).sum(), (one < two).sum(), f"{wilcoxon_p(one, two):.2g}"]
        compared.append([other, "linear" if other in LINEAR else "", *cells])
    report.write(
        "several",
        "Several classes: G-mean on the held-out half",
        f"{len(SETS)} sets, {RUNS} runs of 2 folds, stratified, seeds 0 to {RUNS - 1}; G-mean is "
        "the geometric mean of the recalls of all classes. "
        f"**{len(GROUPS['synthetic'])} of the {len(SETS)} sets are synthetic**, most of them with "
        "normal classes, for which a discriminant is the right model; two more come from river's "
        f"generators. {len(REAL)} are real: four that scikit-learn and river bundle, and cuts of "
        "them. *Long tails*: fewer rows for each class than for the one before it, by a constant "
        "factor; the order of the classes is drawn for each run. *Synthetic*: classes of sizes "
        "that fall with a power of their rank, drawn for each run. "
        "`ours` is `BalancedRidgeClassifier()`, `ovr` its one-vs-rest, `pooled_rows` its quadratic "
        "form, `chooser` is `AutoClassifier()`; each learns the training half in one pass. "
        "*Shared rest* is one-vs-rest where every row of all other classes weighs the same; in "
        "`ovr` every class does. The seven others come after `StandardScaler` and are **not "
        "tuned**: they are balanced by `class_weight` or by equal priors (*LDA* is not), and have "
        "their defaults otherwise. QDA has `shrinkage=0.1`, because without it it refuses classes "
        "with fewer rows than features; HistGradientBoosting keeps 20 rows in a leaf, which the "
        "smallest cuts do not have. The best of a row is bold; - was not run. Columns "
        "may come from different runs. " + report.machine("scikit-learn", "river", "numpy"),
        report.table(["mean of (sets)", *LEARNERS], means),
        f"Sets on which `ours` is better, and worse, and Wilcoxon's p, not corrected: of the "
        f"{len(REAL)} real sets, and of all {len(SETS)}:",
        report.table(
            [
                "against",
                "kind",
                *(f"{what}, {of}" for of in ("real", "all") for what in ("better", "worse", "p")),
            ],
            compared,
        ),
        report.table(["set", "classes", "d", "rows", "rarest", *LEARNERS], rows),
    )


if __name__ == "__main__":
    main()
