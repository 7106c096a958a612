"""Probabilities and costs: both links next to LogisticRegression and two calibrated classifiers."""

import argparse
import warnings

import numpy as np
from paper.datasets import load
from river.datasets import ImageSegments
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks import report
from counterpoise import BalancedRidgeClassifier

TWO = (
    "wpbc", "sonar", "ionosphere", "votes", "musk-clean-1", "wdbc", "credit-app", "pima-diabetes",
    "statlog-german", "ozone-eight", "spambase",
)  # fmt: skip
MOST_ROWS = 4000
COSTS = (5.0, 20.0, 100.0)


def rare(X, y, share, rows, seed=0):
    """So many rows, of which this share is of the rarer class."""
    rng = np.random.default_rng(seed)
    few = rng.permutation(np.flatnonzero(y == 1))[: max(int(share * rows), 4)]
    many = rng.permutation(np.flatnonzero(y != 1))[: rows - len(few)]
    kept = rng.permutation(np.concatenate([few, many]))
    return X[kept], (y[kept] == 1).astype(int)


def made_up(share, rows=20_000, bent=False, seed=0):
    """Two normal classes in ten features; bent: the boundary is no plane."""
    rng = np.random.default_rng(seed)
    y = (rng.random(rows) < share).astype(int)
    X = rng.standard_normal((rows, 10))
    X[y == 1] += np.linspace(0.0, 1.2, 10)
    if bent:
        X[:, 0] += 0.5 * X[:, 1] ** 2
        X[y == 1, 2] *= 2.0
    return X, y


def segments():
    """river's ImageSegments."""
    rows = [(list(x.values()), y) for x, y in ImageSegments()]
    return np.array([x for x, _ in rows], dtype=float), np.array([y for _, y in rows])


def sets():
    """Name, rows, labels."""
    for name in TWO:
        X, y = load(name)
        kept = np.sort(np.random.default_rng(0).permutation(len(y))[:MOST_ROWS])
        yield name, X[kept], (y[kept] == 1).astype(int)
    yield "ijcnn1, 1 %", *rare(*load("ijcnn1"), 0.01, 10_000)
    yield "skin, 0.4 %", *rare(*load("skin-nonskin"), 0.004, 10_000)
    yield "cod-rna, 0.1 %", *rare(*load("cod-rna"), 0.001, 20_000)
    yield "made up, 0.4 %", *made_up(0.004)
    yield "made up, bent, 1 %", *made_up(0.01, bent=True)
    for name, found in (
        ("iris (3)", load_iris),
        ("wine (3)", load_wine),
        ("digits (10)", load_digits),
    ):
        yield name, *found(return_X_y=True)
    yield "segments (7)", *segments()


RUNNERS = {
    "exact link": lambda: BalancedRidgeClassifier(),
    "progressive": lambda: BalancedRidgeClassifier(calibrate=True),
    "LogisticRegression": lambda: make_pipeline(
        StandardScaler(), LogisticRegression(max_iter=2000)
    ),
    "calibrated LDA": lambda: make_pipeline(
        StandardScaler(), CalibratedClassifierCV(LinearDiscriminantAnalysis(), cv=3)
    ),
    "calibrated ridge": lambda: make_pipeline(
        StandardScaler(), CalibratedClassifierCV(RidgeClassifier(class_weight="balanced"), cv=3)
    ),
}
OTHERS = ("LogisticRegression", "calibrated LDA", "calibrated ridge")


def risks(runner, model, X):
    """Probabilities under the frequencies of training."""
    return (
        model.predict_stream_proba(X)
        if runner in ("exact link", "progressive")
        else model.predict_proba(X)
    )


