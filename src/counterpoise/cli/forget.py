"""counterpoise forget: as if files, or some of their rows, had never been learned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from counterpoise.cli import join, words
from counterpoise.cli import options as opt
from counterpoise.cli.learn import counts_of, show_summary
from counterpoise.cli.table import Json
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
    as_json: Json = False,
    format: opt.Format = None,  # noqa: A002
    delimiter: opt.Delimiter = None,
    no_header: opt.NoHeader = False,
) -> None:
    """Take the rows of files back, as if they had never been learned.

    Categories, columns and classes that no other row has go with them. The files must be as they
    were when they were learned; rows added since do not matter. With - the rows come from a pipe,
    with their labels. With --where only some rows are taken back, each one once, and pending events
    are erased too. Events with delayed labels need no file of labels.

    Example: counterpoise forget fraud.safetensors february.csv

    One person: counterpoise forget fraud.safetensors --where customer=123 2026-*.csv
    """
    reading = opt.reading(format, delimiter, no_header)
    meant = where_of(where)
    if not files and meant is None:
        raise opt.bad("FILES", "name the files whose rows are to be forgotten")

    import os

    from counterpoise import streams
    from counterpoise.jobs import forget as job
    from counterpoise.jobs.event_store import has_store

    done: dict[str, Any] = {}
    if meant is not None and not os.path.exists(model) and has_store(model):
        erased = _erase_pending(model, meant)
        if as_json:
            show_summary(model, None, done, erased_events=erased)
        return
    paths = streams.expanded(files or [])
    with changed(model) as (learner, progress), join.opened_store(model, None) as store:
        if not paths and store is None:
            raise streams.DataError(f"{model} has no pending events; name files too")
        join.settle(learner, store)
        change, told, keys = job.StoreChange(store), [], list[str]()
        for path in paths:
            source, key, events = input_of(learner, store, path, reading)
            keys.append(key)
            if path == "-":
                rows = job.forget_pipe(learner, source, meant, progress.chunk, change)
            elif events is not None:
                rows = job.forget_events(learner, events, meant, progress.chunk, change)
                if meant is None:
                    change.drop_input(key)
            elif meant is None:
                rows = job.forget(learner, source, key, progress.chunk, change)
            else:
                rows = job.forget_where(learner, source, key, meant, progress.chunk, change)
            told.append(f"{source.name}: {counted(rows, 'row')} forgotten")
            done[source.name] = {"forgotten_rows": rows}
        before = 0 if store is None else len(store)
        if store is not None:
            if meant is not None:
                change.erase(matching(store, meant))
            change.plan(learner)
        learner.save()
        join.settle(learner, store, is_finished=True)
        erased = 0 if store is None else before - len(store)
        if store is not None:
            told.append(f"{counted(erased, 'pending event')} erased")
        left = [] if meant is None else _not_examined(learner, store, keys)
        if left:
            inputs = counted(len(left), "learned input")
            told.append(f"not examined: {inputs} that were not named, such as {left[0]}")
        for line in told:
            words.say(line)
    if as_json:
        show_summary(model, learner.model, done, erased_events=erased, not_examined=left)


def _not_examined(learner: Any, store: Any, keys: list[str]) -> list[str]:
    """Return the learned files that were not named, so that a person may still be in them."""
    known = [*learner.records, *(() if store is None else store.event_inputs)]
    return [key for key in known if key not in keys and not key.startswith("-")]


def _erase_pending(model: str, meant: Any) -> int:
    """Erase pending events before there is a model, and return their number."""
    from counterpoise.jobs.lock import locked

    with locked(model), join.opened_store(model, None) as store:
        found = matching(store, meant)
        store.erase_pending(found)
        store.compact()
    words.say(f"{counted(len(found), 'pending event')} erased")
    return len(found)


def matching(store: Any, meant: Any) -> list[str]:
    """Return the ids of pending events that are meant.

    Parameters
    ----------
    store : EventStore
        The store.
    meant : Where
        Conditions.

    Returns
    -------
    list of str
    """
    result: list[str] = store.find_pending(
        lambda table: meant.among(
            {name: table[name].combine_chunks() for name in table.column_names}, table.num_rows
        )
    )
    return result


def input_of(learner: Any, store: Any, path: str, reading: dict[str, Any]) -> tuple[Any, str, Any]:
    """Return an input that was learned, its name in the records, and its events if it has some.

    Parameters
    ----------
    learner : Learner
        The model.
    store : EventStore or None
        The store.
    path : str
        As given.
    reading : dict
        How files are read.

    Returns
    -------
    source : Source
        The input.
    key : str
        Its name in the records of the model or of the store.
    events : LearnedEvents or None
        Events with delayed labels.
    """
    from counterpoise import streams
    from counterpoise.jobs.delayed_labels import LearnedEvents

    source, key = streams.source(path, **reading), learner.key(path)
    found = None if store is None or path == "-" else store.find_input(source, key)
    if found is None or key in learner.records:
        return source, key, None
    name, kind, record = found
    if kind == "labels":
        raise streams.DataError(
            f"{source.name} contains labels of events; name the files of these events instead"
        )
    return source, name, LearnedEvents(source, store, record)


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
