"""Exact online classification of imbalanced streams.

- ``BalancedRidgeClassifier``: ridge classifier that can partial_fit, merge and unlearn
- ``AutoClassifier``: average of several such models, with weights learned from the stream
- ``CostSensitiveClassifier``: decisions by expected cost
- ``TableClassifier``: a model of data frames with text, dates and missing values
- ``EventStore``: a model, events that wait for their labels, and labels that wait for events
- ``Ledger``: moments by time and segment, and the model of any selection
- ``Moments``: count, mean and scatter of each class
- ``Explanation``: contributions of each column to scores

Packages: ``online`` (the paper's online rules), ``feature_maps`` (nonlinear maps), ``evaluate``
(metrics, costs, benchmark, plots), ``ledger`` (results of a ledger's queries), ``river`` and
``spark`` (other conventions), ``serve`` (a client of the service), ``mlflow`` (a flavor of MLflow),
``readers`` (files to chunks) and ``errors``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoise.public_names import lazy_names
from counterpoise.version import VERSION

if TYPE_CHECKING:
    from counterpoise.estimators.auto import AutoClassifier
    from counterpoise.estimators.balanced_ridge import BalancedRidgeClassifier
    from counterpoise.estimators.cost_sensitive import CostSensitiveClassifier
    from counterpoise.estimators.table import TableClassifier
    from counterpoise.explanation import Explanation
    from counterpoise.ledger.ledger import Ledger
    from counterpoise.moments.moments import Moments
    from counterpoise.tables.event_store import EventStore

__version__ = VERSION
__all__ = [
    "AutoClassifier",
    "BalancedRidgeClassifier",
    "CostSensitiveClassifier",
    "EventStore",
    "Explanation",
    "Ledger",
    "Moments",
    "TableClassifier",
]

_MODULES = {
    "AutoClassifier": "estimators.auto",
    "BalancedRidgeClassifier": "estimators.balanced_ridge",
    "CostSensitiveClassifier": "estimators.cost_sensitive",
    "EventStore": "tables.event_store",
    "Explanation": "explanation",
    "Ledger": "ledger.ledger",
    "Moments": "moments.moments",
    "TableClassifier": "estimators.table",
} | {
    name: name
    for name in (
        "errors", "evaluate", "feature_maps", "ledger", "mlflow", "online", "readers", "river",
        "serve", "spark",
    )
}  # fmt: skip
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
