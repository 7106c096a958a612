"""Decisions by expected cost: what they cost, beside never alerting and the best threshold."""

import argparse

import numpy as np
from sklearn.model_selection import StratifiedKFold

from counterpoise import BalancedRidgeClassifier
from counterpoise.datasets import load

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


def bill(y, alert, ratio):
    """Cost of alerts at a price of 1 for a false alarm and ``ratio`` for a miss."""
    return float(ratio * (y & ~alert).sum() + (~y & alert).sum())


def least(y, p, ratio):
    """Cost of the best threshold in hindsight, on the same probabilities."""
    order = np.argsort(-p, kind="stable")
    hit = y[order]
    cost = ratio * (hit.sum() - np.cumsum(hit)) + np.cumsum(~hit)
    ends = np.append(np.diff(p[order]) != 0, True)  # equal scores alert together
    return float(min(ratio * hit.sum(), cost[ends].min()))


def scored(X, y, runs, fold=2):
    """True labels and stream probabilities of rows that were not learned."""
    for run in range(runs):
        for train, test in StratifiedKFold(fold, shuffle=True, random_state=run).split(X, y):
            train = np.random.default_rng(run).permutation(train)
            model = BalancedRidgeClassifier(calibrate=True)
            for start in range(0, len(train), CHUNK):
                rows = train[start : start + CHUNK]
                model.partial_fit(X[rows], y[rows], classes=[0, 1])
            yield y[test] == 1, model.stream_proba(X[test])[:, 1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    for name, X, y in sets():
        found = list(scored(X, y, options.runs))
        for ratio in RATIOS:
            ours = [bill(t, p * ratio >= 1.0 - p, ratio) for t, p in found]
            never = [ratio * t.sum() for t, _ in found]
            best = [least(t, p, ratio) for t, p in found]
            pool = least(
                np.concatenate([t for t, _ in found]), np.concatenate([p for _, p in found]), ratio
            )
            print(
                f"{name:16} {y.mean():.4f} {ratio:5.0f} ours {sum(ours):9.0f} never {sum(never):9.0f} best {sum(best):9.0f} pooled {pool:9.0f} ratio {sum(ours) / sum(best):.3f} {sum(ours) / pool:.3f} above never {sum(o > n for o, n in zip(ours, never))}/{len(ours)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
