# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""Columns of numbers as rows, and cells of text as codes."""

import numpy as np

from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc

cdef extern from "stack.h" nogil:
    int stack_rows(
        const double* const* columns, Py_ssize_t n, Py_ssize_t d, double limit, double* X,
        double* low, double* high
    )
    Py_ssize_t code_texts(
        const int32_t* ends, const unsigned char* text, Py_ssize_t n, Py_ssize_t most,
        Py_ssize_t* first, Py_ssize_t* codes
    )

cdef enum: MAX_TEXTS = 8


def stack_columns(list columns, double limit):
    """Return columns (n,) as rows (n, d), and the least and greatest value of each column.

    None if a value is NaN or beyond the limit, or if there is no value.
    """
    cdef Py_ssize_t j, d = len(columns), n = len(columns[0]) if d else 0
    cdef const double[::1] x
    cdef double[:, ::1] rows
    cdef double[::1] low, high
    cdef const double** at
    cdef bint is_valid
    if not n:
        return None
    X, least, greatest = np.empty((n, d)), np.empty(d), np.empty(d)
    rows, low, high = X, least, greatest
    at = <const double**> malloc(d * sizeof(double*))
    if at == NULL:
        raise MemoryError
    try:
        for j in range(d):
            x = columns[j]
            if x.shape[0] != n:
                raise ValueError("columns have different lengths")
            at[j] = &x[0]
        with nogil:
            is_valid = stack_rows(at, n, d, limit, &rows[0, 0], &low[0], &high[0])
    finally:
        free(at)
    return (X, least, greatest) if is_valid else None


def text_codes(const int32_t[::1] ends, const unsigned char[::1] text):
    """Return the code of each text, in the order of their appearance, and the first row of each.

    Text i of n begins at ends[i] and stops before ends[i + 1]. None if there are many different
    ones.
    """
    cdef Py_ssize_t n = ends.shape[0] - 1, found
    cdef Py_ssize_t first[MAX_TEXTS]
    cdef Py_ssize_t[::1] codes
    cdef const unsigned char* start = &text[0] if text.shape[0] else NULL
    if n <= 0 or start == NULL:
        return None
    result = np.empty(n, dtype=np.intp)
    codes = result
    with nogil:
        found = code_texts(&ends[0], start, n, MAX_TEXTS, first, &codes[0])
    return None if found < 0 else (result, [first[k] for k in range(found)])
