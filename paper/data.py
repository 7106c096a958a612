"""List, describe and prepare the paper's data sets: python -m paper data ..."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from .datasets import SETS, find, folders, get_data_set, remedy
from .datasets.prepare import has_raw, prepare


def main(arguments: list[str]) -> int:
    """Run one of the commands list, show and prepare, and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m paper data",
        description="List, describe and prepare the paper's data sets. Nothing is downloaded.",
        epilog="Example: python -m paper data prepare downloads",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="list the 31 data sets")
    show = commands.add_parser("show", help="describe a data set and how to obtain it")
    show.add_argument("name", metavar="NAME", help="a data set")
    for one in (listing, show):
        one.add_argument("--json", action="store_true", help="print JSON")
    making = commands.add_parser("prepare", help="turn raw files into prepared ones")
    making.add_argument("folder", type=Path, metavar="DIR", help="folder of raw files")
    making.add_argument("names", nargs="*", metavar="NAME", help="data sets; default all found")
    making.add_argument(
        "--output", type=Path, metavar="DIR", help="where prepared files go; default the first of "
        "the folder in COUNTERPOISE_DATA and the cache folder",
    )  # fmt: skip
    given = parser.parse_args(arguments)
    try:
        if given.command == "list":
            return list_sets(given.json)
        if given.command == "show":
            return show_set(given.name, given.json)
        return prepare_sets(given.folder, given.names, given.output or folders()[0])
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1 if isinstance(error, OSError) else 2


def list_sets(as_json: bool) -> int:
    """Print all sets and whether the prepared file of each exists."""
    if as_json:
        print(json.dumps([_plain(name) for name in SETS]))
        return 0
    print("no\tname\trows\tfeatures\tratio\tprepared")
    for name, one in SETS.items():
        prepared = "yes" if find(name) else "no"
        print(one.number, name, one.size, one.dimension, f"{one.ratio:.3g}", prepared, sep="\t")
    return 0


def show_set(name: str, as_json: bool) -> int:
    """Print the origin and the encoding of a set, and what to put where."""
    one, path = get_data_set(name), find(name)
    if as_json:
        print(json.dumps(_plain(name)))
        return 0
    for fact, value in {
        "number in the paper": one.number,
        "name in the paper": one.title,
        "rows": one.size,
        "features": one.dimension,
        "positives": one.positives,
        "negatives": one.negatives,
        "positive class": one.positive,
        "origin": one.origin,
        "raw files": ", ".join(one.raw.files) if one.raw else "none",
        "encoding": one.encoding,
        "sha256 of the rows": one.sha256,
        "prepared": path or f"no: {remedy(one)}",
    }.items():
        print(fact, value, sep="\t")
    return 0


def prepare_sets(folder: Path, names: list[str], output: Path) -> int:
    """Turn raw files, as their public pages have them, into prepared ones, and verify those."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder")
    wanted = [get_data_set(name) for name in names]
    wanted = wanted or [one for one in SETS.values() if has_raw(one, folder)]
    if not wanted:
        raise FileNotFoundError(
            f"{folder} contains the raw files of no set; 'python -m paper data show NAME' prints "
            "their names and their origin"
        )
    failed: list[Exception] = []
    for one in wanted:
        try:
            path = prepare(one, folder, output)
        except (OSError, ValueError) as error:  # the other sets may be in order
            print(error, file=sys.stderr)
            failed.append(error)
        else:
            rows = f"{one.size:,} rows of {one.dimension} features, as registered"
            print(f"{path}: {rows}", file=sys.stderr)
    return (1 if isinstance(failed[0], OSError) else 2) if failed else 0


def _plain(name: str) -> dict[str, object]:
    """Return a set as what JSON can contain."""
    one, path = SETS[name], find(name)
    return {**asdict(one), "size": one.size, "prepared": str(path) if path else None}
