from libc.stdint cimport uint64_t

from counterpoise.moments._moments cimport MomentsView


cdef class SolverSpec:
    cdef public double b, rows, pooled_rows
    cdef public bint decays             # whether rows of a class decay those before them
    cdef public double[::1] gamma, rate # of each slot: what a row leaves of its past, and log of it
    cdef public double[::1] factor      # of each slot: its cost or class weight
    cdef public Py_ssize_t[::1] order   # slots in the order of their labels
    cdef public bint balanced, standard, penalized, constant, together


cdef class StepSolver:
    cdef public SolverSpec spec
    cdef MomentsView s
    cdef Py_ssize_t c, problems, width
    cdef double[::1] anchor, n, weight_remainder, min_row_weight, N, stream, delta, other
    cdef double[:, ::1] mean, max_scatter, a
    cdef double[:, :, :] C
    cdef double[:, :, ::1] nonconstant_weight, removed
    cdef uint64_t[:, :, ::1] row_hashes
    cdef double[::1] m, v, centre, tiny
    cdef double[:, ::1] U, pooled
    cdef double b

    cpdef bind(self, moments)
    cdef void learn(self, const double* x, Py_ssize_t k) noexcept nogil
    cdef void learn_weighted(self, const double* x, Py_ssize_t k, double omega) noexcept nogil
    cdef void weigh(self) noexcept nogil
    cdef void scale(self) noexcept nogil
    cdef int score(self, const double* x, double* f) noexcept nogil
    cdef int weights(self, Py_ssize_t q, double* coef, double* offset) noexcept nogil
    cdef int reduce(
        self, Py_ssize_t q, const double* x, double* t, double* share, double* step
    ) noexcept nogil
    cdef int eliminate_categories(self, double* a, double* t) noexcept nogil
    cdef double total(self) noexcept nogil
    cdef double prior(self, Py_ssize_t k) noexcept nogil
    cdef void pool(self, double* U, Py_ssize_t stride) noexcept nogil
    cdef int pivots(self) noexcept nogil
    cdef int gather(self, const double* x) noexcept nogil
    cdef double constant(self, Py_ssize_t q, double total) noexcept nogil
    cdef int discriminate(self, const double* x, double* f) noexcept nogil
    cdef int all_weights(self, double[:, ::1] coef, double[::1] offset) noexcept nogil
    cdef int densities(self, const double* x, double* f) noexcept nogil
