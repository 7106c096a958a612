"""Exact online classification of imbalanced streams."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from counterpoise.version import VERSION

if TYPE_CHECKING:
    from counterpoise.choosing.classifier import ChoosingClassifier
    from counterpoise.classifier import BalancedRidgeClassifier
    from counterpoise.exact.moments import Moments
    from counterpoise.exact.scores import PrecisionWarning
    from counterpoise.ledger.ledger import Ledger
    from counterpoise.risk import RiskClassifier
    from counterpoise.table.classifier import TableClassifier

__version__ = VERSION
__all__ = [
    "BalancedRidgeClassifier",
    "ChoosingClassifier",
    "Ledger",
    "Moments",
    "PrecisionWarning",
    "RiskClassifier",
    "TableClassifier",
]

_HOMES = {
    "BalancedRidgeClassifier": "classifier",
    "ChoosingClassifier": "choosing.classifier",
    "Ledger": "ledger.ledger",
    "Moments": "exact.moments",
    "PrecisionWarning": "exact.scores",
    "RiskClassifier": "risk",
    "TableClassifier": "table.classifier",
}

_OF_THE_SHELL = ("pyarrow", "xxhash")  # what reads tables, an extra


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: the command line must start at once."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"counterpoise.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in _OF_THE_SHELL:
            raise
        said = f"{name} needs {error.name}: pip install 'counterpoise[cli]'"
        raise ImportError(said, name=error.name) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
