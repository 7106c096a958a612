"""Each claim of the paper, with a verdict and the figure behind it."""

from __future__ import annotations

from . import claims_accuracy, claims_cost, claims_theory, tables
from .jobs import Settings
from .verdicts import Claim

PARTS = (
    claims_theory.exactness,
    claims_accuracy.means,
    claims_accuracy.printed,
    claims_accuracy.imbalanced,
    claims_accuracy.confounded,
    claims_accuracy.spread,
    claims_accuracy.statistics,
    claims_cost.cost,
    claims_theory.theory,
)


def stage(settings: Settings) -> None:
    """Write claims.md; a quick run gives figures and no verdicts."""
    found = [claim for part in PARTS for claim in part(settings)]
    head = ["claim", "verdict", "what was seen"]
    if settings.quick:
        head.remove("verdict")
    rows = [_row(settings, claim) for claim in found]
    text = f"""# The paper's claims, one by one

Each sentence-level claim, {"" if settings.quick else "a verdict on these data and this code, "}and
the figure behind it. The tables that the figures come from are in `results/`. "Held-out" and
"progressive" are the two rules of judging, and averages over sets leave out the stand-ins for
20 Newsgroups (see [README.md](README.md)).

{tables.markdown(head, rows, left=len(head))}
"""
    tables.write_page(settings, settings.out / "claims.md", text)


def _row(settings: Settings, claim: Claim) -> list[str]:
    said, why = " ".join(claim.says.split()), " ".join(claim.why.split())
    return [said, why] if settings.quick else [said, f"**{claim.verdict}**", why]
