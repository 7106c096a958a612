"""Table 4: CPU time of training with weights at every step; the cost of d and of n."""

from __future__ import annotations

import numpy as np

from counterpoise.arrays import Labels
from counterpoise.datasets import SETS, load
from counterpoise.evaluate.protocol import Fold, fold

from . import tables
from .clock import seconds
from .jobs import Settings, run
from .methods import EXACT, LARGE, METHODS, TABLE_4

COLUMNS = [*TABLE_4, EXACT]
PREFIXES = (1000, 2000, 4000, 8000)
WIDTHS = (4, 8, 16, 32, 64, 128, 256)
WIDE_METHODS = ("RLS", "NR-RLS", EXACT)


def training_times(name: str, seed: int, full: bool) -> dict[str, float]:
    """Seconds of every method on the first half of one run."""
    X, y = load(name)
    one = fold(X, y, seed, 0)
    return {
        method: seconds(METHODS[method](), one)
        for method in COLUMNS
        if method != "IR-RLS" or len(X) < LARGE or (full and seed == 0)
    }


def growth(name: str) -> list[list[float]]:
    """Seconds of IR-RLS on prefixes of the first half of run 0, beside the rows it revisits."""
    X, y = load(name)
    one = fold(X, y, 0, 0)
    found = []
    for m in PREFIXES:
        part = Fold(0, 0, one.X[:m], one.y[:m], one.X_test, one.y_test)
        found.append([m, revisited(part.y), seconds(METHODS["IR-RLS"](), part)])
    return [*found, [len(one.y), revisited(one.y), float("nan")]]


