"""Values of a model file: labels, moments, imputation, feature maps and calibration, checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Vector
from counterpoise.engine.progressive_calibration import LabelOrder, ProgressiveCalibration
from counterpoise.errors import ModelFileError
from counterpoise.feature_maps import FittedMap, Map, Warmup
from counterpoise.feature_maps.fitted import feature_map_name, map_of
from counterpoise.modelfile.container import Contents, check_file
from counterpoise.moments.classes import Classes
from counterpoise.moments.decay import NO_DECAY, Decay
from counterpoise.moments.downdate import UNTRACKED_HASH, is_indefinite
from counterpoise.moments.moments import Moments
from counterpoise.solver.calibration import BINS, EDGES, MAX_ABS_LOGIT, Calibration
from counterpoise.solver.imputation import MeanImputation
from counterpoise.solver.link import Link
from counterpoise.solver.score_functions import LinearScores, QuadraticScores, Solution
from counterpoise.solver.scores import Scores
from counterpoise.validation import MAX_ABS_VALUE, MAX_TIMESTAMP

LABELS = 1 << 26  # bytes of all labels, which NumPy makes all as long as the longest


def plain_labels(labels: Labels) -> dict[str, Any]:
    """Labels with their type, as JSON can hold them."""
    kind = labels.dtype.kind
    name = {"U": "text", "O": "object", "b": "bool"}.get(kind, labels.dtype.name)
    values = labels.tolist()
    if kind not in "UObiuf" or not all(isinstance(v, (str, bool, int, float)) for v in values):
        raise TypeError(f"labels of type {labels.dtype} cannot be saved; use text or numbers")
    return {"type": name, "values": values}


def labels_of(plain: Any) -> Labels:
    """Labels from what :func:`plain_labels` made of them."""
    check_file(isinstance(plain, dict) and set(plain) == {"type", "values"}, "labels without type")
    kind, values = plain["type"], plain["values"]
    numbers = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    numbers += ["float16", "float32", "float64"]
    types = {"text": (str,), "object": (str, bool, int, float), "bool": (bool,)}
    types |= dict.fromkeys(numbers, (int, float))
    known = isinstance(kind, str) and kind in types and isinstance(values, list)
    check_file(known, "labels of an unknown type")
    check_file(all(isinstance(v, types[kind]) for v in values), "labels that are not of their type")
    check_file(len({(type(v) is str, v) for v in values}) == len(values), "a label twice")
    longest = max((len(v) for v in values if isinstance(v, str)), default=0)
    check_file(4 * longest * len(values) <= LABELS, "labels that are too long")
    dtype = {"text": np.str_, "object": object}.get(kind, kind)
    try:
        labels: Labels = np.array(values, dtype=dtype)
    except (OverflowError, ValueError):
        labels = np.empty(0)
    check_file(labels.tolist() == values, "labels that do not fit their type")
    return labels


MOST = 1e60  # of a count: chunks of 1e50 may add up
ROOM = 2e9  # bytes that moments usually may take


def pack_moments(moments: Moments, decay: Decay) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tensors and facts of moments: of each scatter, which is symmetric, the lower triangle."""
    c, d = moments.mean.shape
    arrays = {
        name: getattr(moments, name)
        for name in ("n", "N", "anchor", "mean", "max_scatter", "nonconstant_weight")
    }
    if decay.is_timed:
        arrays["when"] = moments.when if moments.n.any() else np.zeros(0)
    elif decay.is_active:
        arrays["stream"] = moments.stream
    else:  # what removals need to know
        arrays |= {
            "weight_remainder": moments.weight_remainder,
            "min_row_weight": moments.min_row_weight,
        }
        arrays["row_hashes"] = _halves(moments.row_hashes)
    if moments.removed.any():
        arrays["removed"] = moments.removed
    arrays["C"] = np.empty((c, d * (d + 1) // 2))
    for j, row in enumerate(_triangle(d)):
        arrays["C"][:, row] = moments.C[:, j, : j + 1]
    return arrays, {"labels": plain_labels(moments.labels), "features": d}


def unpack_moments(contents: Contents, decay: Decay) -> Moments:
    """Moments of a file, checked as if a stranger had written it."""
    facts, arrays = contents.facts, contents.arrays
    timed, fading = decay.is_timed, decay.is_active
    labels = labels_of(facts.get("labels"))
    d, c = facts.get("features"), len(labels)
    if not (isinstance(d, int) and not isinstance(d, bool) and d >= min(c, 1)):
        raise ModelFileError(f"has {d!r} features")
    shapes = {
        "n": (c,), "N": (c,), "anchor": (d,), "mean": (c, d), "max_scatter": (c, d),
        "nonconstant_weight": (c, 2, d), "C": (c, d * (d + 1) // 2),
    }  # fmt: skip
    if timed:
        shapes["when"] = (1,) if arrays["n"].any() else (0,)
    elif fading:
        shapes["stream"] = (c,)
    if "removed" in arrays and not fading:
        shapes["removed"] = (c, 2, d)
    if not fading:
        shapes |= {"weight_remainder": (c,), "min_row_weight": (c,), "row_hashes": (c, 2, 2, 1 + d)}
    found = {name: array.shape for name, array in arrays.items()}
    check_file(found == shapes, f"tensors {found}, expected {shapes}")
    _require_room(c, d, contents.options.get("memory_limit"))
    moments = Moments(labels, arrays["anchor"])
    for name in (
        "n",
        "weight_remainder",
        "min_row_weight",
        "N",
        "mean",
        "max_scatter",
        "nonconstant_weight",
        "removed",
    ):
        if name in arrays:
            setattr(moments, name, arrays[name])
    if "row_hashes" in arrays:
        moments.row_hashes = _whole(arrays["row_hashes"])
    else:  # nothing can be unlearned
        moments.min_row_weight[:] = np.minimum(moments.n, 1.0)
        moments.row_hashes[moments.n > 0] = UNTRACKED_HASH
    for j, row in enumerate(_triangle(d)):
        moments.C[:, j, : j + 1] = arrays["C"][:, row]
        moments.C[:, : j + 1, j] = arrays["C"][:, row]
    _require_possible(moments, fading and not timed)
    total = moments.N.sum()
    moments.stream[:] = total
    if timed and arrays["when"].size:
        check_file(abs(float(arrays["when"][0])) < MAX_TIMESTAMP, "an impossible time")
        moments.when = arrays["when"]
    lives = decay.rows_per_class(labels)
    if lives is not None:
        moments.stream = arrays["stream"]
        rate = np.maximum(np.log(2.0) / lives, 1e-300)
        # A row of weight ω enters with (1 − γ^ω)/(1 − γ), which is more than ω if ω is below 1.
        most = rate / -np.expm1(-rate)
        few, many = moments.n * (1 - 1e-9), total * most * (1 + 1e-9)
        fits = (moments.stream >= few) & (moments.stream <= many)
        check_file(bool(fits.all()), "an impossible weight of the stream")
    return moments


def _halves(row_hashes: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return row hashes as float64: the upper 32 bits of each, then the lower."""
    halves = np.stack([row_hashes >> np.uint64(32), row_hashes & np.uint64(2**32 - 1)], axis=1)
    return halves.astype(np.float64)


def _whole(halves: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return row hashes from their halves."""
    fits = (halves >= 0) & (halves < 2.0**32) & (halves == np.floor(halves))
    check_file(bool(fits.all()), "invalid row hashes")
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
    check_file(isinstance(limit, (int, float)), "no memory_limit")
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
    check_file(bool((n >= 0).all() and (N >= 0).all()), "counts below zero")
    check_file(bool((N <= MOST).all() and (n <= MOST).all()), "counts that are too large")
    same = np.abs(n - N) <= 1e-9 * np.maximum(n, N)
    check_file(bool((same if not fading else (n > 0) <= (N > 0)).all()), "counts that disagree")
    place = np.abs(moments.anchor + moments.mean)
    check_file(bool((place <= 4 * MAX_ABS_VALUE).all()), "means that are too large")
    C_jj = np.einsum("kjj->kj", moments.C)
    max_scatter = moments.max_scatter
    check_file(
        bool((max_scatter >= 0).all() and (max_scatter >= C_jj * (1 - 1e-9)).all()),
        "a maximal scatter below the scatter",
    )
    check_file(
        bool((max_scatter <= 16 * MAX_ABS_VALUE**2 * MOST).all()), "variances that are too large"
    )
    nonconstant_weight = moments.nonconstant_weight
    most = n[:, None, None] * (1 + 1e-9)
    check_file(
        bool((nonconstant_weight >= -1e-9 * most).all() and (nonconstant_weight <= most).all()),
        "impossible counts",
    )
    removed = moments.removed
    check_file(bool((removed[:, 0] >= 0).all()), "rounding below zero")
    most_off = (np.abs(removed[:, 1]) <= 4 * MAX_ABS_VALUE) & (
        removed[:, 0] <= MAX_ABS_VALUE * MOST**2
    )
    check_file(bool(most_off.all()), "rounding that is too large")
    check_file(
        bool((np.abs(moments.weight_remainder) <= 1e-9 * n).all()), "a count that lacks too much"
    )
    light = (moments.min_row_weight >= 0) & (moments.min_row_weight <= MOST)
    check_file(
        bool((light & ((moments.min_row_weight > 0) >= (n > 0))).all()), "rows too light or heavy"
    )
    nothing = n == 0
    for array in (
        moments.mean,
        C_jj,
        max_scatter,
        nonconstant_weight,
        removed,
        moments.min_row_weight,
        moments.row_hashes,
    ):
        check_file(not array[nothing].any(), "moments of a class that was never seen")
    for k in range(len(n)):
        check_file(not is_indefinite(moments, k), "a scatter that is not positive semidefinite")


FIELDS = {"at", "by", "base", "present"}


def plain_fill(fill: MeanImputation) -> dict[str, list[Any]]:
    """Return a fill as JSON can hold it."""
    return {
        "at": fill.at.tolist(),
        "by": fill.by.tolist(),
        "base": fill.base.tolist(),
        "present": fill.present.tolist(),
    }


def fill_of(plain: Any, inputs: int) -> MeanImputation | None:
    """Return the fill of rows with so many features, checked; None if there is none."""
    if plain is None:
        return None
    lists = isinstance(plain, dict) and set(plain) == FIELDS
    check_file(lists and all(isinstance(part, list) for part in plain.values()), "a malformed fill")
    at, by, base, present = (plain[name] for name in ("at", "by", "base", "present"))
    check_file(0 < len(at) == len(by) == len(base) == len(present), "a malformed fill")
    places = all(type(j) is int and 0 <= j < inputs for j in (*at, *by))
    check_file(places, "a fill of features that there are not")
    check_file(len(set(at)) == len(at) and not set(at) & set(by), "a feature that is filled twice")
    check_file(
        all(type(x) is float and abs(x) <= MAX_ABS_VALUE for x in base), "an impossible fill"
    )
    check_file(all(type(flag) is bool for flag in present), "a malformed fill")
    return MeanImputation.of(at, by, np.array(base), present)


def with_map(
    contents: Contents,
    fixed: FittedMap | None,
    warmup: Warmup | None,
    labels: Labels,
    given: bool,
    clipped: float,
) -> Contents:
    """What a file holds of a model with a map of the features. Shapes: labels (c,)."""
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
    text = feature_map_name(contents.options["feature_map"])
    first = 0 if fixed is None else fixed.first
    about: dict[str, Any] = {"first": first, "given": given}
    if clipped:
        about["clipped"] = clipped
    facts = {**contents.facts, "map": about}
    options = {**contents.options, "feature_map": text}
    return replace(contents, options=options, arrays=arrays, facts=facts)


def without_map(contents: Contents) -> tuple[Contents, dict[str, Any]]:
    """What a file holds beside a map, and the arrays of the map."""
    mapped = {k: v for k, v in contents.arrays.items() if k.startswith(("map ", "warmup "))}
    rest = {name: array for name, array in contents.arrays.items() if name not in mapped}
    return replace(contents, arrays=rest), mapped


def map_from(
    arrays: dict[str, Any], facts: Any, text: Any, moments: Moments, decay: Decay = NO_DECAY
) -> tuple[FittedMap | None, Warmup | None]:
    """Map and warm-up of a file, checked as if a stranger had written it."""
    whole = isinstance(facts, dict) and set(facts) - {"clipped"} == {"first", "given"}
    check_file(whole, "a malformed map")
    first, given, clipped = facts["first"], facts["given"], facts.get("clipped", 0.0)
    most = np.inf if decay.is_timed else (1 + 1e-9) * float(moments.N.sum())
    check_file(type(clipped) is float and 0.0 <= clipped <= most, "an impossible count")
    moments.clipped[0] = clipped
    check_file(isinstance(text, str) and type(given) is bool, "a malformed map")
    the_map = map_of(text)
    check_file(the_map.text == text, "a map under a wrong name")
    if not any(name.startswith("map ") for name in arrays):
        check_file(not arrays and first == 0 and not given, "rows of a map that is not there")
        check_file(not moments.n.any(), "no map for what was learned")
        return None, None
    names = {"map mean", "map deviation", "map drawn"}
    warm = {"warmup X", "warmup y", "warmup weight"}
    warm |= {"warmup t"} if decay.is_timed else set()
    check_file(set(arrays) in (names, names | warm), "a map that is not whole")
    mean, deviation, drawn = (arrays[f"map {name}"] for name in ("mean", "deviation", "drawn"))
    fixed = scaled_map(the_map, mean, deviation, drawn, first)
    inputs = len(mean)
    check_file(the_map.count(inputs) == len(moments.anchor), "moments of another map")
    if set(arrays) == names:
        return fixed, None
    X, y, weight = (arrays[f"warmup {name}"] for name in ("X", "y", "weight"))
    n = len(y)
    check_file(not given and X.shape == (n, inputs) and weight.shape == (n,), "a malformed warm-up")
    check_file(0 < n < the_map.rows and bool((weight > 0).all()), "a malformed warm-up")
    check_file(bool((np.abs(X) <= MAX_ABS_VALUE).all()), "a warm-up with values that are too large")
    codes = y.astype(np.intp)
    good = bool(((codes == y) & (codes >= 0) & (codes < len(moments.labels))).all())
    check_file(good, "a warm-up of unknown labels")
    t, faded = arrays.get("warmup t"), weight
    if decay.is_timed and t is not None:
        check_file(
            t.shape == (n,) and bool((np.abs(t) < MAX_TIMESTAMP).all()), "a malformed warm-up"
        )
        faded = decay.weigh(t, weight)[1]
    total = np.bincount(codes, faded, len(moments.labels))
    check_file(bool(np.allclose(total, moments.N, rtol=1e-9)), "a warm-up of other rows")
    return fixed, Warmup(X, moments.labels[codes], weight, t)


def scaled_map(the_map: Map, mean: Any, deviation: Any, drawn: Any, first: Any) -> FittedMap:
    """A fixed map of a file, checked."""
    inputs = len(mean)
    fine = mean.shape == deviation.shape == (inputs,) and drawn.shape == (
        the_map.n_params_per_feature,
        inputs,
    )
    check_file(fine and inputs >= 1, "a map of the wrong shape")
    check_file(type(first) is int and 1 <= first <= inputs, "a map of the wrong shape")
    large = np.abs(mean).max() <= 4 * MAX_ABS_VALUE and deviation.max() <= 4 * MAX_ABS_VALUE
    check_file(bool(large and (deviation > 0).all()), "an impossible scaling")
    check_file(bool((np.abs(drawn) <= 1e12).all()), "impossible random numbers")
    return FittedMap(the_map, mean, deviation, drawn, first)


NAMES = ("calibration counts", "calibration sums")
MALFORMED = "malformed calibration counts"


def with_calibration(contents: Contents, calibration: Calibration) -> Contents:
    """Return what a file holds of a model with calibration counts."""
    arrays = dict(zip(NAMES, (calibration.counts, calibration.sums), strict=True))
    fact = {"labels": plain_labels(calibration.labels), "rows": calibration.rows}
    return replace(
        contents,
        arrays={**contents.arrays, **arrays},
        facts={**contents.facts, "calibration": fact},
    )


def calibration_from(contents: Contents) -> tuple[Contents, Calibration | None]:
    """Return what a file holds besides calibration counts, and these, checked."""
    found = contents.facts.get("calibration")
    if found is None:
        check_file("calibration" not in contents.facts, MALFORMED)
        return contents, None
    check_file(isinstance(found, dict) and set(found) == {"labels", "rows"}, MALFORMED)
    arrays = [contents.arrays.get(name) for name in NAMES]
    calibration = checked(labels_of(found["labels"]), found["rows"], *arrays)
    rest = {name: array for name, array in contents.arrays.items() if name not in NAMES}
    return replace(contents, arrays=rest), calibration


def checked(labels: Labels, rows: Any, counts: Any, sums: Any) -> Calibration:
    """Return calibration counts, checked. Shapes: labels (c,)."""
    check_file(type(rows) is int and 0 < rows < 2**63 and len(labels) > 1, MALFORMED)
    shapes = [None if array is None else array.shape for array in (counts, sums)]
    check_file(shapes == [(len(labels), 2, BINS), (len(labels), BINS)], MALFORMED)
    total = counts.sum(axis=1)
    good = bool((counts >= 0).all() and (total <= MOST).all())
    check_file(good, "an impossible number of calibration rows")
    check_file(bool(total.any(axis=1).all()), "a class without calibration counts")
    # The mean of what is in a bin is in the bin.
    edges = np.sinh(EDGES)
    low, high = np.append(-MAX_ABS_LOGIT, edges), np.append(edges, MAX_ABS_LOGIT)
    slack = 1e-6 * (1.0 + np.abs(sums))
    inside = (sums >= total * low - slack) & (sums <= total * high + slack)
    outside = "calibration counts outside of their bins"
    check_file(bool(inside.all()) and not sums[total == 0].any(), outside)
    return Calibration(labels, counts, sums, rows)


PREFIX = "progressive "
LINEAR = ("anchor", "coef", "offset")
QUADRATIC = ("anchor", "mean", "root", "offset")
PENDING = ("counts", "sums")
MALFORMED_PROGRESSIVE = "malformed progressive calibration"


def with_progressive(
    contents: Contents, progressive: ProgressiveCalibration, labels: Labels
) -> Contents:
    """Return what a file holds of a model that calibrates progressively. Shapes: labels (c,)."""
    position = {label: k for k, label in enumerate(labels.tolist())}
    order, scores, pending = progressive.order, progressive.scores, progressive.pending
    counts = [float(order.counts.get(label, 0.0)) for label in position]
    fact: dict[str, Any] = {
        "rows": progressive.rows,
        "until": progressive.until,
        "labels": counts,
        "runs": float(order.runs),
        "last": [position[label] for label in order.last if label in position],
        "is_sorted": order.is_sorted,
        "was_sorted": order.was_sorted,
    }
    arrays: dict[str, Any] = {}
    if pending.rows:
        slots = [position[label] for label in pending.labels.tolist()]
        fact["pending"] = {"slots": slots, "rows": pending.rows}
        arrays |= {"counts": pending.counts, "sums": pending.sums}
    if scores is not None and scores.link is not None:
        solution, link = scores.solution, scores.link
        names = LINEAR if isinstance(solution, LinearScores) else QUADRATIC
        arrays |= {name: getattr(solution, name) for name in names}
        arrays |= {"shift": link.shift, "frequency": link.frequency}
        fact["scores"] = {
            "slots": scores.classes.slots.tolist(),
            "ridge": float(solution.ridge),
            "slopes": [float(slope) for slope in link.slopes],
            "silent": float(link.silent),
        }
    named = {PREFIX + name: array for name, array in arrays.items()}
    return replace(
        contents,
        arrays={**contents.arrays, **named},
        facts={**contents.facts, "progressive": fact},
    )


def without_progressive(contents: Contents) -> tuple[Contents, dict[str, Any]]:
    """Return what a file holds besides progressive calibration, and its arrays by name."""
    rest = {name: a for name, a in contents.arrays.items() if not name.startswith(PREFIX)}
    mine = {name.removeprefix(PREFIX): a for name, a in contents.arrays.items() if name not in rest}
    return replace(contents, arrays=rest), mine


def progressive_from(
    facts: dict[str, Any], arrays: dict[str, Any], moments: Moments
) -> ProgressiveCalibration | None:
    """Return the progressive calibration of a model with these moments, checked; None without "
    "one.
    """
    if "progressive" not in facts:
        check_file(not arrays, MALFORMED_PROGRESSIVE)
        return None
    fact, c = facts["progressive"], len(moments.labels)
    wanted = {"rows", "until", "labels", "runs", "last", "is_sorted", "was_sorted"}
    check_file(
        isinstance(fact, dict) and set(fact) - {"pending", "scores"} == wanted,
        MALFORMED_PROGRESSIVE,
    )
    rows, until = fact["rows"], fact["until"]
    check_file(
        type(rows) is int and type(until) is int and 0 <= rows <= until < 2**63,
        MALFORMED_PROGRESSIVE,
    )
    check_file(rows > 0 and until <= max(2 * rows, 16), MALFORMED_PROGRESSIVE)
    expected: set[str] = set()
    pending, scores = Calibration.empty(), None
    if "pending" in fact:
        part = fact["pending"]
        check_file(isinstance(part, dict) and set(part) == {"slots", "rows"}, MALFORMED_PROGRESSIVE)
        labels = moments.labels[_slots(part["slots"], c)]
        pending = checked(labels, part["rows"], *(arrays.get(name) for name in PENDING))
        check_file(pending.rows <= rows, MALFORMED_PROGRESSIVE)
        expected |= set(PENDING)
    if "scores" in fact:
        scores, names = _scores(fact["scores"], arrays, moments)
        expected |= names
    check_file(expected == set(arrays), MALFORMED_PROGRESSIVE)
    return ProgressiveCalibration(rows, until, scores, pending, _order(fact, moments.labels))


def _order(fact: dict[str, Any], labels: Labels) -> LabelOrder:
    """Return the order of labels, checked."""
    counts, runs, last = fact["labels"], fact["runs"], fact["last"]
    flags = fact["is_sorted"], fact["was_sorted"]
    check_file(
        all(type(flag) is bool for flag in flags) and flags[0] <= flags[1], MALFORMED_PROGRESSIVE
    )
    check_file(isinstance(counts, list) and len(counts) == len(labels), MALFORMED_PROGRESSIVE)
    numbers = [*counts, runs]
    check_file(all(type(n) is float and 0.0 <= n < 2.0**63 for n in numbers), MALFORMED_PROGRESSIVE)
    check_file(isinstance(last, list) and len(last) <= 1, MALFORMED_PROGRESSIVE)
    known = labels.tolist()
    found = {label: n for label, n in zip(known, counts, strict=True) if n}
    return LabelOrder(found, runs, [known[k] for k in _slots(last, len(known))], *flags)


def _scores(fact: Any, arrays: dict[str, Any], moments: Moments) -> tuple[Scores, set[str]]:
    """Return the scoring model, checked, and the names of its arrays."""
    wanted = {"slots", "ridge", "slopes", "silent"}
    check_file(isinstance(fact, dict) and set(fact) == wanted, MALFORMED_PROGRESSIVE)
    slots = np.array(_slots(fact["slots"], len(moments.labels)), dtype=np.intp)
    c, d = len(slots), len(moments.anchor)
    check_file(c > 1, MALFORMED_PROGRESSIVE)
    slopes, silent, ridge = fact["slopes"], fact["silent"], fact["ridge"]
    check_file(isinstance(slopes, list) and len(slopes) == 2, MALFORMED_PROGRESSIVE)
    numbers = [*slopes, silent, ridge]
    check_file(all(type(x) is float and 0.0 <= x < np.inf for x in numbers), MALFORMED_PROGRESSIVE)
    check_file(silent <= 0.5, MALFORMED_PROGRESSIVE)
    problems = 1 if c == 2 else c
    shapes: dict[str, tuple[int, ...]]
    shapes = {"anchor": (d,), "coef": (problems, d), "offset": (problems,)}
    if "root" in arrays:
        shapes = {"anchor": (d,), "mean": (c, d), "root": (c, d, d), "offset": (c,)}
    shapes |= {"shift": (c,), "frequency": (c,)}
    found = {name: None if name not in arrays else arrays[name].shape for name in shapes}
    check_file(found == shapes, MALFORMED_PROGRESSIVE)
    frequency: Vector = arrays["frequency"]
    check_file(bool((frequency > 0.0).all() and (frequency <= 1.0).all()), MALFORMED_PROGRESSIVE)
    classes = Classes(moments.labels[slots], slots)
    solution: Solution
    if "root" in arrays:
        mine = {name: arrays[name] for name in QUADRATIC}
        solution = QuadraticScores(**mine, seen=np.ones(c, dtype=bool), ridge=ridge)
    else:
        solution = LinearScores(**{name: arrays[name] for name in LINEAR}, ridge=ridge)
    link = Link((slopes[0], slopes[1]), arrays["shift"], frequency, silent)
    return Scores(classes, solution, link), set(shapes)


def _slots(plain: Any, c: int) -> list[int]:
    """Return positions among c labels, each at most once, checked."""
    check_file(
        isinstance(plain, list) and len(plain) == len(set(map(str, plain))), MALFORMED_PROGRESSIVE
    )
    check_file(all(type(k) is int and 0 <= k < c for k in plain), MALFORMED_PROGRESSIVE)
    return list(plain)
