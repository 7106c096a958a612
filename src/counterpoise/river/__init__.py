"""Models with river's conventions: dicts, one event at a time, features and labels at any time.

- ``BalancedRidgeClassifier``: learn_one, unlearn_one, predict_one, learn_many
- ``AutoClassifier``: average of several such models

Needs the extra ``river``: ``pip install counterpoise[river]``.
"""

try:
    from counterpoise.river.auto import AutoClassifier
    from counterpoise.river.balanced_ridge import BalancedRidgeClassifier
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "river":
        raise
    text = "counterpoise.river requires river: pip install 'counterpoise[river]'"
    raise ImportError(text, name="river") from error

__all__ = ["AutoClassifier", "BalancedRidgeClassifier"]
