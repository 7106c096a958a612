"""Backtest: losses that models of earlier buckets would have had on later ones, without rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np

from counterpoise.arrays import Counts, Matrix
from counterpoise.errors import DataError, OptionValue, Suggestion
from counterpoise.ledger import time_buckets
from counterpoise.ledger.bucket_series import (
    Series,
    check_count,
    evaluate_scores,
    solve_series,
    solver_options,
    to_records,
)
from counterpoise.ledger.query import Selection, to_list

MAX_FIRST = 30  # buckets before the first test, if all earlier buckets are learned


@dataclass(frozen=True)
class BacktestSetting:
    """One way to learn from earlier buckets.

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
        """Setting as text."""
        parts = ["all before" if self.train is None else f"last {self.train}"]
        if self.half_life is not None:
            parts.append(f"half-life {self.half_life:g}d")
        if self.ridge != "auto":
            parts.append(f"ridge {self.ridge:g}")
        if self.features != "all":
            parts.append(self.features)
        return ", ".join(parts)


@dataclass(frozen=True, eq=False)
class Backtest:
    """Losses of each setting.

    Attributes
    ----------
    settings : list of BacktestSetting
        The settings.
    start : ndarray of int of shape (g,)
        Starts of the tests, in seconds.
    loss, g_mean : ndarray of shape (settings, g)
        Exact balanced loss and estimated G-mean of each test; NaN where a class has no rows.
    total : ndarray of shape (settings, 2)
        Both of the rows of all tests.

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

    def to_dict(self) -> dict[str, Any]:
        """Return the backtest as JSON can represent it."""
        results = to_records(
            loss=self.total[:, 0],
            estimated_g_mean=self.total[:, 1],
            loss_by_bucket=self.loss,
            estimated_g_mean_by_bucket=self.g_mean,
        )
        return {
            "best": self.best.name,
            "buckets": [time_buckets.text(at) for at in self.start.tolist()],
            "settings": [
                {"name": setting.name, **asdict(setting), **result}
                for setting, result in zip(self.settings, results, strict=True)
            ],
        }


def backtest(
    series: Series,
    names: tuple[list[str], Sequence[str]],
    train: Any,
    test: int,
    half_life: Any,
    ridge: Any,
    features: Mapping[str, Sequence[str]] | None,
    options: Mapping[str, Any],
) -> Backtest:
    """Test every combination of the given values on the buckets of a series.

    ``names`` are those of the features, and of the columns with many categories.
    """
    windows, half_lives = to_list(train) or [None], to_list(half_life) or [None]
    for one in windows:
        if one is not None:
            check_count("train", one)
    check_count("test", test)
    half_lives = [None if one is None else time_buckets.parse_half_life(one) for one in half_lives]
    solvers = {one: solver_options({**options, "ridge": one}) for one in to_list(ridge)}
    subsets = _subsets(features, *names)
    all_buckets = min(MAX_FIRST, max(1, len(series) // 2))
    first = max(all_buckets if one is None else one for one in windows)
    if first + test > len(series):
        raise DataError(
            f"there are {len(series)} buckets, too few to learn {first} and to test {test}",
            Suggestion("specify fewer with {}", "train"),
        )
    begin = np.arange(first, len(series) - test + 1, test)
    age = np.arange(len(series))[None] - begin[:, None]
    tests = series.sum(((age >= 0) & (age < test)).astype(float))
    results: dict[BacktestSetting, tuple[Any, Any, Any]] = {}
    for window, half in product(windows, half_lives):
        past = series.sum(training_weights(series.start, begin, window, half))
        for (name, at), (b, solver) in product(subsets.items(), solvers.items()):
            lines = solve_series(past.select_features(*at), solver)
            one = evaluate_scores(lines, tests.select_features(*at))
            days = None if half is None else half / time_buckets.DAY
            setting = BacktestSetting(window, days, b, name)
            results[setting] = one.balanced_loss, one.g_mean, one.pool()
    loss, g_mean, total = (np.array([one[i] for one in results.values()]) for i in range(3))
    if not np.isfinite(total[:, 0]).any():
        raise DataError("no test has rows of every class, after training rows of every class")
    return Backtest(list(results), series.start[begin], loss, g_mean, total)


def training_weights(
    start: Counts, begin: Counts, window: int | None, half_life: float | None = None
) -> Matrix:
    """Return the weights of the buckets learned before each test, of shape (tests, buckets)."""
    age = begin[:, None] - 1 - np.arange(len(start))[None]
    inside = (age >= 0) & (age < (len(start) if window is None else window))
    decay = Selection(half_life=half_life).decay(start[None], start[begin - 1][:, None])
    return np.where(inside, decay, 0.0)


def _subsets(
    features: Mapping[str, Sequence[str]] | None, names: list[str], many: Sequence[str]
) -> dict[str, tuple[Any, list[int]]]:
    """Return indices of the features of each subset; a column stands for all its features.

    Then come the indices of its columns among those with many categories.
    """
    if features is None:
        return {"all": (np.arange(len(names)), list(range(len(many))))}
    subsets = {}
    for name, wanted in features.items():
        at = [
            j
            for j, one in enumerate(names)
            if {one, one.split("=")[0], one.split("#")[0]} & set(wanted)
        ]
        columns = [b for b, one in enumerate(many) if one in wanted]
        if not at:
            text = f" names no feature in {name!r}"
            text += " except columns with many categories" if columns else ""
            raise DataError((OptionValue("features"), text), Suggestion("name a feature as well"))
        subsets[name] = np.array(at), columns
    return subsets
