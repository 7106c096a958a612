"""Appendix: the learned coefficients of each method on Mushroom."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from counterpoise import online
from counterpoise.evaluate import plots

from . import tables
from .datasets import load
from .jobs import Settings, run
from .methods import EXACT, FAMILY, METHODS
from .protocol import Fold, fold, scale_features

NAME = "mushroom"
DRIFT = ("pima-diabetes", "wdbc", "sonar", "ionosphere", "musk-clean-1", "ozone-eight")
INVERSES = "NR-RLS, inverses as printed"
SYMMETRIC = "NR-RLS, made symmetric at every row"
SHOWN = [*FAMILY, EXACT]
ALPHA = {"LS": 0.5, "TER": 0.5, "IR-RLS": 0.5}  # separates bars of one color


def weights(method: str, name: str) -> list[float]:
    """Weights after all rows of a set, in shuffled order; the constant comes last."""
    X, y = load(name)
    order = np.random.default_rng(0).permutation(len(y))
    rule = METHODS[method]().fit(scale_features(X, X)[order], y[order])
    return _all_weights(rule).tolist()


def drift(name: str) -> dict[str, float]:
    """Distance of each exact method from the batch solution after one half, over its norm."""
    X, y = load(name)
    one = fold(X, y, 0, 0)
    target = _all_weights(METHODS["TER"]().fit(one.X, one.y))
    made = {"NR-RLS": METHODS["NR-RLS"](), SYMMETRIC: online.NRRLS(symmetrize=True)}
    made |= {"IR-RLS": METHODS["IR-RLS"](), EXACT: METHODS[EXACT]()}
    found = {INVERSES: explicit(one)}
    found |= {m: _all_weights(rule.fit(one.X, one.y)) for m, rule in made.items()}
    size = np.linalg.norm(target)
    return {m: float(np.linalg.norm(w - target) / size) for m, w in found.items()}


def explicit(one: Fold, b: float = 1e-4) -> np.ndarray:
    """Algorithm 1 with its inverses written out, as printed."""
    X = np.column_stack([one.X, np.ones(len(one.X))])
    d = X.shape[1]
    eye, inv = np.eye(d), np.linalg.inv
    R, S, z, n = eye / b, np.zeros((2, d, d)), np.zeros((2, d)), [0, 0]
    for x, y in zip(X, one.y, strict=True):
        k = int(y > 0)
        n[k] += 1
        beta, xx = 1.0 / n[k], np.outer(x, x)
        G = R + R @ inv(eye - beta * S[k] @ R) @ (beta * S[k] @ R)
        R = G - G @ inv(eye + beta * xx @ G) @ (beta * xx @ G)
        S[k] += beta * (xx - S[k])
        z[k] += beta * (y * x - z[k])
    return R @ z.sum(axis=0)


def _all_weights(rule: Any) -> np.ndarray:
    return np.append(rule.coef_[0], rule.intercept_[0])


def differences(settings: Settings) -> dict[str, float]:
    """Largest difference of a coefficient from that of the batch solution, by method."""
    rows = tables.read_csv(settings.results / "coefficients.csv")
    w = {m: np.array([float(row[m]) for row in rows]) for m in SHOWN}
    return {m: float(np.abs(w[m] - w["LS" if m in ("LS", "RLS") else "TER"]).max()) for m in SHOWN}


def worst_drift(settings: Settings) -> dict[str, float]:
    """The largest of these distances over the sets, by method."""
    rows = tables.read_csv(settings.results / "drift.csv")
    return {m: max(float(row[m]) for row in rows) for m in rows[0] if m != "set"}


def stage(settings: Settings) -> None:
    """Write results/coefficients.csv, drift.csv, coefficients.md and figures/coefficients.svg."""
    name = NAME if NAME in settings.sets else settings.sets[-1]
    found = run(settings, "Coefficients", weights, [(method, name) for method in SHOWN])
    by_method = dict(zip(SHOWN, map(np.array, found), strict=True))
    d = len(found[0]) - 1
    rows = [
        ["constant" if j == d else f"x{j + 1}", *(f"{w[j]:.15g}" for w in by_method.values())]
        for j in range(d + 1)
    ]
    tables.write_csv(settings.results / "coefficients.csv", ["feature", *SHOWN], rows)
    gaps = [
        [m, "LS" if m == "RLS" else "TER", f"{gap:.1e}"]
        for m, gap in differences(settings).items()
        if m not in ("LS", "TER")
    ]
    sets = [name for name in DRIFT if name in settings.sets]
    lost = dict(zip(sets, run(settings, "Drift", drift, [(name,) for name in sets]), strict=True))
    drifted = [[name, *(f"{v:.1e}" for v in by.values())] for name, by in lost.items()]
    exact = list(next(iter(lost.values())))
    tables.write_csv(settings.results / "drift.csv", ["set", *exact], drifted)
    means = [[method, f"{w.mean():.6f}"] for method, w in by_method.items()]
    text = f"""# The learned coefficients on {name}

After all rows, scaled to [0, 1], in one shuffled order. Largest difference in any coefficient:

{tables.markdown(["method", "from", "largest difference"], gaps, left=2)}

Mean of each vector, the constant included:

{tables.markdown(["method", "mean"], means)}

## Drift

Distance from the batch solution TER, relative to its norm, after the first half of run 0. The
printed Algorithm 1 has two inverses; `online.NRRLS` solves instead and multiplies by x from both
sides.

{tables.markdown(["set", *exact], drifted)}
"""
    tables.write_page(settings, settings.results / "coefficients.md", text)
    tables.write(settings.figures / "coefficients.svg", plots.svg(draw(by_method)))


def draw(by_method: dict[str, np.ndarray]) -> Figure:
    """Bars side by side for the paper's six methods."""
    made = Figure(figsize=(12.6, 3.8), layout="constrained")
    axes = made.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    d = len(by_method["LS"])
    for k, method in enumerate(FAMILY):
        w = by_method[method]
        axes.bar(
            np.arange(d) + (k - 2.5) * 0.13, w, 0.13, color=plots.style(method)["color"],
            alpha=ALPHA.get(method, 1.0),
            edgecolor="white", linewidth=0.2, label=f"{method} (mean {w.mean():.4f})",
        )  # fmt: skip
    axes.axhline(0.0, color="black", linewidth=0.8)
    labels, every = [*(f"x{j + 1}" for j in range(d - 1)), "1"], 1 + d // 35
    axes.set_xticks(range(0, d, every), labels[::every], fontsize=8)
    axes.set(ylabel="coefficient", xlim=(-0.6, d - 0.4))
    axes.legend(fontsize=8, ncols=6, loc="upper center", bbox_to_anchor=(0.5, -0.1), frameon=False)
    return made
