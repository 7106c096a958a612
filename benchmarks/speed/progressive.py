"""Exact weights at every step: cost against our own compiled RLS, and how it grows with d."""

import tempfile
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import report
from counterpoise import BalancedRidgeClassifier
from counterpoise.online import RLS
from counterpoise.stepwise import progressive

try:
    from vowpalwabbit import Workspace
except ImportError:
    Workspace = None

WIDTHS, ROUNDS = (8, 22, 40, 72, 110, 166, 512), 5
GOALS = {8: 2, 22: 3, 72: 4, 110: 4, 166: 4, 512: 5}
CLASSES, CLASSES_WIDTH, CLASSES_ROWS = 5, 64, 6000
PEER_WIDTH = 72
MIN_FEATURES, SCORERS = progressive.MIN_FEATURES_FOR_BLOCKS, []


class RecordedScorer(progressive.BlockScorer):
    """Block scorer whose counts can be read afterwards."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        SCORERS.append(self)


def draw(d):
    """Return rows and labels, 10% of them positive."""
    rng = np.random.default_rng(d)
    rows = 20_000 if d <= 166 else 5_000
    y = (rng.random(rows) < 0.1).astype(int)
    return rng.standard_normal((rows, d)) + 0.3 * y[:, None], y


def score(X, y, wide=MIN_FEATURES, n_jobs=None, **options):
    """Score rows, by blocks from ``wide`` features on."""
    progressive.MIN_FEATURES_FOR_BLOCKS = wide
    BalancedRidgeClassifier(**options).progressive_scores(X, y, n_jobs=n_jobs)


def best_of(learners, rows, clock=time.process_time, rounds=ROUNDS):
    """Return microseconds per row of each learner, best of rounds in which all take a turn."""
    best = dict.fromkeys(learners, np.inf)
    for _ in range(rounds):
        for name, run in learners.items():
            start = clock()
            run()
            best[name] = min(best[name], (clock() - start) / rows * 1e6)
    return best


def widths():
    """Yield times of RLS, elimination and blocks at every width, and the counts of the blocks."""
    for d in WIDTHS:
        X, y = draw(d)
        learners = {"RLS": lambda X=X, y=y: RLS().progressive_scores(X, y)}
        if d <= 166:
            learners["elimination"] = lambda X=X, y=y: score(X, y, 10**9)
        learners["blocks"] = lambda X=X, y=y: score(X, y, 1)
        best = best_of(learners, len(y), rounds=ROUNDS if d <= 166 else 3)
        yield d, best, list(SCORERS[-1].counts)
        SCORERS.clear()


def classes():
    """Return times of several classes in one stream, and in one stream for each class."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, CLASSES_ROWS)
    apart = 0.5 * rng.standard_normal((CLASSES, CLASSES_WIDTH))
    X = rng.standard_normal((CLASSES_ROWS, CLASSES_WIDTH)) + apart[y]

    def streams():
        for k in range(CLASSES):
            score(X, (y == k).astype(int))

    learners = {
        "streams": streams,
        "lda": lambda: score(X, y),
        "ovr": lambda: score(X, y, multi_class="ovr"),
    }
    return best_of(learners, CLASSES_ROWS)


def peer():
    """Return times of Vowpal Wabbit's driver, which has two threads; None without it."""
    if Workspace is None:
        return None
    X, y = draw(PEER_WIDTH)
    with tempfile.TemporaryDirectory() as folder:
        lines = [
            f"{2 * k - 1} |f " + " ".join(f"{j}:{v:.6g}" for j, v in enumerate(x))
            for x, k in zip(X, y, strict=True)
        ]
        (Path(folder) / "data").write_text("\n".join(lines) + "\n")
        flags = f"-d {folder}/data -r {folder}/predicted --quiet --loss_function logistic"
        learners = {
            "driver": lambda: Workspace(flags).finish(),
            "one": lambda: score(X, y),
            "two": lambda: score(X, y, n_jobs=2),
        }
        return best_of(learners, len(y), clock=time.perf_counter)


if __name__ == "__main__":
    report.parse(__doc__)
    progressive.BlockScorer = RecordedScorer
    with threadpool_limits(1):
        measured = list(widths())
        several, driver = classes(), peer()
    rows, did, chosen = [], [], {}
    for d, r, (blocks, rounds, inverses, given_up) in measured:
        chosen[d] = r["elimination" if d < MIN_FEATURES else "blocks"]
        plain = f"{r['elimination']:.2f}" if "elimination" in r else ""
        ratio, goal = f"{chosen[d] / r['RLS']:.2f}", f"{GOALS[d]}" if d in GOALS else ""
        rows.append([f"{d}", f"{r['RLS']:.2f}", plain, f"{r['blocks']:.2f}", ratio, goal])
        did.append([f"{d}", blocks, f"{rounds / blocks:.2f}", inverses, given_up])
    exponent = np.log(chosen[512] / chosen[72]) / np.log(512 / 72)
    against = (
        "Vowpal Wabbit was not installed."
        if driver is None
        else f"At d = {PEER_WIDTH}, elapsed microseconds per row: {driver['one']:.2f} by one "
        f"thread, {driver['two']:.2f} by two (`n_jobs=2`), and {driver['driver']:.2f} of Vowpal "
        "Wabbit's driver on a text file, which has two. It takes "
        f"{driver['driver'] / driver['one']:.2f} and {driver['driver'] / driver['two']:.2f} times "
        "as long."
    )
    report.write(
        "progressive",
        "Exact weights at every step",
        "`progressive_scores` of BalancedRidgeClassifier, 10% minority, n = 20,000 (5,000 at "
        "d = 512), one BLAS thread; microseconds of CPU time per row, best of "
        f"{ROUNDS} rounds (3 at d = 512) in which all take a turn. Blocks take over at "
        f"d = {MIN_FEATURES}.",
        report.table(["d", "RLS", "elimination", "blocks", "chosen / RLS", "at most"], rows),
        f"From d = 72 to 512 the cost of the chosen path grows like d^{exponent:.2f}.",
        "What the blocks did. Blocks that were given up went to elimination: "
        "the first rows of a stream, where every row changes the model much.",
        report.table(["d", "blocks", "rounds a block", "inverses", "given up"], did),
        f"{CLASSES} classes at d = {CLASSES_WIDTH}, n = {CLASSES_ROWS:,}, over {CLASSES} streams "
        "of one class against the rest, with the same rows: those by blocks, several classes by "
        "elimination.",
        report.table(
            ["", "microseconds", "over the streams", "at most"],
            [
                [name, f"{several[key]:.2f}", f"{several[key] / several['streams']:.2f}", goal]
                for name, key, goal in (
                    (f"{CLASSES} streams of two classes", "streams", ""),
                    ("lda", "lda", "1.5"),
                    ("one against the rest", "ovr", "1.5"),
                )
            ],
        ),
        against,
    )
