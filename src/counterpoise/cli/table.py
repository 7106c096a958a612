"""Tables on standard output: drawn on a terminal, tab-separated in a pipe, JSON if asked for."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def show(head: list[str], rows: list[list[Any]], title: str = "") -> None:
    """Print a table.

    Parameters
    ----------
    head : list of str
        Names of the columns.
    rows : list of list
        Cells: text, numbers, or None for what is undefined.
    title : str
        What it is about; not printed in a pipe.
    """
    if not sys.stdout.isatty():
        for row in [head, *rows]:
            print("\t".join(cell(value, plain=True) for value in row))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title or None, title_justify="left")
    for j, name in enumerate(head):
        number = any(isinstance(row[j], (int, float)) for row in rows)
        table.add_column(name, justify="right" if number else "left")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    Console().print(table)


def cell(value: Any, plain: bool = False) -> str:
    """Text of a cell.

    Parameters
    ----------
    value : object
        What it holds.
    plain : bool, default=False
        For a machine: no separators of thousands.

    Returns
    -------
    str
    """
    if value is None:
        return "undefined"
    if isinstance(value, float):
        return f"{value:.6g}" if plain else f"{value:,.4g}"
    if isinstance(value, int) and not isinstance(value, bool) and not plain:
        return f"{value:,}"
    return str(value).replace("\t", " ").replace("\n", " ")


def show_json(value: Any) -> None:
    """Print a value as JSON.

    Parameters
    ----------
    value : object
        What JSON can hold.
    """
    print(json.dumps(value, indent=2))
