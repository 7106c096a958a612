"""Bytes of a file or of standard input, decompressed if their first bytes say so."""

from __future__ import annotations

import bz2
import lzma
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from counterpoise.errors import DataError

BLOCK = 1 << 16  # compressed bytes read at a time
MEMORY = 1 << 28  # bytes that an xz file may ask for; xz -9 asks for a quarter of that
BZIP2 = re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)")  # text may begin with BZh, too
XZ = b"\xfd7zXZ\x00"
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
BOUNDED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # the others expand a block at once
STARTS = (b"BZh91AY&SY", XZ, *ZIP)  # as long as the longest of their kind


def needs_more_bytes(start: bytes) -> bool:
    """Whether more bytes are needed to recognise the compression."""
    bzip2 = start[:3] == b"BZh"[: len(start)] and len(start) < 10
    return bzip2 or any(len(start) < len(one) and one.startswith(start) for one in STARTS)


def opened(start: bytes, raw: Callable[[int], bytes], path: str, name: str) -> Any:
    """A reader that decompresses the data, or None if it is not compressed."""
    if BZIP2.match(start):
        return Members(raw, bz2.BZ2Decompressor)
    if start.startswith(XZ):
        return Members(raw, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, MEMORY), padding=b"\0")
    if start.startswith(ZIP):
        return Zipped(path, name)
    return None


class Members:
    """Compressed streams one after the other, as parallel compressors write them."""

    def __init__(self, raw: Callable[[int], bytes], make: Any, padding: bytes = b"") -> None:
        self._raw, self._make, self._padding = raw, make, padding
        self._one = make()
        self._begun, self._waiting = False, b""

    def read(self, most: int) -> bytes:
        """Read bytes as they arrive; raise OSError if they are damaged."""
        while True:
            data, self._waiting = self._waiting, b""
            if not data and (self._one.needs_input or not self._begun):
                data = self._raw(BLOCK)
                if not data and self._begun:
                    raise OSError("it ends too early")
                if not data:
                    return b""
            if not self._begun and self._padding:
                data = data.lstrip(self._padding)
                if not data:
                    continue
            self._begun = True
            try:
                found: bytes = self._one.decompress(data, most)
            except (lzma.LZMAError, EOFError) as error:
                raise OSError(str(error)) from None
            if self._one.eof:
                self._waiting = self._one.unused_data
                self._one, self._begun = self._make(), False
            if found:
                return found


class Zipped:
    """The only file in a zip archive."""

    def __init__(self, path: str, name: str) -> None:
        if path == "-":
            raise DataError(
                f"{name} is a zip archive, whose index is at the end; give the file, or what "
                "unzip -p writes"
            )
        try:
            self._archive = zipfile.ZipFile(path)
            files = [one for one in self._archive.infolist() if not _is_metadata_entry(one)]
            if len(files) == 1 and files[0].compress_type not in BOUNDED:
                raise NotImplementedError("it is not packed by deflate; unpack it first")
            if len(files) == 1:
                self._file = self._archive.open(files[0])
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError) as error:
            raise DataError(f"{name} is a zip archive that cannot be read: {error}") from None
        if len(files) != 1:
            some = ", ".join(one.filename for one in files[:3])
            raise DataError(
                f"{name} is a zip archive of {len(files):,} files ("
                f"{some or 'none at all'}), and one is expected: unpack it, and give the files"
            )

    def read(self, most: int) -> bytes:
        """Read bytes; raise OSError if they are damaged."""
        try:
            return self._file.read(most)
        except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError) as error:
            raise OSError(str(error)) from None

    @property
    def consumed(self) -> int:
        """Bytes of the archive read so far."""
        return int(self._archive.fp.tell()) if self._archive.fp else 0

    def close(self) -> None:
        """Close the archive."""
        self._file.close()
        self._archive.close()


def _is_metadata_entry(one: zipfile.ZipInfo) -> bool:
    """Whether an entry is no data: a folder, or metadata of macOS."""
    return one.filename.endswith("/") or one.filename.startswith("__MACOSX/")


READING = os.O_RDONLY | getattr(os, "O_BINARY", 0)  # Windows would change line ends
MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


def is_regular_file(path: str) -> bool:
    """Whether an input is a regular file, which can be read again; ``-`` may be one too.

    False for pipes, sockets, terminals, other devices, and paths that do not exist.
    """
    try:
        return stat.S_ISREG(os.fstat(0).st_mode if path == "-" else os.stat(path).st_mode)
    except OSError:
        return False


class Bytes:
    """A stream of bytes, read from its beginning to its end."""

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
        while len(self._peeked) < 4 or needs_more_bytes(self._peeked):
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
            self._expanded = opened(self._peeked, self.raw, path, name)
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
