"""Table 3: G-means and ranks by both rules next to the printed ones; the six of the appendix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from counterpoise.evaluate.rank_tests import compare_ranks, wilcoxon_p

from . import gmeans, tables
from .assessments import LEVEL
from .datasets import SETS
from .jobs import Settings
from .methods import EXACT, LARGE, ROUNDING, SIX, SMALL_SET_ROWS, STAND_INS, TABLE_3
from .protocol import RULES

FLOOR = 0.0005  # of a standard error: means are printed to three decimals


@dataclass(frozen=True)
class Cell:
    """One set, one method, one rule, and what is printed for it."""

    name: str
    method: str
    rule: str
    mean: float
    deviation: float
    error: float
    rank: float
    printed: float
    printed_deviation: float
    printed_rank: float

    @property
    def difference(self) -> float:
        """Ours less the printed mean."""
        return self.mean - self.printed

    @property
    def z(self) -> float:
        """The same in standard errors of a difference of two means over ten runs."""
        return self.difference / (np.sqrt(2.0) * max(self.error, FLOOR))

    @property
    def is_within(self) -> bool:
        """Return True if the difference is at most the printed deviation and 0.001."""
        return abs(self.difference) <= self.printed_deviation + ROUNDING

    @property
    def number(self) -> int:
        """Number of the set in the paper."""
        return SETS[self.name].number


def cells(settings: Settings) -> dict[tuple[str, str, str], Cell]:
    """All cells by rule, set and method."""
    printed = tables.printed_g_means()
    result = {}
    for rule, by_set in gmeans.read(settings).items():
        means = np.array([[v[m].mean() for m in TABLE_3] for v in by_set.values()])
        ranks = compare_ranks(means, TABLE_3, "high").ranks
        for i, (name, values) in enumerate(by_set.items()):
            for j, method in enumerate(TABLE_3):
                v = values[method]
                told = printed[SETS[name].number, method]
                deviation = float(v.std(ddof=1))
                error = (
                    float(v.mean(axis=1).std(ddof=1) / np.sqrt(len(v))) if len(v) > 1 else np.nan
                )
                result[rule, name, method] = Cell(
                    name, method, rule, float(v.mean()), deviation, error, float(ranks[i, j]), *told
                )
    return result


def misses(found: dict[tuple[str, str, str], Cell], method: str) -> list[Cell]:
    """Sets, the stand-ins aside, where the held-out mean is not within the printed deviation."""
    return [
        cell for (rule, _, m), cell in found.items()
        if rule == RULES[0] and m == method and not cell.is_within and cell.number not in STAND_INS
    ]  # fmt: skip


def disagreement(settings: Settings) -> dict[str, tuple[float, int]]:
    """Largest difference in G-mean from NR-RLS on any fold, and the number of sets that have it."""
    found: dict[str, tuple[float, int]] = {}
    for by_set in gmeans.read(settings).values():
        for other in ("TER", "IR-RLS", EXACT):
            gaps = [np.abs(values[other] - values["NR-RLS"]).max() for values in by_set.values()]
            known = [float(gap) for gap in gaps if np.isfinite(gap)]
            found[other] = (max([found.get(other, (0.0, 0))[0], *known]), len(known))
    return found


class ProtocolMatch(NamedTuple):
    """Held-out and progressive figures of one method next to the printed ones."""

    distance: tuple[float, float]
    near: tuple[int, int]
    spread: tuple[float, float]
    printed_spread: float
    p: float  # Wilcoxon's, of the two distances over the sets

    @property
    def progressive(self) -> bool:
        """Return True if the progressive figures are nearer, and significantly so."""
        gaps = [abs(np.log(s / self.printed_spread)) for s in self.spread]
        return (
            self.distance[1] < self.distance[0]
            and self.near[1] > self.near[0]
            and gaps[1] < gaps[0]
            and self.p < LEVEL
        )


def match_protocols(found: dict[tuple[str, str, str], Cell]) -> dict[str, ProtocolMatch]:
    """Compare the printed column of each stochastic method with both protocols."""
    numbers = comparable(found)
    result = {}
    for m in TABLE_3[:5]:
        own = [
            [c for (r, _, n), c in found.items() if (r, n) == (rule, m) and c.number in numbers]
            for rule in RULES
        ]
        away = [np.array([abs(c.difference) for c in cells]) for cells in own]
        result[m] = ProtocolMatch(
            tuple(float(np.mean(values)) for values in away),
            tuple(sum(c.is_within for c in cells) for cells in own),
            tuple(float(np.mean([c.deviation for c in cells])) for cells in own),
            float(np.mean([c.printed_deviation for c in own[0]])),
            wilcoxon_p(*away),
        )
    return result


def comparable(found: dict[tuple[str, str, str], Cell]) -> tuple[int, ...]:
    """Numbers of the sets that are the paper's: all but the stand-ins."""
    return tuple(sorted({c.number for c in found.values()} - set(STAND_INS)))


