"""Differences between the methods other than reweighting: the ridge and the threshold.

The same b is n/2 times stronger in NR-RLS, whose classes weigh 1 in all, than in RLS and AR-RLS,
whose rows weigh 1. RLS decides at 0, which is not between the classes where they are unequal.
With a constant feature NR-RLS with b → 0 is the linear discriminant with equal priors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from counterpoise import online
from counterpoise.arrays import Vector
from counterpoise.evaluate.rank_tests import wilcoxon_p

from . import tables
from .datasets import SETS, load
from .jobs import Settings, run
from .methods import METHODS, STAND_INS, TABLE_3
from .protocol import Fold, fold, g_mean

NR, AR, RLS = "NR-RLS", "AR-RLS", "RLS"
PAPER_B = 1e-4
RIDGES = (1e-6, 1e-5, PAPER_B, 1e-3, 1e-2, 1e-1, 1.0)  # b of NR-RLS in the matched pairs
MIDPOINT = "RLS, threshold at the midpoint of the class means"
DISCRIMINANT = "linear discriminant, equal priors"
RIDGED = "the same discriminant with the ridge of NR-RLS"
WEAK = "NR-RLS, b = 0.0002/n"  # the ridge of AR-RLS at the paper's b
FAST = {"NR-RLS": "TER", "RLS": "LS"}  # the batch solutions that they equal
PARTS = (8, 4, 2, 1)  # the stream is cut at n/8, n/4, n/2 and n


def confounds(name: str, seed: int) -> list[dict[str, Any]]:
    """Return G-means, accuracies and distances of AR-RLS from TER for each half."""
    X, y = load(name)
    found = []
    for half in (0, 1):
        one = fold(X, y, seed, half)
        made = {m: METHODS[FAST.get(m, m)]().fit(one.X, one.y) for m in TABLE_3}
        scores = {m: rule.decision_function(one.X_test) for m, rule in made.items()}
        accuracy = {m: float(((f >= 0) == (one.y_test > 0)).mean()) for m, f in scores.items()}
        variants = {m: scores[m] for m in (NR, AR, RLS)}
        n = len(one.y)
        rules: dict[str, Any] = {WEAK: online.TER(ridge=2.0 * PAPER_B / n)}
        for b in RIDGES:
            rules[exact_name(b)] = online.TER(ridge=b)
            rules[approximate_name(b)] = online.ARRLS(ridge=b * n / 2.0)
        for m, rule in rules.items():
            variants[m] = rule.fit(one.X, one.y).decision_function(one.X_test)
        variants[MIDPOINT] = scores[RLS] - midpoint(made[RLS], one)
        variants[DISCRIMINANT] = discriminant(one).decision_function(one.X_test)
        variants[RIDGED] = score_ridge_discriminant(one)
        g = {m: float(g_mean(one.y_test, f)) for m, f in variants.items()}
        found.append({"g_mean": g, "accuracy": accuracy, "distance": distances(one)})
    return found


def exact_name(b: float) -> str:
    """Return the name of NR-RLS at b."""
    return NR if b == PAPER_B else f"NR-RLS, b = {b:g}"


def approximate_name(b: float) -> str:
    """Return the name of AR-RLS at b n/2, the ridge of NR-RLS at b on a fold of n rows.

    The rows of a class weigh about n/2 in AR-RLS and 1 in NR-RLS.
    """
    return f"AR-RLS, b = {b:g} n/2"


def midpoint(rule: Any, one: Fold) -> float:
    """Mean of the scores of the two class means."""
    f = rule.decision_function(one.X)
    return float(f[one.y > 0].mean() + f[one.y < 0].mean()) / 2.0


def discriminant(one: Fold) -> LinearDiscriminantAnalysis:
    """Fisher's discriminant, both classes of equal weight in the scatter and in the threshold."""
    return LinearDiscriminantAnalysis(solver="lsqr", priors=[0.5, 0.5]).fit(one.X, one.y)


def score_ridge_discriminant(one: Fold, b: float = 1e-4) -> Vector:
    """Held-out scores of that discriminant with b added to the sum of the classes' covariances."""
    parts = [one.X[one.y < 0], one.X[one.y > 0]]
    means = [part.mean(axis=0) for part in parts]
    W = sum(np.cov(part.T, ddof=0).reshape(one.X.shape[1], -1) for part in parts)
    w = np.linalg.solve(W + b * np.eye(one.X.shape[1]), means[1] - means[0])
    scores: Vector = (one.X_test - (means[0] + means[1]) / 2.0) @ w
    return scores


