"""Claims of the paper and their assessments."""

from __future__ import annotations

from typing import NamedTuple

HOLDS, PARTLY, FAILS = "holds", "holds in part", "does not hold"
LEVEL = 0.05  # of significance
UNDECIDED, NOT_SEEN = "cannot be decided", "not reproduced"


class Claim(NamedTuple):
    """Claim of the paper, its assessment and the evidence; white space does not matter."""

    statement: str
    assessment: str
    why: str


def assess(holds: bool, otherwise: str = FAILS) -> str:
    """Put a truth into words."""
    return HOLDS if holds else otherwise


def format_values(values: dict[str, float], digits: int = 3) -> str:
    """Names with their numbers."""
    return ", ".join(f"{name} {value:.{digits}f}" for name, value in values.items())


def sort_values(values: dict[str, float]) -> dict[str, float]:
    """Largest first."""
    return dict(sorted(values.items(), key=lambda item: -item[1]))


def names(values: list[str]) -> str:
    """Names, or that there are none."""
    return ", ".join(values) or "none"


def p_of(value: float) -> str:
    """A p-value, with two digits."""
    return f"{value:.2g}"
