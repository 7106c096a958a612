"""Public names that are imported at their first use, so that commands start fast."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

EXTRAS = {"matplotlib": "plots", "pyarrow": "cli", "xxhash": "cli"}  # by dependency


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
