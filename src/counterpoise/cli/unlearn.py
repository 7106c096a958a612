"""counterpoise unlearn: as if files, or some of their rows, had never been learned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from counterpoise.cli import learn, messages
from counterpoise.cli import options as opt
from counterpoise.cli.learn import counts_of, show_summary
from counterpoise.cli.messages import Json, pluralize
from counterpoise.errors import DataError

WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        "--where", help="Only rows whose column says this; all of several.", metavar="COLUMN=VALUE"
    ),
]


def unlearn(
    model: Annotated[str, typer.Argument(help="Model file.", metavar="MODEL")],
    files: opt.SomeFiles = None,
    where: WhereOption = None,
    as_json: Json = False,
    input: opt.InputOptions = opt.INPUT,  # noqa: A002
) -> None:
    """Take the rows of files back, as if they had never been learned.

    Categories, columns and classes that no other row has go with them. The files must be as they
    were when they were learned; rows added since do not matter. With - the rows come from a pipe,
    with their labels. With --where only some rows are taken back, each one once, and pending events
    are erased too. Events with delayed labels need no file of labels.

    Example: counterpoise unlearn fraud.safetensors february.csv

    One person: counterpoise unlearn fraud.safetensors --where customer=123 2026-*.csv
    """
    reading = input.reading()
    meant = where_of(where)
    if not files and meant is None:
        raise opt.bad("FILES", "name the files whose rows are to be unlearned")

    import os

    from counterpoise.readers import formats
    from counterpoise.tables import unlearn as job
    from counterpoise.tables.event_store import has_store

    done: dict[str, Any] = {}
    if meant is not None and not os.path.exists(model) and has_store(model):
        erased = _erase_pending(model, meant)
        if as_json:
            show_summary(model, None, done, erased_events=erased)
        return
    paths = formats.expanded(files or [])
    with changed(model) as (learner, progress), learn.opened_store(model, None) as store:
        if not paths and store is None:
            raise DataError(f"{model} has no pending events; name files too")
        learn.settle(learner, store)
        change, told, keys = job.StoreChange(store), [], list[str]()
        for path in paths:
            source, key, events = input_of(learner, store, path, reading)
            keys.append(key)
            rows = job.unlearn(learner, source, key, progress.chunk, change, meant, events=events)
            if events is not None and meant is None:
                change.drop_input(key)
            told.append(f"{source.name}: {pluralize(rows, 'row')} unlearned")
            done[source.name] = {"unlearned_rows": rows}
        before = 0 if store is None else len(store)
        if store is not None:
            if meant is not None:
                change.erase(store.find_pending(meant.among))
            change.plan(learner)
        learner.save()
        learn.settle(learner, store, is_finished=True)
        erased = 0 if store is None else before - len(store)
        if store is not None:
            told.append(f"{pluralize(erased, 'pending event')} erased")
        left = [] if meant is None else _not_examined(learner, store, keys)
        if left:
            inputs = pluralize(len(left), "learned input")
            told.append(f"not examined: {inputs} that were not named, such as {left[0]}")
        for line in told:
            messages.info(line)
    if as_json:
        show_summary(model, learner.model, done, erased_events=erased, not_examined=left)


def _not_examined(learner: Any, store: Any, keys: list[str]) -> list[str]:
    """Return the learned files that were not named, so that a person may still be in them."""
    known = [*learner.records, *(() if store is None else store.event_inputs)]
    return [key for key in known if key not in keys and not key.startswith("-")]


def _erase_pending(model: str, meant: Any) -> int:
    """Erase pending events before there is a model, and return their number."""
    from counterpoise.atomic_write import locked

    with locked(model), learn.opened_store(model, None) as store:
        found = store.find_pending(meant.among)
        store.erase_pending(found)
        store.compact()
    messages.info(f"{pluralize(len(found), 'pending event')} erased")
    return len(found)


def input_of(learner: Any, store: Any, path: str, reading: dict[str, Any]) -> tuple[Any, str, Any]:
    """Return an input that was learned, its name, and its record in the store if it has events."""
    from counterpoise.readers import formats

    source, key = formats.source(path, **reading), learner.key(path)
    found = None if store is None or path == "-" else store.find_input(source, key)
    if found is None or key in learner.records:
        return source, key, None
    name, kind, record = found
    if kind == "labels":
        raise DataError(
            f"{source.name} contains labels of events; name the files of these events instead"
        )
    return source, name, record


def where_of(where: list[str] | None) -> Any:
    """Conditions, as given."""
    if not where:
        return None
    values: dict[str, tuple[str, ...]] = {}
    for pair in where:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise opt.bad("--where", f"{pair!r} is not COLUMN=VALUE")
        values[name] = (*values.get(name, ()), value)

    from counterpoise.tables.records import RowFilter

    return RowFilter(values)


@contextmanager
def changed(model: str) -> Iterator[tuple[Any, Any]]:
    """A model that is changed under its lock; what there is to say is said at the end."""
    from counterpoise.atomic_write import locked
    from counterpoise.cli.messages import Progress
    from counterpoise.tables.model import TableModel

    TableModel.load(model)  # it must exist and be whole before there is a lock beside it
    with locked(model):
        learner = TableModel.open(model, {}, {})
        with Progress() as progress:
            yield learner, progress
        for note in learner.notes.values():
            messages.info(note)
    if learner.model is not None:
        counts = counts_of(learner.model.labels, learner.model.class_count)
        messages.info(f"{model}: {counts or 'nothing is left'}")


def relabel(
    model: Annotated[str, typer.Argument(help="Model file.", metavar="MODEL")],
    files: opt.SomeFiles = None,
    new_label: Annotated[str | None, typer.Option(help="The right label.", metavar="LABEL")] = None,
    where: WhereOption = None,
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels", help="A file of right labels: an id and a label each.", metavar="FILE"
        ),
    ] = None,
    id: opt.Id = None,  # noqa: A002
    as_json: Json = False,
    input: opt.InputOptions = opt.INPUT,  # noqa: A002
) -> None:
    """Unlearn rows with their present label, and learn them with another.

    The files are those that were learned, or those of the events if labels came later. Rows that
    have the right label stay as they are: the same command twice changes nothing more. A row can
    be relabeled as often as needed.

    Example: counterpoise relabel fraud.safetensors march.csv --where payment=4711 --new-label yes

    Many rows: counterpoise relabel fraud.safetensors march.csv --labels right.csv --id payment
    """
    reading = input.reading()
    meant = where_of(where)
    if labels is None and meant is None:
        raise opt.bad("--where", "say which rows have the wrong label")
    if (labels is None) == (new_label is None):
        raise opt.bad(
            "--new-label", "give the right label, or a file of right labels with --labels"
        )
    if not files and labels is None:
        raise opt.bad("FILES", "name the files whose rows have the wrong label")
    if "-" in (files or []):
        raise opt.bad("FILES", "relabel needs files that can be read again")

    from counterpoise.readers import formats
    from counterpoise.tables import delayed_labels
    from counterpoise.tables import unlearn as job

    with changed(model) as (learner, progress), learn.opened_store(model, None) as store:
        learn.settle(learner, store)
        known = job.labels_by_text(learner)
        if new_label is not None and new_label not in known:
            raise opt.bad("--new-label", f"{new_label!r} is not one of {', '.join(known)}")
        id = id or (None if store is None else store.id)  # noqa: A001
        new, rows_of = delayed_labels.NewLabels(known.get(new_label or "")), dict[str, str]()
        if labels is not None:
            if id is None:
                raise opt.bad("--labels", "name the column that joins rows and labels with --id")
            source = formats.source(labels, **reading)
            new, rows_of = delayed_labels.read_labels(
                source, id, learner.encoding.columns.label, known
            )
        change, told, total, done = job.StoreChange(store), [], 0, dict[str, Any]()
        for path in formats.expanded(files or []):
            source, key, events = input_of(learner, store, path, reading)
            taken = job.unlearn(learner, source, key, progress.chunk, change, meant, new, events)
            told.append(f"{source.name}: {pluralize(taken, 'row')} relabeled")
            done[source.name] = {"relabeled_rows": taken}
            total += taken
        revised = change.revise_waiting(new, rows_of)
        if revised:
            told.append(f"{pluralize(revised, 'label')} that waited for events replaced")
        change.plan(learner)
        if total or revised:
            learner.save()
        learn.settle(learner, store, is_finished=True)
        for line in told:
            messages.info(line)
    if as_json:
        show_summary(model, learner.model, done, replaced_labels=revised)
