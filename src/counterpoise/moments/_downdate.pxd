from libc.stdint cimport uint64_t

from counterpoise.moments._moments cimport MomentsView


cdef class RowDowndate:
    cdef Py_ssize_t k                # class of the row
    cdef double n, weight_remainder, N, w  # what they were, and the weight of the row
    cdef const double* x
    cdef double[::1] mean, max_scatter, diagonal, r
    cdef double[::1] removed, nonconstant_weight

    cdef bint begin(self, MomentsView* s, Py_ssize_t k, const double* x, double w) noexcept nogil
    cdef void hash_again(self, MomentsView* s, uint64_t t) noexcept nogil
    cdef bint remove(self, MomentsView* s) noexcept nogil
    cdef bint keeps_features(self, MomentsView* s) noexcept nogil
    cdef bint is_definite(
        self, MomentsView* s, double* U, Py_ssize_t width, double* tiny
    ) noexcept nogil
    cdef void restore(self, MomentsView* s) noexcept nogil
    cdef void complete(self, MomentsView* s) noexcept nogil


cdef void relative_error(const MomentsView* s, double* error) noexcept nogil
