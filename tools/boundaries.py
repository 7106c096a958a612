"""Draw docs/boundaries.png: boundaries of linear, mapped and averaging models on three streams."""

from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

from counterpoise import AutoClassifier, BalancedRidgeClassifier

MODELS = {
    "linear": BalancedRidgeClassifier,
    "feature_map='rm3'": lambda: BalancedRidgeClassifier(feature_map="rm3", ridge="gcv"),
    "feature_map='rff:400'": lambda: BalancedRidgeClassifier(feature_map="rff:400", ridge="gcv"),
    "AutoClassifier": AutoClassifier,
}
RARE, COMMON = "#CC3311", "#0072B2"


def moons(rng, rare):
    """Return two half circles, one upside down within the other."""
    angle = np.pi * rng.random(len(rare))
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    X[rare] = [1.0, 0.4] - X[rare]
    return X + 0.18 * rng.standard_normal(X.shape)


def ring(rng, rare):
    """Return a spot within a ring."""
    angle = 2.0 * np.pi * rng.random(len(rare))
    radius = np.where(
        rare, 0.35 * rng.random(len(rare)), 0.9 + 0.25 * rng.standard_normal(len(rare))
    )
    return radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])


def stripes(rng, rare):
    """Return stripes of both classes, side by side."""
    X = rng.uniform(-1.5, 1.5, (len(rare), 2))
    X[:, 0] = rng.integers(-1, 2, len(rare)) + 0.5 * rare + 0.1 * rng.standard_normal(len(rare))
    return X


STREAMS = {"moons": moons, "a spot in a ring": ring, "stripes": stripes}


def sample(make, rows, seed):
    """Return rows of which one in ten is rare."""
    rng = np.random.default_rng(seed)
    rare = rng.random(rows) < 0.1
    return make(rng, rare), rare


def g_mean(y, found):
    """Return the G-mean of booleans."""
    return np.sqrt(found[y].mean() * (~found[~y]).mean())


def panel(axes, model, X, y, test, title):
    """Learn rows, and draw them with the boundary of the model."""
    model.fit(X, y)
    low, high = X.min(axis=0) - 0.2, X.max(axis=0) + 0.2
    grid = np.meshgrid(np.linspace(low[0], high[0], 240), np.linspace(low[1], high[1], 240))
    f = model.decision_function(np.column_stack([g.ravel() for g in grid])).reshape(grid[0].shape)
    axes.contourf(*grid, f > 0, levels=[-0.5, 0.5, 1.5], colors=["#E3EEF7", "#F8E0DA"])
    axes.contour(*grid, f, levels=[0.0], colors="#333333", linewidths=1.2)
    axes.plot(*X[~y].T, ".", color=COMMON, markersize=2.5)
    axes.plot(*X[y].T, "o", color=RARE, markersize=3.0)
    score = g_mean(test[1], model.predict(test[0]))
    axes.set_title(f"{title}\nG-mean {score:.3f}", fontsize=9)
    axes.set_xticks([])
    axes.set_yticks([])


if __name__ == "__main__":
    figure, grid = plt.subplots(3, 4, figsize=(10.0, 8.0))
    for row, (name, make) in zip(grid, STREAMS.items(), strict=True):
        X, y = sample(make, 600, 0)
        test = sample(make, 20_000, 1)
        for axes, (title, build) in zip(row, MODELS.items(), strict=True):
            model = build()
            panel(axes, model, X, y, test, title)
        row[0].set_ylabel(name, fontsize=10)
    figure.tight_layout()
    figure.savefig(Path(__file__).parent.parent / "docs" / "boundaries.png", dpi=110)
