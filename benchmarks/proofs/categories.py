"""Columns with many categories: ranking of rare payments by merchants and devices, and cost.

The worlds are synthetic. Log-odds are linear in three of eight numbers, plus a normal effect of
each category. Categories occur with log-normal frequencies.
"""

import csv
import gzip
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pc
import scipy.sparse as sp
from scipy.sparse.linalg import cg
from scipy.stats import t as student
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.preprocessing import TargetEncoder

from benchmarks import report
from counterpoise import BalancedRidgeClassifier, TableClassifier

# Categories of each column, and the standard deviation of their effects.
WORLDS = {
    "5,000 merchants, sd 1.0": ((5_000,), 1.0),
    "5,000 merchants, sd 0.5": ((5_000,), 0.5),
    "50,000 merchants, sd 1.0": ((50_000,), 1.0),
    "5,000 merchants and 20,000 devices, sd 0.7": ((5_000, 20_000), 0.7),
}
RATE = 0.003
ROUNDS = 3  # of runs whose cost is measured
FIXED = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1_000)  # rows that a ridge is worth


def payments(sizes, sd, rows, seed):
    """Return a frame of payments and their labels, of which the share RATE is positive."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 8))
    f = X[:, :3] @ [1.0, 0.7, 0.4]
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(8)])
    for name, size in zip(("merchant", "device"), sizes, strict=False):
        share = rng.lognormal(0.0, 1.0, size)
        code = rng.choice(size, rows, p=share / share.sum())
        f += sd * rng.normal(size=size)[code]
        frame[name] = np.char.add(name[0], code.astype(str))
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = (low + high) / 2.0
        is_high = (1.0 / (1.0 + np.exp(-f - middle))).mean() > RATE
        low, high = (low, middle) if is_high else (middle, high)
    return frame, (rng.random(rows) < 1.0 / (1.0 + np.exp(-f - low))).astype(int)


def ridge_with(role):
    """Return a learner whose text columns have a role."""

    def fit_and_score(train, y, test, names):
        columns = dict.fromkeys(names, role)
        model = TableClassifier(BalancedRidgeClassifier(), columns=columns).fit(train, y)
        return model.decision_function(test)

    return fit_and_score


def with_target_encoding(model):
    """Return a learner of numbers, next to cross-fitted target encodings."""

    def fit_and_score(train, y, test, names):
        encoder = TargetEncoder(random_state=0)
        own, other = train.drop(columns=names), test.drop(columns=names)
        own[names] = encoder.fit_transform(train[names], y)
        other[names] = encoder.transform(test[names])
        fitted = model().fit(own, y)
        if hasattr(fitted, "decision_function"):
            return fitted.decision_function(other)
        return fitted.predict_proba(other)[:, 1]

    return fit_and_score


def make_lightgbm(**params):
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=1, verbose=-1, random_state=0, **params)


def score_with_categories(train, y, test, names):
    """Score by LightGBM with its own treatment of categories."""
    types = {name: pd.CategoricalDtype(train[name].unique()) for name in names}
    model = make_lightgbm().fit(train.astype(types), y)
    return model.predict_proba(test.astype(types))[:, 1]


LEARNERS = {
    "numbers only": ridge_with("drop"),
    "hashed to 256": ridge_with("hash:256"),
    "target encoding": with_target_encoding(BalancedRidgeClassifier),
    "many": ridge_with("many"),
    **{f"many:{rows:g}": ridge_with(f"many:{rows:g}") for rows in FIXED},
    "LightGBM, categorical": score_with_categories,
    "LightGBM, target encoding": with_target_encoding(make_lightgbm),
    "LightGBM balanced, target encoding": with_target_encoding(
        lambda: make_lightgbm(class_weight="balanced")
    ),
    "HistGradientBoosting, target encoding": with_target_encoding(
        lambda: HistGradientBoostingClassifier(random_state=0)
    ),
}


def run_worlds(rows, seeds):
    """Return average precision, AUC and CPU seconds by world, learner and seed."""
    found = {}
    for world, (sizes, sd) in WORLDS.items():
        for seed in range(seeds):
            frame, y = payments(sizes, sd, rows, seed)
            cut = rows * 3 // 5
            names = [name for name in ("merchant", "device") if name in frame]
            for name, learner in LEARNERS.items():
                start = time.process_time()
                score = learner(frame[:cut].copy(), y[:cut], frame[cut:].copy(), names)
                seconds = time.process_time() - start
                true = y[cut:]
                result = average_precision_score(true, score), roc_auc_score(true, score), seconds
                found[world, name, seed] = result
            print(world, seed, flush=True, file=sys.stderr)
    return found


def half_width(values):
    """Return half of the 95% interval of a mean."""
    n = len(values)
    return student.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n)


def write_worlds(found, rows, seeds):
    """Write the table of all worlds, and every fold."""
    parts = []
    shown = [name for name in LEARNERS if not name.startswith("many:")]
    for world in WORLDS:
        of = {
            name: np.array([found[world, name, seed] for seed in range(seeds)])
            for name in LEARNERS
        }  # fmt: skip
        fixed = max((f"many:{rows:g}" for rows in FIXED), key=lambda name: of[name][:, 0].mean())
        lines = []
        for name in [*shown, fixed]:
            ap, auc, seconds = of[name].T
            less = of["many"][:, 0] - ap
            title = f"best fixed ridge, {name}" if name == fixed else name
            lines.append(
                [
                    title, f"{ap.mean():.4f} ± {half_width(ap):.4f}",
                    f"{auc.mean():.4f} ± {half_width(auc):.4f}",
                    "" if name == "many" else f"{less.mean():+.4f} ± {half_width(less):.4f}",
                    f"{seconds.mean():.1f}",
                ]
            )  # fmt: skip
        head = ["learner", "average precision", "AUC", "`many` less it", "CPU s"]
        parts += [f"## {world}", report.table(head, lines)]
    with gzip.open(report.RESULTS / "categories.csv.gz", "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["world", "learner", "seed", "average precision", "auc", "cpu"])
        writer.writerows([*key, *map(repr, value)] for key, value in found.items())
    report.write(
        "categories",
        "Columns with many categories",
        f"{rows:,} synthetic payments, of which {RATE:.1%} are fraud; 60% for training. "
        f"{seeds} seeds, with 95% intervals over them. `many` chooses its ridge by a "
        "leave-one-out loss of the training rows; the best fixed ridge is chosen on the test rows. "
        "Target encodings are cross-fitted by scikit-learn. LightGBM and HistGradientBoosting have "
        "their defaults. All rows are in categories.csv.gz.",
        *parts,
    )


def with_log_rates(train, y, test, names):
    """Score by numbers and the log of the smoothed rate of each category, without the own row.

    A rate is worth as many rows as the method of moments gives.
    """
    own, other, rate = train.drop(columns=names), test.drop(columns=names), y.mean()
    for name in names:
        values, code = np.unique(train[name], return_inverse=True)
        at = pd.Index(values).get_indexer(test[name])
        n, positive = np.append(np.bincount(code), 0.0), np.append(np.bincount(code, y), 0.0)
        variance = rate * (1.0 - rate)
        between = ((positive - n * rate) ** 2 - n * variance).sum()
        m = variance * (n**2).sum() / max(between, 1e-9)
        own[name] = np.log((positive[code] - y + m * rate) / (n[code] - 1.0 + m))
        other[name] = np.log((positive[at] + m * rate) / (n[at] + m))
    return BalancedRidgeClassifier().fit(own, y).decision_function(other)


def with_class_means(train, y, test, names):
    """Score by ridge regression with the ridges of ``many``, and other sums of features.

    In the sums of a category each row of the rare class has the mean numbers of its class.
    """
    table = TableClassifier(BalancedRidgeClassifier(), columns=dict.fromkeys(names, "many"))
    worth = table.fit(train, y)._model.estimator.scores().effects.pseudo_rows
    own, other = (np.insert(one.drop(columns=names), 0, 1.0, axis=1) for one in (train, test))
    hot, hot_other, ridge = [], [], []
    w, t = np.where(y == 1, 0.5 / y.sum(), 0.5 / (1 - y).sum()), 2.0 * y - 1.0
    for name, m in zip(names, worth, strict=True):
        values, code = np.unique(train[name], return_inverse=True)
        at = pd.Index(values).get_indexer(test[name])
        hot.append(sp.csr_array((np.ones(len(code)), (np.arange(len(code)), code))))
        rows = np.flatnonzero(at >= 0)
        entries = np.ones(len(rows)), (rows, at[rows])
        hot_other.append(sp.csr_array(entries, shape=(len(test), len(values))))
        unit = 0.25 / y.sum() + 0.25 / (1 - y).sum()
        ridge.append(np.full(len(values), m * unit))
    E, E_other = sp.csr_array(sp.hstack(hot)), sp.csr_array(sp.hstack(hot_other))
    weighted = sp.csr_array(E.multiply(w[:, None]))
    M = E.T @ weighted + sp.diags_array(np.concatenate(ridge))
    mean = np.where(y[:, None] == 1, own[y == 1].mean(axis=0), own)
    C, z = weighted.T @ mean, weighted.T @ t
    scale = sp.diags_array(1.0 / M.diagonal())
    U, a = (
        np.column_stack([cg(M, v, rtol=1e-9, M=scale)[0] for v in np.atleast_2d(one.T)])
        for one in (C, z)
    )
    A, b = own.T @ (w[:, None] * own), own.T @ (w * t)
    beta = np.linalg.solve(A - C.T @ U, b - C.T @ a[:, 0])
    return other @ beta + E_other @ (a[:, 0] - U @ beta)


ALTERNATIVES = {
    "target encoding": LEARNERS["target encoding"],
    "many": LEARNERS["many"],
    "mean numbers of the rare class": with_class_means,
    "log of the rate of other rows": with_log_rates,
}


def run_alternatives(rows, seeds):
    """Write what limits average precision, on seeds that the table of worlds does not have."""
    parts = []
    for world, (sizes, sd) in WORLDS.items():
        found = {name: [] for name in ALTERNATIVES}
        for seed in range(100, 100 + seeds):
            frame, y = payments(sizes, sd, rows, seed)
            cut, names = rows * 3 // 5, [name for name in ("merchant", "device") if name in frame]
            for name, learner in ALTERNATIVES.items():
                score = learner(frame[:cut].copy(), y[:cut], frame[cut:].copy(), names)
                found[name].append(average_precision_score(y[cut:], score))
            print(world, seed, flush=True, file=sys.stderr)
        lines = []
        for name, own in found.items():
            less = np.subtract(own, found["target encoding"])
            cells = [f"{np.mean(own):.4f} ± {half_width(own):.4f}"]
            lines.append([name, *cells, f"{less.mean():+.4f} ± {half_width(less):.4f}"])
        head = ["learner", "average precision", "less target encoding"]
        parts += [f"## {world}", report.table(head, lines)]
    report.write(
        "categories_alternatives",
        "Alternatives to the exact effects of categories",
        f"The payments of [the table of worlds](categories.md), with seeds 100 to {99 + seeds}, "
        "on which alternatives were compared. The two last learners are not in the package. "
        "*Mean numbers of the rare class* is `many` with the same ridges, but in the sums of a "
        "category each fraud has the mean numbers of all frauds. *Log of the rate of other rows* "
        "is one feature for each column, the log of the smoothed rate of the category without the "
        "row, in place of the effects.",
        *parts,
    )


def write_stream(path, rows, sizes, block=500_000):
    """Write a CSV of 20 numbers and columns of categories, part by part."""
    rng = np.random.default_rng(0)
    effects = [rng.normal(size=size) for size in sizes]
    shares = [rng.lognormal(0.0, 1.0, size) for size in sizes]
    values = [pa.array([f"v{i}_{k}" for k in range(n)]) for i, n in enumerate(sizes)]
    writer = None
    for start in range(0, rows, block):
        n = min(block, rows - start)
        X = rng.normal(size=(n, 20)).round(4)
        f, columns = X[:, 0] + rng.normal(size=n), {f"x{j}": X[:, j] for j in range(20)}
        for i, (size, share) in enumerate(zip(sizes, shares, strict=True)):
            code = rng.choice(size, n, p=share / share.sum())
            f += effects[i][code]
            columns[f"c{i}"] = values[i].take(pa.array(code))
        table = pa.table({**columns, "fraud": (f > 4.0).astype(int)})
        writer = writer or pc.CSVWriter(path, table.schema)
        writer.write(table)
    writer.close()


# A small process, because the memory of a process counts the one that has started it.
MEASURE = """
import os, sys
process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(process, 0)
print(status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e6)
"""


def cost_of(arguments):
    """Return CPU seconds, and the largest memory in GB, of a command."""
    program = Path(sys.executable).with_name("counterpoise")
    command = [sys.executable, "-S", "-c", MEASURE, program, *arguments]
    status, seconds, memory = subprocess.check_output(command, text=True).split()
    assert status == "0", arguments
    return float(seconds), float(memory)


def run_cost(rows):
    """Write CPU time and memory of learning columns of many categories, over those without."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for sizes in ((100_000, 10_000, 200), (1_000_000,)):
            path, model = Path(folder) / "rows.csv", Path(folder) / "model.safetensors"
            write_stream(path, rows, sizes)
            names = ",".join(f"c{i}" for i in range(len(sizes)))
            results = {}
            for option in ("--drop", "--many") * ROUNDS:
                model.unlink(missing_ok=True)
                options = ["--label", "fraud", "--model", str(model), "--memory-limit", "4e9"]
                command = ["learn", str(path), *options, "--quiet", option, names]
                found = *cost_of(command), model.stat().st_size / 1e6
                results[option] = min(found, results.get(option, found))
            for option, (seconds, memory, size) in results.items():
                base = results["--drop"][0]
                text = f"{option.strip('-')} columns of {', '.join(f'{n:,}' for n in sizes)} values"
                cells = f"{seconds:.1f}", f"{seconds / base:.2f}", f"{memory:.2f}", f"{size:,.1f}"
                lines.append([text, *cells])
    report.write(
        "categories_cost",
        "Cost of columns with many categories",
        f"`counterpoise learn` on a CSV of {rows:,} rows with 20 numbers: CPU time of the whole "
        "process, its ratio to the same file with these columns dropped, and the largest memory. "
        f"Each is the fastest of {ROUNDS} runs, which alternate. Nearly all of a model file are "
        "the sums by category and the weights of pairs.",
        report.table(["columns", "CPU s", "ratio", "memory, GB", "model file, MB"], lines),
    )


if __name__ == "__main__":
    parts = "worlds", "alternatives", "cost"
    options = report.parse(__doc__, parts, seeds=10, rows=300_000, stream=5_000_000)
    if "worlds" in options.parts:
        write_worlds(run_worlds(options.rows, options.seeds), options.rows, options.seeds)
    if "alternatives" in options.parts:
        run_alternatives(options.rows, options.seeds)
    if "cost" in options.parts:
        run_cost(options.stream)
