"""Values of a model file: labels, moments, imputation, feature maps and calibration, checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Vector
from counterpoise.engine.averaging import Average, Part
from counterpoise.engine.progressive_calibration import (
    FIRST_BOUNDARY_ROWS,
    LabelOrder,
    ProgressiveCalibration,
)
from counterpoise.engine.state import LearningConfig, State
from counterpoise.errors import ModelFileError
from counterpoise.feature_maps import FittedMap, Warmup
from counterpoise.feature_maps.fitted import map_of
from counterpoise.modelfile import category_values
from counterpoise.modelfile.container import Contents, check_file, invalid_file
from counterpoise.moments.categories import CodeColumns
from counterpoise.moments.classes import Classes, union
from counterpoise.moments.decay import Decay
from counterpoise.moments.downdate import UNTRACKED_HASH, is_indefinite
from counterpoise.moments.moments import Moments
from counterpoise.solver.calibration import BINS, EDGES, MAX_ABS_LOGIT, Calibration
from counterpoise.solver.imputation import MeanImputation
from counterpoise.solver.link import Link
from counterpoise.solver.score_functions import LinearScores, QuadraticScores, Solution
from counterpoise.solver.scores import Scores
from counterpoise.validation import MAX_ABS_VALUE, MAX_TIMESTAMP

MAX_LABEL_BYTES = 1 << 26  # of all labels, which NumPy makes all as long as the longest
Arrays = dict[str, Any]
Facts = dict[str, Any]


def plain_labels(labels: Labels) -> dict[str, Any]:
    """Return labels with their type, as JSON can hold them."""
    kind = labels.dtype.kind
    name = {"U": "text", "O": "object", "b": "bool"}.get(kind, labels.dtype.name)
    values = labels.tolist()
    if kind not in "UObiuf" or not all(isinstance(v, (str, bool, int, float)) for v in values):
        raise TypeError(f"labels of type {labels.dtype} cannot be saved; use text or numbers")
    return {"type": name, "values": values}


def labels_of(plain: Any) -> Labels:
    """Return labels from the result of :func:`plain_labels`, checked."""
    check_fields(plain, {"type", "values"}, "labels without type")
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
    check_file(4 * longest * len(values) <= MAX_LABEL_BYTES, "labels that are too long")
    dtype = {"text": np.str_, "object": object}.get(kind, kind)
    try:
        labels: Labels = np.array(values, dtype=dtype)
    except (OverflowError, ValueError):
        labels = np.empty(0)
    check_file(labels.tolist() == values, "labels that do not fit their type")
    return labels


MAX_COUNT = 1e60  # of rows: chunks of 1e50 may add up
USUAL_MEMORY_LIMIT = 2e9  # bytes of moments
COPIED = ("n", "N", "mean", "max_scatter", "nonconstant_weight")  # arrays of moments in every file
UNLEARNING = ("weight_remainder", "min_row_weight")  # arrays that only unlearning requires


def pack_moments(moments: Moments, decay: Decay) -> tuple[Arrays, Facts]:
    """Return tensors and facts of moments: of each symmetric scatter the lower triangle."""
    c, d = moments.mean.shape
    names = COPIED if decay.is_active else COPIED + UNLEARNING
    arrays: Arrays = {name: getattr(moments, name) for name in ("anchor", *names)}
    if decay.is_timed:
        arrays["when"] = moments.when if moments.n.any() else np.zeros(0)
    elif decay.is_active:
        arrays["stream"] = moments.stream
    else:
        arrays["row_hashes"] = _split_hashes(moments.row_hashes)
    if moments.removed.any():
        arrays["removed"] = moments.removed
    arrays["C"] = np.empty((c, d * (d + 1) // 2))
    C = moments.C
    for j, (start, end) in enumerate(_row_limits(d)):
        arrays["C"][:, start:end] = C[:, j, : j + 1]
    return arrays, {"labels": plain_labels(moments.labels), "features": d}


def unpack_moments(arrays: Arrays, facts: Facts, limit: Any, decay: Decay) -> Moments:
    """Return the moments of an untrusted file that allows ``limit`` bytes."""
    labels = labels_of(facts.get("labels"))
    d, c = facts.get("features"), len(labels)
    if not (isinstance(d, int) and not isinstance(d, bool) and d >= min(c, 1)):
        raise ModelFileError(f"has {d!r} features")
    shapes = {
        "n": (c,), "N": (c,), "anchor": (d,), "mean": (c, d), "max_scatter": (c, d),
        "nonconstant_weight": (c, 2, d), "C": (c, d * (d + 1) // 2),
    }  # fmt: skip
    if decay.is_timed:
        shapes["when"] = (1,) if arrays["n"].any() else (0,)
    elif decay.is_active:
        shapes["stream"] = (c,)
    else:
        shapes |= {"weight_remainder": (c,), "min_row_weight": (c,), "row_hashes": (c, 2, 2, 1 + d)}
        shapes |= {"removed": (c, 2, d)} if "removed" in arrays else {}
    found = {name: array.shape for name, array in arrays.items()}
    check_file(found == shapes, f"tensors {found}, expected {shapes}")
    _require_room(c, d, limit)
    moments = Moments(labels, arrays["anchor"])
    for name in (*COPIED, *UNLEARNING, "removed"):
        if name in arrays:
            setattr(moments, name, arrays[name])
    if "row_hashes" in arrays:
        moments.row_hashes = _join_hashes(arrays["row_hashes"])
    else:  # no row can be unlearned
        moments.min_row_weight[:] = np.minimum(moments.n, 1.0)
        moments.row_hashes[moments.n > 0] = UNTRACKED_HASH
    triangle, C = arrays.pop("C"), moments.C
    for j, (start, end) in enumerate(_row_limits(d)):
        C[:, j, : j + 1] = C[:, : j + 1, j] = triangle[:, start:end]
    del triangle  # it may be large, and the next check needs memory
    _require_possible(moments, decay.is_active and not decay.is_timed)
    total = moments.N.sum()
    moments.stream[:] = total
    if decay.is_timed and arrays["when"].size:
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
        check_all(fits, "an impossible weight of the stream")
    return moments


def _split_hashes(row_hashes: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return row hashes as float64: the upper 32 bits of each, then the lower."""
    halves = np.stack([row_hashes >> np.uint64(32), row_hashes & np.uint64(2**32 - 1)], axis=1)
    return halves.astype(np.float64)


