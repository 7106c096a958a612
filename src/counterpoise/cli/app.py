"""The commands, and what becomes of their errors: words to standard error, and an exit code."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Annotated, Any

import typer

from counterpoise import __version__
from counterpoise.cli import messages
from counterpoise.errors import DataError, printable

FRAMES = ("narwhals", "narwhals.stable", "narwhals.stable.v2")
LAZY_MODULES = (*FRAMES, "scipy.special", "scipy.stats", "numpy.f2py", "numpy.testing")
HIDDEN = ("pandas",)
COMMANDS_NEEDING_PANDAS = (["export"], ["benchmark"])  # commands to which nothing is hidden


@contextmanager
def lazy_imports(hidden: Sequence[str] = HIDDEN) -> Iterator[None]:
    """Let imports wait for as long as this lasts."""
    finder = _Finder(hidden)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder:
    """Finds modules that wait, and does not find those that are hidden."""

    def __init__(self, hidden: Sequence[str]) -> None:
        self.hidden = hidden

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name in self.hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if name not in LAZY_MODULES:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
        return spec


class _Loader:
    """Loads nothing yet."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def create_module(self, spec: ModuleSpec) -> Any:
        return self.real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__class__ = _Module


class _Module(ModuleType):
    """A module that is loaded by the first use of what is in it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or self.__spec__ is None:  # the machinery of imports looks around
            raise AttributeError(name)
        self.__class__ = ModuleType  # type: ignore[assignment]
        self.__spec__.loader = self.__spec__.loader.real  # type: ignore[union-attr]
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


STRICT_EXIT = 3  # exit code of --strict after warnings
USAGE: Any = typer.BadParameter.__mro__[2]  # ClickException: of click, or of the copy within typer
MODULES = {
    "inspect": "model_files",
    "merge": "model_files",
    "check": "model_files",
    "export": "model_files",
    "relabel": "unlearn",
}  # of commands that share a module
# One line each in the list of commands, which would cut longer ones.
COMMANDS = {
    "learn": "Learn the rows of files that were not learned yet.",
    "predict": "Predict the rows of files, in order and in constant memory.",
    "benchmark": "Compare the exact model with other methods on one stream.",
    "evaluate": "Compare the predictions of a model with the labels in files.",
    "inspect": "Show what is in a model file.",
    "merge": "Make one model of several.",
    "unlearn": "Take the rows of files back, as if they had never been learned.",
    "relabel": "Learn rows with another label than before.",
    "check": "List every problem of files without learning.",
    "export": "Export a model: JSON, ONNX or scikit-learn.",
    "ledger": "Models of any time and any segment, from sums.",
}


def commands(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The command line."""
    app = typer.Typer(
        name="counterpoise",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(options)
    for name in names:
        command = getattr(import_module(f"counterpoise.cli.{MODULES.get(name, name)}"), name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, short_help=COMMANDS[name])
        else:
            app.command(short_help=COMMANDS[name])(messages.with_option_groups(command))
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
        with lazy_imports(() if sys.argv[1:2] in COMMANDS_NEEDING_PANDAS else HIDDEN):
            code = resolve_command(*sys.argv[1:2])(standalone_mode=False)
        _flush()
    except BrokenPipeError:
        _silence_stdout()
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
    if messages.warned and messages.strict:
        sys.exit(STRICT_EXIT)


def resolve_command(first: str = "") -> Callable[..., Any]:
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


def _silence_stdout() -> None:
    """Whoever was reading has gone, or the disk is full: nothing more is to be written at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(error: Exception, code: int) -> None:
    if os.environ.get("COUNTERPOISE_TRACEBACK"):
        raise error
    text = (
        error.message.spelled(messages.format_as_options)
        if isinstance(error, DataError)
        else str(error)
    )
    if isinstance(error, OSError) and error.strerror:
        name = error.filename
        if name is None and error.errno == errno.EBADF:  # as only standard output can be, see main
            name = "standard output"
        text = f"{name}: {error.strerror}" if name else error.strerror
    elif isinstance(error, MemoryError):
        text = f"out of memory {error}".strip()
    messages.write_message(text)
    try:
        sys.stdout.flush()
    except OSError:
        _silence_stdout()
    sys.exit(code)


def _warn(message: Any, *_: Any, **__: Any) -> None:
    messages.info(f"warning: {message}")
