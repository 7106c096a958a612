# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Cholesky factors by LAPACK: factorize, solve, invert. Importing it does not load SciPy's modules.

A factor is lower, (d, d) and Fortran-ordered, as LAPACK has it.
"""

import numpy as np

from scipy.linalg.cython_lapack cimport dpocon, dpotrf, dpotri, dpotrs, dtrtri


def factorize(K, overwrite=False):
    """Return the lower factor of a symmetric matrix; None if it is not positive definite.

    With ``overwrite`` the factor takes the memory of a Fortran-ordered matrix.
    """
    factor = np.asfortranarray(K) if overwrite else np.array(K, order="F")
    cdef double[::1, :] A = factor
    cdef int d = A.shape[0], failed = 0
    cdef Py_ssize_t i, j
    if d:
        with nogil:
            dpotrf("L", &d, &A[0, 0], &d, &failed)
            for j in range(1, d):
                for i in range(j):
                    A[i, j] = 0.0
    return None if failed else factor


def reciprocal_condition(const double[::1, :] factor, double norm):
    """Return the reciprocal condition number of a factorized matrix, given its 1-norm."""
    cdef int d = factor.shape[0], failed = 0
    cdef double found = 1.0
    cdef double[::1] work = np.empty(3 * d)
    cdef int[::1] more = np.empty(d, dtype=np.intc)
    if d:
        with nogil:
            dpocon("L", &d, <double*> &factor[0, 0], &d, &norm, &found, &work[0], &more[0], &failed)
    return found


def solve_factorized(const double[::1, :] factor, rows):
    """Return K⁻¹ times each of the rows (q, d), given the factor of K; a new array."""
    result = np.array(rows, dtype=np.float64, order="C")
    cdef double[:, ::1] B = result
    cdef int d = factor.shape[0], q = B.shape[0], failed = 0
    if d and q:
        with nogil:
            dpotrs("L", &d, &q, <double*> &factor[0, 0], &d, &B[0, 0], &d, &failed)
    return result


def invert_factorized(factor):
    """Return the lower triangle of K⁻¹, 0 above it, given the factor of K."""
    inverse = np.array(factor, order="F")
    cdef double[::1, :] A = inverse
    cdef int d = A.shape[0], failed = 0
    if d:
        with nogil:
            dpotri("L", &d, &A[0, 0], &d, &failed)
    return inverse


def invert_triangle(factor):
    """Return the inverse of a factor, which is lower as well."""
    inverse = np.array(factor, order="F")
    cdef double[::1, :] A = inverse
    cdef int d = A.shape[0], failed = 0
    if d:
        with nogil:
            dtrtri("L", "N", &d, &A[0, 0], &d, &failed)
    return inverse
