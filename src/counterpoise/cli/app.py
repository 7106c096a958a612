"""The commands, and their errors: a message to standard error and an exit code."""

from __future__ import annotations

import errno
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
from typer.core import TyperCommand

from counterpoise import __version__
from counterpoise.cli import messages
from counterpoise.errors import DataError, suggest

FRAMES = ("narwhals", "narwhals.stable", "narwhals.stable.v2")
LAZY_MODULES = (
    *FRAMES, "numpy.f2py", "numpy.testing", "pyarrow.compute", "pyarrow.parquet", "scipy.linalg",
    "scipy.sparse", "scipy.special", "scipy.stats",
)  # fmt: skip
# Compiled modules of a lazy package that do not need it.
INDEPENDENT_MODULES = ("scipy.linalg.cython_blas", "scipy.linalg.cython_lapack")
HIDDEN = ("pandas",)
COMMANDS_NEEDING_PANDAS = (["export"], ["benchmark"])


@contextmanager
def lazy_imports(hidden: Sequence[str] = HIDDEN) -> Iterator[None]:
    """Delay the import of LAZY_MODULES to their first use, and hide modules, inside the context."""
    if FINDER not in sys.meta_path:
        sys.meta_path.insert(0, FINDER)
    FINDER.hidden, FINDER.lazy = hidden, LAZY_MODULES
    try:
        yield
    finally:
        FINDER.hidden = FINDER.lazy = ()


class _Finder:
    """Finder of lazy modules, which does not find hidden ones and loads packages before parts."""

    hidden: Sequence[str] = ()
    lazy: Sequence[str] = ()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name in self.hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if name not in self.lazy:
            package = sys.modules.get(name.rpartition(".")[0])
            if not isinstance(package, _Module) or name in INDEPENDENT_MODULES:
                return None
            package.load()
            return _PackageLoader.spec(sys.modules[name]) if name in sys.modules else None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
        return spec


FINDER = _Finder()


class _Loader:
    """Loader that leaves the module empty until its first use."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def create_module(self, spec: ModuleSpec) -> Any:
        return self.real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__class__ = _Module


class _PackageLoader:
    """Loader of a module that its package has imported."""

    def __init__(self, module: ModuleType) -> None:
        self.module, self.real = module, module.__spec__

    @classmethod
    def spec(cls, module: ModuleType) -> ModuleSpec:
        """Return the specification of a module that is loaded."""
        return ModuleSpec(module.__name__, cls(module))  # type: ignore[arg-type]

    def create_module(self, _: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.real


class _Module(ModuleType):
    """Module that is loaded when one of its names is used, or a module in it is imported."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # read by the import system
            raise AttributeError(name)
        self.load()
        return getattr(self, name)

    def load(self) -> None:
        """Run the code of the module."""
        spec: Any = self.__spec__
        self.__class__ = ModuleType  # type: ignore[assignment]
        spec.loader = spec.loader.real
        spec.loader.exec_module(self)


STRICT_EXIT = 3  # exit code of --strict after warnings
USAGE: Any = typer.BadParameter.__mro__[2]  # ClickException: of click, or of the copy within typer
MODULES = {
    "inspect": "model_files",
    "merge": "model_files",
    "check": "model_files",
    "export": "model_files",
    "unlearn": "model_files",
    "relabel": "model_files",
}  # of commands that share a module
# One line each in the list of commands, which would cut longer ones.
COMMANDS = {
    "learn": "Learn the rows of files that were not learned yet.",
    "predict": "Predict the rows of files, in order and in constant memory.",
    "benchmark": "Compare the exact model with other methods on one stream.",
    "evaluate": "Compare the predictions of a model with the labels in files.",
    "inspect": "Show what is in a model file.",
    "merge": "Make one model of several.",
    "unlearn": "Unlearn rows exactly.",
    "relabel": "Learn rows with another label than before.",
    "check": "List every problem of files without learning.",
    "export": "Export a model: JSON, ONNX or scikit-learn.",
    "ledger": "Models of any time and any segment, from moments.",
    "serve": "Predict and learn over HTTP.",
}

ONLY_NAMES = ("", "-h", "--help", "--version")  # arguments that list commands, or need none


