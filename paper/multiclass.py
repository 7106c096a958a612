"""Appendix C: what a row costs as the number of classes grows."""

from __future__ import annotations

import time

import numpy as np
from matplotlib.figure import Figure

from counterpoise import BalancedRidgeClassifier, online
from counterpoise.evaluate import plots

from . import tables
from .jobs import Settings, run
from .methods import EXACT
from .table4 import exponent

CLASSES = (2, 4, 8, 16, 32)
D, ROWS = 20, 2_000
COPIES = "one-vs-rest copies of NR-RLS"
COLUMNS = {
    COPIES: "NR-RLS",
    f"{EXACT}, weights at every row": EXACT,
    f"{EXACT}, weights at the end": "TER",
}


def class_times(c: int) -> dict[str, float]:
    """Microseconds of a row: best of three."""
    rng = np.random.default_rng(c)
    y = rng.integers(0, c, ROWS)
    X = rng.random((ROWS, D)) + 0.3 * rng.random((c, D))[y]

    def copies() -> None:
        for k in range(c) if c > 2 else (1,):
            online.NRRLS().fit(X, (y == k).astype(int))

    def every_row() -> None:
        BalancedRidgeClassifier(scale=None).progressive_scores(X, y)

    def at_the_end() -> None:
        BalancedRidgeClassifier(scale=None).fit(X, y).coef_  # noqa: B018

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
    """Write results/multiclass.csv, multiclass.md and figures/multiclass.svg."""
    found = run(settings, "Appendix C", class_times, [(c,) for c in CLASSES], alone=True)
    rows = [
        [c, *(f"{times[m]:.4g}" for m in COLUMNS)] for c, times in zip(CLASSES, found, strict=True)
    ]
    tables.write_csv(settings.results / "multiclass.csv", ["classes", *COLUMNS], rows)
    power = {m: exponent(list(CLASSES[1:]), [times[m] for times in found[1:]]) for m in COLUMNS}
    told = "; ".join(f"{m}: c^{e:.2f}" for m, e in power.items())
    text = f"""# Appendix C: the cost of many classes

CPU microseconds of a row, {ROWS:,} rows of {D} features, best of three, checks of the input
included. The paper's multiclass extension is c independent copies, O(c d²) as printed, O(c d³) as
the recursion has it. Our engine keeps one second moment for each class and learns a row into one of
them, whatever c; weights at every row cost c systems. Growth with c over {CLASSES[1]} to
{CLASSES[-1]} classes: {told}.

{tables.markdown(["classes", *COLUMNS], rows)}
"""
    tables.write_page(settings.results / "multiclass.md", text)
    made = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = made.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    for m, like in COLUMNS.items():
        axes.loglog(
            CLASSES, [times[m] for times in found], marker="o", label=m, **plots.style(like)
        )
    axes.set(xlabel="classes", ylabel="microseconds a row")
    axes.set_xticks(CLASSES, [str(c) for c in CLASSES])
    axes.minorticks_off()
    axes.legend(fontsize=8, frameon=False)
    tables.write(settings.figures / "multiclass.svg", plots.svg(made))
