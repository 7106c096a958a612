"""Verdicts on rows as what a model file can hold, and back, trusting nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from counterpoise.exact.calibration import BINS, EDGES, REACH, Calibration
from counterpoise.modelfile.container import Contents, require
from counterpoise.modelfile.labels import labels_of, plain_labels
from counterpoise.modelfile.moments import MOST

NAMES = ("calibration counts", "calibration sums")


def with_calibration(contents: Contents, calibration: Calibration) -> Contents:
    """What a file holds of a model that has judged rows.

    Parameters
    ----------
    contents : Contents
        What it holds without them.
    calibration : Calibration
        The verdicts.

    Returns
    -------
    Contents
    """
    arrays = dict(zip(NAMES, (calibration.counts, calibration.sums), strict=True))
    told = {"labels": plain_labels(calibration.labels), "rows": calibration.rows}
    return replace(
        contents,
        arrays={**contents.arrays, **arrays},
        facts={**contents.facts, "calibration": told},
    )


def calibration_from(contents: Contents) -> tuple[Contents, Calibration | None]:
    """What a file holds beside verdicts, and these, checked as if a stranger had written them.

    Parameters
    ----------
    contents : Contents
        What it holds.

    Returns
    -------
    Contents
    Calibration or None
    """
    told = contents.facts.get("calibration")
    if told is None:
        require("calibration" not in contents.facts, "malformed verdicts")
        return contents, None
    require(isinstance(told, dict) and set(told) == {"labels", "rows"}, "malformed verdicts")
    labels, rows = labels_of(told["labels"]), told["rows"]
    require(type(rows) is int and 0 < rows < 2**63 and len(labels) > 1, "malformed verdicts")
    found = [contents.arrays.get(name) for name in NAMES]
    shapes = [None if array is None else array.shape for array in found]
    require(shapes == [(len(labels), 2, BINS), (len(labels), BINS)], "malformed verdicts")
    counts, sums = (np.asarray(array) for array in found)
    total = counts.sum(axis=1)
    require(bool((counts >= 0).all() and (total <= MOST).all()), "an impossible number of verdicts")
    require(bool(total.any(axis=1).all()), "a class without verdicts")
    # The mean of what is in a bin is in the bin.
    edges = np.sinh(EDGES)
    low, high = np.append(-REACH, edges), np.append(edges, REACH)
    slack = 1e-6 * (1.0 + np.abs(sums))
    inside = (sums >= total * low - slack) & (sums <= total * high + slack)
    require(bool(inside.all()), "verdicts outside of their bins")
    require(not sums[total == 0].any(), "verdicts outside of their bins")
    rest = {name: array for name, array in contents.arrays.items() if name not in NAMES}
    return replace(contents, arrays=rest), Calibration(labels, counts, sums, rows)
