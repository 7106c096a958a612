"""A JSON array of objects as JSON lines: the separators of elements become line ends.

The lines depend on the bytes alone, not on how they arrive, so that an array can be read on from a
mark as lines can, also when it has grown.
"""

from __future__ import annotations

import re
from typing import Any

from counterpoise.errors import DataError

SPACE = b" \t\r\n"
ORDER = b"\xef\xbb\xbf"  # the byte order mark
LONGEST = 1 << 26  # bytes of one element
# An object without nested values at once; else one bracket or text after the other.
FLAT = re.compile(rb'\{(?:[^"{}\[\]]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+\}', re.DOTALL)
TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{\[]|[}\]]|,|"', re.DOTALL)


class Elements:
    """The elements of a JSON array as lines, or the bytes unchanged if the input is no array."""

    def __init__(self, source: Any) -> None:
        self.source, self.name = source, source.name
        self._array: bool | None = None  # not known yet
        self._rest = b""
        self._number = 0  # of the element that comes next
        self._after: str | None = None  # "element", "comma", or "end" of the array

    def read(self, most: int) -> bytes:
        """Read about ``most`` bytes, at most so many if the input is no array; none at the end."""
        while True:
            if self._array is False and not self._rest:
                data: bytes = self.source.read(most)
                return data
            if self._array is False:
                data, self._rest = self._rest, b""
                return data
            more = self.source.read(most)
            self._rest += more
            if self._array is None and not self._begun(ended=not more):
                continue
            if self._array:
                lines = self._lines(ended=not more)
                if lines or not more:
                    return lines

    def _begun(self, ended: bool) -> bool:
        """Whether the kind of the input is known."""
        start = self._rest.removeprefix(ORDER).lstrip(SPACE)
        if not ended and (not start or ORDER.startswith(self._rest)):
            return False
        self._array = start.startswith(b"[")
        if self._array:
            self._rest, self._number = start[1:], 1
        return True

    def _lines(self, ended: bool) -> bytes:
        """Whole elements of the bytes read so far, one per line; the rest is kept."""
        data, at, found = self._rest, 0, []
        while True:
            at = _after_space(data, at)
            if at == len(data):
                break
            if self._after == "end":
                raise self._error("something follows the end of the array")
            sign = data[at : at + 1]
            if sign == b"]" and self._after != "comma":
                self._after, at = "end", at + 1
            elif sign == b"," and self._after == "element":
                self._after, at = "comma", at + 1
            elif sign in b",]" or self._after == "element":
                raise self._error("a comma belongs between two elements, and nowhere else")
            else:
                stop = _end(data, at)
                if stop is None:
                    break
                line = data[at:stop].rstrip(SPACE)
                found.append(line.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n")
                self._after, at, self._number = "element", stop, self._number + 1
        self._rest = data[at:]
        if len(self._rest) > LONGEST:
            raise self._error(f"longer than {LONGEST >> 20} MB; is a quote or a bracket missing?")
        if ended and self._after != "end":
            raise self._error("the array is cut off; nothing after the last whole chunk was used")
        return b"".join(found)

    def _error(self, message: str) -> DataError:
        return DataError(f"{self.name}, at element {self._number} of the JSON array: {message}")


def _after_space(data: bytes, at: int) -> int:
    while at < len(data) and data[at] in SPACE:
        at += 1
    return at


def _end(data: bytes, at: int) -> int | None:
    """End of the element that begins here; None if it is not yet known."""
    flat = FLAT.match(data, at)
    if flat is not None:
        return flat.end()
    depth = 0
    for token in TOKEN.finditer(data, at):
        sign = token.group()
        if sign == b'"':  # a text that goes on
            return None
        if depth == 0 and sign in (b",", b"]", b"}"):
            return token.start()
        if sign in (b"{", b"["):
            depth += 1
        elif sign in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                return token.end()
    return None
