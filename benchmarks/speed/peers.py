"""Test-then-train next to other libraries: events per second and progressive G-mean."""

import contextlib
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import padasip
from paper import datasets
from river import linear_model, optim, preprocessing
from sklearn.linear_model import SGDClassifier
from threadpoolctl import threadpool_limits
from vowpalwabbit import Workspace

from benchmarks import report
from benchmarks.speed.online import numpy_rls
from counterpoise import BalancedRidgeClassifier
from counterpoise.online import AROW, RLS, PassiveAggressive
from counterpoise.river import BalancedRidgeClassifier as RiverModel

WIDTHS, ROWS, ROUNDS = (8, 22, 72), 5_000, 5
SETS, MAX_ROWS = ("skin-nonskin", "ijcnn1", "cod-rna", "mushroom", "spambase"), 20_000
OURS = "counterpoise"


class Stream:
    """Stream in the forms that the learners take: arrays, dicts, lines of text."""

    def __init__(self, X, y):
        self.X, self.y = np.ascontiguousarray(X), (y > 0).astype(int)
        names = [f"f{j}" for j in range(X.shape[1])]
        self.dicts = [dict(zip(names, row, strict=True)) for row in self.X.tolist()]
        self.labels = self.y.tolist()
        self.lines = [
            f"{2 * label - 1} | " + " ".join(f"{j}:{v:.6g}" for j, v in enumerate(row))
            for row, label in zip(self.X.tolist(), self.labels, strict=True)
        ]

    def __len__(self):
        return len(self.y)


def synthetic(d, rows):
    """Return synthetic events, 10% of them positive."""
    rng = np.random.default_rng(d)
    y = (rng.random(rows) < 0.1).astype(int)
    return Stream(rng.standard_normal((rows, d)) + y[:, None] * 2.0 / np.sqrt(d), y)


def real(name):
    """Return events of a set of the paper in random order."""
    X, y = datasets.load(name)
    order = np.random.default_rng(0).permutation(len(y))[:MAX_ROWS]
    return Stream(X[order], y[order])


# Each learner takes a stream and returns its predicted, 0 or 1, made before each label was seen.


def arrays(make):
    return lambda s: (make().progressive_scores(s.X, s.y, classes=[0, 1]) > 0).astype(int)


def row_by_row(s):
    model, predicted = BalancedRidgeClassifier(), [0, 0]
    model.partial_fit(s.X[:2], s.y[:2])
    for x, y in zip(s.X[2:], s.labels[2:], strict=True):
        predicted.append(model.predict_one(x))
        model.learn_one(x, y)
    return np.array(predicted)


def events(make):
    def run(s):
        model, predicted = make(), []
        for x, y in zip(s.dicts, s.labels, strict=True):
            predicted.append(model.predict_one(x))
            model.learn_one(x, y)
        return np.array([bool(one) for one in predicted], dtype=int)

    return run


def regression(make):
    def run(s):
        model, predicted = make(), []
        for x, y in zip(s.dicts, s.labels, strict=True):
            predicted.append(model.predict_one(x))
            model.learn_one(x, 2 * y - 1)
        return (np.array(predicted) > 0).astype(int)

    return run


def scikit_single(s):
    model, predicted = SGDClassifier(random_state=0), [0]
    model.partial_fit(s.X[:1], s.y[:1], classes=[0, 1])
    for i in range(1, len(s)):
        predicted.append(model.predict(s.X[i : i + 1])[0])
        model.partial_fit(s.X[i : i + 1], s.y[i : i + 1])
    return np.array(predicted)


def padasip_rls(s):
    X = np.column_stack([s.X, np.ones(len(s))])
    model = padasip.filters.FilterRLS(n=X.shape[1], mu=1.0, eps=1e-4, w="zeros")
    predicted = np.empty(len(s))
    for i in range(len(s)):
        predicted[i] = model.predict(X[i])
        model.adapt(2 * s.labels[i] - 1, X[i])
    return (predicted > 0).astype(int)


def vw_lines(s):
    model, predicted = Workspace("--quiet --loss_function logistic"), []
    for line in s.lines:
        example = model.parse(line)
        model.learn(example)
        predicted.append(example.get_partial_prediction())
        model.finish_example(example)
    model.finish()
    return (np.array(predicted) > 0).astype(int)


def vw_file(s):
    """VW's own driver on a text file, which is what its command line runs."""
    folder = Path(tempfile.mkdtemp())
    (folder / "data").write_text("\n".join(s.lines) + "\n")
    start = time.perf_counter()
    Workspace(f"-d {folder}/data -r {folder}/predicted --quiet --loss_function logistic").finish()
    vw_file.seconds = time.perf_counter() - start
    return (np.loadtxt(folder / "predicted", usecols=0, ndmin=1) > 0).astype(int)


def capymoa_perceptron():
    """CapyMOA's perceptron, or None where CapyMOA is not installed."""
    try:
        from capymoa.base import MOAClassifier
        from capymoa.core import LabeledInstance
        from capymoa.stream import Schema
        from moa.classifiers.functions import Perceptron
    except ImportError as error:
        print("CapyMOA is left out:", error, file=sys.stderr)
        return None

    def run(s):
        names = [f"f{j}" for j in range(s.X.shape[1])] + ["class"]
        schema = Schema.from_custom(names, target="class", categories={"class": ["0", "1"]})
        model, predicted = MOAClassifier(Perceptron(), schema), []
        for x, y in zip(s.X, s.labels, strict=True):
            instance = LabeledInstance.from_array(schema, x, y)
            predicted.append(model.predict(instance))
            model.train(instance)
        return np.array([one or 0 for one in predicted])

    return run


