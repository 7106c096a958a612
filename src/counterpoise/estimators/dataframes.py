"""Frames, by names, and arrays, by positions, checked by scikit-learn's rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from counterpoise import validation
from counterpoise.arrays import Labels
from counterpoise.encoding.column_values import no_columns
from counterpoise.encoding.columns import MISSING_RULES, Columns, parse_roles
from counterpoise.errors import DataError
from counterpoise.readers.chunk import require_different
from counterpoise.readers.dataframes import NAME, column_names, is_lazy, is_stream, tables

DEFAULT_LABEL = "label"
LabelColumns = Mapping[str, pa.Array] | None


class Frame(NamedTuple):
    """Rows, checked as far as possible before they are read."""

    data: Any  # input of a FrameSource
    rows: int | None  # number of rows; None before all are read


def parse_column_options(model: Any, label: str) -> Columns:
    """Return the settings of the columns; raise if a parameter is invalid."""
    for name in ("only", "classes"):
        value = getattr(model, name)
        if isinstance(value, str) or not all(isinstance(one, str) for one in value):
            raise ValueError(f"{name} must be a list of names; got {value!r}")
    validation.require_one_of(model, "missing", MISSING_RULES)
    validation.require_one_of(model, "decimal", (".", ","))
    if model.time_format is not None and "%" not in model.time_format:
        raise ValueError(f"time_format must be like %d.%m.%Y; got {model.time_format!r}")
    if not 0 <= validation.check_nonnegative_int(model.seed, "seed") < 2**32:
        raise ValueError(f"seed must be below 2**32; got {model.seed!r}")
    return Columns(
        label,
        parse_roles(model.columns or {}),
        tuple(sorted(set(model.only))),
        int(model.seed),
        model.missing,
        tuple(sorted(set(model.classes))),
        model.decimal,
        model.time_format,
    )


def check_frame(
    model: Any, X: Any, label: str, reset: bool, least: int, labels: LabelColumns = None
) -> Frame:
    """Check X by the columns of a model.

    The column ``label`` is not one of them. With ``reset`` a model without columns gets those of X.
    ``least`` is the minimum of rows, and ``labels`` came next to X.
    """
    if sp.issparse(X):
        raise TypeError(
            "Sparse data was passed, but dense data is required: a TableClassifier takes frames "
            "with names; BalancedRidgeClassifier takes sparse matrices"
        )
    validation.refuse_masked(X, "X")
    has_columns = hasattr(model, "n_features_in_")
    if isinstance(X, list):
        X = _from_list(X)
    if is_lazy(X):
        return Frame(X, None)
    if not hasattr(X, "columns") and not hasattr(X, "schema") and _is_array(X):
        return _check_array(model, X, reset and not has_columns, least, labels)
    raw = list(X.columns) if hasattr(X, "columns") and hasattr(X, "iloc") else []
    if raw and not any(isinstance(name, str) for name in raw):  # positions, not names
        (table,) = tables(X)
        return _check_unnamed(model, table, reset and not has_columns, labels)
    names = column_names(X)
    if names is None:
        return Frame(X, _row_count(X))
    rows = _row_count(X)
    if labels is not None and label in names:
        raise DataError(
            f"the frame has a column {label!r}, and labels of that name came next to it; drop the "
            "column, or give the labels another name by label="
        )
    require_different(names, NAME)
    mine = [name for name in names if name != label]
    if reset and rows == 0 == least:
        return Frame(X, rows)  # without rows, columns are not learned either
    check_array(
        np.broadcast_to(0.0, (least if rows is None else rows, len(mine))),
        ensure_min_samples=least,
        ensure_min_features=0 if has_columns else 1,
    )
    _require_length(rows, labels)
    if reset and not has_columns:
        set_column_names(model, mine)
        return Frame(X, rows)
    return Frame(_same_columns(model, X, mine), rows)


def _row_count(X: Any) -> int | None:
    """Return the number of rows of a frame; None if that takes reading it."""
    shape, rows = getattr(X, "shape", None), getattr(X, "num_rows", None)
    rows = shape[0] if isinstance(shape, tuple) else rows
    return rows if isinstance(rows, int) else None


def set_column_names(model: Any, columns: list[str]) -> None:
    """Set the names of the columns of a model, in their order."""
    model.n_features_in_ = len(columns)
    model.feature_names_in_ = np.array(columns, dtype=object)


def _same_columns(model: Any, X: Any, mine: list[str]) -> Any:
    """Return a frame that has the learned columns; raise with scikit-learn's message if not."""
    before = getattr(model, "feature_names_in_", None)
    has_positions = model.__dict__.get("_has_positions", False)
    if before is None and not has_positions:  # the order of the learned columns is unknown
        return X
    if model.allow_new_columns or (before is not None and mine == before.tolist()):
        return X
    try:
        empty = pa.table({name: pa.array([], pa.float64()) for name in mine})
        validate_data(model, empty, reset=False, skip_check_array=True)
    except ValueError as error:
        if before is None:
            raise
        lacking = [name for name in before.tolist() if name not in mine]
        if lacking:
            names = column_names(X) or mine
            problem = no_columns(NAME, names, lacking, "which the model has learned")
            raise ValueError(f"{problem}\n{error}") from None
        fix = "Pass allow_new_columns=True to allow different columns.\n"
        raise ValueError(f"{error}{fix}") from None
    table = pa.concat_tables(list(tables(X)))
    return table.rename_columns([f"x{j}" for j in range(len(mine))])


