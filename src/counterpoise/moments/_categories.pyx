# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""Loops of columns with many categories: weights and sums by category, and runs of pairs.

State comes first and is changed in place. No signal interrupts a call.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy


def sum_rows(
    double[::1] n,
    double[:, ::1] sums,
    const double[:, ::1] X,
    const Py_ssize_t[::1] rows,
    const Py_ssize_t[::1] index,
    const double[::1] weight,
    const double[::1] origin,
):
    """Add the weights, and the features relative to an origin, of rows to those of categories.

    ``index`` has the category of each row of X, −1 for none.
    """
    cdef Py_ssize_t d = origin.shape[0], i, j, r, at
    cdef double w
    cdef double* total
    cdef const double* x
    with nogil:
        for i in range(rows.shape[0]):
            r = rows[i]
            at = index[r]
            if at < 0:
                continue
            w = weight[r]
            n[at] += w
            if d:
                total = &sums[at, 0]
                x = &X[r, 0]
                for j in range(d):
                    total[j] += w * (x[j] - origin[j])


def add_columns(list steps):
    """Run :func:`add_column` with each of these arguments, in one step."""
    for step in steps:
        add_column(*step)


def add_column(
    double[:, ::1] n,
    double[:, :, ::1] sums,
    const double[:, :] more,
    const double[:, :, :] more_sums,
    const Py_ssize_t[::1] slot,
    const Py_ssize_t[::1] at,
    const double[::1] shift,
    const double[::1] factor,
):
    """Scale each class by a factor, then add class j of a sample to class ``slot[j]``.

    Category i of the sample is category ``at[i]``. Its sums are relative to another origin, which
    differs by ``shift``.
    """
    cdef Py_ssize_t d = shift.shape[0], i, j, k, f
    cdef double w
    with nogil:
        for k in range(n.shape[0]):
            if factor[k] != 1.0:
                for i in range(n.shape[1]):
                    if n[k, i] != 0.0:
                        n[k, i] *= factor[k]
                        for f in range(d):
                            sums[k, i, f] *= factor[k]
        for j in range(slot.shape[0]):
            k = slot[j]
            for i in range(at.shape[0]):
                w = more[j, i]
                if w != 0.0:
                    n[k, at[i]] += w
                    for f in range(d):
                        sums[k, at[i], f] += more_sums[j, i, f] + w * shift[f]


def merge_pairs(
    int64_t[::1] keys,
    double[::1] weights,
    const int64_t[::1] first,
    const double[::1] first_weights,
    const int64_t[::1] second,
    const double[::1] second_weights,
):
    """Write two sorted runs as one, with the sums of weights of equal keys; return its length."""
    cdef Py_ssize_t n = first.shape[0], m = second.shape[0], i = 0, j = 0, k = 0
    cdef int64_t x, y
    with nogil:
        while i < n and j < m:
            x, y = first[i], second[j]
            # Without branches: which run is next cannot be predicted.
            keys[k] = x if x < y else y
            weights[k] = (first_weights[i] if x <= y else 0.0) + (
                second_weights[j] if y <= x else 0.0
            )
            i += x <= y
            j += y <= x
            k += 1
        if i < n:
            memcpy(&keys[k], &first[i], (n - i) * sizeof(int64_t))
            memcpy(&weights[k], &first_weights[i], (n - i) * sizeof(double))
        elif j < m:
            memcpy(&keys[k], &second[j], (m - j) * sizeof(int64_t))
            memcpy(&weights[k], &second_weights[j], (m - j) * sizeof(double))
    return k + n - i + m - j


def find_wrong_pair(
    const int64_t[::1] keys,
    const double[::1] weights,
    const double[:, :] n,
    const double[:, :] m,
    int bits,
    double tolerance,
):
    """Return what is wrong with the pairs of an untrusted run, or no text.

    They must be sorted, of categories in n (c, K) and m (c, L), and not heavier than these.
    """
    cdef Py_ssize_t at, c = n.shape[0], K = n.shape[1], L = m.shape[1], k, i, j
    cdef int64_t key, last = -1, mask = (<int64_t>1 << bits) - 1
    cdef double weight
    for at in range(keys.shape[0]):
        key, weight = keys[at], weights[at]
        k, i, j = key >> 2 * bits, key >> bits & mask, key & mask
        if key < 0 or k >= c or i >= K or j >= L:
            return "pairs of categories that do not exist"
        if key <= last:
            return "pairs of categories in another order"
        if not 0.0 < weight <= min(n[k, i], m[k, j]) * tolerance:
            return "impossible weights of pairs"
        last = key
    return ""
