"""Exact scores at every step: what the model thought of each row just before it learned that row.

Nothing feeds back from a score to the model, so all models of a stream are known as soon as the
stream is. Three paths, one result:

- *plain*: each model is solved anew, by elimination. For few features, several classes, and the
  first rows of a stream.
- *walk*: the models of a block of steps differ by scalars and a low-rank part, and are solved at
  once from one inverse that is kept between blocks, with a bound on the error of each score. For
  many features.
- *slow*: the classifier's own solver, for ``ridge="gcv"`` and for singular systems.
"""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_EXCEPTION, CancelledError, ThreadPoolExecutor, wait
from itertools import pairwise
from threading import Event

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix, Vector
from counterpoise.feature_maps import FittedMap
from counterpoise.feature_maps.fitted import SLICE
from counterpoise.moments.classes import Classes, n_score_columns
from counterpoise.moments.moments import Moments
from counterpoise.solver.class_weights import by_label, class_total_weights, targets
from counterpoise.solver.mapped_moments import moments_of
from counterpoise.solver.options import Options
from counterpoise.solver.ridge import RIDGE_PRIOR_ROWS, decaying_ridge
from counterpoise.solver.scores import solve_scores
from counterpoise.stepwise._block_scorer import BlockScorer
from counterpoise.stepwise._step_solver import SolverSpec, StepSolver

MIN_FEATURES_FOR_BLOCKS = (
    50  # features from which blocks are faster than elimination (benchmarks/speed/progressive.py)
)
BLOCK = ((100, 16), (256, 24), (None, 64))  # steps of a block, for features below these numbers
BLOCKS = 64  # blocks between two looks for signals
FLOPS_PER_SIGNAL_CHECK = (
    1e9  # steps of elimination, of which a problem of d features takes d³, between two looks
)
SCORE_ERROR_BOUND = 2e-9  # of the error of a score, relative to it if it is more than 1
MAX_ORIGIN_DISTANCE = (
    1e4  # squared length, times the ridge, of an origin that would cost blocks their digits
)


def progressive_scores(
    options: Options,
    moments: Moments,
    classes: Labels,
    X: Matrix,
    codes: NDArray[np.intp],
    delay: int,
    fixed: FittedMap | None = None,
    taken: range | None = None,
    halt: Event | None = None,
) -> Matrix:
    """Score each row by the exact model just before it, and let the moments learn it. Shapes:
    classes (c,), X (n, d), codes (n,); returns (n, problems).
    """
    if taken is None:
        taken = range(len(X) + delay)
    if fixed is not None and delay:
        X = fixed.transform(X)
    elif fixed is not None:
        parts = []
        for at in range(0, len(X), SLICE):
            Z, mine = fixed.transform(X[at : at + SLICE]), codes[at : at + SLICE]
            parts.append(progressive_scores(options, moments, classes, Z, mine, delay, halt=halt))
        return np.concatenate(parts)
    rows, steps = len(X), taken.stop
    result = np.zeros((rows, n_score_columns(len(classes))))
    size = _block(options, moments, X)
    scorer = BlockScorer(solver_spec(options, moments, classes), moments, size)
    at = taken.start
    while at < steps:
        _check_interrupted(halt)
        if options.ridge != "gcv":
            now = _length(moments, size)
            stop = _next(at, rows, steps, now)
            if size and _in_blocks(options, moments, X, at, delay):
                # What allows a block allows the next, unless an origin or a weight may shrink.
                steady = now == size and options.scale is not None and not options.decay.is_active
                begun, far = at, min(stop + (BLOCKS - 1) * size, rows) if steady else stop
                at = scorer.walk(X, codes, delay, at, far, now, SCORE_ERROR_BOUND, result)
                if at > begun:
                    continue
            at = _plain(scorer, X, codes, delay, at, stop, result, halt)
            if at == stop:
                continue
        # What is left is a step that only the classifier's own solver can take.
        if at < rows and moments.n.any():
            result[at] = _slow(options, moments, classes, X[at])
        scorer.learn_rows(X, codes, max(at - delay, 0), max(at + 1 - delay, 0))
        at += 1
    return result[taken.start :]


def _check_interrupted(halt: Event | None) -> None:
    """Take no more steps if somebody wants none."""
    if halt is not None and halt.is_set():
        raise CancelledError


