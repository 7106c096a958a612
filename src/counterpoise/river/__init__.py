"""Models with river's conventions: dicts, one event at a time, features and labels at any time.

- ``BalancedRidgeClassifier``: learn_one, unlearn_one, predict_one, learn_many
- ``AutoClassifier``: average of several such models

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
