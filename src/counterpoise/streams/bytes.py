"""Bytes of a file or of standard input, decompressed if their first bytes say so."""

from __future__ import annotations

import os
import stat
from typing import Any

import pyarrow as pa

from counterpoise.errors import DataError
from counterpoise.streams.unpacked import Zipped, undecided
from counterpoise.streams.unpacked import opened as unpacked

READING = os.O_RDONLY | getattr(os, "O_BINARY", 0)  # Windows would change line ends
MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


def lasting(path: str) -> bool:
    """Whether an input is a regular file, which can be read again; ``-`` may be one too.

    False for pipes, sockets, terminals, other devices, and paths that do not exist.
    """
    try:
        return stat.S_ISREG(os.fstat(0).st_mode if path == "-" else os.stat(path).st_mode)
    except OSError:
        return False


class Bytes:
    """A stream of bytes, read from its beginning to its end.

    Parameters
    ----------
    path : str
        A file, or ``-`` for standard input.
    name : str
        Its name in messages.

    Attributes
    ----------
    may_grow : bool
        Whether it may still be growing: it is a file, and not compressed.
    """

    def __init__(self, path: str, name: str) -> None:
        self.name = name
        self.consumed = 0
        try:
            self._descriptor = 0 if path == "-" else os.open(path, READING)
            status = os.fstat(self._descriptor)
        except OSError as error:
            raise cannot_read(name, error) from None
        if stat.S_ISDIR(status.st_mode):
            os.close(self._descriptor)
            raise DataError(f"{name} is a directory; name the files in it, for example {name}/*")
        self.may_grow = stat.S_ISREG(status.st_mode) and path != "-"
        self.size = status.st_size if stat.S_ISREG(status.st_mode) else 0
        self.closed = False
        self._peeked = b""
        while len(self._peeked) < 4 or undecided(self._peeked):
            more = self._read(4 - len(self._peeked) if len(self._peeked) < 4 else 1)
            if not more:
                break
            self._peeked += more
        codec = next((c for magic, c in MAGIC.items() if self._peeked.startswith(magic)), None)
        self._expanded: Any = None
        self._again = b""
        if codec is not None:
            self._expanded = pa.CompressedInputStream(pa.PythonFile(_Raw(self), "r"), codec)
        else:
            self._expanded = unpacked(self._peeked, self.raw, path, name)
        self.may_grow &= self._expanded is None

    def read(self, most: int) -> bytes:
        """Read at most ``most`` bytes as they arrive; none at the end."""
        if self._again:
            data, self._again = self._again[:most], self._again[most:]
            return data
        if self._expanded is None:
            return self.raw(most)
        try:
            data = bytes(self._expanded.read(most))
        except (OSError, pa.ArrowInvalid) as error:
            raise DataError(
                f"{self.name} is compressed and damaged or cut off ({error}); nothing after the "
                "last whole chunk was used: fetch the file again"
            ) from None
        if isinstance(self._expanded, Zipped):
            self.consumed = self._expanded.consumed
        return data

    def peek(self) -> bytes:
        """The first bytes after white space, without consuming them; empty if there are none."""
        start = b""
        while not start.lstrip() and (more := self.read(1 << 16)):
            start += more
        self._again = start
        return start.lstrip()

    def begins(self, mark: bytes) -> bool:
        """Whether the input begins with ``mark``; to be called before anything is read."""
        while len(self._peeked) < len(mark) and (more := self._read(len(mark) - len(self._peeked))):
            self._peeked += more
        return self._peeked.startswith(mark)

    def raw(self, most: int) -> bytes:
        """Read at most ``most`` bytes before decompression."""
        if self._peeked:
            data, self._peeked = self._peeked[:most], self._peeked[most:]
            return data
        return self._read(most)

    def close(self) -> None:
        """Close the file."""
        if not self.closed and self._descriptor:
            os.close(self._descriptor)
        if not self.closed and isinstance(self._expanded, Zipped):
            self._expanded.close()
        self.closed = True

    def _read(self, most: int) -> bytes:
        try:
            data = os.read(self._descriptor, most)
        except OSError as error:
            raise cannot_read(self.name, error) from None
        self.consumed += len(data)
        return data


class _Raw:
    """The interface of a Python file that pyarrow expects."""

    closed = False

    def __init__(self, source: Bytes) -> None:
        self._source = source

    def read(self, most: int) -> bytes:
        return self._source.raw(most)

    def close(self) -> None:
        pass


def cannot_read(name: str, error: OSError) -> DataError:
    """Error about a file that cannot be read, with the reason given by the system."""
    return DataError(f"cannot read {name}: {error.strerror or error}")
