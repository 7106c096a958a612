"""Appendix B: several classes. What a row costs as they become more, and how often it is right."""

from __future__ import annotations

import time

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import balanced_accuracy_score
from sklearn.multiclass import OneVsRestClassifier

from counterpoise import BalancedRidgeClassifier, Moments, online
from counterpoise.arrays import Labels, Matrix
from counterpoise.evaluate import plots
from counterpoise.moments.classes import argmax_classes
from counterpoise.solver.class_weights import affine, targets
from counterpoise.solver.ridge import RidgeSystems

from . import tables
from .jobs import Settings, run
from .methods import EXACT
from .protocol import fold
from .table4 import exponent

CLASSES = (2, 4, 8, 16, 32)
D, ROWS = 20, 2_000
RIDGE = 1e-4  # the paper's b
COPIES = "one-vs-rest copies of NR-RLS"
COLUMNS = {
    COPIES: "NR-RLS",
    f"{EXACT}, weights at every row": EXACT,
    f"{EXACT}, weights at the end": "TER",
}

BUNDLED = {"iris": load_iris, "wine": load_wine, "digits": load_digits}  # scikit-learn's own
RIVALS = {
    "PE": online.Perceptron, "PA": online.PassiveAggressive, "CW": online.ConfidenceWeighted,
    "AROW": online.AROW, "ACOG": online.ACOG, "RLS": online.LS, "AR-RLS": online.ARRLS,
    "NR-RLS": online.TER,
}  # fmt: skip
ENGINE, DISCRIMINANT = "NR-RLS from one set of moments", "linear discriminant, equal priors"


class OneMoments:
    """The paper's copies from one set of moments: all rows of the rest weigh the same, 1/(n − n_j).

    The classifier's own one-vs-rest lets all classes of the rest weigh the same instead; that is
    as much work.
    """

    def fit(self, X: Matrix, y: Labels) -> OneMoments:
        """Learn each row into the moments of its class, and solve one system for each class."""
        moments = Moments.of(X, y)
        self.labels = np.unique(y)
        m, s = affine(moments, None)
        y_k = targets(len(self.labels))[:, np.searchsorted(self.labels, moments.labels)]
        positive = np.where(y_k > 0, moments.N, 0.0).sum(axis=1, keepdims=True)
        sums = np.where(y_k > 0, positive, moments.N.sum() - positive)
        systems = RidgeSystems.of(moments, m, s, moments.N / sums, y_k[:, None], "penalized")
        self.solution = systems.scores(RIDGE)
        return self

    def predict(self, X: Matrix) -> Labels:
        """Labels of rows."""
        labels: Labels = self.labels[argmax_classes(self.solution.of(X))]
        return labels


def evaluate_bundled(name: str, seed: int) -> list[dict[str, list[float]]]:
    """Return held-out accuracy and mean recall of each half, by method."""
    X, y = BUNDLED[name](return_X_y=True)
    found = []
    for half in (0, 1):
        one = fold(X, y, seed, half)
        c = len(np.unique(one.y))
        made = {m: OneVsRestClassifier(rule()) for m, rule in RIVALS.items()}
        made[ENGINE] = OneMoments()
        made[DISCRIMINANT] = LinearDiscriminantAnalysis(solver="lsqr", priors=np.full(c, 1.0 / c))
        said = {m: model.fit(one.X, one.y).predict(one.X_test) for m, model in made.items()}
        found.append({
            m: [float((p == one.y_test).mean()), float(balanced_accuracy_score(one.y_test, p)),
                float((p == said["NR-RLS"]).mean())]
            for m, p in said.items()
        })  # fmt: skip
    return found


def class_times(c: int) -> dict[str, float]:
    """Microseconds of a row: best of three."""
    rng = np.random.default_rng(c)
    y = rng.integers(0, c, ROWS)
    X = rng.random((ROWS, D)) + 0.3 * rng.random((c, D))[y]

    def copies() -> None:
        for k in range(c) if c > 2 else (1,):
            online.NRRLS().fit(X, (y == k).astype(int))

    def every_row() -> None:
        BalancedRidgeClassifier(scale=None, ridge=RIDGE, multi_class="ovr").progressive_scores(X, y)

    def at_the_end() -> None:
        OneMoments().fit(X, y)

    found = {}
    for name, work in zip(COLUMNS, (copies, every_row, at_the_end), strict=True):
        best = np.inf
        for _ in range(3):
            start = time.process_time_ns()
            work()
            best = min(best, time.process_time_ns() - start)
        found[name] = float(best) * 1e-3 / ROWS
    return found


