"""Synthetic streams that drift: two concepts, and how the second one replaces the first.

Both classes are normal, and the positive one is rare. The second concept differs in one respect:
where the classes are, how frequent the positive class is, where only the positive class is, whether
a third class exists, or how many labels are wrong.
"""

from __future__ import annotations

import numpy as np

from counterpoise.arrays import Labels, Matrix, Vector

DRIFTS = ("none", "sudden", "gradual", "recurring")
CHANGES = ("features", "frequency", "minority", "classes", "labels")
DISTANCE = 2.0  # between the means of the classes, in standard deviations
FREQUENCY_FACTOR = 5.0  # of the positive class in the second concept
WRONG_LABELS = 0.1  # share of the labels of negatives and of positives in the second concept
PERIODS = 5  # of a recurring drift, from the first concept on


def drifting_stream(
    drift: str = "sudden",
    change: str = "features",
    rows: int = 20_000,
    positives: float = 0.02,
    features: int = 10,
    seed: int = 0,
) -> tuple[Matrix, Labels]:
    """Return a synthetic stream with a rare class, and a drift of one kind.

    Parameters
    ----------
    drift : {"none", "sudden", "gradual", "recurring"}, default="sudden"
        How the second concept replaces the first: never, in the middle, row by row more often
        between 30% and 70% of the stream, or in every other fifth of it.
    change : {"features", "frequency", "minority", "classes", "labels"}, default="features"
        What differs: the direction that separates the classes, the frequency of the positive class
        (5 times), the place of the positive class alone, a third class, or 10% wrong labels.
    rows : int, default=20_000
        Number of rows.
    positives : float, default=0.02
        Share of the positive class, and of a third class.
    features : int, default=10
        Number of features.
    seed : int, default=0
        Seed of the rows.

    Returns
    -------
    X : ndarray of shape (rows, features)
        The rows, in order.
    y : ndarray of shape (rows,)
        Labels 0, 1 (positive) and 2 (the third class).

    Examples
    --------
    >>> from counterpoise.evaluate import drifting_stream
    >>> X, y = drifting_stream("gradual", "frequency", rows=10_000, positives=0.01)
    >>> X.shape, bool(y[:3000].mean() < y[7000:].mean())
    ((10000, 10), True)
    """
    for name, value, known in (("drift", drift, DRIFTS), ("change", change, CHANGES)):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}; got {value!r}")
    if not 0.0 < positives < 0.5 / FREQUENCY_FACTOR:
        raise ValueError(f"positives must be above 0 and below 0.1; got {positives}")
    rng = np.random.default_rng(seed)
    second = rng.random(rows) < _share_of_second(drift, rows)
    share = np.full(rows, positives)
    if change == "frequency":
        share[second] *= FREQUENCY_FACTOR
    y = (rng.random(rows) < share).astype(int)
    if change == "classes":
        y[second & (rng.random(rows) < positives)] = 2
    directions = np.linalg.qr(rng.standard_normal((features, min(features, 3))))[0].T
    X = rng.standard_normal((rows, features))
    own = DISTANCE * directions[0]
    X[y == 1] += own
    X[y == 2] += DISTANCE * directions[-1]
    if change == "features":  # the mirror image: what was high is low
        X[second] = -X[second]
        X[second] += own
    if change == "minority":
        X[second & (y == 1)] += DISTANCE * directions[len(directions) // 2] - own
    if change == "labels":
        wrong = second & (rng.random(rows) < np.where(y == 1, WRONG_LABELS, WRONG_LABELS * share))
        y = np.where(wrong, 1 - y, y)
    return X, y


def _share_of_second(drift: str, rows: int) -> Vector:
    """Return the probability of the second concept at each row, (rows,)."""
    at: Vector = (np.arange(rows) + 0.5) / rows
    if drift == "sudden":
        return (at > 0.5).astype(float)
    if drift == "gradual":
        return np.clip((at - 0.3) / 0.4, 0.0, 1.0)
    if drift == "recurring":
        return (np.floor(at * PERIODS) % 2).astype(float)
    return np.zeros(rows)
