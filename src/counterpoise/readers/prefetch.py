"""Reading ahead: a thread reads, a few more parse, and results come out in order."""

from __future__ import annotations

import errno
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def prefetch(
    items: Iterator[Item], depth: int = 2, stop: Callable[[], bool] = lambda: False
) -> Iterator[Item]:
    """Run an iterator in a separate thread."""
    waiting: queue.Queue[tuple[str, Any]] = queue.Queue(depth)
    over = threading.Event()

    def put(kind: str, value: Any) -> bool:
        while not over.is_set():
            try:
                waiting.put((kind, value), timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def run() -> None:
        try:
            for item in items:
                if not put("item", item):
                    return
        except BaseException as error:
            put("error", error)
        else:
            put("end", None)

    # A daemon thread: it may still be waiting for standard input when the program ends.
    thread = threading.Thread(target=run, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        raise OSError(errno.EAGAIN, "cannot start a thread that reads the input") from None
    try:
        while not stop():
            is_alive = thread.is_alive()
            try:
                kind, value = waiting.get(timeout=0.1)
            except queue.Empty:
                if is_alive:
                    continue
                raise MemoryError("the thread that reads the input ended early") from None
            if stop():
                return
            if kind == "error":
                raise value
            if kind == "end":
                return
            yield value
    finally:
        over.set()


def mapped(
    function: Callable[[Item], Result], items: Iterator[Item], workers: int = 2
) -> Iterator[Result]:
    """Apply a function to items in a few threads and yield the results in order.

    If taking an item fails, the results of the items before it come first.
    """
    pending: deque[Future[Result]] = deque()
    failed: Exception | None = None
    with ThreadPoolExecutor(workers) as pool:
        while True:
            try:
                pending.append(pool.submit(function, next(items)))
            except StopIteration:
                break
            except Exception as error:
                failed = error
                break
            if len(pending) > workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    if failed is not None:
        raise failed
