"""The same model for river: dicts in, one event at a time; features and labels may come and go.

Needs the extra ``river``: ``pip install counterpoise[river]``.
"""

try:
    import river as _river  # noqa: F401
except ImportError as error:
    raise ImportError(
        "counterpoise.river needs river: pip install 'counterpoise[river]'"
    ) from error

from counterpoise.river.choosing import ChoosingClassifier
from counterpoise.river.classifier import BalancedRidgeClassifier

__all__ = ["BalancedRidgeClassifier", "ChoosingClassifier"]
