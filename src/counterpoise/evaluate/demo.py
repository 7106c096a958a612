"""A made-up stream, for those who have none at hand."""

from __future__ import annotations

import numpy as np

from counterpoise.arrays import Labels, Matrix


def made_up(rows: int = 20_000, seed: int = 1) -> tuple[Matrix, Labels, list[str]]:
    """Payments, 2 % of them frauds, whose amounts drift and whose frauds change their habits.

    Parameters
    ----------
    rows : int
        How many.
    seed : int
        For the random numbers.

    Returns
    -------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
    names : list of str
    """
    rng = np.random.default_rng(seed)
    fraud = rng.random(rows) < 0.02
    when = np.linspace(0.0, 1.0, rows)
    amount = rng.lognormal(3.4 + 0.6 * fraud + 0.3 * when, 0.7)
    age = rng.gamma(4.0, 200.0, rows) * np.where(fraud, 0.5, 1.0)
    night = (rng.random(rows) < np.where(fraud, 0.45, 0.15)).astype(float)
    foreign = (rng.random(rows) < np.where(fraud, 0.5 - 0.3 * when, 0.1)).astype(float)
    retries = rng.poisson(np.where(fraud, 0.5 + 1.5 * when, 0.3)).astype(float)
    balance = 5000.0 + 100.0 * rng.standard_normal(rows).cumsum() / np.sqrt(np.arange(1, rows + 1))
    noise = rng.standard_normal((rows, 2)) * [1.0, 1000.0]
    X = np.column_stack([amount, age, night, foreign, retries, balance, noise])
    names = ["amount", "age of account", "at night", "foreign", "retries", "balance"]
    return X, np.where(fraud, "fraud", "ok"), [*names, "noise 1", "noise 2"]
