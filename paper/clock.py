"""CPU time of training, weights at every step: the compiled loop alone, without checks of input."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from counterpoise import BalancedRidgeClassifier, progressive
from counterpoise.evaluate.protocol import Fold
from counterpoise.model import Options
from counterpoise.moments import Moments

LABELS = np.array([-1, 1])
LEAST = 2_000_000  # nanoseconds that a measurement takes at least, by repetition


def seconds(rule: Any, one: Fold) -> float:
    """CPU seconds to learn all rows of a fold: the best of three measurements, one if long."""
    learn = _engine(one) if isinstance(rule, BalancedRidgeClassifier) else _rule(rule, one)
    best, times, k = np.inf, 0, 1
    while times < 3:
        start = time.process_time_ns()
        for _ in range(k):
            learn()
        took = time.process_time_ns() - start
        if took < LEAST and k < 10_000:  # too short to believe
            k *= 4
            continue
        best, times = min(best, took / k), times + 1
        if took > 100 * LEAST:  # long enough to believe at once
            break
    return float(best) * 1e-9


def _rule(rule: Any, one: Fold) -> Any:
    rows, target, weight = rule._take(one.X, one.y, LABELS, None)
    scores = np.empty(len(rows))

    def learn() -> None:
        s = rule._before(rule._begin(rows.shape[1]), target)
        rule._drive(s, rows, target, weight, 0, scores)

    return learn


def _engine(one: Fold) -> Any:
    codes = (one.y > 0).astype(np.intp)
    options = Options(scale=None)

    def learn() -> None:
        moments = Moments(LABELS[:0], one.X[0].copy()).with_labels(LABELS)
        progressive.scores(options, moments, LABELS, one.X, codes, 0)

    return learn
