"""
Labels that come late, and change
=================================

A fraud is reported weeks after the payment, and some reports are wrong. Score the payment first,
and learn it when its label comes. If the label is revised, unlearn the row with the old label and
learn it with the new one. The result equals a model of the present labels, up to rounding.
"""

# %%
# Labels come after 1 to 1,000 payments. Half of the large honest payments are reported as frauds by
# mistake. These labels are revised 500 payments later.
import heapq

import matplotlib.pyplot as plt
import numpy as np

from counterpoise import BalancedRidgeClassifier

rng = np.random.default_rng(2)
n, d = 5000, 6
y = (rng.random(n) < 0.05).astype(int)
X = rng.standard_normal((n, d)) + 0.8 * y[:, None]
first = np.where((rng.random(n) < 0.5) & (y == 0) & (X[:, 0] > 1.2), 1, y)

waiting = []
for t in range(n):
    arrival = t + int(rng.integers(1, 1000))
    heapq.heappush(waiting, (arrival, t, "learn"))
    if first[t] != y[t]:
        heapq.heappush(waiting, (arrival + 500, t, "revise"))

# %%
# ``naive`` keeps the first reports; ``model`` follows the revisions.
model, naive = BalancedRidgeClassifier(), BalancedRidgeClassifier()
scores = {"revised": np.full(n, np.nan), "first labels": np.full(n, np.nan)}
for t in range(n):
    while waiting and waiting[0][0] <= t:
        _, row, what = heapq.heappop(waiting)
        x = X[row : row + 1]
        if what == "learn":
            model.partial_fit(x, first[row : row + 1])
            naive.partial_fit(x, first[row : row + 1])
        else:
            model.unlearn(x, first[row : row + 1]).partial_fit(x, y[row : row + 1])
    for name, one in zip(scores, (model, naive), strict=True):
        if hasattr(one, "classes_") and len(one.classes_) == 2:
            scores[name][t] = one.decision_function(X[t : t + 1])[0]

# %%
# Share of the true frauds among the 5% of the highest scores, over windows of 1,000 payments.
fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
starts = range(500, n - 1000, 250)
for name, f in scores.items():
    share = []
    for s in starts:
        window = slice(s, s + 1000)
        highest = np.argsort(np.nan_to_num(f[window], nan=-9))[-50:]
        share.append(y[window][highest].mean())
    ax.plot([s + 1000 for s in starts], share, label=name)
ax.set(xlabel="payment", ylabel="frauds among the 50 highest of 1,000", ylim=(0, 1))
ax.legend()
plt.show()

# %%
# Once all labels are in, the model is the one that learned the final labels only.
for _, row, what in sorted(waiting):
    x = X[row : row + 1]
    if what == "learn":
        model.partial_fit(x, first[row : row + 1])
    else:
        model.unlearn(x, first[row : row + 1]).partial_fit(x, y[row : row + 1])
batch = BalancedRidgeClassifier().fit(X, y)
print(f"largest difference of a weight: {np.abs(model.coef_ - batch.coef_).max():.1e}")
