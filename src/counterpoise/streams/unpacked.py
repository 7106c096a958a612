"""Compression that pyarrow does not support, or not safely: bzip2, xz and zip.

A file that is cut off or damaged is an error, never a short file; so is what follows the end of the
compressed data. Memory is bounded whatever the file says.
"""

from __future__ import annotations

import bz2
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

from counterpoise.errors import DataError

BLOCK = 1 << 16  # compressed bytes read at a time
MEMORY = 1 << 28  # bytes that an xz file may ask for; xz -9 asks for a quarter of that
BZIP2 = re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)")  # text may begin with BZh, too
XZ = b"\xfd7zXZ\x00"
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
BOUNDED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # the others expand a block at once
STARTS = (b"BZh91AY&SY", XZ, *ZIP)  # as long as the longest of their kind


def undecided(start: bytes) -> bool:
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
    """Compressed streams one after the other, as parallel compressors write them.

    Parameters
    ----------
    raw : callable
        Reads compressed bytes.
    make : callable
        Makes a decompressor for one stream.
    padding : bytes
        Bytes allowed between two streams.
    """

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
    """The only file in a zip archive.

    Parameters
    ----------
    path : str
        The archive.
    name : str
        Its name in messages.
    """

    def __init__(self, path: str, name: str) -> None:
        if path == "-":
            raise DataError(
                f"{name} is a zip archive, whose index is at the end; give the file, or what "
                "unzip -p writes"
            )
        try:
            self._archive = zipfile.ZipFile(path)
            files = [one for one in self._archive.infolist() if not _beside(one)]
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


def _beside(one: zipfile.ZipInfo) -> bool:
    """Whether an entry is no data: a folder, or metadata of macOS."""
    return one.filename.endswith("/") or one.filename.startswith("__MACOSX/")
