"""Public names: imported at their first use, so that commands start fast, and documented once."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

EXTRAS = {"matplotlib": "plots", "pyarrow": "cli", "xxhash": "cli"}  # by dependency
Method = TypeVar("Method", bound=Callable[..., Any])


def resolve(package: str, modules: Mapping[str, str], name: str) -> Any:
    """Return a public name of a package from its module, which may be the name itself."""
    if name not in modules:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    try:
        module = import_module(f"{package}.{modules[name]}")
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        text = f"{name} requires {error.name}: pip install 'counterpoise[{EXTRAS[error.name]}]'"
        raise ImportError(text, name=error.name) from error
    return module if name == modules[name] else getattr(module, name)


def lazy_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package that imports names at their first use."""

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return partial(resolve, package, modules), list_names


def document_like(source: Callable[..., Any]) -> Callable[[Method], Method]:
    """Return a decorator that completes a docstring by sections of another docstring.

    It adds the parameters that the function has, and the results unless the function describes
    its own.
    """

    def decorate(method: Method) -> Method:
        text, mine = inspect.getdoc(source), inspect.getdoc(method)
        if text is not None and mine is not None:  # python -OO has no docstrings
            theirs, own = _sections(text), _sections(mine)
            entries = _entries(theirs.pop("Parameters")) | _entries(own.pop("Parameters", ""))
            names = inspect.signature(method).parameters
            kept = [entries[name] for name in names if name in entries]
            results = {title: theirs[title] for title in ("Returns", "Yields") if title in theirs}
            summary = own.pop("")
            parameters = "\n".join(["Parameters", "----------", *kept])
            method.__doc__ = "\n\n".join([summary, parameters, *(results | own).values()]) + "\n"
        return method

    return decorate


def _sections(text: str) -> dict[str, str]:
    """Return the sections of a docstring by title; the text before them has none."""
    summary, *sections = re.split(r"\n\n(?=\w+\n---)", text.rstrip())
    return {"": summary, **{section.partition("\n")[0]: section for section in sections}}


def _entries(section: str) -> dict[str, str]:
    """Return the entries of a section by the name of the parameter."""
    entries = re.split(r"\n(?=\w)", section)[1:]
    return {re.split(r"\W", entry)[0]: entry for entry in entries}