def _is_array(X: Any) -> bool:
    is_arrow = is_stream(X) or isinstance(X, Mapping)
    return not is_arrow and (hasattr(X, "__array__") or hasattr(X, "__array_interface__"))


def _from_list(X: list[Any]) -> Any:
    """Return a list of rows as an array, or pieces of frames as an iterator."""
    if X and (hasattr(X[0], "columns") or hasattr(X[0], "schema")):
        return iter(X)
    array = np.asarray(X)
    return np.asarray(X, dtype=object) if array.dtype.kind in "US" else array


def _check_array(model: Any, X: Any, reset: bool, least: int, labels: LabelColumns) -> Frame:
    """Return an array with names of columns."""
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
                raise TypeError("argument must be a string or a number: a cell is neither")
    (table,) = tables(array)
    return _check_unnamed(model, table, reset, labels)


def _check_unnamed(model: Any, table: pa.Table, reset: bool, labels: LabelColumns) -> Frame:
    """Return rows with columns by position: x0, x1, ..., or with the learned names."""
    rows, width = table.num_rows, table.num_columns
    _require_length(rows, labels)
    if reset:
        model.n_features_in_ = width
        model.__dict__["_has_positions"] = True
    validate_data(model, np.empty((0, width)), reset=False, skip_check_array=True)
    names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(width)])
    return Frame(table.rename_columns(list(names)), rows)


def _require_length(rows: int | None, labels: LabelColumns) -> None:
    for column in (labels or {}).values():
        if rows is not None and len(column) != rows:
            raise ValueError(
                "Found input variables with inconsistent numbers of samples: "
                f"[{rows}, {len(column)}]"
            )


def parse_labels(y: Any) -> Labels:
    """Return labels (n,) as integers, booleans or text; raise if a value is not a label."""
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


def label_values(X: Any, label: str) -> list[Any]:
    """Return the labels in a column of a frame; raise if it does not have the column."""
    values: list[Any] = []
    for _ in collect_labels(X, label, values):
        pass
    return values


def collect_labels(X: Any, label: str, values: list[Any]) -> Iterator[pa.Table]:
    """Yield the rows of a frame, and append their labels to a list as they are read."""
    for table in tables(X):
        if label not in table.column_names:
            raise no_columns(NAME, table.column_names, [label], "which contains the labels")
        values += table[label].to_pylist()
        yield table


def label_name(y: Any) -> str:
    """Return the name of the column of labels that came next to a frame."""
    name = getattr(y, "name", None)
    return name if isinstance(name, str) and name else DEFAULT_LABEL


def restore_labels(labels: Labels, kind: str | None) -> Labels:
    """Return labels of a model as they were given; ``kind`` is that of its encoding."""
    if kind == "bool" and set(labels.tolist()) <= {"true", "false"}:
        return np.array([label == "true" for label in labels.tolist()], dtype=bool)
    return labels
