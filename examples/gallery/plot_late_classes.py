"""
Classes and features that come late
===================================

A new kind of fraud or a new sensor does not have to be announced. A late class is learned from its
first row. A late feature counts as 0 in all earlier rows, so the model stays exact.
"""

# %%
# A stream with river's conventions. A third class appears after 1,000 events, a third feature after
# 1,500.
import matplotlib.pyplot as plt
import numpy as np

from counterpoise.river import BalancedRidgeClassifier

rng = np.random.default_rng(1)
centres = {"ok": (0, 0, 0), "theft": (2.5, 0, 0), "takeover": (0, 2.5, 1.5)}
model, right, labels = BalancedRidgeClassifier(), [], []
for t in range(3000):
    known = ["ok", "theft", "takeover"][: 3 if t >= 1000 else 2]
    label = rng.choice(known, p=[0.9, 0.1] if t < 1000 else [0.86, 0.08, 0.06])
    x = rng.standard_normal(3) + centres[label]
    event = {"amount": x[0], "distance": x[1]}
    if t >= 1500:
        event["typing"] = x[2]
    right.append(model.predict_one(event) == label)
    labels.append(label)
    model.learn_one(event, label)

# %%
# Recall of each class over its last 40 events, by the model before it learned them.
fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
right, labels = np.array(right, dtype=float), np.array(labels)
for label in centres:
    at = np.flatnonzero(labels == label)
    mean = [right[at[max(0, k - 39) : k + 1]].mean() for k in range(len(at))]
    ax.plot(at, mean, label=label)
for t, text, height in ((1000, "takeover appears", 0.12), (1500, "a third feature", 0.03)):
    ax.axvline(t, color="grey", lw=0.8)
    ax.text(t + 15, height, text, color="grey")
ax.set(xlabel="event", ylabel="recall of the last 40", ylim=(0, 1.03))
ax.legend(loc="lower left")
plt.show()

# %%
# Scores equal those of a model that had all classes and features from the start.
print(model.predict_proba_one({"amount": 0.2, "distance": 2.4, "typing": 1.1}))
