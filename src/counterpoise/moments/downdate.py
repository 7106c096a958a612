"""Downdating: Chan's formulae backwards, and the digits that are left.

    n = n_a − n_b    μ = μ_a − (μ_b − μ_a) n_b / n     C = C_a − C_b − δδᵀ n n_b / n_a,  δ = μ_b − μ

A difference has the absolute errors of its terms, so that a small one may have few correct digits.
``weight_remainder`` shows that a class is empty, ``row_hashes`` that all rows left have the same
value of a feature, and :func:`relative_error` compares the rounding errors in ``max_scatter`` and
``removed`` with the scatter that is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from counterpoise.arrays import Flags, Matrix, Vector
from counterpoise.errors import PrecisionError, UnknownRowsError
from counterpoise.moments._cholesky import factorize
from counterpoise.moments._moments import best_anchors, fold

if TYPE_CHECKING:
    from counterpoise.moments.moments import Moments


EPS = float(np.finfo(np.float64).eps)
MIN_RESIDUAL_WEIGHT = 1e-6  # of the lightest row: less is the rounding of fractions of weights
COUNT_RTOL = 1e-9  # rounding error of counts of rows, relative to what they were
PSD_RTOL = 1e-9  # distance of a rounded scatter from a positive semidefinite one
RESIDUAL_RTOL = 1e-12  # rounding error of a difference, relative to what it was
MAX_RELATIVE_ERROR = 1e-3  # an estimated relative error at which a removal is refused
MEAN_ROUNDING_ULPS = 0.25  # what rounding to the nearest leaves on average, in units of eps
MAX_WEIGHT_RATIO = 1e20  # of a class to its lightest row, whose weight can then be detected
MIN_TRUSTED_BITS = 32  # bits of a hash that must be left to trust it
UNTRACKED_HASH = np.uint64(0x9E3779B97F4A7C15)  # the hash of rows without one: it proves nothing
MAX_FEATURES_TO_FACTORIZE = 500  # features up to which what is left is factorized
BLOCK_ROWS = 256  # rows of a scatter that are removed at a time
BLOCK_COLUMNS = 64  # columns of a scatter that are factorized at a time


def check_class_fully_removed(
    before: Moments, kept: Moments, k: int, gone: Moments, j: int
) -> None:
    """Raise if the rows of a class that is now empty were not those that it had.

    Where as many rows of each weight were removed as added, the hashes of their values must vanish,
    unless only rounding separates the rows, as with a map on another machine.
    """
    row_hashes = kept.row_hashes[k]
    if row_hashes[:, 0].any() or not row_hashes.any() or _same_moments(before, k, gone, j):
        return
    raise UnknownRowsError(
        f"cannot unlearn the last rows of class {kept.labels.tolist()[k]!r}: the rows unlearned so "
        "far differ from those that were learned"
    )


def _same_moments(before: Moments, k: int, gone: Moments, j: int) -> bool:
    """Return whether mean and scatter of one class are those of another, except for rounding."""
    n, (off, _) = float(before.n[k]), before.removed[k]
    C_a, C_b = before.C[k].diagonal(), gone.C[j].diagonal()
    most = np.maximum(np.maximum(C_a, C_b), before.max_scatter[k])
    value = np.abs(before.anchor) + np.abs(before.mean[k])
    apart = (gone.anchor - before.anchor) + gone.mean[j] - before.mean[k]
    tolerance = 1e3 * EPS * (value + off / n) + PSD_RTOL * np.sqrt(most / n)
    squares = PSD_RTOL * most + n * tolerance**2
    return bool((np.abs(apart) <= tolerance).all() and (np.abs(C_a - C_b) <= squares).all())


def check_value_counts(
    kept: Moments, k: int, was: Vector, nonconstant_weight: Vector, value: int
) -> None:
    """Raise if more rows that are not, or are, ``value`` are removed than there were."""
    n, left = float(kept.n[k]), was - nonconstant_weight
    # More than rounding, of what there was before and of rows that are removed in portions.
    slack = max(
        MIN_RESIDUAL_WEIGHT * float(kept.min_row_weight[k]),
        COUNT_RTOL * max(n, float(was.max()), float(nonconstant_weight.max())),
    )
    label = kept.labels.tolist()[k]
    for wrong, words in ((left < -slack, f"is not {value}"), (left > n + slack, f"is {value}")):
        if wrong.any():
            raise UnknownRowsError(
                f"{words} in more of the rows to be unlearned of class {label!r} than were ever "
                "learned",
                int(wrong.argmax()),
            )


def is_indefinite(moments: Moments, k: int) -> bool:
    """Return whether the scatter of a class is indefinite, by more than rounding."""
    C, max_scatter, n, d = moments.C[k], moments.max_scatter[k], moments.n[k], len(moments.anchor)
    # Rounding errors of the diagonal: a share of the largest scatter so far and, where nothing
    # varies, the rounding of the values themselves. An anchor may have been a value of any class.
    spread = np.sqrt(moments.max_scatter / np.maximum(moments.n, 1e-300)[:, None])
    value = np.abs(moments.anchor) + (np.abs(moments.mean) + spread).max(axis=0)
    rounding = PSD_RTOL * d * max_scatter + n * (1e6 * EPS * value) ** 2 + 1e-290
    off, begun = moments.removed[k]
    if off.any():  # and what removals did to the means
        gone = np.abs((moments.anchor - begun) + moments.mean[k])
        spread_k = np.sqrt(np.maximum(np.diagonal(C), 0.0) / max(float(n), 1e-300))
        rounding += 1e3 * EPS * off * (2.0 * gone + spread_k)
    tolerance = np.diagonal(C) + rounding
    if not (tolerance > 0).all():
        return True
    # Cholesky's factor of few features, or of one block of columns after the other: the half that
    # is kept is all the memory that it needs.
    unit, factor = 1.0 / np.sqrt(tolerance), list[Matrix]()
    size = d if d <= MAX_FEATURES_TO_FACTORIZE else BLOCK_COLUMNS
    for i in range(0, d, size):
        panel = C[i : i + size, i:] * unit[i : i + size, None]
        panel *= unit[i:]
        m = len(panel)
        np.fill_diagonal(panel, 1.0 + PSD_RTOL)  # (C_jj + rounding) / tolerance, and a little more
        for above in factor:
            rows = above[:, i - d :]
            panel -= rows[:, :m].T @ rows
        corner = factorize(panel[:, :m].T, overwrite=True)
        if corner is None:
            return True
        if m < d - i:
            panel[:, m:] = linalg.blas.dtrsm(1.0, corner, panel[:, m:], lower=1)
        factor.append(panel)
    return False


def downdate(before: Moments, kept: Moments, gone: Moments) -> None:
    """Remove the rows of a sample from another, which becomes ``kept``."""
    index = {label: k for k, label in enumerate(kept.labels.tolist())}
    shift = gone.anchor - kept.anchor
    for j, label in enumerate(gone.labels.tolist()):
        k = index.get(label)
        if gone.n[j] == 0.0:
            if k is not None:
                kept.C[k] = before.C[k]
            continue
        if k is None or kept.n[k] == 0.0:
            raise PrecisionError(f"cannot unlearn rows of class {label!r}: none was ever seen")
        _remove_class(before, kept, k, label, gone, j, gone.mean[j] + shift)
    _move_anchor(kept)
    _anchor_constants(kept)
    kept.stream[:] = kept.N.sum()
    # Where a row of weight 1/3 is removed three times, rounding leaves a tiny weight.
    left = float(before.clipped[0] - gone.clipped[0])
    kept.clipped[0] = left if kept.n.any() and left > RESIDUAL_RTOL * before.clipped[0] else 0.0
    error = relative_error(kept)
    if error.max() > MAX_RELATIVE_ERROR:
        raise PrecisionError("too few digits would be left", int(error.argmax()))


def _remove_class(
    before: Moments, kept: Moments, k: int, label: object, gone: Moments, j: int, mean_b: Vector
) -> None:
    """Remove class j of a sample from class k of another, by Chan's formulae backwards."""
    n_a, n_b = float(kept.n[k]), float(gone.n[j])
    n, error = _two_sum(n_a, -n_b)
    rest = float(kept.weight_remainder[k] - gone.weight_remainder[j])
    n, remainder = _two_sum(n, rest + error)
    if n < -RESIDUAL_RTOL * n_a:
        raise PrecisionError(
            f"cannot unlearn a weight of {n_b:g} of class {label!r}: only {n_a:g} was learned"
        )
    kept.row_hashes[k] -= gone.row_hashes[j]
    if _is_empty(kept, k, n, n_a):
        check_class_fully_removed(before, kept, k, gone, j)
        for name in kept.ARRAYS:
            if name not in ("labels", "anchor", "stream", "when", "clipped"):
                getattr(kept, name)[k] = 0
        return
    if n <= 0.0:
        raise PrecisionError(precision_error(f"class {label!r}"))
    is_true = kept.N[k] == n_a and gone.N[j] == n_b
    kept.N[k] = n if is_true else kept.N[k] - gone.N[j]
    kept.n[k], kept.weight_remainder[k] = n, remainder
    mean_a, C_a = before.mean[k], before.C[k].diagonal()
    kept.mean[k] -= (mean_b - mean_a) * (n_b / n)
    delta = mean_b - kept.mean[k]
    r = delta * np.sqrt(n * (n_b / n_a))
    for i in range(0, len(delta), BLOCK_ROWS):  # in blocks, which need less memory
        rows = slice(i, i + BLOCK_ROWS)
        C_b = gone.C[j, rows] + np.outer(r[rows], r)
        np.subtract(before.C[k, rows], C_b, out=kept.C[k, rows])
    kept.max_scatter[k] = np.hypot(kept.max_scatter[k], C_a)
    rounding = MEAN_ROUNDING_ULPS * n_a * (np.abs(mean_a) + np.abs(delta))
    _add_rounding(kept, k, rounding, mean_a + kept.anchor)
    _detect_constants_by_count(kept, k, gone.nonconstant_weight[j])
    _find_constants(kept, k)
    C_jj = kept.C[k].diagonal()
    impossible = C_jj < -RESIDUAL_RTOL * kept.max_scatter[k]
    if impossible.any():
        raise PrecisionError(
            "the variance would turn negative: these rows were never seen",
            int(impossible.argmax()),
        )
    # Rounding can turn a variance that vanished into a small negative number.
    _zero_constant_features(kept, k, C_jj < 0.0)
    if len(C_jj) <= MAX_FEATURES_TO_FACTORIZE and is_indefinite(kept, k):
        raise UnknownRowsError(
            f"cannot unlearn these rows of class {label!r}: no rows have the scatter that would be "
            "left, so that they, or some that were unlearned before, were never learned"
        )


