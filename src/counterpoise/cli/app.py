"""The commands, and what becomes of their errors: words to standard error, and an exit code."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from typing import Annotated, Any

import typer

from counterpoise import __version__
from counterpoise.cli.data import data
from counterpoise.cli.evaluate import evaluate
from counterpoise.cli.export import export
from counterpoise.cli.forget import forget
from counterpoise.cli.inspect import inspect
from counterpoise.cli.learn import learn
from counterpoise.cli.merge import merge
from counterpoise.cli.predict import predict
from counterpoise.cli.race import race

app = typer.Typer(
    name="counterpoise",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (learn, predict, race, evaluate, inspect, merge, forget, export):
    app.command()(command)
app.add_typer(data, name="data")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"counterpoise {__version__}")
        raise typer.Exit


@app.callback()
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
        app()
    except BrokenPipeError:
        # Whoever was reading has gone; what is still buffered must not be written either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)
    except ValueError as error:
        _fail(error, 2)
    except (OSError, MemoryError) as error:
        _fail(error, 1)


def _terminate(number: int, _: Any) -> None:
    sys.exit(128 + number)


def _fail(error: Exception, code: int) -> None:
    if os.environ.get("COUNTERPOISE_TRACEBACK"):
        raise error
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    elif isinstance(error, MemoryError):
        text = f"out of memory {error}".strip()
    say(text)
    sys.exit(code)


def say(text: str) -> None:
    """Write words to standard error.

    Parameters
    ----------
    text : str
        The words.
    """
    print(f"counterpoise: {text}", file=sys.stderr)


def _warn(message: Any, *_: Any, **__: Any) -> None:
    say(f"warning: {message}")
