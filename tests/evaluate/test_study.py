"""Studies: test-then-train on streams, folds, and tables that resume."""

import math

import numpy as np
import pytest
from imblearn.metrics import geometric_mean_score
from river.linear_model import LogisticRegression as RiverLogistic
from river.preprocessing import StandardScaler as RiverScaler
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import average_precision_score, balanced_accuracy_score, log_loss
from sklearn.naive_bayes import GaussianNB

from counterpoise import BalancedRidgeClassifier
from counterpoise.errors import DataError
from counterpoise.evaluate import (
    FoldEvaluation,
    ProgressiveEvaluation,
    RetrainedClassifier,
    Study,
    drifting_stream,
)
from counterpoise.evaluate.drift import CHANGES, DRIFTS
from counterpoise.evaluate.evaluation import METRICS, evaluate_predictions

ROWS = drifting_stream("sudden", rows=1_000, positives=0.09, seed=1)


class Recorder(GaussianNB):
    """Classifier that records what it learned and predicted."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        self.calls.append(("learn", len(y)))
        return super().partial_fit(X, y, classes)

    def predict(self, X):
        self.calls.append(("predict", len(X)))
        return super().predict(X)


def test_a_chunk_is_predicted_before_it_is_learned_and_labels_may_be_late():
    model = Recorder()
    dict(ProgressiveEvaluation(chunk=250)(ROWS, model))
    assert model.calls == [("learn", 250), *[("predict", 250), ("learn", 250)] * 3]
    model = Recorder()
    dict(ProgressiveEvaluation(chunk=250, delay=300)(ROWS, model))
    assert model.calls == [
        ("learn", 200), ("predict", 250), ("learn", 250), ("predict", 250), ("learn", 250),
    ]  # fmt: skip


def test_metrics_of_a_stream_are_those_of_its_predictions():
    X, y = ROWS
    found = dict(ProgressiveEvaluation(chunk=100, window=500)(ROWS, BalancedRidgeClassifier()))
    model, predicted, score, proba = BalancedRidgeClassifier(), [], [], []
    for start in range(0, 1_000, 100):
        chunk = X[start : start + 100]
        if start:
            predicted.append(model.predict(chunk))
            score.append(model.decision_function(chunk))
            proba.append(model.predict_stream_proba(chunk))
        model.partial_fit(chunk, y[start : start + 100])
    predicted, score, proba = map(np.concatenate, (predicted, score, proba))
    for name, rows in (("all", slice(0, None)), ("0", slice(0, 400)), ("500", slice(400, None))):
        true, one = y[100:][rows], found[name]
        assert one["g_mean"] == pytest.approx(geometric_mean_score(true, predicted[rows]))
        assert one["balanced_accuracy"] == balanced_accuracy_score(true, predicted[rows])
        assert one["average_precision"] == average_precision_score(true, score[rows])
        assert one["log_loss"] == pytest.approx(log_loss(true, proba[rows]), rel=1e-6)
        missed, alarms = ((predicted[rows] != true) & (true == k) for k in (1, 0))
        assert one["cost"] == pytest.approx((10.0 * missed.sum() + alarms.sum()) / len(true))
    assert list(found) == ["all", "0", "500"]


def test_a_cut_is_the_best_of_earlier_rows():
    X, y = ROWS
    evaluation = ProgressiveEvaluation(chunk=100, delay=100)
    found = dict(evaluation(ROWS, BalancedRidgeClassifier()))["all"]
    model, scores, predicted = BalancedRidgeClassifier(), np.full(1_000, np.nan), np.zeros(1_000)
    for start in range(0, 1_000, 100):
        chunk = slice(start, start + 100)
        if start >= 200:
            scores[chunk] = model.decision_function(X[chunk])
            past = slice(200, start - 100)
            tried = np.unique(scores[past]) if y[past].sum() >= 10 else []
            gs = [geometric_mean_score(y[past], (scores[past] >= t).astype(int)) for t in tried]
            predicted[chunk] = model.predict(X[chunk])
            if len(tried):
                best = tried[len(gs) - 1 - int(np.argmax(gs[::-1]))]
                below = tried[tried < best]
                cut = 0.5 * (best + (below[-1] if len(below) else best - 1.0))
                predicted[chunk] = scores[chunk] > cut
        if start >= 100:
            late = slice(start - 100, start)
            model.partial_fit(X[late], y[late])
    expected = geometric_mean_score(y[200:], predicted[200:].astype(int))
    assert found["g_mean_cut"] == pytest.approx(expected)


def test_models_of_any_convention_run():
    Z = dict(ProgressiveEvaluation()(ROWS, RiverScaler() | RiverLogistic()))
    assert set(METRICS) == set(Z["all"])
    assert all(math.isfinite(value) for value in Z["all"].values())
    SGD = dict(ProgressiveEvaluation()(ROWS, SGDClassifier(random_state=0)))["all"]
    assert math.isfinite(SGD["average_precision"])
    assert math.isnan(SGD["log_loss"])  # hinge loss has no probabilities
    with pytest.raises(DataError, match="wrap it in RetrainedClassifier"):
        dict(ProgressiveEvaluation()(ROWS, LogisticRegression()))


def test_a_class_that_comes_late_counts_and_lowers_the_mean():
    X, y = drifting_stream("sudden", "classes", rows=2_000, positives=0.05, seed=2)
    assert set(y[:900].tolist()) == {0, 1}
    frozen = RetrainedClassifier(LogisticRegression(max_iter=500), first=400)
    assert dict(ProgressiveEvaluation()((X, y), frozen))["all"]["g_mean"] == 0.0
    model = BalancedRidgeClassifier()
    assert dict(ProgressiveEvaluation()((X, y), model))["all"]["g_mean"] > 0.3


@pytest.mark.parametrize(
    ("every", "window", "fits", "rows"),
    [(None, None, 1, 300), (200, None, 4, 900), (200, 250, 4, 250), (100, None, 7, 900)],
)
def test_a_batch_classifier_is_fitted_on_schedule(every, window, fits, rows):
    sizes = []

    class Batch(LogisticRegression):
        def fit(self, X, y):
            sizes.append(len(y))
            return super().fit(X, y)

    model = RetrainedClassifier(Batch(), every=every, window=window, first=300)
    assert not hasattr(model, "predict")
    for start in range(0, 900, 100):
        model.partial_fit(ROWS[0][start : start + 100], ROWS[1][start : start + 100])
    assert model.fits == len(sizes) == fits
    assert sizes[-1] == rows


def test_a_learner_over_its_budget_learns_no_more():
    model = Recorder()
    found = dict(ProgressiveEvaluation(chunk=250, max_seconds=0.0)(ROWS, model))["all"]
    assert model.calls == []
    assert found["worst_recall"] == 0.0  # the most frequent class is predicted


def test_undefined_metrics_are_missing():
    nothing = np.empty(0, int)
    found = evaluate_predictions(
        nothing, nothing, np.empty((0, 2)), np.empty((0, 2)), np.arange(2), 10.0
    )
    assert all(map(math.isnan, found.values()))
    y, lonely = np.zeros(5, int), np.full((5, 2), np.nan)
    found = evaluate_predictions(y, y, lonely, lonely, np.arange(2), 10.0)
    assert found["worst_recall"] == 1.0
    assert found["cost"] == 0.0
    assert math.isnan(found["g_mean"])


DATA = {
    "sudden": lambda seed: drifting_stream("sudden", rows=600, positives=0.09, seed=seed),
    "none": lambda seed: drifting_stream("none", rows=600, positives=0.09, seed=seed),
}
LEARNERS = {
    "ridge": lambda seed: BalancedRidgeClassifier(),
    "bayes": lambda seed: GaussianNB(),
    "nightly": lambda seed: RetrainedClassifier(LogisticRegression(), every=200),
}


def quality(study):
    """Return all results except CPU seconds."""
    return {
        key: {part: {k: v for k, v in one.items() if k != "seconds"} for part, one in parts.items()}
        for key, parts in study.found.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["study.csv", "study.csv.gz"])
def test_an_interrupted_study_resumes_and_ends_with_the_same_table(tmp_path, name):
    whole = Study(tmp_path / f"whole-{name}", DATA, LEARNERS, seeds=(0, 1)).run()

    class StopError(Exception):
        """Interruption."""

    calls = []

    def stop_later(seed):
        calls.append(seed)
        if len(calls) > 2:
            raise StopError
        return DATA["none"](seed)

    path = tmp_path / name
    with pytest.raises(StopError):
        Study(path, {**DATA, "none": stop_later}, LEARNERS, seeds=(0, 1)).run()
    before = Study(path, DATA, LEARNERS, seeds=(0, 1))
    assert 0 < len(before.found) < len(whole.found)
    after = before.run(processes=2)
    again = Study(path, DATA, LEARNERS, seeds=(0, 1))
    assert quality(after).keys() == quality(whole).keys()
    for key, parts in quality(whole).items():  # to the 8 digits of the table
        for part, one in parts.items():
            assert quality(again)[key][part] == pytest.approx(one, rel=1e-7, nan_ok=True)
    assert not list(tmp_path.glob("new-*"))
    found = again.found
    assert again.run().found is found  # nothing is left to run


def test_tables_and_tests_follow_from_the_values(tmp_path):
    study = Study(None, DATA, LEARNERS)
    for (name, learner), value in zip(
        [(n, one) for n in DATA for one in LEARNERS], [0.8, 0.7, 0.6, 0.9, 0.5, 0.7], strict=True
    ):
        study.found[name, 0, learner] = {"all": {"g_mean": value, "seconds": 1.0 - value}}
    np.testing.assert_allclose(study.values(), [[0.8, 0.7, 0.6], [0.9, 0.5, 0.7]])
    assert study.table().splitlines()[2] == "| sudden | **0.8000** | 0.7000 | 0.6000 |"
    assert study.table().splitlines()[-1] == "| mean | **0.8500** | 0.6000 | 0.6500 |"
    assert study.table("seconds").splitlines()[-1].startswith("| mean | **0.1500**")
    assert r"sudden & \textbf{0.8000} & 0.7000 & 0.6000 \\" in study.table(style="latex")
    assert next(iter(study.ranks().average)) == "ridge"
    assert next(iter(study.ranks("seconds").average)) == "ridge"
    assert set(study.p_values("ridge")) == {"bayes", "nightly"}
    assert study.posterior("ridge", "bayes").better > 0.9
    with pytest.raises(ValueError, match="style must be"):
        study.table(style="html")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("drift", DRIFTS)
def test_streams_are_their_seeds_and_drift_as_named(drift, change):
    X, y = drifting_stream(drift, change, rows=4_000, positives=0.05, seed=3)
    again = drifting_stream(drift, change, rows=4_000, positives=0.05, seed=3)
    np.testing.assert_array_equal(X, again[0])
    np.testing.assert_array_equal(y, again[1])
    still = drifting_stream("none", change, rows=4_000, positives=0.05, seed=3)
    late = slice(2_900, 3_100)  # of the second concept wherever there is one
    if drift == "none":
        assert (still[0] == X).all()
    elif change == "features":
        assert not np.allclose(X[late], still[0][late])
    elif change == "frequency":
        assert y[late].sum() > 2 * still[1][late].sum()
    elif change == "classes":
        assert 2 in y[late]
    assert (y == 2).any() == (change == "classes" and drift != "none")


def test_unknown_drifts_are_refused():
    with pytest.raises(ValueError, match="drift must be one of none, sudden"):
        drifting_stream("slow")
    with pytest.raises(ValueError, match="change must be one of features"):
        drifting_stream(change="x")
    with pytest.raises(ValueError, match="positives must be"):
        drifting_stream(positives=0.3)


def test_folds_are_stratified_and_each_is_measured_once():
    found = dict(FoldEvaluation(3)(ROWS, BalancedRidgeClassifier()))
    assert list(found) == ["0", "1", "2"]
    assert all(0.0 <= one["g_mean"] <= 1.0 for one in found.values())
