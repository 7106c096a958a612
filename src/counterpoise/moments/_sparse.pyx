# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""Products of CSR rows, added to the scatters of several classes in one pass.

No other thread interrupts a call, and no signal once a scatter has changed.
"""

import numpy as np

from libc.stdlib cimport free, malloc

from counterpoise.moments._sums cimport mirror

# Fewer chunks, or more products for each entry of a scatter, are added faster row by row
# (benchmarks/speed/bulk.py).
cdef Py_ssize_t MIN_CHUNKS_IN_TILES = 6
cdef double MAX_PRODUCTS_IN_TILES = 0.25


cdef extern from "sparse.h" nogil:
    enum: ENTRIES_PER_BAND
    ctypedef struct chunk_products:
        const double* data
        const Py_ssize_t* at
        const Py_ssize_t* start
        const double* column
        const Py_ssize_t* row
        const Py_ssize_t* first
        const double* u
        const double* delta
    void add_chunks_by_row(
        const chunk_products* chunks, Py_ssize_t count, Py_ssize_t d, double* C, Py_ssize_t stride,
        double* products
    )
    void add_chunks_by_tile(
        const chunk_products* chunks, Py_ssize_t count, Py_ssize_t d, double* C, Py_ssize_t stride,
        Py_ssize_t* slots, double* outer, double* products, Py_ssize_t* at, double* value
    )


cdef double set_products(chunk_products* p, part, const double[::1] delta) except -1.0:
    """Set pointers to the arrays of products, which must outlive them; return their number."""
    cdef const double[::1] data = part.data, column = part.column, u = part.u
    cdef const Py_ssize_t[::1] at = part.at, start = part.start, row = part.row, first = part.first
    cdef double number = 0.0, entries
    cdef Py_ssize_t i
    p.data, p.column, p.u, p.delta = &data[0], &column[0], &u[0], &delta[0]
    p.at, p.start, p.row, p.first = &at[0], &start[0], &row[0], &first[0]
    for i in range(start.shape[0] - 1):
        entries = start[i + 1] - start[i]
        number += entries * entries
    return number


def add_products(list pending, double[:, :, :] C):
    """Add products to the scatters C (c, d, d), except for their diagonals; empty the list.

    An item of ``pending`` is the slot of a class, its ``Products``, and the distance delta (d,) of
    its mean from the earlier one, scaled. The products of a class are added in the order of the
    list, so that it has no effect on any bit in how many calls that is done.
    """
    cdef Py_ssize_t c = C.shape[0], d = C.shape[1], k, t, count, total = len(pending), most
    cdef Py_ssize_t stride = C.strides[1] // sizeof(double)
    cdef double number
    cdef list counts = [0] * c
    for slot, part, delta in pending:
        counts[slot] += 1
    most = max(counts, default=0)
    if most == 0:  # another thread was faster
        return
    cdef bint has_tiles = most >= MIN_CHUNKS_IN_TILES
    cdef double[::1] work = np.empty(3 * d * most if has_tiles else d)
    cdef Py_ssize_t[:, ::1] index = np.empty((2, d + ENTRIES_PER_BAND if has_tiles else 0), np.intp)
    cdef double[::1] value = np.empty(d + ENTRIES_PER_BAND if has_tiles else 0)
    cdef chunk_products* chunks = <chunk_products*> malloc(total * sizeof(chunk_products))
    if chunks == NULL:
        raise MemoryError
    try:
        for k in range(c):
            count, number = 0, 0.0
            for slot, part, delta in pending:
                if slot == k:
                    number += set_products(&chunks[count], part, delta)
                    count += 1
            if number > MAX_PRODUCTS_IN_TILES * count * d * d:  # rows of one chunk stay in cache
                for t in range(count):
                    add_chunks_by_row(&chunks[t], 1, d, &C[k, 0, 0], stride, &work[0])
            elif count < MIN_CHUNKS_IN_TILES:
                add_chunks_by_row(chunks, count, d, &C[k, 0, 0], stride, &work[0])
            else:
                add_chunks_by_tile(
                    chunks, count, d, &C[k, 0, 0], stride, &index[0, 0], &work[0],
                    &work[2 * d * count], &index[1, 0], &value[0],
                )
                mirror(&C[k, 0, 0], stride, d)
        pending.clear()
    finally:
        free(chunks)
