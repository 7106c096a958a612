"""README.md: what was run, what agrees, what does not, and what we think why."""

from __future__ import annotations

import numpy as np

from counterpoise.evaluate.rank_tests import RankComparison

from . import acog, confounds, readings, tables, tuned
from .assessments import format_values, names, p_of, sort_values
from .claims_accuracy import pairs
from .claims_cost import time_trend
from .coefficients import INVERSES, worst_drift
from .figure3 import PRINTED_A, comparisons
from .jobs import Settings
from .methods import EXACT, ROUNDING, STAND_INS, TABLE_3
from .protocol import RULES
from .table3 import Cell, averages, cells, comparable, disagreement, match_protocols, misses
from .table4 import read

AVERAGES = ["method", "held-out", "held-out, tuned", "progressive", "printed, same sets",
            "printed, all 31"]  # fmt: skip
MISSES = ["set", "method", "ours", "printed", "difference", "in standard errors", "likely reason"]
PAGES = [
    ("table1, table2", "methods; data sets"),
    ("table3, six", "G-means by both rules; the highly imbalanced six"),
    ("tuned, acog", "every method tuned; readings of ACOG"),
    ("confounds", "the ridge, the threshold, the linear discriminant; accuracy"),
    ("table4", "training times, the growth of IR-RLS, the cost of width"),
    ("figure1, figure3", "boundaries; critical differences"),
    ("coefficients, bayes, multiclass", "appendices"),
    ("orders, sensitivity, readings", "beyond the paper's tables"),
]
FILES = [
    ("`figures/samples-*.svg`", "Figure 2 and the appendix: along the stream"),
    ("`results/machine.json`", "versions, BLAS and processor of each stage's last run"),
    ("`results/*.csv`", "for machines; all but those of times are bit-identical from run to run"),
]
Cells = dict[tuple[str, str, str], Cell]


def stage(settings: Settings) -> None:
    """Write README.md; a quick run gives figures and no conclusions."""
    found = cells(settings)
    sets = comparable(found)
    scale = "all rows" if settings.scale_on == "all" else "the training half"
    guide = "CONTRIBUTING.md"
    if settings.is_tracked:
        guide = f"[{guide}](../{guide})"
    parts = [
        f"""# The paper, reproduced

Every table and figure of Se-In Jang, "Deterministic Online Classification: Non-iteratively
Reweighted Recursive Least-Squares for Binary Class Rebalancing", ICML 2023, from the code of this
repository, with our figures next to the printed ones. The method is called NR-RLS. `make paper`
writes all of it, including this page. {guide} describes how to run a part.

[report.html](report.html) has all of it on one page, and [claims.md](claims.md)
{"figures on" if settings.quick else "an assessment of"} each claim.

## What was run

{settings.runs} runs of two folds (seeds 0 to {settings.runs - 1}) on {len(settings.sets)} data
sets. The folds are {"stratified" if settings.stratified else "not stratified"}. The features are
scaled to [0, 1] on {scale}, of order 1, with a constant. The ridge is b = 1e-4. Each run is one
pass in shuffled order. Every method is evaluated by two protocols:

- **held-out**: the final model on the other half;
- **progressive**: each row of the training half scored just before it is learned.

The repository does not contain the data sets:

- `python -m paper data list` lists them;
- `python -m paper data show NAME` describes one and its raw files;
- `python -m paper data prepare DIR` encodes raw files, checks shape and checksum, and writes
  `NAME.csv.gz` into the folder `COUNTERPOISE_DATA`, or into the cache folder.

`paper.datasets.load(NAME)` then returns rows and labels.

The table has mean G-mean ± mean deviation over the folds, and the mean rank among these eight in
brackets, over the paper's {len(sets)} sets. The three 20 Newsgroups sets are not the paper's texts:
they are left out of every average and test on this page. "Tuned": parameters picked on each fold by
the progressive G-mean of its training half ([results/tuned.md](results/tuned.md)). Best in bold.

{tables.markdown(AVERAGES, _averages(settings, found))}"""
    ]
    if not settings.quick:
        parts += [_agrees(settings, found), _differs(settings, found)]
    parts.append("## The files\n\n" + tables.markdown(["file", "what"], _files(settings), left=2))
    tables.write_page(settings, settings.out / "README.md", "\n\n".join(parts) + "\n")