class PanelCommand(TyperCommand):
    """Command whose help lists options by panel, without boxes."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each panel."""
        panels: dict[str, list[Any]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                usual = f"{parameter.param_type_name}s".capitalize()
                panel = getattr(parameter, "rich_help_panel", None) or usual
                name = record[0].split(" <")[0]  # without the type of an argument
                panels.setdefault(panel, []).append((name, record[1]))
        for panel, records in panels.items():
            if records:
                with formatter.section(panel):
                    formatter.write_dl(records)


def commands(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Return the command line."""
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
            for inner in command.registered_commands:
                inner.cls = PanelCommand
        else:
            made = messages.with_option_groups(command)
            app.command(cls=PanelCommand, short_help=COMMANDS[name])(made)
    return app


def _version(is_set: bool) -> None:
    if is_set:
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
            code = resolve_command(*sys.argv[1:2])(standalone_mode=False, prog_name="counterpoise")
        _flush()
    except BrokenPipeError:
        _silence_stdout()
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)
    except USAGE as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), file=sys.stderr)
            sys.exit(error.exit_code)
        _fail(_usage_message(error), error.exit_code)
    except DataError as error:
        _fail(error.message.format_with(messages.format_as_options), 2)
    except ValueError as error:
        _fail(str(error), 2)
    except OSError as error:
        _fail(*_system_message(error))
    except MemoryError as error:
        _fail(f"out of memory {error}".strip(), 1)
    except ImportError as error:
        if "pip install" not in str(error):  # the message of an extra that is not installed
            raise
        _fail(str(error), 1)
    if code:
        sys.exit(code)
    if messages.warned and messages.strict:
        sys.exit(STRICT_EXIT)


def resolve_command(first: str = "") -> Callable[..., Any]:
    """Return the command that the first argument names, or all commands."""
    if first in COMMANDS:
        return _build(first)
    if first not in ONLY_NAMES:
        return commands()
    app = commands(())
    for name, text in COMMANDS.items():
        app.command(name, short_help=text)(lambda: None)
    return app


@cache
def _build(name: str) -> Callable[..., Any]:
    """Build one command, once in a process."""
    return typer.main.get_command(commands([name]))


def _terminate(number: int, _: Any) -> None:
    sys.exit(128 + number)


def _flush() -> None:
    """Write buffered output now, while an error can still be reported."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from None


def _silence_stdout() -> None:
    """Discard buffered output, so that it causes no error at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage_message(error: Any) -> str:
    """Return the message about arguments that do not match the command."""
    text: str = error.format_message()
    kind, command = type(error).__name__, error.ctx and error.ctx.command
    if kind == "NoSuchOption" or text.startswith("No such command"):
        if kind == "NoSuchOption":
            what, name = "option", error.option_name
            known = [one for parameter in command.params for one in parameter.opts]
        else:
            what, name, known = "command", text.split("'")[1], command.commands
        try_help = f"ry '{error.ctx.command_path} --help'"
        close = [f"{one.words} T" for one in suggest(name, known)] or ["t"]
        return f"unknown {what} {name!r}; {close[0]}{try_help}"
    if kind == "BadOptionUsage":
        return f"{error.option_name} requires a value"
    parameter = getattr(error, "param", None)
    if parameter is None:
        return f"{text[0].lower()}{text[1:].rstrip('.')}"
    name = next((one for one in parameter.opts if one.startswith("--")), parameter.metavar)
    if kind == "MissingParameter":
        return f"missing {name}"
    found = error.__cause__.errors()[0]["input"] if hasattr(error.__cause__, "errors") else None
    found = repr(found) if found is not None else error.message.split(" is not ")[0]
    number = "an integer" if "int" in error.message else "a number"
    return f"{name} must be {number}; got {found}"


def _system_message(error: OSError) -> tuple[str, int]:
    """Return the message about an error of the system, and the exit code."""
    name = error.filename
    if name is None and error.errno == errno.EBADF:  # as only standard output can be, see main
        name = "standard output"
    folder = messages.missing_folder(name) if isinstance(name, str) else None
    if error.errno == errno.ENOENT and folder is not None:
        return f"folder {folder} does not exist", 2
    text = error.strerror or str(error)
    return f"{name}: {text}" if name else text, 1


def _fail(text: str, code: int) -> None:
    """Print the message of the present error, and exit."""
    if os.environ.get("COUNTERPOISE_TRACEBACK"):
        raise
    messages.write_message(text)
    try:
        sys.stdout.flush()
    except OSError:
        _silence_stdout()
    sys.exit(code)


def _warn(message: Any, *_: Any, **__: Any) -> None:
    messages.info(f"warning: {message}")
