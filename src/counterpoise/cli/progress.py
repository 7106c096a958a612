"""Live progress on a terminal, and nothing anywhere else."""

from __future__ import annotations

import sys
import time
from typing import Any

from counterpoise.cli import words
from counterpoise.printable import printable


class Progress:
    """One line that is written again and again: a bar, rows, speed, and what else there is to say.

    Parameters
    ----------
    shown : bool, optional
        Whether to show anything; by default if standard error is a terminal. Never with --quiet.
    """

    def __init__(self, shown: bool | None = None) -> None:
        self.shown = (sys.stderr.isatty() if shown is None else shown) and not words.quiet
        self._bar: Any = None
        self._task: Any = None
        self._began = self._last = 0.0
        self._rows = 0

    def __enter__(self) -> Progress:
        if self.shown:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as Bar

            columns = [
                TextColumn("{task.description}", markup=False),
                BarColumn(20),
                TextColumn("{task.fields[says]}", markup=False),
            ]
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._bar.__enter__()
            self._task = self._bar.add_task("", total=None, says="")
        self._began = time.monotonic()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)

    @property
    def due(self) -> bool:
        """Whether it is time to look again."""
        return self.shown and time.monotonic() - self._last > 0.1

    def advance(self, rows: int) -> None:
        """Count rows.

        Parameters
        ----------
        rows : int
            How many more.
        """
        self._rows += rows

    def chunk(self, source: Any, rows: int) -> None:
        """Count rows of an input, and show it if it is time.

        Parameters
        ----------
        source : Source
            The input.
        rows : int
            How many more.
        """
        self.advance(rows)
        if self.due:
            self.show(source.name, source.done(), "")

    def show(self, name: str, done: tuple[int, int], says: str) -> None:
        """Write the line again.

        Parameters
        ----------
        name : str
            The input.
        done : (int, int)
            How much of it was read, and how much there is, or 0.
        says : str
            What else there is to say.
        """
        if self._bar is None:
            return
        self._last = time.monotonic()
        speed = self._rows / max(self._last - self._began, 1e-9)
        self._bar.update(
            self._task,
            description=printable(name),
            completed=done[0],
            total=done[1] or None,
            says=f"{self._rows:,} rows, {speed:,.0f}/s{printable(says)}",
        )
