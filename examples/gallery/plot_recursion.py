"""
Drift of the recursion
======================

The paper's recursion propagates an inverse from row to row. If features are far from zero, such as
years and amounts, rounding in the first rows costs digits that later rows do not restore. Farther
from zero, the recursion fails. Moments about a moving center lose almost no digits. Both are
compared with a batch solution of the same rows.
"""

# %%
# One of twelve features moves away from zero, step by step. Each model learns 4,000 rows once.
import matplotlib.pyplot as plt
import numpy as np

from counterpoise import BalancedRidgeClassifier
from counterpoise.online import NRRLS, TER

rng = np.random.default_rng(0)
n, d = 4000, 12
y = (rng.random(n) < 0.1).astype(int)
X = rng.standard_normal((n, d)) + 0.5 * y[:, None]

far = 10.0 ** np.arange(6)
errors = {"NRRLS, the recursion": [], "BalancedRidgeClassifier": []}
for offset in far:
    rows = X.copy()
    rows[:, 0] += offset
    recursion, batch = NRRLS().fit(rows, y), TER().fit(rows, y)  # one problem, solved in two ways
    exact, moved = BalancedRidgeClassifier(), BalancedRidgeClassifier().fit(X, y)
    for i in range(0, n, 10):
        exact.partial_fit(rows[i : i + 10], y[i : i + 10])
    # Scaled features do not depend on the offset: the model at 0 is the truth.
    pairs = (recursion.decision_function(rows), batch.decision_function(rows)), (
        exact.decision_function(rows), moved.decision_function(X))  # fmt: skip
    for name, (f, truth) in zip(errors, pairs, strict=True):
        errors[name].append(np.abs(f - truth).max())

# %%
# Both scales are logarithmic.
fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
for name, values in errors.items():
    ax.loglog(far, np.maximum(values, 1e-17), "o-", label=name)
ax.set(xlabel="how far a feature is from zero, in deviations", ylabel="largest error of a score")
ax.legend()
plt.show()
