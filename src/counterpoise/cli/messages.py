"""Messages to standard error, tables and progress, and options as one object for each group."""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import wraps
from math import inf
from shlex import quote
from typing import Annotated, Any, Self, get_type_hints

import typer

from counterpoise.encoding.columns import by_option
from counterpoise.errors import DataError, Message, OptionValue, finite, printable

quiet = False  # value of --quiet
strict = False  # value of --strict
warned: list[str] = []  # warnings that were printed
Strict = Annotated[bool, typer.Option("--strict", help="Exit with code 3 if there was a warning.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only warnings and errors.")]


OPTIONS = {
    "carry": "id",
    "category": "categorical",
    "class_factors": "class_factor",
    "fit_intercept": "intercept",
    "number": "numeric",
    "only": "keep",
    "penalize_intercept": "intercept",
}  # names of settings as options
VALUES = {
    "stdin_name": "NAME",
    "table": "TABLE",
    "query": "SQL",
    "cursor": "COLUMN",
}  # placeholders of values, as in --help


def format_as_options(*settings: OptionValue) -> str:
    """Spell settings as options.

    Examples
    --------
    >>> from counterpoise.cli.messages import format_as_options
    >>> from counterpoise.errors import OptionValue
    >>> hashed = OptionValue("columns", {"city name": "hash:256"})
    >>> print(format_as_options(hashed, OptionValue("allow_overlap", True)))
    --hash 'city name=256' --allow-overlap
    """
    shown = []
    for name, value in (one for setting in settings for one in _by_option(setting)):
        shown.append(f"--{OPTIONS.get(name, name).replace('_', '-')}")
        if value is None:
            shown += [VALUES[name]] if name in VALUES else []
        elif isinstance(value, Mapping):
            each = (key if one is None else f"{key}={one}" for key, one in value.items())
            shown += map(_quote, each)
        elif isinstance(value, (list, tuple)):
            shown.append(_quote(",".join(value)))
        elif value is not True:
            shown.append(_quote(str(value)))
    return " ".join(shown)


def _by_option(setting: OptionValue) -> list[OptionValue]:
    """Return the settings of roles of columns as one option for each role."""
    if setting.option != "columns":
        return [setting]
    roles = by_option({"roles": setting.value or {}})
    return [OptionValue(role, value) for role, value in roles.items()]


def _quote(text: str) -> str:
    """Quote text for a shell, also where only a reader could take a character for special."""
    quoted, plain = quote(text), re.fullmatch(r"[\w@+=:./,-]+", text) and re.search(r"\w", text)
    return quoted if plain or quoted != text else f"'{text}'"


def missing_folder(path: str) -> str | None:
    """Return the folder of a file to write if it does not exist."""
    folder = os.path.dirname(os.path.realpath(path))
    near = os.path.relpath(folder)
    return None if os.path.isdir(folder) else folder if near.startswith("..") else near


def write_message(text: str) -> None:
    """Write one line to standard error."""
    print(f"counterpoise: {printable(text)}", file=sys.stderr)


def info(message: str | Message) -> None:
    """Write a message to standard error, unless --quiet suppresses it."""
    text = message if isinstance(message, str) else message.format_with(format_as_options)
    is_warning = text.startswith("warning:")
    if is_warning:
        warned.append(text.removeprefix("warning: "))
    if not quiet or is_warning:
        write_message(text)


def pluralize(count: int, what: str) -> str:
    """Return a number with its noun."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose groups of options are single options, with --quiet and --strict.

    A group is a parameter whose type is a dataclass: the fields become options, in a panel of the
    help if the group names one.
    """
    signature = inspect.signature(command, eval_str=True)
    groups = {name: p.annotation for name, p in signature.parameters.items()}
    groups = {name: kind for name, kind in groups.items() if is_dataclass(kind)}

    @wraps(command)
    def call(*, quiet: bool, strict: bool, **given: Any) -> None:
        globals().update(quiet=quiet, strict=strict, warned=[])
        for name, kind in groups.items():
            given[name] = kind(**{one.name: given.pop(one.name) for one in fields(kind)})
            _require_limits(given[name])
        command(**given)

    options: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        options += _group_options(groups[name]) if name in groups else [parameter]
    options += [_option(name, kind, False) for name, kind in (("quiet", Quiet), ("strict", Strict))]
    options = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in options]
    call.__signature__ = signature.replace(parameters=options)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in options}
    return call


