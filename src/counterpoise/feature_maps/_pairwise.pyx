# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""Products and distances of rows and terms: what they are of one row does not depend on the others.

BLAS adds up in an order that depends on how many rows there are. Rows that are learned together and
unlearned one by one would then not be the same rows, by a bit.
"""

import numpy as np

cdef extern from "pairwise.h" nogil:
    int PANEL
    void in_panels(const double* W, Py_ssize_t terms, Py_ssize_t l, double* panels)
    void products_of_rows(
        const double* X, Py_ssize_t n, Py_ssize_t l, const double* panels, double* out,
        Py_ssize_t terms
    )
    void nearness_of_rows(
        const double* X, Py_ssize_t n, Py_ssize_t l, const double* panels, const double* sharp,
        double* out, Py_ssize_t terms, Py_ssize_t stride
    )


cdef object _panels(const double[:, ::1] W):
    """W (terms, l) as panels: the values of eight terms for one feature, then for the next."""
    cdef Py_ssize_t terms = W.shape[0], l = W.shape[1]
    cdef double[::1] panels = np.empty((terms + PANEL - 1) // PANEL * PANEL * l + 1)
    if terms and l:
        in_panels(&W[0, 0], terms, l, &panels[0])
    return panels.base


def products(const double[:, ::1] X, const double[:, ::1] W):
    """X Wᵀ of shape (n, terms), for rows X (n, l) and weights W (terms, l)."""
    cdef Py_ssize_t n = X.shape[0], l = X.shape[1], terms = W.shape[0]
    result = np.empty((n, terms))
    cdef double[:, ::1] out = result
    cdef const double[::1] panels = _panels(W)
    if n and l and terms:
        with nogil:
            products_of_rows(&X[0, 0], n, l, &panels[0], &out[0, 0], terms)
    return result


def nearness(const double[:, ::1] X, const double[:, ::1] W, sharp, double[:, :] out):
    """Compute exp(−sharp_t |x_i − w_t|²) of shape (n, terms), for rows X (n, l) and W (terms, l), into out.

    ``out`` may be columns of a larger matrix that follow each other.
    """
    cdef Py_ssize_t n = X.shape[0], l = X.shape[1], terms = W.shape[0]
    cdef Py_ssize_t stride = out.strides[0] // sizeof(double)
    cdef const double[::1] panels = _panels(W)
    cdef double[::1] rate = np.zeros(terms + PANEL)
    rate.base[:terms] = np.negative(sharp)
    if out.shape[0] != n or out.shape[1] != terms or out.strides[1] != sizeof(double):
        raise ValueError("out does not have the shape or layout of these terms")
    if n and l and terms:
        with nogil:
            nearness_of_rows(&X[0, 0], n, l, &panels[0], &rate[0], &out[0, 0], terms, stride)
