"""Checks of what users pass as X and y, with scikit-learn's conventions.

Below this module arrays are float64 and C-ordered.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from counterpoise import validation


def rows(
    estimator: Any,
    X: Any,
    y: Any = None,
    reset: bool = False,
    accept_sparse: bool = True,
    least: int = 1,
) -> Any:
    """X (and y) as float64 arrays of the right width and names; X is not yet known to be finite."""
    if is_plain(X, y, accept_sparse) and _is_expected(estimator, X.shape[1], reset):
        return X if y is None else (X, y)
    target = {} if y is None else {"y": validation.labels(y)}
    validation.refuse_masked(X, "X")
    _refuse_dates(X)
    try:
        return validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr" if accept_sparse else False,
            dtype=np.float64,
            order="C",
            ensure_all_finite=False,
            ensure_min_samples=least,
            **target,
        )
    except (OverflowError, TypeError, ValueError):
        _name_culprit(X)
        raise


def _refuse_dates(X: Any) -> None:
    """Raise if X holds dates, which NumPy would take for numbers, dicts, or names twice."""
    if type(X).__name__ == "LazyFrame":
        raise TypeError("X is a LazyFrame, which holds no rows yet; call X.collect() first")
    events = X.tolist() if isinstance(X, np.ndarray) and X.ndim == 1 else X
    first = events[0] if isinstance(events, list) and events else events
    if isinstance(first, dict) and not sp.issparse(first):  # as dok_array is
        raise TypeError(
            "X holds dicts; for events that are dicts of features use counterpoise.river, and for "
            "columns of words and numbers counterpoise.TableClassifier"
        )
    types = getattr(X, "dtypes", [getattr(X, "dtype", None)])
    names = list(getattr(X, "column_names", getattr(X, "columns", [None])))
    seen: set[Any] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"X: two columns are called {name!r}; rename one of them")
        seen.add(name)
    for name, kind in zip(names, types, strict=False):
        if str(kind).lower().startswith(("date", "time", "duration")):
            raise ValueError(_no_number(name, f"holds {kind} values", dated=True))


def _name_culprit(X: Any) -> None:
    """Raise if a value of X is text or a date, naming its column and row; else do nothing."""
    if hasattr(X, "iloc"):
        columns = [(name, X.iloc[:, j]) for j, name in enumerate(X.columns)]
    elif hasattr(X, "column_names"):
        columns = list(zip(X.column_names, (c.to_pylist() for c in X.columns), strict=True))
    elif hasattr(X, "columns") and hasattr(X, "__getitem__"):
        columns = [(name, X[name]) for name in X.columns]
    else:
        table = np.asarray(X, dtype=object)
        if table.ndim != 2:
            return
        columns = list(enumerate(table.T))
    for name, column in columns:
        for row, value in enumerate(column):
            dated = hasattr(value, "isoformat") or isinstance(value, np.datetime64)
            try:
                float(value)
            except OverflowError:
                what = f"contains an integer beyond {validation.MAX_ABS_VALUE:g} at row {row}"
                raise ValueError(f"{_column(name)} {what}; divide it by a constant") from None
            except (TypeError, ValueError):
                what = f"is {str(value)!r} at row {row}, not a number"
                if type(value).__name__ in ("Period", "Interval"):
                    remedy = "convert it to numbers first"
                    raise ValueError(f"{_column(name)} {what}; {remedy}") from None
                if dated or isinstance(value, (str, bytes)):
                    raise ValueError(_no_number(name, what, dated)) from None


def _column(name: Any) -> str:
    return f"column {name!r}" if isinstance(name, str) else f"feature {name}"


def _no_number(name: Any, what: str, dated: bool) -> str:
    remedy = "counterpoise.TableClassifier takes frames with words in them, or encode text first"
    if dated:
        remedy = "counterpoise.TableClassifier takes frames with dates in them, or turn them into "
        remedy += "numbers first, for example seconds since 1970"
    return f"{'X' if name is None else _column(name)} {what}; {remedy}"


def without_feature_names(estimator: Any) -> Any:
    """The same estimator for rows that are arrays, whose features need no names."""
    result = object.__new__(type(estimator))
    result.__dict__.update(estimator.__dict__)
    result.__dict__.pop("feature_names_in_", None)
    return result


def is_plain(X: Any, y: Any, accept_sparse: bool) -> bool:
    """Whether nothing is to be converted; scikit-learn's checks take 0.2 ms."""
    if type(X) is np.ndarray:
        ready = X.ndim == 2 and X.flags.c_contiguous
    else:
        ready = accept_sparse and sp.issparse(X) and X.format == "csr" and X.ndim == 2
    return (
        ready
        and X.dtype == np.float64
        and min(X.shape) > 0
        and (
            y is None
            or (
                type(y) is np.ndarray
                and y.shape == X.shape[:1]
                and y.dtype.kind in validation.LABELS
            )
        )
    )


def _is_expected(estimator: Any, width: int, reset: bool) -> bool:
    """Whether the width of rows without names is right; the first rows say what it is."""
    if hasattr(estimator, "feature_names_in_"):
        return False
    if reset:
        estimator.n_features_in_ = width
    return bool(width == estimator.n_features_in_)


def require_y(estimator: Any, y: Any) -> None:
    """Raise, in scikit-learn's words, if there are no labels."""
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y "
            "is None."
        )
