"""Polynomial orders 1 to 6 for the least-squares family, 1 to 3 for the stochastic rules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from counterpoise import online
from counterpoise.evaluate import plots
from counterpoise.feature_maps import Polynomial, ReducedPolynomial, terms

from . import tables
from .datasets import SETS, load
from .jobs import Settings, run
from .methods import LARGE, METHODS, ROUNDING, STAND_INS
from .protocol import RULES as PROTOCOLS
from .protocol import Fold, evaluate_fold, fold, g_mean, scale_features

ORDERS = (1, 2, 3, 4, 5, 6)
MAX_TERMS = 1000  # terms up to which the complete polynomial is run
RULES = {"RLS": online.LS, "AR-RLS": online.ARRLS, "NR-RLS": online.TER}  # batch where it is equal
MAPS = {"reduced": ReducedPolynomial, "complete": Polynomial}
STOCHASTIC = ("PE", "PA", "CW", "AROW", "ACOG")
LOW = (1, 2, 3)  # orders at which they run, with the reduced model


def order_g_means(name: str, seed: int) -> list[list]:
    """Rows of half, map, order and the held-out G-means of RLS, AR-RLS and NR-RLS."""
    X, y = load(name)
    found = []
    for half in (0, 1):
        one = fold(X, y, seed, half)
        for kind, make in MAPS.items():
            for r in ORDERS:
                if kind == "complete" and terms(X.shape[1], r, reduced=False) > MAX_TERMS:
                    break
                mapped = make(r).fit(one.X)
                Z, Z_test = mapped.transform(one.X), mapped.transform(one.X_test)
                Z, Z_test = scale_features(Z, Z), scale_features(Z_test, Z)
                scores = [rule().fit(Z, one.y).decision_function(Z_test) for rule in RULES.values()]
                found.append([half, kind, r, *(float(g_mean(one.y_test, f)) for f in scores)])
    return found


def stochastic_g_means(name: str, seed: int, methods: Sequence[str] = STOCHASTIC) -> list[list]:
    """Rows of half, order, method and its G-means by both rules, with the reduced model."""
    X, y = load(name)
    found = []
    for half in (0, 1):
        one = fold(X, y, seed, half)
        for r in LOW:
            mapped = ReducedPolynomial(r).fit(one.X)
            Z, Z_test = mapped.transform(one.X), mapped.transform(one.X_test)
            part = Fold(
                seed, half, scale_features(Z, Z), one.y, scale_features(Z_test, Z), one.y_test
            )
            for method in methods:
                metrics = evaluate_fold(METHODS[method](), part)
                found.append([half, r, method, *(metrics[rule] for rule in PROTOCOLS)])
    return found


def stage(settings: Settings) -> None:
    """Write results/orders.csv, orders_online.csv, orders.md and figures/orders.svg."""
    listed = [
        (name, seed) for name in settings.sets
        for seed in range(settings.runs if SETS[name].size < LARGE else 1)
    ]  # fmt: skip
    found = run(settings, "Orders", order_g_means, listed)
    values: dict[tuple, list[float]] = {}
    for (name, _), pieces in zip(listed, found, strict=True):
        for _, kind, r, *scores in pieces:
            for rule, value in zip(RULES, scores, strict=True):
                values.setdefault((name, kind, r, rule), []).append(value)
    rows = [
        [
            SETS[name].number,
            name,
            kind,
            r,
            rule,
            f"{np.mean(v):.4f}",
            f"{np.std(v, ddof=1):.4f}",
            len(v),
        ]
        for (name, kind, r, rule), v in values.items()
    ]
    head = ["no", "set", "map", "order", "method", "g_mean", "deviation", "folds"]
    tables.write_csv(settings.results / "orders.csv", head, rows)
    by_hand: dict[tuple, list[list[float]]] = {}
    for (name, _), pieces in zip(
        listed, run(settings, "Orders, stochastic", stochastic_g_means, listed), strict=True
    ):
        for _, r, method, *metrics in pieces:
            by_hand.setdefault((name, r, method), []).append(metrics)
    tables.write_csv(
        settings.results / "orders_online.csv", ["no", "set", "order", "method", *PROTOCOLS],
        [[SETS[n].number, n, r, m, *(f"{g:.4f}" for g in np.nanmean(v, axis=0))]
         for (n, r, m), v in by_hand.items()],
    )  # fmt: skip
    mean = averages(settings)
    low = stochastic(settings)
    by_rule = [
        [m, *(f"{low[rule][m, r]:.3f}" for rule in PROTOCOLS for r in LOW)] for m in STOCHASTIC
    ]
    fits = fit(settings)
    fitted = [
        [f"{kind}, order {r}", *(f"{n} of {of} ({gap:.3f})" for n, of, gap in
                                 (fits[kind, r, m] for m in RULES))]
        for kind, r in dict.fromkeys((kind, r) for kind, r, _ in fits)
    ]  # fmt: skip
    shown = []
    for kind in MAPS:
        sets = len({n for n, k, r, _ in values if k == kind and r == ORDERS[-1]})
        for rule in RULES:
            by_order = [f"{mean[kind, rule, r]:.3f}" for r in ORDERS]
            shown.append([f"{kind}, {sets} sets", rule, *by_order])
    best = [
        [SETS[n].number, n, *(f"{np.mean(values[n, 'reduced', r, 'NR-RLS']):.3f}" for r in ORDERS)]
        for n in settings.sets
    ]
    text = f"""# Polynomial orders 1 to 6

