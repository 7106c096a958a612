"""Work on both cores, in pieces whose results are kept, so that an interrupted run resumes.

A piece is a function of this package and its arguments; its result is what JSON can hold. It is
kept under a name made from its arguments and from all code that may decide about it: counterpoise
as a whole, wherever its files lie, except for the folders of ``APART``, and, of this package, the
function's file and every file that it imports. A change of any of them computes the piece again.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info, threadpool_limits

import counterpoise
from counterpoise.atomic_write import atomic_write

from .datasets import SETS
from .protocol import RUNS

ROOT = Path(__file__).parent
APART = ("cli", "spark")  # what reads commands and talks to Spark: no number passes through it
# Of an installed package, which has no sources of its compiled modules, these themselves.
SOURCES = ("*.py", "*.pyx", "*.pxd", "*.h", "meson.build", "*.so", "*.pyd")
QUICK = ("monks-3", "wpbc", "sonar", "breast-cancer-w", "blood-transfusion", "pima-diabetes")


@dataclass(frozen=True)
class Settings:
    """Settings of a run and the folder of its results."""

    out: Path = ROOT
    runs: int = RUNS
    sets: tuple[str, ...] = tuple(SETS)
    stratified: bool = False
    scale_on: str = "train"
    full: bool = False
    quick: bool = False
    workers: int = os.cpu_count() or 1

    @property
    def keep(self) -> Path:
        """Folder of what is done already, not tracked."""
        return self.out / "cache"

    @property
    def results(self) -> Path:
        """Folder of the tracked tables."""
        return self.out / "results"

    @property
    def figures(self) -> Path:
        """Folder of the tracked figures."""
        return self.out / "figures"

    @property
    def is_tracked(self) -> bool:
        """True if these are the settings of the tracked results."""
        return not (self.quick or self.full or self.stratified or self.scale_on != "train")

    def claim(self) -> None:
        """Raise if the folder holds results of other settings; else note them there."""
        mine = {"runs": self.runs, "sets": list(self.sets), "stratified": self.stratified}
        mine |= {"scale_on": self.scale_on, "full": self.full}
        note = self.results / "settings.json"
        self.results.mkdir(parents=True, exist_ok=True)
        if note.exists() and (before := json.loads(note.read_text())) != mine:
            other = [f"{k} was {before.get(k)!r}" for k in mine if before.get(k) != mine[k]]
            raise ValueError(
                f"{self.out} contains results of other settings ({'; '.join(other)[:300]}); give "
                "another folder with --out"
            )
        with atomic_write(note, note.name) as file:
            file.write((json.dumps(mine, indent=1) + "\n").encode())

    def note_machine(self, stage: str) -> None:
        """Record in results/machine.json with what versions and on what machine a stage ran."""
        note = self.results / "machine.json"
        found = json.loads(note.read_text()) if note.exists() else {}
        found[stage] = machine()
        with atomic_write(note, note.name) as file:
            file.write((json.dumps(dict(sorted(found.items())), indent=1) + "\n").encode())


def machine(*packages: str) -> dict[str, Any]:
    """Return versions, BLAS, processor and system of this process, without any path."""
    processor = platform.processor() or platform.machine()
    listed = Path("/proc/cpuinfo").read_text() if os.path.exists("/proc/cpuinfo") else ""
    for line in listed.splitlines():
        if line.startswith("model name"):
            processor = line.split(":", 1)[1].strip()
            break
    blas = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    names = ("counterpoise", "numpy", "scipy", "scikit-learn", *packages)
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in names},
        "blas": sorted({f"{p['internal_api']} {p['version']} {p['architecture']}" for p in blas}),
        "processor": processor,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def run(
    settings: Settings,
    title: str,
    work: Callable[..., Any],
    arguments: Iterable[tuple[Any, ...]],
    alone: bool = False,
) -> list[Any]:
    """Results of ``work(*a)`` for all arguments, in their order.

    Parameters
    ----------
    settings : Settings
        Where results are kept, and how many processes work.
    title : str
        For the progress bar.
    work : callable
        A function of a module.
    arguments : iterable of tuple
        Of what JSON can hold.
    alone : bool, default=False
        One piece at a time, in this process: for times.
    """
    listed = list(arguments)
    folder = settings.keep / work.__name__
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{_key(work, a)}.json" for a in listed]
    todo = [i for i, path in enumerate(paths) if not path.exists()]
    with _Bar(title, len(listed)) as bar:
        bar.step(len(listed) - len(todo))
        if alone or settings.workers == 1:
            with threadpool_limits(1):
                for i in todo:
                    _keep(paths[i], work(*listed[i]))
                    bar.step()
        elif todo:
            with ProcessPoolExecutor(
                settings.workers, initializer=threadpool_limits, initargs=(1,)
            ) as pool:
                futures = {pool.submit(work, *listed[i]): i for i in todo}
                try:
                    for done in as_completed(futures):
                        _keep(paths[futures[done]], done.result())
                        bar.step()
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
    return [json.loads(path.read_text()) for path in paths]


def _keep(path: Path, result: Any) -> None:
    with atomic_write(path, "a result") as file:
        file.write(json.dumps(result).encode())


def _key(work: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    file = Path(inspect.getsourcefile(work) or "")
    code = fingerprint(Path(counterpoise.__file__).parent, file)
    text = json.dumps([code, work.__name__, arguments])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@cache
def fingerprint(root: Path, file: Path) -> str:
    """Return a hash of all code that can influence the result of a function."""
    versions = f"{np.__version__} {scipy.__version__} {sklearn.__version__}"
    seen = hashlib.sha256(versions.encode())
    for path in [*deciding(root), *list_imports(file)]:
        seen.update(path.read_bytes())
    return seen.hexdigest()


def deciding(root: Path) -> list[Path]:
    """Sources of a package that may decide about numbers: all but what is set apart."""
    apart = {root / one for one in APART}
    found = sorted(path for kind in SOURCES for path in root.rglob(kind))
    return [path for path in found if apart.isdisjoint([path, *path.parents])]


def list_imports(file: Path) -> list[Path]:
    """Return a file of a package and the files that it imports by relative names, recursively."""
    found: dict[Path, None] = {}
    todo = [file]
    while todo:
        path = todo.pop()
        if path in found or not path.exists():
            continue
        found[path] = None
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == 1:
                folder = path.parent.joinpath(*(node.module or "").split("."))
                names = [folder / alias.name for alias in node.names] + [folder]
                todo += [one.with_suffix(".py") for one in names]
                todo += [one / "__init__.py" for one in names]
    return sorted(found)


class _Bar:
    """A bar on a terminal, nothing anywhere else."""

    def __init__(self, title: str, total: int) -> None:
        self.bar: Any = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress

            self.bar = Progress(console=Console(stderr=True))
            self.task = self.bar.add_task(title, total=total)

    def __enter__(self) -> _Bar:
        if self.bar is not None:
            self.bar.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self.bar is not None:
            self.bar.__exit__(*error)

    def step(self, pieces: int = 1) -> None:
        """Count pieces that are done."""
        if self.bar is not None:
            self.bar.advance(self.task, pieces)
