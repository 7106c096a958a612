"""The averaging classifier in one pass, next to batch learners that are tuned in many.

The 25 sets of the paper under 20,000 rows, without the three 20 Newsgroups: 10 runs of 2 folds, as
in the paper's protocol. The candidates, ridges and averaging weights of the averaging classifier
were decided on halves of these sets with other seeds. So this is not a comparison on unseen sets:
``keel.py`` is nearly one. Nothing is set for a single set.

``--only LEARNER`` (repeatable) and ``--sets COUNT`` run some columns again, on the first sets.
``--missing`` runs only what the tracked results do not have. All other results are kept. Results
are written after every set, so that an interrupted run resumes with ``--missing``.
"""

import argparse
import csv
import itertools
import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one process a core, one thread a process

import numpy as np
from imblearn.ensemble import BalancedRandomForestClassifier
from joblib import Parallel, delayed
from paper import datasets
from paper.protocol import RUNS, fold
from paper.rank_tests import wilcoxon_holm
from river import forest, imblearn, tree
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks import report
from counterpoise import AutoClassifier, BalancedRidgeClassifier

SETS = [
    name
    for name, one in datasets.SETS.items()
    if one.positives + one.negatives < 20_000 and not name.startswith("20news")
]
GRID = {"svc__C": [0.1, 1.0, 10.0, 100.0], "svc__gamma": [0.1, 0.3, 1.0, 3.0]}


def scored(y, predicted):
    """Return the geometric mean of the recalls of the classes."""
    recalls = [np.mean(predicted[y == label] == label) for label in np.unique(y)]
    return float(np.prod(recalls) ** (1.0 / len(recalls)))


def ours(make):
    return lambda X, y, X_test: make().partial_fit(X, y).predict(X_test)


def svc(X, y, X_test):
    """RBF SVC, balanced, C and gamma by 5-fold cross-validation; gamma in units of "scale"."""
    folds = max(2, min(5, int(np.unique(y, return_counts=True)[1].min())))
    grid = {**GRID, "svc__gamma": [g / X.shape[1] for g in GRID["svc__gamma"]]}
    search = GridSearchCV(
        make_pipeline(StandardScaler(), SVC(class_weight="balanced")),
        grid,
        scoring=make_scorer(scored),
        cv=StratifiedKFold(folds, shuffle=True, random_state=0),
    )
    return search.fit(X, y).predict(X_test)


def cut(make):
    """Predict the class whose probability is largest relative to its frequency in training.

    With two classes this cuts the probability at the frequency of the positive class.
    """

    def run(X, y, X_test):
        model = make().fit(X, y)
        frequency = np.unique(y, return_counts=True)[1] / len(y)
        return model.classes_[np.argmax(model.predict_proba(X_test) / frequency, axis=1)]

    return run


def logistic():
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))


def balanced_forest(X, y, X_test):
    model = BalancedRandomForestClassifier(300, random_state=0)
    return model.fit(X, y).predict(X_test)


def oversampled(make):
    """Learn as many positives as negatives, by river's own sampling of the stream."""

    def run(X, y, X_test):
        even = {1.0: 0.5, -1.0: 0.5}
        model = imblearn.RandomOverSampler(make(), desired_dist=even, seed=0)
        for x, label in zip(dicts(X), y.tolist(), strict=True):
            model.learn_one(x, label)
        return np.array([model.predict_one(x) or -1.0 for x in dicts(X_test)])

    return run


def dicts(X):
    return [dict(enumerate(row)) for row in X.tolist()]


LEARNERS = {
    "chooser": ours(AutoClassifier),
    "linear": ours(BalancedRidgeClassifier),
    "rff:400, gcv": ours(lambda: BalancedRidgeClassifier(feature_map="rff:400", ridge="gcv")),
    "SVC, grid": svc,
    "Logistic, cut": cut(logistic),
    "HistGB, cut": cut(lambda: HistGradientBoostingClassifier(random_state=0)),
    "RF, cut": cut(lambda: RandomForestClassifier(300, random_state=0)),
    "balanced RF": balanced_forest,
    "HT, over": oversampled(tree.HoeffdingTreeClassifier),
    "ARF, over": oversampled(lambda: forest.ARFClassifier(seed=0)),
}


def job(name, run, learners):
    """G-mean on the half that was held out, and CPU seconds of learning and predicting."""
    X, y = datasets.load(name)
    found = {}
    with threadpool_limits(1):
        for half in (0, 1):
            one = fold(X, y, run, half)
            for learner in learners:
                start = time.process_time()
                predicted = LEARNERS[learner](one.X, one.y, one.X_test)
                spent = time.process_time() - start
                found[name, run, half, learner] = scored(one.y_test, predicted), spent
    print(".", end="", file=sys.stderr, flush=True)
    return found


