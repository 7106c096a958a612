"""Exact weights at every step: cost against our own compiled RLS, and how it grows with d."""

import time

import numpy as np
import report
from threadpoolctl import threadpool_limits

from counterpoise import BalancedRidgeClassifier
from counterpoise.exact import progressive
from counterpoise.online import RLS

WIDTHS, ROUNDS = (8, 22, 40, 72, 110, 166, 512), 3


def stream(d):
    rng = np.random.default_rng(d)
    rows = 20_000 if d <= 166 else 5_000
    y = (rng.random(rows) < 0.1).astype(int)
    return rng.standard_normal((rows, d)) + 0.3 * y[:, None], y


def paths(d, X, y):
    """RLS, elimination and blocks, as the switch allows."""
    yield "RLS", lambda: RLS().progressive_scores(X, y)
    for name, wide in (("elimination", 10**9), ("blocks", 1)):
        if name == "blocks" or d <= 166:

            def run(wide=wide):
                progressive.WIDE = wide
                BalancedRidgeClassifier().progressive_scores(X, y)

            yield name, run


if __name__ == "__main__":
    switch, results = progressive.WIDE, {}
    with threadpool_limits(1):
        for d in WIDTHS:
            X, y = stream(d)
            best = {}
            for _ in range(ROUNDS):
                for name, run in paths(d, X, y):
                    start = time.perf_counter()
                    run()
                    spent = (time.perf_counter() - start) / len(y) * 1e6
                    best[name] = min(best.get(name, np.inf), spent)
            best["chosen"] = best["elimination" if d < switch else "blocks"]
            results[d] = best
    rows = [
        [
            f"{d}",
            f"{r['RLS']:.2f}",
            f"{r['elimination']:.2f}" if "elimination" in r else "",
            f"{r['blocks']:.2f}",
            f"{r['chosen'] / r['RLS']:.1f}",
        ]
        for d, r in results.items()
    ]
    exponent = np.log(results[512]["chosen"] / results[72]["chosen"]) / np.log(512 / 72)
    report.write(
        "progressive",
        "Exact weights at every step",
        "`progressive_scores` of BalancedRidgeClassifier, 10 % minority, n = 20,000 (5,000 at "
        f"d = 512), one BLAS thread; microseconds per sample, best of {ROUNDS} rounds in which all "
        f"take a turn. Blocks take over at d = {switch}. " + report.machine("numpy", "scipy"),
        report.table(["d", "RLS", "elimination", "blocks", "chosen / RLS"], rows),
        f"From d = 72 to 512 the cost of the chosen path grows like d^{exponent:.2f}.",
    )
