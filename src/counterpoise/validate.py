"""The door: what comes in is checked here, once, before anything is learnt or predicted.

An error names the feature, the row, the value found and a remedy. Below this module arrays are
float64, C-ordered and finite.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from counterpoise.moments import Labels, Moments, Rows, Vector, groups

LARGEST = 1e100  # of a value: its square, times a weight, must not overflow
HEAVIEST = 1e50  # of a weight


def rows(estimator: Any, X: Any, y: Any = None, reset: bool = False) -> Any:
    """X (and y) as float64 arrays of the right width and names; X is not yet known to be finite.

    Parameters
    ----------
    estimator : BaseEstimator
        Whose ``n_features_in_`` and ``feature_names_in_`` count.
    X : array-like, data frame or CSR matrix of shape (n, d)
        The rows.
    y : array-like of shape (n,), optional
        Their labels.
    reset : bool, default=False
        Take the width and the names from X instead of comparing.

    Returns
    -------
    X, or X and y
    """
    if not reset and _is_plain(estimator, X, y):
        return X if y is None else (X, y)
    target = {} if y is None else {"y": y}
    return validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse="csr",
        dtype=np.float64,
        order="C",
        ensure_all_finite=False,
        **target,
    )


def _is_plain(estimator: Any, X: Any, y: Any) -> bool:
    """Whether nothing is to be converted or compared; scikit-learn's checks take 0.2 ms."""
    return (
        type(X) is np.ndarray
        and X.dtype == np.float64
        and X.ndim == 2
        and X.shape[1] == estimator.n_features_in_
        and len(X) > 0
        and X.flags.c_contiguous
        and not hasattr(estimator, "feature_names_in_")
        and (
            y is None
            or (type(y) is np.ndarray and y.shape == X.shape[:1] and y.dtype.kind in "iub")
        )
    )


def require_finite(estimator: Any, X: Rows) -> None:
    """Raise if a value of X is NaN or infinite, naming where.

    Parameters
    ----------
    estimator : BaseEstimator
        Whose features these are.
    X : ndarray or CSR matrix of shape (n, d)
        The rows.
    """
    values = X.data if sp.issparse(X) else X
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return
    bad = np.argwhere(~np.isfinite(values))
    if not len(bad):
        return
    if sp.issparse(X):
        at = int(bad[0, 0])
        row = int(np.searchsorted(X.indptr, at, side="right")) - 1
        column, value = int(X.indices[at]), X.data[at]
    else:
        row, column = map(int, bad[0])
        value = X[row, column]
    raise ValueError(
        f"{feature_name(estimator, column)} is {'NaN' if np.isnan(value) else value} at row {row}; "
        "drop such rows, or fill them in first, for example with sklearn.impute.SimpleImputer"
    )