def kept():
    """Rows of the last results, by set, run, half and learner."""
    with open(report.RESULTS / "nonlinear.csv", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return {
        (name, int(run), int(half), learner): (float(g), float(spent))
        for name, run, half, learner, g, spent in rows
    }


def write(found):
    """All that is known, in order, to nonlinear.csv."""
    order = [SETS, range(RUNS), (0, 1), list(LEARNERS)]
    whole = report.RESULTS / "nonlinear.csv.new"
    with open(whole, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["set", "run", "half", "learner", "held-out G-mean", "seconds"])
        for cell in itertools.product(*order):
            if cell in found:
                writer.writerow([*cell, f"{found[cell][0]:.6f}", f"{found[cell][1]:.3f}"])
    whole.replace(report.RESULTS / "nonlinear.csv")


def measured(learners, sets, missing):
    """Run some learners on some sets, and write all that is known after each."""
    found = {} if set(learners) == set(LEARNERS) and not missing else kept()
    if not missing:
        found = {cell: value for cell, value in found.items() if cell[3] not in learners}
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


def averages(G, sets):
    return [f"{np.mean([g[n] for n in sets]):.4f}" if set(sets) <= set(g) else "-" for g in G]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=list(LEARNERS), metavar="LEARNER")
    parser.add_argument("--sets", type=int, default=len(SETS), metavar="COUNT")
    parser.add_argument(
        "--missing", action="store_true", help="only what the tracked results do not have"
    )
    options = parser.parse_args()
    found = measured(options.only or list(LEARNERS), SETS[: options.sets], options.missing)
    values = {}
    for (name, _, _, learner), (g, _) in found.items():
        values.setdefault((learner, name), []).append(g)
    G = {
        learner: {n: np.mean(values[learner, n]) for n in SETS if (learner, n) in values}
        for learner in LEARNERS
    }
    everywhere = [n for n in SETS if all(n in g for g in G.values())]
    rows = []
    for name in SETS:
        top = max(g[name] for g in G.values() if name in g)
        cells = [g.get(name) for g in G.values()]
        cells = ["-" if m is None else f"**{m:.3f}**" if m == top else f"{m:.3f}" for m in cells]
        rows.append([name, f"{datasets.SETS[name].dimension}", *cells])
    rows.append([f"average of {len(SETS)}", "", *averages(G.values(), SETS)])
    if everywhere and everywhere != SETS:
        first = f"average of the first {len(everywhere)}"
        rows.append([first, "", *averages(G.values(), everywhere)])
    spent = {
        learner: [spent for (*_, one), (_, spent) in found.items() if one == learner]
        if len(G[learner]) == len(SETS)
        else []
        for learner in LEARNERS
    }
    rows.append(
        ["seconds per fold", "", *[f"{np.mean(s):.2f}" if s else "-" for s in spent.values()]]
    )
    whole = [learner for learner, g in G.items() if len(g) == len(SETS)]
    p = wilcoxon_holm(
        np.array([[G[learner][n] for learner in whole] for n in SETS]), whole, "chooser"
    )
    compared = []
    for learner, g in G.items():
        if learner != "chooser" and g:
            margins = np.array([G["chooser"][name] - g[name] for name in g])
            compared.append(
                [learner, f"{margins.mean():+.4f}", int((margins > 0).sum()),
                 int((margins < 0).sum()), f"{p[learner]:.2g}" if learner in p else "-"]
            )  # fmt: skip
    report.write(
        "nonlinear",
        "Beyond linear: G-mean on the half that was held out",
        f"{len(SETS)} sets, {RUNS} runs of 2 folds (seeds 0 to {RUNS - 1}, not stratified), "
        "features scaled to [0, 1] by the training half. The candidates, ridges and averaging "
        "weights of the chooser were decided on halves of these sets with other seeds; "
        "[keel.md](keel.md) has other sets. The chooser, the linear model, the random Fourier "
        "features and river's trees (HT, ARF) learn the training half in one pass, with the same "
        "settings for every set. *Cut*: the learner has no class weights, and a row is positive "
        "where its probability is above the frequency of positives in the training half. *Over*: "
        "river's `RandomOverSampler` shows a tree as many positives as negatives. SVC (RBF, "
        f"balanced) chooses C from {GRID['svc__C']} and gamma from {GRID['svc__gamma']} over the "
        "number of features by 5-fold cross-validation for G-mean, 81 fits per fold. The forests "
        "have 300 trees; each tree of the balanced one (imbalanced-learn) has as many rows of both "
        "classes. All other options are defaults. The best of a row is bold; - was not run. "
        "Columns may come from different runs; seconds are processor time. "
        + report.machine("scikit-learn", "imbalanced-learn", "river", "numpy"),
        report.table(["set", "l", *LEARNERS], rows),
        "The chooser less each learner: mean difference, sets on which the chooser is better and "
        "worse, and Wilcoxon's p over the sets with Holm's correction:",
        report.table(["against", "difference", "better", "worse", "p"], compared),
    )


if __name__ == "__main__":
    main()