def distances(one: Fold) -> dict[str, list[float]]:
    """Return relative distances of AR-RLS from TER along the stream, with equal and matched b.

    AR-RLS at t has the objective of TER times t/2, so that b = 2e-4/t in TER is its b = 1e-4.
    """
    found: dict[str, list[float]] = {"same": [], "matched": []}
    for part in PARTS:
        t = len(one.y) // part
        if len(np.unique(one.y[:t])) < 2:
            for values in found.values():
                values.append(float("nan"))
            continue
        approximate = weights(online.ARRLS().fit(one.X[:t], one.y[:t]))
        for kind, b in (("same", 1e-4), ("matched", 2e-4 / t)):
            exact = weights(online.TER(ridge=b).fit(one.X[:t], one.y[:t]))
            away = np.linalg.norm(approximate - exact) / np.linalg.norm(exact)
            found[kind].append(float(away))
    return found


def weights(rule: Any) -> Vector:
    """Return the coefficients of the features and of the constant."""
    return np.append(rule.coef_[0], rule.intercept_[0])


def stage(settings: Settings) -> None:
    """Write results/confounds.csv, accuracy.csv, approximation.csv and confounds.md."""
    listed = [(name, seed) for name in settings.sets for seed in range(settings.runs)]
    pieces: dict[str, list[dict[str, Any]]] = {name: [] for name in settings.sets}
    for (name, _), halves in zip(
        listed, run(settings, "Confounds", confounds, listed), strict=True
    ):
        pieces[name] += halves
    for file, key in (("confounds", "g_mean"), ("accuracy", "accuracy")):
        names = list(next(iter(pieces.values()))[0][key])
        rows = [
            [SETS[n].number, n, *(f"{np.nanmean([h[key][m] for h in halves]):.6f}" for m in names)]
            for n, halves in pieces.items()
        ]
        tables.write_csv(settings.results / f"{file}.csv", ["no", "set", *names], rows)
    head = [f"{kind} b, n/{part}" for kind in ("same", "matched") for part in PARTS]
    rows = []
    for n, halves in pieces.items():
        values = np.array([h["distance"]["same"] + h["distance"]["matched"] for h in halves])
        known = [column[~np.isnan(column)] for column in values.T]
        row = [f"{np.median(column):.4g}" if len(column) else "" for column in known]
        rows.append([SETS[n].number, n, *row])
    tables.write_csv(settings.results / "approximation.csv", ["no", "set", *head], rows)
    tables.write_page(settings, settings.results / "confounds.md", _page(settings))


def read(settings: Settings, file: str = "confounds") -> dict[str, dict[str, float]]:
    """Means by method and set, without the stand-ins."""
    found: dict[str, dict[str, float]] = {}
    for row in tables.read_csv(settings.results / f"{file}.csv"):
        if int(row["no"]) not in STAND_INS:
            for method, value in row.items():
                if method not in ("no", "set"):
                    found.setdefault(method, {})[row["set"]] = float(value)
    return found


def mean(by_set: dict[str, float]) -> float:
    """Over the sets."""
    return float(np.mean(list(by_set.values())))


def p_between(found: dict[str, dict[str, float]], one: str, other: str) -> float:
    """Wilcoxon's p over the sets."""
    return wilcoxon_p(np.array(list(found[one].values())), np.array(list(found[other].values())))


def matched_at_paper_b(found: dict[str, dict[str, float]]) -> dict[tuple[str, str], float]:
    """Return Holm's p of the two matched pairs in which one method has the paper's b."""
    tested = ((NR, approximate_name(PAPER_B)), (WEAK, AR))
    p = {pair: p_between(found, *pair) for pair in tested}
    low, high = sorted(p.values())
    corrected = {low: min(1.0, 2.0 * low), high: min(1.0, max(2.0 * low, high))}
    return {pair: corrected[value] for pair, value in p.items()}


def share_of_exactness(settings: Settings) -> float:
    """Return the part of the lead of NR-RLS over AR-RLS that is left at matched ridges."""
    g = {m: mean(by_set) for m, by_set in read(settings).items()}
    return (g[NR] - g[approximate_name(PAPER_B)]) / (g[NR] - g[AR])


def furthest(found: dict[str, dict[str, float]]) -> float:
    """Largest difference of a set's mean between NR-RLS and the discriminant with its ridge."""
    return max(abs(found[NR][n] - found[RIDGED][n]) for n in found[NR])


