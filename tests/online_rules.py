"""The online rules in all their forms, as the tests run them."""

import numpy as np

from counterpoise.online import (
    ACOG,
    AROW,
    ARRLS,
    IRRLS,
    LS,
    NRRLS,
    RLS,
    TER,
    ConfidenceWeighted,
    PassiveAggressive,
    Perceptron,
    SoftConfidenceWeighted,
)


def make_rule(rule, d):
    """Return a rule with labels and d features, before its first row."""
    rule.classes_, rule.n_features_in_ = np.array([-1.0, 1.0]), d
    rule._state = rule._begin(d + rule.fit_intercept)
    rule._state.tau = rule.tau
    return rule


# Every rule in every form, with the tolerance to which two orders of rounding agree.
RULES = [
    (Perceptron(), 1e-12),
    (Perceptron(ties="strict"), 1e-12),
    (PassiveAggressive(), 1e-12),
    (PassiveAggressive(variant="PA-I", C=0.3), 1e-12),
    (PassiveAggressive(variant="PA-II", C=0.3), 1e-12),
    (ConfidenceWeighted(), 1e-8),
    (ConfidenceWeighted(covariance="diagonal"), 1e-12),
    (ConfidenceWeighted(form="variance"), 1e-8),
    (ConfidenceWeighted(form="variance", covariance="diagonal"), 1e-12),
    (SoftConfidenceWeighted(), 1e-8),
    (SoftConfidenceWeighted(covariance="diagonal"), 1e-12),
    (SoftConfidenceWeighted(variant="II"), 1e-8),
    (SoftConfidenceWeighted(variant="II", covariance="diagonal"), 1e-12),
    (AROW(), 1e-8),
    (AROW(covariance="diagonal"), 1e-12),
    (AROW(covariance="diagonal-drop"), 1e-12),
    (ACOG(), 1e-8),
    (ACOG(loss="II", covariance="diagonal"), 1e-12),
    (ACOG(metric="cost", rho=3.0), 1e-8),
    (ACOG(loss="II", class_totals={-1.0: 300, 1.0: 700}), 1e-8),
    (RLS(), 1e-8),
    (RLS(ridge=0.125), 1e-10),
    (ARRLS(), 1e-8),
    (ARRLS(weighting="count"), 1e-8),
    (IRRLS(), 1e-8),
    (NRRLS(symmetrize=True), 1e-5),
    (NRRLS(), 1e-2),
    (NRRLS(ridge=0.125), 1e-8),
    (LS(), 1e-8),
    (TER(tau=0.5, eta=0.5), 1e-8),
]
