"""Streams in: CSV, TSV, JSON lines, LIBSVM, Parquet and Arrow, in chunks and constant memory.

Needs the extra ``cli``: ``pip install 'counterpoise[cli]'``.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping
from typing import Any

from counterpoise.errors import DataError, Remedy
from counterpoise.streams.chunk import Chunk, Mark, Source
from counterpoise.streams.columnar import ColumnarSource
from counterpoise.streams.delimited import Delimited
from counterpoise.streams.jsonlines import JsonLines
from counterpoise.streams.libsvm import LABEL, LibSVM
from counterpoise.streams.text import Dialect, TextSource

__all__ = [
    "FORMATS",
    "Chunk",
    "DataError",
    "Mark",
    "Source",
    "expanded",
    "format_of",
    "source",
    "with_label",
]

FORMATS = {
    "csv": (".csv",),
    "tsv": (".tsv", ".tab"),
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "libsvm": (".libsvm", ".svm", ".svmlight"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc", ".arrows"),
}
STANDARD_INPUT = ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")  # other names of it
COMPRESSED = (".gz", ".zst", ".zstd", ".bz2", ".xz", ".zip")


def expanded(paths: list[str]) -> list[str]:
    """Paths with patterns replaced by the files that they match, sorted.

    Parameters
    ----------
    paths : list of str
        Files, patterns with ``*``, ``?`` or ``[``, and ``-`` for standard input, which has other
        names too.

    Returns
    -------
    list of str
        Each one once.
    """
    result: list[str] = []
    for path in paths:
        if path in STANDARD_INPUT:
            path = "-"
        if path == "-" or os.path.exists(path) or not glob.has_magic(path):
            result.append(path)
            continue
        found = sorted(glob.glob(path, recursive=True))
        if not found:
            raise DataError(f"no file matches {path}")
        result += found
    return list(dict.fromkeys(result))


def format_of(path: str) -> str:
    """Format that the name of a file stands for.

    Parameters
    ----------
    path : str
        The file, or ``-``.

    Returns
    -------
    str
        One of FORMATS; standard input is CSV, or JSON if it begins so, unless somebody says
        otherwise.
    """
    if path == "-":
        return "csv"
    name = path.lower()
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    for found, endings in FORMATS.items():
        if name.endswith(endings):
            return found
    known = " ".join(ending for endings in FORMATS.values() for ending in endings)
    raise DataError(
        f"{path}: the name does not show the format (known: {known}, with or without "
        f"{' '.join(COMPRESSED)})",
        Remedy("name it", "format"),
    )


def with_label(
    columns: Mapping[str, Any],
    paths: list[str],
    format: str | None,  # noqa: A002
) -> dict[str, Any]:
    """What is wanted of the columns, with the label of LIBSVM files, which need not be named.

    Parameters
    ----------
    columns : mapping
        What somebody has named.
    paths : list of str
        The files.
    format : str, optional
        Their format, if somebody says so.

    Returns
    -------
    dict
    """
    formats = {format or format_of(path) for path in paths}
    if "label" not in columns and formats == {"libsvm"}:
        return {**columns, "label": LABEL}
    return dict(columns)


def source(
    path: str,
    format: str | None = None,  # noqa: A002 - as the option is called
    delimiter: str | None = None,
    header: bool = True,
    live: bool = False,
    stdin_name: str | None = None,
    last_line: bool = True,
) -> Source:
    """Open one input, whose rows come out in chunks.

    Parameters
    ----------
    path : str
        A file, or ``-`` for standard input.
    format : str, optional
        One of FORMATS; by default what the name says.
    delimiter : str, optional
        Of CSV; by default a comma, or a tab for TSV.
    header : bool, default=True
        Whether CSV begins with the names of the columns.
    live : bool, default=False
        Deliver rows as they arrive, without waiting for a whole chunk.
    stdin_name : str, optional
        What to call standard input.
    last_line : bool, default=True
        Whether a last line of text without a line end is a row; else it is left in a file that may
        still be growing.

    Returns
    -------
    Source
    """
    name = path
    if path == "-":
        name = f"standard input {stdin_name!r}" if stdin_name else "standard input"
    kind = format or format_of(path)
    if kind in ("parquet", "arrow"):
        return ColumnarSource(path, name, kind == "parquet")
    dialects: dict[str, Callable[[], Dialect]] = {
        "csv": lambda: Delimited(delimiter or ",", header),
        "tsv": lambda: Delimited(delimiter or "\t", header),
        "jsonl": JsonLines,
        "libsvm": LibSVM,
    }

    def guess(start: bytes) -> Dialect:
        """Rows of standard input, unless somebody says what they are: JSON or CSV."""
        return dialects["jsonl" if start[:1] in (b"{", b"[") else "csv"]()

    unsaid = path == "-" and format is None
    return TextSource(path, name, dialects[kind](), live, last_line, guess if unsaid else None)