def distances(found: dict[tuple[str, str, str], Cell], rule: str) -> dict[str, float]:
    """Mean distance from the printed means over the sets that are the paper's, by method."""
    numbers = comparable(found)
    by: dict[str, list[float]] = {}
    for (r, _, method), c in found.items():
        if r == rule and c.number in numbers:
            by.setdefault(method, []).append(abs(c.difference))
    return {method: float(np.mean(values)) for method, values in by.items()}


def averages(
    found: dict[tuple[str, str, str], Cell], rule: str, numbers: tuple[int, ...] | None = None
) -> dict[str, tuple[float, float, float, float, float, float]]:
    """Mean G-mean, mean deviation, mean rank and the printed three, by method.

    Over the sets of these numbers; by default over those that are the paper's.
    """
    result = {}
    numbers = comparable(found) if numbers is None else numbers
    for method in TABLE_3:
        own = [
            c for (r, _, m), c in found.items() if r == rule and m == method and c.number in numbers
        ]
        values = [
            [c.mean, c.deviation, c.rank, c.printed, c.printed_deviation, c.printed_rank]
            for c in own
        ]
        result[method] = tuple(np.mean(values, axis=0).tolist())
    return result


def scale_groups(settings: Settings) -> dict[str, tuple[int, ...]]:
    """The paper's small, medium and large sets, by number."""
    sizes = {SETS[name].number: SETS[name].size for name in settings.sets}
    groups = {
        "small (under 1,000 rows)": lambda n: n < SMALL_SET_ROWS,
        "medium (under 10,000)": lambda n: SMALL_SET_ROWS <= n < LARGE,
        "large": lambda n: n >= LARGE,
    }
    made = {title: tuple(no for no, n in sizes.items() if f(n)) for title, f in groups.items()}
    return {title: numbers for title, numbers in made.items() if numbers}


def stage(settings: Settings) -> None:
    """Write results/table3.csv, table3.md and six.md."""
    found = cells(settings)
    head = ["no", "set", "rule", "method", "g_mean", "deviation", "rank", "printed g_mean",
            "printed deviation", "printed rank", "difference", "in standard errors",
            "within"]  # fmt: skip
    rows = [
        [c.number, c.name, c.rule, c.method, f"{c.mean:.4f}", f"{c.deviation:.4f}", f"{c.rank:g}",
         f"{c.printed:.3f}", f"{c.printed_deviation:.3f}", f"{c.printed_rank:g}",
         f"{c.difference:+.4f}", f"{c.z:+.1f}", "yes" if c.is_within else "no"]
        for c in found.values()
    ]  # fmt: skip
    tables.write_csv(settings.results / "table3.csv", head, rows)
    tables.write_page(settings, settings.results / "table3.md", _page(settings, found))
    if any(c.number in SIX for c in found.values()):
        tables.write_page(settings, settings.results / "six.md", _six(found))


