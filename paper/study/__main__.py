"""Run the study: python -m paper.study [group ...]; an interrupted run resumes.

Each group of streams has its results in ``results/GROUP.csv.gz``, with one line for each stream,
seed, learner and part. ``--write`` writes the tables only.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from counterpoise.evaluate import ProgressiveEvaluation, Study

from . import write
from .learners import ABLATIONS, LEARNERS, TWO_CLASSES_ONLY
from .streams import MANY_CLASSES, list_streams

CHUNK, DELAY = 100, 100  # rows
SEEDS = {"real": 1, "rare": 3, "drift": 5, "keel": 3, "ablations": 3}
RESULTS = Path(__file__).parent / "results"


def make_studies(folder: Path) -> dict[str, Study]:
    """Return the study of each group of streams; those of several classes have their own."""
    evaluation = ProgressiveEvaluation(CHUNK, DELAY)
    groups = list_streams()
    several = {name: make for data in groups.values() for name, make in data.items()
               if name in MANY_CLASSES}  # fmt: skip
    ablations = {**groups["rare"], "no drift": groups["drift"]["none, features"]}
    ablations |= dict(list(groups["keel"].items())[::5])
    result = {}
    for group, data in groups.items():
        two = {name: make for name, make in data.items() if name not in MANY_CLASSES}
        seeds = range(SEEDS[group])
        result[group] = Study(folder / f"{group}.csv.gz", two, LEARNERS, evaluation, seeds)
    general = {name: one for name, one in LEARNERS.items() if name not in TWO_CLASSES_ONLY}
    result["several"] = Study(folder / "several.csv.gz", several, general, evaluation, range(1))
    seeds = range(SEEDS["ablations"])
    result["ablations"] = Study(
        folder / "ablations.csv.gz", ablations, ABLATIONS, evaluation, seeds
    )
    return result


def main() -> None:
    """Run groups and write the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--again", action="append", default=[], metavar="LEARNER")
    parser.add_argument("--write", action="store_true", help="write the tables only")
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    studies = make_studies(options.results)
    unknown = {*options.groups} - {*studies}
    if unknown:
        parser.error(f"GROUP must be one of {', '.join(studies)}; got {', '.join(unknown)}")
    if not options.write:
        for group in options.groups or studies:
            studies[group].run(options.processes, options.again)
    write.write_page(studies, options.results)


if __name__ == "__main__":
    main()