def _averages(settings: Settings, found: Cells) -> list[list[str]]:
    held, progressive = (averages(found, rule) for rule in RULES)
    told = {
        row["method"]: row for row in tables.read_printed_table("table3") if row["no"] == "average"
    }
    picked = tuned.averages(tuned.read(settings), f"tuned {RULES[0]}")
    columns = [[held[m][0], picked[m], progressive[m][0], held[m][3]] for m in TABLE_3]
    shown = tables.bold(columns, "{:.3f}")
    return [
        [m, f"{a} ± {held[m][1]:.3f} ({held[m][2]:.2f})", b,
         f"{c} ± {progressive[m][1]:.3f} ({progressive[m][2]:.2f})",
         f"{d} ± {held[m][4]:.3f} ({held[m][5]:.2f})",
         f"{told[m]['g_mean']} ± {told[m]['deviation']} ({told[m]['rank']})"]
        for m, (a, b, c, d) in zip(TABLE_3, shown, strict=True)
    ]  # fmt: skip


def _agrees(settings: Settings, found: Cells) -> str:
    sets, gap = comparable(found), disagreement(settings)
    held = averages(found, RULES[0])
    near = ", ".join(
        f"{m} on {len(sets) - len(misses(found, m))}" for m in ("RLS", "AR-RLS", "NR-RLS")
    )
    family = ("NR-RLS", "AR-RLS", "RLS")
    ours, printed = (sorted(family, key=lambda m, k=k: -held[m][k]) for k in (0, 3))
    order = "as printed" if ours == printed else f"{' > '.join(ours)}, not {' > '.join(printed)}"
    same = comparisons(settings)["gmean-printed"].groups == PRINTED_A
    trend = format_values(time_trend(settings), 2)
    rows = tables.read_csv(settings.results / "bayes.csv")
    error = [float(row["root mean square error"]) for row in rows]
    return f"""## What agrees

- **The least-squares family, held-out.** Of the {len(sets)} sets that match the paper's (rows 24 to
  26 aside), these are within the printed ± (and 0.001 for rounding): {near}.
  The weights of AR-RLS were chosen by the printed table, see below.
  The order of the averages is {order}.
- **Equality.** Largest difference in G-mean from NR-RLS on any fold, by either rule: TER
  {gap["TER"][0]:.6f}, our exact engine {gap[EXACT][0]:.6f}, and IR-RLS {gap["IR-RLS"][0]:.6f} on
  the {gap["IR-RLS"][1]} sets where it ran.
- **Significance.** The printed groups of Figure 3(a) {"follow" if same else "do NOT follow"} from
  the printed ranks, with eight names.
- **Shapes.** Time of a sample late in the stream over that early in it, 1 where it is constant and
  2.33 where it grows linearly: {trend}. The distance from the formula of appendix A falls from
  {error[0]:.3f} to {error[-1]:.4f}."""


def _differs(settings: Settings, found: Cells) -> str:
    one = comparisons(settings)["gmean-held-out"]
    parts = [
        "## What does not agree, and likely reasons",
        _describe_mixed_rules(settings, found, one),
    ]
    parts += [_confounds(settings), _acog(settings), _misses(settings, found)]
    times, drift = read(settings), worst_drift(settings)
    ratio = np.array([t["NR-RLS"] / t["RLS"] for t in times.values()])
    engine = np.array([t["NR-RLS"] / t[EXACT] for t in times.values()])
    held = averages(found, RULES[0])
    below = names([f"{m} {v[0]:.3f} (printed {v[3]:.3f})" for m, v in held.items()
                   if v[0] < v[3] - 0.0005])  # fmt: skip
    lower = names([
        c.name for (r, _, m), c in found.items()
        if (r, m) == (RULES[0], "NR-RLS") and c.z < -2 and c.number in comparable(found)
    ])  # fmt: skip
    weights = {row["set"]: row for row in tables.read_csv(settings.results / "weightings.csv")}
    printed = tables.printed_g_means()
    near = {
        kind: sum(
            abs(float(row[kind]) - printed[c.number, "AR-RLS"][0]) <= c.printed_deviation + ROUNDING
            for (r, _, m), c in found.items()
            if (r, m) == (RULES[0], "AR-RLS") and (row := weights.get(c.name)) is not None
        )
        for kind in readings.CANDIDATES
    }
    parts.append(f"""**AR-RLS** is a reconstruction: the original is not available. Its weights were
chosen from {len(near)} candidates by the printed table itself, so that its agreement with that
table is not a check. Sets within the printed ± with each:
{", ".join(f"{kind} {n}" for kind, n in near.items())} of {len(weights)}
([results/readings.md](results/readings.md)).

**NR-RLS as printed costs d³** per sample, because it solves a general system, and takes
{ratio.min():.0f} to {ratio.max():.0f} times as long as RLS here. It also loses the symmetry of its
inverse and drifts. After one half, the largest relative difference of its coefficients from the
batch solution is {drift[INVERSES]:.0e} with explicit inverses as printed. It is
{drift["NR-RLS"]:.0e} as `online.NRRLS` computes it, and {drift[EXACT]:.0e} by our engine
([results/coefficients.md](results/coefficients.md)). Our engine takes {1 / engine.max():.2f} to
{1 / engine.min():.2f} times the time of that recursion.

**The theory.** Lemma 3.5 holds for the *weighted* Bayes classifier, and eq. (27) does not have the
indicator of the class ([results/bayes.md](results/bayes.md)).

**20 Newsgroups** (rows 24 to 26) cannot be compared: the paper's reduction of the texts to three
features is unpublished, so these rows use another one.

**Categories and missing values** are coded as [results/table2.md](results/table2.md) and
`python -m paper data show NAME` describe. Where the paper coded them otherwise, its figures differ.

**Figure 3(b)** ranks ACOG, whose times Table 4 does not print, so it cannot follow from Table 4.
[Table 4](results/table4.md) has other oddities.

**Our figures that are worse than the printed.** Averages held-out: {below}. Sets on which NR-RLS is
more than two standard errors below the printed mean: {lower}. And the ranks above.""")
    return "\n\n".join(part for part in parts if part)


