"""
Feature maps and their boundaries along a stream
================================================

``feature_map=`` maps the features before the moments are computed. The model stays exact, and its
boundary becomes nonlinear. The animation shows three boundaries while the rows of two moons arrive.
"""

# %%
# Two moons. The smaller one has 10% of the rows.
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation
from sklearn.datasets import make_moons

from counterpoise import BalancedRidgeClassifier

X, y = make_moons((1800, 200), noise=0.18, random_state=0)
order = np.random.default_rng(0).permutation(len(X))
X, y = X[order], y[order]
models = {
    "linear": BalancedRidgeClassifier(),
    "pooled_rows=20": BalancedRidgeClassifier(pooled_rows=20),
    "poly3": BalancedRidgeClassifier(feature_map="poly3"),
    "rff:200": BalancedRidgeClassifier(feature_map="rff:200", ridge="gcv"),
}

# %%
# One frame for every 80 rows: the rows so far, and the boundary of each model.
u, v = np.meshgrid(np.linspace(-1.8, 2.8, 80), np.linspace(-1.3, 1.8, 60))
grid = np.column_stack([u.ravel(), v.ravel()])
fig, axes = plt.subplots(1, 4, figsize=(10, 2.6), layout="constrained", sharey=True)


def draw(k):
    chunk = slice(80 * k, 80 * (k + 1))
    seen = slice(0, chunk.stop)
    for ax, (name, model) in zip(axes, models.items(), strict=True):
        model.partial_fit(X[chunk], y[chunk])
        f = model.decision_function(grid).reshape(u.shape)
        ax.clear()
        ax.contourf(u, v, f, levels=[-1e9, 0, 1e9], colors=["#dfe8f3", "#f6dfd8"])
        for label, colour in ((0, "#3b6ea5"), (1, "#c8553d")):
            at = y[seen] == label
            ax.plot(*X[seen][at].T, ".", ms=2, color=colour)
        ax.set(title=name, xticks=[], yticks=[], xlabel=f"{chunk.stop} rows")


movie = FuncAnimation(fig, draw, frames=20, init_func=lambda: None, interval=400)
plt.show()
