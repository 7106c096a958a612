"""Figure 3: critical-difference diagrams of G-mean and time, ours and from the printed tables."""

from __future__ import annotations

import numpy as np

from counterpoise.evaluate import plots
from counterpoise.evaluate.plots import plot_ranks
from counterpoise.evaluate.rank_tests import (
    RankComparison,
    compare_ranks,
    critical_difference,
    similar_groups,
)

from . import tables
from .datasets import SETS
from .jobs import Settings
from .methods import STAND_INS, TABLE_3, TABLE_4
from .protocol import RULES
from .table3 import cells
from .table4 import read

PROGRESSIVE = ("PE", "PA", "CW", "AROW", "ACOG")
PRINTED_A = [
    ["NR-RLS", "AR-RLS"], ["AR-RLS", "RLS"], ["RLS", "CW", "AROW"], ["CW", "AROW", "PE"],
    ["AROW", "PE", "PA"], ["PE", "PA", "ACOG"],
]  # fmt: skip
PRINTED_B = [
    ["RLS", "PE", "PA", "AR-RLS"], ["PE", "PA", "AR-RLS", "CW"], ["CW", "AROW"], ["AROW", "ACOG"],
    ["ACOG", "NR-RLS"], ["NR-RLS", "IR-RLS"],
]  # fmt: skip


def printed_ranks() -> np.ndarray:
    """Ranks of Table 3 as printed, (31, 8)."""
    told = tables.printed_g_means()
    return np.array([[told[no, m][2] for m in TABLE_3] for no in sorted({no for no, _ in told})])


def printed_times() -> tuple[np.ndarray, list[str]]:
    """Seconds of Table 4 as printed, and its methods."""
    told = tables.printed_times()
    names = [m for m in TABLE_4 if (1, m) in told]
    return np.array([[told[no, m] for m in names] for no in sorted({no for no, _ in told})]), names


def comparisons(settings: Settings) -> dict[str, RankComparison]:
    """All comparisons, by title."""
    found = cells(settings)
    every = list(dict.fromkeys(c.name for c in found.values()))
    same = [name for name in every if SETS[name].number not in STAND_INS]

    def by(rules: dict[str, str], names: list[str]) -> RankComparison:
        means = [[found[rules[m], n, m].mean for m in TABLE_3] for n in names]
        return compare_ranks(np.array(means), TABLE_3, "high")

    held, progressive = (dict.fromkeys(TABLE_3, rule) for rule in RULES)
    mixed = {m: RULES[m in PROGRESSIVE] for m in TABLE_3}
    times = read(settings)
    seconds = np.array([[times[n][m] for m in TABLE_4] for n in every])
    told, told_names = printed_times()
    return {
        "gmean-printed": compare_ranks(printed_ranks(), TABLE_3, "low"),
        "gmean-held-out": by(held, same),
        "gmean-held-out-all": by(held, every),
        "gmean-progressive": by(progressive, same),
        "gmean-progressive-all": by(progressive, every),
        "gmean-mixed": by(mixed, same),
        "time-printed": compare_ranks(told, told_names, "low"),
        "time": compare_ranks(seconds, TABLE_4, "low"),
    }


TITLES = {
    "gmean-printed": "G-mean, from the printed ranks",
    "gmean-held-out": "G-mean, every method held-out, without the stand-ins",
    "gmean-held-out-all": "G-mean, every method held-out, with the stand-ins",
    "gmean-progressive": "G-mean, every method progressive, without the stand-ins",
    "gmean-progressive-all": "G-mean, every method progressive, with the stand-ins",
    "gmean-mixed": "G-mean, stochastic methods progressive and least squares held-out",
    "time-printed": "training time, from the printed Table 4",
    "time": "training time, ours",
}


def nine_names() -> list[list[str]]:
    """Groups of the printed ranks if IR-RLS and NR-RLS were two names of the same rank."""
    mean = dict(zip(TABLE_3, printed_ranks().mean(axis=0).tolist(), strict=True))
    return similar_groups({**mean, "IR-RLS": mean["NR-RLS"]}, critical_difference(9, 31))


def line(found: list[list[str]]) -> str:
    """Groups as the paper writes them."""
    return "; ".join("–".join(group) for group in found) or "none"


def stage(settings: Settings) -> None:
    """Write results/figure3.csv, figure3.md and figures/difference-*.svg."""
    found = comparisons(settings)
    rows, parts = [], []
    for key, one in found.items():
        test = [f"{one.difference:.4f}", f"{one.statistic:.4f}", f"{one.p:.4g}"]
        rows += [[key, name, f"{rank:.4f}", *test] for name, rank in one.average.items()]
        made = plot_ranks(one, TITLES[key])
        tables.write(settings.figures / f"difference-{key}.svg", plots.svg(made))
        ranks = ", ".join(f"{name} {rank:.2f}" for name, rank in one.average.items())
        parts.append(f"""## {TITLES[key].capitalize()}

Friedman χ² = {one.statistic:.1f}, p = {one.p:.2g}; critical difference {one.difference:.3f} for
{len(one.names)} methods on {len(one.ranks)} sets. Average ranks: {ranks}. Not significantly
different: {line(one.groups)}.""")
    head = ["comparison", "method", "average rank", "critical difference", "friedman", "p"]
    tables.write_csv(settings.results / "figure3.csv", head, rows)
    same = found["gmean-printed"].groups == PRINTED_A
    text = f"""# Figure 3: critical differences

Nemenyi's test at 0.05 after Friedman's. NR-RLS stands for IR-RLS too in the G-mean rows: eight
names.

- **3(a)**: from the printed ranks the six printed groups
  {"come out" if same else "do NOT come out"} with eight names (IR-RLS and NR-RLS as one). With nine
  names the critical difference is {critical_difference(9, 31):.3f} instead of
  {critical_difference(8, 31):.3f}, and the groups would be {line(nine_names())}. In both, NR-RLS
  and AR-RLS are connected: the difference between them is not significant, as the printed first
  group shows and the printed text denies.
- **3(b)**: the printed groups are {line(PRINTED_B)}. They cannot follow from the printed Table 4,
  which has no ACOG. Without it, the printed times give {line(found["time-printed"].groups)}.

{chr(10).join(part + chr(10) for part in parts)}"""
    tables.write_page(settings, settings.results / "figure3.md", text.rstrip() + "\n")
