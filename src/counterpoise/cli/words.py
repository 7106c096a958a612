"""Words to standard error, in one line each, and whether anybody wants them."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from shlex import quote
from typing import Annotated, Any

import typer

from counterpoise.errors import Message, Setting
from counterpoise.printable import printable

quiet = False  # value of --quiet
strict = False  # value of --strict
warned: list[str] = []  # warnings that were printed
Strict = Annotated[bool, typer.Option("--strict", help="Exit with code 3 if there was a warning.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only warnings and errors.")]


OPTIONS = {
    "carry": "id",
    "costs": "cost",
    "fit_intercept": "intercept",
    "hashed": "hash",
    "penalize_intercept": "intercept",
}  # what settings are called here
VALUES = {"label": "COLUMN", "stdin_name": "NAME"}  # what stands for a value, in --help too


def in_shell(*settings: Setting) -> str:
    """Spell settings as options.

    Parameters
    ----------
    *settings : Setting
        The settings.

    Returns
    -------
    str
        For example ``--drop amount``.

    Examples
    --------
    >>> from counterpoise.cli.words import in_shell
    >>> from counterpoise.errors import Setting
    >>> print(in_shell(Setting("hashed", {"city name": 256}), Setting("allow_overlap", True)))
    --hash 'city name=256' --allow-overlap
    """
    shown = []
    for name, value in settings:
        shown.append(f"--{OPTIONS.get(name, name).replace('_', '-')}")
        if value is None:
            shown += [VALUES[name]] if name in VALUES else []
        elif isinstance(value, Mapping):
            shown += [_quoted(f"{key}={one}") for key, one in value.items()]
        elif isinstance(value, (list, tuple)):
            shown.append(_quoted(",".join(value)))
        elif value is not True:
            shown.append(_quoted(str(value)))
    return " ".join(shown)


def _quoted(text: str) -> str:
    """Text as a shell takes it; signs that only look as if they mattered are quoted too."""
    quoted, plain = quote(text), re.fullmatch(r"[\w@+=:./,-]+", text) and re.search(r"\w", text)
    return quoted if plain or quoted != text else f"'{text}'"


def tell(text: str) -> None:
    """Write one line to standard error.

    Parameters
    ----------
    text : str
        The words; whatever others have put into them, they stay one line of plain text.
    """
    print(f"counterpoise: {printable(text)}", file=sys.stderr)


def say(said: str | Message) -> None:
    """Write words to standard error, unless nobody wants them.

    Parameters
    ----------
    said : str or Message
        The words.
    """
    text = said if isinstance(said, str) else said.spelled(in_shell)
    is_warning = text.startswith("warning:")
    if is_warning:
        warned.append(text.removeprefix("warning: "))
    if not quiet or is_warning:
        tell(text)


def counted(count: int, what: str) -> str:
    """So many things, in words.

    Parameters
    ----------
    count : int
        How many.
    what : str
        What one of them is called.

    Returns
    -------
    str
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def quietable(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options --quiet and --strict.

    Parameters
    ----------
    command : callable
        What typer is to make a command of.

    Returns
    -------
    callable
        The same with two more options.
    """

    @wraps(command)
    def call(*, quiet: bool, strict: bool, **given: Any) -> None:
        globals().update(quiet=quiet, strict=strict, warned=[])
        command(**given)

    signature = inspect.signature(command, eval_str=True)
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in (("quiet", Quiet), ("strict", Strict))
    ]
    taken = [*signature.parameters.values(), *options]
    call.__signature__ = signature.replace(parameters=taken)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in taken}
    return call
