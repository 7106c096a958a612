"""counterpoise data: the paper's data sets, from raw files to prepared ones."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from counterpoise.cli import messages
from counterpoise.cli import options as opt
from counterpoise.cli.messages import Json, show, show_json

data = typer.Typer(no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="A data set, as 'data list' has it.", metavar="NAME")]


@data.callback()
def options() -> None:
    """List, describe and prepare the paper's data sets. Nothing is downloaded.

    Example: counterpoise data prepare downloads
    """


@data.command("list", short_help="List the 31 data sets.")
def list_sets(as_json: Json = False) -> None:
    """List the 31 data sets, and whether the prepared file of each is there.

    Example: counterpoise data list
    """
    from counterpoise.datasets import SETS, find

    if as_json:
        show_json([_plain(name) for name in SETS])
        return
    rows = [
        [one.number, name, one.size, one.dimension, round(one.ratio, 3), _yes(find(name))]
        for name, one in SETS.items()
    ]
    show(["no", "name", "rows", "features", "ratio", "prepared"], rows)


@data.command("show", short_help="Describe a data set, and what to put where.")
def show_set(name: Name, as_json: Json = False) -> None:
    """Describe a data set, where it comes from, how it is encoded, and what to put where.

    Example: counterpoise data show ijcnn1
    """
    from counterpoise.datasets import find, known, remedy

    one = known(name)
    if as_json:
        show_json(_plain(name))
        return
    path = find(name)
    facts: list[list[Any]] = [
        ["number in the paper", one.number],
        ["name in the paper", one.title],
        ["rows", one.size],
        ["features", one.dimension],
        ["positives", one.positives],
        ["negatives", one.negatives],
        ["positive class", one.positive],
        ["origin", one.origin],
        ["raw files", ", ".join(one.raw.files) if one.raw else "none"],
        ["encoding", one.encoding],
        ["sha256 of the rows", one.sha256],
        ["prepared", str(path) if path else f"no: {remedy(one)}"],
    ]
    show(["what", "value"], facts)


@data.command(short_help="Turn raw files into prepared ones.")
@messages.with_quiet_option
def prepare(
    folder: Annotated[
        str, typer.Argument(help="Folder of raw files, in subfolders too.", metavar="DIR")
    ],
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Which sets; by default all whose raw files exist.", metavar="NAME"),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            help="Where prepared files go; by default the folder that COUNTERPOISE_DATA names, or "
            "the cache folder.",
            metavar="DIR",
        ),
    ] = None,
) -> None:
    """Turn raw files, as their public pages have them, into prepared ones, and verify those.

    Example: counterpoise data prepare downloads
    """
    if not os.path.isdir(folder):
        raise opt.bad("DIR", f"{folder} is not a folder")

    from pathlib import Path

    from counterpoise.datasets import SETS, folders, known
    from counterpoise.datasets.prepare import has_raw, prepare

    source, target = Path(folder), Path(output) if output else folders()[0]
    wanted = [known(name) for name in names or []]
    wanted = wanted or [one for one in SETS.values() if has_raw(one, source)]
    if not wanted:
        raise FileNotFoundError(
            f"{folder} holds the raw files of no set; 'counterpoise data show NAME' tells what "
            "they are called and where they come from"
        )
    failed: list[Exception] = []
    for one in wanted:
        try:
            path = prepare(one, source, target)
        except (OSError, ValueError) as error:  # the other sets may be in order
            messages.info(str(error))
            failed.append(error)
        else:
            messages.info(f"{path}: {one.size:,} rows of {one.dimension} features, as registered")
    if failed:
        raise typer.Exit(1 if isinstance(failed[0], OSError) else 2)


def _yes(path: Any) -> str:
    return "yes" if path else "no"


def _plain(name: str) -> dict[str, Any]:
    from dataclasses import asdict

    from counterpoise.datasets import SETS, find

    one, path = SETS[name], find(name)
    return {**asdict(one), "size": one.size, "prepared": str(path) if path else None}
