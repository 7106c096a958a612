"""Words to standard error, in one line each, and whether anybody wants them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from counterpoise.printable import printable

quiet = False  # as --quiet says
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but warnings and errors.")]


def tell(text: str) -> None:
    """Write one line to standard error.

    Parameters
    ----------
    text : str
        The words; whatever others have put into them, they stay one line of plain text.
    """
    print(f"counterpoise: {printable(text)}", file=sys.stderr)


def quietable(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option --quiet.

    Parameters
    ----------
    command : callable
        What typer is to make a command of.

    Returns
    -------
    callable
        The same with one option more.
    """

    @wraps(command)
    def call(*, quiet: bool, **given: Any) -> None:
        globals()["quiet"] = quiet
        command(**given)

    signature = inspect.signature(command, eval_str=True)
    option = inspect.Parameter(
        "quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet
    )
    taken = [*signature.parameters.values(), option]
    call.__signature__ = signature.replace(parameters=taken)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in taken}
    return call
