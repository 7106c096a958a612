"""Learn two imbalanced streams event by event and prove that nothing was lost on the way."""

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import RidgeClassifier, SGDClassifier
from sklearn.preprocessing import StandardScaler

from counterpoise import BalancedRidgeClassifier

CHUNK = 20


def tumours():
    """Scikit-learn's breast cancer set, the malignant class thinned to 5 %."""
    X, y = load_breast_cancer(return_X_y=True)
    malignant = (y == 0).astype(int)
    rng = np.random.default_rng(0)
    rare = rng.choice(np.flatnonzero(malignant), 19, replace=False)
    rows = rng.permutation(np.concatenate([np.flatnonzero(malignant == 0), rare]))
    return X[rows], malignant[rows]


def payments():
    """A synthetic stream with 2 % fraud, whose amounts drift and whose frauds change sides."""
    rng = np.random.default_rng(1)
    rows = 20_000
    y = (rng.random(rows) < 0.02).astype(int)
    X = rng.standard_normal((rows, 8)) * [1, 10, 100, 1, 1, 1, 1, 1]
    when = np.linspace(0.0, 1.0, rows)
    X[:, 1] += 50.0 * when
    X[:, 3] += 2.0 * y * np.where(when < 0.5, 1.0, -1.0)
    X[:, 4] += 2.0 * y
    return X, y


def g_mean(y, guess):
    return np.sqrt((guess[y == 1] == 1).mean() * (guess[y == 0] == 0).mean())


class ScaledSGD:
    """What scikit-learn offers today: a running scaler before a running classifier."""

    def __init__(self):
        self.scaler, self.sgd = StandardScaler(), SGDClassifier(random_state=0)

    def partial_fit(self, X, y, classes):
        Z = self.scaler.partial_fit(X).transform(X)
        self.sgd.partial_fit(Z, y, classes=classes)

    def predict(self, X):
        return self.sgd.predict(self.scaler.transform(X))


def test_then_train(model, X, y, tick):
    """Predict each chunk before learning it."""
    guess = np.zeros(len(y), dtype=int)
    for i in range(0, len(y), CHUNK):
        rows = slice(i, i + CHUNK)
        if i:
            guess[rows] = model.predict(X[rows])
        model.partial_fit(X[rows], y[rows], classes=[0, 1])
        tick(len(y[rows]))
    return g_mean(y[CHUNK:], guess[CHUNK:])


def batch_weights(X, y):
    """The weights that scikit-learn finds with every row in memory."""
    scaler = StandardScaler().fit(X)
    Z = np.column_stack([np.ones(len(X)), scaler.transform(X)])
    batch = RidgeClassifier(
        alpha=1e-4 * len(y) / 2, class_weight="balanced", fit_intercept=False, solver="cholesky"
    )
    return np.ravel(batch.fit(Z, y).coef_)[1:] / scaler.scale_


def main():
    console = Console()
    streams = {"tumours": tumours(), "payments": payments()}
    models = {
        "BalancedRidgeClassifier": BalancedRidgeClassifier,
        "... half_life=50": lambda: BalancedRidgeClassifier(half_life=50.0),
        "StandardScaler, SGDClassifier": ScaledSGD,
    }
    table = Table(title=f"Predict, then learn: G-mean over the stream (chunks of {CHUNK})")
    table.add_column("learner")
    for name, (_, y) in streams.items():
        table.add_column(f"{name}\n{len(y):,} rows, {y.mean():.0%} rare", justify="right")
    total = len(models) * sum(len(y) for _, y in streams.values())
    exact = {}
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task("learning", total=total)
        for name, make in models.items():
            cells = []
            for stream, (X, y) in streams.items():
                progress.update(task, description=f"{stream}: {name}")
                model = make()
                cells.append(
                    f"{test_then_train(model, X, y, lambda n: progress.advance(task, n)):.3f}"
                )
                if name == "BalancedRidgeClassifier":
                    batch = batch_weights(X, y)
                    exact[stream] = np.linalg.norm(model.coef_ - batch) / np.linalg.norm(batch)
            table.add_row(name, *cells)
    console.print(table)
    for stream, distance in exact.items():
        console.print(f"{stream}: streamed and batch weights differ by {distance:.0e} (relative)")
        assert distance < 1e-10


if __name__ == "__main__":
    main()
