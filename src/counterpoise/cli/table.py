"""Tables on standard output: drawn on a terminal, tab-separated in a pipe, JSON if asked for.

Nothing is cut off: a table that is wider than the terminal is drawn in parts, and what is wider
than that is folded.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from counterpoise.printable import finite, printable

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

    console = Console(highlight=False)
    for part in _parts(head, rows, title, console.width):
        console.print(part)


def _parts(head: list[str], rows: list[list[Any]], title: str, width: int) -> list[Any]:
    """The table, or several with the same first column, none of them wider than the terminal."""
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    texts = [[cell(value) for value in row] for row in rows]
    names = [printable(name) for name in head]
    needs = [
        max([cell_len(part) for part in name.split()] + [cell_len(row[j]) for row in texts] + [1])
        for j, name in enumerate(names)
    ]
    groups: list[list[int]] = [[]]
    for j in range(1, len(head)):
        taken = 1 + sum(needs[i] + 3 for i in [0, *groups[-1], j])
        if groups[-1] and taken > width:
            groups.append([])
        groups[-1].append(j)
    tables: list[Any] = []
    for group in groups:
        above = Text(printable(title)) if title and not tables else None
        table = Table(title=above, title_justify="left")
        full = sum(max(needs[j], cell_len(names[j])) + 3 for j in [0, *group])
        tight = 1 + sum(needs[j] + 3 for j in [0, *group]) <= width < 1 + full
        for j in [0, *group]:
            number = any(isinstance(row[j], (int, float)) for row in rows)
            side: Any = "right" if number else "left"
            exactly = needs[j] if tight else None
            table.add_column(Text(names[j]), justify=side, overflow="fold", width=exactly)
        for row in texts:
            table.add_row(*(Text(row[j]) for j in [0, *group]))
        tables.append(table)
    return tables


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
        if value.is_integer() and abs(value) < 2.0**53:
            return f"{int(value)}" if plain else f"{int(value):,}"
        return f"{value:.6g}" if plain else f"{value:,.4g}"
    if isinstance(value, int) and not isinstance(value, bool) and not plain:
        return f"{value:,}"
    return printable(value)


def show_json(value: Any) -> None:
    """Print a value as JSON.

    Parameters
    ----------
    value : object
        What JSON can hold, but for infinity, which becomes null.
    """
    print(json.dumps(finite(value), indent=2))
