"""
Drift, class by class
=====================

With ``half_life`` old rows decay. Each class decays by its own rows, so a flood of rows of the
majority class does not erase the minority class.
"""

# %%
# The rare class moves after half of the stream; the common one stays.
import matplotlib.pyplot as plt
import numpy as np

from counterpoise import BalancedRidgeClassifier

rng = np.random.default_rng(3)
n, d = 20_000, 4
y = (rng.random(n) < 0.03).astype(int)
X = rng.standard_normal((n, d))
X[y == 1, 0] += 2.0
late = np.arange(n) >= n // 2
X[(y == 1) & late, 0] -= 2.0
X[(y == 1) & late, 1] += 2.0

# %%
# Every row is scored by the exact model of the rows before it.
fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
for half_life in (None, 1000, 100, 20):
    f = BalancedRidgeClassifier(half_life=half_life).progressive_scores(X, y)
    hit = {k: np.where(f > 0, 1, 0) == k for k in (0, 1)}
    at, g = range(1500, n, 250), []
    for t in at:
        window = slice(t - 1500, t)
        recall = [hit[k][window][y[window] == k].mean() for k in (0, 1)]
        g.append(np.sqrt(recall[0] * recall[1]))
    ax.plot(at, g, label="all rows alike" if half_life is None else f"half-life {half_life} rows")
ax.axvline(n // 2, color="grey", lw=0.8)
ax.set(xlabel="row", ylabel="G-mean of the last 1,500 rows", ylim=(0.3, 1.0))
ax.legend(title="of its class", loc="lower left")
plt.show()
