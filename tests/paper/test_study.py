"""The study: learners that no library has, streams, and a run that resumes."""

import math

import numpy as np
import pytest
from paper.study import __main__ as study
from paper.study import streams
from paper.study.learners import LEARNERS, TWO_CLASSES_ONLY
from paper.study.other_learners import (
    ChosenClassifier,
    ClassRecodedRLS,
    LastLabel,
    MajorityClass,
    ResamplingBagging,
    WeightedAROW,
)
from river.tree import HoeffdingTreeClassifier
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from counterpoise.evaluate import ProgressiveEvaluation, drifting_stream
from counterpoise.online import AROW

X, y = drifting_stream("none", rows=600, positives=0.09, seed=5)
Z = StandardScaler().fit_transform(X)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
def test_class_recoding_multiplies_the_targets_of_least_squares(exponent):
    model = ClassRecodedRLS(ridge=1e-3, exponent=exponent)
    for start in range(0, 600, 150):
        model.partial_fit(Z[start : start + 150], y[start : start + 150], np.arange(2))
    gamma = (600 / np.bincount(y)) ** exponent
    targets = np.eye(2)[y] * gamma
    batch = Ridge(alpha=0.6, fit_intercept=False).fit(np.column_stack([np.ones(600), Z]), targets)
    np.testing.assert_allclose(model.W, batch.coef_.T, rtol=1e-8, atol=1e-10)


def test_weighted_arow_weighs_rows_by_the_frequency_of_their_class():
    model = WeightedAROW(r=0.5)
    for x, label in zip(Z, y, strict=True):
        w, S = getattr(model, "w", np.zeros(11)).copy(), getattr(model, "S", np.eye(11)).copy()
        model.partial_fit(x[None], [label], np.arange(2))
        x, sign = np.append(1.0, x), 2.0 * label - 1.0
        omega = model.counts.sum() / (2.0 * model.counts[label])
        beta = max(1.0 - sign * (w @ x), 0.0) / (x @ S @ x + 0.5 / omega)
        np.testing.assert_allclose(model.w, w + beta * sign * S @ x, rtol=1e-12, atol=1e-14)
    unweighted = AROW(r=0.5).fit(Z, y)
    recall = [(one.predict(Z)[y == 1] == 1).mean() for one in (model, unweighted)]
    assert recall[0] > recall[1]


@pytest.mark.parametrize(("oversample", "rate"), [(True, 9.0), (False, 1.0)])
def test_resampled_bagging_learns_as_many_rows_of_both_classes(oversample, rate):
    class Counter:
        def __init__(self):
            self.counts = [0, 0]

        def learn_one(self, x, label):
            self.counts[label] += 1

    labels = (np.arange(3_000) % 10 == 0).astype(int)
    model = ResamplingBagging(Counter, oversample, models=20, theta=0.99, seed=0)
    for label in labels.tolist():
        model.learn_one({}, label)
    negative, positive = np.sum([one.counts for one in model.models], axis=0) / 20
    assert positive / negative == pytest.approx(1.0, abs=0.25)
    assert positive / 300 == pytest.approx(rate, rel=0.2)


def test_the_variant_with_the_best_predictions_is_chosen():
    class FixedRule(MajorityClass):
        def __init__(self, label):
            self.label = label

        def partial_fit(self, X, y):
            return self

        def predict(self, X):
            return self.label(X)

    variants = {
        "bad": FixedRule(lambda X: np.zeros(len(X), int)),
        "good": FixedRule(lambda X: (X[:, 0] > 0).astype(int)),
    }
    model = ChosenClassifier(variants)
    rows = np.random.default_rng(0).normal(size=(300, 1))
    labels = (rows[:, 0] > 0).astype(int)
    assert model.best == "bad"
    for start in range(0, 300, 100):
        model.partial_fit(rows[start : start + 100], labels[start : start + 100])
    assert model.best == "good"
    assert (model.predict(rows) == labels).all()


def test_baselines_are_trivial():
    assert MajorityClass().partial_fit(X, y).predict(X[:3]).tolist() == [0, 0, 0]
    assert LastLabel().partial_fit(X, y).predict(X[:2]).tolist() == [y[-1]] * 2


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LEARNERS if "averaging" not in name])
def test_every_learner_runs_with_late_labels(name):
    evaluation = ProgressiveEvaluation(study.CHUNK, study.DELAY)
    change = "minority" if name in TWO_CLASSES_ONLY else "classes"
    rows = drifting_stream("sudden", change, rows=900, positives=0.09, seed=6)
    found = dict(evaluation(rows, LEARNERS[name](0)))["all"]
    assert 0.0 <= found["g_mean"] <= 1.0
    if name not in ("majority", "last label"):
        assert math.isfinite(found["average_precision"])


@pytest.mark.slow
def test_real_streams_keep_their_order_and_rare_versions_drop_rows_only():
    if not streams.os.environ.get(streams.VARIABLE):
        pytest.skip(f"set {streams.VARIABLE} to the folder of the data sets")
    whole, labels = streams.load_stream("weather")
    rare, few = streams.make_rare("weather", 0.02)
    assert few.mean() == pytest.approx(0.02, abs=1e-3)
    assert (few == 0).sum() == (labels == 0).sum()
    np.testing.assert_array_equal(rare[few == 0], whole[labels == 0])
    assert streams.make_rare("weather", 0.02, seed=1)[1].tolist() != few.tolist()
    for name in streams.REAL:
        assert np.isfinite(streams.load_stream(name)[0]).all()


def test_a_tree_of_river_is_a_base_of_bagging():
    model = ResamplingBagging(HoeffdingTreeClassifier, True, models=3)
    assert model.predict_one({"a": 1.0}) is None
    model.learn_one({"a": 1.0}, 1)
    assert model.predict_one({"a": 1.0}) == 1
