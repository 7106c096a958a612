"""TableClassifier and the command line, bit by bit, on public sets with everything in them."""

import os
import subprocess
import sys
import tempfile

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import statsmodels.api as sm
from river import datasets
from sklearn import datasets as bundled
from sklearn.impute import SimpleImputer

from benchmarks import report
from counterpoise import BalancedRidgeClassifier, TableClassifier
from counterpoise.modelfile import container

COMMAND = [sys.executable, "-c", "from counterpoise.cli import main; main()"]
ROWS = 128  # of a chunk


def sets():
    """Ten sets that come with installed packages: name, frame and labels."""
    for name in ("breast_cancer", "wine", "iris", "digits"):
        found = getattr(bundled, f"load_{name}")(as_frame=True)
        yield name, found.data, found.target
    for name, stream in (
        ("Phishing", datasets.Phishing()),
        ("Bananas", datasets.Bananas()),
        ("ImageSegments", datasets.ImageSegments()),
    ):
        rows = list(stream)
        yield name, pd.DataFrame([x for x, _ in rows]), pd.Series([y for _, y in rows])
    fair = sm.datasets.fair.load_pandas().data
    yield "fair", fair.drop(columns="affairs"), (fair["affairs"] > 0).astype(int)
    anes = sm.datasets.anes96.load_pandas().data
    yield "anes96", anes.drop(columns="vote"), anes["vote"].astype(int)
    choice = sm.datasets.modechoice.load_pandas().data
    yield "modechoice", choice.drop(columns="choice"), choice["choice"].astype(int)


def dressed(X, y, seed):
    """The same rows with a date, a truth value, a category, and gaps in all of them."""
    rng, n = np.random.default_rng(seed), len(X)
    frame = X.rename(columns=str).astype(float).reset_index(drop=True)
    first = frame.iloc[:, 0]
    at = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.sort(rng.integers(0, 9 * 10**6, n)), "s")
    frame["at"] = at
    frame["above"] = pd.array(first > first.median(), dtype="boolean")
    kinds = pd.qcut(first.rank(method="first"), 4, labels=["low", "mid", "high", "top"])
    frame["kind"] = kinds.astype(str).astype(object)
    for column in frame:
        frame.loc[rng.random(n) < 0.06, column] = None
    frame["target"] = [f"c{label}" for label in y.tolist()]
    order = rng.permutation(n)
    return frame.iloc[order].reset_index(drop=True)


PIECES = {
    "pandas": lambda frame: frame,
    "pieces of pandas": lambda frame: (frame[i : i + 37] for i in range(0, len(frame), 37)),
    "polars": pl.from_pandas,
    "lazy": lambda frame: pl.from_pandas(frame).lazy(),
    "slices of polars": lambda frame: pl.from_pandas(frame).iter_slices(50),
    "arrow": pa.Table.from_pandas,
    "reader": lambda frame: pa.Table.from_pandas(frame).to_reader(19),
}


def shell(*arguments):
    """One command to its end."""
    subprocess.run([*COMMAND, *map(str, arguments)], check=True, stderr=subprocess.DEVNULL)


def differences(one, two):
    """Numbers of two files that are not the same bits, and other things that differ."""
    a, b = container.load(one), container.load(two)
    found = sum(int((a.arrays[k] != b.arrays[k]).sum()) for k in a.arrays)
    rest = ("inputs", "order")
    same = (a.facts, a.lists, a.options) == (b.facts, b.lists, b.options)
    left, right = ({k: v for k, v in c.stream.items() if k not in rest} for c in (a, b))
    return found + (a.arrays.keys() != b.arrays.keys()) + (not same) + (left != right)


def imputed(frame):
    """Largest difference of scores from a batch imputer and a fresh fit; learned in two, merged."""
    numbers = frame.select_dtypes("number")
    y = frame["target"]
    Z = SimpleImputer(add_indicator=True).fit_transform(numbers)
    f = BalancedRidgeClassifier().fit(Z, y).decision_function(Z)
    half = len(frame) // 2
    model = [TableClassifier(BalancedRidgeClassifier()) for _ in range(2)]
    order = np.random.default_rng(0).permutation(len(frame))
    parts = order[:half], order[half:]
    for one, at in zip(model, parts, strict=True):
        one.fit(numbers.iloc[at], y.iloc[at])
    both = model[0].merge(model[1])
    again = numbers.iloc[order[:50]], y.iloc[order[:50]]
    both.partial_fit(*again).unlearn(*again)
    return np.abs(both.decision_function(numbers) - f).max() / np.abs(f).max()


def main():
    """Write the table."""
    rows = []
    for seed, (name, X, y) in enumerate(sets()):
        frame = dressed(X, y, seed)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            pl.from_pandas(frame).write_csv("t.csv", datetime_format="%Y-%m-%d %H:%M:%S")
            frame.to_parquet("t.parquet", row_group_size=200)
            half = len(frame) // 2
            pl.from_pandas(frame[:half]).write_csv("a.csv", datetime_format="%Y-%m-%d %H:%M:%S")
            pl.from_pandas(frame[half:]).write_csv("b.csv", datetime_format="%Y-%m-%d %H:%M:%S")
            options = ["--label", "target", "--chunk-rows", ROWS, "--model"]
            for kind in ("csv", "parquet"):
                shell("learn", f"t.{kind}", *options, f"{kind}.st")
            bits = {}
            for pieces, made in PIECES.items():
                TableClassifier(chunk_rows=ROWS).partial_fit(made(frame), "target").save("p.st")
                bits[pieces] = max(differences(f"{k}.st", "p.st") for k in ("csv", "parquet"))
            for half_of in ("a.csv", "b.csv"):  # the positive class is that of the first run
                shell("learn", half_of, *options, "alone.st")
            shell("learn", "a.csv", *options, "both.st")
            TableClassifier.load("both.st").partial_fit(frame[half:], "target").save("both.st")
            turns = differences("alone.st", "both.st")
            shell("predict", "both.st", "t.csv", "--output", "p.csv")
            said = pd.read_csv("p.csv")["prediction"].astype(str).to_numpy()
            labels = (said != TableClassifier.load("both.st").predict(frame).astype(str)).sum()
            os.chdir("/")
        rows.append(
            [name, len(frame), frame.shape[1] - 1, sum(bits.values()), turns, labels,
             f"{imputed(frame):.0e}"]
        )  # fmt: skip
        print(rows[-1], flush=True)
    report.write(
        "tables",
        "TableClassifier and the command line",
        report.machine("counterpoise", "pandas", "polars", "pyarrow", "scikit-learn"),
        "Public sets that come with scikit-learn, river and statsmodels, with a date, a truth "
        "value, a category and 6 % gaps in every column. *Bits*: numbers of the model file, or "
        "other contents but the names of inputs, that differ from `learn` on CSV and Parquet, "
        f"over {len(PIECES)} ways to hand the frame over ({', '.join(PIECES)}). *Turns*: the same, "
        "where a shell learns one half and Python the other. *Labels*: "
        "predictions of both that differ. "
        "*Mean*: largest difference of scores, in parts of the largest, of the numbers alone from "
        "`SimpleImputer(add_indicator=True)` and a fresh fit; learned in any order, in two parts "
        "that were merged, with rows learned and unlearned.",
        report.table(["set", "rows", "columns", "bits", "turns", "labels", "mean"], rows),
    )


if __name__ == "__main__":
    main()
