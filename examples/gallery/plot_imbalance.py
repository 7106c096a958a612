"""
From 1:1 to 1:10,000
====================

A classifier with equal weights for all rows predicts the rare class less often as it gets rarer.
Balanced weights keep both recalls at one level, as long as the rare class has enough rows.
"""

# %%
# Both classes have the same distribution in every stream, and only their frequencies change. Each
# model learns 200,000 rows in chunks. The test set has equally many rows of each class.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import SGDClassifier

from counterpoise import BalancedRidgeClassifier

rng = np.random.default_rng(0)
d, n = 8, 200_000


def rows(n, ratio):
    y = (rng.random(n) < 1 / (1 + ratio)).astype(int)
    return rng.standard_normal((n, d)) + 0.7 * y[:, None], y


ratios = [1, 10, 100, 1000, 10_000]
recalls = {"BalancedRidgeClassifier": [], "SGDClassifier": []}
X_test, y_test = rows(20_000, 1)
for ratio in ratios:
    models = BalancedRidgeClassifier(), SGDClassifier(loss="log_loss", random_state=0)
    X, y = rows(n, ratio)
    for name, model in zip(recalls, models, strict=True):
        for i in range(0, n, 20_000):
            chunk = slice(i, i + 20_000)
            model.partial_fit(X[chunk], y[chunk], classes=[0, 1])
        guess = model.predict(X_test)
        recalls[name].append([(guess[y_test == k] == k).mean() for k in (0, 1)])

# %%
# Solid: recall of the rare class. Dashed: recall of the common one.
fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
for name, values in recalls.items():
    common, rare = np.transpose(values)
    (line,) = ax.semilogx(ratios, rare, "o-", label=name)
    ax.semilogx(ratios, common, "o--", color=line.get_color())
ax.set(xlabel="common rows for each rare one", ylabel="recall", ylim=(-0.03, 1.03))
ax.legend()
plt.show()