def require_moderate(estimator: Any, X: Rows, chunk: Moments) -> None:
    """Raise if the moments of X are not finite, or so large that later sums might not be.

    Parameters
    ----------
    estimator : BaseEstimator
        Whose features these are.
    X : ndarray or CSR matrix of shape (n, d)
        The rows, to name the one at fault.
    chunk : Moments
        Their moments, which are not finite if any of them is not.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.abs(chunk.anchor + chunk.mean) + np.sqrt(chunk.peak)
        fine = (size <= LARGEST).all() and (chunk.N <= HEAVIEST).all()
    if fine:
        return
    require_finite(estimator, X)
    if not (chunk.N <= HEAVIEST).all():
        raise ValueError(f"sample weights add up to more than {HEAVIEST:g}; scale them down")
    column = int(np.argmax(np.nan_to_num(size, nan=np.inf).max(axis=0)))
    raise ValueError(
        f"{feature_name(estimator, column)} holds values beyond {LARGEST:g}, whose squares would "
        "overflow; divide the feature by a constant first"
    )


def feature_name(estimator: Any, column: int) -> str:
    """What to call a feature in a message.

    Parameters
    ----------
    estimator : BaseEstimator
        Whose feature it is.
    column : int
        Its position.

    Returns
    -------
    str
    """
    names = getattr(estimator, "feature_names_in_", None)
    return f"feature {column}" if names is None else f"feature {str(names[column])!r}"


def weights(sample_weight: ArrayLike | None, rows: int) -> Vector | None:
    """Sample weights as a vector.

    Parameters
    ----------
    sample_weight : array-like of shape (n,), float or None
        The weights.
    rows : int
        How many are wanted.

    Returns
    -------
    ndarray of shape (n,), or None
    """
    if sample_weight is None:
        return None
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
            "negative. To take rows back, use forget"
        )
    return np.ascontiguousarray(weight)


def group(y: Labels, known: Labels) -> tuple[list[NDArray[np.intp]], Labels]:
    """Rows of each label.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels.
    known : ndarray of shape (c,)
        Labels that have a position already.

    Returns
    -------
    rows_of : list of ndarray
        Rows of each label, in order.
    labels : ndarray
        ``known`` itself if y brings no new label, else with the new ones after it, sorted.
    """
    require_one_type(y, known)
    if 0 < len(known) <= 16:
        rows_of = [np.flatnonzero(y == label) for label in known]
        if sum(map(len, rows_of)) == len(y):
            return rows_of, known
    new = y if not len(known) else y[~np.isin(y, known)]
    labels = known
    if len(new):
        check_classification_targets(new)
        labels = np.concatenate([known, np.unique(new)]) if len(known) else np.unique(new)
    order = np.argsort(labels, kind="stable")
    codes = order[np.searchsorted(labels[order], y)]
    return groups(codes, len(labels)), labels


def require_one_type(y: Labels, known: Labels) -> None:
    """Raise if some labels are text and the others numbers.

    Parameters
    ----------
    y : ndarray of shape (n,)
        New labels.
    known : ndarray of shape (c,)
        Labels learnt before.
    """
    if not (len(y) and len(known)):
        return
    text = [any(isinstance(v, str) for v in a[:1].tolist()) for a in (y, known)]
    if text[0] != text[1]:
        raise ValueError(
            f"labels are {'text' if text[0] else 'numbers'} here ({y[0]!r}) but "
            f"{'text' if text[1] else 'numbers'} in what was learnt before ({known[0]!r}); "
            "convert them to one type"
        )


def options(estimator: Any) -> None:
    """Raise if a parameter of a BalancedRidgeClassifier has no meaning.

    Parameters
    ----------
    estimator : BalancedRidgeClassifier
        Whose parameters are checked.
    """
    ridge, half_life, limit = estimator.ridge, estimator.half_life, estimator.memory_limit
    if isinstance(ridge, str) and ridge != "gcv":
        raise ValueError(f"ridge={ridge!r} is not known; use a number or 'gcv'")
    if not isinstance(ridge, str) and not _is_number(ridge, at_least=0.0):
        raise ValueError(f"ridge={ridge!r} must be a finite number that is not negative, or 'gcv'")
    if half_life is not None and not (_is_number(half_life, at_least=0.0) and half_life > 0):
        raise ValueError(f"half_life={half_life!r} must be a finite number above 0, or None")
    if not (_is_number(limit, at_least=0.0) and limit > 0):
        raise ValueError(f"memory_limit={limit!r} must be a positive number of bytes")
    if estimator.scale not in ("standard", "minmax", None):
        raise ValueError(
            f"scale={estimator.scale!r} is not known; use 'standard', 'minmax' or None"
        )
    for name in ("fit_intercept", "penalize_intercept"):
        if not isinstance(getattr(estimator, name), (bool, np.bool_)):
            raise ValueError(f"{name}={getattr(estimator, name)!r} must be True or False")
    _check_factors("costs", estimator.costs)
    if isinstance(estimator.class_weight, str) and estimator.class_weight != "balanced":
        raise ValueError(
            f"class_weight={estimator.class_weight!r} is not known; use 'balanced', a dict or None"
        )
    if not isinstance(estimator.class_weight, str):
        _check_factors("class_weight", estimator.class_weight)


def _check_factors(name: str, factors: Any) -> None:
    if factors is None:
        return
    if not isinstance(factors, Mapping):
        raise ValueError(f"{name}={factors!r} must be a dict of label: number, or None")
    for label, value in factors.items():
        if not (_is_number(value, at_least=0.0) and value > 0):
            raise ValueError(f"{name}[{label!r}] is {value!r}; it must be a finite number above 0")


def _is_number(value: Any, at_least: float) -> bool:
    return (
        isinstance(value, Real)
        and not isinstance(value, (bool, np.bool_))
        and bool(np.isfinite(float(value)))
        and float(value) >= at_least
    )
