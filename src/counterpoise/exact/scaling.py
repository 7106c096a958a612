"""Scaling after the fact: the affine map of features that a batch scaler would have found.

A scaler replaces x by (x − m)/s. Moments are quadratic, so they can be rescaled at any time as
if every row had been scaled before it was learned; m and s are those of everything seen so far.
"""

from __future__ import annotations

import numpy as np

from counterpoise.arrays import Vector
from counterpoise.exact.moments import EPS, Moments


def affine(moments: Moments, scale: str | None) -> tuple[Vector, Vector]:
    """Shift and divisor of each feature.

    Parameters
    ----------
    moments : Moments
        What was seen.
    scale : "standard", "minmax" or None
        Mean and standard deviation of all rows by their true weight, minimum and range, or 0
        and 1. A feature without variation is divided by 1.

    Returns
    -------
    m : ndarray of shape (d,)
        The shift, relative to the anchor of the moments.
    s : ndarray of shape (d,)
        The divisor.

    Examples
    --------
    >>> seen = Moments.of([[0.0], [4.0], [8.0]], ["a", "a", "b"], extremes=True)
    >>> m, s = affine(seen, "minmax")
    >>> (m + seen.anchor).tolist(), s.tolist()
    ([0.0], [8.0])
    """
    anchor = moments.anchor
    if scale is None:
        return -anchor, np.ones(len(anchor))
    if scale == "minmax":
        span = moments.high - moments.low
        varies = span > np.finfo(np.float64).tiny  # nothing finite is left of 1 / a smaller one
        return moments.low - anchor, np.where(varies, span, 1.0)
    seen = moments.n > 0
    n, N, mean = moments.n[seen, None], moments.N[seen, None], moments.mean[seen]
    total = N.sum()
    m = (N * mean).sum(axis=0) / total
    C_jj = np.einsum("kjj->kj", moments.C[seen])
    variance = (N * (C_jj / n + (mean - m) ** 2)).sum(axis=0) / total
    constant = variance <= (8.0 * EPS * np.abs(anchor + m)) ** 2
    return m, np.sqrt(np.where(constant, 1.0, variance))


def spread(moments: Moments) -> Vector:
    """Standard deviation of each feature over everything learned, 1 where it is constant."""
    return affine(moments, "standard")[1]
