"""Rows to draw from, reference solutions by scikit-learn and by refits, and comparisons."""

import numpy as np
import pytest
from hypothesis import strategies as st
from paper.datasets import load
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.preprocessing import StandardScaler

from counterpoise import BalancedRidgeClassifier
from counterpoise.estimators.auto import wrap_engine
from counterpoise.modelfile.container import to_bytes
from counterpoise.tables.model import TableModel

# Orders of summation differ in the last digits, and a solver multiplies that by the condition
# number, here below 1e4: 1e-10 leaves a factor of 100.
TOLERANCE = 1e-10


@st.composite
def labelled_samples(draw, d=None, most=40, classes=3, weighted=False):
    """Draw rows (well-conditioned by construction, in odd units), labels and perhaps weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = draw(st.integers(1, most))
    d = draw(st.integers(1, 5)) if d is None else d
    unit = 10.0 ** rng.integers(-3, 4, d)
    X = (rng.standard_normal((rows, d)) + rng.integers(-3, 4, d)) * unit
    y = rng.integers(0, classes, rows)
    if weighted:
        return X, y, rng.integers(0, 4, rows).astype(float)
    return X, y


def stream(rows=300, d=5, classes=2, minority=0.1, seed=0):
    """Return an imbalanced stream: each class has its own mean, the last class is rare."""
    rng = np.random.default_rng(seed)
    share = np.full(classes, (1.0 - minority) / (classes - 1))
    share[-1] = minority
    y = rng.choice(classes, rows, p=share)
    y[:classes] = np.arange(classes)
    X = rng.standard_normal((rows, d)) + rng.standard_normal((classes, d))[y]
    return X * 10.0 ** rng.integers(-2, 3, d) + 3.0, y


def assert_close(one, two, tolerance=TOLERANCE):
    """Check the relative difference in norm."""
    one, two = np.asarray(one), np.asarray(two)
    assert one.shape == two.shape
    scale = max(np.linalg.norm(two), 1e-300)
    assert np.linalg.norm(one - two) <= tolerance * scale, np.linalg.norm(one - two) / scale


def assert_same_model(one, two, tolerance=TOLERANCE):
    """Check that classes, counts and coefficients are equal."""
    np.testing.assert_array_equal(one.classes_, two.classes_)
    np.testing.assert_allclose(one.class_count_, two.class_count_, rtol=1e-12)
    assert_close(one.coef_, two.coef_, tolerance)
    assert_close(one.intercept_, two.intercept_, tolerance)


def shrinking(y):
    """Return the default ridge, of equal classes that weigh 2 together."""
    n = np.unique(y, return_counts=True)[1]
    return 6.0 * (1.0 / n).sum() / len(n) ** 2


def batch_scores(X, y, at, ridge=None, scale="standard", intercept="penalized", multi_class="lda"):
    """Return scores of scikit-learn after its scaler, rows in memory.

    They come from RidgeClassifier for two classes, from Ridge with class-balanced weights for
    each class against all others, and from LinearDiscriminantAnalysis otherwise, whose scores are
    compared up to a constant of each row.
    """
    ridge = shrinking(y) if ridge is None else ridge
    Z, Z_at = X, at
    if scale is not None:
        scaler = StandardScaler().fit(X)
        Z, Z_at = scaler.transform(X), scaler.transform(at)
    labels, n = np.unique(y, return_counts=True)
    if len(labels) > 2 and multi_class == "lda":
        return center_scores(_discriminant(Z, y, Z_at, ridge, intercept))
    if intercept == "penalized":
        Z, Z_at = (np.column_stack([np.ones(len(A)), A]) for A in (Z, Z_at))
    free = intercept == "free"
    if len(labels) == 2:
        solver = RidgeClassifier(
            alpha=ridge * len(Z) / 2, class_weight="balanced", fit_intercept=free, solver="cholesky"
        )
        return solver.fit(Z, y).decision_function(Z_at)
    codes, scores = np.searchsorted(labels, y), []
    for j in range(len(labels)):
        weight = np.where(codes == j, 1.0, 1.0 / (len(labels) - 1)) / n[codes]
        solver = Ridge(alpha=ridge, fit_intercept=free, solver="cholesky")
        scores.append(solver.fit(Z, np.where(codes == j, 1.0, -1.0), weight).predict(Z_at))
    return np.column_stack(scores)


def _discriminant(Z, y, Z_at, ridge, intercept):
    """Return scores of LinearDiscriminantAnalysis with the ridge as its shrinkage."""
    labels = np.unique(y)
    W = np.mean([np.cov(Z[y == k].T, bias=True) for k in labels], axis=0)
    size = np.trace(np.atleast_2d(W)) / Z.shape[1]
    part = (ridge / 2) / (size + ridge / 2)
    priors = np.full(len(labels), 1.0 / len(labels))
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=part, priors=priors).fit(Z, y)
    if intercept == "none":
        return (1.0 - part) * Z_at @ model.coef_.T
    return (1.0 - part) * (Z_at @ model.coef_.T + model.intercept_ - np.log(priors))


def center_scores(scores):
    """Return scores less the mean of their row; scores of two classes are unchanged."""
    return scores if scores.ndim == 1 else scores - scores.mean(axis=1, keepdims=True)


def learn(run, model, *files, label="target", more=(), code=0):
    """Learn files by the command line."""
    return run("learn", *files, "--label", label, "-m", model, *more, code=code)


def assert_same_answers(one, two, X, tolerance=TOLERANCE):
    """Check that classes, counts, scores and both probabilities are equal."""
    np.testing.assert_array_equal(one.classes_, two.classes_)
    np.testing.assert_allclose(one.class_count_, two.class_count_, rtol=1e-12)
    for answer in ("decision_function", "predict_proba", "predict_stream_proba"):
        assert_close(getattr(one, answer)(X), getattr(two, answer)(X), tolerance)


def data_set(name):
    """Return one of the paper's sets, or skip the test if its file does not exist."""
    try:
        return load(name)
    except FileNotFoundError as error:
        pytest.skip(str(error))


