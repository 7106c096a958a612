"""
Unlearning the rows of a customer
=================================

A customer requests the removal of their data. ``unlearn`` subtracts their rows from the moments.
The result equals, to rounding, a model that never learned them.
"""

# %%
# 5,000 rows of 200 customers. Customer 17 is unusual and influences the coefficients.
import matplotlib.pyplot as plt
import numpy as np

from counterpoise import BalancedRidgeClassifier

rng = np.random.default_rng(5)
n, d = 5000, 8
customer = rng.integers(200, size=n)
y = (rng.random(n) < 0.06).astype(int)
X = rng.standard_normal((n, d)) + 0.6 * y[:, None]
theirs = customer == 17
X[theirs] *= 12.0

model = BalancedRidgeClassifier().fit(X, y)
before = model.coef_.copy()
never = BalancedRidgeClassifier().fit(X[~theirs], y[~theirs])

# %%
# Unlearn their rows. A second fit is not needed, and the other rows are not needed, either.
model.unlearn(X[theirs], y[theirs])
print(f"rows left: {model.class_count_.sum():.0f}")
print(
    f"difference to a model that never learned them: {np.abs(model.coef_ - never.coef_).max():.1e}"
)

# %%
# The coefficients with them, without them, and after unlearning. The last two are equal.
fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
at = np.arange(d)
ax.plot(at, before[0], "s", ms=9, mfc="none", label="with customer 17")
ax.plot(at, never.coef_[0], "o", ms=11, mfc="none", label="never learned customer 17")
ax.plot(at, model.coef_[0], "x", label="customer 17 unlearned")
ax.set(xlabel="feature", ylabel="coefficient", xticks=at)
ax.legend()
plt.show()