def _describe_mixed_rules(settings: Settings, found: Cells, one: RankComparison) -> str:
    looks = match_protocols(found)
    clear = [m for m, look in looks.items() if look.progressive and m != "ACOG"]
    fits = acog.fit(settings)
    best = [max(fits[key, r][0] for key, r in fits if r == rule) for rule in RULES]
    if best[1] > best[0]:
        clear.append("ACOG")
    open_ = [m for m in looks if m not in clear]
    other = f"Of {names(open_)} this is not shown. " if open_ else ""
    told = {
        row["method"]: row for row in tables.read_printed_table("table3") if row["no"] == "average"
    }
    away = ", ".join(
        f"{m} {look.distance[0]:.3f} / {look.distance[1]:.3f}" for m, look in looks.items()
        if m != "ACOG"
    )  # fmt: skip
    p = {rule: pairs(settings, rule) for rule in RULES}
    return f"""**Mixed rules.** The printed figures of {names(clear)} look like progressive ones.
By that rule the means, the number of sets within ± and the spread are all nearer, and the means
significantly. For ACOG the number of sets is nearer, by the best reading of each rule. {other}Mean
distance of our G-means from the printed, held-out / progressive: {away}. ACOG is within ± on
{best[0]} / {best[1]} sets at best.

So the table most likely compares progressive figures of {names(clear)} with held-out figures of
the least-squares family. That family had learned everything before it was evaluated. By one
protocol the average rank of NR-RLS is {one.average["NR-RLS"]:.2f} held-out,
printed {told["NR-RLS"]["rank"]},
and AROW's is {one.average["AROW"]:.2f}, printed {told["AROW"]["rank"]} (critical difference
{one.difference:.2f}). By pairs, Wilcoxon's p of NR-RLS against each with Holm's correction,
held-out / progressive:
{", ".join(f"{m} {p_of(p[RULES[0]][m])} / {p_of(p[RULES[1]][m])}" for m in TABLE_3[:-1])}."""


