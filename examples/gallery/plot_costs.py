"""
A threshold from the costs of mistakes
======================================

A missed fraud costs its amount, and a false alarm costs a phone call. With stream probabilities the
cheapest decision follows from the costs. A search for a threshold is not needed, and each payment
can have its own cost.
"""

# %%
# 60,000 payments, of which 1% are frauds. Each is scored before it is learned, in daily chunks.
import matplotlib.pyplot as plt
import numpy as np

from counterpoise import BalancedRidgeClassifier
from counterpoise.evaluate import cost_curve, should_alert

rng = np.random.default_rng(4)
n, day = 60_000, 1000
y = (rng.random(n) < 0.01).astype(int)
amount = rng.lognormal(4.0 + 0.8 * y, 1.0)
X = np.column_stack([np.log(amount), rng.standard_normal((n, 4)) + 0.9 * y[:, None]])

model, predicted = BalancedRidgeClassifier(calibrate=True), []
for start in range(0, n, day):
    rows = slice(start, start + day)
    predicted.append(model.predict_stream_proba(X[rows])[:, 1] if start else np.zeros(day))
    model.partial_fit(X[rows], y[rows])
later = slice(10 * day, None)
p, y, amount = np.concatenate(predicted)[later], y[later], amount[later]

# %%
# The cost of every threshold, if a miss costs 100 and a false alarm 4. The vertical line is the
# threshold by cost, alarm / (alarm + miss). It is determined before the first label comes.
miss, alarm = 100.0, 4.0
curve = cost_curve(y, p, miss=miss, alarm=alarm)
price = alarm / (alarm + miss)
fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
ax.semilogx(curve.thresholds[1:], curve.cost[1:], label="every threshold")
ax.axvline(price, color="#c8553d", lw=1, label=f"by price: {price:.3f}")
ax.axhline(curve.never, color="grey", lw=0.8, ls="--", label="never alert")
ax.set(xlabel="alert from this probability on", ylabel="cost", ylim=(0, 1.5 * curve.never))
ax.set_xlim(1e-3, 1)
ax.legend()
plt.show()
print(f"by price {curve.at(price):,.0f}, in hindsight at best {curve.least:,.0f}")

# %%
# If a missed fraud costs its own amount, a large payment is worth a call at a lower probability
# than a small one. A single threshold cannot express that, even if it is chosen afterwards.
own = cost_curve(y, p, miss=amount, alarm=alarm)
alerts = should_alert(p, amount, alarm)
spent = amount[(y == 1) & ~alerts].sum() + alarm * (alerts & (y == 0)).sum()
names = ["never alert", "best single threshold\nin hindsight", "each payment\nat its own price"]
fig, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
bars = ax.barh(names, [own.never, own.least, spent], color=["#bbbbbb", "#9db8d6", "#c8553d"])
ax.bar_label(bars, fmt="{:,.0f}", padding=4)
ax.set(xlabel="cost", xlim=(0, 1.15 * own.never))
ax.invert_yaxis()
plt.show()
