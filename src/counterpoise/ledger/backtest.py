"""Backtest: what models of the days before would have been worth on each day, without any row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from counterpoise.arrays import Counts, Matrix
from counterpoise.errors import DataError, OptionValue
from counterpoise.ledger import time_buckets
from counterpoise.ledger.bucket_series import Series, SolverOptions, evaluate_scores, solve_series

MAX_FIRST = 30  # buckets before the first test, if all of the past is learned


@dataclass(frozen=True)
class BacktestSetting:
    """One way to learn from the past.

    Attributes
    ----------
    train : int, optional
        Buckets that are learned; None for all.
    half_life : float, optional
        In days.
    ridge : float or str
        The ridge.
    features : str
        Name of the subset of the features.

    Examples
    --------
    >>> from counterpoise.ledger import BacktestSetting
    >>> BacktestSetting(train=30, half_life=7.0, ridge="auto", features="all").name
    'last 30, half-life 7d'
    """

    train: int | None
    half_life: float | None
    ridge: float | str
    features: str

    @property
    def name(self) -> str:
        """In words."""
        said = ["all before" if self.train is None else f"last {self.train}"]
        if self.half_life is not None:
            said.append(f"half-life {self.half_life:g}d")
        if self.ridge != "auto":
            said.append(f"ridge {self.ridge:g}")
        if self.features != "all":
            said.append(self.features)
        return ", ".join(said)


@dataclass(frozen=True, eq=False)
class Backtest:
    """What each setting was worth.

    Attributes
    ----------
    settings : list of Way
        The settings.
    start : ndarray of int of shape (g,)
        Where the buckets of each test begin, in seconds.
    loss, g_mean : ndarray of shape (settings, g)
        Exact balanced loss and estimated G-mean of each test; NaN where a class has no rows.
    total : ndarray of shape (settings, 2)
        Both of the rows of all tests together.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from counterpoise import Ledger
    >>> from counterpoise.ledger import payments
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.open(pathlib.Path(folder.name) / "l", label="fraud", timestamp="at")
    >>> rows = ledger.learn(payments(days=40, rows=30)[0])
    >>> found = ledger.backtest(train=[5, 20])
    >>> found.best.name, found.loss.shape
    ('last 20', (2, 20))
    """

    settings: list[BacktestSetting]
    start: Counts
    loss: Matrix
    g_mean: Matrix
    total: Matrix

    @property
    def best(self) -> BacktestSetting:
        """The setting of the least loss."""
        return self.settings[int(np.nanargmin(self.total[:, 0]))]

    def plain(self) -> dict[str, Any]:
        """All of it as JSON can hold it."""
        return {
            "best": self.best.name,
            "buckets": [time_buckets.text(at) for at in self.start.tolist()],
            "settings": [
                {
                    "name": one.name,
                    "train": one.train,
                    "half_life": one.half_life,
                    "ridge": one.ridge,
                    "features": one.features,
                    "loss": float(self.total[i, 0]),
                    "estimated_g_mean": float(self.total[i, 1]),
                    "loss_by_bucket": self.loss[i].tolist(),
                    "estimated_g_mean_by_bucket": self.g_mean[i].tolist(),
                }
                for i, one in enumerate(self.settings)
            ],
        }


def backtested(
    series: Series,
    names: list[str],
    rule: SolverOptions,
    train: Any,
    test: int,
    half_life: Any,
    ridge: Any,
    features: Mapping[str, Sequence[str]] | None,
) -> Backtest:
    """Walk forward over the buckets of a series, for every combination of what is given."""
    trains = [_window(one) for one in _listed(train)]
    lives = [
        None if one is None else time_buckets.parse_half_life(one) for one in _listed(half_life)
    ]
    ridges = _listed(ridge)
    subsets = _subsets(features, names)
    if isinstance(test, bool) or not isinstance(test, int) or test < 1:
        raise DataError((OptionValue("test"), f" is {test!r}, and must be a whole number from 1"))
    some = min(MAX_FIRST, max(1, len(series) // 2))
    first = max(some if one is None else one for one in trains)
    if first + test > len(series):
        raise DataError(
            f"there are {len(series)} buckets, too few to learn {first} and to test {test}"
        )
    begin = np.arange(first, len(series) - test + 1, test)
    inside = np.arange(len(series))[None] - begin[:, None]
    tests = series.summed(((inside >= 0) & (inside < test)).astype(float))
    found: dict[BacktestSetting, tuple[Any, Any, Any]] = {}
    for window, life in product(trains, lives):
        W = trained(series.start, begin, window, life)
        past = series.summed(W)
        for (name, at), b in product(subsets.items(), ridges):
            mine = replace(rule, ridge=b)
            mine.check()
            some = len(at) < series.width
            evaluation = evaluate_scores(
                solve_series(past.only(at) if some else past, mine),
                tests.only(at) if some else tests,
            )
            days = None if life is None else life / time_buckets.DAY
            found[BacktestSetting(window, days, b, name)] = (
                evaluation.balanced, evaluation.g_mean, evaluation.pooled()
            )  # fmt: skip
    loss, g_mean, total = (np.array([one[i] for one in found.values()]) for i in range(3))
    if not np.isfinite(total[:, 0]).any():
        raise DataError("no test has rows of every class, after training rows of every class")
    return Backtest(list(found), series.start[begin], loss, g_mean, total)


def trained(start: Counts, begin: Counts, window: int | None, life: float | None) -> Matrix:
    """Weights of the buckets that are learned before each test, of shape (tests, buckets)."""
    age = begin[:, None] - 1 - np.arange(len(start))[None]
    inside = (age >= 0) & (age < (len(start) if window is None else window))
    if life is None:
        return inside.astype(float)
    seconds = start[begin - 1][:, None] - start[None]
    faded: Matrix = np.where(inside, 2.0 ** -np.clip(seconds / life, 0.0, 1000.0), 0.0)
    return faded


def _listed(value: Any) -> list[Any]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        return [value]
    return list(value) or [None]


def _window(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise DataError((OptionValue("train"), f" is {value!r}, and must be a whole number from 1"))
    return value


def _subsets(features: Mapping[str, Sequence[str]] | None, names: list[str]) -> dict[str, Any]:
    """Places of the features of each subset; a column stands for all features made of it."""
    if features is None:
        return {"all": np.arange(len(names))}
    found = {}
    for name, wanted in features.items():
        at = [
            j
            for j, one in enumerate(names)
            if one in wanted or one.split("=")[0] in wanted or one.split("#")[0] in wanted
        ]
        if not at:
            raise DataError((OptionValue("features"), f" names no feature in {name!r}"))
        found[name] = np.array(at)
    return found
