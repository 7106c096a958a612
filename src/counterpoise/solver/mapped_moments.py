"""Moments of rows after a map, and the limits of values, weights and memory of moments."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix, Rows, Vector
from counterpoise.errors import DataError, OptionValue, Suggestion
from counterpoise.feature_maps import FittedMap, Map
from counterpoise.feature_maps.fitted import SLICE
from counterpoise.moments._moments import is_bounded
from counterpoise.moments.decay import Decay
from counterpoise.moments.moments import Moments
from counterpoise.validation import (
    MAX_ABS_VALUE,
    MAX_SAMPLE_WEIGHT,
    Names,
    refuse_large,
    require_finite,
)


def require_moderate(X: Rows, chunk: Moments, names: Names | None) -> None:
    """Raise if the moments of X are not finite, or so large that later sums might not be."""
    if is_bounded(chunk, MAX_ABS_VALUE, MAX_SAMPLE_WEIGHT):
        return
    require_finite(X, names)
    require_light(chunk)
    with np.errstate(invalid="ignore", over="ignore"):
        spread = np.sqrt(chunk.max_scatter / np.maximum(chunk.n, 1e-300)[:, None])
        size = np.abs(chunk.anchor + chunk.mean) + spread
    refuse_large(np.nan_to_num(size, nan=np.inf).max(axis=0), names)


def require_light(chunk: Moments) -> None:
    """Raise if weights add up to so much that later sums might not be finite."""
    if not (chunk.N <= MAX_SAMPLE_WEIGHT).all():
        raise ValueError(
            f"sample weights add up to more than {MAX_SAMPLE_WEIGHT:g}; scale them down"
        )


def require_room(c: int, d: int, limit: float, mapped: bool) -> None:
    """Raise if moments of c classes of d features or terms need more memory than the limit."""
    size = 2 * 8.0 * c * d * d  # bytes, and as many for the moments of a chunk
    if size <= limit:
        return
    what, fewer = "features", "keep fewer features or hash them"
    if mapped:
        what, fewer = "mapped features", "take a map with fewer of them, such as rm2 or rff:400"
    remedies = [Suggestion(fewer), Suggestion("raise {}", "memory_limit")]
    if not mapped:
        remedies.insert(1, Suggestion("use an online rule with a diagonal covariance"))
    raise DataError(
        (
            f"{c} class{'es' if c > 1 else ''} of {d:,} {what} need {size / 1e9:.3g} GB for "
            "moments, more than ",
            OptionValue("memory_limit"),
            f" allows ({limit / 1e9:.3g} GB)",
        ),
        *remedies,
    )


def require_category_room(c: int, d: int, count: float, limit: float) -> None:
    """Raise if moments of this many categories need more memory than the limit."""
    size = 8.0 * c * count * (d + 1)
    if size > limit:
        raise DataError(
            (
                f"{count:,.0f} categories in {c} classes with {d:,} other features need "
                f"{size / 1e9:.3g} GB for moments, more than ",
                OptionValue("memory_limit"),
                f" allows ({limit / 1e9:.3g} GB)",
            ),
            Suggestion("hash a column of text, or drop it"),
            Suggestion("raise {}", "memory_limit"),
        )


def require_map_fits(the_map: Map | None, inputs: int, limit: float) -> None:
    """Raise if the terms of a map, its random numbers, or its warm-up would take too much."""
    if the_map is None:
        return
    require_room(1, the_map.count(inputs), limit, mapped=True)
    size = 8.0 * inputs * (the_map.n_params_per_feature + the_map.rows)
    if size > limit:
        raise DataError(
            (
                f"a map of {inputs} features needs {size / 1e9:.3g} GB for its warm-up and its "
                "random numbers, more than ",
                OptionValue("memory_limit"),
                f" allows ({limit / 1e9:.3g} GB)",
            ),
            Suggestion("keep fewer features"),
            Suggestion("raise {}", "memory_limit"),
        )


def terms_of(X: Rows, fixed: FittedMap) -> Matrix:
    """Return few rows after a map; raise if a term is too large."""
    mapped = fixed.transform(X if isinstance(X, np.ndarray) else X.toarray())
    high = np.maximum.reduce(mapped, axis=None, initial=0.0)  # as max would, without its calls
    low = np.minimum.reduce(mapped, axis=None, initial=0.0)
    if not max(high, -low) <= MAX_ABS_VALUE:
        raise ValueError(f"terms of {fixed.map.text} overflow; take a lower order")
    return mapped


def clipped_weight(X: Rows, weight: Vector | None, fixed: FittedMap) -> float:
    """Return the weight of the rows of which a map clips a value."""
    total = 0.0
    for start in range(0, X.shape[0], SLICE):
        part = X[start : start + SLICE]
        far = fixed.is_clipped(part if isinstance(part, np.ndarray) else part.toarray())
        total += float(np.add.reduce(far if weight is None else far * weight[start:][: len(far)]))
    return total


class GroupedRows(NamedTuple):
    """Rows of features, grouped by label."""

    X: Rows  # (n, l)
    rows_of: list[NDArray[np.intp]]  # the rows of each label
    labels: Labels
    weight: Vector | None = None  # (n,)
    t: Vector | None = None  # (n,) times
    categories: NDArray[np.intp] | None = None  # (n, B) categories in columns with many of them

    def part(self, start: int, stop: int) -> GroupedRows:
        """Return the rows from start to stop."""
        own = [rows[(rows >= start) & (rows < stop)] - start for rows in self.rows_of]
        some: list[Any] = [
            None if one is None else one[start:stop]
            for one in (self.weight, self.t, self.categories)
        ]
        return GroupedRows(self.X[start:stop], own, self.labels, *some)


def moments_of(
    rows: GroupedRows, decay: Decay, anchor: Vector | None, fixed: FittedMap | None
) -> Moments:
    """Return :meth:`Moments.of_groups`, after a map, slice by slice, if there is one."""
    if fixed is None:
        return Moments.of_groups(
            rows.X, rows.rows_of, rows.labels, rows.weight, decay, anchor, rows.t, rows.categories
        )
    total: Moments | None = None
    for start in range(0, max(rows.X.shape[0], 1), SLICE):
        part = rows.part(start, start + SLICE)
        piece = moments_of(part._replace(X=terms_of(part.X, fixed)), decay, anchor, None)
        total = piece if total is None else total.append(piece, decay)
        anchor = total.anchor
    assert total is not None
    return total
