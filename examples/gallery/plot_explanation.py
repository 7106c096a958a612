"""
Explaining one prediction
=========================

``explain`` returns the contribution of each column to a score. The contributions add up to the
score.
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
explanation = model.explain(patient)
difference = (
    model.decision_function(patient)[0] - explanation.base_values - explanation.values.sum()
)
print(f"the contributions add up to the score: the difference is {abs(np.squeeze(difference)):.1e}")

# %%
# The waterfall starts at the center between the classes and ends at the score of this patient.
figure = explanation.plot(0)

# %%
# The mean size of the contributions over all patients.
figure = model.explain(X).plot_overview()
