"""Tables of the study."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from counterpoise.evaluate import Study

from ..tables import markdown

REFERENCE = "averaging, half-life chosen"
METRICS = {
    "g_mean": "G-mean", "g_mean_cut": "G-mean, same cut", "average_precision": "average precision",
    "seconds": "CPU s",
}  # fmt: skip


def write_page(studies: Mapping[str, Study], folder: Path) -> None:
    """Write one table for each group with results."""
    parts = ["# Tables of the study"]
    for group, study in studies.items():
        done = {name: make for name, make in study.data.items() if _is_complete(study, name)}
        if not done:
            continue
        some = Study(study.path, done, study.learners, study.evaluate, study.seeds)
        values = {metric: some.values(metric).mean(axis=0) for metric in METRICS}
        reference = REFERENCE if REFERENCE in study.learners else "averaging"
        p = some.p_values(reference) if len(done) > 5 else {}
        rows = [
            [one, *(f"{values[metric][k]:.3f}" for metric in METRICS), f"{p.get(one, np.nan):.2g}"]
            for k, one in enumerate(study.learners)
        ]
        head = ["mean", *METRICS.values(), f"p against {reference}"]
        count = f"{len(done)} of {len(study.data)} streams, {len(study.seeds)} seeds"
        parts += [f"## {group}: {count}", markdown(head, rows), some.table("g_mean_cut")]
    (folder / "tables.md").write_text("\n\n".join(parts) + "\n")


def _is_complete(study: Study, name: str) -> bool:
    """Return whether a stream has results of all seeds and learners."""
    return all((name, seed, one) in study.found for seed in study.seeds for one in study.learners)
