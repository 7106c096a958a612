"""Calibration counts as what a model file can hold, and back, trusting nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from counterpoise.arrays import Labels
from counterpoise.exact.calibration import BINS, EDGES, REACH, Calibration
from counterpoise.modelfile.container import Contents, require
from counterpoise.modelfile.labels import labels_of, plain_labels
from counterpoise.modelfile.moments import MOST

NAMES = ("calibration counts", "calibration sums")
MALFORMED = "malformed calibration counts"


def with_calibration(contents: Contents, calibration: Calibration) -> Contents:
    """Return what a file holds of a model with calibration counts.

    Parameters
    ----------
    contents : Contents
        What it holds without them.
    calibration : Calibration
        The counts.

    Returns
    -------
    Contents
    """
    arrays = dict(zip(NAMES, (calibration.counts, calibration.sums), strict=True))
    fact = {"labels": plain_labels(calibration.labels), "rows": calibration.rows}
    return replace(
        contents,
        arrays={**contents.arrays, **arrays},
        facts={**contents.facts, "calibration": fact},
    )


def calibration_from(contents: Contents) -> tuple[Contents, Calibration | None]:
    """Return what a file holds besides calibration counts, and these, checked.

    Parameters
    ----------
    contents : Contents
        What it holds.

    Returns
    -------
    Contents
    Calibration or None
    """
    found = contents.facts.get("calibration")
    if found is None:
        require("calibration" not in contents.facts, MALFORMED)
        return contents, None
    require(isinstance(found, dict) and set(found) == {"labels", "rows"}, MALFORMED)
    arrays = [contents.arrays.get(name) for name in NAMES]
    calibration = checked(labels_of(found["labels"]), found["rows"], *arrays)
    rest = {name: array for name, array in contents.arrays.items() if name not in NAMES}
    return replace(contents, arrays=rest), calibration


def checked(labels: Labels, rows: Any, counts: Any, sums: Any) -> Calibration:
    """Return calibration counts, checked.

    Parameters
    ----------
    labels : ndarray of shape (c,)
        Their classes.
    rows : int
        Number of rows.
    counts, sums : ndarray or None
        Counts and sums of log-odds by class and bin.

    Returns
    -------
    Calibration
    """
    require(type(rows) is int and 0 < rows < 2**63 and len(labels) > 1, MALFORMED)
    shapes = [None if array is None else array.shape for array in (counts, sums)]
    require(shapes == [(len(labels), 2, BINS), (len(labels), BINS)], MALFORMED)
    total = counts.sum(axis=1)
    good = bool((counts >= 0).all() and (total <= MOST).all())
    require(good, "an impossible number of calibration rows")
    require(bool(total.any(axis=1).all()), "a class without calibration counts")
    # The mean of what is in a bin is in the bin.
    edges = np.sinh(EDGES)
    low, high = np.append(-REACH, edges), np.append(edges, REACH)
    slack = 1e-6 * (1.0 + np.abs(sums))
    inside = (sums >= total * low - slack) & (sums <= total * high + slack)
    outside = "calibration counts outside of their bins"
    require(bool(inside.all()) and not sums[total == 0].any(), outside)
    return Calibration(labels, counts, sums, rows)
