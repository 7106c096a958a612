"""Maps of the features as what a model file can hold, and back, trusting nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from counterpoise.arrays import Labels
from counterpoise.exact.fading import HalfLife, aged, span
from counterpoise.exact.moments import Moments
from counterpoise.features import FixedMap, Map, Warmup
from counterpoise.features.given import text_of
from counterpoise.features.names import map_of
from counterpoise.modelfile.container import Contents, require
from counterpoise.validate import LARGEST, LATEST


def with_map(
    contents: Contents,
    fixed: FixedMap | None,
    warmup: Warmup | None,
    labels: Labels,
    given: bool,
    clipped: float,
) -> Contents:
    """What a file holds of a model with a map of the features.

    Parameters
    ----------
    contents : Contents
        What it holds without it; the option ``features`` may be anything.
    fixed : FixedMap, optional
        The map as it is fixed so far; None while nothing was learned.
    warmup : Warmup, optional
        The rows of a warm-up that is not over.
    labels : ndarray of shape (c,)
        Labels, in the order of the moments.
    given : bool
        Whether it was fixed before the first row.
    clipped : float
        Weight of the rows that it clipped.

    Returns
    -------
    Contents
    """
    arrays = dict(contents.arrays)
    if fixed is not None:
        arrays |= {f"map {name}": getattr(fixed, name) for name in ("mean", "deviation", "drawn")}
    if warmup is not None:
        slot = {label: k for k, label in enumerate(labels.tolist())}
        codes = np.array([slot[label] for label in warmup.y.tolist()], dtype=np.float64)
        rows = {"X": warmup.X, "y": codes, "weight": warmup.weight}
        arrays |= {f"warmup {name}": array for name, array in rows.items()}
        if warmup.t is not None:
            arrays["warmup t"] = warmup.t
    text = text_of(contents.options["features"])
    first = 0 if fixed is None else fixed.first
    about: dict[str, Any] = {"first": first, "given": given}
    if clipped:
        about["clipped"] = clipped
    facts = {**contents.facts, "map": about}
    options = {**contents.options, "features": text}
    return replace(contents, options=options, arrays=arrays, facts=facts)


def without_map(contents: Contents) -> tuple[Contents, dict[str, Any]]:
    """What a file holds beside a map, and the arrays of the map.

    Parameters
    ----------
    contents : Contents
        What it holds.

    Returns
    -------
    Contents
    dict of str to ndarray
    """
    mapped = {k: v for k, v in contents.arrays.items() if k.startswith(("map ", "warmup "))}
    rest = {name: array for name, array in contents.arrays.items() if name not in mapped}
    return replace(contents, arrays=rest), mapped


def map_from(
    arrays: dict[str, Any], facts: Any, text: Any, moments: Moments, half_life: HalfLife = None
) -> tuple[FixedMap | None, Warmup | None]:
    """Map and warm-up of a file, checked as if a stranger had written it.

    Parameters
    ----------
    arrays : dict of str to ndarray
        Those of the map.
    facts : object
        What the header says about it.
    text : object
        The name of the map.
    moments : Moments
        What was learned, of its terms; it is told how many rows were clipped.
    half_life : float, dict or str, optional
        How rows fade.

    Returns
    -------
    FixedMap or None
    Warmup or None
    """
    whole = isinstance(facts, dict) and set(facts) - {"clipped"} == {"first", "given"}
    require(whole, "a malformed map")
    first, given, clipped = facts["first"], facts["given"], facts.get("clipped", 0.0)
    most = np.inf if span(half_life) is not None else (1 + 1e-9) * float(moments.N.sum())
    require(type(clipped) is float and 0.0 <= clipped <= most, "an impossible count")
    moments.clipped[0] = clipped
    require(isinstance(text, str) and type(given) is bool, "a malformed map")
    the_map = map_of(text)
    require(the_map.text == text, "a map under a wrong name")
    if not any(name.startswith("map ") for name in arrays):
        require(not arrays and first == 0 and not given, "rows of a map that is not there")
        require(not moments.n.any(), "no map for what was learned")
        return None, None
    names = {"map mean", "map deviation", "map drawn"}
    warm = {"warmup X", "warmup y", "warmup weight"}
    life = span(half_life)
    warm |= set() if life is None else {"warmup t"}
    require(set(arrays) in (names, names | warm), "a map that is not whole")
    mean, deviation, drawn = (arrays[f"map {name}"] for name in ("mean", "deviation", "drawn"))
    fixed = scaled_map(the_map, mean, deviation, drawn, first)
    inputs = len(mean)
    require(the_map.count(inputs) == len(moments.anchor), "moments of another map")
    if set(arrays) == names:
        return fixed, None
    X, y, weight = (arrays[f"warmup {name}"] for name in ("X", "y", "weight"))
    n = len(y)
    require(not given and X.shape == (n, inputs) and weight.shape == (n,), "a malformed warm-up")
    require(0 < n < the_map.rows and bool((weight > 0).all()), "a malformed warm-up")
    require(bool((np.abs(X) <= LARGEST).all()), "a warm-up with values that are too large")
    codes = y.astype(np.intp)
    good = bool(((codes == y) & (codes >= 0) & (codes < len(moments.labels))).all())
    require(good, "a warm-up of unknown labels")
    t, faded = arrays.get("warmup t"), weight
    if life is not None and t is not None:
        require(t.shape == (n,) and bool((np.abs(t) < LATEST).all()), "a malformed warm-up")
        faded = aged(t, weight, life)[1]
    total = np.bincount(codes, faded, len(moments.labels))
    require(bool(np.allclose(total, moments.N, rtol=1e-9)), "a warm-up of other rows")
    return fixed, Warmup(X, moments.labels[codes], weight, t)


def scaled_map(the_map: Map, mean: Any, deviation: Any, drawn: Any, first: Any) -> FixedMap:
    """A fixed map of a file, checked.

    Parameters
    ----------
    the_map : Map
        The map.
    mean, deviation, drawn : ndarray
        As of :class:`~counterpoise.features.FixedMap`.
    first : object
        Number of features when it was fixed.

    Returns
    -------
    FixedMap
    """
    inputs = len(mean)
    fine = mean.shape == deviation.shape == (inputs,) and drawn.shape == (the_map.draws, inputs)
    require(fine and inputs >= 1, "a map of the wrong shape")
    require(type(first) is int and 1 <= first <= inputs, "a map of the wrong shape")
    large = np.abs(mean).max() <= 4 * LARGEST and deviation.max() <= 4 * LARGEST
    require(bool(large and (deviation > 0).all()), "an impossible scaling")
    require(bool((np.abs(drawn) <= 1e12).all()), "impossible random numbers")
    return FixedMap(the_map, mean, deviation, drawn, first)
