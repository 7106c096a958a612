"""
Merging models of hospitals
===========================

Each hospital learns its own rows and sends a model file: c·d² numbers and no rows. The merged model
equals one that learned the rows of all hospitals.
"""

# %%
# Four hospitals of different sizes and with different patients, from the breast cancer data of
# scikit-learn.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

from counterpoise import BalancedRidgeClassifier

data = load_breast_cancer()
X, y = data.data, 1 - data.target  # 1: malignant
order = np.argsort(X[:, 0] + np.random.default_rng(0).normal(0, 3, len(X)))
train, test = order[::2], order[1::2]
hospitals = np.split(train, [30, 90, 190])

# %%
# Four models of one hospital each. The fifth is the merger of all.
alone = [BalancedRidgeClassifier().fit(X[rows], y[rows]) for rows in hospitals]
merged = BalancedRidgeClassifier().fit(X[hospitals[0]], y[hospitals[0]])
for model in alone[1:]:
    merged = merged.merge(model)
together = BalancedRidgeClassifier().fit(X[train], y[train])
print(f"largest difference of a weight: {np.abs(merged.coef_ - together.coef_).max():.1e}")


# %%
# G-mean on the patients of all hospitals that no model has learned from.
def g_mean(model):
    guess = model.predict(X[test])
    return np.sqrt(np.prod([(guess[y[test] == k] == k).mean() for k in (0, 1)]))


names = [f"{len(rows)} patients" for rows in hospitals] + ["merged"]
values = [g_mean(model) for model in [*alone, merged]]
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
bars = ax.barh(names, values, color=["#9db8d6"] * 4 + ["#c8553d"])
ax.bar_label(bars, [f"{v:.3f}" for v in values], padding=4)
ax.set(xlabel="G-mean", xlim=(0, 1.12))
ax.invert_yaxis()
plt.show()
