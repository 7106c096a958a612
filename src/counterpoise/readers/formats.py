"""Formats of inputs: by name, by the first bytes, and the source that reads each."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from errno import ENOENT
from typing import Any

from counterpoise.errors import DataError, OptionValue, Suggestion
from counterpoise.readers.byte_source import cannot_read
from counterpoise.readers.chunk import Source
from counterpoise.readers.columnar import ArrowSource, ParquetSource
from counterpoise.readers.database import is_database
from counterpoise.readers.delimited import DelimitedText
from counterpoise.readers.jsonlines import JsonLines
from counterpoise.readers.libsvm import LABEL, LibSVM
from counterpoise.readers.text_source import TextFormat, TextSource

FORMATS = {
    "csv": (".csv",),
    "tsv": (".tsv", ".tab"),
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "libsvm": (".libsvm", ".svm", ".svmlight"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc", ".arrows"),
}
STANDARD_INPUT = ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")  # other names of -
DATABASE = "database"  # the format of databases, whose rows have columns already
COMPRESSED = (".gz", ".zst", ".zstd", ".bz2", ".xz", ".zip")


def expand_paths(paths: list[str]) -> list[str]:
    """Replace patterns in paths by the sorted files that match them; return each path once.

    ``-`` is standard input, and so are the names in STANDARD_INPUT.
    """
    result: list[str] = []
    for path in paths:
        if path in STANDARD_INPUT:
            path = "-"
        if path == "-" or is_database(path) or os.path.exists(path):
            result.append(path)
            continue
        if not glob.has_magic(path):
            raise cannot_read(path, FileNotFoundError(ENOENT, os.strerror(ENOENT)))
        found = sorted(glob.glob(path, recursive=True))
        if not found:
            raise DataError(f"no file matches {path}")
        result += found
    return list(dict.fromkeys(result))


def format_of(path: str) -> str:
    """Return the format of a file by its name; standard input is CSV until it is read."""
    if path == "-":
        return "csv"
    if is_database(path):
        return DATABASE
    name = path.lower()
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    for found, endings in FORMATS.items():
        if name.endswith(endings):
            return found
    if os.path.isdir(path):
        raise DataError(f"{path} is a folder; name the files in it")
    known = " ".join(ending for endings in FORMATS.values() for ending in endings)
    raise DataError(
        f"{path}: the name does not show the format (known endings: {known}, with or without "
        f"{' '.join(COMPRESSED)})",
        Suggestion("name it", "format"),
    )


def with_label(
    columns: Mapping[str, Any],
    paths: list[str],
    format: str | None,  # noqa: A002
) -> dict[str, Any]:
    """Return settings of columns, with the label column of LIBSVM files if it is not specified."""
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
    complete: bool = True,
    database: Mapping[str, Any] | None = None,
) -> Source:
    r"""Open one input for reading in chunks.

    Parameters
    ----------
    path : str
        A file, ``-`` for standard input, or a database: ``postgresql://HOST/NAME``,
        ``sqlite:///FILE`` or ``duckdb:///FILE``.
    format : str, optional
        One of FORMATS; by default by the name of the file.
    delimiter : str, optional
        Of CSV; by default a comma, or a tab for TSV.
    header : bool, default=True
        Whether CSV begins with the names of the columns.
    live : bool, default=False
        Deliver rows as they arrive, without waiting for a whole chunk.
    stdin_name : str, optional
        Name of standard input in messages.
    complete : bool, default=True
        Whether a last line of text without a line end is a row, also in a file that may grow.
    database : mapping, optional
        Rows of a database: its ``table``, or a ``query`` in SQL. With ``cursor``, a column that
        only grows, new rows are those with higher values than learned ones. Learned rows are
        compared with the record of the model, unless ``allow_changed_past`` is true.

    Returns
    -------
    Source

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from counterpoise.readers import ReadPosition, source
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "payments.csv"
    >>> _ = path.write_text("amount,fraud\n12.5,no\n980,yes\n")
    >>> for chunk in source(str(path)).chunks(1000, ReadPosition(), {}, lambda name: True):
    ...     print({name: column.to_pylist() for name, column in chunk.columns.items()})
    {'amount': ['12.5', '980'], 'fraud': ['no', 'yes']}
    """
    if is_database(path):
        from counterpoise.readers.database_source import DatabaseRows, DatabaseSource

        return DatabaseSource(path, DatabaseRows(**(database or {})))
    if database:
        raise DataError(
            (f"{path} is not a database, and ", OptionValue(next(iter(database))), " requires one"),
            Suggestion("name it as postgresql://HOST/NAME, sqlite:///FILE or duckdb:///FILE"),
        )
    name = path
    if path == "-":
        name = f"standard input {stdin_name!r}" if stdin_name else "standard input"
    kind = format or format_of(path)
    if kind in ("parquet", "arrow"):
        return (ParquetSource if kind == "parquet" else ArrowSource)(path, name)

    def make(kind: str) -> TextFormat:
        if kind in ("csv", "tsv"):
            return DelimitedText(delimiter or {"csv": ",", "tsv": "\t"}[kind], header)
        return JsonLines() if kind == "jsonl" else LibSVM()

    def guess(start: bytes) -> TextFormat:
        """Return the format of standard input by its first bytes, JSON or CSV."""
        return make("jsonl" if start[:1] in (b"{", b"[") else "csv")

    is_unnamed = path == "-" and format is None
    return TextSource(path, name, make(kind), live, complete, guess if is_unnamed else None)
