"""scikit-learn's own suite, and the tools that its users combine estimators with."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from counterpoise import BalancedRidgeClassifier

CONFIGURATIONS = [
    BalancedRidgeClassifier(),
    BalancedRidgeClassifier(ridge="gcv"),
    BalancedRidgeClassifier(ridge=1.0, penalize_intercept=False),
    BalancedRidgeClassifier(fit_intercept=False),
    BalancedRidgeClassifier(class_weight=None),
    BalancedRidgeClassifier(class_weight={1: 3.0}),
    BalancedRidgeClassifier(costs={1: 5.0, "one": 2.0}),
    BalancedRidgeClassifier(scale="minmax"),
    BalancedRidgeClassifier(scale=None),
    BalancedRidgeClassifier(half_life=100.0),
]


def expected_failures(model):
    failures = {}
    if model.half_life is not None:
        why = "the check shuffles rows, and with half_life the order matters"
        failures["check_sample_weight_equivalence_on_dense_data"] = why
        failures["check_sample_weight_equivalence_on_sparse_data"] = why
    if not model.fit_intercept:
        failures["check_class_weight_classifiers"] = (
            "without an intercept no weight can move all predictions; RidgeClassifier fails it too"
        )
    return failures


@parametrize_with_checks(CONFIGURATIONS, expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
