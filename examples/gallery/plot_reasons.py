"""
Reading one decision
====================

A score is a number; a user who acts on it needs reasons. ``explain`` shares the score out among the
columns, so that the shares add up exactly.
"""

# %%
# A model of the breast cancer data, and one patient.
import numpy as np
from sklearn.datasets import load_breast_cancer

from counterpoise import BalancedRidgeClassifier

data = load_breast_cancer(as_frame=True)
X, y = data.data, data.target_names[data.target]
model = BalancedRidgeClassifier().fit(X, y)
patient = X.iloc[[40]]
reasons = model.explain(patient)
difference = model.decision_function(patient)[0] - reasons.base_values - reasons.values.sum()
print(f"the reasons add up to the score: the difference is {abs(np.squeeze(difference)):.1e}")

# %%
# The waterfall leads from a patient half-way between the classes to this one.
figure = reasons.plot(0)

# %%
# And over all patients: which columns move scores at all.
figure = model.explain(X).plot_overview()
