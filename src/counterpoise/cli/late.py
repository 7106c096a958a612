"""Imports that can wait: half of the time of a short command would go into them.

scikit-learn and SciPy import modules that no command uses for its rows. While a command runs, these
are loaded when something of them is first asked for. pandas, where it is installed, is imported by
others only to find out whether they were given data frames, which no command does but ``export``
and models of river in ``race``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

FRAMES = ("narwhals", "narwhals.stable", "narwhals.stable.v2")
LATE = (*FRAMES, "scipy.special", "scipy.stats", "numpy.f2py", "numpy.testing")
HIDDEN = ("pandas",)
FRAMED = (["export"], ["race"])  # commands to which nothing is hidden


@contextmanager
def imports(hidden: Sequence[str] = HIDDEN) -> Iterator[None]:
    """Let imports wait for as long as this lasts.

    Parameters
    ----------
    hidden : sequence of str
        Modules that are as if they were not installed, unless they were imported before.
    """
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
        if name not in LATE:
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
