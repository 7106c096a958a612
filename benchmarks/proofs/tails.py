"""Probabilities in the far tail: predicted over true, where 0.2% of the rows are positive."""

import argparse

import numpy as np
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from benchmarks import report
from counterpoise import AutoClassifier, BalancedRidgeClassifier

SHARE, FEATURES = 0.002, 8
WORLDS = ("logistic", "heavy-tailed", "interactions")
TOPS = (1e-4, 1e-3, 1e-2)
MISS_COST = 50.0


def log_odds(world, rows, seed):
    """Rows, and their true log-odds up to a constant."""
    rng = np.random.default_rng(seed)
    w = np.random.default_rng(7).standard_normal(FEATURES)
    w /= np.linalg.norm(w)
    if world == "heavy-tailed":
        X = rng.standard_t(3, (rows, FEATURES))
        return X, 0.9 * np.clip(X, -15.0, 15.0) @ w, rng
    X = rng.standard_normal((rows, FEATURES))
    if world == "logistic":
        return X, 1.6 * X @ w, rng
    products = 0.5 * X[:, 0] * X[:, 1] - 0.5 * X[:, 2] * X[:, 3] + 0.3 * (X[:, 4] ** 2 - 1.0)
    return X, 1.1 * X @ w + products, rng


def constant(world):
    """The constant that gives the share of positive rows."""
    _, f, _ = log_odds(world, 400_000, 999)
    low, high = -30.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (low, middle) if expit(f + middle).mean() > SHARE else (middle, high)
    return low


def sample(world, rows, seed, b):
    """Rows, true probabilities and labels."""
    X, f, rng = log_odds(world, rows, seed)
    p = expit(f + b)
    return X, p, (rng.random(rows) < p).astype(int)


def models():
    """Name, and a function of rows, labels and new rows that returns probabilities."""

    def ours(model):
        return lambda X, y, new: model.fit(X, y).predict_stream_proba(new)[:, 1]

    def theirs(model):
        return lambda X, y, new: model.fit(X, y).predict_proba(new)[:, 1]

    yield "BalancedRidgeClassifier", ours(BalancedRidgeClassifier())
    yield "BalancedRidgeClassifier, calibrate=True", ours(BalancedRidgeClassifier(calibrate=True))
    yield "AutoClassifier", ours(AutoClassifier())
    yield "LogisticRegression", theirs(LogisticRegression(max_iter=300))
    boosting = HistGradientBoostingClassifier(random_state=0)
    yield "HistGradientBoosting", theirs(boosting)
    yield (
        "HistGradientBoosting, CalibratedClassifierCV",
        theirs(CalibratedClassifierCV(boosting, cv=3)),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    lines = []
    for world in WORLDS:
        b = constant(world)
        new, true, _ = sample(world, 500_000, 2, b)
        samples = [sample(world, options.rows, 101 + seed, b) for seed in range(options.seeds)]
        alert = MISS_COST * true > 1.0 - true
        least = np.where(alert, 1.0 - true, MISS_COST * true).mean()
        loss = -(true * np.log(true) + (1.0 - true) * np.log1p(-true)).mean()
        for name, predicted in models():
            tops, losses, costs = [], [], []
            for X, _, y in samples:
                q = np.clip(predicted(X, y, new), 1e-12, 1.0 - 1e-12)
                order = np.argsort(-q)
                some = [order[: int(top * len(q))] for top in TOPS]
                tops.append([q[rows].mean() / true[rows].mean() for rows in some])
                losses.append(-(true * np.log(q) + (1.0 - true) * np.log1p(-q)).mean())
                alert = MISS_COST * q > 1.0 - q
                costs.append(np.where(alert, 1.0 - true, MISS_COST * true).mean())
            middle = np.exp(np.log(tops).mean(axis=0))
            span = f"{np.min(tops, axis=0)[0]:.2f} to {np.max(tops, axis=0)[0]:.2f}"
            never = MISS_COST * true.mean()
            lines.append(
                [world, name, f"{middle[0]:.2f}", span, f"{middle[1]:.2f}", f"{middle[2]:.2f}"]
                + [f"{np.mean(losses) / loss:.3f}", f"{np.mean(costs) / least:.3f}"]
                + [f"{never / least:.3f}"]
            )
            print(lines[-1], flush=True)
    head = ["world", "model", "top 0.01%", "of single seeds", "top 0.1%", "top 1%"]
    head += ["log loss", "cost", "cost of never alerting"]
    report.write(
        "tails",
        "Probabilities in the far tail",
        f"{options.rows:,} rows with {FEATURES} features were learned, of which 0.2% are positive, "
        f"and 500,000 others predicted; {options.seeds} seeds. The true probabilities of these "
        "synthetic rows are known. The top rows are those with the highest predictions: given is "
        "the mean prediction over the mean true probability, as the geometric mean of the seeds. "
        f"Log loss and cost (a miss costs {MISS_COST:g} false alarms) are expectations by the true "
        "probabilities, relative to the true probabilities as predictions. "
        "logistic: normal features, linear log-odds. heavy-tailed: features with Student's t "
        "distribution of 3 degrees, log-odds linear in them up to 15. interactions: log-odds with "
        "two products and a square. The form of the calibration curve was chosen on other seeds of "
        "these worlds. " + report.machine("numpy", "scikit-learn"),
        report.table(head, lines),
    )


if __name__ == "__main__":
    main()
