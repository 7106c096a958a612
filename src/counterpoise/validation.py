"""Checks of values, labels, weights and parameters, without scikit-learn.

An error names the feature, the row, the value found and a remedy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from counterpoise.arrays import Labels, Rows, Vector, is_sparse, to_dense

E = TypeVar("E")
Names = Sequence[Any]  # of features, in messages

MAX_ABS_VALUE = 1e100  # of a value: its square, times a weight, must not overflow
MAX_SAMPLE_WEIGHT = 1e50  # of a weight
MAX_TIMESTAMP = 253_402_300_800  # of a time, in seconds: the year 10,000
LABELS = "iubU"  # kinds of arrays that can hold nothing but labels
LABEL_KINDS = ("text", "number", "boolean")


def labels(y: Any) -> Any:
    """Return labels as NumPy keeps them: text, integers, booleans, or floats to be checked.

    Raise if a value is not a label. What does not have the shape (n,) is left for scikit-learn.
    """
    refuse_masked(y, "y")
    if not isinstance(getattr(y, "dtype", None), np.dtype):
        for name in ("to_pylist", "to_list", "tolist"):  # of pyarrow, polars and pandas
            if hasattr(y, name):
                y = np.array([*getattr(y, name)(), None], dtype=object)[:-1]  # lists stay lists
                break
    values = np.asarray(y, dtype=object if isinstance(y, (list, tuple)) else None)
    if values.ndim != 1 or values.dtype.kind in f"{LABELS}fc":
        return np.asarray(y)
    found = values.tolist() if values.dtype.kind == "O" else list(values)
    kinds = [_label_kind(label) for label in found]
    for row, (label, kind) in enumerate(zip(found, kinds, strict=True)):
        if kind == "missing":
            raise ValueError(
                f"Input y contains NaN: the label at row {row} is {label!r}; leave such rows out"
            )
        if kind != kinds[0] or kind not in LABEL_KINDS:
            large = kind == "an integer beyond 64 bits"
            shown = kind if large else f"{repr(label)[:60]} (type {type(label).__name__})"
            mixed = f", and {found[0]!r} at row 0" if kind in LABEL_KINDS else ""
            raise ValueError(
                f"Unknown label type: the label at row {row} is {shown}{mixed}; labels must be "
                "text, integers or booleans, and of one type: convert them, for example with "
                "astype(str)"
            )
    result = np.array(found, dtype=str if not found or kinds[0] == "text" else None)
    return result.astype(np.float64) if result.dtype.kind == "O" else result


def _label_kind(label: Any) -> str:
    """Return what a label is: one of LABEL_KINDS, "missing", or something that is not a label."""
    if isinstance(label, str):
        return "text"
    if isinstance(label, (bool, np.bool_)):
        return "boolean"
    if isinstance(label, int) and not -(2**63) <= label < 2**63:
        return "an integer beyond 64 bits"
    if isinstance(label, (Real, Decimal)) and not isinstance(label, np.timedelta64):
        return "missing" if label != label else "number"
    missing = label is None or type(label).__name__ in ("NAType", "NaTType")
    return "missing" if missing else ""


def refuse_masked(values: Any, name: str) -> None:
    """Raise if an element of an array is masked, which NumPy would take as a number."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        row = int(np.argwhere(np.ma.getmaskarray(values))[0][0])
        raise ValueError(
            f"{name} is a masked array with a masked value at row {row}; drop such rows, or fill "
            "them in first with filled()"
        )


def require_finite(X: Rows, names: Names | None = None) -> None:
    """Raise if a value of X is NaN or infinite, naming where."""
    values = X.data if is_sparse(X) else X
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return
    bad = np.argwhere(~np.isfinite(values))
    if not len(bad):
        return
    if is_sparse(X):
        at = int(bad[0, 0])
        row = int(np.searchsorted(X.indptr, at, side="right")) - 1
        column, value = int(X.indices[at]), X.data[at]
    else:
        row, column = map(int, bad[0])
        value = X[row, column]
    what, remedy = value, "clip them to a number first, for example with numpy.clip"
    if np.isnan(value):
        what, remedy = "NaN", "impute them first, for example with sklearn.impute.SimpleImputer; "
        remedy += "counterpoise.TableClassifier takes frames with missing values"
    name = feature_name(column, names)
    raise ValueError(f"{name} is {what} at row {row}; drop such rows, or {remedy}")


