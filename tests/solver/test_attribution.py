"""Reasons: contributions add up to the score, and are the integrated gradients they claim to be."""

import numpy as np
import pytest
import scipy.sparse as sp
from builders import data_set, stream
from sklearn.exceptions import NotFittedError

from counterpoise import AutoClassifier, BalancedRidgeClassifier, CostSensitiveClassifier
from counterpoise.explanation import Explanation

CONFIGURATIONS = [
    {},
    {"pooled_rows": 10.0},
    {"feature_map": "poly2"},
    {"feature_map": "interactions"},
    {"feature_map": "rm2"},
    {"feature_map": "rff:60"},
    {"feature_map": "rm2+rff:40,width=0.5/2.0"},
    {"feature_map": "hinges+ranks"},
    {"feature_map": "landmarks:40,width=0.2/2.0"},
    {"feature_map": "landmarks:20", "pooled_rows": 5.0},
]
MORE_CONFIGURATIONS = [
    {"feature_map": "poly3"},
    {"feature_map": "rm3"},
    {"feature_map": "interactions3"},
    {"feature_map": "poly2", "pooled_rows": 5.0},
    {"feature_map": "rff:40,width=0.1", "pooled_rows": 5.0},
    {"feature_map": "poly2+rff:20", "pooled_rows": 5.0},
    {"multi_class": "ovr"},
    {"class_weight": None, "class_factors": {1: 3.0}, "fit_intercept": False},
    {"class_weight": {0: 1.0, 1: 4.0}, "scale": None},
    {"half_life": 50.0},
]
SETS = ["ionosphere", "pima-diabetes", "statlog-german", "sonar", "wdbc", "ozone-eight"]


def name(configuration):
    return " ".join(map(str, configuration.values())) or "linear"


def assert_adds_up(model, X, tolerance=1e-9):
    """To 1e-9 of the score, which is what was promised; rounding alone is a thousandth of that."""
    score, reasons = model.decision_function(X), model.explain(X)
    assert reasons.values.shape[:-1] == score.shape
    np.testing.assert_allclose(reasons.score, score, rtol=tolerance, atol=tolerance)
    return reasons


@pytest.mark.parametrize("configuration", CONFIGURATIONS + MORE_CONFIGURATIONS, ids=name)
@pytest.mark.parametrize("classes", [2, 3])
def test_contributions_add_up_to_the_score(configuration, classes):
    X, y = stream(400, classes=classes)
    X[:, 1] += 1e6
    rows = X[:50].copy()
    rows[0] *= 40.0  # beyond what a map lets through
    assert_adds_up(BalancedRidgeClassifier(**configuration).fit(X, y), rows)


@pytest.mark.slow
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=name)
@pytest.mark.parametrize("file", SETS)
def test_contributions_add_up_on_every_row_of_six_sets(file, configuration):
    X, y = data_set(file)
    if configuration.get("feature_map") == "poly2" and X.shape[1] > 40:
        X = X[:, :40]  # 860 terms
    assert_adds_up(BalancedRidgeClassifier(**configuration).fit(X, y), X)


@pytest.mark.parametrize("configuration", CONFIGURATIONS + MORE_CONFIGURATIONS, ids=name)
def test_contributions_are_integrated_gradients(configuration):
    X, y = stream(400, d=3, classes=3)
    model = BalancedRidgeClassifier(**configuration).fit(X, y)
    x = X[5]
    found = model.explain(x[None]).values[0]
    # The same by brute force: differences of scores at many points of the line.
    centre = centre_of(model, X, y)
    line = centre + (np.arange(4000)[:, None] + 0.5) / 4000 * (x - centre)
    for j in range(3):
        # Small compared with the range of scores, and large compared with their rounding.
        step = np.zeros(3)
        step[j] = 1e-5 * X[:, j].std()
        slope = (model.decision_function(line + step) - model.decision_function(line - step)) / (
            2 * step[j]
        )
        brute = (x - centre)[j] * slope.mean(axis=0)
        # The midpoint rule errs by the square of its step, differences by rounding over theirs.
        np.testing.assert_allclose(found[:, j], brute, atol=2e-4 * np.abs(found).max())


