"""Moments as what a model file can hold, and back, trusting nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.exact.fading import HalfLife
from counterpoise.exact.fading import lives as fading_lives
from counterpoise.exact.moments import Moments
from counterpoise.exact.removal import UNKNOWN
from counterpoise.exact.strangers import indefinite
from counterpoise.modelfile.container import Contents, ModelFileError, require
from counterpoise.modelfile.labels import labels_of, plain_labels
from counterpoise.validate import LARGEST, LATEST

MOST = 1e60  # of a count: chunks of 1e50 may add up
ROOM = 2e9  # bytes that moments usually may take


def pack(moments: Moments, half_life: HalfLife) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tensors and facts of moments: of each scatter, which is symmetric, the lower triangle.

    Parameters
    ----------
    moments : Moments
        What was learned.
    half_life : float, dict or str, optional
        How rows fade.

    Returns
    -------
    arrays : dict of str to ndarray
    facts : dict
    """
    c, d = moments.mean.shape
    arrays = {name: getattr(moments, name) for name in ("n", "N", "anchor", "mean", "peak", "away")}
    if isinstance(half_life, str):
        arrays["when"] = moments.when if moments.n.any() else np.zeros(0)
    elif half_life is not None:
        arrays["stream"] = moments.stream
    elif not moments.low.size:  # what removals need to know
        arrays |= {"rest": moments.rest, "lightest": moments.lightest}
        arrays["marks"] = _halves(moments.marks)
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


def unpack(contents: Contents, extremes: bool, half_life: HalfLife) -> Moments:
    """Moments of a file, checked as if a stranger had written it.

    Parameters
    ----------
    contents : Contents
        What the file holds.
    extremes : bool
        Whether minimum and maximum must be there.
    half_life : float, dict or str, optional
        How rows fade.

    Returns
    -------
    Moments
    """
    facts, arrays = contents.facts, contents.arrays
    timed, fading = isinstance(half_life, str), half_life is not None
    labels = labels_of(facts.get("labels"))
    d, c = facts.get("features"), len(labels)
    if not (isinstance(d, int) and not isinstance(d, bool) and d >= min(c, 1)):
        raise ModelFileError(f"has {d!r} features")
    shapes = {
        "n": (c,), "N": (c,), "anchor": (d,), "mean": (c, d), "peak": (c, d), "away": (c, 2, d),
        "C": (c, d * (d + 1) // 2),
    }  # fmt: skip
    require(facts.get("extremes") is extremes, "extremes that do not match its scale")
    if extremes and "low" in arrays:
        shapes |= {"low": (d,), "high": (d,)}
    if timed:
        shapes["when"] = (1,) if arrays["n"].any() else (0,)
    elif fading:
        shapes["stream"] = (c,)
    if "removed" in arrays and not fading:
        shapes["removed"] = (c, 2, d)
    if not (fading or extremes):
        shapes |= {"rest": (c,), "lightest": (c,), "marks": (c, 2, 2, 1 + d)}
    found = {name: array.shape for name, array in arrays.items()}
    require(found == shapes, f"tensors {found}, expected {shapes}")
    _require_room(c, d, contents.options.get("memory_limit"))
    moments = Moments(labels, arrays["anchor"], extremes)
    loaded = ("n", "rest", "lightest", "N", "mean", "peak", "away", "removed", "low", "high")
    for name in loaded:
        if name in arrays:
            setattr(moments, name, arrays[name])
    if "marks" in arrays:
        moments.marks = _whole(arrays["marks"])
    else:  # nothing can be forgotten
        moments.lightest[:] = np.minimum(moments.n, 1.0)
        moments.marks[moments.n > 0] = UNKNOWN
    for j, row in enumerate(_triangle(d)):
        moments.C[:, j, : j + 1] = arrays["C"][:, row]
        moments.C[:, : j + 1, j] = arrays["C"][:, row]
    _require_possible(moments, fading and not timed)
    total = moments.N.sum()
    moments.stream[:] = total
    if timed and arrays["when"].size:
        require(abs(float(arrays["when"][0])) < LATEST, "an impossible time")
        moments.when = arrays["when"]
    lives = fading_lives(half_life, labels)
    if lives is not None:
        moments.stream = arrays["stream"]
        rate = np.maximum(np.log(2.0) / lives, 1e-300)
        # A row of weight ω enters with (1 − γ^ω)/(1 − γ), which is more than ω if ω is below 1.
        most = rate / -np.expm1(-rate)
        few, many = moments.n * (1 - 1e-9), total * most * (1 + 1e-9)
        fits = (moments.stream >= few) & (moments.stream <= many)
        require(bool(fits.all()), "an impossible weight of the stream")
    return moments


def _halves(marks: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Marks as numbers that a float64 can hold: the upper 32 bits of each, then the lower."""
    halves = np.stack([marks >> np.uint64(32), marks & np.uint64(2**32 - 1)], axis=1)
    return halves.astype(np.float64)


def _whole(halves: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Marks put together again."""
    fits = (halves >= 0) & (halves < 2.0**32) & (halves == np.floor(halves))
    require(bool(fits.all()), "invalid marks")
    upper, lower = np.moveaxis(halves.astype(np.uint64), 1, 0)
    return np.ascontiguousarray((upper << np.uint64(32)) | lower)


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
    n, N = moments.n, moments.N
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
    require(bool((np.abs(moments.rest) <= 1e-9 * n).all()), "a count that lacks too much")
    light = (moments.lightest >= 0) & (moments.lightest <= MOST)
    require(bool((light & ((moments.lightest > 0) >= (n > 0))).all()), "rows too light or heavy")
    nothing = n == 0
    for array in (moments.mean, C_jj, peak, away, removed, moments.lightest, moments.marks):
        require(not array[nothing].any(), "moments of a class that was never seen")
    for k in range(len(n)):
        require(not indefinite(moments, k), "a scatter that is not positive semidefinite")
    if moments.low.size and n.any():
        require(bool(np.isfinite(moments.low).all()), "no extremes")
        require(bool((moments.low <= moments.high).all()), "minima above maxima")
        mean, margin = moments.anchor + moments.mean[n > 0], 1e-6 * (1 + np.abs(moments.anchor))
        inside = (mean >= moments.low - margin) & (mean <= moments.high + margin)
        require(bool(inside.all()), "means beyond the extremes")