def revisited(y: Labels) -> int:
    """Rows that IR-RLS touches on a stream of these labels: Σ n_k (n_k + 1) / 2."""
    return int(sum(n * (n + 1) // 2 for n in ((y > 0).sum(), (y < 0).sum())))


def width_times(d: int) -> dict[str, float]:
    """Seconds for each row of a stream of d features."""
    rng = np.random.default_rng(d)
    n = 2_000 if d < 100 else 500
    y = np.where(rng.random(n) < 0.2, 1, -1)
    X = rng.random((n, d)) + 0.1 * (y > 0)[:, None]
    one = Fold(0, 0, X, y, X[:0], y[:0])
    return {method: seconds(METHODS[method](), one) / n for method in WIDE_METHODS}


def stage(settings: Settings) -> None:
    """Write results/table4.csv, growth.csv, width.csv and table4.md."""
    listed = [(name, seed) for name in settings.sets for seed in range(settings.runs)]
    found = run(
        settings, "Table 4", training_times, [(*one, settings.full) for one in listed], alone=True
    )
    by_set: dict[str, dict[str, list[float]]] = {name: {} for name in settings.sets}
    for (name, _), times in zip(listed, found, strict=True):
        for method, value in times.items():
            by_set[name].setdefault(method, []).append(value)
    large = [name for name in settings.sets if SETS[name].size >= LARGE]
    grown = dict(
        zip(large, run(settings, "IR-RLS", growth, [(n,) for n in large], alone=True), strict=True)
    )
    widths = [d for d in WIDTHS if not (settings.quick and d > 64)]
    by_width = run(settings, "Cost of d", width_times, [(d,) for d in widths], alone=True)
    rows = []
    for name in settings.sets:
        row: list[object] = [SETS[name].number, name]
        for method in COLUMNS:
            values = by_set[name].get(method)
            row.append(f"{np.mean(values):.4g}" if values else f"{extrapolated(grown[name]):.4g}")
        rows.append([*row, "no" if "IR-RLS" in by_set[name] else "yes"])
    tables.write_csv(
        settings.results / "table4.csv", ["no", "set", *COLUMNS, "IR-RLS extrapolated"], rows
    )
    tables.write_csv(
        settings.results / "growth.csv", ["set", "rows", "rows revisited", "seconds"],
        [[name, int(m), int(touched), "" if np.isnan(took) else f"{took:.4g}"]
         for name in large for m, touched, took in grown[name]],
    )  # fmt: skip
    tables.write_csv(
        settings.results / "width.csv", ["d", *WIDE_METHODS],
        [[d, *(f"{times[m]:.4g}" for m in WIDE_METHODS)]
         for d, times in zip(widths, by_width, strict=True)],
    )  # fmt: skip
    tables.write_page(settings.results / "table4.md", _page(settings))


def extrapolated(measured: list[list[float]]) -> float:
    """Seconds on the whole stream: the cost of a revisited row, times the rows revisited."""
    touched = np.array([row[1] for row in measured[:-1]])
    took = np.array([row[2] for row in measured[:-1]])
    return float(touched @ took / (touched @ touched) * measured[-1][1])


def exponent(x: list[float], y: list[float]) -> float:
    """Slope of a straight line through logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def read(settings: Settings) -> dict[str, dict[str, float]]:
    """Mean seconds by set and method."""
    return {
        row["set"]: {method: float(row[method]) for method in COLUMNS}
        for row in tables.read_csv(settings.results / "table4.csv")
    }


def growth_exponents(settings: Settings) -> dict[str, float]:
    """Power of the number of rows with which the time of IR-RLS grows, by set."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in tables.read_csv(settings.results / "growth.csv"):
        if row["seconds"]:
            found.setdefault(row["set"], []).append((float(row["rows"]), float(row["seconds"])))
    return {name: exponent(*map(list, zip(*v, strict=True))) for name, v in found.items()}


def width_exponents(settings: Settings) -> dict[str, float]:
    """Power of d with which the time of a row grows, over the widest half, by method."""
    rows = tables.read_csv(settings.results / "width.csv")[-3:]
    d = [float(row["d"]) for row in rows]
    return {m: exponent(d, [float(row[m]) for row in rows]) for m in WIDE_METHODS}


def _page(settings: Settings) -> str:
    times, printed = read(settings), tables.printed_times()
    guessed = {
        row["set"]
        for row in tables.read_csv(settings.results / "table4.csv")
        if row["IR-RLS extrapolated"] == "yes"
    }
    rows = []
    for name, values in times.items():
        no = SETS[name].number
        row: list[object] = [no, name, f"{1e6 * values['RLS'] / (SETS[name].size / 2):.2f}"]
        for method in COLUMNS:
            ratio = values[method] / values["RLS"]
            told = printed.get((no, method))
            star = "*" if method == "IR-RLS" and name in guessed else ""
            beside = f" [{told / printed[no, 'RLS']:.3g}]" if told is not None else ""
            row.append(f"{ratio:.3g}{star}{beside}")
        rows.append(row)
    widths = [
        [row["d"], *(f"{1e6 * float(row[m]):.3g}" for m in WIDE_METHODS)]
        for row in tables.read_csv(settings.results / "width.csv")
    ]
    powers = ", ".join(f"{m} {e:.2f}" for m, e in width_exponents(settings).items())
    law = "".join(f" {name}: n^{e:.2f}." for name, e in growth_exponents(settings).items())
    grown = (
        f"""IR-RLS revisits every row of the arriving class. On the large sets it ran on prefixes of
{", ".join(f"{m:,}" for m in PREFIXES)} rows; * is the cost of a revisited row, fitted to these,
times the rows revisited in the whole half
(the total grows with the square of the stream, so this is an extrapolation and not a measurement).
Fitted to the prefixes alone, the total time grows as:{law}"""
        if law
        else ""
    )
    return f"""# Table 4: CPU time of training

Mean CPU time over {settings.runs} runs (the first half of each) to learn a half with weights at
every step, best of three measurements (one, where it takes 0.2 s or more), one process, one BLAS
thread, the compiled loop alone; as ratios to RLS, and in brackets the ratios of the printed times.
Absolute seconds do not compare: the paper's are MATLAB's or NumPy's of another machine. ACOG is
not printed, though the paper ranks it in Figure 3(b). NR-RLS is the recursion as printed; the last
column is our exact engine, which has the same weights.

{tables.markdown(["no", "set", "RLS, µs a row", *COLUMNS], rows, left=2)}

{grown}

## The cost of width

Microseconds for each row of made-up streams of d features. The power of d over the three widest:
{powers}.

{tables.markdown(["d", *WIDE_METHODS], widths, left=1)}
"""
