"""
The recursion drifts, the sums do not
=====================================

The paper's recursion updates an inverse at every row. Each update rounds, and nothing takes the rounding
back. Sums round too, but their error does not grow by itself: the weights of a million rows are as good as
those of a thousand. Here both learn the same ill-scaled stream, and are compared with a batch solution of
everything so far.
"""

# %%
# A stream with one feature that is a thousand times larger than the others, as amounts beside counts are.
import matplotlib.pyplot as plt
import numpy as np

from counterpoise import BalancedRidgeClassifier
from counterpoise.online import NRRLS

rng = np.random.default_rng(0)
n, d = 40_000, 12
y = (rng.random(n) < 0.1).astype(int)
X = rng.standard_normal((n, d)) + 0.5 * y[:, None]
X[:, 0] = 1000.0 + 1000.0 * X[:, 0]

# %%
# Both learn the rows once. Every 2,000 rows we solve the batch problem and measure how far they are from it.
exact = BalancedRidgeClassifier(scale=None, ridge=1e-4)
recursion = NRRLS()
at, errors = [], {"BalancedRidgeClassifier": [], "NRRLS, the recursion": []}
for i in range(0, n, 2000):
    rows = slice(i, i + 2000)
    exact.partial_fit(X[rows], y[rows])
    recursion.partial_fit(X[rows], y[rows], classes=[0, 1])
    batch = BalancedRidgeClassifier(scale=None, ridge=1e-4).fit(X[: i + 2000], y[: i + 2000])
    f = batch.decision_function(X[:500])
    at.append(i + 2000)
    for name, model in zip(errors, (exact, recursion), strict=True):
        errors[name].append(np.abs(model.decision_function(X[:500]) - f).max())

# %%
# The picture has a logarithmic scale.
fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
for name, values in errors.items():
    ax.semilogy(at, np.maximum(values, 1e-17), label=name)
ax.set(xlabel="rows learned", ylabel="largest error of a score")
ax.legend()
plt.show()
