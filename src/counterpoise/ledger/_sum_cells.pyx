# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""Cells added up where they lie: their bytes are read once, and not copied."""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport uint64_t

cdef extern from "symmetric.h" nogil:
    """
    /* sum += a x + b y + c z + e u */
    ANY_ORDER ONE_PER_CPU static void add_four(
        ptrdiff_t m, double a, const double *restrict x, double b, const double *restrict y,
        double c, const double *restrict z, double e, const double *restrict u,
        double *restrict sum)
    {
        for (ptrdiff_t j = 0; j < m; j++)
            sum[j] += (a * x[j] + b * y[j]) + (c * z[j] + e * u[j]);
    }
    """
    void add_four(
        Py_ssize_t m, double a, const double* x, double b, const double* y, double c,
        const double* z, double e, const double* u, double* sum
    )


def add_cells(
    tuple data,
    const double[::1] w,
    const double[::1] anchor,
    double[:, ::1] mean,
    double[::1] sums,
    uint64_t[::1] row_hashes,
):
    """Add cells of one class, packed with d features of which no row was removed.

    ``mean`` becomes the mean of each about the anchor. Triangle and ``nonconstant_weight``,
    which follow each other, are added to ``sums`` with the weights w, and row hashes to
    ``row_hashes`` unless that is None.
    """
    cdef Py_ssize_t d = anchor.shape[0], m = sums.shape[0], i = 0, j, k
    cdef const double* p[4]
    cdef double share[4]
    cdef const uint64_t* bits
    while i < len(data):
        for k in range(4):  # the last one with nothing of itself, if there are fewer
            j = min(i + k, <Py_ssize_t> len(data) - 1)
            p[k] = <const double*> PyBytes_AS_STRING(data[j])
            share[k] = w[j] if i + k == j else 0.0
        for k in range(min(4, <Py_ssize_t> len(data) - i)):
            for j in range(d):
                mean[i + k, j] = (p[k][j] - anchor[j]) + p[k][d + j]
            if row_hashes is not None and share[k] > 0.0:
                bits = <const uint64_t*> (p[k] + 2 * d + m)
                for j in range(row_hashes.shape[0]):
                    row_hashes[j] += bits[j]
        add_four(
            m, share[0], p[0] + 2 * d, share[1], p[1] + 2 * d, share[2], p[2] + 2 * d, share[3],
            p[3] + 2 * d, &sums[0],
        )
        i += 4
