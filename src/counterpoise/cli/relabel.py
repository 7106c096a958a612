"""counterpoise relabel: rows that were learned with a wrong label, learned with the right one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from counterpoise.cli import join, words
from counterpoise.cli import options as opt
from counterpoise.cli.forget import WhereOption, changed, input_of, where_of
from counterpoise.cli.learn import show_summary
from counterpoise.cli.table import Json
from counterpoise.cli.words import counted


def relabel(
    model: Annotated[str, typer.Argument(help="Model file.", metavar="MODEL")],
    files: opt.SomeFiles = None,
    to: Annotated[
        str | None, typer.Option("--to", help="The right label.", metavar="LABEL")
    ] = None,
    where: WhereOption = None,
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels", help="A file of right labels: an id and a label each.", metavar="FILE"
        ),
    ] = None,
    id: opt.Id = None,  # noqa: A002
    as_json: Json = False,
    format: opt.Format = None,  # noqa: A002
    delimiter: opt.Delimiter = None,
    no_header: opt.NoHeader = False,
) -> None:
    """Forget rows with their present label, and learn them with another.

    The files are those that were learned, or those of the events if labels came later. Rows that
    have the right label stay as they are: the same command twice changes nothing more. A row can
    be relabeled as often as needed.

    Example: counterpoise relabel fraud.safetensors march.csv --where payment=4711 --to yes

    Many rows: counterpoise relabel fraud.safetensors march.csv --labels right.csv --id payment
    """
    reading = opt.reading(format, delimiter, no_header)
    meant = where_of(where)
    if labels is None and meant is None:
        raise opt.bad("--where", "say which rows have the wrong label")
    if (labels is None) == (to is None):
        raise opt.bad("--to", "give the right label, or a file of right labels with --labels")
    if not files and labels is None:
        raise opt.bad("FILES", "name the files whose rows have the wrong label")
    if "-" in (files or []):
        raise opt.bad("FILES", "relabel needs files that can be read again")

    from counterpoise import streams
    from counterpoise.jobs import delayed_labels
    from counterpoise.jobs import forget as job

    with changed(model) as (learner, progress), join.opened_store(model, None) as store:
        join.settle(learner, store)
        known = job.labels_by_text(learner)
        if to is not None and to not in known:
            raise opt.bad("--to", f"{to!r} is not one of {', '.join(known)}")
        id = id or (None if store is None else store.id)  # noqa: A001
        new, rows_of = delayed_labels.NewLabels(known.get(to or "")), dict[str, str]()
        if labels is not None:
            if id is None:
                raise opt.bad("--labels", "name the column that joins rows and labels with --id")
            source = streams.source(labels, **reading)
            new, rows_of = delayed_labels.read_labels(
                source, id, learner.encoding.columns.label, known
            )
        change, told, total, done = job.StoreChange(store), [], 0, dict[str, Any]()
        for path in streams.expanded(files or []):
            source, key, events = input_of(learner, store, path, reading)
            if events is not None:
                taken = job.forget_events(learner, events, meant, progress.chunk, change, new)
            else:
                taken = job.forget_where(learner, source, key, meant, progress.chunk, change, new)
            told.append(f"{source.name}: {counted(taken, 'row')} relabeled")
            done[source.name] = {"relabeled_rows": taken}
            total += taken
        revised = change.revise_waiting(new, rows_of)
        if revised:
            told.append(f"{counted(revised, 'label')} that waited for events replaced")
        change.plan(learner)
        if total or revised:
            learner.save()
        join.settle(learner, store, is_finished=True)
        for line in told:
            words.say(line)
    if as_json:
        show_summary(model, learner.model, done, replaced_labels=revised)
