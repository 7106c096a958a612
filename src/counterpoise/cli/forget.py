"""counterpoise forget: as if files had never been learned."""

from __future__ import annotations

from typing import Annotated

import typer

from counterpoise.cli import options as opt


def forget(
    model: Annotated[str, typer.Argument(help="Model file.", metavar="MODEL")],
    files: opt.Files,
    format: opt.Format = None,  # noqa: A002
    delimiter: opt.Delimiter = None,
    no_header: opt.NoHeader = False,
) -> None:
    """Take the rows of files back, as if they had never been learned.

    Categories, columns and classes that no other row has go with them. The files must be as they
    were when they were learned; rows added since do not matter.

    Example: counterpoise forget fraud.safetensors february.csv
    """
    reading = opt.reading(format, delimiter, no_header)

    from counterpoise import streams
    from counterpoise.cli.app import say
    from counterpoise.cli.learn import counts_of
    from counterpoise.cli.progress import Progress
    from counterpoise.jobs.file import stored_model
    from counterpoise.jobs.forget import forget as forget_input
    from counterpoise.jobs.learn import Learner
    from counterpoise.jobs.lock import locked

    stored_model(model)  # it must exist and be whole before there is a lock beside it
    with locked(model):
        learner, told = Learner(model, {}, {}), []
        with Progress() as progress:
            for path in streams.expanded(files):
                source = streams.source(path, **reading)
                rows = forget_input(learner, source, learner.key(path), progress.chunk)
                told.append(f"{source.name}: {rows:,} rows forgotten")
        learner.save()
        for line in told:
            say(line)
        for note in learner.notes.values():
            say(note)
    if learner.model is not None:
        say(f"{model}: {counts_of(learner.model) or 'nothing is left'}")