def _plain(
    scorer: StepSolver,
    X: Matrix,
    codes: NDArray[np.intp],
    delay: int,
    at: int,
    stop: int,
    f: Matrix,
    halt: Event | None,
) -> int:
    """Take steps one by one, in pieces between which Python looks for signals."""
    piece = max(int(FLOPS_PER_SIGNAL_CHECK / X.shape[1] ** 3), 1)
    while at < stop:
        _check_interrupted(halt)
        end = min(at + piece, stop)
        at = scorer.plain(X, codes, delay, at, end, f)
        if at < end:  # a singular problem
            break
    return at


def _slow(options: Options, moments: Moments, classes: Labels, x: Vector) -> Vector:
    """Scores of one row by the classifier's own solver."""
    f: Vector = solve_scores(moments, Classes.for_labels(moments, classes), options).of(x[None])[0]
    return f


def solver_spec(options: Options, moments: Moments, classes: Labels) -> SolverSpec:
    """What the compiled loops solve. Shapes: classes (c,)."""
    labels = moments.labels.tolist()
    order = np.array([labels.index(label) for label in classes.tolist()])
    balanced = options.class_weight == "balanced"
    factor = by_label(moments.labels, options.class_factors)
    if not balanced:
        factor = factor * by_label(moments.labels, options.class_weight)
    shrinks = options.ridge == "auto"
    linear = options.pooled_rows is None
    return SolverSpec(
        0.0 if isinstance(options.ridge, str) else float(options.ridge),
        RIDGE_PRIOR_ROWS if shrinks else 0.0,
        options.decay.rows_per_class(moments.labels),
        factor,
        order,
        balanced,
        options.scale,
        options.intercept,
        not linear or (len(order) > 2 and options.multi_class == "lda"),
        -1.0 if options.pooled_rows is None else float(options.pooled_rows),
    )


def _block(options: Options, moments: Moments, X: Matrix) -> int:
    """Steps of a block; 0 where blocks are not possible or do not pay."""
    if X.shape[1] < MIN_FEATURES_FOR_BLOCKS or len(moments.n) != 2:
        return 0
    if options.ridge == 0 or options.pooled_rows is not None:
        return 0
    return next(steps for below, steps in BLOCK if below is None or X.shape[1] < below)


def _length(moments: Moments, size: int) -> int:
    """Steps of the next block: fewer while a class has few rows."""
    least = moments.n.min()
    while size > 8 and size > least:
        size //= 2
    return size


def _next(at: int, rows: int, steps: int, size: int) -> int:
    """Where a block ends, and the plain path stops to ask whether blocks can take over."""
    end = rows if at < rows else steps
    return min((at // size + 1) * size, end) if size else end


def _in_blocks(options: Options, moments: Moments, X: Matrix, at: int, delay: int) -> bool:
    """Whether the next steps can be taken at once: both classes seen, and not too far away."""
    if at < delay or at >= len(X) or moments.n.min() < 1:
        return False
    if options.scale is not None:
        return True
    origin = moments.anchor + moments.mean[0]
    weights = options.class_weight, options.class_factors
    a = class_total_weights(moments.labels, moments.N, targets(2), *weights)[0]
    ridge = decaying_ridge(a, moments.n) if options.ridge == "auto" else float(options.ridge)
    return float(ridge * (origin @ origin)) < MAX_ORIGIN_DISTANCE


MIN_ROWS_PER_PART = 1000  # rows of a part: fewer are not worth the beginning
PARTS_PER_THREAD = 4  # for each thread: the first rows of a stream take longer than others


def threaded_scores(
    options: Options,
    moments: Moments,
    classes: Labels,
    X: Matrix,
    codes: NDArray[np.intp],
    delay: int,
    fixed: FittedMap | None,
    threads: int,
) -> Matrix:
    """What :func:`progressive.scores` returns, and does to the moments, by so many threads."""
    rows = len(X)
    parts = min(PARTS_PER_THREAD * threads, rows // MIN_ROWS_PER_PART)
    if threads == 1 or parts < 2:
        return progressive_scores(options, moments, classes, X, codes, delay, fixed)
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
                        progressive_scores, options, own, classes, *part, delay, fixed, steps, halt
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
    fixed: FittedMap | None,
) -> None:
    """Let moments learn rows in bulk."""
    rows_of = [np.flatnonzero(codes == k) for k in range(len(moments.n))]
    chunk = moments_of(X, rows_of, moments.labels, None, options.decay, moments.anchor, fixed)
    moments.append(chunk, options.decay)