def require_bounded(X: Rows, names: Names | None = None) -> None:
    """Raise if a value of X is NaN, infinite, or so large that its square would overflow."""
    if not X.shape[0] or (X.max() <= MAX_ABS_VALUE and X.min() >= -MAX_ABS_VALUE):
        return
    require_finite(X, names)
    size = np.abs(X).max(axis=0)
    refuse_large(to_dense(size).ravel(), names)


def refuse_large(size: Vector, names: Names | None = None) -> None:
    """Raise for the largest feature, given the size of each."""
    column = int(size.argmax())
    raise ValueError(
        f"{feature_name(column, names)} contains values beyond {MAX_ABS_VALUE:g}, whose squares "
        "would overflow; divide the feature by a constant first"
    )


def feature_name(column: int, names: Names | None = None) -> str:
    """Return how a message names a feature."""
    return f"feature {column}" if names is None else f"feature {str(names[column])!r}"


def weights(sample_weight: ArrayLike | None, rows: int) -> Vector | None:
    """Return sample weights as a vector (n,); raise if one is not finite or is negative."""
    if sample_weight is None:
        return None
    refuse_masked(sample_weight, "sample_weight")
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.ndim == 0:
        weight = np.full(rows, float(weight))
    if weight.shape != (rows,):
        raise ValueError(
            f"sample_weight has shape {weight.shape}, expected ({rows},): one weight for each row "
            "(sample_weight must be a 1D array or a scalar)"
        )
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(bad):
        value = weight[bad[0]]
        what = "NaN" if np.isnan(value) else "negative" if np.isfinite(value) else "infinite"
        raise ValueError(
            f"sample_weight is {what} ({value:g}) at row {bad[0]}; weights must be finite and not "
            "negative. To unlearn rows, use unlearn"
        )
    return np.ascontiguousarray(weight)


def check_nonnegative_int(value: Any, name: str) -> int:
    """Raise unless an argument is an integer that is not negative, and return it."""
    if not (isinstance(value, (int, np.integer)) and value >= 0):
        raise ValueError(f"{name}={value!r} must be an integer that is not negative")
    return int(value)


def jobs(value: Any) -> int:
    """Return the number of threads; raise unless ``n_jobs`` is None or an integer other than 0."""
    if value is None:
        return 1
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value == 0:
        raise ValueError(
            f"n_jobs must be None, a number of threads, or -1 for all cores; got {value!r}"
        )
    from joblib import effective_n_jobs

    return int(effective_n_jobs(int(value)))


def number(name: Any, value: Any) -> float:
    """Raise unless a feature of an event is a number that can be learned, and return it."""
    try:
        result = float(value)
    except (TypeError, ValueError):
        remedy = "encode it first, for example with river.preprocessing.OneHotEncoder"
        if value is None:
            remedy = "leave it out, which means 0, or impute it first, for example with "
            remedy += "river.preprocessing.StatImputer, or use "
            remedy += "counterpoise.river.BalancedRidgeClassifier(absent='missing')"
        elif hasattr(value, "isoformat"):
            remedy = "convert dates to numbers first, for example with their timestamp()"
        raise ValueError(f"feature {name!r} is {value!r}, not a number; {remedy}") from None
    except OverflowError:
        result = float("inf")
    if abs(result) <= MAX_ABS_VALUE:
        return result
    if np.isfinite(result):
        raise ValueError(
            f"feature {name!r} is {result:g}, beyond {MAX_ABS_VALUE:g}: its square would overflow"
        )
    what = "NaN" if np.isnan(result) else f"{result:g}"
    raise ValueError(f"feature {name!r} is {what}; leave it out, impute it, or drop the event")


def require_some_weight(weight: Vector) -> None:
    """Raise if all weights are zero."""
    if not weight.any():
        raise ValueError("every sample_weight is zero: there is nothing to fit")