def share_of_threshold(settings: Settings) -> float:
    """Return the share of the lead of NR-RLS over RLS that is due to the threshold."""
    g = {m: mean(by_set) for m, by_set in read(settings).items()}
    return (g[MIDPOINT] - g[RLS]) / (g[NR] - g[RLS])


def shrinking(settings: Settings) -> dict[str, tuple[int, int, float, float]]:
    """Sets whose distance is smaller at n than at n/4, of how many, and the median distances."""
    rows = tables.read_csv(settings.results / "approximation.csv")
    found = {}
    for kind in ("same", "matched"):
        pairs = [
            (float(row[f"{kind} b, n/4"]), float(row[f"{kind} b, n/1"]))
            for row in rows
            if row[f"{kind} b, n/4"] and int(row["no"]) not in STAND_INS
        ]
        smaller = sum(late < early for early, late in pairs)
        early, late = np.median(pairs, axis=0)
        found[kind] = (smaller, len(pairs), float(early), float(late))
    return found


def _page(settings: Settings) -> str:
    found, accuracy = read(settings), read(settings, "accuracy")
    sets = len(found[NR])
    rows = [[m, f"{mean(by_set):.4f}"] for m, by_set in found.items()]
    tests = [
        [f"{one} against {other}", f"{mean(found[one]) - mean(found[other]):+.4f}",
         f"{p_between(found, one, other):.2g}"]
        for one, other in (
            (NR, AR), (WEAK, AR), *((exact_name(b), approximate_name(b)) for b in RIDGES),
            (NR, RLS), (NR, MIDPOINT), (NR, RIDGED), (NR, DISCRIMINANT),
        )
    ]  # fmt: skip
    holm = matched_at_paper_b(found)
    sweep = [mean(found[exact_name(b)]) - mean(found[approximate_name(b)]) for b in RIDGES]
    apart = furthest(found)
    right = sorted(accuracy, key=lambda m: -mean(accuracy[m]))
    close = shrinking(settings)
    return f"""# The ridge, the threshold, and what is left

Mean held-out G-mean over {sets} sets, without the stand-ins, {settings.runs} runs of two folds.
NR-RLS and RLS by their batch solutions, which they equal. b = 1e-4 unless another b is named.

{tables.markdown(["variant", "mean G-mean"], rows)}

Paired differences of the sets' means, and Wilcoxon's p:

{tables.markdown(["pair", "difference", "p"], tests)}

- **The ridge.** One b means n/2 times more in NR-RLS than in AR-RLS: the paper's b = 1e-4 is two
  different ridges. A matched pair has b in NR-RLS and b n/2 in AR-RLS, n the rows of each fold.
  With the paper's b in NR-RLS the difference is
  {mean(found[NR]) - mean(found[approximate_name(PAPER_B)]):+.4f}, with the paper's b in AR-RLS
  {mean(found[WEAK]) - mean(found[AR]):+.4f}; Holm's p of these two
  {" and ".join(f"{p:.2g}" for p in holm.values())}. It was {mean(found[NR]) - mean(found[AR]):+.4f}
  at unmatched ridges: {100 * share_of_exactness(settings):.0f}% of the lead is left. NR-RLS is
  ahead in {sum(gap > 0 for gap in sweep)} of the {len(sweep)} matched pairs from b = {RIDGES[0]:g}
  to {RIDGES[-1]:g}; the p-values in the table are not corrected.
- **The threshold.** RLS with the same weights and its threshold at the midpoint of the class means
  has {mean(found[MIDPOINT]):.3f}: {100 * share_of_threshold(settings):.0f}% of the lead of NR-RLS
  over RLS.
- **The linear discriminant.** With equal weight for both classes it is NR-RLS except for the ridge
  (docs/math.md has the proof). With the ridge: {mean(found[RIDGED]):.4f} against
  {mean(found[NR]):.4f}, and at most {apart:.4f} apart on any set, for NR-RLS has its ridge on the
  constant too. Without: {mean(found[DISCRIMINANT]):.4f}.

Mean held-out accuracy, the share of right answers: {
        ", ".join(f"{m} {mean(accuracy[m]):.4f}" for m in right)
    }.

## How far AR-RLS is from what it approximates

Distance of its weights from those of TER over the norm of TER's, median over the folds and then
over the sets, after a quarter of the stream and after all of it: {close["same"][2]:.3f} and
{close["same"][3]:.3f} with the same b, {close["matched"][2]:.3f} and {close["matched"][3]:.3f} with
the b that means the same. It is smaller at the end on {close["same"][0]} of {close["same"][1]} sets
and on {close["matched"][0]} of {close["matched"][1]}.
"""
