"""Run the paper's experiments: python -m paper [stage ...], python -m paper data ..."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from . import (
    acog,
    bayes,
    claims,
    coefficients,
    confounds,
    data,
    figure1,
    figure2,
    figure3,
    gmeans,
    multiclass,
    orders,
    readings,
    readme,
    report,
    sensitivity,
    table1,
    table2,
    table3,
    table4,
    tuned,
)
from .datasets import SETS, VARIABLE, find, get_data_set, load, remedy
from .jobs import QUICK, ROOT, Settings

STAGES: dict[str, Callable[[Settings], None]] = {
    "table1": table1.stage,
    "table2": table2.stage,
    "gmeans": gmeans.stage,
    "table3": table3.stage,  # needs gmeans
    "tuned": tuned.stage,
    "acog": acog.stage,
    "confounds": confounds.stage,
    "table4": table4.stage,
    "figure1": figure1.stage,
    "figure2": figure2.stage,
    "figure3": figure3.stage,  # needs gmeans and table4
    "coefficients": coefficients.stage,
    "bayes": bayes.stage,
    "multiclass": multiclass.stage,
    "orders": orders.stage,
    "sensitivity": sensitivity.stage,
    "readings": readings.stage,
    "claims": claims.stage,  # needs all of the above
    "readme": readme.stage,
    "report": report.stage,
}


DERIVED = ("table1", "table3", "figure3", "claims", "readme", "report")  # from tracked tables alone
PAGES = ("README.md", "claims.md", "report.html")


def main(arguments: list[str] | None = None) -> int:
    """Run stages, all by default, or a command of ``data``."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["data"]:
        return data.main(arguments[1:])
    parser = argparse.ArgumentParser(
        prog="python -m paper",
        description="Run the paper's experiments: a quarter of an hour on two free cores. "
        "Results are kept, so an interrupted run resumes.",
        epilog="Example: python -m paper gmeans table3 --stratified --out /tmp/stratified. "
        "Data sets: python -m paper data --help",
    )
    parser.add_argument(
        "stages", nargs="*", metavar="STAGE", help=f"of {', '.join(STAGES)}; default all"
    )
    parser.add_argument(
        "--data", metavar="DIR", help=f"folder of prepared sets; default ${VARIABLE}"
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="where results go; default this folder"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="two runs on six sets, in about a minute; figures without assessments",
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="IR-RLS on the large sets too, where one half takes up to 20 minutes: half a day",
    )
    parser.add_argument(
        "--stratified", action="store_true", help="stratify the folds of the G-means (table 3)"
    )
    parser.add_argument(
        "--scale-on", choices=["train", "all"], default="train",
        help="scale for the G-means by the training half, or by all rows as the paper may have",
    )  # fmt: skip
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes"
    )
    given = parser.parse_args(arguments)
    unknown = [stage for stage in given.stages if stage not in STAGES]
    if unknown:
        parser.error(f"{unknown[0]} is none of the stages {', '.join(STAGES)}")
    if given.data:
        os.environ[VARIABLE] = given.data
    sets = QUICK if given.quick else tuple(SETS)
    settings = Settings(
        out=given.out or ROOT,
        runs=2 if given.quick else 10,
        sets=sets,
        stratified=given.stratified,
        scale_on=given.scale_on,
        full=given.full,
        quick=given.quick,
        workers=max(given.workers, 1),
    )
    if given.out is None and not settings.is_tracked:
        parser.error("these are not the tracked results; give a folder with --out")
    absent = [name for name in sets if find(name) is None]
    if absent:
        print(f"{len(absent)} data sets are absent: {', '.join(absent)}", file=sys.stderr)
        print(f"{absent[0]}: {remedy(get_data_set(absent[0]))}", file=sys.stderr)
        return 2
    try:
        settings.claim()
        for name in sets:
            load(name)  # a spoilt file is found out, whatever results are kept
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    if settings.quick:
        print("a quick run: figures without assessments", file=sys.stderr)
    for name in given.stages or STAGES:
        start = time.monotonic()
        try:
            STAGES[name](settings)
            if name not in DERIVED:
                settings.note_machine(name)
        except FileNotFoundError as error:
            print(f"{name} needs {error.filename}: run the stages before it", file=sys.stderr)
            return 2
        print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr)
    written = [name for name in PAGES if (settings.out / name).exists()]
    print(f"written to {settings.out}: {', '.join([*written, 'results/', 'figures/'])}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted; what was done is kept", file=sys.stderr)
        sys.exit(130)
