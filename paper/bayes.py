"""Appendix A, shown by numbers: TER's score converges to the weighted Bayes formula.

x takes twenty values with known p(1 | x); each is a feature of its own, so that the model can be
any function of x. Then f(x) → (p w₊ − (1 − p) w₋) / (p w₊ + (1 − p) w₋), with w₊ and w₋ inverse to
the shares of the classes.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from counterpoise import BalancedRidgeClassifier
from counterpoise.evaluate import plots

from . import tables
from .jobs import Settings, run

VALUES = 20
P = 0.02 + 0.5 * (np.arange(VALUES) / (VALUES - 1)) ** 3  # p(1 | x), about 15% positives
SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
SEEDS = 5
SHOWN = (1_000, 1_000_000)
RIDGE = 1e-9


def formula() -> np.ndarray:
    """The limit of f, eq. (26) and (28) of the appendix."""
    share = P.mean()
    plus, minus = P / share, (1.0 - P) / (1.0 - share)
    return (plus - minus) / (plus + minus)


def constant() -> float:
    """Return the minimizer of eq. (27) as printed, the same for all x.

    w₋ (−1 − f)² + w₊ (1 − f)² is smallest at (w₊ − w₋) / (w₊ + w₋).
    """
    plus, minus = 1.0 / P.mean(), 1.0 / (1.0 - P.mean())
    return float((plus - minus) / (plus + minus))


def mistakes(f: np.ndarray) -> tuple[float, float]:
    """Error rate of the sign of a score, and the mean of the two classes' error rates."""
    wrong = np.where(f > 0, 1.0 - P, P)
    missed, alarms = P[f <= 0].sum() / P.sum(), (1.0 - P)[f > 0].sum() / (1.0 - P).sum()
    return float(wrong.mean()), float(missed + alarms) / 2.0


def scores(n: int, seed: int) -> list[float]:
    """Score of every x, learned from n rows, as counts of equal rows."""
    rng = np.random.default_rng([n, seed])
    rows = rng.multinomial(n, np.full(VALUES, 1.0 / VALUES))
    positives = rng.binomial(rows, P)
    X = np.concatenate([np.eye(VALUES)] * 2)
    y = np.repeat([-1, 1], VALUES)
    model = BalancedRidgeClassifier(scale=None, fit_intercept=False, ridge=RIDGE)
    weight = np.concatenate([rows - positives, positives]).astype(float)
    model.fit(X[weight > 0], y[weight > 0], sample_weight=weight[weight > 0])
    return model.decision_function(np.eye(VALUES)).tolist()


def stage(settings: Settings) -> None:
    """Write results/bayes.csv, bayes.md and figures/bayes.svg."""
    sizes = [n for n in SIZES if not (settings.quick and n > 1_000_000)]
    listed = [(n, seed) for n in sizes for seed in range(SEEDS)]
    found = dict(zip(listed, run(settings, "Appendix A", scores, listed), strict=True))
    limit = formula()
    error = {
        n: float(np.mean([np.sqrt(np.mean((found[n, s] - limit) ** 2)) for s in range(SEEDS)]))
        for n in sizes
    }
    rows = [[n, f"{e:.3g}"] for n, e in error.items()]
    tables.write_csv(settings.results / "bayes.csv", ["rows", "root mean square error"], rows)
    slope = np.polyfit(np.log(sizes), np.log(list(error.values())), 1)[0]
    learned = np.array(found[sizes[-1], 0])
    rules = {
        "Bayes, eq. (19): sign of 2p − 1": 2.0 * P - 1.0,
        "weighted Bayes, eq. (24): sign of (26) and (28)": limit,
        f"NR-RLS after {sizes[-1]:,} rows": learned,
        "the minimiser of eq. (27) as printed": np.full(VALUES, constant()),
    }
    decided = [
        [name, *(f"{e:.4f}" for e in mistakes(f)), int(((f > 0) != (P > 0.5)).sum())]
        for name, f in rules.items()
    ]
    head = ["rule", "error rate", "mean error of the classes", "x decided unlike Bayes"]
    tables.write_csv(settings.results / "lemma.csv", head, decided)
    text = f"""# Appendix A: convergence to the weighted Bayes classifier

{VALUES} values of x with known p(1 | x), one feature each; f of the exact engine with b = {RIDGE:g}
against the formula, root mean square over x, mean of {SEEDS} seeds. The error falls as
n^{slope:.2f}, as the law of large numbers has it.

{tables.markdown(["rows", "root mean square error"], rows)}

## Lemma 3.5 and eq. (27) as printed

By the lemma NR-RLS recovers the *optimal* Bayes classifier; its proof shows the
*weighted* one. With {100 * P.mean():.0f}% positives these are two: NR-RLS ends at the weighted
one, and its error rate is not the smallest. Eq. (27) has no label in its integrand, so what
minimises it is one number for all x, {constant():.3f} here, and not eq. (28); with the indicator of
the class in each term it would be.

{tables.markdown(head, decided)}
"""
    tables.write_page(settings, settings.results / "bayes.md", text)
    made = draw({n: np.array(found[n, 0]) for n in SHOWN}, error)
    tables.write(settings.figures / "bayes.svg", plots.svg(made))


def draw(shown: dict[int, np.ndarray], error: dict[int, float]) -> Figure:
    """The formula with f on it, and the error as n grows."""
    made = Figure(figsize=(10.4, 3.6), layout="constrained")
    left, right = made.subplots(1, 2)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    left.plot(formula(), color="#222222", linewidth=1.2, label="formula of appendix A")
    for (n, f), marker in zip(shown.items(), "x.", strict=True):
        colour = "#56B4E9" if marker == "x" else "#0072B2"
        left.plot(f, marker, color=colour, label=f"f after {n:,} rows")
    left.axhline(0.0, color="#999999", linewidth=0.8)
    left.set_title("(a)", loc="left", fontsize=10)
    right.set_title("(b)", loc="left", fontsize=10)
    left.set(xlabel="x", ylabel="score", xticks=range(0, VALUES, 3))
    left.legend(fontsize=9, frameon=False)
    right.loglog(
        list(error), list(error.values()), "o-", color="#0072B2", label="root mean square error"
    )
    n = np.array(list(error), float)
    right.loglog(n, error[int(n[0])] * np.sqrt(n[0] / n), "--", color="#999999", label="slope −½")
    right.set(xlabel="rows", ylabel="error of f")
    right.legend(fontsize=9, frameon=False)
    return made
