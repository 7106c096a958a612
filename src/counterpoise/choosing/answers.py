"""Answers while a stream runs: what is asked for, and the average that answers for a while."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from counterpoise.arrays import Labels, Matrix, Vector
from counterpoise.choosing.average import Average
from counterpoise.exact.classes import problems, winners
from counterpoise.exact.fading import HalfLife, by_rows
from counterpoise.exact.scores import Scores

LEAST, MOST = 16, 16_384  # rows between two averages of a stream, at least and at most


class Asked(NamedTuple):
    """Where the scores of rows go, the classes that they are for, and how late labels are."""

    into: Matrix
    classes: Labels
    delay: int


class Current(NamedTuple):
    """The average as it was after some rows, its classes, and the rows at which it is due again."""

    average: Average
    labels: Labels
    due: int
    linked: Scores | None = None  # of the best candidate; none if a class has no row yet

    def best_of(self, f: Vector) -> Any:
        """Label of a row that has these scores."""
        return self.labels[int(winners(f))]

    def probabilities_of(self, f: Vector, classes: Labels) -> Vector:
        """Probabilities of a row that has these scores; 0 for classes that were not known then."""
        assert self.linked is not None
        result = np.zeros(len(classes))
        p = self.linked.probabilities(f[None], stream=False)[0]
        result[np.searchsorted(classes, self.labels)] = p
        return result


def next_average(rows: int, half_life: HalfLife) -> int:
    """Rows at which an average of so many rows is brought up to date.

    A decomposition of d terms takes about as long as learning 4 d rows, so that from 100 d rows on
    looks take no more than a seventh of the time.
    """
    life = by_rows(half_life)
    most = MOST if life is None else max(int(life) // 3, LEAST)
    return rows + min(max(rows // 3, LEAST), most)


def among(f: Matrix, labels: Labels, classes: Labels) -> Matrix:
    """Scores of some classes as those of more, which score −∞ if they are not known."""
    if problems(len(classes)) == 1:
        return f
    known = np.hstack([-f, f]) if f.shape[1] == 1 else f
    result = np.full((len(f), len(classes)), -np.inf)
    result[:, np.searchsorted(classes, labels)] = known
    return result


def warn_of_one_class(label: Any, rows: int) -> None:
    """Say that all rows by which maps were fixed are of one class."""
    warnings.warn(
        f"all of the first {rows:,} rows are of class {label!r}, and the maps of the candidates "
        "are fixed by them: shuffle the rows if they are sorted",
        UserWarning,
        stacklevel=6,
    )
