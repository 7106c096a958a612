"""The six numbers that matter, for asv, commit by commit: make asv

Bulk, one event learned, one event predicted, exact scores at every step of a narrow and of a wide
stream, and rows a second from CSV. Each uses only what every version has.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from counterpoise import BalancedRidgeClassifier


def stream(rows, d):
    """Synthetic rows, 5% of them of the rare class."""
    rng = np.random.default_rng(0)
    y = (rng.random(rows) < 0.05).astype(int)
    return rng.standard_normal((rows, d)) + 0.5 * y[:, None], y


class Bulk:
    """Chunks of 10,000 rows of 30 features."""

    rows, number, repeat = 200_000, 1, (3, 10, 20.0)

    def setup(self):
        """Make the rows."""
        self.X, self.y = stream(self.rows, 30)

    def time_bulk(self):
        """Seconds for all rows."""
        model = BalancedRidgeClassifier()
        for i in range(0, self.rows, 10_000):
            model.partial_fit(self.X[i : i + 10_000], self.y[i : i + 10_000])


class Events:
    """A thousand events of 20 features, for a model that has learned as many."""

    rows, number, repeat = 1000, 1, (5, 20, 20.0)

    def setup(self):
        """Learn the first half."""
        self.X, self.y = stream(2 * self.rows, 20)
        self.model = BalancedRidgeClassifier().fit(self.X[: self.rows], self.y[: self.rows])
        self.model.predict_one(self.X[0])

    def time_learn_one(self):
        """Seconds to learn each event by itself."""
        for x, label in zip(self.X[self.rows :], self.y[self.rows :], strict=True):
            self.model.learn_one(x, label)

    def time_predict_one(self):
        """Seconds to predict each event by itself."""
        for x in self.X[self.rows :]:
            self.model.predict_one(x)


class Progressive:
    """Exact scores at every step, test-then-train."""

    rows, number, repeat = 20_000, 1, (3, 10, 30.0)
    params, param_names = [[8, 166]], ["features"]

    def setup(self, d):
        """Make the rows."""
        self.X, self.y = stream(self.rows, d)

    def time_progressive(self, d):
        """Seconds for all rows."""
        BalancedRidgeClassifier().progressive_scores(self.X, self.y)


class FromCSV:
    """The command line, with its start."""

    rows, rounds, unit, timeout = 500_000, 3, "rows/s", 300

    def setup(self):
        """Write a file of ten columns and a label."""
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "stream.csv"
        X, y = stream(self.rows, 10)
        names = ",".join([*(f"x{j}" for j in range(10)), "y"])
        table = np.column_stack([X, y])
        np.savetxt(self.path, table, fmt="%.5g", delimiter=",", header=names, comments="")

    def teardown(self):
        """Remove the file."""
        self.folder.cleanup()

    def track_rows_a_second(self):
        """Rows a second, the best of some rounds."""
        main = "from counterpoise.cli import main; main()"
        best = 0.0
        for i in range(self.rounds):
            words = ["learn", self.path, "--label", "y", "--model", f"{self.path}.{i}"]
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", main, *words], check=True, capture_output=True)
            best = max(best, self.rows / (time.perf_counter() - start))
        return best
