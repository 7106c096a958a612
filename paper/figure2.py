"""Figure 2 and the appendix: norm, held-out G-mean and time of each arriving sample, as t grows."""

from __future__ import annotations

import time

import numpy as np
from matplotlib.figure import Figure

from counterpoise.datasets import SETS, load
from counterpoise.evaluate import plots
from counterpoise.evaluate.protocol import fold, g_mean
from counterpoise.online import batch

from . import tables
from .clock import LABELS
from .jobs import Settings, run
from .methods import FAMILY, LARGE, METHODS

POINTS = 200
PREFIX = 4_000  # rows of a large set that IR-RLS learns
BATCH = ("LS", "TER")
PANELS = {"norm": "L2 norm of w", "g_mean": "held-out G-mean", "time": "microseconds a sample"}


def steps(rows: int) -> list[int]:
    """Two hundred values of t, evenly spaced, or all where there are fewer."""
    return np.unique(np.linspace(1, rows, min(rows, POINTS)).round().astype(int)).tolist()


def curves(name: str, seed: int, full: bool) -> dict[str, dict[str, list[float]]]:
    """Norm, G-mean and CPU time at the values of t, for the first half of one run."""
    X, y = load(name)
    one = fold(X, y, seed, 0)
    found = {}
    for method in FAMILY:
        if len(X) >= LARGE and method in BATCH:
            continue
        rows = PREFIX if len(X) >= LARGE and method == "IR-RLS" and not full else len(one.y)
        follow = _batch if method in BATCH else _recursive
        W, took = follow(
            METHODS[method](), one.X, one.y, [t for t in steps(len(one.y)) if t <= rows]
        )
        judged = np.column_stack([one.X_test, np.ones(len(one.X_test))]) @ W.T
        found[method] = {
            "norm": np.linalg.norm(W, axis=1).tolist(),
            "g_mean": g_mean(one.y_test, judged).tolist(),
            "time": (np.asarray(took) * 1e-3).tolist(),
        }
    return found


def _recursive(rule, X, y, at):
    """Weights and nanoseconds a sample of a rule that goes on from row to row.

    An empty call of the loop is timed too, and subtracted.
    """
    rows, target, weight = rule._take(X, y, LABELS, None)
    s = rule._before(rule._begin(rows.shape[1]), target)
    scores = np.empty(len(rows))
    W, took, start = [], [], 0
    for stop in at:
        part = slice(start, stop)
        began = time.thread_time_ns()
        rule._drive(s, rows[part], target[part], weight[part], 0, scores[part])
        ended = time.thread_time_ns()
        rule._drive(s, rows[:0], target[:0], weight[:0], 0, scores[:0])
        empty = time.thread_time_ns() - ended
        took.append(max(ended - began - empty, 1) / (stop - start))
        W.append(s.w.copy())
        start = stop
    return np.array(W), took


def _batch(rule, X, y, at):
    """Weights and nanoseconds of a batch solution found anew, from all rows, at each t."""
    rows, target, weight = rule._take(X, y, LABELS, None)
    balanced = type(rule).__name__ == "TER"
    W, took = [], []
    for t in at:
        began = time.thread_time_ns()
        s = batch.start(rows.shape[1])
        batch.add(s, rows[:t], target[:t], weight[:t])
        w = batch.solve(s, rule.ridge, 0.0, 1.0, balanced)
        took.append(time.thread_time_ns() - began)
        W.append(w)
    return np.array(W), took


def stage(settings: Settings) -> None:
    """Write results/figure2.csv, results/figure2_times.csv and figures/samples-*.png."""
    listed = [(name, seed) for name in settings.sets for seed in range(settings.runs)]
    found = run(settings, "Figure 2", curves, [(*one, settings.full) for one in listed])
    means: dict[str, dict[str, dict[str, np.ndarray]]] = {}
    for name in settings.sets:
        runs = [f for (n, _), f in zip(listed, found, strict=True) if n == name]
        means[name] = {
            method: {what: averaged(what, [r[method][what] for r in runs]) for what in PANELS}
            for method in runs[0]
        }
    for file, panels in (("figure2", ("norm", "g_mean")), ("figure2_times", ("time",))):
        head = ["set", "t", *(f"{m} {what}" for what in panels for m in FAMILY)]
        rows = []
        for name, by_method in means.items():
            for i, t in enumerate(steps((SETS[name].size + 1) // 2)):
                row = [name, t]
                for what in panels:
                    for m in FAMILY:
                        values = by_method.get(m, {}).get(what, [])
                        row.append(f"{values[i]:.6g}" if i < len(values) else "")
                rows.append(row)
        tables.write_csv(settings.results / f"{file}.csv", head, rows)
    for name, by_method in means.items():
        tables.write_png(settings.figures / f"samples-{name}.png", draw(name, by_method))


def averaged(what: str, runs: list[list[float]]) -> np.ndarray:
    """Mean over the runs; of times without the shortest and the longest, which are noise."""
    ordered = np.sort(runs, axis=0) if what == "time" and len(runs) > 4 else np.array(runs)
    return ordered[1:-1].mean(axis=0) if what == "time" and len(runs) > 4 else ordered.mean(axis=0)


def draw(name: str, by_method: dict[str, dict[str, np.ndarray]]) -> Figure:
    """Three panels of one set, legends with mean ± deviation over the samples."""
    made = Figure(figsize=(12.6, 3.9), layout="constrained")
    t = steps((SETS[name].size + 1) // 2)
    for axes, (what, label) in zip(made.subplots(1, 3), PANELS.items(), strict=True):
        axes.spines[["top", "right"]].set_visible(False)
        for method, values in by_method.items():
            v, drawn = values[what], plots.style(method)
            if method in BATCH:  # a band, on which the recursions that equal it lie
                drawn = {"color": drawn["color"], "linewidth": 4.5, "alpha": 0.35}
            part = f", first {t[len(v) - 1]:,} rows" if len(v) < len(t) else ""
            legend = f"{method}{part} ({v.mean():.3g} ± {v.std():.3g})"
            axes.plot(t[: len(v)], v, label=legend, **drawn)
        axes.set(xlabel="training samples seen", ylabel=label, xlim=(0, t[-1]))
        if what != "g_mean":
            axes.set_yscale("log")
        else:
            axes.set_ylim(-0.02, 1.02)
        plots.thousands(axes.xaxis)
        axes.legend(
            fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False
        )
    made.suptitle(SETS[name].title, fontsize=11)
    return made
