"""Labels joined without rounding, and the rows of each."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Labels = NDArray[Any]
Flags = NDArray[np.bool_]
Rows = Any  # a C-ordered float64 matrix, or a CSR one
Counts = NDArray[np.int64]


def scatters(c: int, d: int) -> NDArray[np.float64]:
    """Zeros of shape (c, d, d) that begin at a line of the cache: rows add up faster there."""
    size = c * d * d
    store = np.zeros(size + 7)
    at = -store.__array_interface__["data"][0] % 64 // 8
    return store[at : at + size].reshape(c, d, d)


def one_thread() -> AbstractContextManager[Any]:
    """A block in which products take one thread."""
    limit: AbstractContextManager[Any] = _libraries().limit(limits=1)
    return limit


@cache
def _libraries() -> Any:
    """The libraries of this process; to look for them takes longer than to learn a few rows."""
    return ThreadpoolController().select(user_api="blas")


def joined(one: Labels, two: Labels) -> Labels:
    """Labels of one, then those of two, as what they are: no two become the same by rounding.

    NumPy makes fractions of whole numbers with and without a sign, and some of them then collide.

    Examples
    --------
    >>> joined(np.array([2**62]), np.array([2**62 + 1], dtype=np.uint64)).tolist()
    [4611686018427387904, 4611686018427387905]
    """
    if not len(one) or not len(two):
        return two if len(two) else one
    kinds = {one.dtype.kind, two.dtype.kind}
    if kinds == {"i", "u"}:
        signed = all(int(a.max()) < 2**63 for a in (one, two))
        if signed or min(int(one.min()), int(two.min())) >= 0:
            kind = np.int64 if signed else np.uint64
            return np.concatenate([one.astype(kind), two.astype(kind)])
    result: Labels = np.concatenate([one, two])
    if result.dtype.kind == "f" and kinds != {"f"}:
        values = one.tolist() + two.tolist()
        lost = [value for value, now in zip(values, result.tolist(), strict=True) if value != now]
        if lost:
            raise ValueError(
                f"label {lost[0]} cannot stand beside the others, {result.dtype} numbers: it would "
                "be rounded; use text for labels"
            )
    return result


def groups(codes: NDArray[np.intp], c: int) -> list[NDArray[np.intp]]:
    """Rows of each code from 0 to c − 1, in order, given the code of each row."""
    if c <= 16:
        return [np.flatnonzero(codes == k) for k in range(c)]
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.cumsum(np.bincount(codes, minlength=c))[:-1])
