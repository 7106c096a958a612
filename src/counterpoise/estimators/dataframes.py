"""What is given as X: a frame by names, or an array by places, checked by scikit-learn's rules."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from counterpoise import validation
from counterpoise.arrays import Labels
from counterpoise.errors import DataError
from counterpoise.readers.chunk import require_different
from counterpoise.readers.dataframes import NAME, column_names, is_lazy, tables

MISMATCH = "The feature names should match those that were passed during fit.\n"


class Frame(NamedTuple):
    """Rows, checked as far as that can be done before they are read."""

    data: Any  # what a source of chunks takes
    rows: int | None  # how many there are, if that is known


def check_frame(
    model: Any,
    X: Any,
    label: str,
    reset: bool,
    least: int,
    labels: Mapping[str, pa.Array] | None = None,
) -> Frame:
    """Check what was given as X by what the model knows of its columns.

    ``label`` is the column that is none of them, ``reset`` whether the model learns what they are,
    unless it knows, ``least`` the least number of rows, ``labels`` those that came beside X.
    """
    if sp.issparse(X):
        raise TypeError(
            "Sparse data was passed, but dense data is required: a TableClassifier takes frames "
            "with names; BalancedRidgeClassifier takes sparse matrices"
        )
    validation.refuse_masked(X, "X")
    known = hasattr(model, "n_features_in_")
    if isinstance(X, list):
        X = _array_of(X)
    if is_lazy(X):
        return Frame(X, None)
    if not hasattr(X, "columns") and not hasattr(X, "schema") and _is_array(X):
        return _by_position(model, X, reset and not known, least, labels)
    raw = _raw_names(X)
    if raw and not any(isinstance(name, str) for name in raw):  # places, not names
        (table,) = tables(X)
        array = Frame(table.rename_columns([f"x{j}" for j in range(len(raw))]), len(X))
        return _without_names(model, array, len(raw), reset and not known, labels)
    names = column_names(X)
    rows = getattr(X, "shape", (None,))[0] if names is not None else None
    rows = rows if rows is not None else getattr(X, "num_rows", None)
    if names is None:
        return Frame(X, rows)
    if labels is not None and label in names:
        raise DataError(
            f"the frame has a column {label!r}, and labels of that name came beside it; leave it "
            "out, or give them another name by label="
        )
    require_different(names, NAME)
    mine = [name for name in names if name != label]
    if rows is not None and rows < least:
        raise ValueError(
            f"Found array with {rows} sample(s) (shape={(rows, len(mine))}) while a minimum of "
            f"{least} is required."
        )
    if reset and rows == 0 == least:
        return Frame(X, rows)  # of no rows nothing is learned, not even what the columns are
    if not mine and not known:
        raise ValueError(
            f"Found array with 0 feature(s) (shape={(rows, 0)}) while a minimum of 1 is required."
        )
    _require_length(rows, labels)
    if reset and not known:
        set_column_names(model, mine)
        return Frame(X, rows)
    return Frame(_same_columns(model, X, mine, label), rows)


def set_column_names(model: Any, columns: list[str]) -> None:
    """Set the names of the columns of a model, in their order."""
    model.n_features_in_ = len(columns)
    model.feature_names_in_ = np.array(columns, dtype=object)


def _same_columns(model: Any, X: Any, mine: list[str], label: str) -> Any:
    """The frame, if its columns are those that were learned; raise in scikit-learn's words."""
    if not hasattr(model, "feature_names_in_"):
        if not model.__dict__.get("_has_positions") or model.allow_new_columns:
            return X  # the model knows columns by name, and none of their order
        warnings.warn(
            f"X has feature names, but {type(model).__name__} was fitted without feature names",
            UserWarning,
            stacklevel=5,
        )
        _require_width(model, len(mine))
        table = pa.concat_tables(list(tables(X)))
        return table.rename_columns([f"x{j}" for j in range(len(mine))])
    before = model.feature_names_in_.tolist()
    if model.allow_new_columns or mine == before:
        return X
    seen = [name for name in before if name in mine]
    unseen, gone = sorted(set(mine) - set(before)), sorted(set(before) - set(mine))
    text = MISMATCH
    if unseen:
        text += "Feature names unseen at fit time:\n" + _listed(unseen)
    if gone:
        text += "Feature names seen at fit time, yet now missing:\n" + _listed(gone)
    if not unseen and not gone and len(seen) == len(mine):
        text += "Feature names must be in the same order as they were in fit.\n"
    raise ValueError(text + "With allow_new_columns=True they need not.\n")


