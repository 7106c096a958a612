"""A year of synthetic payments.

Amounts depend on the season and the day of the week. From 10 to 23 May there is a wave of frauds
with large amounts at night. Norway is added on 1 July, and with it a new column: the number of
retries. From 2 September on the age of the account is 0 in half of the rows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

DAY = 86_400
BEGIN = 1_704_067_200  # 1 January 2024, UTC
WAVE, NORWAY, RELEASE = (130, 144), 182, 245  # days of the year
COUNTRIES, SHARES = ("DE", "FR", "NL", "US", "NO"), (0.4, 0.25, 0.15, 0.2, 0.1)


def payments(days: int = 366, rows: int = 400, seed: int = 1) -> list[pa.Table]:
    """Make tables of synthetic payments, one before Norway was added and one from then on.

    Parameters
    ----------
    days : int, default=366
        Number of days, from 1 January 2024.
    rows : int, default=400
        Payments of an ordinary day.
    seed : int, default=1
        Of the random numbers.

    Returns
    -------
    list of pyarrow.Table
        With the columns at, country, amount, age, night, retries (the second only) and fraud.

    Examples
    --------
    >>> from counterpoise.ledger import payments
    >>> (table,) = payments(days=2, rows=10)
    >>> table.column_names
    ['at', 'country', 'amount', 'age', 'night', 'fraud']
    """
    rng = np.random.default_rng(seed)
    made = [_day(day, rows, rng) for day in range(days)]
    early = [one.drop_columns("retries") for one in made[:NORWAY]]
    return [pa.concat_tables(part) for part in (early, made[NORWAY:]) if part]


def _day(day: int, rows: int, rng: np.random.Generator) -> pa.Table:
    """Return the payments of one day."""
    season = 1.0 + 0.3 * np.cos(2.0 * np.pi * (day - 350) / 366) - 0.25 * (day % 7 in (5, 6))
    n = int(rng.poisson(rows * season))
    wave = WAVE[0] <= day < WAVE[1]
    fraud = rng.random(n) < (0.08 if wave else 0.03)
    share = np.array(SHARES) * (1.0, 1.0, 1.0, 1.0, day >= NORWAY)
    country = np.array(COUNTRIES)[rng.choice(len(COUNTRIES), n, p=share / share.sum())]
    amount = rng.lognormal(3.4 + 0.3 * (season - 1.0) + (1.4 if wave else 0.6) * fraud, 0.7)
    age = rng.gamma(4.0, 200.0, n) * np.where(fraud, 0.5, 1.0)
    if day >= RELEASE:
        age[rng.random(n) < 0.5] = 0.0
    night = rng.random(n) < np.where(fraud, 0.7 if wave else 0.45, 0.15)
    seconds = np.sort(rng.integers(0, DAY, n))
    return pa.table(
        {
            "at": pa.array((BEGIN + day * DAY + seconds).astype("datetime64[s]")),
            "country": country,
            "amount": np.round(amount, 2),
            "age": np.round(age, 1),
            "night": night.astype(float),
            "retries": rng.poisson(np.where(fraud, 1.2, 0.3)).astype(float),
            "fraud": np.where(fraud, "fraud", "ok"),
        }
    )