def _group_options(group: Any) -> list[inspect.Parameter]:
    """Return the options of a group."""
    hints = get_type_hints(group, include_extras=True)
    found = []
    for one in fields(group):
        kind = hints[one.name]
        if "option" in one.metadata:
            info = one.metadata["option"]
            info.rich_help_panel = group.panel
            if one.default is False and info.default is ...:
                info.default = f"--{one.name.replace('_', '-')}"  # the flag, without --no-...
            kind = Annotated[kind, info]
        found.append(_option(one.name, kind, one.default))
    return found


def _require_limits(group: Any) -> None:
    """Raise if the value of an option is out of its limits."""
    for one in fields(group):
        low, high = one.metadata.get("limits") or (-inf, inf)
        value = getattr(group, one.name)
        if isinstance(value, (int, float)) and not low <= value <= high:
            text = f"{low} or more" if high == inf else f"from {low} to {high:,}"
            flag = f"--{one.name.replace('_', '-')}"
            raise DataError(f"{flag} must be {text}; got {value}")


def _option(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def show(head: list[str], rows: list[list[Any]], title: str = "") -> None:
    """Print a table."""
    if not sys.stdout.isatty():
        for row in [head, *rows]:
            print("\t".join(cell(value, plain=True) for value in row))
        return
    from rich.console import Console

    console = Console(highlight=False)
    for part in _parts(head, rows, title, console.width):
        console.print(part)


def _parts(head: list[str], rows: list[list[Any]], title: str, width: int) -> list[Any]:
    """Return the table, or several with the same first column, as wide as the terminal at most."""
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
        needed = 1 + sum(needs[i] + 3 for i in [0, *groups[-1], j])
        if groups[-1] and needed > width:
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
    """Return the text of a cell."""
    if value is None:
        return "undefined"
    if isinstance(value, float):
        if value.is_integer() and abs(value) < 2.0**53:
            return f"{int(value)}" if plain else f"{int(value):,}"
        return f"{value:.6g}" if plain else f"{value:,.4g}"
    if isinstance(value, int) and not isinstance(value, bool) and not plain:
        return f"{value:,}"
    return printable(value)


def report_undefined(undefined: Mapping[str, str]) -> None:
    """Print which metrics are undefined, in one line."""
    from counterpoise.evaluate.metrics import METRIC_NAMES

    by_reason: dict[str, list[str]] = {}
    for name, reason in undefined.items():
        by_reason.setdefault(reason, []).append(METRIC_NAMES.get(name, name))
    if by_reason:
        each = [f"{', '.join(names)} ({reason})" for reason, names in by_reason.items()]
        info(f"undefined: {'; '.join(each)}")


def show_json(value: Any) -> None:
    """Print a value as JSON."""
    print(json.dumps(finite(value), indent=2))


def write_report(path: str, text: str) -> None:
    """Write an HTML report, and print where it is."""
    from counterpoise.atomic_write import atomic_write

    with atomic_write(path, "the report") as file:
        file.write(text.encode())
    info(f"report: {path}")


class Progress:
    """Progress line on a terminal: a bar, rows and speed."""

    def __init__(self, shown: bool | None = None) -> None:
        self.shown = (sys.stderr.isatty() if shown is None else shown) and not quiet
        self._bar: Any = None
        self._task: Any = None
        self._began = self._last = 0.0
        self._rows = 0

    def __enter__(self) -> Self:
        if self.shown:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as Bar

            columns = [
                TextColumn("{task.description}", markup=False),
                BarColumn(20),
                TextColumn("{task.fields[text]}", markup=False),
            ]
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._bar.__enter__()
            self._task = self._bar.add_task("", total=None, text="")
        self._began = time.monotonic()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)

    @property
    def is_due(self) -> bool:
        """True if it is time to write the line again."""
        return self.shown and time.monotonic() - self._last > 0.1

    def advance(self, rows: int) -> None:
        """Count rows."""
        self._rows += rows

    def chunk(self, source: Any, rows: int) -> None:
        """Count rows of an input, and show it if it is time."""
        self.advance(rows)
        if self.is_due:
            self.show(source.name, source.done(), "")

    def show(self, name: str, done: tuple[int, int], text: str) -> None:
        """Write the line again."""
        if self._bar is None:
            return
        self._last = time.monotonic()
        speed = self._rows / max(self._last - self._began, 1e-9)
        self._bar.update(
            self._task,
            description=printable(name),
            completed=done[0],
            total=done[1] or None,
            text=f"{self._rows:,} rows, {speed:,.0f}/s{printable(text)}",
        )


@contextmanager
def collect_stop_signals() -> Iterator[list[int]]:
    """Collect signals to stop, instead of stopping immediately."""
    stopped: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: stopped.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
