"""Table 1: the methods."""

from __future__ import annotations

from counterpoise import online

from . import tables
from .jobs import Settings

ROWS = [
    # method, learning, reweighting, imbalance (as printed); ours, operations and numbers a row
    ("PE", "stochastic", "-", "no", online.Perceptron, "d", "d"),
    ("PA", "stochastic", "-", "no", online.PassiveAggressive, "d", "d"),
    ("CW", "stochastic", "-", "no", online.ConfidenceWeighted, "d²", "d²"),
    ("AROW", "stochastic", "-", "no", online.AROW, "d²", "d²"),
    ("ACOG", "stochastic", "-", "yes", online.ACOG, "d²", "d²"),
    ("AR-RLS", "deterministic", "approximate", "yes", online.ARRLS, "d²", "d²"),
    ("IR-RLS", "deterministic", "exact", "yes", online.IRRLS, "n d²", "d² + n d"),
    ("NR-RLS", "deterministic", "exact", "yes", online.NRRLS, "d³", "d²"),
]


def stage(settings: Settings) -> None:
    """Write results/table1.md."""
    head = [
        "method",
        "learning type",
        "reweighting",
        "imbalance",
        "here",
        "cost of a row",
        "memory",
    ]
    rows = [
        [name, kind, reweighting, imbalance, f"`online.{rule.__name__}`", cost, memory]
        for name, kind, reweighting, imbalance, rule, cost, memory in ROWS
    ]
    text = f"""# Table 1: the methods

The first four columns are the paper's. Exact rules depend on the order of rows by rounding only;
"stochastic" in the paper means that a rule depends on it, not that it draws random numbers.
NR-RLS as printed solves a general d × d system for every row, which is
d³, not the printed 2d². `BalancedRidgeClassifier` has the weights of NR-RLS. A row costs d² if
they are not requested, and d³/6 if they are.

{tables.markdown(head, rows, left=7)}
"""
    tables.write_page(settings, settings.results / "table1.md", text)
