"""counterpoise learn: from files to a model file."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from counterpoise.cli import messages
from counterpoise.cli import options as opt
from counterpoise.cli.messages import Json, collect_stop_signals, pluralize, show_json
from counterpoise.errors import DataError


def require(files: list[str] | None, labels: list[str] | None, id: str | None, model: str) -> bool:  # noqa: A002
    """Return whether events and labels are joined; raise if options do not fit together."""
    if not labels and id is None:
        if not files:
            raise opt.bad("FILES", "name the files to learn")
        return False
    from counterpoise.tables.event_store import has_store

    if id is None and not has_store(model):
        raise opt.bad("--labels", "name the column that joins rows and labels with --id")
    if "-" in (files or []) and "-" in (labels or []):
        raise opt.bad("--labels", "standard input cannot be events and labels at once")
    return True


def seconds(text: str | None) -> float | None:
    """Return the value of --expire in seconds."""
    from counterpoise.moments import decay

    if text is not None and decay.parse_time_span(text) is None:
        raise opt.bad("--expire", f"{text!r} is not a time such as 12h, 90d or 2w")
    return None if text is None else decay.parse_time_span(text)


@contextmanager
def opened_store(model: str, id: str | None) -> Iterator[Any]:  # noqa: A002
    """Open the store of a model; one in which nothing was stored is deleted at the end."""
    from counterpoise.tables.event_store import EventStore, has_store, pending_path

    if id is None and not has_store(model):
        yield None
        return
    store = EventStore(pending_path(model), id)
    try:
        yield store
    finally:
        store.close()


def settle(learner: Any, store: Any, is_finished: bool = False) -> None:
    """Let a store follow its model, as it is saved."""
    if store is not None:
        store.label = learner.encoding.columns.label
        store.settle(learner.store_mark, is_finished)
        _compact(store)


def _compact(store: Any) -> None:
    """Rewrite a store without deleted rows; the next command does it if there is no space now."""
    try:
        store.compact()
    except ValueError as error:
        messages.info(f"warning: deleted rows may still be readable: {error}")


def run_settings(
    store: Any, columns: dict[str, Any], options: dict[str, Any], more: dict[str, Any], model: str
) -> dict[str, dict[str, Any]]:
    """Return the settings of a run: the ids are not a feature, and earlier options count."""
    more = {name: value for name, value in more.items() if value is not None}
    if store is None:
        return {"columns": columns, "options": options, "more": more}
    from counterpoise.tables.delayed_labels import merge_settings
    from counterpoise.tables.model import TableModel

    before = TableModel.load(model).encoding.columns if os.path.exists(model) else None
    known = () if before is None else before.drop
    roles = columns.get("roles", {})
    has_drop, has_only = "drop" in roles.values(), "only" in columns or (before and before.only)
    if not has_only and (has_drop or store.id not in known):
        kept = {} if has_drop else dict.fromkeys(known, "drop")
        columns = {**columns, "roles": dict(sorted({**kept, **roles, store.id: "drop"}.items()))}
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
    """Add new events and labels, and return the source of rows that are ready to be learned."""
    from counterpoise.tables.delayed_labels import PendingRows, event_checker
    from counterpoise.tables.records import PENDING

    for kind, inputs in (("event", events), ("label", labels)):
        for source, key in inputs:
            check = event_checker(learner, store) if kind == "event" else learner.check_labels
            new = store.add(f"{kind}s", source, key, learner.chunk_rows, stop, check)
            report(source, new, kind)
    return [(PendingRows(store), PENDING)]


def report(source: Any, new: int, what: str) -> None:
    """Print how many rows were new in an input."""
    text = pluralize(new, f"new {what}") if new else f"no new {what}s"
    messages.info(f"{source.name}: {text}")
    if source.left:
        messages.info(f"{source.name}: the last line has no line end and is left for the next run")


def close(learner: Any, store: Any) -> None:
    """Delete what has expired, and print what is left."""
    if learner.model is not None:  # it has the options now
        store.set_options(None, store.expire_after)
    if store.expire_after is not None:
        events, labels = store.expire(time.time() - store.expire_after)
        if events or labels:
            messages.info(
                f"expired: {pluralize(events, 'event')} without a label, "
                f"{pluralize(labels, 'label')} without an event"
            )
        _compact(store)
    messages.info(f"pending events: {len(store):,}")
    if store.waiting_labels:
        messages.info(f"labels that wait for their events: {store.waiting_labels:,}")


Names = list[str]
MOST_ROWS = 10_000_000  # of a chunk


def learn(
    model: Annotated[
        str,
        typer.Option("--model", "-m", help="Model file to create or to continue.", metavar="FILE"),
    ],
    files: opt.SomeFiles = None,
    labels: opt.Labels = None,
    id: opt.Id = None,  # noqa: A002
    expire: Annotated[
        str | None,
        typer.Option(
            help="Delete events without labels, and labels without events, after this time.",
            metavar="90d",
        ),
    ] = None,
    columns: opt.ColumnOptions = opt.COLUMNS,
    allow_new_classes: Annotated[
        bool,
        typer.Option("--allow-new-classes", help="Learn labels that an old model does not know."),
    ] = False,
    allow_new_columns: opt.NewColumns = False,
    allow_future: Annotated[
        bool,
        typer.Option("--allow-future", help="Learn times after now, by which --half-life decays."),
    ] = False,
    positive: opt.Positive = None,
    options: opt.ModelOptions = opt.MODEL,
    timestamp: opt.Timestamp = None,
    checkpoint_every: Annotated[
        int, typer.Option(help="Rows between two saves.", metavar="N")
    ] = 1_000_000,
    chunk_rows: Annotated[
        int | None,
        typer.Option(help="Most rows learned at a time; 8192 by default.", metavar="N"),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(help="Append progressive metrics to this file.", metavar="FILE.jsonl"),
    ] = None,
    metrics_every: Annotated[
        int, typer.Option(help="Rows between two lines of metrics.", metavar="N")
    ] = 10_000,
    allow_overlap: Annotated[
        bool, typer.Option("--allow-overlap", help="Learn a file that begins like another one.")
    ] = False,
    complete: Annotated[
        bool,
        typer.Option(
            "--complete", help="The files are complete: also learn a last line without a line end."
        ),
    ] = False,
    stdin_name: Annotated[
        str | None, typer.Option(help="Name of standard input in the records.", metavar="NAME")
    ] = None,
    as_json: Json = False,
    input: opt.InputOptions = opt.INPUT,  # noqa: A002
) -> None:
    """Learn the rows of files that were not learned yet, each one exactly once.

    The same command after a crash, or when files have grown, goes on where the model file stands.
    Options are stored in it and need not be repeated.

    Example: counterpoise learn 2024-*.csv.gz --label fraud --drop id --model fraud.safetensors

    Labels that come later: counterpoise learn today.csv --labels labels.csv --id payment -m m.st

    With quadratic boundaries: counterpoise learn shuttle.csv --label state --pooled-rows 30 -m s.st
    """
    reading = input.reading()
    for name, value in (("checkpoint", checkpoint_every), ("metrics", metrics_every)):
        if value < 1:
            raise opt.bad(f"--{name}-every", "must be 1 or more")
    if chunk_rows is not None and not 1 <= chunk_rows <= MOST_ROWS:
        raise opt.bad("--chunk-rows", f"must be 1 to {MOST_ROWS:,}")
    settings = columns.settings(timestamp)
    columns.require_dates(timestamp)
    parameters = options.parameters()

    is_delayed = require(files, labels, id, model)
    if expire is not None and not is_delayed:
        raise opt.bad("--expire", "is for --id and --labels")
    expire_after = seconds(expire)

    from counterpoise.atomic_write import locked
    from counterpoise.readers import formats
    from counterpoise.readers.chunk import Source
    from counterpoise.tables.guards import Guards
    from counterpoise.tables.model import TableModel, learn_inputs
    from counterpoise.tables.records import PENDING

    paths = formats.expanded(files or [])
    settings = formats.with_label(settings, paths, input.format)
    with collect_stop_signals() as stopped, locked(model), opened_store(model, id) as store:
        more = {"chunk_rows": chunk_rows, "positive": positive}
        given = run_settings(store, settings, parameters, more, model)
        wanted = given["more"].get("positive")
        guards = Guards(model, wanted, allow_new_classes, allow_new_columns, allow_future)
        learner = TableModel.open(
            model, given["columns"], given["options"], given["more"].get("chunk_rows"), guards
        )
        settle(learner, store)

        def opened(path: str) -> tuple[Source, str]:
            source = formats.source(path, **reading, stdin_name=stdin_name, complete=complete)
            return source, learner.key(path, stdin_name)

        inputs = [opened(path) for path in paths]
        if store is not None and is_delayed:
            store.set_options(None if learner.model else given, expire_after or store.expire_after)
            named = [opened(path) for path in formats.expanded(labels or [])]
            inputs = add(learner, store, inputs, named, lambda: bool(stopped))
        learner.store = store
        with _ProgressAndMetrics(learner, metrics, metrics_every) as watch:
            new = learn_inputs(
                learner,
                inputs,
                checkpoint_every,
                lambda: bool(stopped),
                watch.after_chunk,
                allow_overlap,
                watch.before_save,
                watch.needs_scores,
            )
        done: dict[str, Any] = {}
        for source, key in inputs:
            if key == PENDING and (labels or new.get(key)):
                messages.info(f"{pluralize(new.get(key, 0), 'event')} learned")
            elif key in new and key != PENDING:
                before, record = learner.formerly.get(key), learner.records.get(key)
                messages.info(_learned_message(source.name, new[key], record, before))
                rows, dropped = (0, 0) if record is None else (record.mark.rows, record.dropped)
                done[source.name] = {"new_rows": new[key], "rows": rows, "dropped_rows": dropped}
                if source.left:
                    messages.info(
                        f"{source.name}: the last line has no line end and is left for the next "
                        "run; use --complete if the file is complete"
                    )
        for note in learner.notes.values():
            messages.info(note)
        for line in learner.outlying.warnings():
            messages.info(line)
        settle(learner, store, is_finished=not stopped)
        if store is not None and is_delayed:
            close(learner, store)
        elif learner.model is None and not stopped:
            raise DataError("there were no rows to learn; no model was written")
        if watch.total.g_mean() is not None:
            messages.info(f"progressive G-mean {watch.total.g_mean():.4f}")
        if learner.model is not None:
            counts = counts_of(learner.model.labels, learner.model.class_count)
            messages.info(f"{model}: {counts}{_chosen(learner.model)}")
        if as_json:
            facts = {"positive": learner.positive, "g_mean": watch.total.g_mean()}
            if store is not None:
                facts |= {"learned_events": new.get(PENDING, 0), "pending_events": len(store)}
                facts |= {"waiting_labels": store.waiting_labels}
            show_summary(model, learner.model, done, **facts)
    if stopped:
        messages.info("stopped; the same command continues from here")
        sys.exit(128 + stopped[0])


class _ProgressAndMetrics:
    """Looks at each chunk before it is learned: progress on a terminal, metrics to a file."""

    def __init__(self, learner: Any, metrics: str | None, every: int) -> None:
        from counterpoise.cli.messages import Progress
        from counterpoise.evaluate.metrics import Confusion
        from counterpoise.tables.scoring import MetricsFile

        self.learner, self.progress = learner, Progress()
        self.total = Confusion()
        self.file = None
        if metrics is not None:
            name, rows = os.path.basename(learner.path), learner.total_rows_read
            self.file = MetricsFile(metrics, name, every, rows, learner.window)
        self._rows = self._begun = learner.rows
        self._unlearned = learner.unlearned

    def __enter__(self) -> _ProgressAndMetrics:
        self.progress.__enter__()
        return self

    def __exit__(self, *_: Any) -> None:
        self.progress.__exit__()

    @property
    def needs_scores(self) -> bool:
        """Whether each row is scored before it is learned."""
        return self.file is not None or self.progress.shown

    def after_chunk(self, source: Any, chunk: Any, scored: Any) -> None:
        """Count what was scored, and show progress now and then."""
        if self.file is not None:
            self.file.write(self._rows + self._unlearned)
        for one in scored if self.needs_scores else ():
            if one.is_complete:
                said = one.scores.classes.best(one.f)
                self.total.add(one.y, said)
                if self.file is not None:
                    self.file.window.add(one.y, said)
        self._rows += chunk.rows
        self.progress.advance(chunk.rows)
        if self.progress.due:
            now, says = self.learner.model, ""
            if self.learner.is_fitted:
                says = f", {counts_of(now.labels, now.class_count)}"
            if self.total.g_mean() is not None:
                says += f", G-mean {self.total.g_mean():.4f}"
            self.progress.show(source.name, source.done(), says)

    def before_save(self, is_last: bool) -> None:
        """Write metrics that are due."""
        if self.file is not None:
            ever = self._rows + self._unlearned
            self.file.write(ever, is_last)
            self.learner.window = self.file.unsaid(ever)
        elif self._rows > self._begun:  # nobody has scored these rows
            self.learner.window = None


def show_summary(path: str, model: Any, inputs: dict[str, Any], **more: Any) -> None:
    """Print as JSON what a command has done to a model."""
    classes = {}
    if model is not None and model.is_fitted:
        classes = dict(
            zip(map(str, model.labels.tolist()), model.class_count.tolist(), strict=True)
        )
    facts = {"model": path, "classes": classes, "inputs": inputs, **more}
    show_json({**facts, "warnings": messages.warned})


def _learned_message(name: str, rows: int, record: Any, before: str | None) -> str:
    dropped = (
        f", of which {record.dropped:,} with missing values were dropped"
        if record and record.dropped
        else ""
    )
    if not rows and record is None:
        return f"{name} has no rows"
    if record is None:
        return f"{name}: {rows:,} rows"
    known = f" (known as {before})" if before else ""
    if not rows:
        return f"{name}: nothing new, its {record.mark.rows:,} rows were already learned{known}"
    if rows == record.mark.rows:
        return f"{name}: {rows:,} rows{dropped}"
    return f"{name}: {rows:,} new rows after {record.mark.rows - rows:,}{known}{dropped}"


def counts_of(labels: Any, counts: Any) -> str:
    """Return classes and their weights as text."""
    pairs = zip(labels.tolist(), counts.tolist(), strict=True)
    shown = [f"{label}: {count:,.10g}" for label, count in pairs]
    return ", ".join(shown[:6]) + (f" and {len(shown) - 6} more classes" if len(shown) > 6 else "")


def _chosen(model: Any) -> str:
    """Which candidate of a model that chooses is best, and what it counts for, in words."""
    from counterpoise.engine.auto import AutoModel
    from counterpoise.engine.parameters import name_of

    if not isinstance(model, AutoModel):
        return ""
    best = model.best
    name = name_of(best.params.feature_map, best.options.pooled_rows)
    share, ridge = model.averaging_weights.get(name, 1.0), best.scores(False).solution.ridge
    return f"; best is {name} with ridge {ridge:g}, {share:.0%} of the average"
