"""Exact scores at every step: of each row by the model just before it learns that row.

Scores have no effect on the model, so the stream determines all its models. Three paths, one
result:

- *steps*: each model is solved by elimination. For few features, several classes, and the first
  rows of a stream.
- *blocks*: the models of a block of steps differ by scalars and a low-rank part, and are solved
  together from one inverse that is kept between blocks, with a bound on the error of each score.
  For many features.
- *solver*: the classifier's own solver, for ``ridge="gcv"`` and for singular systems.
"""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_EXCEPTION, CancelledError, ThreadPoolExecutor, wait
from itertools import pairwise
from threading import Event

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix
from counterpoise.feature_maps import FittedMap
from counterpoise.feature_maps.fitted import SLICE
from counterpoise.moments.classes import Classes, n_score_columns
from counterpoise.moments.moments import Moments
from counterpoise.solver.class_weights import by_label, class_total_weights, targets
from counterpoise.solver.mapped_moments import GroupedRows, moments_of
from counterpoise.solver.options import Options
from counterpoise.solver.ridge import RIDGE_PRIOR_ROWS, decaying_ridge
from counterpoise.solver.scores import solve_scores
from counterpoise.stepwise._block_scorer import BlockScorer
from counterpoise.stepwise._step_solver import SolverSpec, StepSolver

MIN_FEATURES_FOR_BLOCKS = 50  # below, elimination is faster (benchmarks/speed/progressive.py)
STEPS_PER_BLOCK = ((100, 16), (256, 24), (np.inf, 64))  # for features below these numbers
BLOCKS_PER_SIGNAL_CHECK = 64
FLOPS_PER_SIGNAL_CHECK = 1e9  # of elimination, which takes d³ for a problem of d features
SCORE_ERROR_BOUND = 2e-9  # of the error of a score, relative to it if it is more than 1
MAX_ORIGIN_DISTANCE = 1e4  # squared and times the ridge: beyond, blocks would lose digits
MIN_ROWS_PER_PART = 1000  # of a thread: fewer are not worth its start
PARTS_PER_THREAD = 4  # several, because the first rows of a stream take longer than others


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
    """Return scores (n, problems) of rows X (n, d) by the exact model just before each.

    The moments learn the rows. Only the steps ``taken`` are taken.
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
    size = _block_size(options, moments, X)
    scorer = BlockScorer(solver_spec(options, moments, classes), moments, size)
    at = taken.start
    while at < steps:
        _check_interrupted(halt)
        if options.ridge != "gcv":
            now = size  # steps of the next block: fewer while a class has few rows
            while now > 8 and now > moments.n.min():
                now //= 2
            # The end of a block, where steps check whether blocks can take over.
            stop = rows if at < rows else steps
            if size:
                stop = min((at // now + 1) * now, stop)
            if size and _allows_blocks(options, moments, X, at, delay):
                # What allows a block allows the next, unless an origin or a weight may shrink.
                steady = now == size and options.scale is not None and not options.decay.is_active
                last = min(stop + (BLOCKS_PER_SIGNAL_CHECK - 1) * size, rows) if steady else stop
                begun = at
                at = scorer.run_blocks(X, codes, delay, at, last, now, SCORE_ERROR_BOUND, result)
                if at > begun:
                    continue
            at = _run_steps(scorer, X, codes, delay, at, stop, result, halt)
            if at == stop:
                continue
        # Only the classifier's own solver can take this step.
        if at < rows and moments.n.any():
            solved = solve_scores(moments, Classes.for_labels(moments, classes), options)
            result[at] = solved.of(X[at : at + 1])[0]
        scorer.learn_rows(X, codes, max(at - delay, 0), max(at + 1 - delay, 0))
        at += 1
    return result[taken.start :]


def _check_interrupted(halt: Event | None) -> None:
    """Raise if another thread has failed."""
    if halt is not None and halt.is_set():
        raise CancelledError


def _run_steps(
    scorer: StepSolver,
    X: Matrix,
    codes: NDArray[np.intp],
    delay: int,
    at: int,
    stop: int,
    f: Matrix,
    halt: Event | None,
) -> int:
    """Take steps one by one, in parts between which Python handles signals; return the next."""
    part = max(int(FLOPS_PER_SIGNAL_CHECK / X.shape[1] ** 3), 1)
    while at < stop:
        _check_interrupted(halt)
        end = min(at + part, stop)
        at = scorer.run_steps(X, codes, delay, at, end, f)
        if at < end:  # a singular problem
            break
    return at


def solver_spec(options: Options, moments: Moments, classes: Labels) -> SolverSpec:
    """Return the problem of the compiled loops."""
    labels = moments.labels.tolist()
    order = np.array([labels.index(label) for label in classes.tolist()])
    balanced = options.class_weight == "balanced"
    factor = by_label(moments.labels, options.class_factors)
    if not balanced:
        factor = factor * by_label(moments.labels, options.class_weight)
    linear = options.pooled_rows is None
    return SolverSpec(
        0.0 if isinstance(options.ridge, str) else float(options.ridge),
        RIDGE_PRIOR_ROWS if options.ridge == "auto" else 0.0,
        options.decay.rows_per_class(moments.labels),
        factor,
        order,
        balanced,
        options.scale,
        options.intercept,
        not linear or (len(order) > 2 and options.multi_class == "lda"),
        -1.0 if options.pooled_rows is None else float(options.pooled_rows),
    )


def _block_size(options: Options, moments: Moments, X: Matrix) -> int:
    """Return the steps of a block; 0 where blocks are not possible or not faster."""
    if X.shape[1] < MIN_FEATURES_FOR_BLOCKS or len(moments.n) != 2:
        return 0
    if options.ridge == 0 or options.pooled_rows is not None:
        return 0
    return next(steps for below, steps in STEPS_PER_BLOCK if X.shape[1] < below)


def _allows_blocks(options: Options, moments: Moments, X: Matrix, at: int, delay: int) -> bool:
    """Return whether both classes were seen, and the origin is not too far away."""
    if at < delay or at >= len(X) or moments.n.min() < 1:
        return False
    if options.scale is not None:
        return True
    origin = moments.anchor + moments.mean[0]
    weights = options.class_weight, options.class_factors
    a = class_total_weights(moments.labels, moments.N, targets(2), *weights)[0]
    ridge = decaying_ridge(a, moments.n) if options.ridge == "auto" else float(options.ridge)
    return float(ridge * (origin @ origin)) < MAX_ORIGIN_DISTANCE


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
    """Return the result of :func:`progressive_scores`, by several threads."""
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
                if last < rows:  # learn the rows of the part in bulk
                    mine = slice(seen, max(last - delay, 0))
                    rows_of = [np.flatnonzero(codes[mine] == k) for k in range(len(moments.n))]
                    some = GroupedRows(X[mine], rows_of, moments.labels)
                    chunk = moments_of(some, options.decay, moments.anchor, fixed)
                    moments.append(chunk, options.decay)
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
            return np.concatenate([future.result() for future in futures])
        except BaseException:
            halt.set()  # else an error, or a signal, would wait for all parts
            raise
