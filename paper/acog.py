"""Readings of ACOG: its loss, its learning rate, and whether class totals are given in advance."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpoise import online

from . import tables
from .datasets import SETS, load
from .jobs import Settings, run
from .methods import ROUNDING, STAND_INS
from .protocol import RULES, evaluate_fold, fold

LOSSES = ("I", "II")
RATES = (0.1, 1.0, 10.0)
KNOWN = ("counts so far", "totals in advance")
READINGS = [(loss, rate, known) for known in KNOWN for loss in LOSSES for rate in RATES]


def acog(name: str, seed: int) -> list[list[Any]]:
    """Rows of half, number of the reading and G-means by both rules."""
    X, y = load(name)
    found = []
    for half in (0, 1):
        one = fold(X, y, seed, half)
        totals = {-1: float((one.y < 0).sum()), 1: float((one.y > 0).sum())}
        for i, (loss, rate, known) in enumerate(READINGS):
            rule = online.ACOG(
                loss=loss, learning_rate=rate, class_totals=totals if known == KNOWN[1] else None
            )
            metrics = evaluate_fold(rule, one)
            found.append([half, i, *(metrics[rule] for rule in RULES)])
    return found


def stage(settings: Settings) -> None:
    """Write results/acog.csv and acog.md."""
    listed = [(name, seed) for name in settings.sets for seed in range(settings.runs)]
    values: dict[tuple[str, int], list[list[float]]] = {}
    for (name, _), pieces in zip(listed, run(settings, "ACOG", acog, listed), strict=True):
        for _, i, *metrics in pieces:
            values.setdefault((name, i), []).append(metrics)
    rows = [
        [SETS[name].number, name, *READINGS[i], *(f"{g:.6f}" for g in np.nanmean(v, axis=0))]
        for (name, i), v in values.items()
    ]
    head = ["no", "set", "loss", "learning rate", "rho", *RULES]
    tables.write_csv(settings.results / "acog.csv", head, rows)
    fits = fit(settings)
    shown = [
        [loss, f"{rate:g}", known, *(f"{fits[(loss, rate, known), rule][0]}" for rule in RULES),
         *(f"{fits[(loss, rate, known), rule][1]:.3f}" for rule in RULES)]
        for loss, rate, known in READINGS
    ]  # fmt: skip
    sets = len([n for n in settings.sets if SETS[n].number not in STAND_INS])
    text = f"""# Readings of ACOG

The paper does not describe the settings of ACOG. ρ, the weight of positives, is the ratio of
negatives to positives: of the rows so far, or of the training half as in ACOG's own paper.
The table has the number of {sets} sets with a mean within the printed ± (and {ROUNDING}), and the
mean distance from the printed means.

{tables.markdown(["loss", "learning rate", "ρ", *(f"sets, {r}" for r in RULES),
                  *(f"distance, {r}" for r in RULES)], shown, left=3)}
"""  # fmt: skip
    tables.write_page(settings, settings.results / "acog.md", text)


def fit(settings: Settings) -> dict[tuple[tuple[str, float, str], str], tuple[int, float]]:
    """Sets within the printed ±, and the mean distance, by reading and rule."""
    printed = tables.printed_g_means()
    gaps: dict[tuple[tuple[str, float, str], str], list[tuple[bool, float]]] = {}
    for row in tables.read_csv(settings.results / "acog.csv"):
        if int(row["no"]) in STAND_INS:
            continue
        mean, deviation, _ = printed[int(row["no"]), "ACOG"]
        for rule in RULES:
            gap = abs(float(row[rule]) - mean)
            key = (row["loss"], float(row["learning rate"]), row["rho"])
            gaps.setdefault((key, rule), []).append((gap <= deviation + ROUNDING, gap))
    return {
        key: (sum(near for near, _ in v), float(np.mean([gap for _, gap in v])))
        for key, v in gaps.items()
    }
