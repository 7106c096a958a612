"""Delayed labels in a shell: events are pending next to the model until their labels come."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from counterpoise.cli import options as opt
from counterpoise.cli import words
from counterpoise.cli.words import counted


def require(files: list[str] | None, labels: list[str] | None, id: str | None, model: str) -> bool:  # noqa: A002
    """Return whether events and labels are to be joined; raise if the options do not fit together.

    Parameters
    ----------
    files, labels : list of str, optional
        As given.
    id : str, optional
        As given.
    model : str
        The model file.

    Returns
    -------
    bool
    """
    if not labels and id is None:
        if not files:
            raise opt.bad("FILES", "name the files to learn")
        return False
    from counterpoise.jobs.event_store import has_store

    if id is None and not has_store(model):
        raise opt.bad("--labels", "name the column that joins rows and labels with --id")
    if "-" in (files or []) and "-" in (labels or []):
        raise opt.bad("--labels", "standard input cannot be events and labels at once")
    return True


def seconds(text: str | None) -> float | None:
    """Return the value of --expire in seconds.

    Parameters
    ----------
    text : str, optional
        As given.

    Returns
    -------
    float or None
    """
    from counterpoise.exact import fading

    if text is not None and fading.seconds(text) is None:
        raise opt.bad("--expire", f"{text!r} is not a time such as 12h, 90d or 2w")
    return None if text is None else fading.seconds(text)


@contextmanager
def opened_store(model: str, id: str | None) -> Iterator[Any]:  # noqa: A002
    """Open the store of a model; one in which nothing was stored is deleted at the end.

    Parameters
    ----------
    model : str
        The model file.
    id : str, optional
        Column of the ids, with which a store is created; None for one that may exist.

    Yields
    ------
    store : EventStore or None
    """
    from counterpoise.jobs.event_store import EventStore, has_store, pending_path

    if id is None and not has_store(model):
        yield None
        return
    store = EventStore(pending_path(model), id)
    try:
        yield store
    finally:
        store.close()


def settle(learner: Any, store: Any, is_finished: bool = False) -> None:
    """Let a store follow its model, as it is saved.

    Parameters
    ----------
    learner : Learner
        The model.
    store : EventStore or None
        The store.
    is_finished : bool, default=False
        Whether a run has ended, so that its labels count.
    """
    if store is not None:
        store.label = learner.encoding.columns.label
        store.settle(learner.store_mark, is_finished)
        _compact(store)


def _compact(store: Any) -> None:
    """Rewrite a store without deleted rows; the next command does it if there is no space now."""
    try:
        store.compact()
    except ValueError as error:
        words.say(f"warning: deleted rows may still be readable: {error}")


def settings(
    store: Any, columns: dict[str, Any], options: dict[str, Any], more: dict[str, Any], model: str
) -> dict[str, dict[str, Any]]:
    """Return the settings of a run: the ids are not a feature, and earlier options count.

    Parameters
    ----------
    store : EventStore or None
        The store.
    columns, options, more : dict
        As given: those of columns, those of the classifier, and others that the model keeps.
    model : str
        The model file.

    Returns
    -------
    dict
        Of the three.
    """
    more = {name: value for name, value in more.items() if value is not None}
    if store is None:
        return {"columns": columns, "options": options, "more": more}
    from counterpoise.jobs.delayed_labels import merge_settings
    from counterpoise.jobs.file import stored_model

    before = stored_model(model).encoding.columns if os.path.exists(model) else None
    known = () if before is None else before.drop
    keeps = "keep" in columns or (before is not None and before.keep)
    if not keeps and not (store.id in known and "drop" not in columns):
        drop = {*columns.get("drop", known), store.id}
        columns = {**columns, "drop": tuple(sorted(drop))}
    if before is not None:
        return {"columns": columns, "options": options, "more": more}
    return merge_settings(store, columns, options, more)


def add(
    learner: Any,
    store: Any,
    events: list[tuple[Any, str]],
    labels: list[tuple[Any, str]],
    stop: Callable[[], bool],
) -> list[tuple[Any, str]]:
    """Add new events and labels, and return the source of rows that are ready to be learned.

    Parameters
    ----------
    learner : Learner
        The model.
    store : EventStore
        The store.
    events, labels : list of (Source, str)
        Inputs, and their names in the records.
    stop : callable
        Whether to end.

    Returns
    -------
    list of (Source, str)
    """
    from counterpoise.jobs.delayed_labels import PendingRows, checker
    from counterpoise.jobs.store import PENDING

    for source, key in events:
        check = checker(learner, store)
        report(source, store.add_events(source, key, learner.chunk_rows, stop, check), "event")
    for source, key in labels:
        check_labels = learner.check_labels
        new = store.add_labels(source, key, learner.chunk_rows, stop, check_labels)
        report(source, new, "label")
    return [(PendingRows(store), PENDING)]


def labeled(store: Any, inputs: list[tuple[Any, str]]) -> list[tuple[Any, str]]:
    """Return inputs of labeled rows whose ids are compared with those of a store.

    Parameters
    ----------
    store : EventStore
        The store.
    inputs : list of (Source, str)
        Inputs, and their names in the records.

    Returns
    -------
    list of (Source, str)
    """
    from counterpoise.jobs.delayed_labels import LabeledRows

    return [(LabeledRows(source, store, key), key) for source, key in inputs]


def report(source: Any, new: int, what: str) -> None:
    """Print how many rows were new in an input.

    Parameters
    ----------
    source : Source
        The input.
    new : int
        Number of new rows.
    what : str
        One of them.
    """
    text = counted(new, f"new {what}") if new else f"no new {what}s"
    words.say(f"{source.name}: {text}")
    if source.left:
        words.say(f"{source.name}: the last line has no line end and is left for the next run")


def close(learner: Any, store: Any) -> None:
    """Delete what has expired, and print what is left.

    Parameters
    ----------
    learner : Learner
        The model.
    store : EventStore
        The store.
    """
    if learner.model is not None:  # it has the options now
        store.set_options(None, store.expire_after)
    if store.expire_after is not None:
        events, labels = store.expire(time.time() - store.expire_after)
        if events or labels:
            words.say(
                f"expired: {counted(events, 'event')} without a label, "
                f"{counted(labels, 'label')} without an event"
            )
        _compact(store)
    words.say(f"pending events: {len(store):,}")
    if store.waiting_labels:
        words.say(f"labels that wait for their events: {store.waiting_labels:,}")
