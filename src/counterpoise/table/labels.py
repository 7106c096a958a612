"""Labels that come beside a frame: as a column of Arrow, and back as whoever asks knows them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.arrays import Labels

DEFAULT = "label"


def column_of(y: Any) -> tuple[pa.Array, bool]:
    """Return labels (n,) as a column, and whether they are truth values; raise if they are none."""
    from sklearn.utils import column_or_1d
    from sklearn.utils.multiclass import check_classification_targets

    if isinstance(y, (pa.Array, pa.ChunkedArray)):
        y = y.to_pylist()
    elif hasattr(y, "to_list"):
        y = np.asarray(y.to_list(), dtype=object) if str(y.dtype) not in KNOWN else np.asarray(y)
    values = column_or_1d(np.asarray(y), warn=True)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError("Input y contains NaN or infinity; leave such rows out")
    if len(values):
        if values.dtype.kind == "O" and any(v is None or v != v for v in values.tolist()):
            raise ValueError("Input y contains NaN; leave such rows out")
        check_classification_targets(values)
    if values.dtype.kind == "O":
        found = values.tolist()
        if len({isinstance(label, str) for label in found}) > 1:
            raise ValueError("y holds labels of several types; convert them to one")
        values = np.array(found) if found else values.astype(str)
    if values.dtype.kind in "US":
        return pa.array(values.astype(str).tolist(), pa.string()), False
    if values.dtype.kind == "b":
        return pa.array(values), True
    if values.dtype.kind == "f" and (values != np.floor(values)).any():
        raise ValueError("Unknown label type: continuous; classes have names or whole numbers")
    return pa.array(values.astype(np.int64)), False


KNOWN = ("int64", "int32", "int8", "uint8", "float64", "bool", "Int64", "Boolean")


def name_of(y: Any) -> str:
    """Return what to call the column of labels that came beside a frame."""
    name = getattr(y, "name", None)
    return name if isinstance(name, str) and name else DEFAULT


def told(labels: Labels, truth: bool) -> Labels:
    """Return labels as they were given: truth values, if they were."""
    if truth and set(labels.tolist()) <= {"true", "false"}:
        return np.array([label == "true" for label in labels.tolist()], dtype=bool)
    return labels
