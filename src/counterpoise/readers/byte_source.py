"""Bytes of a file or of standard input, decompressed if they are compressed."""

from __future__ import annotations

import lzma
import os
import stat
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from counterpoise.errors import DataError

BLOCK_BYTES = 1 << 16  # compressed bytes read at a time
XZ_MEMORY_BYTES = 1 << 28  # that an xz file may require; xz -9 requires a quarter of that
BOUNDED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # other methods expand a whole block
READ_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0)  # Windows would change line ends
BZIP2 = [b"BZh%d" % level + tail for level in range(1, 10) for tail in (b"1AY&SY", b"\x17rE8P\x90")]
MAGIC = dict.fromkeys(BZIP2, "bz2") | {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\x00": "xz",
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
}  # the compression of data that begins so; text may begin with BZh, too


class XzStream:
    """Decompressed bytes of xz streams one after the other, as parallel compressors write them."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read, self._unused = read, b""
        self._decompressor: lzma.LZMADecompressor | None = None  # between two streams None

    def read(self, most: int) -> bytes:
        """Read bytes as they arrive; raise OSError if they are damaged."""
        while True:
            data, self._unused = self._unused, b""
            if not data and (self._decompressor is None or self._decompressor.needs_input):
                data = self._read(BLOCK_BYTES)
                if not data and self._decompressor is not None:
                    raise OSError("it ends too early")
                if not data:
                    return b""
            if self._decompressor is None:
                data = data.lstrip(b"\0")  # padding
                if not data:
                    continue
                self._decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, XZ_MEMORY_BYTES)
            try:
                found = self._decompressor.decompress(data, most)
            except (lzma.LZMAError, EOFError) as error:
                raise OSError(str(error)) from None
            if self._decompressor.eof:
                self._unused, self._decompressor = self._decompressor.unused_data, None
            if found:
                return found


class ZipStream:
    """Bytes of the only file in a zip archive."""

    def __init__(self, path: str, name: str) -> None:
        if path == "-":
            raise DataError(
                f"{name} is a zip archive, whose index is at the end; give the file, or what "
                "unzip -p writes"
            )
        try:
            self._archive = zipfile.ZipFile(path)
            files = [
                one
                for one in self._archive.infolist()
                if not (one.filename.endswith("/") or one.filename.startswith("__MACOSX/"))
            ]  # is_dir() fails if a member has no name
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
    def bytes_read(self) -> int:
        """Bytes of the archive that were read."""
        return int(self._archive.fp.tell()) if self._archive.fp else 0

    def close(self) -> None:
        """Close the archive."""
        self._file.close()
        self._archive.close()


def is_regular_file(path: str) -> bool:
    """Return whether an input is a regular file, which can be read again; ``-`` may be one too."""
    try:
        return stat.S_ISREG(os.fstat(0).st_mode if path == "-" else os.stat(path).st_mode)
    except OSError:
        return False


class Bytes:
    """A stream of bytes, read from its beginning to its end."""

    def __init__(self, path: str, name: str) -> None:
        self.name = name
        self.bytes_read = 0
        try:
            self._descriptor = 0 if path == "-" else os.open(path, READ_FLAGS)
            status = os.fstat(self._descriptor)
        except OSError as error:
            raise cannot_read(name, error) from None
        if stat.S_ISDIR(status.st_mode):
            os.close(self._descriptor)
            raise DataError(f"{name} is a directory; name the files in it, for example {name}/*")
        is_regular = stat.S_ISREG(status.st_mode)
        self.size = status.st_size if is_regular else 0
        self.closed = False
        self._peeked = self._again = b""
        while len(self._peeked) < 4 or any(
            one.startswith(self._peeked) and one != self._peeked for one in MAGIC
        ):
            more = self._read(max(1, 4 - len(self._peeked)))
            if not more:
                break
            self._peeked += more
        codec = next((c for magic, c in MAGIC.items() if self._peeked.startswith(magic)), None)
        self._expanded: Any = None
        if codec == "zip":
            self._expanded = ZipStream(path, name)
        elif codec == "xz":
            self._expanded = XzStream(self.raw)
        elif codec is not None:
            file = pa.PythonFile(PythonFile(self.raw), "r")
            self._expanded = pa.CompressedInputStream(file, codec)
        self.may_grow = is_regular and path != "-" and codec is None

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
        if isinstance(self._expanded, ZipStream):
            self.bytes_read = self._expanded.bytes_read
        return data

    def peek(self) -> bytes:
        """Return the first bytes after white space, if any, without consuming them."""
        start = b""
        while not start.lstrip() and (more := self.read(BLOCK_BYTES)):
            start += more
        self._again = start
        return start.lstrip()

    def begins(self, mark: bytes) -> bool:
        """Return whether the input begins with ``mark``, before anything else is read."""
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
        if not self.closed and isinstance(self._expanded, ZipStream):
            self._expanded.close()
        self.closed = True

    def _read(self, most: int) -> bytes:
        try:
            data = os.read(self._descriptor, most)
        except OSError as error:
            raise cannot_read(self.name, error) from None
        self.bytes_read += len(data)
        return data


class PythonFile:
    """The interface of a file that pyarrow reads, around a function that reads bytes."""

    closed = False

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self.read = read

    def close(self) -> None:
        """Do nothing."""


def cannot_read(name: str, error: OSError) -> DataError:
    """Return the error about a file that cannot be read."""
    return DataError(f"cannot read {name}: {error.strerror or error}")
