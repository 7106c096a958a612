"""The commands, and what becomes of their errors: words to standard error, and an exit code."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

from counterpoise import __version__
from counterpoise.cli import late, words
from counterpoise.errors import DataError
from counterpoise.printable import printable

STRICT_EXIT = 3  # exit code of --strict after warnings
USAGE: Any = typer.BadParameter.__mro__[2]  # ClickException: of click, or of the copy within typer
# One line each in the list of commands, which would cut longer ones. Each has its own module.
COMMANDS = {
    "learn": "Learn the rows of files that were not learned yet.",
    "predict": "Predict the rows of files, in order and in constant memory.",
    "race": "Race the exact model against its rivals on one stream.",
    "evaluate": "Compare the predictions of a model with the labels in files.",
    "inspect": "Show what is in a model file.",
    "merge": "Make one model of several.",
    "forget": "Take the rows of files back, as if they had never been learned.",
    "relabel": "Learn rows with another label than before.",
    "check": "List every problem of files without learning.",
    "export": "Export a model: JSON, ONNX or scikit-learn.",
    "ledger": "Models of any time and any segment, from sums.",
    "data": "List, describe and prepare the paper's data sets.",
}


def commands(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The command line.

    Parameters
    ----------
    names : iterable of str
        Commands that it is to have. Only their modules are imported.

    Returns
    -------
    typer.Typer
    """
    app = typer.Typer(
        name="counterpoise",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(options)
    for name in names:
        command = getattr(import_module(f"counterpoise.cli.{name}"), name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, short_help=COMMANDS[name])
        else:
            app.command(short_help=COMMANDS[name])(words.quietable(command))
    return app


def _version(wanted: bool) -> None:
    if wanted:
        print(f"counterpoise {__version__}")
        raise typer.Exit


def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Exact online classification of imbalanced streams.

    Example: counterpoise learn payments.csv --label fraud --model fraud.safetensors
    """


def run() -> None:
    """Run the command line."""
    warnings.showwarning = _warn
    signal.signal(signal.SIGTERM, _terminate)
    try:
        with late.imports(() if sys.argv[1:2] in late.FRAMED else late.HIDDEN):
            code = asked(*sys.argv[1:2])(standalone_mode=False)
        _flush()
    except BrokenPipeError:
        _give_up_output()
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)
    except USAGE as error:
        shown = io.StringIO()
        error.show(shown)
        print(printable(shown.getvalue(), keep="\n"), file=sys.stderr, end="")
        sys.exit(error.exit_code)
    except ValueError as error:
        _fail(error, 2)
    except (OSError, MemoryError) as error:
        _fail(error, 1)
    except ImportError as error:
        if "pip install" not in str(error):  # what an extra brings names it
            raise
        _fail(error, 1)
    if code:
        sys.exit(code)
    if words.warned and words.strict:
        sys.exit(STRICT_EXIT)


def asked(first: str = "") -> Callable[..., Any]:
    """The command that is asked for by the first word, or all of them for a list of them."""
    if first in COMMANDS:
        return _built(first)
    return commands(() if first == "--version" else COMMANDS)


@cache
def _built(name: str) -> Callable[..., Any]:
    """One command, which a process has to build once."""
    return typer.main.get_command(commands([name]))


def _terminate(number: int, _: Any) -> None:
    sys.exit(128 + number)


def _flush() -> None:
    """Write what is still buffered now, while an error can be told."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from None


def _give_up_output() -> None:
    """Whoever was reading has gone, or the disk is full: nothing more is to be written at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(error: Exception, code: int) -> None:
    if os.environ.get("COUNTERPOISE_TRACEBACK"):
        raise error
    text = error.message.spelled(words.in_shell) if isinstance(error, DataError) else str(error)
    if isinstance(error, OSError) and error.strerror:
        name = error.filename
        if name is None and error.errno == errno.EBADF:  # as only standard output can be, see main
            name = "standard output"
        text = f"{name}: {error.strerror}" if name else error.strerror
    elif isinstance(error, MemoryError):
        text = f"out of memory {error}".strip()
    words.tell(text)
    try:
        sys.stdout.flush()
    except OSError:
        _give_up_output()
    sys.exit(code)


def _warn(message: Any, *_: Any, **__: Any) -> None:
    words.say(f"warning: {message}")
