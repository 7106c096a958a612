# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""Symmetric matrices K = QTQᵀ with a tridiagonal T, and the inverses of T + bI."""

import numpy as np

from scipy.linalg.cython_lapack cimport dormtr, dsytrd

cdef extern from "tridiagonal.h" nogil:
    int LANES
    void in_lanes(const double* X, Py_ssize_t count, Py_ssize_t l, double* lanes)
    void products_in_lanes(
        const double* x, const double* y, const double* L, const double* D, Py_ssize_t l,
        double* out
    )
    void solve_factored(const double* L, const double* D, Py_ssize_t l, double* x)

cdef int BLOCK = 64  # columns of a workspace: LAPACK's blocks have 32 or 64


def tridiagonalize(double[:, ::1] K):
    """Return diagonal and subdiagonal (l,) of T, the latter with a 0 first, and the scales of Q.

    K (l, l) is replaced by reflections of which Q is the product.
    """
    cdef int l = <int> K.shape[0], size = l * BLOCK, info = 0
    diagonal, below, scales = np.empty(l), np.zeros(l + 1), np.zeros(l)
    cdef double[::1] d = diagonal, e = below, tau = scales, work = np.empty(size)
    with nogil:
        dsytrd(b"L", &l, &K[0, 0], &l, &d[0], &e[1], &tau[0], &work[0], &size, &info)
    return diagonal, below[:l], scales


def rotate(double[:, ::1] K, double[::1] scales, double[:, ::1] X, bint back):
    """Replace each row x of X (n, l) by Qᵀx, or by Qx if ``back``."""
    cdef int l = <int> K.shape[0], n = <int> X.shape[0], size = n * BLOCK, info = 0
    cdef char* how = b"N" if back else b"T"
    if not n:
        return
    cdef double[::1] work = np.empty(size)
    with nogil:
        dormtr(
            b"L", b"L", how, &l, &n, &K[0, 0], &l, &scales[0], &X[0, 0], &l, &work[0], &size, &info
        )


def factorize(const double[::1] diagonal, const double[::1] below, const double[::1] b):
    """Return L (r, l), which begins with a 0, and 1/D (r, l) of T + bI = LDLᵀ for r ridges."""
    cdef Py_ssize_t r = b.shape[0], l = diagonal.shape[0], i, j
    lower, inverse = np.zeros((r, l)), np.empty((r, l))
    cdef double[:, ::1] L = lower, D = inverse
    for i in range(r):
        D[i, 0] = 1.0 / (diagonal[0] + b[i])
        for j in range(1, l):
            L[i, j] = below[j] * D[i, j - 1]
            D[i, j] = 1.0 / ((diagonal[j] + b[i]) - L[i, j] * below[j])
    return lower, inverse


def products(
    const double[:, ::1] L, const double[:, ::1] D, const double[:, ::1] X, const double[:, ::1] Y
):
    """Return x·(T + bI)⁻¹y (n, r) of each row of X and Y (n, l), for each of r ridges."""
    cdef Py_ssize_t n = X.shape[0], r = L.shape[0], l = X.shape[1], i, j, k, count
    result = np.empty((n, r))
    cdef double[:, ::1] out = result
    cdef double[::1] x = np.empty(LANES * l), y = x
    cdef double[::1] found = np.empty(LANES)
    if &X[0, 0] != &Y[0, 0]:
        y = np.empty(LANES * l)
    with nogil:
        i = 0
        while i < n:
            count = min(<Py_ssize_t> LANES, n - i)
            in_lanes(&X[i, 0], count, l, &x[0])
            if &x[0] != &y[0]:
                in_lanes(&Y[i, 0], count, l, &y[0])
            for k in range(r):
                products_in_lanes(&x[0], &y[0], &L[k, 0], &D[k, 0], l, &found[0])
                for j in range(count):
                    out[i + j, k] = found[j]
            i += count
    return result


def solve(const double[:, ::1] L, const double[:, ::1] D, double[:, :, ::1] X):
    """Replace x = X[i, k] (l,) by (T + bI)⁻¹x for ridge k, for all i and k."""
    cdef Py_ssize_t i, k, l = L.shape[1]
    with nogil:
        for i in range(X.shape[0]):
            for k in range(X.shape[1]):
                solve_factored(&L[k, 0], &D[k, 0], l, &X[i, k, 0])