LEARNERS = {
    f"{OURS} BalancedRidgeClassifier, arrays": arrays(BalancedRidgeClassifier),
    f"{OURS} BalancedRidgeClassifier, learn_one on arrays": row_by_row,
    f"{OURS}.river BalancedRidgeClassifier, dicts": events(RiverModel),
    f"{OURS} RLS, arrays": arrays(RLS),
    f"{OURS} AROW, arrays": arrays(AROW),
    f"{OURS} PassiveAggressive, arrays": arrays(PassiveAggressive),
    "river Perceptron": events(linear_model.Perceptron),
    "river PAClassifier": events(lambda: linear_model.PAClassifier(C=1.0, mode=1)),
    "river LogisticRegression": events(linear_model.LogisticRegression),
    "river StandardScaler, LogisticRegression": events(
        lambda: preprocessing.StandardScaler() | linear_model.LogisticRegression(optim.SGD(0.1))
    ),
    "river BayesianLinearRegression": regression(linear_model.BayesianLinearRegression),
    "scikit-learn SGDClassifier, row by row": scikit_single,
    "padasip FilterRLS": padasip_rls,
    "NumPy rank-one RLS, a plain loop": lambda s: (numpy_rls(s.X, s.y) > 0).astype(int),
    "Vowpal Wabbit from Python, text": vw_lines,
    "Vowpal Wabbit's driver, text file": vw_file,
    "CapyMOA Perceptron (Java)": capymoa_perceptron(),
}
LEARNERS = {name: run for name, run in LEARNERS.items() if run}


def seconds(run, stream):
    start = time.perf_counter()
    predicted = run(stream)
    spent = time.perf_counter() - start
    return (vw_file.seconds if run is vw_file else spent), predicted


def g_mean(stream, predicted):
    return np.sqrt((predicted[stream.y == 1] == 1).mean() * (predicted[stream.y == 0] == 0).mean())


def plot(speed):
    """Plot events per second."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "counterpoise"
    names = [name for name in speed if "RLS, arrays" not in name and "AROW" not in name]
    names = sorted(names, key=lambda name: speed[name][22])
    figure, axes = plt.subplots(figsize=(8.0, 4.8))
    place = np.arange(len(names))
    for i, (d, colour) in enumerate(zip(WIDTHS, ("#56B4E9", "#0072B2", "#004466"), strict=True)):
        axes.barh(
            place + 0.27 * (1 - i),
            [speed[n][d] for n in names],
            0.25,
            color=colour,
            label=f"d = {d}",
        )
    axes.set_yticks(place, names, fontsize=8)
    for tick, name in zip(axes.get_yticklabels(), names, strict=True):
        tick.set_fontweight("bold" if name.startswith(OURS) else "normal")
    axes.set_xscale("log")
    axes.set_xlabel("events per second, predict then learn (log scale)")
    axes.legend(frameon=False, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(report.RESULTS / "peers.svg", metadata={"Date": None})


def main():
    """Write the tables and the plot."""
    options = report.parse(__doc__, rows=ROWS, rounds=ROUNDS)
    speed = {name: {} for name in LEARNERS}
    with threadpool_limits(1):
        for d in WIDTHS:
            stream = synthetic(d, options.rows)
            for _ in range(options.rounds):
                for name, run in LEARNERS.items():
                    rate = len(stream) / seconds(run, stream)[0]
                    speed[name][d] = max(speed[name].get(d, 0.0), rate)
        quality, real_speed = {}, {}
        for name in SETS:
            with contextlib.suppress(FileNotFoundError):
                stream = real(name)
                for learner, run in LEARNERS.items():
                    spent, predicted = seconds(run, stream)
                    quality.setdefault(learner, {})[name] = g_mean(stream, predicted)
                    real_speed.setdefault(learner, {})[name] = len(stream) / spent
    first = next(iter(LEARNERS))
    report.write(
        "peers",
        "Test-then-train next to other libraries",
        f"Each learner predicts every event and then learns it. {options.rows:,} synthetic events, "
        f"10% minority, one BLAS thread; events per second, best of {options.rounds} rounds in "
        "which all take a turn, and in brackets how many times slower than the first line. "
        "Parsing is part of it for those that take text.",
        report.table(
            ["learner", *[f"d = {d}" for d in WIDTHS]],
            [
                [
                    name,
                    *[
                        f"{speed[name][d]:,.0f} ({speed[first][d] / speed[name][d]:.1f})"
                        for d in WIDTHS
                    ],
                ]
                for name in LEARNERS
            ],
        ),
        f"Progressive G-mean on real streams, in one random order (seed 0), at most {MAX_ROWS:,} "
        "events, raw units, every learner with its own defaults; in brackets thousands of events "
        "per second, one run. Learners without a scaler or class weights of their own show what "
        "that costs; only the order is the same for all.",
        report.table(
            ["learner", *SETS],
            [
                [name, *[f"{quality[name][s]:.3f} ({real_speed[name][s] / 1e3:.1f})" for s in SETS]]
                for name in quality
            ],
        )
        if quality
        else "(COUNTERPOISE_DATA was not set.)",
    )
    plot(speed)


if __name__ == "__main__":
    main()
