"""What river hands over, as arrays: frames, labels and weights of any library."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import utils

from counterpoise import validate
from counterpoise.arrays import Labels, Matrix
from counterpoise.exact.labels import groups


def grouped(y: Labels, known: Labels) -> tuple[list[NDArray[np.intp]], Labels]:
    """Rows of each label, and the labels in order of arrival, of whatever type they are."""
    labels = list(dict.fromkeys([*known.tolist(), *y.tolist()]))
    slots = {label: k for k, label in enumerate(labels)}
    codes = np.array([slots[label] for label in y.tolist()], dtype=np.intp)
    same = len(labels) == len(known)
    return groups(codes, len(labels)), known if same else objects_of(labels)


def bad_weight(w: Any) -> ValueError:
    """What is wrong with a weight."""
    return ValueError(f"w={w!r} must be a finite weight that is not negative")


def require_label(label: Any) -> None:
    """Raise if a label is NaN, or None, which stands for a label that is not known yet."""
    if label is None or label != label:
        told = "None" if label is None else "NaN"
        raise ValueError(f"a label is {told}; drop the event, or learn it when its label is known")


def event_of(x: Any) -> dict[Any, Any]:
    """An event as a dict, of a mapping or of pairs."""
    try:
        return dict(x)
    except (TypeError, ValueError):
        raise TypeError(
            f"an event must be a dict of features and numbers, not {type(x).__name__}; arrays are "
            "for counterpoise.BalancedRidgeClassifier, frames for learn_many"
        ) from None


def require_numbers(rows: Matrix, names: list[Any]) -> None:
    """Raise unless all values are numbers in bounds, naming the feature."""
    bad = np.argwhere(~(np.abs(rows) <= validate.LARGEST))
    if len(bad):
        i, j = bad[0]
        validate.number(names[j], rows[i, j])


def matrix_of(X: Any) -> tuple[Matrix, list[Any]]:
    """Rows of a frame, of shape (n, d), and the names of its columns."""
    frame = utils.dataframe.into_frame(X)
    names = list(X.columns) if hasattr(X, "iloc") else list(frame.columns)
    try:
        rows = np.ascontiguousarray(utils.dataframe.to_numpy(frame))
    except (TypeError, ValueError):
        for name, column in zip(names, frame.iter_columns(), strict=True):
            for value in column.to_list():
                validate.number(name, value)
        raise
    return rows, names


def labels_of(y: Any) -> list[Any]:
    """Labels as Python objects, of a series, an array or a list."""
    for name in ("to_pylist", "to_list", "tolist"):
        if hasattr(y, name):
            return list(getattr(y, name)())
    return list(y)


def numbers_of(w: Any) -> Any:
    """Weights as NumPy takes them."""
    return w.to_numpy() if hasattr(w, "to_numpy") else w


def objects_of(labels: list[Any]) -> Labels:
    """An array of labels as they are, tuples included."""
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array
