"""Norm, held-out G-mean and time of each arriving sample, as t grows: what Figure 2 is made of."""

from __future__ import annotations

import time

import numpy as np

from .clock import LABELS
from .datasets import load
from .methods import FAMILY, LARGE, METHODS
from .protocol import fold, g_mean

POINTS = 200
PREFIX = 4_000  # rows of a large set that IR-RLS learns
BATCH = ("LS", "TER")


def steps(rows: int) -> list[int]:
    """Two hundred values of t, evenly spaced, or all where there are fewer."""
    return np.unique(np.linspace(1, rows, min(rows, POINTS)).round().astype(int)).tolist()


def curves(name: str, seed: int, full: bool) -> dict[str, dict[str, list[float]]]:
    """Norm, G-mean and CPU time at the values of t, for the first half of one run."""
    X, y = load(name)
    one = fold(X, y, seed, 0)
    found = {}
    for method in FAMILY:
        if len(X) >= LARGE and method in BATCH:
            continue
        rows = PREFIX if len(X) >= LARGE and method == "IR-RLS" and not full else len(one.y)
        follow = _batch if method in BATCH else _recursive
        W, took = follow(
            METHODS[method](), one.X, one.y, [t for t in steps(len(one.y)) if t <= rows]
        )
        scores = np.column_stack([one.X_test, np.ones(len(one.X_test))]) @ W.T
        found[method] = {
            "norm": np.linalg.norm(W, axis=1).tolist(),
            "g_mean": g_mean(one.y_test, scores).tolist(),
            "time": (np.asarray(took) * 1e-3).tolist(),
        }
    return found


def _recursive(rule, X, y, at):
    """Weights and nanoseconds a sample of a method that is updated row by row.

    An empty call of the loop is timed too, and subtracted.
    """
    rows, target, weight = rule._prepare_rows(X, y, LABELS, None)
    s = rule._reserve(rule._begin(rows.shape[1]), target)
    scores = np.empty(len(rows))
    W, took, start = [], [], 0
    for stop in at:
        part = slice(start, stop)
        began = time.thread_time_ns()
        rule._drive(s, rows[part], target[part], weight[part], 0, scores[part])
        ended = time.thread_time_ns()
        rule._drive(s, rows[:0], target[:0], weight[:0], 0, scores[:0])
        empty = time.thread_time_ns() - ended
        took.append(max(ended - began - empty, 1) / (stop - start))
        W.append(s.w.copy())
        start = stop
    return np.array(W), took


def _batch(rule, X, y, at):
    """Weights and nanoseconds of a batch solution computed from all rows at each t."""
    rows, target, weight = rule._prepare_rows(X, y, LABELS, None)
    W, took = [], []
    for t in at:
        began = time.thread_time_ns()
        s = rule._start(rows.shape[1])
        rule._add_rows(s, rows[:t], target[:t], weight[:t])
        took.append(time.thread_time_ns() - began)
        W.append(s.w)
    return np.array(W), took
