"""CPU time of training, weights at every step: the compiled loop alone.

What comes before the loop is made outside of the clock: checks of the input, parameters (CW's
normal quantile takes longer than a short stream), the empty state and the working memory. Several
methods are measured in turn, round after round, and the best round of each counts, so that a
disturbance of the machine hits all of them and lasts for none. The exact engine is called as it is,
with the little Python around its blocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from counterpoise import BalancedRidgeClassifier
from counterpoise.moments.moments import Moments
from counterpoise.solver.options import Options
from counterpoise.stepwise import progressive

from .protocol import Fold

LABELS = np.array([-1, 1])
MIN_NANOSECONDS = 2_000_000  # nanoseconds that a measurement takes at least, by repetition
LONG = 100 * MIN_NANOSECONDS  # from which one measurement is enough
ROUNDS = 5
Learner = Callable[[Any], object]  # learns all rows into a state


def seconds(rules: dict[str, Any], one: Fold) -> dict[str, float]:
    """CPU seconds to learn all rows of a fold, by name: the best of several rounds."""
    made = {name: make_timed_functions(rule, one) for name, rule in rules.items()}
    best = dict.fromkeys(made, np.inf)
    times = dict.fromkeys(made, 1)  # how often to repeat it, for a measurement to be believed
    for turn in range(ROUNDS):
        for name, (begin, learn) in made.items():
            if turn and best[name] > LONG:
                continue
            took = _measure(begin, learn, times[name])
            while took < MIN_NANOSECONDS and times[name] < 10_000:
                times[name] *= 4
                took = _measure(begin, learn, times[name])
            best[name] = min(best[name], took / times[name])
    return {name: float(value) * 1e-9 for name, value in best.items()}


def _measure(begin: Callable[[], Any], learn: Learner, times: int) -> int:
    states = [begin() for _ in range(times)]
    start = time.process_time_ns()
    for s in states:
        learn(s)
    return time.process_time_ns() - start


def make_timed_functions(rule: Any, one: Fold) -> tuple[Callable[[], Any], Learner]:
    """Return functions that create an empty state and that learn all rows of a fold."""
    return _engine(one) if isinstance(rule, BalancedRidgeClassifier) else _rule(rule, one)


def _rule(rule: Any, one: Fold) -> tuple[Callable[[], Any], Learner]:
    rows, target, weight = rule._prepare_rows(one.X, one.y, LABELS, None)
    scores = np.empty(len(rows))
    kernel, parameters = rule._kernel()
    given = np.array([*parameters, 0.0])
    work = np.empty(rule._work(rows.shape[1]))

    def begin() -> Any:
        return rule._reserve(rule._begin(rows.shape[1]), target)

    def learn(s: Any) -> None:
        kernel(
            rows, target, weight, 0, scores, given, work,
            s.stored.reshape(-1), s.w, s.S.reshape(-1), s.z.reshape(-1), s.n, 0, len(rows),
        )  # fmt: skip

    return begin, learn


def _engine(one: Fold) -> tuple[Callable[[], Any], Learner]:
    codes = (one.y > 0).astype(np.intp)
    options = Options(scale=None)

    def begin() -> Any:
        return Moments(LABELS, one.X[0].copy())

    def learn(moments: Any) -> None:
        progressive.progressive_scores(options, moments, LABELS, one.X, codes, 0)

    return begin, learn
