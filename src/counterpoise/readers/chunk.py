"""The result of every reader: a chunk of rows as columns, and how far the input was read."""

from __future__ import annotations

import atexit
import errno
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import compress
from typing import Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from counterpoise.arrays import Flags
from counterpoise.errors import DataError, Suggestion, Words

PREFIX_LENGTHS = (1, 4, 16, 64)  # rows by whose hashes an input is identified
CHUNK_BYTES = 1 << 24  # of a chunk: it ends with the row that reaches them, if not before
LONGEST = 1 << 26  # bytes of one record, or of one text
MAX_COLUMNS = 30_000  # that are read of a table
MAX_END_SECONDS = 10.0  # that a process waits for a thread at its end
MAX_RANGES = 64  # of a table that is read by a cursor


class CursorRange(NamedTuple):
    """Rows of a table that were learned: up to a value of its cursor, after the range before."""

    last: int  # highest value; of a time in microseconds, of a date in days
    rows: int
    hash: str  # sum of the hashes of the rows


class CursorPosition(NamedTuple):
    """Rows of a table that were learned in the order of a cursor, a column that only grows."""

    column: str
    ranges: tuple[CursorRange, ...]
    is_as_learned: bool = True  # whether no change of these rows was accepted


@dataclass(frozen=True)
class ReadPosition:
    """Position in an input after the rows that were read.

    Attributes
    ----------
    rows : int
        Rows so far, header not counted.
    size : int
        Bytes so far, after decompression, of inputs that are text; else 0.
    hash : str
        XXH3 (128 bits) of these bytes, or of the values of the columns read so far.
    cut : bool
        Whether the last row had no line end; then the next byte must be one.
    cursor : CursorPosition, optional
        Of a table that is read in the order of a column.

    Examples
    --------
    >>> from counterpoise.readers import ReadPosition
    >>> ReadPosition()  # the beginning of an input
    ReadPosition(rows=0, size=0, hash='', cut=False)
    """

    rows: int = 0
    size: int = 0
    hash: str = ""
    cut: bool = False
    cursor: CursorPosition | None = field(default=None, repr=False)

    def plain(self) -> dict[str, Any]:
        """Return the position as JSON can represent it."""
        plain = {name: getattr(self, name) for name in ("rows", "size", "hash", "cut")}
        return plain if self.cursor is None else {**plain, "cursor": self.cursor._asdict()}


@dataclass(frozen=True, eq=False)
class Chunk:
    r"""Consecutive rows of one input.

    Attributes
    ----------
    source : str
        Name of the input in messages.
    first, rows : int
        Number of the first row within the input, from 1, and number of rows.
    columns : dict of str to pyarrow.Array
        The requested columns.
    mark : ReadPosition
        How far the input was read at the end of these rows.
    cells : bool
        Whether text is parsed as numbers where possible, as in CSV.
    table : bool
        Whether each row must have every column; otherwise an absent column is 0.
    offered : tuple of str
        All columns of a table.
    absent : dict of str to ndarray of bool
        Rows without the column, if other rows have it.
    entries : CSR matrix of shape (rows, m), optional
        Features with numbers instead of names: column j is feature j + 1.
    names : tuple of str
        If rows need not have every column: all columns that occur in this chunk.
    starts : tuple of str
        In the first chunk of an input: hashes of its first 1, 4, 16 and 64 rows, if it has them.
    last : bool
        Whether the input ended before the chunk was full, or within its last row.
    categorical : frozenset of str
        Columns of numbers with a type of categories, as in ``pandas.Categorical``.
    kinds : dict of str to str
        Kinds of columns that were decided when these rows were stored.
    is_checked : bool
        Whether the columns were accepted when these rows were stored.
    store_mark : ReadPosition, optional
        Mark of the store of pending events that goes with these rows of another input.
    positions : tuple of int
        Positions of the rows after ``first``, if they do not follow one another.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from counterpoise.readers import ReadPosition, source
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "payments.csv"
    >>> _ = path.write_text("amount,fraud\n12.5,no\n980,yes\n")
    >>> (chunk,) = source(str(path)).chunks(1000, ReadPosition(), {}, lambda name: True)
    >>> chunk.rows, chunk.offered, chunk.mark.size
    (2, ('amount', 'fraud'), 29)
    """

    source: str
    first: int
    rows: int
    columns: dict[str, pa.Array]
    mark: ReadPosition
    cells: bool = False
    table: bool = True
    offered: tuple[str, ...] = ()
    absent: dict[str, Flags] = field(default_factory=dict)
    entries: Any = None
    names: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()
    last: bool = False
    categorical: frozenset[str] = frozenset()
    kinds: dict[str, str] = field(default_factory=dict)
    is_checked: bool = False
    store_mark: ReadPosition | None = None
    positions: tuple[int, ...] = ()

    def only(self, rows: Flags) -> Chunk:
        """Return some rows (rows,), with the same mark."""
        if rows.all():
            return self
        mask = pa.array(rows)
        return replace(
            self,
            rows=int(rows.sum()),
            columns={name: column.filter(mask) for name, column in self.columns.items()},
            absent={name: flags[rows] for name, flags in self.absent.items()},
            entries=None if self.entries is None else self.entries[rows],
            positions=tuple(compress(self.positions, rows)),
        )

    def row_name(self, row: int) -> str:
        """Return the input and the number of the row at a position of this chunk."""
        at = self.positions[row] if row < len(self.positions) else row
        return f"{self.source}, row {self.first + at}"

    @property
    def ordered_columns(self) -> list[str]:
        """Columns in an order that is independent of the reader."""
        return [name for name in self.offered or sorted(self.columns) if name in self.columns]

    def error(self, row: int, problem: Words, *remedies: Suggestion) -> DataError:
        """Return the error about the row at an index of this chunk."""
        parts = (problem,) if isinstance(problem, str) else problem
        error = DataError((f"{self.row_name(row)}: ", *parts), *remedies)
        error.row = row
        return error

    def refuse(self, bad: Flags, problem: Callable[[int], str], *remedies: Suggestion) -> None:
        """Raise the problem of the first of the rows (rows,) that are bad, if there are any."""
        if bad.any():
            row = int(bad.argmax())
            raise self.error(row, problem(row), *remedies)


