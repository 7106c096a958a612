"""Cost per row of every online rule, test-then-train on arrays, next to NumPy and river."""

import time

import numpy as np
from river import linear_model
from threadpoolctl import threadpool_limits

from benchmarks import report
from counterpoise.online import (
    ACOG,
    AROW,
    ARRLS,
    IRRLS,
    LS,
    NRRLS,
    RLS,
    TER,
    ConfidenceWeighted,
    PassiveAggressive,
    Perceptron,
    SoftConfidenceWeighted,
)

WIDTHS, ROWS, ROUNDS = (8, 22, 72, 166), 20_000, 5
RULES = {
    "Perceptron": (Perceptron(), ROWS),
    "PassiveAggressive": (PassiveAggressive(), ROWS),
    "ConfidenceWeighted": (ConfidenceWeighted(), ROWS),
    "ConfidenceWeighted, diagonal": (ConfidenceWeighted(covariance="diagonal"), ROWS),
    "SoftConfidenceWeighted": (SoftConfidenceWeighted(), ROWS),
    "AROW": (AROW(), ROWS),
    "AROW, diagonal": (AROW(covariance="diagonal"), ROWS),
    "ACOG": (ACOG(), ROWS),
    "RLS": (RLS(), ROWS),
    "ARRLS": (ARRLS(), ROWS),
    "NRRLS": (NRRLS(), 500),
    "LS, solved at every step": (LS(), 1_000),
    "TER, solved at every step": (TER(), 1_000),
    "IRRLS, first 1,000 rows": (IRRLS(), 1_000),
}


def draw(d, rows=ROWS):
    """Return rows and labels, 10% of them positive."""
    rng = np.random.default_rng(d)
    y = (rng.random(rows) < 0.1).astype(int)
    return rng.standard_normal((rows, d)) + 0.3 * y[:, None], y


def numpy_rls(X, y):
    """Compute RLS by a plain rank-one loop of NumPy."""
    X, target = np.column_stack([X, np.ones(len(X))]), 2.0 * y - 1.0
    P, w = np.eye(X.shape[1]) / 1e-4, np.zeros(X.shape[1])
    scores = np.empty(len(y))
    for t in range(len(y)):
        x = X[t]
        scores[t] = x @ w
        g = P @ x
        g_scaled = g / (1.0 + x @ g)
        w += g_scaled * (target[t] - scores[t])
        P -= np.outer(g_scaled, g)
    return scores


def river_pa(X, y):
    """Run river's passive-aggressive classifier."""
    model = linear_model.PAClassifier(C=1.0, mode=1)
    names = [str(j) for j in range(X.shape[1])]
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        x = dict(zip(names, row, strict=True))
        model.predict_one(x)
        model.learn_one(x, bool(label))


def measure(d, rounds):
    """Return microseconds per row, best of several rounds in which all rules take a turn."""
    X, y = draw(d)
    runners = {
        name: (lambda r=rule, n=n: type(r)(**r.get_params()).progressive_scores(X[:n], y[:n]), n)
        for name, (rule, n) in RULES.items()
    }
    runners["NumPy rank-one RLS"] = (lambda: numpy_rls(X[:4000], y[:4000]), 4000)
    runners["river PAClassifier"] = (lambda: river_pa(X[:3000], y[:3000]), 3000)
    best = dict.fromkeys(runners, np.inf)
    for _ in range(rounds):
        for name, (run, n) in runners.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], (time.perf_counter() - start) / n * 1e6)
    return best


def growth(d=22):
    """Return the cost per row of IR-RLS and NR-RLS as the stream grows."""
    X, y = draw(d, 4_000)
    rows = []
    for name, rule in (("IRRLS", IRRLS()), ("NRRLS", NRRLS()), ("RLS", RLS())):
        cells = []
        for i in range(0, 4_000, 1_000):
            start = time.perf_counter()
            rule.progressive_scores(X[i : i + 1_000], y[i : i + 1_000], classes=[0, 1])
            cells.append(f"{(time.perf_counter() - start) / 1e3 * 1e6:.2f}")
        rows.append([name, *cells])
    return rows


if __name__ == "__main__":
    options = report.parse(__doc__, rounds=ROUNDS)
    with threadpool_limits(1):
        results = {d: measure(d, options.rounds) for d in WIDTHS}
        grown = growth()
    names = results[8]
    rows = [[name, *[f"{results[d][name]:.2f}" for d in WIDTHS]] for name in names]
    ratios = [
        ["NumPy rank-one RLS / RLS", "NumPy rank-one RLS", "RLS"],
        ["river PAClassifier / PassiveAggressive", "river PAClassifier", "PassiveAggressive"],
        ["river PAClassifier / Perceptron", "river PAClassifier", "Perceptron"],
        ["NRRLS / RLS", "NRRLS", "RLS"],
    ]
    report.write(
        "online",
        "The online rules",
        "Test-then-train on arrays, 10% minority, with a constant feature: `progressive_scores` "
        f"on {ROWS:,} rows (500 of NR-RLS, 1,000 of LS, TER and IR-RLS, 4,000 of NumPy, 3,000 of "
        f"river), one BLAS thread. Microseconds per row, best of {options.rounds} rounds in which "
        "all rules take a turn.",
        report.table(["rule", *[f"d = {d}" for d in WIDTHS]], rows),
        "Ratios of these figures:",
        report.table(
            ["ratio", *[f"d = {d}" for d in WIDTHS]],
            [
                [name, *[f"{results[d][one] / results[d][two]:.1f}" for d in WIDTHS]]
                for name, one, two in ratios
            ],
        ),
        "Microseconds per row at d = 22 as the stream grows, one run: IR-RLS revisits every "
        "row of the arriving class.",
        report.table(["rule", "rows 1–1,000", "1,001–2,000", "2,001–3,000", "3,001–4,000"], grown),
    )
