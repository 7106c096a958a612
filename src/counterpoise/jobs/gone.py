"""Rows of an input that were taken back, by their numbers: ranges, kept in the model file."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Flags

Ranges = tuple[tuple[int, int], ...]  # from the first, counted from 0, to before the last


def count(ranges: Ranges) -> int:
    """Return how many rows there are."""
    return sum(stop - start for start, stop in ranges)


def among(ranges: Ranges, places: NDArray[np.intp]) -> Flags:
    """Return which of some rows, by their numbers, are there.

    Examples
    --------
    >>> from counterpoise.jobs.gone import among
    >>> among(((2, 4), (7, 8)), np.arange(8)).tolist()
    [False, False, True, True, False, False, False, True]
    """
    starts = np.array([start for start, _ in ranges], dtype=np.intp)
    stops = np.array([0, *(stop for _, stop in ranges)], dtype=np.intp)
    result: Flags = places < stops[np.searchsorted(starts, places, side="right")]
    return result


def with_more(ranges: Ranges, places: Iterable[int]) -> Ranges:
    """Return ranges with more rows, by their numbers.

    Examples
    --------
    >>> from counterpoise.jobs.gone import with_more
    >>> with_more(((2, 4), (7, 8)), [4, 0])
    ((0, 1), (2, 5), (7, 8))
    """
    result: list[list[int]] = []
    for start, stop in sorted([*ranges, *((place, place + 1) for place in places)]):
        if result and start <= result[-1][1]:
            result[-1][1] = max(result[-1][1], stop)
        else:
            result.append([start, stop])
    return tuple((start, stop) for start, stop in result)


def without(ranges: Ranges, places: Iterable[int]) -> Ranges:
    """Return ranges without some rows, by their numbers.

    Examples
    --------
    >>> from counterpoise.jobs.gone import without
    >>> without(((0, 4), (7, 8)), [2, 7])
    ((0, 2), (3, 4))
    """
    left = sorted(set(places))
    result: list[tuple[int, int]] = []
    for start, stop in ranges:
        for place in (place for place in left if start <= place < stop):
            result.append((start, place))
            start = place + 1
        result.append((start, stop))
    return tuple((start, stop) for start, stop in result if start < stop)