def _two_sum(a: float, b: float) -> tuple[float, float]:
    """Return the sum, rounded, and its rounding error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _is_empty(kept: Moments, k: int, n: float, n_a: float) -> bool:
    """Return whether a class that now has the weight n is empty.

    The row hashes detect rows that were removed with the weights that they were added with. A row
    removed in portions leaves their rounding error, which its weight shows unless it is too small.
    """
    if not kept.row_hashes[k].any() and abs(n) <= RESIDUAL_RTOL * n_a:
        return True
    least = float(kept.min_row_weight[k])
    return abs(n) <= MIN_RESIDUAL_WEIGHT * least and n_a <= MAX_WEIGHT_RATIO * least


def _zero_constant_features(kept: Moments, k: int, constant: Flags) -> None:
    """Set the scatter of constant features to 0."""
    kept.C[k, constant, :] = 0.0
    kept.C[k][:, constant] = 0.0


def _find_constants(kept: Moments, k: int) -> tuple[Flags, Vector]:
    """Make features constant that the row hashes prove to be; see :func:`constant_features`."""
    known, values = constant_features(kept.row_hashes[k], kept.mean[k] + kept.anchor)
    known &= kept.C[k].diagonal() <= MAX_RELATIVE_ERROR * kept.max_scatter[k]
    _set_constant(kept, k, known, values)
    return known, values


def _move_anchor(kept: Moments) -> None:
    """Move the anchor to the rows that are left, so that exact means stay exact."""
    place = best_anchors(kept)
    if place is None:
        return
    shift = kept.anchor - place
    for k in np.flatnonzero(kept.n > 0).tolist():
        # The means of other rows, too, were rounded to digits of that distance.
        rounding = MEAN_ROUNDING_ULPS * kept.n[k] * np.abs(shift)
        _add_rounding(kept, k, rounding, kept.mean[k] + kept.anchor)
        kept.mean[k] += shift
    kept.anchor[:] = place


def _add_rounding(kept: Moments, k: int, more: Vector, at: Vector) -> None:
    """Add a rounding error to the sum of the rows of a class, when its mean was there."""
    off, begun = kept.removed[k]
    begun[off == 0.0] = at[off == 0.0]
    off[:] = np.hypot(off, more)


def _anchor_constants(kept: Moments) -> None:
    """Move the anchor to the value that all rows left of all classes share.

    No mean then differs from another by rounding, as if the feature varied.
    """
    found = [_find_constants(kept, k) for k in np.flatnonzero(kept.n > 0).tolist()]
    if found:
        value = found[0][1]
        same = np.all([known & (values == value) for known, values in found], axis=0)
        kept.anchor[same], kept.mean[:, same] = value[same], 0.0


def _detect_constants_by_count(kept: Moments, k: int, nonconstant_weight: Matrix) -> None:
    """Make features constant of which no row is left that is not 0, or not 1.

    It also holds for rows that were removed in portions, which row hashes cannot detect.
    """
    for value in (0, 1):
        was = kept.nonconstant_weight[k, value].copy()
        check_value_counts(kept, k, was, nonconstant_weight[value], value)
        kept.nonconstant_weight[k, value] = np.clip(was - nonconstant_weight[value], 0.0, kept.n[k])
        # Rounding, and not a row: even the lightest would be more.
        rounding = RESIDUAL_RTOL * was
        never = (kept.nonconstant_weight[k, value] <= rounding) & (was > 0)
        never &= rounding < kept.min_row_weight[k]
        kept.nonconstant_weight[k, value, never] = 0.0
        _set_constant(kept, k, never, np.full(len(never), float(value)))


def _set_constant(kept: Moments, k: int, known: Flags, values: Vector) -> None:
    """Set the values of constant features, without rounding errors."""
    kept.mean[k, known] = values[known] - kept.anchor[known]
    kept.max_scatter[k, known], kept.removed[k, 0, known] = 0.0, 0.0
    _zero_constant_features(kept, k, known)


def constant_features(row_hashes: NDArray[np.uint64], near: Vector) -> tuple[Flags, Vector]:
    """Return whether each feature is constant (d,), by row hashes (2, 1 + d), and its value (d,).

    With weights that add up to W, written as 2ᵗ times an odd number, the plain hash is W times the
    bits of the value modulo 2⁶⁴. It determines all but t bits of the value; a near value (d,), the
    mean, determines the others. The second hash, W times the folded bits, is the proof.
    """
    W, plain, mixed = int(row_hashes[0, 0]), row_hashes[0, 1:], row_hashes[1, 1:]
    known = 65 - (W & -W).bit_length() if W else 0  # bits
    if known < MIN_TRUSTED_BITS:
        return np.zeros(len(near), dtype=bool), near
    odd = W >> (64 - known)
    inverse, below = np.uint64(pow(odd, -1, 2**64)), np.uint64(2**known - 1)
    low = ((plain >> np.uint64(64 - known)) * inverse) & below
    bits = low
    if known < 64:
        step = np.uint64(known)
        around = near.view(np.uint64) - low + np.uint64(1 << (known - 1))
        bits = low + ((around >> step) << step)
    folded = np.empty_like(bits)
    fold(bits, folded)
    constant = (bits * np.uint64(W) == plain) & (folded * np.uint64(W) == mixed)
    zero = (plain == 0) & (mixed == 0)
    value = np.where(zero, 0.0, bits.view(np.float64))
    return constant | zero, value


def relative_error(moments: Moments) -> Vector:
    """Return the estimated relative error (d,) that removals left in second moments.

    Rounding errors are about eps times the largest scatter so far, plus those of the means. They
    are relative to what is left of the scatter, with equal weights of all rows or all classes.
    """
    seen = np.flatnonzero(moments.n > 0)
    if not seen.size:
        return np.zeros(len(moments.anchor))
    n, mean, max_scatter = moments.n[seen, None], moments.mean[seen], moments.max_scatter[seen]
    if moments.removed[:, 0].any():
        off, begun = moments.removed[seen, 0], moments.removed[seen, 1]
        apart = np.array([np.abs(mean - one).max(axis=0) for one in mean])  # class means
        squares = np.maximum(np.einsum("kjj->kj", moments.C)[seen], 0.0) + n * apart**2
        gone = np.abs((moments.anchor - begun) + mean)
        max_scatter = max_scatter + off * (2.0 * gone + np.sqrt(squares / n))
    C_jj = np.einsum("kjj->kj", moments.C)[seen]
    worst = np.zeros(len(moments.anchor))
    for alpha in (np.ones_like(n), 1.0 / n):
        m = (alpha * n * mean).sum(axis=0) / (alpha * n).sum()
        left = (alpha * (C_jj + n * (mean - m) ** 2)).sum(axis=0)
        noise = EPS * (alpha * max_scatter).sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.where(noise > 0, noise / np.maximum(left, 0.0), 0.0)
        worst = np.maximum(worst, np.where(left < 0, np.inf, error))
    return worst


def precision_error(what: str) -> str:
    """Return the message that a removal is refused."""
    return (
        f"unlearning this would leave {what} with less than three correct digits: it varied or "
        "weighed so much more than what remains, or was never learned; fit a new model on the rows "
        "that remain. Nothing was unlearned"
    )
