"""TableClassifier and the command line, bit by bit, on public sets with everything in them."""

import contextlib
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import statsmodels.api as sm
from river import datasets
from sklearn import datasets as bundled
from sklearn.impute import SimpleImputer

from benchmarks import processes, report
from counterpoise import BalancedRidgeClassifier, TableClassifier
from counterpoise.modelfile import container

CHUNK_ROWS = 128


def sets():
    """Yield name, frame and labels of ten sets that come with installed packages."""
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


def add_columns(X, y, seed):
    """Return the rows with a date, a boolean and a category, and missing values in all of them."""
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


INPUTS = {
    "pandas": lambda frame: frame,
    "pieces of pandas": lambda frame: (frame[i : i + 37] for i in range(0, len(frame), 37)),
    "polars": pl.from_pandas,
    "lazy": lambda frame: pl.from_pandas(frame).lazy(),
    "slices of polars": lambda frame: pl.from_pandas(frame).iter_slices(50),
    "arrow": pa.Table.from_pandas,
    "reader": lambda frame: pa.Table.from_pandas(frame).to_reader(19),
}


def differences(one, two):
    """Return how many numbers and other contents of two model files differ."""
    a, b = container.load(one), container.load(two)
    found = sum(int((a.arrays[k] != b.arrays[k]).sum()) for k in a.arrays)
    rest = ("inputs", "order")
    same = (a.facts, a.lists, a.options) == (b.facts, b.lists, b.options)
    left, right = ({k: v for k, v in c.stream.items() if k not in rest} for c in (a, b))
    return found + (a.arrays.keys() != b.arrays.keys()) + (not same) + (left != right)


def compare_imputation(frame):
    """Return the largest difference of scores from a batch imputer, learned in two and merged."""
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
    options, rows = report.parse(__doc__, sets=10), []
    for seed, (name, X, y) in zip(range(options.sets), sets(), strict=False):
        frame = add_columns(X, y, seed)
        with tempfile.TemporaryDirectory() as made, contextlib.chdir(made):
            folder = Path(made)
            pl.from_pandas(frame).write_csv("t.csv", datetime_format="%Y-%m-%d %H:%M:%S")
            frame.to_parquet("t.parquet", row_group_size=200)
            half = len(frame) // 2
            pl.from_pandas(frame[:half]).write_csv("a.csv", datetime_format="%Y-%m-%d %H:%M:%S")
            pl.from_pandas(frame[half:]).write_csv("b.csv", datetime_format="%Y-%m-%d %H:%M:%S")
            given = ["--label", "target", "--chunk-rows", CHUNK_ROWS, "--model"]
            for kind in ("csv", "parquet"):
                processes.run(folder, "learn", f"t.{kind}", *given, f"{kind}.st")
            bits = {}
            for kind, convert in INPUTS.items():
                TableClassifier(chunk_rows=CHUNK_ROWS).partial_fit(convert(frame), "target").save(
                    "p.st"
                )
                bits[kind] = max(differences(f"{k}.st", "p.st") for k in ("csv", "parquet"))
            for half_of in ("a.csv", "b.csv"):  # the positive class is that of the first run
                processes.run(folder, "learn", half_of, *given, "alone.st")
            processes.run(folder, "learn", "a.csv", *given, "both.st")
            TableClassifier.load("both.st").partial_fit(frame[half:], "target").save("both.st")
            turns = differences("alone.st", "both.st")
            processes.run(folder, "predict", "both.st", "t.csv", "--output", "p.csv")
            predicted = pd.read_csv("p.csv")["prediction"].astype(str).to_numpy()
            labels = (predicted != TableClassifier.load("both.st").predict(frame).astype(str)).sum()
        rows.append(
            [name, len(frame), frame.shape[1] - 1, sum(bits.values()), turns, labels,
             f"{compare_imputation(frame):.0e}"]
        )  # fmt: skip
        print(rows[-1], flush=True)
    report.write(
        "tables",
        "TableClassifier and the command line",
        "Public sets that come with scikit-learn, river and statsmodels, with a date, a boolean, a "
        "category and 6% missing values in every column. *Bits*: numbers of the model file, or "
        "other contents but the names of inputs, that differ from `learn` on CSV and Parquet, "
        f"over {len(INPUTS)} ways to pass the frame ({', '.join(INPUTS)}). *Turns*: the same, "
        "where a shell learns one half and Python the other. *Labels*: "
        "predictions of both that differ. "
        "*Mean*: largest difference of scores, in parts of the largest, of the numbers alone from "
        "`SimpleImputer(add_indicator=True)` and a fresh fit; learned in any order, in two parts "
        "that were merged, with rows learned and unlearned.",
        report.table(["set", "rows", "columns", "bits", "turns", "labels", "mean"], rows),
    )


if __name__ == "__main__":
    main()
