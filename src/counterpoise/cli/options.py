"""Options that several commands share, and how their texts are read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

FORMATS = "csv, tsv, jsonl, libsvm, parquet or arrow"

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES",
        help="CSV, TSV, JSON lines, LIBSVM, Parquet or Arrow files, plain or compressed with gzip "
        "or zstd; patterns; - for standard input.",
        show_default=False,
    ),
]
Format = Annotated[
    str | None, typer.Option("--format", help=f"Format of the input: {FORMATS}.", metavar="NAME")
]
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", help="Between the fields of CSV.", metavar="CHAR")
]
NoHeader = Annotated[
    bool,
    typer.Option("--no-header", help="CSV without names: columns are 'column 1', 'column 2', ..."),
]


def bad(option: str, message: str) -> typer.BadParameter:
    """Error about the use of an option.

    Parameters
    ----------
    option : str
        The option.
    message : str
        What is wrong.

    Returns
    -------
    typer.BadParameter
    """
    return typer.BadParameter(message, param_hint=f"'{option}'")


def reading(format: str | None, delimiter: str | None, no_header: bool) -> dict[str, Any]:  # noqa: A002
    """Options of reading, checked.

    Parameters
    ----------
    format, delimiter : str, optional
        As given.
    no_header : bool
        As given.

    Returns
    -------
    dict
        Arguments of :func:`counterpoise.streams.source`.
    """
    from counterpoise.streams import FORMATS as KNOWN

    if format is not None and format not in KNOWN:
        raise bad("--format", f"{format!r} is not one of {', '.join(KNOWN)}")
    if delimiter is not None:
        delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
        if len(delimiter) != 1 or ord(delimiter) > 127 or delimiter in '"\r\n':
            raise bad("--delimiter", f"{delimiter!r} is not one character")
    return {"format": format, "delimiter": delimiter, "header": not no_header}


def by_name(option: str, values: Iterable[str], convert: Any, what: str) -> dict[str, Any]:
    """NAME=VALUE pairs as a dict.

    Parameters
    ----------
    option : str
        The option, for messages.
    values : iterable of str
        As given.
    convert : callable
        Makes a value of its text.
    what : str
        What a value is, for messages.

    Returns
    -------
    dict
    """
    result = {}
    for pair in values:
        name, sign, text = pair.rpartition("=")
        try:
            result[name] = convert(text)
        except ValueError:
            sign = ""
        if not sign or not name:
            raise bad(option, f"{pair!r} is not NAME={what}")
    return result


def names(values: Iterable[str] | None) -> tuple[str, ...]:
    """Names given one by one or with commas between them.

    Parameters
    ----------
    values : iterable of str
        As given.

    Returns
    -------
    tuple of str
    """
    return tuple(name for value in values or () for name in value.split(",") if name)
