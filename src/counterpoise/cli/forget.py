"""counterpoise forget: as if files, or some of their rows, had never been learned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from counterpoise.cli import options as opt
from counterpoise.cli import words
from counterpoise.cli.words import counted

WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        "--where", help="Only rows whose column says this; all of several.", metavar="COLUMN=VALUE"
    ),
]


def forget(
    model: Annotated[str, typer.Argument(help="Model file.", metavar="MODEL")],
    files: opt.SomeFiles = None,
    where: WhereOption = None,
    labels: opt.Labels = None,
    id: opt.Id = None,  # noqa: A002
    format: opt.Format = None,  # noqa: A002
    delimiter: opt.Delimiter = None,
    no_header: opt.NoHeader = False,
) -> None:
    """Take the rows of files back, as if they had never been learned.

    Categories, columns and classes that no other row has go with them. The files must be as they
    were when they were learned; rows added since do not matter. With - the rows come from a pipe,
    with their labels. With --where only some rows are taken back, each one once, and events that
    wait for their labels are dropped too.

    Example: counterpoise forget fraud.safetensors february.csv

    One person: counterpoise forget fraud.safetensors --where customer=123 2026-*.csv
    """
    reading = opt.reading(format, delimiter, no_header)
    meant = where_of(where)
    if not files and (labels or meant is None):
        raise opt.bad("FILES", "name the files whose rows are to be forgotten")

    from counterpoise import streams
    from counterpoise.jobs import forget as job

    with changed(model) as (learner, progress):
        told = []
        for source, key in sources_of(learner, files, labels, id, meant, reading):
            if source.path == "-":
                rows = job.forget_pipe(learner, source, meant, progress.chunk)
            elif meant is None:
                rows = job.forget(learner, source, key, progress.chunk)
            else:
                rows = job.forget_where(learner, source, key, meant, progress.chunk)
            told.append(f"{source.name}: {counted(rows, 'row')} forgotten")
        if meant is not None:
            told += _drop_waiting(model, meant)
        if not told:
            raise streams.DataError(f"no events wait beside {model}; name files too")
        learner.save()
        for line in told:
            words.say(line)


def where_of(where: list[str] | None) -> Any:
    """Conditions, as given.

    Parameters
    ----------
    where : list of str, optional
        COLUMN=VALUE each.

    Returns
    -------
    Where or None
    """
    if not where:
        return None
    values: dict[str, tuple[str, ...]] = {}
    for pair in where:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise opt.bad("--where", f"{pair!r} is not COLUMN=VALUE")
        values[name] = (*values.get(name, ()), value)

    from counterpoise.jobs.where import Where

    return Where(values)


@contextmanager
def changed(model: str) -> Iterator[tuple[Any, Any]]:
    """A model that is changed under its lock; what there is to say is said at the end.

    Parameters
    ----------
    model : str
        The model file, which must be there.

    Yields
    ------
    learner : Learner
        The model, to be saved.
    progress : Progress
        For jobs that take long.
    """
    from counterpoise.cli.learn import counts_of
    from counterpoise.cli.progress import Progress
    from counterpoise.jobs.file import stored_model
    from counterpoise.jobs.learn import Learner
    from counterpoise.jobs.lock import locked

    stored_model(model)  # it must exist and be whole before there is a lock beside it
    with locked(model):
        learner = Learner(model, {}, {})
        with Progress() as progress:
            yield learner, progress
        for note in learner.notes.values():
            words.say(note)
    if learner.model is not None:
        words.say(f"{model}: {counts_of(learner.model) or 'nothing is left'}")


def sources_of(
    learner: Any,
    files: list[str] | None,
    labels: list[str] | None,
    id: str | None,  # noqa: A002
    meant: Any,
    reading: dict[str, Any],
) -> Iterator[tuple[Any, str]]:
    """Inputs that were learned, or events joined with their labels, and their names.

    Parameters
    ----------
    learner : Learner
        The model.
    files, labels : list of str, optional
        As given.
    id : str, optional
        Column that joins them; None if it is known.
    meant : Where, optional
        Which rows are meant.
    reading : dict
        How files are read.

    Yields
    ------
    source : Source
        An input.
    key : str
        Its name in the records.
    """
    from counterpoise import streams
    from counterpoise.jobs.joined_again import joined_again
    from counterpoise.jobs.waiting import Waiting, waits_beside

    sources = [streams.source(path, **reading) for path in streams.expanded(files or [])]
    beside = waits_beside(learner.path)
    if not labels:
        if beside:
            with Waiting(learner.path) as waiting:
                for source in sources:
                    key = learner.key(source.path)
                    if waiting.joined(key) or key in waiting.records():
                        kind = "labels" if waiting.joined(key) else "events"
                        raise streams.DataError(
                            f"{source.name} holds {kind} that were joined; name the files of the "
                            "events, and those of their labels with --labels"
                        )
        for source in sources:
            yield source, learner.key(source.path)
        return
    if id is None and not beside:
        raise opt.bad("--labels", "name the column that joins rows and labels with --id")
    if beside:
        with Waiting(learner.path, id) as waiting:
            id = waiting.id  # noqa: A001
    named = [streams.source(path, **reading) for path in streams.expanded(labels)]
    with joined_again(learner, sources, named, id or "", meant) as (joined, ids):
        for source in joined:
            yield source, source.key
        if beside and meant is not None:
            with Waiting(learner.path) as waiting:
                waiting.erase(ids)


def _drop_waiting(model: str, meant: Any) -> list[str]:
    """Drop events that are meant and wait for their labels, and say so."""
    from counterpoise.jobs.waiting import Waiting, waits_beside

    if not waits_beside(model):
        return []
    with Waiting(model) as waiting:
        gone = waiting.forget(
            lambda table: meant.among(
                {name: table[name] for name in table.column_names}, table.num_rows
            )
        )
    return [f"{counted(gone, 'event')} that waited for labels dropped"]
