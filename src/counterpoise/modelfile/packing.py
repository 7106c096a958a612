"""Moments, labels and options as what a model file can hold, and back, trusting nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf

from counterpoise.arrays import Labels
from counterpoise.exact.lifting import text_of
from counterpoise.exact.moments import EPS, Moments
from counterpoise.features import FixedMap, Map
from counterpoise.modelfile.container import Contents, ModelFileError, require
from counterpoise.validate import LARGEST

MOST = 1e60  # of a count: chunks of 1e50 may add up
ROOM = 2e9  # bytes that moments usually may take
LABELS = 1 << 26  # bytes of all labels, which NumPy makes all as long as the longest
INDEFINITE = 1e-9  # how far from positive semidefinite rounding may take a scatter


def pack(moments: Moments, fading: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tensors and facts of moments: of each scatter, which is symmetric, the lower triangle.

    Parameters
    ----------
    moments : Moments
        What was learned.
    fading : bool
        Whether rows fade.

    Returns
    -------
    arrays : dict of str to ndarray
    facts : dict
    """
    c, d = moments.mean.shape
    arrays = {name: getattr(moments, name) for name in ("n", "N", "anchor", "mean", "peak", "away")}
    if fading:
        arrays["stream"] = moments.stream
    if moments.removed.any():
        arrays["removed"] = moments.removed
    arrays["C"] = np.empty((c, d * (d + 1) // 2))
    for j, row in enumerate(_triangle(d)):
        arrays["C"][:, row] = moments.C[:, j, : j + 1]
    seen = bool(np.isfinite(moments.low).all())
    if moments.low.size and seen:
        arrays |= {"low": moments.low, "high": moments.high}
    return arrays, {
        "labels": plain_labels(moments.labels),
        "features": d,
        "extremes": bool(moments.low.size),
    }


def unpack(contents: Contents, extremes: bool, fading: bool) -> Moments:
    """Moments of a file, checked as if a stranger had written it.

    Parameters
    ----------
    contents : Contents
        What the file holds.
    extremes : bool
        Whether minimum and maximum must be there.
    fading : bool
        Whether weights may have faded.

    Returns
    -------
    Moments
    """
    facts, arrays = contents.facts, contents.arrays
    labels = labels_of(facts.get("labels"))
    d, c = facts.get("features"), len(labels)
    if not (isinstance(d, int) and not isinstance(d, bool) and d >= 1):
        raise ModelFileError(f"has {d!r} features")
    shapes = {
        "n": (c,), "N": (c,), "anchor": (d,), "mean": (c, d), "peak": (c, d), "away": (c, 2, d),
        "C": (c, d * (d + 1) // 2),
    }  # fmt: skip
    require(facts.get("extremes") is extremes, "extremes that do not go with its scale")
    if extremes and "low" in arrays:
        shapes |= {"low": (d,), "high": (d,)}
    if fading:
        shapes["stream"] = (c,)
    if "removed" in arrays and not fading:
        shapes["removed"] = (c, 2, d)
    found = {name: array.shape for name, array in arrays.items()}
    require(found == shapes, f"tensors {found}, expected {shapes}")
    _require_room(c, d, contents.options.get("memory_limit"))
    moments = Moments(labels, arrays["anchor"], extremes)
    for name in ("n", "N", "mean", "peak", "away", "removed", "low", "high"):
        if name in arrays:
            setattr(moments, name, arrays[name])
    for j, row in enumerate(_triangle(d)):
        moments.C[:, j, : j + 1] = arrays["C"][:, row]
        moments.C[:, : j + 1, j] = arrays["C"][:, row]
    _require_possible(moments, fading)
    total = moments.N.sum()
    moments.stream[:] = total
    if fading:
        moments.stream = arrays["stream"]
        rate = np.log(2.0) / contents.options["half_life"]
        # A row of weight ω enters with (1 − γ^ω)/(1 − γ), which is more than ω if ω is below 1.
        most = rate / -np.expm1(-rate)
        few, many = moments.n * (1 - 1e-9), total * most * (1 + 1e-9)
        fits = (moments.stream >= few) & (moments.stream <= many)
        require(bool(fits.all()), "an impossible weight of the stream")
    return moments


def _triangle(d: int) -> Iterator[slice]:
    """Where the rows of a lower triangle stand when they are one after the other."""
    for j in range(d):
        yield slice(j * (j + 1) // 2, (j + 1) * (j + 2) // 2)


def _require_room(c: int, d: int, limit: Any) -> None:
    """Raise if the moments take more memory than the file itself allows, or than is usual.

    Without a class they take nothing yet, and the file may say what it likes: the usual counts.
    """
    require(isinstance(limit, (int, float)), "no memory_limit")
    limit = max(float(limit), ROOM) if c else min(float(limit), ROOM)
    size = 8.0 * max(c, 1) * d * d
    if size > limit:
        raise ModelFileError(
            f"has {c} classes of {d:,} features, which take {size / 1e9:.3g} GB, more than its "
            f"memory_limit={limit:g} bytes"
        )


def _require_possible(moments: Moments, fading: bool) -> None:
    """Raise unless rows could have left these moments."""
    n, N, d = moments.n, moments.N, len(moments.anchor)
    require(bool((n >= 0).all() and (N >= 0).all()), "counts below zero")
    require(bool((N <= MOST).all() and (n <= MOST).all()), "counts that are too large")
    same = np.abs(n - N) <= 1e-9 * np.maximum(n, N)
    require(bool((same if not fading else (n > 0) <= (N > 0)).all()), "counts that disagree")
    place = np.abs(moments.anchor + moments.mean)
    require(bool((place <= 4 * LARGEST).all()), "means that are too large")
    C_jj = np.einsum("kjj->kj", moments.C)
    peak = moments.peak
    require(bool((peak >= 0).all() and (peak >= C_jj * (1 - 1e-9)).all()), "peaks below variances")
    require(bool((peak <= 16 * LARGEST**2 * MOST).all()), "variances that are too large")
    away = moments.away
    most = n[:, None, None] * (1 + 1e-9)
    require(bool((away >= -1e-9 * most).all() and (away <= most).all()), "impossible counts")
    removed = moments.removed
    require(bool((removed[:, 0] >= 0).all()), "rounding below zero")
    most_off = (np.abs(removed[:, 1]) <= 4 * LARGEST) & (removed[:, 0] <= LARGEST * MOST**2)
    require(bool(most_off.all()), "rounding that is too large")
    nothing = n == 0
    for array in (moments.mean, C_jj, peak, away, removed):
        require(not array[nothing].any(), "moments of a class that was never seen")
    for k, C in enumerate(moments.C):
        # Rounding leaves this much on the diagonal: a share of the largest scatter that was held,
        # and, where nothing varies, what the values themselves are rounded to.
        value = np.abs(moments.anchor) + np.abs(moments.mean[k])
        rounding = INDEFINITE * d * peak[k] + n[k] * (1e6 * EPS * value) ** 2 + 1e-290
        room = np.diagonal(C) + rounding
        require(bool((room > 0).all()), "a scatter that is not positive semidefinite")
        scaled = C / np.sqrt(room)
        scaled /= np.sqrt(room)[:, None]
        np.fill_diagonal(scaled, 1.0 + INDEFINITE)  # (C_jj + rounding) / room, and a little more
        failed = dpotrf(scaled.T, overwrite_a=1, clean=0)[1]  # in place: it may be large
        require(not failed, "a scatter that is not positive semidefinite")
    if moments.low.size and n.any():
        require(bool(np.isfinite(moments.low).all()), "no extremes")
        require(bool((moments.low <= moments.high).all()), "minima above maxima")
        mean, margin = moments.anchor + moments.mean[n > 0], 1e-6 * (1 + np.abs(moments.anchor))
        inside = (mean >= moments.low - margin) & (mean <= moments.high + margin)
        require(bool(inside.all()), "means beyond the extremes")


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


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of an estimator as JSON can hold them; a dict by label becomes pairs.

    Parameters
    ----------
    options : mapping
        Names and values.

    Returns
    -------
    dict
    """

    def plain(value: Any) -> Any:
        if isinstance(value, Map | FixedMap):
            return text_of(value)
        if isinstance(value, tuple | list):
            return [plain(one) for one in value]
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, Real) and not isinstance(value, (bool, int)):
            value = float(value)
        if isinstance(value, Mapping):
            pairs = [[plain(key), plain(number)] for key, number in value.items()]
            return {"by label": sorted(pairs, key=lambda pair: (str(type(pair[0])), pair[0]))}
        return value

    return {name: plain(value) for name, value in options.items()}


def options_of(plain: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of an estimator from what :func:`plain_options` made of them.

    Parameters
    ----------
    plain : mapping
        What the file says.
    known : mapping
        The parameters that the estimator has.

    Returns
    -------
    dict
    """
    require(set(plain) == set(known), f"options {sorted(plain)}, expected {sorted(known)}")
    result = {}
    for name, value in plain.items():
        if isinstance(value, dict):
            pairs = value.get("by label")
            good = set(value) == {"by label"} and isinstance(pairs, list)
            good = good and all(
                isinstance(p, list)
                and len(p) == 2
                and isinstance(p[0], (str, bool, int, float))
                and isinstance(p[1], (int, float))
                for p in pairs or []
            )
            require(good, f"option {name!r} of the wrong form")
            value = dict(pairs or [])
        require(
            value is None or isinstance(value, (str, bool, int, float, dict)),
            f"option {name!r} of the wrong type",
        )
        result[name] = value
    return result


def contents(estimator: Any, arrays: dict[str, Any], facts: dict[str, Any]) -> Contents:
    """What a file is to hold of an estimator.

    Parameters
    ----------
    estimator : BaseEstimator
        Whose parameters and names of features belong to it.
    arrays, facts : dict
        What it has learned.

    Returns
    -------
    Contents
    """
    names = getattr(estimator, "feature_names_in_", None)
    lists = {} if names is None else {"names": [str(name) for name in names]}
    options = plain_options(estimator.get_params(deep=False))
    if options.get("features", "") is None:  # as files were before there were maps
        del options["features"]
    return Contents(type(estimator).__name__, options, arrays, facts, lists=lists)


def feature_name(column: str, kind: str, value: str) -> str:
    """What to call a feature that was made of a column.

    Parameters
    ----------
    column : str
        The column.
    kind : str
        "number", "category", "bucket" or "missing".
    value : str
        The category, or the number of the bucket.

    Returns
    -------
    str
    """
    if kind == "number":
        return column
    if kind == "missing":
        return f"{column} is missing"
    return f"{column}{'=' if kind == 'category' else '#'}{value}"


def names_of(contents: Contents, d: int) -> Labels | None:
    """Names of the features, if the file has them.

    Parameters
    ----------
    contents : Contents
        What the file holds.
    d : int
        How many features there are.

    Returns
    -------
    ndarray of shape (d,), or None
    """
    if "features" in contents.lists:
        features = contents.lists["features"]
        good = all(isinstance(f, list) and len(f) == 3 for f in features)
        require(good and all(isinstance(part, str) for f in features for part in f), "features")
        names = [feature_name(*feature) for feature in features]
    elif "names" in contents.lists:
        names = contents.lists["names"]
    else:
        return None
    good = len(names) == d and all(isinstance(name, str) for name in names)
    require(good, "names that do not fit its features")
    return np.array(names, dtype=object)