def _join_hashes(halves: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return row hashes from their halves."""
    is_valid = (halves >= 0) & (halves < 2.0**32) & (halves == np.floor(halves))
    check_all(is_valid, "invalid row hashes")
    upper, lower = np.moveaxis(halves.astype(np.uint64), 1, 0)
    return np.ascontiguousarray((upper << np.uint64(32)) | lower)


def _row_limits(d: int) -> Iterator[tuple[int, int]]:
    """Return where each row of a lower triangle begins and ends if rows follow one another."""
    return pairwise(accumulate(range(d + 1)))


def _require_room(c: int, d: int, limit: Any) -> None:
    """Raise if moments need more memory than the file allows; without a class, than is usual."""
    check_file(isinstance(limit, (int, float)), "no memory_limit")
    choose = max if c else min
    limit, size = choose(float(limit), USUAL_MEMORY_LIMIT), 8.0 * max(c, 1) * d * d
    if size > limit:
        raise ModelFileError(
            f"has {c} classes of {d:,} features, which take {size / 1e9:.3g} GB, more than its "
            f"memory_limit={limit:g} bytes"
        )


def _require_possible(moments: Moments, decays: bool) -> None:
    """Raise unless some rows have these moments."""
    n, N, lightest = moments.n, moments.N, moments.min_row_weight
    C_jj, peak, removed = np.einsum("kjj->kj", moments.C), moments.max_scatter, moments.removed
    weight, most = moments.nonconstant_weight, n[:, None, None] * (1 + 1e-9)
    check_all((n >= 0) & (N >= 0), "counts below zero")
    check_all((n <= MAX_COUNT) & (N <= MAX_COUNT), "counts that are too large")
    same = (n > 0) <= (N > 0) if decays else np.abs(n - N) <= 1e-9 * np.maximum(n, N)
    check_all(same, "counts that disagree")
    position = np.abs(moments.anchor + moments.mean)
    check_all(position <= 4 * MAX_ABS_VALUE, "means that are too large")
    check_all((peak >= 0) & (peak >= C_jj * (1 - 1e-9)), "a maximal scatter below the scatter")
    check_all(peak <= 16 * MAX_ABS_VALUE**2 * MAX_COUNT, "variances that are too large")
    check_all((weight >= -1e-9 * most) & (weight <= most), "impossible counts")
    check_all(removed[:, 0] >= 0, "rounding below zero")
    check_all(np.abs(removed[:, 1]) <= 4 * MAX_ABS_VALUE, "rounding that is too large")
    check_all(removed[:, 0] <= MAX_ABS_VALUE * MAX_COUNT**2, "rounding that is too large")
    check_all(np.abs(moments.weight_remainder) <= 1e-9 * n, "a count with too large a remainder")
    is_weight = (lightest >= 0) & (lightest <= MAX_COUNT) & ((lightest > 0) >= (n > 0))
    check_all(is_weight, "rows too light or heavy")
    for array in (moments.mean, C_jj, peak, weight, removed, lightest, moments.row_hashes):
        check_file(not array[n == 0].any(), "moments of a class that was never seen")
    for k in range(len(n)):
        check_file(not is_indefinite(moments, k), "a scatter that is not positive semidefinite")


FILL_FIELDS = ("at", "by", "base", "present")


def fill_of(plain: Any, inputs: int) -> MeanImputation | None:
    """Return the imputation of rows with ``inputs`` features, checked; None without one."""
    if plain is None:
        return None
    check_fields(plain, set(FILL_FIELDS), "a malformed fill")
    check_file(all(isinstance(part, list) for part in plain.values()), "a malformed fill")
    at, by, base, present = (plain[name] for name in FILL_FIELDS)
    check_file(0 < len(at) == len(by) == len(base) == len(present), "a malformed fill")
    exist = all(type(j) is int and 0 <= j < inputs for j in (*at, *by))
    check_file(exist, "a fill of features that there are not")
    check_file(len(set(at)) == len(at) and not set(at) & set(by), "a feature that is filled twice")
    bounded = all(type(x) is float and abs(x) <= MAX_ABS_VALUE for x in base)
    check_file(bounded, "an impossible fill")
    check_file(all(type(flag) is bool for flag in present), "a malformed fill")
    return MeanImputation.of(at, by, np.array(base), present)


MAP_FIELDS = ("mean", "deviation", "drawn")


def pack_map(state: State) -> tuple[Arrays, Facts]:
    """Return tensors and facts of the map of a State, and of its warm-up."""
    fixed, warmup, clipped = state.fixed, state.warmup, float(state.moments.clipped[0])
    arrays: Arrays = {}
    if fixed is not None:
        arrays |= {f"map {name}": getattr(fixed, name) for name in MAP_FIELDS}
    if warmup is not None:
        slot = {label: k for k, label in enumerate(state.moments.labels.tolist())}
        codes = np.array([slot[label] for label in warmup.y.tolist()], dtype=np.float64)
        rows = {"X": warmup.X, "y": codes, "weight": warmup.weight}
        rows |= {} if warmup.t is None else {"t": warmup.t}
        arrays |= {f"warmup {name}": array for name, array in rows.items()}
    first, given = 0 if fixed is None else fixed.first, state.config.given is not None
    fact: Facts = {"first": first, "given": given}
    return arrays, fact | ({"clipped": clipped} if clipped else {})


def unpack_map(
    parts: Arrays,
    rows: Arrays,
    fact: Any,
    text: Any,
    moments: Moments,
    decay: Decay,
    codes: int = 0,
) -> tuple[FittedMap | None, Warmup | None]:
    """Return the map and the warm-up of an untrusted file, given the tensors of both.

    The last ``codes`` columns of the rows are codes.
    """
    is_dict = isinstance(fact, dict)
    check_file(is_dict and set(fact) - {"clipped"} == {"first", "given"}, "a malformed map")
    first, given, clipped = fact["first"], fact["given"], fact.get("clipped", 0.0)
    most = np.inf if decay.is_timed else (1 + 1e-9) * float(moments.N.sum())
    check_file(type(clipped) is float and 0.0 <= clipped <= most, "an impossible count")
    moments.clipped[0] = clipped
    check_file(isinstance(text, str) and type(given) is bool, "a malformed map")
    the_map = map_of(text)
    check_file(the_map.text == text, "a map under a wrong name")
    if not parts:
        check_file(not rows and first == 0 and not given, "rows of a map that is not there")
        check_file(not moments.n.any(), "no map for what was learned")
        return None, None
    wanted = {"X", "y", "weight"} | ({"t"} if decay.is_timed else set())
    check_file(set(parts) == set(MAP_FIELDS), "a map that is not whole")
    check_file(not rows or set(rows) == wanted, "a map that is not whole")
    mean, deviation, drawn = (parts[name] for name in MAP_FIELDS)
    inputs = len(mean)
    fits = mean.shape == deviation.shape == (inputs,)
    fits = fits and drawn.shape == (the_map.n_params_per_feature, inputs)
    check_file(fits and type(first) is int and 1 <= first <= inputs, "a map of the wrong shape")
    bounded = np.abs(mean).max() <= 4 * MAX_ABS_VALUE and deviation.max() <= 4 * MAX_ABS_VALUE
    check_file(bool(bounded and (deviation > 0).all()), "an impossible scaling")
    check_all(np.abs(drawn) <= 1e12, "impossible random numbers")
    fixed = FittedMap(the_map, mean, deviation, drawn, first)
    check_file(the_map.count(inputs) == len(moments.anchor), "moments of another map")
    if not rows:
        return fixed, None
    X, y, weight, t = rows["X"], rows["y"], rows["weight"], rows.get("t")
    n, decayed = len(y), weight
    check_file(
        not given and X.shape == (n, inputs + codes) and weight.shape == (n,), "a malformed warm-up"
    )
    check_file(0 < n < the_map.rows and bool((weight > 0).all()), "a malformed warm-up")
    check_all(np.abs(X) <= MAX_ABS_VALUE, "a warm-up with values that are too large")
    codes = y.astype(np.intp)
    known = (codes == y) & (codes >= 0) & (codes < len(moments.labels))
    check_all(known, "a warm-up of unknown labels")
    if t is not None:
        check_file(t.shape == (n,), "a malformed warm-up")
        check_all(np.abs(t) < MAX_TIMESTAMP, "a malformed warm-up")
        decayed = decay.weigh(t, weight)[1]
    total = np.bincount(codes, decayed, len(moments.labels))
    check_file(bool(np.allclose(total, moments.N, rtol=1e-9)), "a warm-up of other rows")
    return fixed, Warmup(X, moments.labels[codes], weight, t)


MALFORMED = "malformed calibration counts"


def _calibration_of(labels: Labels, rows: Any, arrays: Arrays) -> Calibration:
    """Return calibration counts of labels (c,), checked."""
    check_file(type(rows) is int and 0 < rows < 2**63 and len(labels) > 1, MALFORMED)
    check_shapes(arrays, {"counts": (len(labels), 2, BINS), "sums": (len(labels), BINS)}, MALFORMED)
    counts, sums = arrays["counts"], arrays["sums"]
    total = counts.sum(axis=1)
    good = bool((counts >= 0).all() and (total <= MAX_COUNT).all())
    check_file(good, "an impossible number of calibration rows")
    check_all(total.any(axis=1), "a class without calibration counts")
    # The mean of a bin is in the bin.
    edges = np.sinh(EDGES)
    low, high = np.append(-MAX_ABS_LOGIT, edges), np.append(edges, MAX_ABS_LOGIT)
    slack = 1e-6 * (1.0 + np.abs(sums))
    inside = (sums >= total * low - slack) & (sums <= total * high + slack)
    outside = "calibration counts outside of their bins"
    check_file(bool(inside.all()) and not sums[total == 0].any(), outside)
    return Calibration(labels, counts, sums, rows)


LINEAR = ("anchor", "coef", "offset")
QUADRATIC = ("anchor", "mean", "root", "offset")
MALFORMED_PROGRESSIVE = "malformed progressive calibration"


def pack_progressive(progressive: ProgressiveCalibration, labels: Labels) -> tuple[Arrays, Facts]:
    """Return tensors and facts of progressive calibration, where moments have labels (c,)."""
    position = {label: k for k, label in enumerate(labels.tolist())}
    order, scores, pending = progressive.order, progressive.scores, progressive.pending
    fact: Facts = {
        "rows": progressive.rows,
        "until": progressive.until,
        "labels": [float(order.counts.get(label, 0.0)) for label in position],
        "runs": float(order.runs),
        "last": [position[label] for label in order.last if label in position],
        "is_sorted": order.is_sorted,
        "was_sorted": order.was_sorted,
    }
    arrays: Arrays = {}
    if pending.rows:
        slots = [position[label] for label in pending.labels.tolist()]
        fact["pending"] = {"slots": slots, "rows": pending.rows}
        arrays |= {"counts": pending.counts, "sums": pending.sums}
    if scores is not None and scores.link is not None:
        solution, link = scores.solution, scores.link
        more: Facts = {}
        if isinstance(solution, Average):
            more["parts"] = [part.name for part in solution.parts]
            for i, part in enumerate(solution.parts):
                tensors = _pack_solution(part.solution)
                arrays |= {f"{i} {name}": array for name, array in tensors.items()}
        else:
            arrays |= _pack_solution(solution)
        arrays |= {"shift": link.shift, "frequency": link.frequency}
        arrays |= category_values.pack_effects(scores.effects)
        fact["scores"] = more | {
            "slots": scores.classes.slots.tolist(),
            "ridge": float(solution.ridge),
            "slopes": [float(slope) for slope in link.slopes],
            "silent": float(link.silent),
        }
    return arrays, fact


def _pack_solution(solution: Solution) -> Arrays:
    """Return the tensors of scores."""
    names = LINEAR if isinstance(solution, LinearScores) else QUADRATIC
    return {name: getattr(solution, name) for name in names}


def unpack_progressive(
    arrays: Arrays,
    fact: Any,
    moments: Moments,
    states: Mapping[str, State] | None = None,
    codes: CodeColumns | None = None,
) -> ProgressiveCalibration:
    """Return the progressive calibration of an untrusted file with these moments.

    Given the states of an averaging model by the name of the map, the scoring model is an average.
    """
    labels, c = moments.labels, len(moments.labels)
    wanted = {"rows", "until", "labels", "runs", "last", "is_sorted", "was_sorted"}
    _require(isinstance(fact, dict) and set(fact) - {"pending", "scores"} == wanted)
    rows, until = fact["rows"], fact["until"]
    _require(type(rows) is int and type(until) is int and 0 < rows <= until < 2**63)
    first = 0 if states is None else max(state.config.rows for state in states.values())
    _require(until <= max(2 * rows, FIRST_BOUNDARY_ROWS, first))
    pending, scores = Calibration.empty(), None
    if "pending" in fact:
        part = fact["pending"]
        check_fields(part, {"slots", "rows"}, MALFORMED_PROGRESSIVE)
        counts: Arrays = {k: arrays.pop(k) for k in ("counts", "sums") if k in arrays}
        pending = _calibration_of(labels[_slots(part["slots"], c)], part["rows"], counts)
        _require(pending.rows <= rows)
    if "scores" in fact:
        effects = category_values.unpack_effects(arrays, codes, len(fact["scores"]["slots"]))
        scores = replace(_scores(fact["scores"], arrays, moments, states), effects=effects)
    _require(scores is not None or not arrays)
    return ProgressiveCalibration(rows, until, scores, pending, _order(fact, labels))


def _order(fact: Facts, labels: Labels) -> LabelOrder:
    """Return the order of labels, checked."""
    counts, runs, last = fact["labels"], fact["runs"], fact["last"]
    flags = fact["is_sorted"], fact["was_sorted"]
    _require(all(type(flag) is bool for flag in flags) and flags[0] <= flags[1])
    _require(isinstance(counts, list) and len(counts) == len(labels))
    _require(all(type(n) is float and 0.0 <= n < 2.0**63 for n in (*counts, runs)))
    _require(isinstance(last, list) and len(last) <= 1)
    known = labels.tolist()
    found = {label: n for label, n in zip(known, counts, strict=True) if n}
    return LabelOrder(found, runs, [known[k] for k in _slots(last, len(known))], *flags)


def _scores(
    fact: Any, arrays: Arrays, moments: Moments, states: Mapping[str, State] | None
) -> Scores:
    """Return the scoring model, checked."""
    more = set() if states is None else {"parts"}
    check_fields(fact, {"slots", "ridge", "slopes", "silent"} | more, MALFORMED_PROGRESSIVE)
    slots = np.array(_slots(fact["slots"], len(moments.labels)), dtype=np.intp)
    slopes, silent, ridge = fact["slopes"], fact["silent"], fact["ridge"]
    c = len(slots)
    _require(c > 1 and isinstance(slopes, list) and len(slopes) == 2)
    _require(all(type(x) is float and 0.0 <= x < np.inf for x in (*slopes, silent, ridge)))
    _require(silent <= 0.5)
    mine: Arrays = {name: arrays.pop(name) for name in ("shift", "frequency") if name in arrays}
    check_shapes(mine, {"shift": (c,), "frequency": (c,)}, MALFORMED_PROGRESSIVE)
    frequency: Vector = mine["frequency"]
    check_all((frequency > 0.0) & (frequency <= 1.0), MALFORMED_PROGRESSIVE)
    if states is None:
        solution: Any = _solution(arrays, c, len(moments.anchor), ridge)
    else:
        names = fact["parts"]
        _require(isinstance(names, list) and len(names) > 0)
        _require(all(isinstance(name, str) and name in states for name in names))
        _require(not any(state.rows_until_fixed for state in states.values()))
        tensors = [tensors_of(arrays, str(i)) for i in range(len(names))]
        _require(sum(map(len, tensors)) == len(arrays))
        parts = []
        for name, some in zip(names, tensors, strict=True):
            d = len(states[name].moments.anchor)
            parts.append(Part(name, states[name].fixed, _solution(some, c, d, ridge)))
        solution = Average(tuple(parts), ridge)
    link = Link((slopes[0], slopes[1]), mine["shift"], frequency, silent)
    return Scores(Classes(moments.labels[slots], slots), solution, link)


def _solution(arrays: Arrays, c: int, d: int, ridge: float) -> Solution:
    """Return the scores of c classes as a function of d terms, checked."""
    problems, is_quadratic = 1 if c == 2 else c, "root" in arrays
    shapes: dict[str, tuple[int, ...]] = {"anchor": (d,)}
    if is_quadratic:
        shapes |= {"mean": (c, d), "root": (c, d, d), "offset": (c,)}
    else:
        shapes |= {"coef": (problems, d), "offset": (problems,)}
    check_shapes(arrays, shapes, MALFORMED_PROGRESSIVE)
    if is_quadratic:
        return QuadraticScores(**arrays, seen=np.ones(c, dtype=bool), ridge=ridge)
    return LinearScores(**arrays, ridge=ridge)


def _slots(plain: Any, c: int) -> list[int]:
    """Return positions among c labels, each at most once, checked."""
    _require(isinstance(plain, list) and len(plain) == len(set(map(str, plain))))
    _require(all(type(k) is int and 0 <= k < c for k in plain))
    return list(plain)


def _require(condition: bool) -> None:
    check_file(condition, MALFORMED_PROGRESSIVE)


def pack_calibration(
    counts: Calibration | None, progressive: ProgressiveCalibration | None, labels: Labels
) -> tuple[Arrays, Facts]:
    """Return tensors and facts of calibration, where moments have labels (c,)."""
    arrays, facts, parts = dict[str, Any](), dict[str, Any](), dict[str, tuple[Arrays, Facts]]()
    if counts is not None and counts.rows:
        fact = {"labels": plain_labels(counts.labels), "rows": counts.rows}
        parts["calibration"] = {"counts": counts.counts, "sums": counts.sums}, fact
    if progressive is not None:
        parts["progressive"] = pack_progressive(progressive, labels)
    for name, (tensors, facts[name]) in parts.items():
        arrays |= {f"{name} {key}": array for key, array in tensors.items()}
    return arrays, facts


def unpack_calibration(
    arrays: Arrays,
    facts: Facts,
    moments: Moments,
    states: Mapping[str, State] | None = None,
    codes: CodeColumns | None = None,
) -> tuple[Calibration | None, ProgressiveCalibration | None]:
    """Return the calibration of an untrusted file; ``states`` as unpack_progressive has them."""
    calibration = progressive = None
    counts, rest = tensors_of(arrays, "calibration"), tensors_of(arrays, "progressive")
    check_file("calibration" in facts or not counts, MALFORMED)
    if "calibration" in facts:
        fact = facts["calibration"]
        check_fields(fact, {"labels", "rows"}, MALFORMED)
        calibration = _calibration_of(labels_of(fact["labels"]), fact["rows"], counts)
    _require("progressive" in facts or not rest)
    if "progressive" in facts:
        progressive = unpack_progressive(rest, facts["progressive"], moments, states, codes)
    seen = set(moments.labels[moments.n > 0].tolist())
    for one in (calibration, None if progressive is None else progressive.pending):
        unseen = set() if one is None else set(one.labels.tolist()) - seen
        check_file(not unseen, "calibration counts of a class that was never seen")
    return calibration, progressive


def pack_state(state: State) -> tuple[Arrays, Facts]:
    """Return tensors and facts of a State."""
    state.score_pending()
    arrays, facts = pack_moments(state.moments, state.config.decay)
    facts["declared"] = plain_labels(state.declared)
    if state.fill is not None:
        facts["fill"] = {name: getattr(state.fill, name).tolist() for name in FILL_FIELDS}
    arrays |= category_values.pack_categories(state.moments.categories)
    facts |= category_values.pack_codes(state.codes)
    labels = state.moments.labels
    tensors, more = pack_calibration(state.calibration, state.progressive, labels)
    arrays, facts = arrays | tensors, facts | more
    if state.config.text is not None:
        tensors, facts["map"] = pack_map(state)
        arrays |= tensors
    return arrays, facts


def unpack_state(contents: Contents, config: LearningConfig) -> State:
    """Return the State of an untrusted file, whose scatters are removed from its contents.

    A given map is in the file, not in the config.
    """
    facts, arrays, limit = contents.facts, contents.arrays, contents.options.get("memory_limit")
    if "absent" in facts:
        raise ModelFileError(
            "was learned from events with columns, or without some features; use "
            "counterpoise.river.BalancedRidgeClassifier.load"
        )
    wanted = {"labels", "declared", "features"} | ({"map"} if config.text else set())
    optional = {"calibration", "progressive", "fill", "codes"}
    check_file(set(facts) - optional == wanted, "unexpected facts")
    others = ("map", "warmup", "categories", *sorted(optional))
    parts = {name: tensors_of(arrays, name) for name in others}
    used = {f"{name} {key}" for name, part in parts.items() for key in part}
    rest = {name: array for name, array in arrays.items() if name not in used}
    arrays.pop("C", None)  # its memory is needed
    moments = unpack_moments(rest, facts, limit, config.decay)
    codes = category_values.unpack_codes(facts.get("codes"))
    moments.categories = category_values.unpack_categories(parts["categories"], codes, moments)
    calibration, progressive = unpack_calibration(arrays, facts, moments, codes=codes)
    declared, fixed, warmup = labels_of(facts["declared"]), None, None
    union(declared, moments.labels)
    if config.text is None:
        check_file(not parts["map"] and not parts["warmup"], "a map that is not used")
    else:
        text = contents.options["feature_map"]
        maps = parts["map"], parts["warmup"]
        count = 0 if codes is None else codes.count
        fixed, warmup = unpack_map(*maps, facts["map"], text, moments, config.decay, count)
    state = State(config, moments, declared, fixed, warmup, None, calibration, progressive)
    state = replace(state, codes=codes)
    return state.with_imputation(fill_of(facts.get("fill"), state.n_inputs))


def tensors_of(arrays: Arrays, prefix: str) -> Arrays:
    """Return the tensors whose names begin with a prefix and a space, without the prefix."""
    start = f"{prefix} "
    return {name[len(start) :]: a for name, a in arrays.items() if name.startswith(start)}


def check_all(conditions: Any, what: str) -> None:
    """Raise, about the file, unless all elements of an array are true."""
    if not conditions.all():
        raise invalid_file(what)


def check_fields(plain: Any, wanted: set[str], what: str) -> None:
    """Raise, about the file, unless a value is a dict with these keys."""
    check_file(isinstance(plain, dict) and set(plain) == wanted, what)


def check_shapes(arrays: Arrays, shapes: Mapping[str, tuple[int, ...]], what: str) -> None:
    """Raise, about the file, unless these are the arrays, of these shapes."""
    check_file({name: array.shape for name, array in arrays.items()} == shapes, what)