Held-out G-mean, averaged over the sets that have every order: the reduced model on all, the
complete polynomial where its sixth order has at most {MAX_TERMS} terms. {settings.runs} runs of two
folds, one run on sets of {LARGE:,} rows and more. RLS and NR-RLS by their batch solutions, which
they equal; b = 1e-4 at every order. The terms are scaled to [0, 1] once more, on the training
half: powers of the sum of all features would reach 1e10 and more without.

{tables.markdown(["map", "method", *(f"order {r}" for r in ORDERS)], shown, left=2)}

## The order of the printed table

The paper does not mention the order of its tables. On how many of the sets that are the paper's
each order comes within the printed ± (and {ROUNDING}), and the mean distance from the printed
means. {fitting(settings)}

{tables.markdown(["map", *RULES], fitted)}

## The stochastic rules at orders 1 to 3

Mean G-mean with the reduced model, all with their defaults.

{tables.markdown(["method", *(f"{rule}, order {r}" for rule in PROTOCOLS for r in LOW)], by_rule)}

## Set by set

NR-RLS with the reduced model:

{tables.markdown(["no", "set", *(f"order {r}" for r in ORDERS)], best, left=2)}
"""
    tables.write_page(settings, settings.results / "orders.md", text)
    tables.write(settings.figures / "orders.svg", plots.svg(draw(mean)))


def averages(settings: Settings) -> dict[tuple[str, str, int], float]:
    """Mean over sets that have every order, by map, method and order."""
    by: dict[tuple[str, str, int], dict[str, float]] = {}
    for row in tables.read_csv(settings.results / "orders.csv"):
        by.setdefault((row["map"], row["method"], int(row["order"])), {})[row["set"]] = float(
            row["g_mean"]
        )
    return {
        (kind, rule, r): float(np.mean([by[kind, rule, r][n] for n in by[kind, rule, ORDERS[-1]]]))
        for kind, rule, r in by
    }


def stochastic(settings: Settings) -> dict[str, dict[tuple[str, int], float]]:
    """Mean over the sets of the stochastic rules by protocol, method and order."""
    found: dict[str, dict[tuple[str, int], list[float]]] = {rule: {} for rule in PROTOCOLS}
    for row in tables.read_csv(settings.results / "orders_online.csv"):
        for rule in PROTOCOLS:
            key = (row["method"], int(row["order"]))
            found[rule].setdefault(key, []).append(float(row[rule]))
    return {rule: {k: float(np.mean(v)) for k, v in by.items()} for rule, by in found.items()}


def fit(settings: Settings) -> dict[tuple[str, int, str], tuple[int, int, float]]:
    """Sets within the printed ±, of how many, and the mean distance, by map, order and method."""
    printed = tables.printed_g_means()
    gaps: dict[tuple[str, int, str], list[tuple[bool, float]]] = {}
    for row in tables.read_csv(settings.results / "orders.csv"):
        number = int(row["no"])
        if number not in STAND_INS:
            mean, deviation, _ = printed[number, row["method"]]
            gap = abs(float(row["g_mean"]) - mean)
            key = (row["map"], int(row["order"]), row["method"])
            gaps.setdefault(key, []).append((gap <= deviation + ROUNDING, gap))
    return {
        key: (sum(near for near, _ in v), len(v), float(np.mean([gap for _, gap in v])))
        for key, v in gaps.items()
    }


def fitting(settings: Settings) -> str:
    """Which order fits best, by the reduced model, in a sentence."""
    fits = fit(settings)
    total = {r: sum(fits["reduced", r, m][0] for m in RULES) for r in ORDERS}
    best = max(total, key=lambda r: total[r])
    most = sum(fits["reduced", best, m][1] for m in RULES)
    others = ", ".join(f"{total[r]} at order {r}" for r in ORDERS if r != best)
    return f"It fits order {best}: {total[best]} of {most} means are within, {others}."


def draw(mean: dict[tuple[str, str, int], float]) -> Figure:
    """G-mean against order, one panel for each map."""
    made = Figure(figsize=(9.6, 3.6), layout="constrained")
    for letter, axes, kind in zip("ab", made.subplots(1, 2, sharey=True), MAPS, strict=True):
        axes.spines[["top", "right"]].set_visible(False)
        for rule in RULES:
            axes.plot(
                ORDERS,
                [mean[kind, rule, r] for r in ORDERS],
                marker="o",
                label=rule,
                **plots.style(rule),
            )
        axes.set(title=f"({letter}) {kind} polynomial", xlabel="order", xticks=ORDERS)
    made.axes[0].set_ylabel("mean held-out G-mean")
    made.axes[0].legend(fontsize=9, frameon=False)
    return made
