"""Every method with its defaults, and with parameters picked inside the training half.

A parameter is picked on each fold by the progressive G-mean of its training half, which an online
learner can compute. The picked parameters are then evaluated on the held-out half, once. Grids are
those of LIBOL where it has one. LIBOL itself picks by the number of mistakes, which on imbalanced
sets is another aim.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from counterpoise import BalancedRidgeClassifier, online

from . import tables
from .datasets import SETS, load
from .jobs import Settings, run
from .methods import SIX, STAND_INS
from .protocol import RULES, evaluate_fold, fold

POWERS = [2.0**k for k in range(-4, 5)]  # LIBOL's grid of C and of r
QUANTILES = [0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95]  # LIBOL's grid of eta
RATES = [0.01, 0.1, 1.0, 10.0, 100.0]
RIDGES = [10.0**k for k in range(-6, 3)]


def engine(ridge: float = 1e-4) -> BalancedRidgeClassifier:
    """NR-RLS, from moments."""
    return BalancedRidgeClassifier(scale=None, ridge=ridge)


# A rule, and the settings that it is tried with, in addition to its defaults.
GRIDS: dict[str, tuple[Callable[..., Any], list[dict[str, Any]]]] = {
    "PE": (online.Perceptron, []),
    "PA": (online.PassiveAggressive, [{"variant": "PA-I", "C": C} for C in POWERS]),
    "CW": (online.ConfidenceWeighted, [{"eta": eta} for eta in QUANTILES]),
    "AROW": (online.AROW, [{"r": r} for r in POWERS]),
    "ACOG": (
        online.ACOG,
        [{"loss": loss, "learning_rate": rate} for loss in ("I", "II") for rate in RATES],
    ),
    "RLS": (online.RLS, [{"ridge": b} for b in RIDGES]),
    "AR-RLS": (online.ARRLS, [{"ridge": b} for b in RIDGES]),
    "NR-RLS": (engine, [{"ridge": b} for b in RIDGES]),
    "SCW": (online.SoftConfidenceWeighted, [{"C": C} for C in POWERS]),
}
WORDS = {
    "PE": "no parameter",
    "PA": "PA, or PA-I with C = 2⁻⁴ … 2⁴",
    "CW": "η = 0.55, 0.60 … 0.95",
    "AROW": "r = 2⁻⁴ … 2⁴",
    "ACOG": "loss I or II, learning rate 0.01, 0.1, 1, 10, 100",
    "RLS": "b = 1e-6 … 1e2",
    "AR-RLS": "b = 1e-6 … 1e2",
    "NR-RLS": "b = 1e-6 … 1e2",
    "SCW": "C = 2⁻⁴ … 2⁴ (SCW-I; not in the paper)",
}


def tune_methods(name: str, seed: int) -> list[list[Any]]:
    """Rows of half, method, G-means by default, G-means of what was picked, and what was."""
    X, y = load(name)
    found = []
    for half in (0, 1):
        one = fold(X, y, seed, half)
        for method, (make, grid) in GRIDS.items():
            tried = [(options, evaluate_fold(make(**options), one)) for options in ({}, *grid)]
            options, picked = max(tried, key=lambda pair: _replace_nan(pair[1][RULES[1]]))
            default = tried[0][1]
            found.append([
                half, method, *(default[rule] for rule in RULES), *(picked[rule] for rule in RULES),
                " ".join(f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
                         for key, value in options.items()) or "default",
            ])  # fmt: skip
    return found


def _replace_nan(value: float) -> float:
    return -1.0 if np.isnan(value) else value


def stage(settings: Settings) -> None:
    """Write results/tuned.csv and tuned.md."""
    listed = [(name, seed) for name in settings.sets for seed in range(settings.runs)]
    found = run(settings, "Tuned", tune_methods, listed)
    rows = [
        [name, seed, half, method, *(f"{value:.6f}" for value in values), picked]
        for (name, seed), pieces in zip(listed, found, strict=True)
        for half, method, *values, picked in pieces
    ]
    head = ["set", "run", "half", "method", *(f"default {rule}" for rule in RULES)]
    tables.write_csv(
        settings.results / "tuned.csv",
        [*head, *(f"tuned {rule}" for rule in RULES), "picked"],
        rows,
    )
    tables.write_page(settings, settings.results / "tuned.md", _page(settings))


def read(settings: Settings) -> dict[str, dict[str, dict[str, float]]]:
    """Mean G-mean by column ("default held-out", ...), set and method."""
    folds: dict[tuple[str, str, str], list[float]] = {}
    columns = [f"{kind} {rule}" for kind in ("default", "tuned") for rule in RULES]
    for row in tables.read_csv(settings.results / "tuned.csv"):
        for column in columns:
            folds.setdefault((column, row["set"], row["method"]), []).append(float(row[column]))
    found: dict[str, dict[str, dict[str, float]]] = {column: {} for column in columns}
    for (column, name, method), values in folds.items():
        found[column].setdefault(name, {})[method] = float(np.nanmean(values))
    return found


def averages(
    found: dict[str, dict[str, dict[str, float]]], column: str, numbers: tuple[int, ...] = ()
) -> dict[str, float]:
    """Mean over sets of these numbers, by default over all but the stand-ins, by method."""
    own = {
        name: by_method for name, by_method in found[column].items()
        if (SETS[name].number in numbers if numbers else SETS[name].number not in STAND_INS)
    }  # fmt: skip
    return {m: float(np.mean([by[m] for by in own.values()])) for m in GRIDS} if own else {}


def picks(settings: Settings) -> dict[str, dict[str, int]]:
    """Return the number of picks of each setting, in decreasing order, by method."""
    found: dict[str, dict[str, int]] = {method: {} for method in GRIDS}
    for row in tables.read_csv(settings.results / "tuned.csv"):
        by = found[row["method"]]
        by[row["picked"]] = by.get(row["picked"], 0) + 1
    return {m: dict(sorted(by.items(), key=lambda item: -item[1])) for m, by in found.items()}


def _page(settings: Settings) -> str:
    found, picked = read(settings), picks(settings)
    groups = [("", ())]
    if any(SETS[name].number in SIX for name in settings.sets):
        groups.append((", the six", SIX))
    columns = {
        f"{kind} {rule}{words}": averages(found, f"{kind} {rule}", numbers)
        for words, numbers in groups for rule in RULES for kind in ("default", "tuned")
    }  # fmt: skip
    shown = tables.bold([[by[m] for by in columns.values()] for m in GRIDS], "{:.3f}")
    rows = [
        [m, WORDS[m], *cells, ", ".join(f"{what} ({n})" for what, n in [*picked[m].items()][:2])]
        for m, cells in zip(GRIDS, shown, strict=True)
    ]
    by_set = []
    held = [found[f"{kind} {RULES[0]}"] for kind in ("default", "tuned")]
    for name in settings.sets:
        best = [max(by[name].values()) for by in held]
        cells = [
            " / ".join(
                tables.strong(f"{by[name][m]:.3f}", by[name][m] > top - 0.0005)
                for by, top in zip(held, best, strict=True)
            )
            for m in GRIDS
        ]
        by_set.append([SETS[name].number, name, *cells])
    return f"""# Every method tuned

Mean G-mean by default and with the parameter picked on each fold by the progressive G-mean of its
training half, from the grid and the default, {settings.runs} runs of two folds, without the
stand-ins for 20 Newsgroups. The first pick wins a tie. The held-out column is evaluated on rows
that the pick never saw. The progressive column of a tuned method is the best of its grid with
hindsight, so it favors methods with larger grids. The progressive G-mean counts rows at which a
model has learned little, so it favors a ridge that decays relative to the rows: RLS and AR-RLS have
such a ridge, NR-RLS does not. The tuned columns do not decide between them. Best in bold.

{tables.markdown(["method", "tried next to the default", *columns, "picked most (folds)"], rows, 2)}

Held-out by set, default / tuned:

{tables.markdown(["no", "set", *GRIDS], by_set, left=2)}
"""
