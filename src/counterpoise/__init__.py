"""Exact online classification of imbalanced streams."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from counterpoise.version import VERSION

if TYPE_CHECKING:
    from counterpoise.estimators.auto import AutoClassifier
    from counterpoise.estimators.balanced_ridge import BalancedRidgeClassifier
    from counterpoise.estimators.cost_sensitive import CostSensitiveClassifier
    from counterpoise.estimators.table import TableClassifier
    from counterpoise.explanation import Explanation
    from counterpoise.ledger.ledger import Ledger
    from counterpoise.moments.moments import Moments

__version__ = VERSION
__all__ = [
    "AutoClassifier",
    "BalancedRidgeClassifier",
    "CostSensitiveClassifier",
    "Explanation",
    "Ledger",
    "Moments",
    "TableClassifier",
]

_MODULE_OF = {
    "AutoClassifier": "estimators.auto",
    "BalancedRidgeClassifier": "estimators.balanced_ridge",
    "CostSensitiveClassifier": "estimators.cost_sensitive",
    "Explanation": "explanation",
    "Ledger": "ledger.ledger",
    "Moments": "moments.moments",
    "TableClassifier": "estimators.table",
}

_CLI_DEPENDENCIES = ("pyarrow", "xxhash")


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that the command line starts fast."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"counterpoise.{_MODULE_OF[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in _CLI_DEPENDENCIES:
            raise
        text = f"{name} requires {error.name}: pip install 'counterpoise[cli]'"
        raise ImportError(text, name=error.name) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
