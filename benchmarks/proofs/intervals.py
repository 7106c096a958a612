"""Coverage of the 95% intervals of ``summary``, on streams that meet their assumptions.

Classes are normal, each with its own covariance. The true coefficients are those of the whole
population with the same class weights.
"""

import numpy as np

from benchmarks import report
from counterpoise import BalancedRidgeClassifier

WAYS = {
    "balanced, 5% minority": ({}, 0.05, 2000),
    "balanced, half and half": ({}, 0.5, 400),
    "balanced, 1% minority": ({}, 0.01, 10000),
    "costs 5:1": ({"class_factors": {1: 5.0}}, 0.1, 1500),
    "ordinary least squares": ({"class_weight": None}, 0.2, 1000),
    "free intercept": ({"penalize_intercept": False}, 0.1, 1500),
    "no intercept, not scaled": ({"fit_intercept": False, "scale": None}, 0.3, 800),
}
MIN_COVERAGE, MAX_COVERAGE = 0.93, 0.97


class Population:
    """Two normal classes of d features."""

    def __init__(self, d=5, seed=0):
        rng = np.random.default_rng(seed)
        self.mean = np.stack([np.zeros(d), rng.standard_normal(d) * 0.6]) + 0.5
        self.root = rng.standard_normal((2, d, d)) / np.sqrt(d) + np.eye(d)

    def stream(self, rows, share, rng):
        rare = max(round(share * rows), 1)
        y = rng.permutation(np.repeat([0, 1], [rows - rare, rare]))
        Z = rng.standard_normal((rows, self.mean.shape[1]))
        return self.mean[y] + np.einsum("ij,ijk->ik", Z, self.root[y]), y

    def weights(self, params, share):
        """Return the coefficients of least squares on the population, without a ridge."""
        a = np.array([1.0, 1.0]) if params.get("class_weight", 1) else np.array([1 - share, share])
        a = a * [params.get("class_factors", {}).get(k, 1.0) for k in (0, 1)]
        phi = np.column_stack([np.ones(2), self.mean])
        R = np.einsum("k,ki,kj->ij", a, phi, phi)
        R[1:, 1:] += np.einsum("k,kij,kil->jl", a, self.root, self.root)
        z = (a * [-1.0, 1.0]) @ phi
        if not params.get("fit_intercept", True):
            return np.linalg.solve(R[1:, 1:], z[1:])
        return np.linalg.solve(R, z)[1:]


def coverage(params, share, rows, streams, seed=0):
    """Return the share of intervals that contain the true coefficient, by feature."""
    population = Population(seed=seed)
    truth, rng = population.weights(params, share), np.random.default_rng(seed + 1)
    covered = np.zeros(len(truth))
    for _ in range(streams):
        X, y = population.stream(rows, share, rng)
        model = BalancedRidgeClassifier(**params)
        for part in np.array_split(np.arange(rows), 3):
            model.partial_fit(X[part], y[part])
        found = model.summary()
        scaled = truth * found.scale
        covered += (found.low[0] <= scaled) & (scaled <= found.high[0])
    return covered / streams


def main():
    """Write the table."""
    streams, rows, bad = report.parse(__doc__, streams=1000).streams, [], []
    for name, (params, share, n) in WAYS.items():
        found = coverage(params, share, n, streams)
        bad += [] if MIN_COVERAGE <= found.mean() <= MAX_COVERAGE else [name]
        rows.append(
            [name, f"{n:,}", f"{found.mean():.3f}", f"{found.min():.3f}", f"{found.max():.3f}"]
        )
    result = f"Outside of 93 to 97%: {', '.join(bad) or 'none'}."
    report.write(
        "intervals",
        "Coverage of the 95% intervals of `summary()`",
        f"{streams:,} streams of two normal classes with different covariances for each line, five "
        "features. Share of the intervals that contain the coefficient of the population, over all "
        f"features, and for the worst and the best of them. {result}",
        report.table(["stream", "rows", "covered", "least", "most"], rows),
    )  # fmt: skip


if __name__ == "__main__":
    main()