def require_labels(y: Labels) -> None:
    """Raise, with scikit-learn's message, if these are measurements and not labels."""
    if y.ndim == 1 and y.dtype.kind in LABELS:
        return
    if y.dtype.kind == "f" and not (y != np.floor(y)).any():
        return
    kind = "continuous" if y.ndim == 1 and y.dtype.kind == "f" else "unknown"
    raise ValueError(
        f"Unknown label type: {kind}. Maybe you are trying to fit a classifier, which expects "
        "discrete classes on a regression target with continuous values."
    )


def require_no_nan(classes: Labels) -> None:
    """Raise if a label that is announced is NaN or infinite."""
    if any(label != label or label in (np.inf, -np.inf) for label in classes.tolist()):
        raise ValueError("classes contains NaN or infinity; name real labels only")


def require_one_type(y: Labels, known: Labels) -> None:
    """Raise if some labels are text and the others numbers."""
    if not (len(y) and len(known)):
        return
    now = "text" if isinstance(y[:1].tolist()[0], str) else "numbers"
    then = "text" if isinstance(known[:1].tolist()[0], str) else "numbers"
    if now != then:
        raise ValueError(
            f"labels are {now} here ({y[:1].tolist()[0]!r}) but {then} in what was learned before "
            f"({known[:1].tolist()[0]!r}); convert them to one type"
        )


def commit(target: object, **attributes: Any) -> None:
    """Set several attributes of an object so that a signal finds none or all of them set."""
    target.__dict__ = target.__dict__ | attributes


@contextmanager
def transactional(estimator: E) -> Iterator[E]:
    """Return a draft of an estimator, whose attributes become its own at the end of the block.

    If the block raises, the estimator is unchanged. A signal finds all old attributes or all new
    ones, because they are one reference.
    """
    draft = object.__new__(type(estimator))
    draft.__dict__.update(estimator.__dict__)
    yield draft
    estimator.__dict__ = draft.__dict__


# Parameters: each function checks one by its name.


def require_positive(estimator: Any, name: str) -> None:
    """Raise unless the parameter is a finite number above 0."""
    value = getattr(estimator, name)
    if not (_is_number(value) and value > 0):
        raise ValueError(f"{name} must be a finite number above 0; got {value!r}")


def require_nonnegative(estimator: Any, name: str, otherwise: str) -> None:
    """Raise unless the parameter is a finite number that is not negative."""
    value = getattr(estimator, name)
    if not (_is_number(value) and value >= 0):
        raise ValueError(
            f"{name} must be a finite number that is not negative, {otherwise}; got {value!r}"
        )


def require_between(estimator: Any, name: str, low: float, high: float) -> None:
    """Raise unless the parameter is a number strictly between two bounds."""
    value = getattr(estimator, name)
    if not (_is_number(value) and low < value < high):
        raise ValueError(
            f"{name} must be a finite number above {low} and below {high}; got {value!r}"
        )


def require_one_of(estimator: Any, name: str, choices: tuple[Any, ...]) -> None:
    """Raise unless the parameter is one of the choices."""
    value = getattr(estimator, name)
    if value not in choices:
        *first, last = map(repr, choices)
        raise ValueError(f"{name} must be {', '.join(first)} or {last}; got {value!r}")


def check_bool(estimator: Any, name: str) -> None:
    """Raise unless the parameter is True or False."""
    value = getattr(estimator, name)
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False; got {value!r}")


def check_label_dict(estimator: Any, name: str, otherwise: str = "") -> None:
    """Raise unless the parameter is a dict of positive numbers by label, or None."""
    value = getattr(estimator, name)
    if value is None:
        return
    if not isinstance(value, Mapping):
        wanted = f"{otherwise}, " if otherwise else ""
        raise ValueError(f"{name} must be {wanted}a dict of label: number, or None; got {value!r}")
    for label, number in value.items():
        if not (_is_number(number) and number > 0):
            raise ValueError(f"{name}[{label!r}] must be a finite number above 0; got {number!r}")


def _is_number(value: Any) -> bool:
    is_real = isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
    return is_real and bool(np.isfinite(float(value)))