def centre_of(model, X, y):
    """The balanced centre of rows that all count the same, by its definition."""
    fixed = model.feature_map_
    seen = X
    if fixed is not None:
        seen = fixed.mean + fixed.deviation * np.clip((X - fixed.mean) / fixed.deviation, -10, 10)
        if model.feature_map.startswith(("rff", "landmarks")):
            return fixed.mean
    labels, means, weight = np.unique(y), [], []
    for label in labels:
        mine = seen[y == label]
        age = np.arange(len(mine))[::-1]
        decay = np.ones(len(mine)) if model.half_life is None else 0.5 ** (age / model.half_life)
        means.append(np.average(mine, axis=0, weights=decay))
        weight.append((model.class_factors or {}).get(label, 1.0))
        if model.class_weight != "balanced":
            weight[-1] *= len(mine) * (model.class_weight or {}).get(label, 1.0)
    return np.average(means, axis=0, weights=weight)


@pytest.mark.parametrize("file", SETS[:3])
def test_linear_contributions_are_weights_times_distances(file):
    X, y = data_set(file)
    model = BalancedRidgeClassifier().fit(X, y)
    centre = np.mean([X[y == label].mean(axis=0) for label in model.classes_], axis=0)
    reasons = model.explain(X)
    np.testing.assert_allclose(reasons.values, model.coef_ * (X - centre), atol=1e-11)
    np.testing.assert_allclose(
        reasons.base_values, model.decision_function(centre[None])[0], atol=1e-11
    )


@pytest.mark.slow
@pytest.mark.parametrize("file", SETS)
def test_linear_contributions_equal_those_of_shap(file):
    shap = pytest.importorskip("shap")
    X, y = data_set(file)
    model = BalancedRidgeClassifier().fit(X, y)
    means = np.array([X[y == label].mean(axis=0) for label in model.classes_])
    background = shap.maskers.Independent(means)  # its mean is the balanced centre
    theirs = shap.LinearExplainer((model.coef_[0], model.intercept_[0]), background)
    np.testing.assert_allclose(model.explain(X).values, theirs.shap_values(X), atol=1e-9)


def test_a_class_that_was_never_seen_has_no_explanation():
    X, y = stream(60)
    model = BalancedRidgeClassifier(pooled_rows=10.0).partial_fit(X, y, classes=[0, 1, 2])
    reasons = model.explain(X)
    assert reasons.base_values[2] == -np.inf
    assert not reasons.values[:, 2].any()
    assert np.isfinite(reasons.values).all()
    alone = BalancedRidgeClassifier(pooled_rows=10.0).fit(X[y == 0], y[y == 0]).explain(X)
    assert alone.base_values == np.inf
    assert not alone.values.any()


def test_all_estimators_explain_the_input_that_they_predict():
    import pandas as pd

    X, y = stream(300)
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = BalancedRidgeClassifier().fit(frame, y)
    expected = assert_adds_up(model, frame)
    assert expected.feature_names == list("abcde")
    risk = CostSensitiveClassifier(BalancedRidgeClassifier()).fit(frame, y).explain(frame)
    np.testing.assert_array_equal(risk.values, expected.values)
    chooser = AutoClassifier(candidates=("linear", "rm2", "pooled_rows=10")).fit(frame, y)
    assert assert_adds_up(chooser, frame).feature_names == list("abcde")
    sparse = BalancedRidgeClassifier().fit(sp.csr_array(X), y).explain(sp.csr_array(X))
    np.testing.assert_allclose(sparse.values, expected.values, atol=1e-12)


@pytest.mark.parametrize(
    "estimator", [BalancedRidgeClassifier, AutoClassifier, CostSensitiveClassifier]
)
def test_an_unfitted_model_has_no_reasons(estimator):
    with pytest.raises(NotFittedError):
        estimator().explain([[1.0]])
    X, y = stream(300)
    model = estimator().fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        model.explain(np.full((1, 5), np.nan))