def judged(y, p, classes):
    """Log loss, Brier score, calibration error, and costs per 1,000 rows at three prices."""
    hit = (y[:, None] == classes).astype(float)
    p_true = np.clip((p * hit).sum(axis=1), 1e-15, 1.0)
    confidence, best = p.max(axis=1), p.argmax(axis=1)
    bins = np.minimum((confidence * 15).astype(int), 14)
    right = classes[best] == y
    ece = sum(
        abs(right[bins == k].mean() - confidence[bins == k].mean()) * np.mean(bins == k)
        for k in np.unique(bins)
    )
    found = [-np.log(p_true).mean(), ((p - hit) ** 2).sum(axis=1).mean(), ece]
    if len(classes) == 2:
        for cost in COSTS:
            alert = p[:, 1] * cost > p[:, 0]
            found.append(1000 * np.mean(np.where(y == 1, cost * ~alert, alert)))
    return np.array(found + [np.nan] * (6 - len(found)))


def results(X, y, runs):
    """Mean figures of every runner, and of the frequencies alone."""
    found = {}
    for run in range(runs):
        for train, test in StratifiedKFold(2, shuffle=True, random_state=run).split(X, y):
            train = np.random.default_rng(run).permutation(train)
            classes, n = np.unique(y[train], return_counts=True)
            base = np.tile(n / n.sum(), (len(test), 1))
            found.setdefault("constant", []).append(judged(y[test], base, classes))
            for runner, make in RUNNERS.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = make()
                    if runner == "progressive":
                        for at in range(0, len(train), 256):
                            part = train[at : at + 256]
                            model.partial_fit(X[part], y[part])
                    else:
                        model.fit(X[train], y[train])
                    p = risks(runner, model, X[test])
                found.setdefault(runner, []).append(judged(y[test], p, classes))
    return {runner: np.mean(rows, axis=0) for runner, rows in found.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    every = {}
    for name, X, y in sets():
        every[name] = results(X, y, runs)
        print(name, {r: round(float(v[0]), 4) for r, v in every[name].items()}, flush=True)
    runners = ["constant", *RUNNERS]
    parts = []
    for at, title in enumerate(["Log loss", "Brier score", "Calibration error"]):
        rows = [[name, *(f"{every[name][r][at]:.4f}" for r in runners)] for name in every]
        parts += [f"## {title}", report.table(["set", *runners], rows)]
    two = [name for name in every if not np.isnan(every[name]["constant"][3])]
    for names, title in (
        (two, f"the {len(two)} sets of two classes"),
        ([name for name in every if name not in two], "the sets of several classes"),
    ):
        loss = {r: np.array([every[n][r][0] for n in names]) for r in runners}
        rows = [
            [r, *(f"{(loss[r] / loss[other]).mean():.3f}" for other in OTHERS),
             f"{(loss[r] / loss['constant']).max():.3f}"]
            for r in RUNNERS
        ]  # fmt: skip
        head = ["mean ratio", *(f"over {other}" for other in OTHERS), "worst over a constant"]
        parts += [f"## Log loss relative to others, {title}", report.table(head, rows)]
    for at, cost in enumerate(COSTS):
        rows = [
            [n, *(f"{every[n][r][3 + at]:.1f}" for r in runners)]
            for n in every
            if not np.isnan(every[n]["constant"][3])
        ]
        means = np.mean([[float(cell) for cell in row[1:]] for row in rows], axis=0)
        mean = ["**mean**", *(f"**{value:.1f}**" for value in means)]
        title = f"## Cost of a thousand rows where a miss costs {cost:g} false alarms"
        parts += [title, report.table(["set", *runners], [*rows, mean])]
    report.write(
        "probability",
        "Stream probabilities, and what they save",
        f"{len(every)} sets of 2 to 10 classes, {runs} runs of two stratified halves, at most "
        f"{MOST_ROWS} rows of a public set; lower is better everywhere. The exact link comes from "
        "the moments alone; progressive calibration from rows scored before they were learned, in "
        "chunks of 256. Batch models have all rows in memory. *Calibrated LDA* and *calibrated "
        "ridge* are `CalibratedClassifierCV` (sigmoid, 3 folds) of `LinearDiscriminantAnalysis` "
        "and of a balanced `RidgeClassifier`. With several classes it calibrates one class "
        "against all others, which is a weak model. All other options are defaults. "
        + report.machine("scikit-learn"),
        *parts,
    )
