"""Long noisy streams: does every rule keep a sound covariance and its G-mean to the end?"""

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
from paper.protocol import g_mean

from benchmarks import report
from counterpoise import BalancedRidgeClassifier
from counterpoise.online import (
    ACOG,
    AROW,
    ARRLS,
    IRRLS,
    NRRLS,
    RLS,
    ConfidenceWeighted,
    PassiveAggressive,
    Perceptron,
    SoftConfidenceWeighted,
)

ROWS, CHUNK, D = 10_000_000, 100_000, 10
RULES = {
    "PE": Perceptron,
    "PA": PassiveAggressive,
    "PA-I": lambda: PassiveAggressive(variant="PA-I"),
    "PA-II": lambda: PassiveAggressive(variant="PA-II"),
    "CW, deviation": ConfidenceWeighted,
    "CW, deviation, diagonal": lambda: ConfidenceWeighted(covariance="diagonal"),
    "CW, variance": lambda: ConfidenceWeighted(form="variance"),
    "CW, variance, diagonal": lambda: ConfidenceWeighted(form="variance", covariance="diagonal"),
    "SCW-I": SoftConfidenceWeighted,
    "SCW-I, diagonal": lambda: SoftConfidenceWeighted(covariance="diagonal"),
    "SCW-II": lambda: SoftConfidenceWeighted(variant="II"),
    "SCW-II, diagonal": lambda: SoftConfidenceWeighted(variant="II", covariance="diagonal"),
    "AROW": AROW,
    "AROW, diagonal": lambda: AROW(covariance="diagonal"),
    "AROW, diagonal-drop": lambda: AROW(covariance="diagonal-drop"),
    "ACOG I": lambda: ACOG(loss="I"),
    "ACOG II": ACOG,
    "ACOG II, diagonal": lambda: ACOG(covariance="diagonal"),
    "RLS": RLS,
    "AR-RLS": ARRLS,
    "AR-RLS, count": lambda: ARRLS(weighting="count"),
    "ours": BalancedRidgeClassifier,
}
COSTLY = {  # d³ a row; IR-RLS goes back to all rows of a class for each
    "NR-RLS, {rows:,} rows": (NRRLS, 1_000_000),
    "NR-RLS, symmetrised, {rows:,} rows": (lambda: NRRLS(symmetrize=True), 1_000_000),
    "IR-RLS, {rows:,} rows": (IRRLS, 5_000),
}


def noisy(chunk, seed):
    """Gaussian features, a fifth of rows positive, then one label in ten turned round."""
    rng = np.random.default_rng([seed, chunk])
    y = np.where(rng.random(CHUNK) < 0.2, 1, -1)
    X = rng.standard_normal((CHUNK, D))
    X[:, 1:] += 0.5 * X[:, :-1]
    X[y > 0] += np.linspace(0.0, 2.0, D)
    return X, np.where(rng.random(CHUNK) < 0.1, -y, y)


def collinear(chunk, seed):
    """The same, but one feature twice and five that say which of five kinds a row is."""
    X, y = noisy(chunk, seed)
    kinds = np.digitize(X[:, 5], [-1.5, -0.5, 0.5, 1.5])
    X[:, 4] = X[:, 3]
    X[:, 5:] = np.eye(5)[kinds]
    return X, y


def spread(rule):
    """Smallest over largest eigenvalue of the covariance."""
    if isinstance(rule, BalancedRidgeClassifier | Perceptron | PassiveAggressive):
        return "-"
    S = rule._state.S
    if isinstance(rule, NRRLS):
        values = np.linalg.eigvalsh((S[0] + S[0].T) / 2.0)
    else:  # the factor tells what a product of two would round away
        values = S if S.ndim == 1 else np.linalg.svd(S, compute_uv=False) ** 2
    return f"{values.min() / values.max():.0e}"


def race(stream, rows, rules):
    """By rule: G-mean in each tenth of a stream, and how far eigenvalues are apart in the end."""
    running = {name: make() for name, make in rules.items()}
    tenths, results = rows // 10, {name: [] for name in rules}
    chunk = min(CHUNK, tenths)
    kept, found = [], {name: [] for name in rules}
    for i in range(rows // chunk):
        X, y = (part[:chunk] for part in stream(i, 0))
        kept.append(y)
        for name, rule in list(running.items()):
            try:
                found[name].append(rule.progressive_scores(X, y, classes=[-1, 1]))
            except ValueError as error:
                results[name].append(str(error).split(";")[0])
                del running[name]
        if (i + 1) * chunk % tenths == 0:
            for name in running:
                results[name].append(
                    float(g_mean(np.concatenate(kept), np.concatenate(found[name])))
                )
                found[name] = []
            kept = []
            print(f"{stream.__name__}: {(i + 1) * chunk:,} rows", file=sys.stderr, flush=True)
    return [
        [name, *([spread(running[name])] if name in running else ["lost"])]
        + [value if isinstance(value, str) else f"{value:.3f}" for value in results[name]]
        for name in rules
    ]


def table(stream):
    """All rules on one stream."""
    rows = race(stream, ROWS, RULES)
    for name, (make, count) in COSTLY.items():
        rows += race(stream, count, {name.format(rows=count): make})
    head = ["rule", "smallest / largest eigenvalue", *(f"{k}" for k in range(1, 11))]
    return f"## {stream.__name__.capitalize()}\n\n{report.table(head, rows)}"


def main():
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        parts = list(pool.map(table, (noisy, collinear)))
    report.write(
        "noisy",
        "Long noisy streams",
        f"G-mean by tenth of a stream of {ROWS:,} rows (fewer where the name says so), each "
        "scored before it was learned, and the eigenvalues of the covariance of the "
        "weights in the end, relative to each other. A fifth of the rows are positive, then one "
        "label in ten is turned round. *Collinear*: one feature is there twice, and five say which "
        "of five kinds a row is and so add up to the constant. Defaults, features as they come, "
        f"seeded chunks of {CHUNK:,} rows. First-order rules and ours, which solves anew from "
        "sums, carry no covariance.",
        *parts,
        report.machine("numpy", "scipy"),
    )


if __name__ == "__main__":
    main()
