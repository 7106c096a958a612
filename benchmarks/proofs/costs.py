"""Decisions by expected cost: what they cost, beside never alerting and the best threshold."""

import argparse

import numpy as np
from paper.datasets import load
from sklearn.model_selection import StratifiedKFold

from benchmarks import report
from counterpoise import BalancedRidgeClassifier, CostSensitiveClassifier
from counterpoise.evaluate.cost_curve import cost_curve

RATIOS = (5.0, 20.0, 100.0)
MOST_ROWS = 20_000
CHUNK = 256


def rare(X, y, share, rows, seed=0):
    """So many rows, of which this share is of the rarer class."""
    rng = np.random.default_rng(seed)
    few = rng.permutation(np.flatnonzero(y == 1))[: int(share * rows)]
    many = rng.permutation(np.flatnonzero(y != 1))[: rows - len(few)]
    kept = rng.permutation(np.concatenate([few, many]))
    return X[kept], (y[kept] == 1).astype(int)


def sets():
    """Name, rows, labels."""
    for name in ("pima-diabetes", "spambase", "ozone-eight", "ozone-one"):
        X, y = load(name)
        yield name, X, (y == 1).astype(int)
    X, y = load("ijcnn1")
    kept = np.random.default_rng(0).permutation(len(y))[:MOST_ROWS]
    yield "ijcnn1", X[kept], (y[kept] == 1).astype(int)
    yield "ijcnn1, 1 %", *rare(X, y, 0.01, MOST_ROWS)
    yield "skin, 0.4 %", *rare(*load("skin-nonskin"), 0.004, MOST_ROWS)
    yield "cod-rna, 0.2 %", *rare(*load("cod-rna"), 0.002, MOST_ROWS)


def decided(X, y, runs):
    """True labels, stream probabilities and decisions at each price, of rows that were not learned.

    Halves of each set learn and decide in turn.
    """
    for run in range(runs):
        for train, test in StratifiedKFold(2, shuffle=True, random_state=run).split(X, y):
            train = np.random.default_rng(run).permutation(train)
            model = CostSensitiveClassifier(BalancedRidgeClassifier(calibrate=True))
            for start in range(0, len(train), CHUNK):
                rows = train[start : start + CHUNK]
                model.partial_fit(X[rows], y[rows], classes=[0, 1])
            alerts = {}
            for ratio in RATIOS:
                model.costs = {1: ratio}
                alerts[ratio] = model.predict(X[test]) == 1
            yield y[test], model.predict_proba(X[test])[:, 1], alerts


def bill(y, alert, ratio):
    """Cost of alerts at a price of 1 for a false alarm and ``ratio`` for a miss."""
    return float(ratio * ((y == 1) & ~alert).sum() + ((y == 0) & alert).sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    lines, shares, apart, above, halves = [], [], [], 0, 0
    for name, X, y in sets():
        found = list(decided(X, y, options.runs))
        rows = sum(len(t) for t, _, _ in found)
        every = [np.concatenate(part) for part in zip(*[(t, p) for t, p, _ in found], strict=True)]
        for ratio in RATIOS:
            ours = [bill(t, alerts[ratio], ratio) for t, _, alerts in found]
            curves = [cost_curve(t, p, miss=ratio) for t, p, _ in found]
            whole = cost_curve(*every, miss=ratio)
            assert sum(ours) <= whole.never, f"{name} at {ratio}: above never alerting"
            shares.append(sum(ours) / whole.least)
            apart.append(sum(ours) / sum(curve.least for curve in curves))
            above += sum(o > c.never for o, c in zip(ours, curves, strict=True))
            halves += len(ours)
            unit = 1000.0 / rows
            lines.append(
                f"| {name} | {100 * y.mean():.2g} % | {ratio:g}:1 | {unit * sum(ours):.1f} | "
                f"{unit * whole.never:.1f} | {unit * whole.always:.1f} | "
                f"{unit * whole.least:.1f} | {shares[-1]:.3f} |"
            )
            print(lines[-1], flush=True)
    assert np.mean(shares) <= 1.1, np.mean(shares)
    head = (
        "| set | share | a miss : a false alarm | by price | never alert | always alert | "
        "best threshold | by price / best |\n|---|---:|---:|---:|---:|---:|---:|---:|"
    )
    report.write(
        "costs",
        "What decisions by price cost",
        f"Half of each set was learned, in chunks of {CHUNK} rows, and the other half decided by "
        "`CostSensitiveClassifier(BalancedRidgeClassifier(calibrate=True), costs={1: ratio})`, as "
        f"`predict --cost-miss` decides; {options.runs} times in both directions. Costs are of "
        "1,000 rows, in false alarms. The best threshold is one for all halves of a set, chosen "
        "in hindsight on the same probabilities. " + report.machine("numpy", "scikit-learn"),
        "\n".join([head, *lines]),
        f"Decisions by price cost {np.mean(shares):.3f} times the best threshold on average over "
        f"the {len(shares)} lines, and never more than never to alert. If every half could choose "
        "a threshold of its own in hindsight, by its few rows of the rare class, they would cost "
        f"{np.mean(apart):.3f} times that. Of {halves} single halves {above} cost more than never "
        "to alert would have; those are where the two differ little in the table.",
    )


if __name__ == "__main__":
    main()
