"""Labels as what a model file can hold, and back, trusting nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpoise.arrays import Labels
from counterpoise.modelfile.container import require

LABELS = 1 << 26  # bytes of all labels, which NumPy makes all as long as the longest


def plain_labels(labels: Labels) -> dict[str, Any]:
    """Labels with their type, as JSON can hold them.

    Parameters
    ----------
    labels : ndarray
        Numbers, truth values or text.

    Returns
    -------
    dict
    """
    kind = labels.dtype.kind
    name = {"U": "text", "O": "object", "b": "bool"}.get(kind, labels.dtype.name)
    values = labels.tolist()
    if kind not in "UObiuf" or not all(isinstance(v, (str, bool, int, float)) for v in values):
        raise TypeError(f"labels of type {labels.dtype} cannot be saved; use text or numbers")
    return {"type": name, "values": values}


def labels_of(plain: Any) -> Labels:
    """Labels from what :func:`plain_labels` made of them.

    Parameters
    ----------
    plain : dict
        Their type and values.

    Returns
    -------
    ndarray
    """
    require(isinstance(plain, dict) and set(plain) == {"type", "values"}, "labels without type")
    kind, values = plain["type"], plain["values"]
    numbers = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    numbers += ["float16", "float32", "float64"]
    types = {"text": (str,), "object": (str, bool, int, float), "bool": (bool,)}
    types |= dict.fromkeys(numbers, (int, float))
    known = isinstance(kind, str) and kind in types and isinstance(values, list)
    require(known, "labels of an unknown type")
    require(all(isinstance(v, types[kind]) for v in values), "labels that are not of their type")
    require(len({(type(v) is str, v) for v in values}) == len(values), "a label twice")
    longest = max((len(v) for v in values if isinstance(v, str)), default=0)
    require(4 * longest * len(values) <= LABELS, "labels that are too long")
    dtype = {"text": np.str_, "object": object}.get(kind, kind)
    try:
        labels: Labels = np.array(values, dtype=dtype)
    except (OverflowError, ValueError):
        labels = np.empty(0)
    require(labels.tolist() == values, "labels that do not fit their type")
    return labels
