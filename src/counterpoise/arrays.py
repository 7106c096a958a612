"""Types of arrays, shared values, threads of products, and labels concatenated without rounding."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Labels = NDArray[Any]
Flags = NDArray[np.bool_]
Rows = Any  # a C-ordered float64 matrix, or a CSR one
Counts = NDArray[np.int64]
SomeValue = TypeVar("SomeValue")


class Value:
    """Object that never changes, except for its caches, so that copies share it.

    A copy of its attributes could fail while another thread fills a cache.
    """

    def __deepcopy__(self: SomeValue, memo: dict[int, Any]) -> SomeValue:
        return self


_context = threading.local()


def is_sparse(X: Rows) -> bool:
    """Return whether rows are a CSR matrix; SciPy is not loaded for rows that are not."""
    return not isinstance(X, np.ndarray)


def to_dense(X: Rows) -> Matrix:
    """Return rows as a matrix, without a copy if they are one."""
    dense: Matrix = X if isinstance(X, np.ndarray) else X.toarray()
    return dense


def scatters(c: int, d: int) -> NDArray[np.float64]:
    """Return zeros (c, d, d) that begin at a line of the cache, where sums are faster."""
    size = c * d * d
    store = np.zeros(size + 7)
    at = -store.__array_interface__["data"][0] % 64 // 8
    return store[at : at + size].reshape(c, d, d)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let products take one thread in this context."""
    libraries, is_entered = _libraries(), getattr(_context, "is_entered", False)
    # To set one thread again takes longer than to learn few rows.
    if is_entered or all(one.num_threads == 1 for one in libraries.lib_controllers):
        yield
        return
    with libraries.limit(limits=1):
        _context.is_entered = True
        try:
            yield
        finally:
            _context.is_entered = False


@cache
def _libraries() -> Any:
    """Return the libraries of this process; the search takes longer than to learn a few rows."""
    from threadpoolctl import ThreadpoolController  # not needed to predict a few rows

    return ThreadpoolController().select(user_api="blas")


def sort_unique(y: Labels) -> Labels:
    """Return the different ones of n labels, sorted; np.unique makes more calls and imports."""
    ordered = np.sort(y)
    is_first = np.ones(len(y), dtype=bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]


MAX_COMPARED_LABELS = (
    4  # different labels that are found by comparing, which is faster than sorting
)


def distinct_labels(y: Labels) -> list[Any]:
    """Return the different ones of n labels, sorted."""
    found: list[Any] = []
    while y.dtype.kind in "Uib" and len(y) and len(found) < MAX_COMPARED_LABELS:
        found.append(y[0].item())
        y = y[y != y[0]]
    return sorted([*found, *sort_unique(y).tolist()])


def concatenate_labels(one: Labels, two: Labels) -> Labels:
    """Return labels of both; raise if two would become the same by rounding.

    NumPy makes floats of integers with and without a sign, and some of them then collide.
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
                f"label {lost[0]} would be rounded to join the others, {result.dtype} numbers; use "
                "text for labels"
            )
    return result


def groups(codes: NDArray[np.intp], c: int) -> list[NDArray[np.intp]]:
    """Return the rows of each code from 0 to c − 1, in order, given the code of each row."""
    if c <= 16:
        return [np.flatnonzero(codes == k) for k in range(c)]
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.cumsum(np.bincount(codes, minlength=c))[:-1])
