"""counterpoise relabel: rows that were learned with a wrong label, learned with the right one."""

from __future__ import annotations

from typing import Annotated

import typer

from counterpoise.cli import options as opt
from counterpoise.cli import words
from counterpoise.cli.forget import WhereOption, changed, sources_of, where_of
from counterpoise.cli.words import counted


def relabel(
    model: Annotated[str, typer.Argument(help="Model file.", metavar="MODEL")],
    files: opt.Files,
    to: Annotated[str, typer.Option("--to", help="The right label.", metavar="LABEL")],
    where: WhereOption = None,
    labels: opt.Labels = None,
    id: opt.Id = None,  # noqa: A002
    format: opt.Format = None,  # noqa: A002
    delimiter: opt.Delimiter = None,
    no_header: opt.NoHeader = False,
) -> None:
    """Forget rows with the label that they have in files, and learn them with another.

    The files are those that were learned. Rows that have the right label, and those that were
    forgotten or relabelled before, stay as they are: the same command twice changes nothing more.

    Example: counterpoise relabel fraud.safetensors march.csv --where payment=4711 --to yes
    """
    reading = opt.reading(format, delimiter, no_header)
    meant = where_of(where)
    if meant is None:
        raise opt.bad("--where", "say which rows have the wrong label")

    from counterpoise.jobs.forget import forget_where, forgettable
    from counterpoise.streams import DataError

    if "-" in files:
        raise opt.bad("FILES", "relabel needs files that can be read again")
    with changed(model) as (learner, progress):
        known = {str(label): label for label in forgettable(learner).classes_.tolist()}
        if to not in known:
            raise opt.bad("--to", f"{to!r} is not one of {', '.join(known)}")
        told, total = [], 0
        for source, key in sources_of(learner, files, labels, id, meant, reading):
            rows = forget_where(learner, source, key, meant, progress.chunk, known[to])
            told.append(f"{source.name}: {counted(rows, 'row')} relabelled")
            total += rows
        if not told:
            raise DataError("no rows were named")
        if total:
            learner.save()
        for line in told:
            words.say(line)