def test_reasons_are_grouped_and_ranked():
    values = np.array([[1.0, -4.0, 2.0], [0.5, 0.0, -0.25]])
    reasons = Explanation(values, np.float64(0.5), ["de", "amount", "fr"], np.array([0, 1]))
    names, largest = reasons.top(2)
    assert names.tolist() == [["amount", "fr"], ["de", "fr"]]
    assert largest.tolist() == [[-4.0, 2.0], [0.5, -0.25]]
    together = reasons.group_by_column(["country", "amount", "country"])
    assert together.feature_names == ["country", "amount"]
    assert together.values.tolist() == [[3.0, -4.0], [0.25, 0.0]]
    assert together.score.tolist() == reasons.score.tolist() == [-0.5, 0.75]
    assert reasons.for_class(0).values.tolist() == (-values).tolist()
    assert reasons[1].values.tolist() == values[1:].tolist()
    assert "amount" in repr(reasons[0])
    assert "2 rows" in repr(reasons)
    with pytest.raises(ValueError, match="2 columns were given for 3 features"):
        reasons.group_by_column(["a", "b"])


def test_the_predicted_class_of_several_is_explained():
    X, y = stream(300, classes=4)
    reasons = BalancedRidgeClassifier().fit(X, y).explain(X)
    best = reasons.score.argmax(axis=1)
    np.testing.assert_array_equal(reasons.decisive[7], reasons.values[7, best[7]])
    np.testing.assert_array_equal(reasons.for_class(2).values, reasons.values[:, 2])
    assert "4 classes" in repr(reasons)
    assert "at the balanced center" in repr(reasons[0])


@pytest.mark.parametrize("classes", [2, 3])
def test_plots_show_contributions_that_add_up(classes):
    pytest.importorskip("matplotlib")
    X, y = stream(200, d=14, classes=classes)
    reasons = BalancedRidgeClassifier().fit(X, y).explain(X)
    axes = reasons.plot(3, top=5).axes[0]
    bars = axes.patches
    assert len(bars) == 6
    assert axes.get_yticklabels()[5].get_text() == "9 other columns"
    end = bars[5].get_x() + bars[5].get_width()
    best = reasons[3].score[0].max() if classes > 2 else reasons[3].score[0]
    np.testing.assert_allclose(end, best, atol=1e-9)
    shown = reasons.plot_overview(top=4).axes[0]
    assert len(shown.patches) == 4 * (classes if classes > 2 else 1)


def test_reasons_of_an_unknown_class_are_refused():
    X, y = stream(60)
    reasons = BalancedRidgeClassifier().fit(X, y).explain(X[:2])
    with pytest.raises(ValueError, match="label must be one of the classes 0, 1; got 'Churn'"):
        reasons.for_class("Churn")


def test_steps_belong_to_the_features_that_cross_them():
    """On a fine path from the centre, each change of the score comes with a change of a step."""
    X, y = stream(300, d=3)
    model = BalancedRidgeClassifier(feature_map="steps:60", ridge=0.1).fit(X, y)
    fixed = model.feature_map_
    found = model.explain(X[:5])
    np.testing.assert_allclose(
        found.values.sum(axis=1) + found.base_values, model.decision_function(X[:5]), atol=1e-12
    )
    for x, mine in zip(X[:5], found.values, strict=True):
        path = fixed.mean + np.linspace(0.0, 1.0, 20_001)[:, None] * (x - fixed.mean)
        feature, threshold = fixed.map.thresholds(fixed.drawn)
        above = ((path - fixed.mean) / fixed.deviation)[:, feature] > threshold
        scores = model.decision_function(path)
        expected = np.zeros(3)
        for i in np.flatnonzero((above[1:] != above[:-1]).any(axis=1)):
            (owner,) = set(feature[above[i + 1] != above[i]].tolist())
            expected[owner] += scores[i + 1] - scores[i]
        np.testing.assert_allclose(mine, expected, atol=1e-10)
