"""Moments by time and segment: the model of any selection of rows, without the rows.

- ``Ledger``: learns rows into cells and answers queries
- ``Comparison``: two selections next to each other
- ``Drift``: buckets in which a feature or a class has changed
- ``Backtest``, ``BacktestSetting``: windows and half-lives, evaluated on past buckets
- ``Uncertainty``, ``Weights``: jackknife standard errors of coefficients
- ``payments``: a year of synthetic payments

Needs the extra ``cli``: ``pip install 'counterpoise[cli]'``.
"""

from typing import TYPE_CHECKING

from counterpoise.public_names import lazy_names

if TYPE_CHECKING:
    from counterpoise.ledger.backtest import Backtest, BacktestSetting
    from counterpoise.ledger.compare import Comparison
    from counterpoise.ledger.drift import Drift
    from counterpoise.ledger.jackknife import Uncertainty, Weights
    from counterpoise.ledger.ledger import Ledger
    from counterpoise.ledger.synthetic import payments

__all__ = [
    "Backtest",
    "BacktestSetting",
    "Comparison",
    "Drift",
    "Ledger",
    "Uncertainty",
    "Weights",
    "payments",
]
_MODULES = {
    "Backtest": "backtest",
    "BacktestSetting": "backtest",
    "Comparison": "compare",
    "Drift": "drift",
    "Ledger": "ledger",
    "Uncertainty": "jackknife",
    "Weights": "jackknife",
    "payments": "synthetic",
}
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