@lru_cache(maxsize=1024)
def drop_remedy(name: str) -> Suggestion:
    """Return the advice to leave a column out."""
    return Suggestion("leave the column out", "columns", {name: "drop"})


def require_different(names: Sequence[str], source: str) -> None:
    """Raise if two columns have the same name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"{source}: two columns are called {name!r}; rename one of them")
        seen.add(name)


def require_few(count: int, source: str) -> None:
    """Raise if there are more columns to read than MAX_COLUMNS."""
    if count > MAX_COLUMNS:
        raise DataError(
            f"{source} has {count:,} columns to read, more than {MAX_COLUMNS:,}",
            Suggestion("name those that matter", "only"),
            Suggestion("leave the others out", "columns", {"COLUMN": "drop"}),
        )


class Source(Protocol):
    """One input that can be read from any mark."""

    path: str  # a file, or ``-`` for standard input
    name: str  # its name in messages
    left: bool = False  # whether a last line without a line end was left for later
    reads_ahead: bool = True  # whether another thread may read it while rows are learned

    def chunks(
        self,
        rows: int,
        after: ReadPosition,
        kinds: Mapping[str, str],
        wanted: Callable[[str], bool],
        until: int | None = None,
    ) -> Iterator[Chunk]:
        """Check that the rows before a mark are unchanged, and read the rows after it."""
        raise NotImplementedError

    def verify(self, after: ReadPosition, wanted: Callable[[str], bool]) -> None:
        """Raise if the rows before a mark have changed; later rows do not matter."""
        next(self.chunks(1, after, {}, wanted), None)

    def starts(self, wanted: Callable[[str], bool]) -> tuple[str, ...]:
        """Return hashes of the first rows that can be read, as in the first chunk."""
        first = next(self.chunks(PREFIX_LENGTHS[-1], ReadPosition(), {}, wanted), None)
        return () if first is None else first.starts

    def done(self) -> tuple[int, int]:
        """Return the bytes of the file on disk read so far, and its size, or 0 if unknown."""
        raise NotImplementedError


def input_changed_error(name: str, mark: ReadPosition) -> DataError:
    """Return the error about an input whose first rows, up to a mark, have changed."""
    restore = Suggestion("restore the file")
    rename = Suggestion("give the new data under another name")
    if name == "standard input" or name.startswith("standard input "):
        restore = Suggestion("replay it from its start")
        rename = Suggestion("give other data a name of its own", "stdin_name")
    text = f"{name} has changed: the {mark.rows:,} rows learned from it before are not as they were"
    return DataError(text, restore, rename)


Item = TypeVar("Item")
Result = TypeVar("Result")


def whole_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one contiguous array."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


_open_threads: dict[threading.Thread, threading.Event] = {}  # that end before the process does


@atexit.register
def _end_threads() -> None:
    for is_over in _open_threads.values():
        is_over.set()
    for thread in list(_open_threads):
        thread.join(MAX_END_SECONDS)


def prefetch(
    items: Iterator[Item],
    depth: int = 2,
    stop: Callable[[], bool] = lambda: False,
    must_end: bool = False,
) -> Iterator[Item]:
    """Run an iterator in a separate thread.

    With ``must_end`` a process that ends waits for the thread, which runs foreign code.
    """
    results: queue.Queue[tuple[str, Any]] = queue.Queue(depth)
    is_over = threading.Event()

    def put(kind: str, value: Any) -> bool:
        while not is_over.is_set():
            with suppress(queue.Full):
                results.put((kind, value), timeout=0.1)
                return True
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
        finally:
            if must_end:
                getattr(items, "close", lambda: None)()
                _open_threads.pop(threading.current_thread(), None)

    # A daemon thread: it may still be waiting for standard input when the program ends.
    thread = threading.Thread(target=run, daemon=True)
    try:
        if must_end:
            _open_threads[thread] = is_over
        thread.start()
    except RuntimeError:
        _open_threads.pop(thread, None)
        raise OSError(errno.EAGAIN, "cannot start a thread that reads the input") from None
    try:
        while not stop():
            is_alive = thread.is_alive()
            try:
                kind, value = results.get(timeout=0.1)
            except queue.Empty:
                if is_alive:
                    continue
                raise MemoryError("the thread that reads the input ended early") from None
            if kind == "error" and not stop():
                raise value
            if kind != "item" or stop():
                return
            yield value
    finally:
        is_over.set()
        if must_end:
            thread.join(MAX_END_SECONDS)


def map_in_threads(
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
