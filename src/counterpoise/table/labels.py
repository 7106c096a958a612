"""Labels next to a frame: as a column of Arrow, and back with the type that they had."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise import validate
from counterpoise.arrays import Labels

DEFAULT = "label"


def values_of(y: Any) -> Labels:
    """Return labels (n,) as integers, booleans or text; raise if a value is not a label."""
    from sklearn.utils import column_or_1d
    from sklearn.utils.multiclass import check_classification_targets

    values: Labels = column_or_1d(np.asarray(validate.labels(y)), warn=True)
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise ValueError("Input y contains NaN or infinity; leave such rows out")
        check_classification_targets(values)
        if (values != np.floor(values)).any():
            raise ValueError("Unknown label type: continuous; classes have names or integers")
    return values if values.dtype.kind in "bU" else values.astype(np.int64)


def column_of(y: Any) -> pa.Array:
    """Return labels (n,) as a column; raise if a value is not a label."""
    values = values_of(y)
    return pa.array(values.tolist(), pa.string()) if values.dtype.kind == "U" else pa.array(values)


def name_of(y: Any) -> str:
    """Return what to call the column of labels that came beside a frame."""
    name = getattr(y, "name", None)
    return name if isinstance(name, str) and name else DEFAULT


def restored(labels: Labels, kind: str | None) -> Labels:
    """Return labels of a model as they were given, where ``kind`` is that of its encoding."""
    if kind == "bool" and set(labels.tolist()) <= {"true", "false"}:
        return np.array([label == "true" for label in labels.tolist()], dtype=bool)
    return labels