def score_by_refit(X, y, t, options, delay=0):
    """Return the score of row t by a fit on the rows whose labels had arrived."""
    known = max(t - delay, 0)
    labels = np.unique(y)
    if known == 0:
        return np.zeros(1 if len(labels) <= 2 else len(labels))
    model = BalancedRidgeClassifier(**options)
    model.partial_fit(X[:known], y[:known], classes=labels)
    return np.atleast_1d(model.decision_function(X[t : t + 1])[0])


def assert_progressive(X, y, options=None, delay=0, rows=None, tolerance=1e-8):
    """Check progressive scores against a model fitted from scratch before each row."""
    options = options or {}
    scores = BalancedRidgeClassifier(**options).progressive_scores(X, y, delay=delay)
    scores = scores.reshape(len(y), -1)
    for t in range(len(y)) if rows is None else rows:
        f = score_by_refit(X, y, t, options, delay)
        known = np.isfinite(f)  # a class that has not been seen scores −∞
        np.testing.assert_array_equal(scores[t][~known], f[~known])
        off = np.abs(scores[t][known] - f[known])
        assert (off <= tolerance * np.maximum(1.0, np.abs(f[known]))).all(), (t, scores[t], f)


def make_product_classes(rows=700, seed=0, threshold=0.0):
    """Return rows of 3 features, and classes that only a product of two features separates."""
    X = np.random.default_rng(seed).standard_normal((rows, 3))
    return X, (X[:, 0] * X[:, 1] > threshold).astype(int)


def model_bytes(model):
    """Return the model file of an estimator."""
    return to_bytes(model._contents())


def write_frame(frame, name):
    """Write a pandas frame in the format of a file name; return the name."""
    if name.endswith(".parquet"):
        frame.to_parquet(name, index=False)
    elif name.endswith(".jsonl"):
        frame.to_json(name, orient="records", lines=True, double_precision=15)
    else:
        frame.to_csv(name, index=False)
    return name


def assert_same_tables(one, two, tolerance=1e-9):
    """Check two model files: equal features, rows of each, classes, counts and coefficients."""
    a, b = TableModel.load(str(one)), TableModel.load(str(two))
    assert set(a.encoding.features) == set(b.encoding.features)
    at = [a.encoding.features.index(feature) for feature in b.encoding.features]
    np.testing.assert_array_equal(a.held[at], b.held)
    assert a.encoding.kinds == b.encoding.kinds
    assert a.classes == b.classes
    np.testing.assert_allclose(a.model.class_count, b.model.class_count, rtol=1e-12)
    if b.model.params.feature_map is None:
        coefficients = (wrap_engine(model.model).coef_ for model in (a, b))
        assert_close(next(coefficients)[:, at], next(coefficients), tolerance)
