"""Measurements of CPU time: of training, of the growth of IR-RLS, and of the width of a row."""

from __future__ import annotations

import numpy as np

from counterpoise.arrays import Labels

from .clock import seconds
from .datasets import load
from .methods import EXACT, LARGE, METHODS, TABLE_4
from .protocol import Fold, fold

COLUMNS = [*TABLE_4, EXACT]
PREFIXES = (1000, 2000, 4000, 8000)
WIDTHS = (4, 8, 16, 32, 64, 128, 256)
WIDE_METHODS = ("RLS", "NR-RLS", EXACT)

TIMED_TABLES = {
    "table4.csv",
    "growth.csv",
    "width.csv",
    "figure2_times.csv",
    "multiclass.csv",
    "figure3.csv",
}


def training_times(name: str, seed: int, full: bool) -> dict[str, float]:
    """Seconds of every method on the first half of one run."""
    X, y = load(name)
    chosen = {
        method: METHODS[method]()
        for method in COLUMNS
        if method != "IR-RLS" or len(X) < LARGE or (full and seed == 0)
    }
    return seconds(chosen, fold(X, y, seed, 0))


def growth(name: str) -> list[list[float]]:
    """Seconds of IR-RLS on prefixes of the first half of run 0, next to the rows it revisits."""
    X, y = load(name)
    one = fold(X, y, 0, 0)
    found = []
    for m in PREFIXES:
        part = Fold(0, 0, one.X[:m], one.y[:m], one.X_test, one.y_test)
        took = seconds({"IR-RLS": METHODS["IR-RLS"]()}, part)["IR-RLS"]
        found.append([m, count_revisited_rows(part.y), took])
    return [*found, [len(one.y), count_revisited_rows(one.y), float("nan")]]


def count_revisited_rows(y: Labels) -> int:
    """Rows that IR-RLS touches on a stream of these labels: Σ n_k (n_k + 1) / 2."""
    return int(sum(n * (n + 1) // 2 for n in ((y > 0).sum(), (y < 0).sum())))


def width_times(d: int) -> dict[str, float]:
    """Seconds for each row of a stream of d features."""
    rng = np.random.default_rng(d)
    n = 2_000 if d < 100 else 500
    y = np.where(rng.random(n) < 0.2, 1, -1)
    X = rng.random((n, d)) + 0.1 * (y > 0)[:, None]
    one = Fold(0, 0, X, y, X[:0], y[:0])
    took = seconds({method: METHODS[method]() for method in WIDE_METHODS}, one)
    return {method: value / n for method, value in took.items()}
