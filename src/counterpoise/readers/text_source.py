"""Text inputs: bytes are cut into blocks of whole records, hashed, and parsed.

The cuts depend on the bytes alone, not on how they arrived. A mark is a number of bytes and their
hash, so that rows before it are checked without parsing them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from xxhash import xxh3_128

from counterpoise.errors import DataError
from counterpoise.readers._records import Lines, Records
from counterpoise.readers.byte_source import Bytes
from counterpoise.readers.chunk import (
    CHUNK_BYTES,
    LONGEST,
    PREFIX_LENGTHS,
    Chunk,
    ReadPosition,
    Source,
    input_changed_error,
    map_in_threads,
)

PIECE = 1 << 20  # bytes read at a time
BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")


class RecordBlock(NamedTuple):
    """Whole records, as bytes."""

    data: bytes  # the records
    first: int  # number of the first one, from 1
    rows: int  # number of records
    mark: ReadPosition  # end of the records
    starts: tuple[str, ...] = ()  # hashes of the first rows, if this is the first block
    last: bool = False  # whether the input has ended before the block was full


class TextFormat:
    """A text format: where records end, and how whole records become columns."""

    header = False  # whether the first record is a header

    def open(self, source: Bytes) -> Any:
        """Return a reader of the bytes of the records."""
        return source

    def records(self) -> Records:
        """Return a scanner that finds the ends of records, see ``_records``."""
        return Lines()

    def read_header(self, name: str, header: bytes) -> None:
        """Read the header."""

    def check(self, records: Records, name: str, row: int) -> None:
        """Raise if the scanner has found something that must not be parsed."""

    def parse(
        self, block: RecordBlock, name: str, kinds: Mapping[str, str], wanted: Callable[[str], bool]
    ) -> dict[str, Any]:
        """Return the fields of a chunk that depend on the format, with its columns."""
        raise NotImplementedError


class TextSource(Source):
    """An input of records in one format."""

    def __init__(
        self,
        path: str,
        name: str,
        dialect: TextFormat,
        live: bool = False,
        complete: bool = True,
        guess: Callable[[bytes], TextFormat] | None = None,
    ) -> None:
        self.path, self.name, self.dialect, self.live = path, name, dialect, live
        self.complete, self.guess, self.left = complete, guess, False
        self._bytes: Bytes | None = None

    def done(self) -> tuple[int, int]:
        """Return the bytes read of the file, and its size."""
        return (self._bytes.bytes_read, self._bytes.size) if self._bytes else (0, 0)

    def verify(self, after: ReadPosition, wanted: Callable[[str], bool]) -> None:
        """Raise if the rows before a mark have changed."""
        for _ in self._blocks(1, after, after.rows):
            pass

    def starts(self, wanted: Callable[[str], bool]) -> tuple[str, ...]:
        """Return hashes of the first rows, up to the first one that cannot be read."""
        data, rows = b"", 0
        with suppress(DataError):
            for block in self._blocks(1, ReadPosition(), PREFIX_LENGTHS[-1]):
                data, rows = data + block.data, block.mark.rows
        return self._starts(data, rows)

    def chunks(
        self,
        rows: int,
        after: ReadPosition,
        kinds: Mapping[str, str],
        wanted: Callable[[str], bool],
        until: int | None = None,
    ) -> Iterator[Chunk]:
        """Read the rows after a mark."""

        def parse(block: RecordBlock) -> Chunk:
            fields = self.dialect.parse(block, self.name, kinds, wanted)
            position = block._asdict()
            del position["data"]
            return Chunk(self.name, **position, **fields)

        blocks = self._blocks(rows, after, until)
        yield from map(parse, blocks) if self.live else map_in_threads(parse, blocks)

    def _blocks(self, rows: int, after: ReadPosition, until: int | None) -> Iterator[RecordBlock]:
        self._bytes = source = Bytes(self.path, self.name)
        self.left = False
        try:
            if self.guess is not None:
                self.dialect = self.guess(source.peek())
            complete = self.complete or not source.may_grow
            cutter = _RecordCutter(self.dialect.open(source), self.dialect, self.live, complete)
            if self.dialect.header:
                header, found = cutter.cut(1)
                if found:
                    self.dialect.read_header(self.name, header)
            if after.rows:
                cutter.skip(after)
            row = after.rows
            while until is None or row < until:
                data, found = cutter.cut(rows if until is None else min(rows, until - row), row)
                self.left = cutter.left
                if not found:
                    return
                row += found
                mark = ReadPosition(row, cutter.size, cutter.hash.hexdigest(), cutter.ended_open)
                starts = self._starts(data, found) if row == found else ()
                yield RecordBlock(data, row - found + 1, found, mark, starts, cutter.ended)
        finally:
            source.close()

    def _starts(self, data: bytes, rows: int) -> tuple[str, ...]:
        """Return hashes of the first rows, without the header."""
        ends = [self.dialect.records().take(data, 0, n)[0] for n in PREFIX_LENGTHS if n <= rows]
        return tuple(xxh3_128(data[:end].rstrip()).hexdigest() for end in ends)


class _RecordCutter:
    """A stream of bytes that is cut into blocks of whole records, counted and hashed."""

    def __init__(self, source: Bytes, dialect: TextFormat, live: bool, complete: bool) -> None:
        self.source, self.dialect, self.live = source, dialect, live
        self.complete = complete
        self.records = dialect.records()
        self.hash, self.size = xxh3_128(), 0
        self.ended_open = self.ended = self.left = False
        self._piece, self._at, self._first = b"", 0, True

    def cut(self, wanted: int, row: int = 0) -> tuple[bytes, int]:
        """Return at most ``wanted`` records, and their number; ``row`` records came before.

        They are fewer if they reach CHUNK_BYTES, or as many fields as the scanner allows. Where
        they end depends on the bytes from their first one on, not on how these arrived.
        """
        parts, found, since, size = [], 0, 0, 0
        self.records.begin()
        while found < wanted and not self.left:
            enough = size >= CHUNK_BYTES
            if found and (self.records.full or (enough and not self.records.is_unfinished)):
                break
            if self._at == len(self._piece) and not self._more():
                self.ended = True
                break
            start = self._at
            # Up to the byte that is enough, then to the end of its record.
            view, most = memoryview(self._piece), 1
            if not enough:
                view, most = view[: start + CHUNK_BYTES - size], wanted - found
            self._at, ended = self.records.take(view, start, most)
            parts.append(view[start : self._at])
            found += ended
            size += self._at - start
            self.dialect.check(self.records, self.source.name, row + found)
            since = 0 if ended else since + self._at - start
            if since > LONGEST:
                raise DataError(
                    f"{self.source.name}, row {row + found + 1}: longer than "
                    f"{LONGEST >> 20} MB; is a quote or a line end missing?"
                )
            if self.live and found and self._at == len(self._piece):
                break
        data = b"".join(parts)
        if self.live and found and self.records.is_unfinished:  # the rest of a record is to come
            whole = self.dialect.records().take(data, 0, found)[0]
            data, self._piece, self._at = data[:whole], data[whole:], 0
            self.records = self.dialect.records()
        if found < wanted and self.records.is_unfinished and not (self.live and found):
            whole = self.dialect.records().take(data, 0, found)[0] if found else 0
            # A quoted field with a line end that is not closed is not an unfinished line.
            quoted = self.records.quote_open
            self.left = not self.complete and not (quoted and b"\n" in data[whole:])
            if self.left:
                data = data[:whole]
            else:
                self.ended_open = True
                found += 1
                if quoted:
                    raise DataError(
                        f"{self.source.name}, row {row + found}: a quote is opened and never closed"
                    )
            self.records = self.dialect.records()
        self.hash.update(data)
        self.size += len(data)
        return data, found

    def skip(self, after: ReadPosition) -> None:
        """Skip the bytes before a mark; raise if they have changed."""
        left = after.size - self.size
        while left > 0 and (self._at < len(self._piece) or self._more()):
            part = memoryview(self._piece)[self._at : self._at + left]
            self._at += len(part)
            self.hash.update(part)
            left -= len(part)
        self.size = after.size
        if left or self.hash.hexdigest() != after.hash:
            raise input_changed_error(self.source.name, after)
        self.records = self.dialect.records()
        has_more = self._at < len(self._piece) or self._more()
        if after.cut and has_more and self._piece[self._at] not in b"\r\n":
            raise input_changed_error(self.source.name, after)

    def _more(self) -> bool:
        """Read the next bytes; return whether there were any."""
        self._piece, self._at = self.source.read(PIECE), 0
        if self._first and self._piece:
            self._first = False
            if self._piece.startswith(BYTE_ORDER_MARKS):
                raise DataError(
                    f"{self.source.name} is UTF-16 text; convert it to UTF-8, for example with "
                    "iconv -f UTF-16 -t UTF-8"
                )
            if self._piece.startswith(b"\xef\xbb\xbf"):
                self._at = 3
        return bool(self._piece)
