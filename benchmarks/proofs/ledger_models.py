"""Models of random selections of a ledger, beside fresh models that learned just those rows.

Selections by time, by segment, with exclusions and fading: of three public sets cut into days, and
of made-up payments with a late column and a late category. Fading is compared with explicit
weights. The sets come from COUNTERPOISE_DATA.

Segments are features, one for each value, whose sum is the constant: the smallest eigenvalue of a
problem is its ridge. Where classes are not balanced that is worth three rows here, as by default;
one worth 0.1 of 20,000 rows costs another digit.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from ledgers import a_year, cut_into_days, distance, random_selection
from paper.datasets import load

from benchmarks import report
from counterpoise import Ledger

SETS, ROWS, LIMIT = ("spambase", "ijcnn1", "cod-rna"), 20_000, 1e-10


def distances(tables, beside, count, **keys):
    """Distance of each model from a fresh one: of selections that fade, and of others."""
    rng, plain, faded = np.random.default_rng(0), [], []
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger.open(Path(folder) / "l", time="at", **keys) as ledger,
    ):
        for table in tables:
            ledger.learn(table, allow_new_columns=True)
        while len(plain) + len(faded) < count:
            named, weight = random_selection(rng, beside)
            if len(np.unique(beside.y[weight > 0])) < 2:
                continue
            options = {} if rng.random() < 0.7 else {"ridge": 3.0, "class_weight": None}
            model, fresh = ledger.model(**named, **options), beside.fresh(weight, **options)
            off = distance(model, beside.names, fresh, beside.X[weight > 0])
            (faded if "half_life" in named else plain).append(off)
    assert max(plain + faded) <= LIMIT
    return plain, faded


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--selections", type=int, default=200)
    options = parser.parse_args()
    tables, beside = a_year(days=366, rows=60)
    found = {"payments": distances(tables, beside, options.selections, label="fraud", by="country")}
    for name in SETS:
        X, y = load(name)
        table, beside = cut_into_days(X[:ROWS], y[:ROWS])
        found[name] = distances([table], beside, options.selections, label="y", by="town")
    rows = [
        [name, len(plain), f"{max(plain):.1e}", len(faded), f"{max(faded):.1e}"]
        for name, (plain, faded) in found.items()
    ]
    report.write(
        "ledger_models",
        "Models of selections",
        f"{options.selections} random selections of each set, the ledger's model beside a fresh "
        "one that learned just those rows: largest difference of weights, in units of deviations "
        f"of the features, and of the constant. More than {LIMIT:g} would have stopped it. "
        f"{report.machine('counterpoise', 'numpy')}",
        report.table(["set", "plain", "largest", "faded", "largest"], rows),
    )


if __name__ == "__main__":
    main()