def _page(settings: Settings, found: dict[tuple[str, str, str], Cell]) -> str:
    folds = "stratified" if settings.stratified else "not stratified"
    parts = [
        f"""# Table 3: G-means and ranks

{settings.runs} runs of two folds, {folds}, features scaled to [0, 1] on
{"all rows" if settings.scale_on == "all" else "the training half"}, order 1, a constant feature,
b = 1e-4, one pass in shuffled order. Mean ± deviation over the {2 * settings.runs} folds (rank),
and in brackets the printed mean ± deviation and the difference in standard errors
(of a difference between two means over {settings.runs} runs, at least
{FLOOR}). NR-RLS is the recursion as printed; IR-RLS and TER have the same G-means to three decimals
on every fold where they ran. Rows 24 to 26 are stand-ins. Best of each row in bold. Defaults
throughout; [tuned.md](tuned.md) has every method tuned."""
    ]
    for rule in RULES:
        what = (
            "the final model on the held-out half"
            if rule == RULES[0]
            else ("each row of the training half scored just before it is learned")
        )
        names = list(dict.fromkeys(c.name for c in found.values()))
        rows = []
        for name in names:
            row: list[str] = [str(SETS[name].number), name]
            for method in TABLE_3:
                c = found[rule, name, method]
                best = c.mean >= max(found[rule, name, m].mean for m in TABLE_3) - 0.0005
                row.append(
                    f"{tables.strong(f'{c.mean:.3f}', best)} ± {c.deviation:.3f} ({c.rank:g}) "
                    f"[{c.printed:.3f} ± {c.printed_deviation:.3f}, {c.z:+.1f}]"
                )
            rows.append(row)
        every = tuple(SETS[name].number for name in names)
        wholes = [("all but the stand-ins", comparable(found)), ("all", every)]
        for title, numbers in [*wholes, *scale_groups(settings).items()]:
            row = ["", f"**{title}**"]
            of_all = averages(found, rule, numbers)
            top = max(values[0] for values in of_all.values())
            for g, s, r, pg, ps, pr in of_all.values():
                mean = tables.strong(f"{g:.3f}", g >= top - 0.0005)
                row.append(f"{mean} ± {s:.3f} ({r:.2f}) [{pg:.3f} ± {ps:.3f} ({pr:.2f})]")
            rows.append(row)
        parts.append(f"## {rule.capitalize()}: {what}")
        parts.append(tables.markdown(["no", "set", *TABLE_3], rows, left=2))
    return "\n\n".join(parts) + "\n"


def _six(found: dict[tuple[str, str, str], Cell]) -> str:
    told = {row["method"]: row for row in tables.read_printed_table("six")}
    names = [n for n in dict.fromkeys(c.name for c in found.values()) if SETS[n].number in SIX]
    sizes = [
        [SETS[n].number, n, f"{SETS[n].size:,}", SETS[n].dimension, f"{SETS[n].ratio:.3f}"]
        for n in names
    ]
    parts = ["""# The highly imbalanced six

Sizes, and G-means by both rules next to the printed ones. The ± of the last row is the deviation of
the means over the six sets, as the paper prints it here; in its Table 3 it prints the mean of the
deviations instead.""",
             tables.markdown(["no", "set", "rows", "features", "ratio"], sizes, 2)]  # fmt: skip
    for rule in RULES:
        rows = []
        for n in names:
            cells = [found[rule, n, m] for m in TABLE_3]
            top = max(c.mean for c in cells) - 0.0005
            shown = [
                f"{tables.strong(f'{c.mean:.3f}', c.mean >= top)} [{c.printed:.3f}]" for c in cells
            ]
            rows.append([SETS[n].number, n, *shown])
        row: list[str] = ["", "**all**"]
        mean = {m: float(np.mean([found[rule, n, m].mean for n in names])) for m in TABLE_3}
        for m in TABLE_3:
            means = [found[rule, n, m].mean for n in names]
            rank = np.mean([found[rule, n, m].rank for n in names])
            best = tables.strong(f"{mean[m]:.3f}", mean[m] >= max(mean.values()) - 0.0005)
            row.append(
                f"{best} ± {np.std(means, ddof=1):.3f} ({rank:.2f}) "
                f"[{told[m]['g_mean']} ± {told[m]['deviation']} ({told[m]['rank']})]"
            )
        parts += [
            f"## {rule.capitalize()}",
            tables.markdown(["no", "set", *TABLE_3], [*rows, row], left=2),
        ]
    return "\n\n".join(parts) + "\n"
