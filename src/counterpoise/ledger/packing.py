"""A cell as bytes: the moments of one class, with the lower triangle of its scatter.

Row i of the triangle has i + 1 numbers, so that a feature that comes late is a row at its end: a
cell that was written before it is widened by zeros. ``peak`` and ``removed`` are only written where
rows were ever removed; else they follow from the scatter.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix
from counterpoise.exact.moments import Moments

WORD = 8  # bytes of a number


def triangle(d: Any) -> Any:
    """Return how many numbers the triangle of d features has."""
    return d * (d + 1) // 2


@lru_cache(maxsize=8)
def places(d: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns of the numbers of a triangle."""
    return np.tril_indices(d)


def folded(C: Matrix) -> Matrix:
    """Symmetric matrices (..., d, d) as triangles (..., d(d+1)/2)."""
    i, j = places(C.shape[-1])
    return np.ascontiguousarray(C[..., i, j])


def unfolded(tri: Matrix, d: int) -> Matrix:
    """Triangles (..., d(d+1)/2) as symmetric matrices (..., d, d)."""
    i, j = places(d)
    C = np.empty((*tri.shape[:-1], d, d))
    C[..., i, j] = tri
    C[..., j, i] = tri
    return C


def layout(d: int, removed: bool) -> dict[str, slice]:
    """Where what is in a cell of d features, counted in numbers."""
    sizes = {"anchor": d, "mean": d, "C": triangle(d), "away": 2 * d, "marks": 2 * (1 + d)}
    if removed:
        sizes |= {"peak": d, "removed": 2 * d}
    result, at = {}, 0
    for name, size in sizes.items():
        result[name] = slice(at, at + size)
        at += size
    return result


def size_of(d: Any, removed: Any) -> Any:
    """Return the bytes of a cell, or of each of several."""
    return WORD * (2 * d + triangle(d) + 2 * d + 2 * (1 + d) + 3 * d * removed)


def packed(cell: Moments) -> tuple[bytes, bool]:
    """The moments of one class as bytes, and whether rows were removed from them."""
    d = len(cell.anchor)
    least = np.maximum(cell.C[0].diagonal(), 0.0)
    removed = bool(cell.removed.any() or not np.array_equal(cell.peak[0], least))
    parts = [cell.anchor, cell.mean[0], folded(cell.C[0]), cell.away[0], cell.marks[0]]
    if removed:
        parts += [cell.peak[0], cell.removed[0]]
    data = b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
    assert len(data) == size_of(d, removed)
    return data, removed


def unpacked(
    data: bytes, d: int, removed: bool, label: Labels, weight: tuple[float, float, float], wide: int
) -> Moments:
    """The moments of one class, widened to so many features; weight is n, rest and lightest."""
    numbers, where = np.frombuffer(data), layout(d, removed)
    cell = Moments(label, np.zeros(wide))
    cell.n[:], cell.rest[:], cell.lightest[:] = weight
    cell.N[:] = cell.stream[:] = cell.n
    cell.anchor[:d], cell.mean[0, :d] = numbers[where["anchor"]], numbers[where["mean"]]
    cell.C[0, :d, :d] = unfolded(numbers[where["C"]], d)
    cell.away[0, 1] = cell.n[0]
    cell.away[0, :, :d] = numbers[where["away"]].reshape(2, d)
    cell.marks[0, :, : 1 + d] = numbers[where["marks"]].view(np.uint64).reshape(2, 1 + d)
    if removed:
        cell.peak[0, :d] = numbers[where["peak"]]
        cell.removed[0, :, :d] = numbers[where["removed"]].reshape(2, d)
    else:
        cell.peak[0] = np.maximum(cell.C[0].diagonal(), 0.0)
    return cell
