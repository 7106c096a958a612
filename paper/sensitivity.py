"""Sensitivity to the two parameters of the family: the class weight, and b."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from counterpoise import BalancedRidgeClassifier, online
from counterpoise.evaluate import plots

from . import tables
from .datasets import SETS, load
from .jobs import Settings, run
from .methods import LARGE
from .protocol import fold, g_mean

RIDGES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
FACTORS = (0.125, 0.25, 0.5, 0.71, 1.0, 1.41, 2.0, 4.0, 8.0)


def sensitivity(name: str, seed: int) -> list[list]:
    """Rows of what is varied, its value, the method and the held-out G-mean."""
    X, y = load(name)
    found = []
    for half in (0, 1):
        one = fold(X, y, seed, half)
        models = {
            "NR-RLS": BalancedRidgeClassifier(scale=None, ridge=1e-4).fit(one.X, one.y),
            "RLS": BalancedRidgeClassifier(scale=None, ridge=1e-4, class_weight=None).fit(
                one.X, one.y
            ),
        }
        for b in RIDGES:
            for method, model in models.items():
                f = model.set_params(ridge=b).decision_function(one.X_test)
                found.append(["b", b, method, float(g_mean(one.y_test, f))])
            f = online.ARRLS(ridge=b).fit(one.X, one.y).decision_function(one.X_test)
            found.append(["b", b, "AR-RLS", float(g_mean(one.y_test, f))])
        model = models["NR-RLS"].set_params(ridge=1e-4)
        for factor in FACTORS:
            f = model.set_params(class_factors={1: factor}).decision_function(one.X_test)
            found.append(["weight", factor, "NR-RLS", float(g_mean(one.y_test, f))])
    return found


def stage(settings: Settings) -> None:
    """Write results/sensitivity.csv, sensitivity.md and figures/sensitivity.svg."""
    listed = [
        (name, seed) for name in settings.sets
        for seed in range(settings.runs if SETS[name].size < LARGE else 1)
    ]  # fmt: skip
    values: dict[tuple, list[float]] = {}
    for (name, _), pieces in zip(
        listed, run(settings, "Sensitivity", sensitivity, listed), strict=True
    ):
        for what, value, method, score in pieces:
            values.setdefault((name, what, value, method), []).append(score)
    rows = [
        [SETS[name].number, name, what, f"{value:g}", method, f"{np.mean(v):.4f}"]
        for (name, what, value, method), v in values.items()
    ]
    tables.write_csv(
        settings.results / "sensitivity.csv",
        ["no", "set", "varied", "value", "method", "g_mean"],
        rows,
    )
    mean = averages(settings)
    by_b = [[m, *(f"{mean['b', b, m]:.3f}" for b in RIDGES)] for m in ("RLS", "AR-RLS", "NR-RLS")]
    by_weight = [["NR-RLS", *(f"{mean['weight', f, 'NR-RLS']:.3f}" for f in FACTORS)]]
    best = [
        max(FACTORS, key=lambda f: np.mean(values[n, "weight", f, "NR-RLS"])) for n in settings.sets
    ]
    text = f"""# Sensitivity to b and to the class weight

Mean held-out G-mean over {len(settings.sets)} sets; {settings.runs} runs of two folds, one run on
sets of {LARGE:,} rows and more. The same b is about n/2 times stronger in NR-RLS, whose classes
weigh 1 in all, than in RLS, whose rows weigh 1.

{tables.markdown(["b", *(f"{b:g}" for b in RIDGES)], by_b)}

Weight of the positive class times a factor, b = 1e-4; factor 1 is NR-RLS. The factor 1 or one
next to it (0.71, 1.41) is the best of these on {sum(0.7 < f < 1.5 for f in best)} of {len(best)}
sets.

{tables.markdown(["factor", *(f"{f:g}" for f in FACTORS)], by_weight)}
"""
    tables.write_page(settings, settings.results / "sensitivity.md", text)
    tables.write(settings.figures / "sensitivity.svg", plots.svg(draw(mean)))


def averages(settings: Settings) -> dict[tuple[str, float, str], float]:
    """Mean over sets by what is varied, its value and the method."""
    found: dict[tuple[str, float, str], list[float]] = {}
    for row in tables.read_csv(settings.results / "sensitivity.csv"):
        key = (row["varied"], float(row["value"]), row["method"])
        found.setdefault(key, []).append(float(row["g_mean"]))
    return {key: float(np.mean(v)) for key, v in found.items()}


def draw(mean: dict[tuple[str, float, str], float]) -> Figure:
    """G-mean against b, and against the factor."""
    made = Figure(figsize=(9.6, 3.6), layout="constrained")
    left, right = made.subplots(1, 2, sharey=True)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    for m in ("RLS", "AR-RLS", "NR-RLS"):
        left.semilogx(
            RIDGES, [mean["b", b, m] for b in RIDGES], marker="o", label=m, **plots.style(m)
        )
    left.axvline(1e-4, color="#999999", linewidth=0.8)
    left.set_title("(a)", loc="left", fontsize=10)
    right.set_title("(b)", loc="left", fontsize=10)
    left.set(xlabel="b (the paper's at the line)", ylabel="mean held-out G-mean")
    left.legend(fontsize=9, frameon=False)
    right.semilogx(
        FACTORS,
        [mean["weight", f, "NR-RLS"] for f in FACTORS],
        marker="o",
        **plots.style("NR-RLS"),
    )
    right.axvline(1.0, color="#999999", linewidth=0.8)
    right.set(xlabel="weight of positives, times (balanced at the line)")
    right.set_xticks([0.125, 0.5, 1, 2, 8], ["⅛", "½", "1", "2", "8"])
    right.minorticks_off()
    return made
