"""A ledger of many rows: learning, queries, and the time of a refit from the rows.

10 million rows of 30 features, 365 days and 20 countries by default (--rows for less).
"""

import itertools
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks import processes, report
from counterpoise import BalancedRidgeClassifier, Ledger

D, DAYS, COUNTRIES, DAY = 30, 365, 20, 86_400
ROWS_OF_SMALL_CELL = 5
PART_ROWS = 100_000  # written at a time
KEYS = ["--label", "y", "--drop", "country", "--timestamp", "at", "--by", "country"]
HALF = [f"c{i}" for i in range(0, COUNTRIES, 2)]
WINDOWS, LIVES, RIDGES = [7, 14, 30, 60, 90], [None, 3, 7, 30, 90], ["auto", 1.0]


def write_rows(path, rows, countries=COUNTRIES):
    """Write payments by time, 1% of them frauds."""
    rng, options = np.random.default_rng(0), pa.csv.WriteOptions(include_header=False)
    with open(path, "wb") as file:
        for first in range(0, rows, PART_ROWS):
            n = min(PART_ROWS, rows - first)
            y = (rng.random(n) < 0.01).astype(np.int64)
            at = ((first + np.arange(n)) * (DAYS * DAY / rows)).astype(np.int64)
            columns = {"at": pa.array(at.astype("datetime64[s]"))}
            columns["country"] = np.char.add("c", rng.integers(0, countries, n).astype(str))
            X = np.round(rng.standard_normal((n, D)) + 0.3 * y[:, None], 3)
            columns |= {f"x{j}": X[:, j] for j in range(D)} | {"y": y}
            table = pa.table(columns)
            pa.csv.write_csv(table, file, options if first else None)


def measure(folder, *arguments):
    """Return elapsed and processor seconds of a command, and its largest memory in MB."""
    begin = time.perf_counter()
    process = processes.start(folder, *arguments)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, arguments
    processor = used.ru_utime + used.ru_stime
    return (time.perf_counter() - begin, processor), used.ru_maxrss / 1024


def time_first_model(path, **chosen):
    """Return milliseconds to open a ledger and make one model."""

    def call():
        with Ledger.open(path) as ledger:
            return ledger.model(**chosen).coef_

    return best(call)


def head(path, lines, to):
    """Copy the first lines of a file."""
    with open(path) as rows, open(to, "w") as file:
        file.writelines(itertools.islice(rows, lines))


def best(call, times=5):
    """Return the least milliseconds of a few calls."""
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return 1e3 * min(found)


def compare(folder, name, **limits):
    """Learn a file into models and ledgers, in turns; return the least seconds and the memory."""
    keys = [*KEYS, *(word for pair in limits.items() for word in pair)]
    found, memory = {"learn": [], "ledger learn": []}, {}
    for turn in range(2):
        plain = ["learn", name, "--label", "y", "--drop", "at,country", "-m", f"m {name} {turn}"]
        ours = ["ledger", "learn", name, *keys, "-l", f"l {name} {turn}"]
        for what, command in zip(found, (plain, ours), strict=True):
            seconds, memory[what] = measure(folder, *command)
            found[what].append(seconds)
    return {what: np.min(each, axis=0) for what, each in found.items()}, memory


def refit(path, since):
    """Return seconds to read the rows with Arrow and to fit the last 30 days."""
    begin = time.perf_counter()
    table = pa.csv.read_csv(path)
    at = table["at"].cast(pa.timestamp("s")).cast(pa.int64()).to_numpy()
    rows = np.flatnonzero(at >= since)
    X = np.column_stack([table[f"x{j}"].to_numpy()[rows] for j in range(D)])
    BalancedRidgeClassifier().fit(X, table["y"].to_numpy()[rows])
    return time.perf_counter() - begin


def main():
    """Write the table."""
    options = report.parse(__doc__, rows=10_000_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder / "t.csv", options.rows)
        head(folder / "t.csv", options.rows // 10 + 1, folder / "tenth.csv")
        seconds, memory = compare(folder, "t.csv")
        _, tenth = measure(folder, "ledger", "learn", "tenth.csv", *KEYS, "-l", "tenth")
        (folder / "l t.csv 0").rename(folder / "l0")
        size = (folder / "l0").stat().st_size
        few = options.rows // 20
        write_rows(folder / "few.csv", few, few // (ROWS_OF_SMALL_CELL * DAYS))
        small, _ = compare(folder, "few.csv", **{"--max-values": str(few)})
        chosen = {
            "everything": {},
            "the last 30 days": {"since": "1970-12-02"},
            "one country": {"where": {"country": "c3"}},
            "all but one country, decayed": {"where": {"country": {"not": "c3"}}, "half_life": 30},
            "every second country, decayed": {"where": {"country": HALF}, "half_life": 30},
        }
        cold = {name: time_first_model(folder / "l0", **one) for name, one in chosen.items()}
        with Ledger.open(folder / "l0") as ledger:
            found = ledger.summary()
            warm = {
                name: best(lambda one=one: ledger.model(**one).coef_)
                for name, one in chosen.items()
            }
            settings = len(WINDOWS) * len(LIVES) * len(RIDGES)
            queries = {
                f"backtest of {DAYS} days by {settings} settings": lambda: ledger.backtest(
                    train=WINDOWS, half_life=LIVES, ridge=RIDGES
                ),
                "drift": ledger.drift,
                "compare": lambda: ledger.compare({"until": "1970-07-01"}, {"since": "1970-07-01"}),
                "uncertainty": lambda: ledger.uncertainty(ledger.model()),
            }
            answered = [[name, f"{best(call, 2) / 1e3:.2f} s"] for name, call in queries.items()]
        again = refit(folder / "t.csv", 335 * DAY)
    cells = found["cells"]
    learned = [
        [what, *(f"{one:.1f} s" for one in seconds[what]), f"{memory[what]:.0f} MB"]
        for what in seconds
    ]
    ratio = seconds["ledger learn"] / seconds["learn"]
    learned += [
        ["ratio", *(f"{one:.2f}" for one in ratio), ""],
        ["ledger learn of a tenth of the rows", "", "", f"{tenth:.0f} MB"],
    ]
    small["ratio"] = small["ledger learn"] / small["learn"]
    for what, one in small.items():
        form = "{:.2f}" if what == "ratio" else "{:.1f} s"
        learned.append([f"{what}, {ROWS_OF_SMALL_CELL} rows per cell", *map(form.format, one), ""])
    report.write(
        "ledger",
        "The ledger",
        f"{options.rows:,} rows of {D} features by {DAYS} days and {COUNTRIES} countries; "
        f"{cells:,} cells of one class, {size / 1e6:.0f} MB, {size / cells / 1e3:.1f} kB each.",
        f"Cells of {ROWS_OF_SMALL_CELL} rows are those of {few:,} rows with more countries.",
        report.table(["command", "best of 2", "processor time", "memory"], learned),
        report.table(
            ["model of", "open, and the first model", "later"],
            [[name, f"{cold[name]:.0f} ms", f"{warm[name]:.1f} ms"] for name in chosen],
        ),
        report.table(
            ["query", "time"],
            [*answered, ["the last 30 days, refitted from the rows", f"{again:.1f} s"]],
        ),
    )


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
