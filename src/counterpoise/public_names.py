"""Public names: imported at their first use, so that commands start fast, and documented once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

EXTRAS = {"matplotlib": "plots", "pyarrow": "cli", "xxhash": "cli"}  # by dependency
PARAMETERS = "\n\nParameters\n----------\n"
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


def document_like(source: Callable[..., Any]) -> Callable[[Method], Method]:
    """Return a decorator that appends sections of another docstring to a method's summary.

    These are the parameters that the method has, and the results.
    """

    def decorate(method: Method) -> Method:
        text, summary = inspect.getdoc(source), inspect.getdoc(method)
        if text is not None and summary is not None:  # python -OO has no docstrings
            sections = text.partition("\n\nExamples\n")[0].partition(PARAMETERS)[2]
            parameters, _, others = sections.partition("\n\n")
            mine = inspect.signature(method).parameters
            entries = re.split(r"\n(?=\S)", parameters)
            kept = [entry for entry in entries if re.split(r"\W", entry)[0] in mine]
            text = "\n\n".join([summary + PARAMETERS + "\n".join(kept), others])
            method.__doc__ = f"{text.rstrip()}\n"
        return method

    return decorate
