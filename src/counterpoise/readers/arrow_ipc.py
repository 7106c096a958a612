"""Messages of the Arrow IPC format, measured before Arrow allocates the sizes they claim.

A stream is messages one after the other, and a file is a stream between two marks with a footer
that says where the messages are. A message is a prefix, a description (a flatbuffer) and a body:
https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format. Buffers of a body
may be compressed, and begin with the number of bytes that they expand to.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable

from counterpoise.errors import DataError

MARK = b"ARROW1"
CONTINUATION = 0xFFFFFFFF
DESCRIPTION = 1 << 26  # bytes of a description at most
BODY = 1 << 30  # bytes of a body at most, expanded
DICTIONARY_BATCH, RECORD_BATCH = 2, 3  # kinds of messages that have a body


class Messages:
    """A stream of messages as pyarrow reads it from a Python file, one whole message at a time."""

    closed = False

    def __init__(self, read: Callable[[int], bytes], name: str) -> None:
        self._read, self._name = read, name
        self._message, self._at, self._start = b"", 0, b""
        self._start = self._exactly(8)
        if self._start.startswith(MARK):  # a file that is read as a stream
            self._start = b""

    def read(self, most: int) -> bytes:
        """Read bytes of the current message, or of the next one if it has ended."""
        if self._at == len(self._message):
            self._message, self._at = self._next(), 0
        data = self._message[self._at : self._at + most]
        self._at += len(data)
        return data

    def close(self) -> None:
        """Do nothing."""

    def _next(self) -> bytes:
        prefix = self._exactly(4)
        if len(prefix) == 4 and _number("<I", prefix, 0) == CONTINUATION:
            prefix += self._exactly(4)
        if len(prefix) < 4:
            return prefix
        length = _number("<i", prefix, len(prefix) - 4)
        if length <= 0:
            return prefix
        require_moderate(length, DESCRIPTION, self._name)
        description = self._exactly(length)
        if len(description) < length:
            return prefix + description
        size = body_length(description, self._name)
        require_moderate(size, BODY, self._name)
        body = self._exactly(size)
        size = expanded(description, lambda at: body[at : at + 8], self._name)
        require_moderate(size, BODY, self._name)
        return prefix + description + body

    def _exactly(self, size: int) -> bytes:
        """Read exactly so many bytes, fewer only at the end; a pipe may deliver them in parts."""
        parts, self._start = [self._start[:size]], self._start[size:]
        left = size - len(parts[0])
        while left and (more := self._read(min(left, 1 << 20))):
            parts.append(more)
            left -= len(more)
        return b"".join(parts)


def require_moderate_file(path: str, name: str) -> None:
    """Raise if a message in the footer of an Arrow file claims to be too large."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 10, 0))
        length = _number("<i", file.read(4), 0, name)
        if not 0 < length <= size - 10:
            raise DataError(f"{name} cannot be read: it has no footer; it was cut off or damaged")
        require_moderate(length, DESCRIPTION, name)
        file.seek(size - 10 - length)
        footer = file.read(length)
        for slot in (2, 3):  # dictionaries, and batches
            for at in _vector(footer, _field(footer, _root(footer, name), slot, name), 24, name):
                offset, described, body = struct.unpack_from("<qi4xq", footer, at)
                if not (0 <= offset <= size and described >= 0 and 0 <= body <= size):
                    raise DataError(f"{name} cannot be read: its footer points beyond its end")
                require_moderate(described, DESCRIPTION, name)
                require_moderate(body, BODY, name)
                file.seek(offset)
                description = file.read(described)
                start = 8 if description.startswith(b"\xff\xff\xff\xff") else 4

                def peek(at: int, body: int = offset + described) -> bytes:
                    file.seek(body + at)
                    return file.read(8)

                require_moderate(expanded(description[start:], peek, name), BODY, name)


def require_moderate(size: int, most: int, name: str) -> None:
    """Raise if a message claims ``size`` bytes and only ``most`` are allowed."""
    if not 0 <= size <= most:
        raise DataError(
            f"{name}: an Arrow message claims {size:,} bytes, more than {most:,}; the input is "
            "damaged, or its batches have too many rows: write smaller ones"
        )


def body_length(description: bytes, name: str) -> int:
    """Bytes of the body of a message, by its flatbuffer."""
    at = _field(description, _root(description, name), 3, name)
    return _number("<q", description, at, name) if at else 0


def expanded(description: bytes, peek: Callable[[int], bytes], name: str) -> int:
    """Bytes that the compressed buffers of a message expand to; 0 if they are not compressed.

    ``peek`` returns the 8 bytes of the body at an offset, fewer at its end.
    """
    root = _root(description, name)
    kind, header = (_field(description, root, slot, name) for slot in (1, 2))
    what = description[kind] if 0 < kind < len(description) else 0
    if not header or what not in (DICTIONARY_BATCH, RECORD_BATCH):
        return 0
    batch = _follow(description, header, name)
    if what == DICTIONARY_BATCH:
        data = _field(description, batch, 1, name)
        batch = _follow(description, data, name) if data else 0
    if not batch or not _field(description, batch, 3, name):
        return 0
    total = 0
    for at in _vector(description, _field(description, batch, 2, name), 16, name):
        offset, length = struct.unpack_from("<qq", description, at)
        start = peek(offset) if length >= 8 and 0 <= offset <= BODY else b""
        if len(start) == 8:
            total += max(0, _number("<q", start, 0))  # -1 says that it is not compressed
    return total


# Flatbuffers: https://flatbuffers.dev/internals


def _root(data: bytes, name: str) -> int:
    return _follow(data, 0, name)


def _follow(data: bytes, at: int, name: str) -> int:
    """Target of an offset."""
    return at + _number("<I", data, at, name)


def _field(data: bytes, table: int, slot: int, name: str) -> int:
    """Position of a field of a table, or 0 if it is absent."""
    virtual = table - _number("<i", data, table, name)
    place = 4 + 2 * slot
    if place >= _number("<H", data, virtual, name):
        return 0
    offset = _number("<H", data, virtual + place, name)
    return table + offset if offset else 0


def _vector(data: bytes, field: int, size: int, name: str) -> range:
    """Positions of the structs of a vector; none if it is absent."""
    if not field:
        return range(0)
    at = _follow(data, field, name)
    count = _number("<I", data, at, name)
    if at + 4 + size * count > len(data):
        raise _damaged(name)
    return range(at + 4, at + 4 + size * count, size)


def _number(kind: str, data: bytes, at: int, name: str = "") -> int:
    if not 0 <= at <= len(data) - struct.calcsize(kind):
        raise _damaged(name)
    found: int = struct.unpack_from(kind, data, at)[0]
    return found


def _damaged(name: str) -> DataError:
    return DataError(f"{name} cannot be read: an Arrow message is damaged")
