"""counterpoise learn: from files to a model file."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from counterpoise.cli import messages
from counterpoise.cli import options as opt
from counterpoise.cli.messages import (
    Json,
    Progress,
    collect_stop_signals,
    pluralize,
    show_json,
)
from counterpoise.errors import DataError

UNFINISHED_LINE = "{}: the last line has no line end and is left for the next run"


@dataclass
class DelayedLabelOptions(opt.LabelOptions):
    """Options of labels that come later than their events."""

    expire: str | None = opt.option(
        "Delete events without labels, and labels without events, after this time.", "90d"
    )

    def is_used(self, files: list[str] | None, model: str) -> bool:
        """Return whether events and labels are joined; raise if options contradict each other."""
        if not self.labels and self.id is None:
            if not files:
                raise DataError("FILES: name the files to learn")
            if self.expire is not None:
                raise DataError("--expire requires --id and --labels")
            return False
        from counterpoise.tables.event_database import has_store

        if self.id is None and not has_store(model):
            raise DataError(opt.MISSING_ID)
        if "-" in (files or []) and "-" in (self.labels or []):
            raise DataError("--labels: standard input cannot be events and labels; name a file")
        return True

    def expire_seconds(self) -> float | None:
        """Return the value of --expire in seconds."""
        if self.expire is None:
            return None
        from counterpoise.moments.decay import parse_time_span

        found = parse_time_span(self.expire)
        if found is None:
            raise DataError(f"--expire must be a time such as 12h, 90d or 2w; got {self.expire!r}")
        return found


@contextmanager
def opened_store(model: str, id: str | None = None) -> Iterator[Any]:  # noqa: A002
    """Open the store of a model; one in which nothing was stored is deleted at the end."""
    from counterpoise.tables.event_database import EventDatabase, has_store, pending_path

    if id is None and not has_store(model):
        yield None
        return
    store = EventDatabase(pending_path(model), id)
    try:
        yield store
    finally:
        store.close()


def warn_missing_store(learner: Any, store: Any) -> None:
    """Warn if a model has learned events from a store that is not next to it."""
    from counterpoise.tables.records import PENDING

    if PENDING in learner.records and (store is None or store.is_empty):
        messages.info(
            f"warning: {missing_store(learner.path)}, or continue without its events and ids"
        )


def missing_store(model: str) -> str:
    """Return the message about a store that is not next to its model."""
    from counterpoise.tables.event_database import pending_path

    return f"{pending_path(model)} is missing; copy it next to the model"


def settle(learner: Any, store: Any, is_finished: bool = False) -> None:
    """Let a store follow its model, as it is saved."""
    from counterpoise.tables.event_store import recover

    if store is not None:
        store.label = learner.encoding.columns.label
        if is_finished:
            store.settle(learner.store_mark, is_finished)
        else:
            recover(store, learner)
        _compact(store)


def _compact(store: Any) -> None:
    """Rewrite a store without deleted rows; the next command does it if there is no space now."""
    try:
        store.compact()
    except ValueError as error:
        messages.info(f"warning: deleted rows may still be readable: {error}")


def _add_pending(
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
            _report_new(source, new, kind)
    return [(PendingRows(store.join, store.path), PENDING)]


def _report_new(source: Any, new: int, what: str) -> None:
    """Print how many rows were new in an input."""
    text = pluralize(new, f"new {what}") if new else f"no new {what}s"
    messages.info(f"{source.name}: {text}")
    if source.left:
        messages.info(UNFINISHED_LINE.format(source.name))


def _expire_and_report(learner: Any, store: Any) -> None:
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


def learn(
    model: Annotated[
        str,
        typer.Option("--model", "-m", help="Model file to create or to continue.", metavar="FILE"),
    ],
    files: opt.SomeFiles = None,
    as_json: Json = False,
    *,
    columns: opt.ModelColumnOptions,
    options: opt.ModelOptions,
    delayed: DelayedLabelOptions,
    input: opt.LearnInputOptions,  # noqa: A002
    saving: opt.SavingOptions,
    monitoring: opt.MonitoringOptions,
) -> None:
    """Learn the rows of files that were not learned yet, each one exactly once.

    The same command after a crash, or when files have grown, continues where the model file ends.
    Options are stored in the file and need not be repeated.

    Example: counterpoise learn 2024-*.csv.gz --label fraud --drop id --model fraud.safetensors

    Delayed labels: counterpoise learn today.csv --labels labels.csv --id payment --model
    fraud.safetensors

    Quadratic boundaries: counterpoise learn shuttle.csv --label state --model
    shuttle.safetensors --pooled-rows 30
    """
    reading, settings = input.reading(), columns.settings()
    columns.require_dates()
    parameters = options.parameters()
    is_delayed, expire_after = delayed.is_used(files, model), delayed.expire_seconds()

    from counterpoise.atomic_write import lock_file
    from counterpoise.readers import formats
    from counterpoise.readers.chunk import Source
    from counterpoise.tables.delayed_labels import drop_id, merge_settings
    from counterpoise.tables.guards import Guards
    from counterpoise.tables.model import TableModel, learn_inputs
    from counterpoise.tables.records import PENDING

    paths = formats.expand_paths(files or [])
    settings = formats.with_label(settings, paths, input.format)
    with (
        collect_stop_signals() as stopped,
        lock_file(model),
        opened_store(model, delayed.id) as store,
    ):
        more: dict[str, Any] = {"chunk_rows": saving.chunk_rows, "positive": monitoring.positive}
        more = {name: value for name, value in more.items() if value is not None}
        given = {"columns": settings, "options": parameters, "more": more}
        if store is not None:
            given["columns"] = drop_id(settings, store.id, model)
            if not os.path.exists(model):
                given = merge_settings(store, given["columns"], parameters, more)
        more = given["more"]
        guards = Guards(
            model,
            more.get("positive"),
            monitoring.allow_new_classes,
            monitoring.allow_new_columns,
            monitoring.allow_future,
        )
        learner = TableModel.open(
            model, given["columns"], given["options"], more.get("chunk_rows"), guards
        )
        warn_missing_store(learner, store)
        settle(learner, store)

        def open_inputs(paths: list[str]) -> list[tuple[Source, str]]:
            sources = [formats.source(path, **reading) for path in paths]
            return [(one, learner.key(one.path, input.stdin_name)) for one in sources]

        inputs = open_inputs(paths)
        if store is not None and is_delayed:
            store.set_options(None if learner.model else given, expire_after or store.expire_after)
            labels = open_inputs(formats.expand_paths(delayed.labels or []))
            inputs = _add_pending(learner, store, inputs, labels, lambda: bool(stopped))
        learner.store = store
        with ProgressAndMetrics(learner, monitoring.metrics, monitoring.metrics_every) as watch:
            new = learn_inputs(
                learner,
                inputs,
                saving.checkpoint_every,
                lambda: bool(stopped),
                watch.after_chunk,
                input.allow_overlap,
                watch.before_save,
                watch.needs_scores,
            )
        done: dict[str, Any] = {}
        for source, key in inputs:
            if key == PENDING and (delayed.labels or new.get(key)):
                messages.info(f"{pluralize(new.get(key, 0), 'event')} learned")
            elif key in new and key != PENDING:
                done[source.name] = _report_input(learner, source, key, new[key])
        for note in learner.notes.values():
            messages.info(note)
        for warning in learner.outlying.warnings():
            messages.info(warning)
        settle(learner, store, is_finished=not stopped)
        if store is not None and is_delayed:
            _expire_and_report(learner, store)
        elif learner.model is None and not stopped:
            raise DataError("there were no rows to learn; no model was written")
        if watch.total.g_mean() is not None:
            messages.info(f"progressive G-mean {watch.total.g_mean():.4f}")
        if learner.model is not None:
            counts = counts_of(learner.model.labels, learner.model.class_count)
            messages.info(f"{model}: {counts}{_best_candidate(learner.model)}")
        if as_json:
            facts = {"positive": learner.positive, "g_mean": watch.total.g_mean()}
            if store is not None:
                facts |= {"learned_events": new.get(PENDING, 0), "pending_events": len(store)}
                facts |= {"waiting_labels": store.waiting_labels}
            show_summary(model, learner.model, done, **facts)
    if stopped:
        messages.info("stopped; the same command continues from here")
        sys.exit(128 + stopped[0])


class ProgressAndMetrics(Progress):
    """Progress on a terminal and metrics in a file, of rows scored before they are learned."""

    def __init__(self, learner: Any, metrics: str | None, every: int) -> None:
        from counterpoise.evaluate.metrics import Confusion
        from counterpoise.tables.scoring import MetricsFile

        super().__init__()
        self.learner, self.total, self.file = learner, Confusion(), None
        if metrics is not None:
            name, rows = os.path.basename(learner.path), learner.total_rows_read
            self.file = MetricsFile(metrics, name, every, rows, learner.window)
        self._learned = self._begun = learner.rows
        self._unlearned = learner.unlearned

    @property
    def needs_scores(self) -> bool:
        """True if each row is scored before it is learned."""
        return self.file is not None or self.shown

    def after_chunk(self, source: Any, chunk: Any, scored: Any) -> None:
        """Count what was scored, and show progress now and then."""
        if self.file is not None:
            self.file.write(self._learned + self._unlearned)
        for one in scored if self.needs_scores else ():
            if one.is_complete:
                predicted = one.scores.classes.best(one.f)
                self.total.add(one.y, predicted)
                if self.file is not None:
                    self.file.window.add(one.y, predicted)
        self._learned += chunk.rows
        self.advance(chunk.rows)
        if self.is_due:
            now, text = self.learner.model, ""
            if self.learner.is_fitted:
                text = f", {counts_of(now.labels, now.class_count)}"
            if self.total.g_mean() is not None:
                text += f", G-mean {self.total.g_mean():.4f}"
            self.show(source.name, source.done(), text)

    def before_save(self, is_last: bool) -> None:
        """Write metrics that are due."""
        if self.file is not None:
            rows = self._learned + self._unlearned
            self.file.write(rows, is_last)
            self.learner.window = self.file.sync(rows)
        elif self._learned > self._begun:  # these rows were not scored
            self.learner.window = None


def show_summary(path: str, model: Any, inputs: dict[str, Any], **more: Any) -> None:
    """Print as JSON what a command has done to a model."""
    classes = {}
    if model is not None and model.is_fitted:
        counts = model.class_count.tolist()
        classes = dict(zip(map(str, model.labels.tolist()), counts, strict=True))
    facts = {"model": path, "classes": classes, "inputs": inputs, **more}
    show_json({**facts, "warnings": messages.warned})


def _report_input(learner: Any, source: Any, key: str, rows: int) -> dict[str, int]:
    """Print how many rows of an input were learned, and return the numbers."""
    name, record, before = source.name, learner.records.get(key), learner.formerly.get(key)
    total, dropped = (0, 0) if record is None else (record.mark.rows, record.dropped)
    left = f", of which {dropped:,} with missing values were dropped" if dropped else ""
    known = f" (known as {before})" if before else ""
    if record is None:
        text = f"{name}: {pluralize(rows, 'row')}" if rows else f"{name} has no rows"
    elif not rows:
        were = "row was" if total == 1 else "rows were"
        text = f"{name}: nothing new, its {total:,} {were} already learned{known}"
    elif rows == total:
        text = f"{name}: {pluralize(rows, 'row')}{left}"
    else:
        text = f"{name}: {pluralize(rows, 'new row')} after {total - rows:,}{known}{left}"
    messages.info(text)
    if source.left:
        line = UNFINISHED_LINE.format(name)
        messages.info(f"{line}; use --complete if the file is complete")
    return {"new_rows": rows, "rows": total, "dropped_rows": dropped}


def counts_of(labels: Any, counts: Any) -> str:
    """Return classes and their weights as text."""
    pairs = zip(labels.tolist(), counts.tolist(), strict=True)
    shown = [f"{label}: {count:,.10g}" for label, count in pairs]
    return ", ".join(shown[:6]) + (f" and {len(shown) - 6} more classes" if len(shown) > 6 else "")


def _best_candidate(model: Any) -> str:
    """Return the best candidate of an averaging model and its averaging weight as text."""
    from counterpoise.engine.auto import AutoModel
    from counterpoise.engine.parameters import name_of

    if not isinstance(model, AutoModel):
        return ""
    best = model.best
    name = name_of(best.params.feature_map, best.options.pooled_rows)
    share, ridge = model.averaging_weights.get(name, 1.0), best.scores(False).solution.ridge
    return f"; best is {name} with ridge {ridge:g}, {share:.0%} of the average"
