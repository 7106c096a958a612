"""
A year in the ledger
====================

A ledger stores the moments of each day and country, and no rows. The model of any period and
country is a sum of cells. This example finds out when a stream changed, and which window is best.
"""

# %%
# A synthetic year of payments. A fraud wave begins in May. A country and a column are added in
# July. A release breaks the age of the account in September.
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import matplotlib.pyplot as plt

from counterpoise import Ledger
from counterpoise.ledger import payments

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "year.ledger"
ledger = Ledger.open(path, label="fraud", timestamp="at", by="country")
rows = sum(ledger.learn(table, allow_new_columns=True) for table in payments(rows=150))
print(f"{rows:,} rows became {path.stat().st_size / 1e6:.1f} MB of moments")

# %%
# Every day is tested by the model of the thirty days before it. The vertical lines are alarms.
drift = ledger.drift()
days = [datetime.fromtimestamp(start, UTC) for start in drift.start]
fig, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
ax.plot(days, drift.loss, ".", ms=3, label="loss of the day")
ax.plot(days, drift.usual, label="expected loss")
ax.plot(days, drift.limit, color="grey", lw=0.8, label="limit")
for day, alarm in zip(days, drift.alarms, strict=True):
    if alarm:
        ax.axvline(day, color="#c8553d", lw=0.8)
ax.set(ylabel="balanced loss", ylim=(0, 2))
ax.legend(ncols=3)
plt.show()

# %%
# The features that moved most on the days of the strongest alarms, and their classes.
strongest = sorted(range(len(days)), key=lambda g: -abs(drift.z[g] * drift.alarm[g]).max())[:4]
for g in sorted(strongest):
    moves = drift.largest_shifts(g, 2)
    shifts = ", ".join(f"{label}: {name} {z:+.1f}" for label, name, z in moves)
    print(f"{days[g]:%d %B}  {shifts}")

# %%
# Coefficients over the year, by periods of thirty days, with their standard errors.
weights = ledger.weights(size=30)
at = [datetime.fromtimestamp(start, UTC) for start in weights.start]
fig, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
for name in ("amount", "age", "night", "retries"):
    j = weights.names.index(name)
    ax.errorbar(at, weights.weight[:, j], 2 * weights.error[:, j], marker="o", ms=3, label=name)
ax.axhline(0, color="grey", lw=0.8)
ax.set(ylabel="coefficient for ok")
ax.legend(ncols=4)
plt.show()

# %%
# Which window is best? Every window is tested on the same days.
found = ledger.backtest(train=[7, 30, 90, None])
for setting, (loss, g_mean) in zip(found.settings, found.total, strict=True):
    print(f"{setting.name:12}  loss {loss:.4f}  G-mean about {g_mean:.3f}")
ledger.close()
folder.cleanup()
