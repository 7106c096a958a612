"""The same model for river: dicts in, one event at a time; features and labels may come and go.

Needs the extra ``river``: ``pip install counterpoise[river]``.
"""

from counterpoise.river.auto import AutoClassifier
from counterpoise.river.balanced_ridge import BalancedRidgeClassifier

try:
    import river as _river  # noqa: F401
except ImportError as error:
    raise ImportError(
        "counterpoise.river needs river: pip install 'counterpoise[river]'"
    ) from error


__all__ = ["AutoClassifier", "BalancedRidgeClassifier"]
