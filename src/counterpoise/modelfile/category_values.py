"""Values of columns with many categories in a model file, checked."""

from __future__ import annotations

from itertools import count, product
from typing import Any

import numpy as np

from counterpoise.arrays import Matrix
from counterpoise.modelfile.container import check_file
from counterpoise.moments._categories import find_wrong_pair
from counterpoise.moments.categories import (
    MAX_CODES,
    PAIR_BITS,
    CategoryColumn,
    CategoryMoments,
    CodeColumns,
    PairRun,
    PairWeights,
    pair_positions,
)
from counterpoise.moments.moments import Moments
from counterpoise.solver.categories import CategoryEffects
from counterpoise.validation import MAX_ABS_VALUE

MAX_COLUMNS = 1000
WEIGHT_RTOL = 1e-3  # by which rounding, after removals, makes a weight larger than it can be
MALFORMED = "malformed categories"
Arrays = dict[str, Any]


def pack_codes(codes: CodeColumns | None) -> dict[str, Any]:
    """Return the facts of columns of codes."""
    return {} if codes is None else {"codes": list(codes.pseudo_rows)}


def unpack_codes(plain: Any) -> CodeColumns | None:
    """Return the columns of codes of an untrusted file, None without any."""
    if plain is None:
        return None
    check_file(isinstance(plain, list) and 0 < len(plain) <= MAX_COLUMNS, MALFORMED)
    for rows in plain:
        is_number = type(rows) is float and 0.0 < rows < np.inf
        check_file(rows is None or is_number, MALFORMED)
    return CodeColumns(tuple(plain))


def pack_categories(categories: CategoryMoments | None) -> Arrays:
    """Return the tensors of the moments of categories."""
    if categories is None:
        return {}
    arrays: Arrays = {"categories origin": categories.origin}
    for b, column in enumerate(categories.columns):
        whole = column.resize(column.count)
        arrays[f"categories n {b}"] = np.ascontiguousarray(whole.n)
        arrays[f"categories sums {b}"] = np.ascontiguousarray(whole.sums)
    for (a, b), pairs in categories.pairs.items():
        # Runs stay as they are: other sums of their weights would differ in the last bit.
        for r, run in enumerate(run for run in pairs.runs if len(run.keys)):
            arrays[f"categories pairs {a} {b} {r}"] = run.keys
            arrays[f"categories weights {a} {b} {r}"] = run.weight
    return arrays


def unpack_categories(
    arrays: Arrays, codes: CodeColumns | None, moments: Moments
) -> CategoryMoments | None:
    """Return the moments of categories of an untrusted file, next to those of other features."""
    if not arrays:
        check_file(codes is None or not moments.n.any(), "no categories of what was learned")
        return None
    check_file(codes is not None, MALFORMED)
    assert codes is not None
    c, d, B = len(moments.n), len(moments.anchor), codes.count
    pairs = pair_positions(B)
    wanted = {"origin", *(f"{name} {b}" for b in range(B) for name in ("n", "sums"))}
    runs = {one: _count_runs(arrays, *one) for one in pairs}
    for (a, b), r in product(pairs, range(max(runs.values(), default=0))):
        if r < runs[a, b]:
            wanted |= {f"pairs {a} {b} {r}", f"weights {a} {b} {r}"}
    check_file(set(arrays) == wanted, MALFORMED)
    origin = arrays["origin"]
    check_file(
        origin.shape == (d,) and bool((np.abs(origin) <= 4 * MAX_ABS_VALUE).all()), MALFORMED
    )
    limit = moments.n[:, None] * (1 + WEIGHT_RTOL)
    columns = []
    for b in range(B):
        n, sums = arrays[f"n {b}"], arrays[f"sums {b}"]
        size = n.shape[1] if n.ndim == 2 else -1
        check_file(n.shape == (c, size) and sums.shape == (c, size, d), MALFORMED)
        check_file(0 <= size < MAX_CODES, MALFORMED)
        is_weight = (n >= 0.0).all() and (n <= limit).all() and (n.sum(axis=1) <= limit[:, 0]).all()
        check_file(bool(is_weight), "impossible weights of categories")
        largest = np.maximum(sums.max(axis=2, initial=0.0), -sums.min(axis=2, initial=0.0))
        is_sum = largest <= 8 * MAX_ABS_VALUE * np.maximum(n, 1e-300)
        check_file(bool(is_sum.all()), "impossible sums of categories")
        columns.append(CategoryColumn(n, sums, size))
    found = {}
    for a, b in pairs:
        parts = []
        for r in range(runs[a, b]):
            run = PairRun(arrays[f"pairs {a} {b} {r}"], arrays[f"weights {a} {b} {r}"])
            _check_run(run, columns[a].n, columns[b].n)
            parts.append(run)
        found[a, b] = PairWeights(tuple(parts))
    return CategoryMoments(origin, tuple(columns), found)


def _count_runs(arrays: Arrays, a: int, b: int) -> int:
    """Return the number of runs of the pairs of two columns."""
    return next(r for r in count(0) if f"pairs {a} {b} {r}" not in arrays)


def _check_run(run: PairRun, n: Matrix, m: Matrix) -> None:
    """Check pairs next to the weights (c, K) of the categories of both columns."""
    keys, weight = run.keys, run.weight
    is_shaped = keys.ndim == 1 and weight.shape == keys.shape and len(keys) > 0
    check_file(is_shaped and keys.dtype == np.int64, MALFORMED)
    problem = find_wrong_pair(keys, weight, n, m, PAIR_BITS, 1.0 + WEIGHT_RTOL)
    check_file(not problem, problem)


def pack_effects(effects: CategoryEffects | None) -> Arrays:
    """Return the tensors of effects of categories."""
    if effects is None:
        return {}
    arrays = {f"effects {b}": values for b, values in enumerate(effects.values)}
    return {**arrays, "effects rows": effects.pseudo_rows, "effects ridges": effects.ridges}


def unpack_effects(
    arrays: Arrays, codes: CodeColumns | None, classes: int
) -> CategoryEffects | None:
    """Return effects on the scores of some classes in an untrusted file; they are removed there."""
    problems = 1 if classes == 2 else classes
    own = {name: arrays.pop(name) for name in list(arrays) if name.startswith("effects ")}
    if codes is None or not own:
        check_file(not own, MALFORMED)
        return None
    names = [f"effects {b}" for b in range(codes.count)]
    check_file(set(own) == {*names, "effects rows", "effects ridges"}, MALFORMED)
    for name in ("effects rows", "effects ridges"):
        is_shaped = own[name].shape == (codes.count,)
        check_file(is_shaped and bool((own[name] > 0.0).all()), MALFORMED)
    values = tuple(own[name] for name in names)
    for one in values:
        check_file(one.ndim == 2 and one.shape[1] == problems, MALFORMED)
    return CategoryEffects(codes, values, own["effects rows"], own["effects ridges"])
