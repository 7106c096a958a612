"""stream_proba on rare classes, beside a batch model that was calibrated by cross-validation."""

import numpy as np
import report
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from counterpoise import BalancedRidgeClassifier


def stream(rows, seed, bent):
    """A 1 % minority; bent: its boundary is no longer a plane."""
    rng = np.random.default_rng(seed)
    y = (rng.random(rows) < 0.01).astype(int)
    X = rng.standard_normal((rows, 10))
    X[y == 1] += np.linspace(0.0, 1.2, 10)
    if bent:
        X[:, 0] += 0.5 * X[:, 1] ** 2
        X[y == 1, 2] *= 2.0
    return X, y


def scores(y, p):
    return [f"{log_loss(y, p):.4f}", f"{brier_score_loss(y, p):.5f}"]


if __name__ == "__main__":
    rows = []
    for name, bent in (("two Gaussians", False), ("bent", True)):
        X, y = stream(100_000, 0, bent)
        X_new, y_new = stream(100_000, 1, bent)
        model = BalancedRidgeClassifier()
        for i in range(0, len(y), 1000):
            model.partial_fit(X[i : i + 1000], y[i : i + 1000])
        rows.append(
            [
                name,
                "the minority's share for every row",
                *scores(y_new, np.full(len(y_new), y.mean())),
            ]
        )
        rows.append(
            [name, "stream_proba, one pass", *scores(y_new, model.stream_proba(X_new)[:, 1])]
        )
        rows.append(
            [
                name,
                "predict_proba (balanced: another question)",
                *scores(y_new, model.predict_proba(X_new)[:, 1]),
            ]
        )
        for method in ("sigmoid", "isotonic"):
            batch = make_pipeline(StandardScaler(), RidgeClassifier(class_weight="balanced"))
            batch = CalibratedClassifierCV(batch, method=method, cv=5).fit(X, y)
            rows.append(
                [
                    name,
                    f"CalibratedClassifierCV, {method}, 5 folds",
                    *scores(y_new, batch.predict_proba(X_new)[:, 1]),
                ]
            )
    report.write(
        "probability",
        "Probabilities under the stream's own frequencies",
        "1 % minority, d = 10, learned from 100,000 rows and judged on 100,000 others; lower is "
        'better. `CalibratedClassifierCV` goes round `RidgeClassifier(class_weight="balanced")` '
        "with all rows in memory, six fits. One run. " + report.machine("scikit-learn"),
        report.table(["stream", "probabilities", "log loss", "Brier score"], rows),
    )
