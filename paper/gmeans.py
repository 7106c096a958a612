"""G-mean of every method on every fold, by both rules: what Table 3 and Figure 3(a) are made of."""

from __future__ import annotations

import numpy as np

from . import tables
from .datasets import SETS, load
from .jobs import Settings, run
from .methods import LARGE, METHODS
from .protocol import RULES, evaluate_fold, fold


def g_means(name: str, seed: int, stratified: bool, scale_on: str, full: bool) -> list[list]:
    """Both halves of one run: rows of half, method, G-mean held-out, G-mean progressive."""
    X, y = load(name)
    found = []
    for half in (0, 1):
        one = fold(X, y, seed, half, stratified, scale_on)
        for method, make in METHODS.items():
            if method != "IR-RLS" or len(X) < LARGE or full:
                metrics = evaluate_fold(make(), one)
                found.append([half, method, *(metrics[rule] for rule in RULES)])
    return found


def stage(settings: Settings) -> None:
    """Run all folds and write results/gmeans.csv."""
    listed = [(name, seed) for name in settings.sets for seed in range(settings.runs)]
    options = (settings.stratified, settings.scale_on, settings.full)
    found = run(settings, "G-means", g_means, [(*one, *options) for one in listed])
    rows = []
    for (name, seed), pieces in zip(listed, found, strict=True):
        by = {(half, method): values for half, method, *values in pieces}
        for half in (0, 1):
            for k, rule in enumerate(RULES):
                values = [by.get((half, method), [np.nan, np.nan])[k] for method in METHODS]
                rows.append([name, seed, half, rule, *(f"{value:.6f}" for value in values)])
    tables.write_csv(
        settings.results / "gmeans.csv", ["set", "run", "half", "rule", *METHODS], rows
    )


def read(settings: Settings) -> dict[str, dict[str, dict[str, np.ndarray]]]:
    """G-means by rule, set and method, each an array of (runs, halves)."""
    found: dict[str, dict[str, dict[str, list[float]]]] = {rule: {} for rule in RULES}
    for row in tables.read_csv(settings.results / "gmeans.csv"):
        by_method = found[row["rule"]].setdefault(row["set"], {})
        for method in METHODS:
            by_method.setdefault(method, []).append(float(row[method]))
    order = [name for name in SETS if name in found[RULES[0]]]
    return {
        rule: {name: {m: np.reshape(v, (-1, 2)) for m, v in by_set[name].items()} for name in order}
        for rule, by_set in found.items()
    }
