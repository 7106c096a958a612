"""The compiled loop of a rule, run in pieces of about 0.1 s.

Between two pieces Python looks for signals; the pieces change no bit.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from counterpoise.arrays import Matrix, Vector
from counterpoise.online.state import State

PIECE = 1e7  # multiplications, at most, before the first look at the clock


def run(
    kernel: Any,
    parameters: list[float],
    work: Vector,
    s: State,
    stream: tuple[Matrix, Vector, Vector, int, Vector],
) -> None:
    """Run a kernel on a state that has room, in place.

    ``stream`` is rows (n, d), targets (n,), weights (n,), the delay, and where scores (n,) go.
    """
    arguments = (
        *stream,
        np.array([*parameters, 0.0]),
        work,
        s.stored.reshape(-1),
        s.w,
        s.S.reshape(-1),
        s.z.reshape(-1),
        s.n,
    )
    rows, delay = stream[0], stream[3]
    d, at, steps = len(s.w), 0, len(rows) + delay
    piece = max(int(PIECE / (d**3 + d * s.stored.size)), 1)  # no rule takes more for a step
    while True:
        stop, began = min(at + piece, steps), time.monotonic()
        kernel(*arguments, at, stop)
        took, at = time.monotonic() - began, stop
        if at == steps:
            break
        if took < 0.05:
            piece *= 2
        elif took > 0.2:
            piece = max(piece // 2, 1)
