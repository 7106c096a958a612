# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""Sums of the rows of a class, or of small groups: centered, weighted, hashed and multiplied.

Arrays are float64, finite and C-ordered here: callers have checked. No signal interrupts a call.
"""

import numpy as np

from libc.stdint cimport uint64_t
from libc.string cimport memset
from scipy.linalg.cython_blas cimport dsyrk

cdef Py_ssize_t VALUES_IN_NEAREST_CACHE = 2048


cdef extern from "symmetric.h" nogil:
    Py_ssize_t MAX_FEATURES_WITHOUT_PANELS, MAX_FEATURES_FOR_LOOPS
    void add_products(
        const double* R, Py_ssize_t m, Py_ssize_t d, Py_ssize_t stride, Py_ssize_t step, double* S,
        Py_ssize_t width
    )


cdef extern from "kernels.h" nogil:
    double gather_rows(
        double n, const double* X, Py_ssize_t d, const Py_ssize_t* rows, Py_ssize_t m,
        const double* weight, const double* centre, Py_ssize_t span, Py_ssize_t step,
        Py_ssize_t stride, double* R, double* total, double* not_zero, double* not_one,
    )
    double sum_rows(
        const double* X, Py_ssize_t d, const Py_ssize_t* rows, Py_ssize_t m, Py_ssize_t sample,
        const double* weight, const double* anchor, double* sum,
    )
    void hash_rows(
        const double* X, Py_ssize_t d, const Py_ssize_t* rows, Py_ssize_t m,
        const double* weight, uint64_t* plain, uint64_t* mixed,
    )


def gather(
    const double[:, ::1] X,
    const Py_ssize_t[::1] rows,
    const double[::1] weight,
    const double[::1] anchor,
    Py_ssize_t sample,
    double[::1] work,
    double[::1] centre,
    double[::1] mean,
    double[:, :] C,
    double[:, ::1] nonconstant_weight,
    uint64_t[:, ::1] row_hashes,
):
    """Add up the weighted products of the rows of one class, about a centre near their mean.

    The centre is the mean of every ``sample``-th row. ``mean`` becomes the mean about the anchor,
    the lower triangle of ``C`` the sum of the products. ``nonconstant_weight`` grows by the weight
    of the rows in which a feature is not 0, or not 1, and ``row_hashes``, unless it is None, by the
    hashes of the rows. Rows are centered in ``work``, a tile at a time, so that they stay in the
    cache. Return the weight of all rows; ``centre`` becomes their mean about the old centre.
    """
    cdef double n
    cdef bint marked = row_hashes is not None
    with nogil:
        n = gather_class(
            &X[0, 0], X.shape[1], &rows[0], rows.shape[0], &weight[0], &anchor[0], sample, &work[0],
            &centre[0], &mean[0], &C[0, 0], C.strides[0] // <Py_ssize_t> sizeof(double),
            &nonconstant_weight[0, 0], &nonconstant_weight[1, 0],
            &row_hashes[0, 0] if marked else NULL, &row_hashes[1, 0] if marked else NULL,
        )
    return n


cdef double gather_class(
    const double* X, Py_ssize_t d, const Py_ssize_t* rows, Py_ssize_t m, const double* weight,
    const double* anchor, Py_ssize_t sample, double* work, double* centre, double* mean, double* C,
    Py_ssize_t stride, double* not_zero, double* not_one, uint64_t* plain, uint64_t* mixed,
) noexcept nogil:
    """Add up the rows of one class, as :func:`gather` does; without hashes if these are NULL."""
    cdef Py_ssize_t i = 0, j, some, filled = 0
    cdef Py_ssize_t width = (d + 7) // 8 * 8
    cdef double n, about, one = 1.0, beta = 0.0
    cdef bint marked = plain != NULL
    cdef bint narrow = d <= MAX_FEATURES_WITHOUT_PANELS, ours = d <= MAX_FEATURES_FOR_LOOPS
    cdef double* S = work
    cdef double* R = S + (width * width if ours else 0)
    cdef Py_ssize_t room = tile_of(d, m)
    # Many features stand in panels of eight.
    cdef Py_ssize_t span = d if narrow or not ours else 8
    cdef Py_ssize_t next_row = span, next_panel = 8 if narrow else 8 * room
    cdef Py_ssize_t step = max(4, VALUES_IN_NEAREST_CACHE // d // 4 * 4) if marked else room
    cdef int size = <int> d, tile, used, columns = <int> stride
    for j in range(d):
        centre[j] = 0.0
        mean[j] = 0.0
    n = sum_rows(X, d, rows, m, sample, weight, anchor, centre)
    for j in range(d):
        centre[j] = anchor[j] + centre[j] / n
    n = 0.0
    if ours:
        memset(S, 0, width * width * sizeof(double))
        # Values beyond the last feature have no effect, but must not be NaN.
        j = room * d if narrow else (width - 8) * room
        memset(R + j, 0, (8 if narrow else 8 * room) * sizeof(double))
    while i < m:
        some = min(step, m - i, room - filled)
        n = gather_rows(
            n, X, d, rows + i, some, weight, centre, span, next_panel, next_row,
            R + filled * next_row, mean, not_zero, not_one,
        )
        if marked:
            hash_rows(X, d, rows + i, some, weight, plain, mixed)
        i += some
        filled += some
        if filled == room or i == m:
            tile = <int> filled
            if ours:
                add_products(R, filled, d, next_row, next_panel, S, width)
            else:
                some = count_used(R, filled, d)
                if beta == 0.0:  # landmarks without a row are the last terms
                    for j in range(some, d):
                        memset(C + j * stride, 0, (j + 1) * sizeof(double))
                used = <int> some
                if used:
                    dsyrk(b"U", b"N", &used, &tile, &one, R, &size, &beta, C, &columns)
            beta, filled = 1.0, 0
    if ours:
        for i in range(d):
            for j in range(i + 1):
                C[i * stride + j] = S[j * width + i]
    for j in range(d):
        about = mean[j] / n
        mean[j] = (centre[j] - anchor[j]) + about
        centre[j] = about
    return n


cdef Py_ssize_t count_used(const double* R, Py_ssize_t m, Py_ssize_t d) noexcept nogil:
    """Return the number of columns up to the last one that is not 0 in all of m rows."""
    cdef Py_ssize_t used = 0, i, j
    for i in range(m):
        j = d
        while j > used and R[i * d + j - 1] == 0.0:
            j -= 1
        used = j
    return used


def gather_groups(
    const double[:, ::1] X, const Py_ssize_t[::1] ends, double[:, :] anchor, double[:, :] mean,
    double[:, :] triangle, double[:, :, :] nonconstant_weight, uint64_t[:, :, :] row_hashes,
):
    """Write the sums of consecutive rows, of weight 1, for each of some small groups.

    Group g is the rows from ends[g] to before ends[g + 1], and its anchor becomes the first one.
    ``triangle`` becomes the lower triangles of the scatters, and all other arrays were zero.
    """
    cdef Py_ssize_t d = X.shape[1], g, i, j, k, first, m, most = 1
    for g in range(ends.shape[0] - 1):
        most = max(most, ends[g + 1] - ends[g])
    cdef const Py_ssize_t[::1] rows = np.arange(X.shape[0])
    cdef const double[::1] weight = np.ones(X.shape[0])
    cdef double[::1] work = np.empty(workspace_size(d, most)), centre = np.empty(d)
    cdef double[:, ::1] C = np.empty((d, d))
    cdef double n
    with nogil:
        for g in range(ends.shape[0] - 1):
            first, m = ends[g], ends[g + 1] - ends[g]
            for j in range(d):
                anchor[g, j] = X[first, j]
            n = gather_class(
                &X[0, 0], d, &rows[first], m, &weight[0], &anchor[g, 0], 1, &work[0], &centre[0],
                &mean[g, 0], &C[0, 0], d, &nonconstant_weight[g, 0, 0],
                &nonconstant_weight[g, 1, 0], &row_hashes[g, 0, 0], &row_hashes[g, 1, 0],
            )
            if m > 1 and not move_centre(n, &centre[0], d, &C[0, 0], d, False):
                for j in range(d):
                    nonconstant_weight[g, 0, j] = nonconstant_weight[g, 1, j] = 0.0
                n = gather_class(
                    &X[0, 0], d, &rows[first], m, &weight[0], &anchor[g, 0], 1, &work[0],
                    &centre[0], &mean[g, 0], &C[0, 0], d, &nonconstant_weight[g, 0, 0],
                    &nonconstant_weight[g, 1, 0], NULL, NULL,
                )
                move_centre(n, &centre[0], d, &C[0, 0], d, True)
            k = 0
            for i in range(d):
                for j in range(i + 1):
                    triangle[g, k] = C[i, j] if m > 1 else 0.0
                    k += 1


def sum_about(
    const double[:, ::1] X, const Py_ssize_t[::1] rows, const double[::1] weight,
    const double[::1] place,
):
    """Return the weighted sum (d,) of rows of X (n, d) about a place."""
    result = np.zeros(X.shape[1])
    cdef double[::1] total = result
    with nogil:
        sum_rows(
            &X[0, 0], X.shape[1], &rows[0], rows.shape[0], 1, &weight[0], &place[0], &total[0]
        )
    return result


cdef Py_ssize_t tile_of(Py_ssize_t d, Py_ssize_t m) noexcept nogil:
    """Rows that are centered before their products are added up."""
    cdef Py_ssize_t values = 2048  # few features, more, and many: measured by benchmarks/speed/bulk.py
    if d > MAX_FEATURES_WITHOUT_PANELS:
        values = 20480 if d <= 256 else 65536
    return min(m, max(values // d, 4))


def workspace_size(Py_ssize_t d, Py_ssize_t m):
    """Return the size of the workspace to gather m rows of d features."""
    cdef Py_ssize_t width = (d + 7) // 8 * 8, tile = tile_of(d, m)
    if d > MAX_FEATURES_FOR_LOOPS:
        return tile * d
    return width * width + (tile * d + 8 if d <= MAX_FEATURES_WITHOUT_PANELS else tile * width)


def recentre(double n, const double[::1] about, double[:, :] C, bint anyway):
    """Move the centre of a scatter by ``about``, if that costs at most a bit, or anyway.

    Of C the lower triangle is given. Return whether it was done: then all of C is complete.
    """
    cdef Py_ssize_t d = about.shape[0], stride = C.strides[0] // sizeof(double)
    if not move_centre(n, &about[0], d, &C[0, 0], stride, anyway):
        return False
    mirror(&C[0, 0], stride, d)
    return True


cdef bint move_centre(
    double n, const double* about, Py_ssize_t d, double* C, Py_ssize_t stride, bint anyway
) noexcept nogil:
    """Move the centre of the lower triangle of a scatter, as :func:`recentre` does."""
    cdef Py_ssize_t i, j
    cdef double factor
    cdef double* row
    if not anyway:
        for i in range(d):
            if 2.0 * n * about[i] * about[i] > C[i * stride + i]:
                return False
    for i in range(d):
        row = C + i * stride
        factor = n * about[i]
        for j in range(i + 1):
            row[j] -= factor * about[j]
    return True


cdef void mirror(double* C, Py_ssize_t stride, Py_ssize_t d) noexcept nogil:
    """Copy the lower triangle to the upper one, in squares that stay in the cache."""
    cdef Py_ssize_t i, j, at, to
    for at in range(0, d, 16):
        for to in range(0, at + 1, 16):
            for i in range(at, min(at + 16, d)):
                for j in range(to, min(to + 16, i)):
                    C[j * stride + i] = C[i * stride + j]
