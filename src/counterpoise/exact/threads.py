"""Scores at every step of a long stream, by several threads.

Moments add. So what the model knew in the middle of a stream is found in bulk, for a small part of
what it takes to score all rows before, and whoever knows it can go on from there: each thread has
parts of the stream. Scores are those of one thread, up to rounding.
"""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix
from counterpoise.exact import progressive
from counterpoise.exact.mapped import moments_of
from counterpoise.exact.moments import Moments
from counterpoise.exact.options import Options
from counterpoise.features import FixedMap

LEAST = 1000  # rows of a part: fewer are not worth the beginning
PARTS = 4  # for each thread: the first rows of a stream take longer than others


def scores(
    options: Options,
    moments: Moments,
    classes: Labels,
    X: Matrix,
    codes: NDArray[np.intp],
    delay: int,
    fixed: FixedMap | None,
    threads: int,
) -> Matrix:
    """What :func:`progressive.scores` returns, and does to the moments, by so many threads."""
    rows = len(X)
    parts = min(PARTS * threads, rows // LEAST)
    if threads == 1 or parts < 2:
        return progressive.scores(options, moments, classes, X, codes, delay, fixed)
    ends = [i * rows // parts for i in range(parts + 1)]
    halt, futures = threading.Event(), []
    with ThreadPoolExecutor(threads) as pool:
        try:
            for first, last in pairwise(ends):
                seen = max(first - delay, 0)  # rows whose labels have arrived
                own = moments if last == rows else moments.copy()
                steps = range(first - seen, (last if last < rows else rows + delay) - seen)
                part = X[seen:last], codes[seen:last]
                futures.append(
                    pool.submit(
                        progressive.scores, options, own, classes, *part, delay, fixed, steps, halt
                    )
                )
                if last < rows:
                    arrived = slice(seen, max(last - delay, 0))
                    _learn(moments, options, X[arrived], codes[arrived], fixed)
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
            return np.concatenate([future.result() for future in futures])
        except BaseException:
            halt.set()  # else an error, or a signal, would wait for all parts
            raise


def _learn(
    moments: Moments,
    options: Options,
    X: Matrix,
    codes: NDArray[np.intp],
    fixed: FixedMap | None,
) -> None:
    """Let moments learn rows in bulk."""
    rows_of = [np.flatnonzero(codes == k) for k in range(len(moments.n))]
    life, extremes = options.half_life, len(moments.low) > 0
    chunk = moments_of(X, rows_of, moments.labels, None, life, extremes, moments.anchor, fixed)
    moments.follow(chunk, life)