def _confounds(settings: Settings) -> str:
    g = confounds.read(settings)
    mean = {m: confounds.mean(v) for m, v in g.items()}
    rows = [
        ["the ridge: NR-RLS and AR-RLS at b = 1e-4, as the paper has it",
         f"{mean[confounds.NR]:.4f}", f"{mean[confounds.AR]:.4f}",
         p_of(confounds.p_between(g, confounds.NR, confounds.AR))],
        *([f"the same ridge on each fold of n rows: {one}; {other} (p corrected)",
           f"{mean[one]:.4f}", f"{mean[other]:.4f}", p_of(p)]
          for (one, other), p in confounds.matched_at_paper_b(g).items()),
        ["the threshold: NR-RLS and RLS at threshold 0, as the paper has it",
         f"{mean[confounds.NR]:.4f}", f"{mean[confounds.RLS]:.4f}",
         p_of(confounds.p_between(g, confounds.NR, confounds.RLS))],
        ["NR-RLS, and RLS with its threshold at the midpoint of the class means",
         f"{mean[confounds.NR]:.4f}", f"{mean[confounds.MIDPOINT]:.4f}",
         p_of(confounds.p_between(g, confounds.NR, confounds.MIDPOINT))],
        ["NR-RLS, and the linear discriminant with equal priors and the same ridge",
         f"{mean[confounds.NR]:.4f}", f"{mean[confounds.RIDGED]:.4f}",
         p_of(confounds.p_between(g, confounds.NR, confounds.RIDGED))],
    ]  # fmt: skip
    right = {m: confounds.mean(v) for m, v in confounds.read(settings, "accuracy").items()}
    return f"""**Two confounds.** Two things but reweighting differ between the methods. The same b
is n/2 times stronger in NR-RLS than in RLS and AR-RLS, and RLS decides at 0, which is not between
unequal classes. Mean held-out G-means, and Wilcoxon's p over the sets:

{tables.markdown(["what is compared", "first", "second", "p"], rows)}

{100 * confounds.share_of_exactness(settings):.0f}% of the lead of NR-RLS over AR-RLS is left if
both have one ridge on each fold. {100 * confounds.share_of_threshold(settings):.0f}% of its
lead over RLS is the threshold. With a constant feature NR-RLS *is* the linear
discriminant with equal priors, except for its ridge. Its accuracy is {right["NR-RLS"]:.4f}, that of
RLS
{right["RLS"]:.4f}: balancing serves both classes equally, not the number of correct predictions
([results/confounds.md](results/confounds.md))."""


def _acog(settings: Settings) -> str:
    fits = acog.fit(settings)
    sets = len([n for n in settings.sets if n in confounds.read(settings)["RLS"]])
    by_count = {key: fits[key, RULES[1]] for key, rule in fits if rule == RULES[1]}
    best = max(by_count, key=lambda key: (by_count[key][0], -by_count[key][1]))
    known = ("I", 0.1, acog.KNOWN[1])
    told = [
        float(row[RULES[0]])
        for row in tables.read_csv(settings.results / "acog.csv")
        if (row["loss"], float(row["learning rate"]), row["rho"]) == known
        and int(row["no"]) not in STAND_INS
    ]
    by = tuned.read(settings)
    default, picked = (tuned.averages(by, f"{k} {RULES[0]}") for k in ("default", "tuned"))
    return f"""**ACOG**'s settings are not stated. With loss I, a learning rate of 0.1 and class
totals in advance, its progressive figures are within the printed ± on
{fits[known, RULES[1]][0]} of {sets} sets. The best of {len(acog.READINGS)} readings (loss
{best[0]}, learning rate {best[1]:g}, ρ of the {best[2]}) is within ± on {by_count[best][0]}
([results/acog.md](results/acog.md)). Mean held-out G-mean: {np.mean(told):.3f} with those settings,
{default["ACOG"]:.3f} with our defaults, {picked["ACOG"]:.3f} tuned. All methods tuned:
{format_values(sort_values({m: v for m, v in picked.items() if m in TABLE_3}))}. That order does
not decide between NR-RLS and AR-RLS: the progressive G-mean, which picks, favors a ridge that
decays."""


def _misses(settings: Settings, found: Cells) -> str:
    missed = [c for m in ("RLS", "AR-RLS", "NR-RLS") for c in misses(found, m)]
    if not missed:
        return ""
    fits = readings.fitting(settings)
    rows = [
        [c.name, c.method, f"{c.mean:.3f}", f"{c.printed:.3f} ± {c.printed_deviation:.3f}",
         f"{c.difference:+.3f}", f"{c.z:+.1f}",
         f"fits with: {', or '.join(fits[c.name])}" if fits.get(c.name) else "unknown"]
        for c in missed
    ]  # fmt: skip
    check = (
        ""
        if "rows to length 1" in fits.get("ionosphere", [])
        else "Rows of length 1 cannot be how all sets were scaled: Ionosphere does not fit then."
    )
    return f"""**The misses.** In standard errors of the difference of two means over
{settings.runs} runs:

{tables.markdown(MISSES, rows, left=7)}

[results/readings.md](results/readings.md) shows other readings of these sets. They were tried
after the misses were seen. {check}"""


def _files(settings: Settings) -> list[list[str]]:
    rows = []
    for pages, what in PAGES:
        written = [p for p in pages.split(", ") if (settings.results / f"{p}.md").exists()]
        if written:
            rows.append([", ".join(f"[{p}](results/{p}.md)" for p in written), what])
    rows += [list(row) for row in FILES]
    if settings.is_tracked:
        rows.append(["`printed/*.csv`", "the paper's tables as printed"])
    return rows
