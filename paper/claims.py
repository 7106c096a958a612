"""Each claim of the paper, with an assessment and the figure behind it."""

from __future__ import annotations

from . import claims_accuracy, claims_cost, claims_theory, tables
from .assessments import Claim
from .jobs import Settings

PARTS = (
    claims_theory.exactness,
    claims_accuracy.means,
    claims_accuracy.claim_printed_figures,
    claims_accuracy.claim_imbalanced_sets,
    claims_accuracy.claim_confounds,
    claims_accuracy.spread,
    claims_accuracy.statistics,
    claims_cost.cost,
    claims_theory.theory,
)


def stage(settings: Settings) -> None:
    """Write claims.md; a quick run gives figures without assessments."""
    found = [claim for part in PARTS for claim in part(settings)]
    head = ["claim", "assessment", "evidence"]
    if settings.quick:
        head.remove("assessment")
    rows = [_row(settings, claim) for claim in found]
    text = f"""# The paper's claims, one by one

Each sentence-level claim, {"" if settings.quick else "an assessment, "}and the figure behind it.
The tables are in `results/`. "Held-out" and "progressive" are the two protocols. Averages over sets
leave out the stand-ins for 20 Newsgroups (see [README.md](README.md)).

{tables.markdown(head, rows, left=len(head))}
"""
    tables.write_page(settings, settings.out / "claims.md", text)


def _row(settings: Settings, claim: Claim) -> list[str]:
    statement, why = " ".join(claim.statement.split()), " ".join(claim.why.split())
    return [statement, why] if settings.quick else [statement, f"**{claim.assessment}**", why]
