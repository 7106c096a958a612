"""Late labels in a shell: events wait beside the model until their labels come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from counterpoise.cli import options as opt
from counterpoise.cli import words
from counterpoise.cli.words import counted


def require(files: list[str] | None, labels: list[str] | None, id: str | None, model: str) -> bool:  # noqa: A002
    """Whether events and labels are to be joined, or raise if the options do not fit together.

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
    from counterpoise.jobs.waiting import waits_beside

    if id is None and not waits_beside(model):
        raise opt.bad("--labels", "name the column that joins rows and labels with --id")
    return True


def without_ids(columns: dict[str, Any], id: str | None, model: str) -> dict[str, Any]:  # noqa: A002
    """Settings of columns, with the ids among those that are left out.

    Parameters
    ----------
    columns : dict
        As given.
    id : str, optional
        Column of the ids; None if it is known.
    model : str
        The model file.

    Returns
    -------
    dict
    """
    import os

    from counterpoise.jobs.file import stored_model
    from counterpoise.jobs.waiting import Waiting

    if id is None:
        with Waiting(model) as waiting:
            id = waiting.id  # noqa: A001
    before = stored_model(model).encoding.columns if os.path.exists(model) else None
    if "keep" in columns or (before is not None and before.keep):
        return columns
    if before is not None and "drop" not in columns:
        if id in before.drop:
            return columns
        return {**columns, "drop": tuple(sorted({*before.drop, id}))}
    return {**columns, "drop": tuple(sorted({*columns.get("drop", ()), id}))}


def opened(
    learner: Any,
    files: list[str],
    labels: list[str],
    id: str | None,  # noqa: A002
    open_source: Callable[[str], Any],
    skip_unknown_ids: bool,
    stdin_name: str | None,
    stop: Callable[[], bool],
) -> tuple[Any, list[tuple[Any, str]]]:
    """Store what is new of the events, and return them with the sources of joined rows.

    Parameters
    ----------
    learner : Learner
        The model.
    files, labels : list of str
        Files of events and of labels.
    id : str, optional
        Column that joins them; None if it is known.
    open_source : callable
        Makes a source of a path.
    skip_unknown_ids : bool
        Leave out labels of unknown events.
    stdin_name : str, optional
        Name of standard input in the records.
    stop : callable
        Whether to end.

    Returns
    -------
    waiting : Waiting
        The events.
    inputs : list of (Joined, str)
        Joined rows, and their names in the records.
    """
    from counterpoise.jobs.joined import Joined, checking
    from counterpoise.jobs.waiting import Waiting, events_key

    if "-" in files and "-" in labels:
        raise opt.bad("--labels", "standard input cannot be events and labels at once")
    waiting = Waiting(learner.path, id)
    waiting.settle(learner.records, learner.ever)
    check = checking(learner.encoding)
    for path in files:
        source = open_source(path)
        key = events_key(path, learner.path, stdin_name)
        new = waiting.take(source, key, learner.chunk_rows, stop, check)
        words.say(
            f"{source.name}: {counted(new, 'new event')}"
            if new
            else f"{source.name}: no new events"
        )
        if source.left:
            words.say(f"{source.name}: the last line has no line end and is left for the next run")
    label = learner.encoding.columns.label
    inputs = []
    for path in labels:
        key = learner.key(path, stdin_name)
        waiting.note_labels(key)
        inputs.append((Joined(open_source(path), key, label, waiting, skip_unknown_ids), key))
    return waiting, inputs


def closed(learner: Any, waiting: Any, inputs: list[tuple[Any, str]]) -> None:
    """Let go of what was learned, and say what waits.

    Parameters
    ----------
    learner : Learner
        The model, as it was saved.
    waiting : Waiting
        The events.
    inputs : list of (Joined, str)
        Joined rows.
    """
    skipped = sum(source.skipped for source, _ in inputs)
    if skipped:
        words.say(f"labels of unknown events that were left out: {skipped:,}")
    if learner.model is not None:  # else nothing was saved
        waiting.settle(learner.records, learner.ever)
    words.say(f"events that wait for their labels: {len(waiting):,}")
    waiting.close()
