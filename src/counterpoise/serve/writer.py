"""The one thread that predicts and learns: it commits whatever has gathered in one transaction.

While a transaction is synchronized to the disk, requests gather. They are the next group, so a
group is as large as the load requires, without a window of time. Answers are released after the
commit.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from counterpoise.errors import DataError
from counterpoise.serve.monitor import Monitor
from counterpoise.tables.checked_database import StorageError
from counterpoise.tables.event_store import EventStore

PREDICT, LABEL, LEARN, ERASE = "predict", "label", "learn", "erase"
INSPECT, SHOW = "inspect", "show"  # the model, and what the page shows
MAX_GROUP_ROWS = 20_000
MAX_QUEUED_ROWS = 200_000
EXPIRE_SECONDS = 600.0  # between two times that old events are deleted
MAX_LOG_ENTRIES = 2_000  # before the model is saved


class QueueFullError(Exception):
    """More requests than the writer can take now."""


class Request(NamedTuple):
    """Rows of one request, and where its answer goes."""

    kind: str
    rows: Sequence[Any]
    future: asyncio.Future[Any]


class Writer(threading.Thread):
    """Thread that owns the store."""

    def __init__(
        self,
        store: EventStore,
        loop: asyncio.AbstractEventLoop,
        save_seconds: float = 60.0,
        expire_seconds: float | None = None,
    ) -> None:
        super().__init__(name="writer", daemon=True)
        self.store = store
        self.group_seconds, self.groups, self.grouped_rows = 0.0, 0, 0
        self.commit_seconds = 0.0
        self.problem: str | None = None  # why nothing can be written
        self.status = describe(store)  # after the last commit
        self._monitor = Monitor(store)
        self._loop, self._save_seconds, self._expire_seconds = loop, save_seconds, expire_seconds
        self._queue: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._queued = 0  # rows, counted by the loop
        self._saved = self._expired = time.monotonic()

    def submit(self, kind: str, rows: Sequence[Any]) -> asyncio.Future[Any]:
        """Return the future answer of a request; call it in the loop."""
        if self._queued + len(rows) > MAX_QUEUED_ROWS:
            raise QueueFullError
        self._queued += len(rows)
        future: asyncio.Future[Any] = self._loop.create_future()
        self._queue.put(Request(kind, rows, future))
        return future

    def stop(self) -> None:
        """Answer all requests that have come, save the model and end."""
        self._queue.put(None)
        self.join()

    def run(self) -> None:
        """Commit groups until the end."""
        is_over = False
        while not is_over:
            try:
                first = self._queue.get(timeout=1.0)
            except queue.Empty:
                self._maintain()
                continue
            group, rows = [], 0
            while first is not None:
                group.append(first)
                rows += len(first.rows)
                if rows >= MAX_GROUP_ROWS or self._queue.empty():
                    break
                first = self._queue.get()
            is_over = first is None
            if group:
                self._answer(group)
            self._maintain()
        self.store.close()

    def _answer(self, group: list[Request]) -> None:
        """Commit a group, and release its answers."""
        begin = time.perf_counter()
        try:
            answers = self._commit(group)
            self.problem = None
        except Exception as error:
            answers = [error] * len(group)
        rows = sum(len(one.rows) for one in group)
        self.groups, self.grouped_rows = self.groups + 1, self.grouped_rows + rows
        self.group_seconds += time.perf_counter() - begin
        try:
            self.status = describe(self.store)
        except Exception as error:
            self.problem = str(error)
        for one, answer in zip(group, answers, strict=True):
            if one.kind == PREDICT and isinstance(answer, list):
                self._monitor.add_answers(answer)
            if isinstance(answer, StorageError):
                self.problem = str(answer)
            elif isinstance(answer, Exception) and not isinstance(answer, DataError):
                traceback.print_exception(answer)
        self._loop.call_soon_threadsafe(self._release, group, answers, rows)

    def _release(self, group: list[Request], answers: list[Any], rows: int) -> None:
        """Give answers to those who still wait, in the loop."""
        self._queued -= rows
        for one, answer in zip(group, answers, strict=True):
            if one.future.done():
                continue
            if isinstance(answer, Exception):
                one.future.set_exception(answer)
            else:
                one.future.set_result(answer)

    def _commit(self, group: list[Request]) -> list[Any]:
        """Return the answers of a group, or the errors, after all changes were committed."""
        answers: dict[int, Any] = {}
        try:
            with self.store.group():
                self._run_kind(group, answers, PREDICT, self.store.predict_texts)
                self._run_kind(group, answers, LABEL, self.store.label)
                self._run_kind(group, answers, LEARN, self.store.learn)
        except DataError:
            if len(group) == 1:
                raise
            return [self._commit_alone(one) for one in group]
        self._run_apart(group, answers, ERASE, self.store.erase)
        self._run_apart(group, answers, INSPECT, lambda rows: [inspect(self.store)])
        self._run_apart(group, answers, SHOW, lambda rows: [self._monitor.show()])
        return [answers[k] for k in range(len(group))]

    def _commit_alone(self, one: Request) -> Any:
        try:
            return self._commit([one])[0]
        except Exception as error:
            return error

    def _run_apart(
        self,
        group: list[Request],
        answers: dict[int, Any],
        kind: str,
        function: Callable[[Sequence[Any]], Sequence[Any]],
    ) -> None:
        """Add the answers of requests outside the transaction; their errors are theirs alone."""
        try:
            self._run_kind(group, answers, kind, function)
        except Exception as error:
            left = [k for k, one in enumerate(group) if one.kind == kind and k not in answers]
            answers |= dict.fromkeys(left, error)

    def _run_kind(
        self,
        group: list[Request],
        answers: dict[int, Any],
        kind: str,
        function: Callable[[Sequence[Any]], Sequence[Any]],
    ) -> None:
        """Add the answers of all requests of a kind: in one call, or one by one after an error."""
        mine = [(k, one.rows) for k, one in enumerate(group) if one.kind == kind]
        if not mine:
            return
        if len(mine) > 1 and kind not in (INSPECT, SHOW):
            try:
                found = iter(function([row for _, rows in mine for row in rows]))
            except StorageError:
                raise
            except DataError:
                pass
            else:
                answers |= {k: [next(found) for _ in rows] for k, rows in mine}
                return
        for k, rows in mine:
            try:
                answers[k] = function(rows)
            except StorageError:
                raise
            except DataError as error:
                answers[k] = error

    def _maintain(self) -> None:
        """Save the model and delete old events, when it is time."""
        now, store = time.monotonic(), self.store
        try:
            changes = store.unsaved_changes
            if changes and (now - self._saved > self._save_seconds or changes > MAX_LOG_ENTRIES):
                store.save()
                self._saved = now
            elif not changes:
                self._saved = now
            if self._expire_seconds is not None and now - self._expired > EXPIRE_SECONDS:
                store.expire(time.time() - self._expire_seconds)
                self._expired = now
        except Exception as error:
            self.problem = str(error)


def describe(store: EventStore) -> dict[str, Any]:
    """Return the numbers that metrics and the page show."""
    return {
        "version": store.version,
        "pending_events": len(store),
        "waiting_labels": store.waiting_labels,
        "learned_events": store.learned_ids,
        "unsaved_changes": store.unsaved_changes,
        "classes": {str(name): n for name, n in store.model.class_counts.items()},
        "quality": store.quality,
    }


def inspect(store: EventStore) -> dict[str, Any]:
    """Return a description of the model."""
    model, status = store.model, describe(store)
    quality = [
        {"label": true, "prediction": predicted, "events": n}
        for (true, predicted), n in sorted(status["quality"].items(), key=str)
    ]
    columns = model.encoding.columns
    return {
        **status,
        "id": store.id,
        "label": columns.label,
        "positive": str(model.positive),
        "features": len(model.encoding.features),
        "columns": {c: k for c, k in sorted(model.encoding.kinds.items()) if columns.feature(c)},
        "quality": quality,
    }
