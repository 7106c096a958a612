"""Strangers: rows that were never learned, and what moments can tell of them.

Moments hold no rows. But no rows leave a class with fewer rows than none, nor with fewer in which a
feature is 0 or 1, nor with a scatter that is not positive semidefinite; and when a class is empty,
the marks of what went must be those of what came, or its mean and scatter, to rounding. A stranger
that lies among many rows breaks none of these laws.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.lapack import dpotrf

from counterpoise.arrays import Vector

if TYPE_CHECKING:
    from counterpoise.exact.moments import Moments

EPS = float(np.finfo(np.float64).eps)
CRUMB = 1e-6  # of the lightest row: less is no row, but what fractions of weights were rounded to
COUNTED = 1e-9  # what rounding may do to counts of rows, relative to what they were
INDEFINITE = 1e-9  # how far from positive semidefinite rounding may take a scatter


class RemovalError(ValueError):
    """Rows cannot be removed: they were never added, or too few digits would be left."""

    def __init__(self, message: str, feature: int | None = None) -> None:
        super().__init__(message)
        self.feature = feature


class StrangerError(RemovalError):
    """Rows cannot be removed: it is certain that they, or some before them, were never added."""


def require_all_gone(before: Moments, kept: Moments, k: int, gone: Moments, j: int) -> None:
    """Raise if the rows of a class that is now empty were not those that it had.

    Where as many rows of each weight went as came, the marks of their values must vanish, too. They
    need not where only rounding tells the rows apart: a map has other last bits on another machine.
    """
    marks = kept.marks[k]
    if marks[:, 0].any() or not marks.any() or _alike(before, k, gone, j):
        return
    raise StrangerError(
        f"cannot forget the last rows of class {kept.labels.tolist()[k]!r}: what was forgotten of "
        "it is not what was learned"
    )


def _alike(before: Moments, k: int, gone: Moments, j: int) -> bool:
    """Whether mean and scatter of one class are those of another, but for rounding."""
    n, (off, _) = float(before.n[k]), before.removed[k]
    C_a, C_b = before.C[k].diagonal(), gone.C[j].diagonal()
    held = np.maximum(np.maximum(C_a, C_b), before.peak[k])
    value = np.abs(before.anchor) + np.abs(before.mean[k])
    apart = (gone.anchor - before.anchor) + gone.mean[j] - before.mean[k]
    room = 1e3 * EPS * (value + off / n) + INDEFINITE * np.sqrt(held / n)
    squares = INDEFINITE * held + n * room**2
    return bool((np.abs(apart) <= room).all() and (np.abs(C_a - C_b) <= squares).all())


def require_counted(kept: Moments, k: int, was: Vector, away: Vector, value: int) -> None:
    """Raise if more rows would go in which a feature is not, or is, ``value`` than there were."""
    n, left = float(kept.n[k]), was - away
    # More than rounding, of what was there before and of rows that go in portions.
    slack = max(
        CRUMB * float(kept.lightest[k]), COUNTED * max(n, float(was.max()), float(away.max()))
    )
    label = kept.labels.tolist()[k]
    for wrong, words in ((left < -slack, f"is not {value}"), (left > n + slack, f"is {value}")):
        if wrong.any():
            raise StrangerError(
                f"{words} in more of the rows to be forgotten of class {label!r} than were ever "
                "learned",
                int(wrong.argmax()),
            )


def indefinite(moments: Moments, k: int) -> bool:
    """Whether the scatter of a class is not positive semidefinite, by more than rounding."""
    C, peak, n, d = moments.C[k], moments.peak[k], moments.n[k], len(moments.anchor)
    # Rounding leaves this much on the diagonal: a share of the largest scatter that was held,
    # and, where nothing varies, what the values themselves are rounded to.
    value = np.abs(moments.anchor) + np.abs(moments.mean[k])
    rounding = INDEFINITE * d * peak + n * (1e6 * EPS * value) ** 2 + 1e-290
    off, begun = moments.removed[k]
    if off.any():  # and what removals did to the means
        gone = np.abs((moments.anchor - begun) + moments.mean[k])
        spread_k = np.sqrt(np.maximum(np.diagonal(C), 0.0) / max(float(n), 1e-300))
        rounding += 1e3 * EPS * off * (2.0 * gone + spread_k)
    room = np.diagonal(C) + rounding
    if not (room > 0).all():
        return True
    scaled = C / np.sqrt(room)
    scaled /= np.sqrt(room)[:, None]
    np.fill_diagonal(scaled, 1.0 + INDEFINITE)  # (C_jj + rounding) / room, and a little more
    return bool(dpotrf(scaled.T, overwrite_a=1, clean=0)[1])  # in place: it may be large
