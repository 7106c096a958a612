"""Claims about time and memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from . import tables
from .assessments import FAILS, HOLDS, NOT_SEEN, PARTLY, Claim, assess, format_values
from .datasets import SETS
from .jobs import Settings
from .methods import EXACT, TABLE_3
from .table3 import disagreement
from .table4 import growth_exponents, read, width_exponents

LINEAR = (7 / 8) / (3 / 8)  # a straight line through 0, last quarter over second
STEADY = 1.1  # what noise may make of a constant


def cost(settings: Settings) -> Iterator[Claim]:
    """Time of a sample, of a stream, and memory."""
    times, told = read(settings), tables.printed_times()
    power = width_exponents(settings)
    ratio = np.array([t["NR-RLS"] / t["RLS"] for t in times.values()])
    engine = np.array([t[EXACT] / t["RLS"] for t in times.values()])
    yield Claim(
        "NR-RLS costs O(2d²) for each sample",
        assess(power["NR-RLS"] < power["RLS"] + 0.5),
        f"""The printed recursion solves a general d × d system for each sample: O(d³). Power of d
        over the widest streams measured: NR-RLS {power["NR-RLS"]:.2f}, RLS {power["RLS"]:.2f}.""",
    )
    printed_ratio = np.median([told[no, "NR-RLS"] / told[no, "RLS"] for no in range(1, 32)])
    yield Claim(
        "NR-RLS is slower than the other first- and second-order methods, but comparable",
        assess(np.median(ratio) < 3, PARTLY),
        f"""Time over that of RLS: {ratio.min():.0f} to {ratio.max():.0f}, median
        {np.median(ratio):.0f}; printed median {printed_ratio:.1f}. Our exact engine:
        {engine.min():.1f} to {engine.max():.0f}, median {np.median(engine):.1f}.""",
    )
    flat = time_trend(settings)
    constant = ("RLS", "AR-RLS", "NR-RLS")
    yield Claim(
        "The time of a sample is constant for RLS, AR-RLS and NR-RLS (section 4.2.3)",
        assess(max(flat[m] for m in constant) < STEADY, PARTLY),
        f"""Time of a sample in the last quarter of the stream over that in the second, median over
        sets: {format_values({m: flat[m] for m in constant}, 2)}.""",
    )
    grows = ("LS", "TER", "IR-RLS")
    linear = [m for m in grows if flat[m] > 0.75 * LINEAR]
    yield Claim(
        "The times of LS, TER and IR-RLS grow linearly with the samples (section 4.2.3)",
        assess(len(linear) == len(grows), PARTLY if linear else FAILS),
        f"""The same quotient is {LINEAR:.2f} where growth is linear, and here
        {format_values({m: flat[m] for m in grows}, 2)}. Computed from all rows, LS and TER take a
        sum that grows and a system of d equations that does not.""",
    )
    yield from _memory(settings)
    grown = growth_exponents(settings)
    powers = ", ".join(f"{n} n^{e:.2f}" for n, e in grown.items())
    yield Claim(
        "IR-RLS has an “exponentially growing” time complexity (introduction)",
        assess(max(grown.values(), default=2.0) > 3.0),
        f"""Its time for a sample grows linearly with the rows of its class, as section 3.2 of the
        paper states itself; the total grows quadratically ({powers or "no large set was run"}).""",
    )
    slower = np.array([t["IR-RLS"] / t["NR-RLS"] for t in times.values()])
    names = [n for n, s in zip(times, slower, strict=True) if s < 0.8]
    yield Claim(
        "NR-RLS is much faster than IR-RLS",
        assess(not names, PARTLY),
        f"""IR-RLS takes {slower.min():.1g} to {_round(slower.max())} times as long (extrapolated on
        the three large sets, unless run in full). It is clearly the faster one on
        {", ".join(names) or "no set"}: streams that are short for their width.""",
    )
    faster = sum(told[no, "RLS"] < min(told[no, "PE"], told[no, "PA"]) for no in range(1, 32))
    first = [max(t["PE"], t["PA"]) < min(t[m] for m in TABLE_3[2:]) for t in times.values()]
    yield Claim(
        "First-order methods are faster than second-order ones",
        assess(all(first), PARTLY),
        f"""PE and PA are both faster than all others on {sum(first)} of {len(first)} sets here; in
        the printed table RLS is faster than both on {faster} of 31.""",
    )


def _round(value: float) -> str:
    """One digit, for what was extrapolated."""
    return f"{float(f'{value:.1g}'):,.0f}"


def _memory(settings: Settings) -> Iterator[Claim]:
    ran = disagreement(settings)["TER"][1]
    largest = max(settings.sets, key=lambda name: SETS[name].size)
    rows, d = (SETS[largest].size + 1) // 2, SETS[largest].dimension + 1
    yield Claim(
        "LS and TER run out of memory on the three large sets (appendix D)",
        HOLDS if ran < len(settings.sets) else NOT_SEEN,
        f"""TER ran on {ran} of {len(settings.sets)} sets here. Half of {largest}, {rows:,} rows of
        {d}
        numbers, is {8e-6 * rows * d:.3g} MB, and the sums that TER needs of it are {d} × {d}
        numbers for each class. The matrix W of eq. (4), written out in full though it is diagonal,
        would be {8e-9 * rows**2:.3g} GB: code that does so runs out of memory, and the paper's code
        is not available.""",
    )


def time_trend(settings: Settings) -> dict[str, float]:
    """Time of a sample late in the stream over that early in it, median over sets."""
    found: dict[str, list[float]] = {}
    by_set: dict[str, list[dict[str, str]]] = {}
    for row in tables.read_csv(settings.results / "figure2_times.csv"):
        by_set.setdefault(row["set"], []).append(row)
    for rows in by_set.values():
        for method in ("RLS", "AR-RLS", "NR-RLS", "LS", "TER", "IR-RLS"):
            v = [float(row[f"{method} time"]) for row in rows if row[f"{method} time"]]
            if len(v) == len(rows):
                q = len(v) // 4
                grown = np.median(v[-q:]) / np.median(v[q : 2 * q])
                found.setdefault(method, []).append(float(grown))
    return {method: float(np.median(v)) for method, v in found.items()}
