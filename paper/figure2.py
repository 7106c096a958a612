"""Figure 2 and the appendix: norm, held-out G-mean and time of each arriving sample, as t grows."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from counterpoise.evaluate import plots

from . import tables
from .along import BATCH, curves, steps
from .datasets import SETS
from .jobs import Settings, run
from .methods import FAMILY

PANELS = {"norm": "L2 norm of w", "g_mean": "held-out G-mean", "time": "microseconds a sample"}


def stage(settings: Settings) -> None:
    """Write results/figure2.csv, results/figure2_times.csv and figures/samples-*.svg."""
    listed = [(name, seed) for name in settings.sets for seed in range(settings.runs)]
    found = run(settings, "Figure 2", curves, [(*one, settings.full) for one in listed])
    means: dict[str, dict[str, dict[str, np.ndarray]]] = {}
    for name in settings.sets:
        runs = [f for (n, _), f in zip(listed, found, strict=True) if n == name]
        means[name] = {
            method: {what: average_runs(what, [r[method][what] for r in runs]) for what in PANELS}
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
        tables.write(settings.figures / f"samples-{name}.svg", plots.svg(draw(name, by_method)))


def average_runs(what: str, runs: list[list[float]]) -> np.ndarray:
    """Return the mean over the runs; for times the median, which is robust to disturbances."""
    return np.median(runs, axis=0) if what == "time" else np.mean(runs, axis=0)


def draw(name: str, by_method: dict[str, dict[str, np.ndarray]]) -> Figure:
    """Three panels of one set, legends with mean ± deviation over the samples."""
    made = Figure(figsize=(12.6, 5.0), layout="constrained")
    t = steps((SETS[name].size + 1) // 2)
    part = [f"{m}: first {t[len(v['norm']) - 1]:,} rows" for m, v in by_method.items()
            if len(v["norm"]) < len(t)]  # fmt: skip
    for letter, axes, (what, label) in zip("abc", made.subplots(1, 3), PANELS.items(), strict=True):
        axes.spines[["top", "right"]].set_visible(False)
        for method, values in by_method.items():
            v, drawn = values[what], plots.style(method)
            if method in BATCH:  # a band, on which the recursions that equal it lie
                drawn = {"color": drawn["color"], "linewidth": 4.5, "alpha": 0.35}
            legend = f"{method} ({v.mean():.3g} ± {v.std():.3g})"
            axes.plot(t[: len(v)], v, label=legend, **drawn)
        axes.set(xlabel="training samples seen", ylabel=label, xlim=(0, t[-1]))
        axes.set_title(f"({letter})", loc="left", fontsize=10)
        if what != "g_mean":
            axes.set_yscale("log")
            plots.plain_numbers(axes.yaxis)
        else:
            axes.set_ylim(-0.02, 1.02)
        plots.thousands(axes.xaxis, 4)
        axes.legend(
            fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.16), frameon=False,
            columnspacing=1.0, handlelength=1.6, handletextpad=0.5, borderaxespad=0.0,
        )  # fmt: skip
    title = SETS[name].title + (f" ({', '.join(part)})" if part else "")
    made.suptitle(title, fontsize=11)
    return made