def _listed(names: list[str]) -> str:
    return "".join(f"- {name}\n" for name in names[:5]) + ("- ...\n" if len(names) > 5 else "")


def _raw_names(X: Any) -> list[Any]:
    return list(X.columns) if hasattr(X, "columns") and hasattr(X, "iloc") else []


def _is_array(X: Any) -> bool:
    arrow = hasattr(X, "__arrow_c_stream__") or isinstance(X, Mapping)
    return not arrow and (hasattr(X, "__array__") or hasattr(X, "__array_interface__"))


def _array_of(X: list[Any]) -> Any:
    """A list of rows as an array; of pieces of frames as an iterator."""
    if X and (hasattr(X[0], "columns") or hasattr(X[0], "schema")):
        return iter(X)
    array = np.asarray(X)
    return np.asarray(X, dtype=object) if array.dtype.kind in "US" else array


def _by_position(
    model: Any, X: Any, reset: bool, least: int, labels: Mapping[str, pa.Array] | None
) -> Frame:
    """An array, whose columns have places: called x0, x1, ..., or as in the frames before."""
    from sklearn.utils import check_array

    array = check_array(
        np.asarray(X),
        dtype=None,
        ensure_all_finite="allow-nan" if np.asarray(X).dtype.kind in "fiu" else False,
        ensure_min_samples=least,
        estimator=model,
        input_name="X",
    )
    if array.dtype.kind == "O":
        for row in array[:1].tolist():
            if any(isinstance(cell, (dict, list, set)) for cell in row):
                raise TypeError("argument must be a string or a number: a cell holds neither")
    (table,) = tables(array)
    return _without_names(model, Frame(table, len(array)), array.shape[1], reset, labels)


def _without_names(
    model: Any, frame: Frame, width: int, reset: bool, labels: Mapping[str, pa.Array] | None
) -> Frame:
    """Rows whose columns have places: called x0, x1, ..., or as in the frames before."""
    _require_length(frame.rows, labels)
    if reset:
        model.n_features_in_ = width
        model.__dict__["_has_positions"] = True
    _require_width(model, width)
    if not hasattr(model, "feature_names_in_"):
        return frame
    warnings.warn(
        f"X does not have valid feature names, but {type(model).__name__} was fitted with feature "
        "names",
        UserWarning,
        stacklevel=5,
    )
    return Frame(frame.data.rename_columns(model.feature_names_in_.tolist()), frame.rows)


def _require_width(model: Any, width: int) -> None:
    if width != model.n_features_in_:
        raise ValueError(
            f"X has {width} features, but {type(model).__name__} is expecting "
            f"{model.n_features_in_} features as input"
        )


def _require_length(rows: int | None, labels: Mapping[str, pa.Array] | None) -> None:
    for column in (labels or {}).values():
        if rows is not None and len(column) != rows:
            raise ValueError(
                "Found input variables with inconsistent numbers of samples: "
                f"[{rows}, {len(column)}]"
            )


DEFAULT = "label"


def parse_labels(y: Any) -> Labels:
    """Return labels (n,) as integers, booleans or text; raise if a value is not a label."""
    from sklearn.utils import column_or_1d
    from sklearn.utils.multiclass import check_classification_targets

    values: Labels = column_or_1d(np.asarray(validation.labels(y)), warn=True)
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise ValueError("Input y contains NaN or infinity; leave such rows out")
        check_classification_targets(values)
        if (values != np.floor(values)).any():
            raise ValueError("Unknown label type: continuous; classes have names or integers")
    return values if values.dtype.kind in "bU" else values.astype(np.int64)


def label_column(y: Any) -> pa.Array:
    """Return labels (n,) as a column; raise if a value is not a label."""
    values = parse_labels(y)
    return pa.array(values.tolist(), pa.string()) if values.dtype.kind == "U" else pa.array(values)


def label_name(y: Any) -> str:
    """Return what to call the column of labels that came beside a frame."""
    name = getattr(y, "name", None)
    return name if isinstance(name, str) and name else DEFAULT


def restore_labels(labels: Labels, kind: str | None) -> Labels:
    """Return labels of a model as they were given, where ``kind`` is that of its encoding."""
    if kind == "bool" and set(labels.tolist()) <= {"true", "false"}:
        return np.array([label == "true" for label in labels.tolist()], dtype=bool)
    return labels