def stage(settings: Settings) -> None:
    """Write results/multiclass.csv, multiclass_accuracy.csv, multiclass.md and its figure."""
    classes = [c for c in CLASSES if not (settings.quick and c > 8)]
    found = run(settings, "Appendix B, times", class_times, [(c,) for c in classes], alone=True)
    rows = [
        [c, *(f"{times[m]:.4g}" for m in COLUMNS)] for c, times in zip(classes, found, strict=True)
    ]
    tables.write_csv(settings.results / "multiclass.csv", ["classes", *COLUMNS], rows)
    power = {m: exponent(classes[1:], [times[m] for times in found[1:]]) for m in COLUMNS}
    told = "; ".join(f"{m}: c^{e:.2f}" for m, e in power.items())
    listed = [(name, seed) for name in BUNDLED for seed in range(settings.runs)]
    pieces: dict[str, list[dict[str, list[float]]]] = {name: [] for name in BUNDLED}
    for (name, _), halves in zip(
        listed, run(settings, "Appendix B", evaluate_bundled, listed), strict=True
    ):
        pieces[name] += halves
    methods = list(pieces["iris"][0])
    right = {
        name: {m: np.mean([half[m] for half in halves], axis=0) for m in methods}
        for name, halves in pieces.items()
    }
    tables.write_csv(
        settings.results / "multiclass_accuracy.csv",
        ["set", "method", "accuracy", "mean recall", "same as NR-RLS"],
        [[name, m, *(f"{v:.4f}" for v in by[m])] for name, by in right.items() for m in methods],
    )  # fmt: skip
    ahead = sum(by[DISCRIMINANT][0] > by["NR-RLS"][0] for by in right.values())
    shown = tables.bold(
        [[by[m][k] for by in right.values() for k in (0, 1)] for m in methods], "{:.3f}"
    )
    text = f"""# Appendix B: several classes

CPU microseconds of a row, {ROWS:,} rows of {D} features, best of three, checks of the input
included. The paper's multiclass extension is c independent copies, O(c d²) as printed, O(c d³) as
the recursion has it. Our engine keeps one second moment for each class and learns a row into one of
them, whatever c; weights at every row cost c systems. Growth with c over {classes[1]} to
{classes[-1]} classes: {told}.

{tables.markdown(["classes", *COLUMNS], rows)}

## How often it is right

The paper has no figures for several classes. Held-out accuracy and mean recall of the classes on
the sets that scikit-learn bundles, {settings.runs} runs of two folds, features scaled to [0, 1] on
the training half, one against the rest; RLS and NR-RLS by the batch solutions that they equal. The
engine, which keeps one set of moments for all classes, answers as the copies of NR-RLS on
{100 * min(float(by[ENGINE][2]) for by in right.values()):.1f}% of the rows or more. One linear
discriminant for all classes is not one against the rest, which masks a class that lies between
others: it is more often right than NR-RLS on {ahead} of these {len(BUNDLED)}. Best in bold.

{tables.markdown(["method", *(f"{name}, {what}" for name in BUNDLED
                  for what in ("accuracy", "mean recall"))],
                 [[m, *cells] for m, cells in zip(methods, shown, strict=True)])}
"""  # fmt: skip
    tables.write_page(settings, settings.results / "multiclass.md", text)
    made = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = made.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    for m, like in COLUMNS.items():
        axes.loglog(
            classes, [times[m] for times in found], marker="o", label=m, **plots.style(like)
        )
    axes.set(xlabel="classes", ylabel="microseconds a row")
    axes.set_xticks(classes, [str(c) for c in classes])
    axes.minorticks_off()
    axes.legend(fontsize=8, frameon=False)
    tables.write(settings.figures / "multiclass.svg", plots.svg(made))
