from counterpoise.stepwise._step_solver cimport StepSolver


cdef class EventLink:
    cdef StepSolver scorer
    cdef Py_ssize_t c, d, nodes
    cdef double[::1] at, mass                   # of the Student t
    cdef double[:, ::1] V, W, K, A, shared, D2, v, G, M
    cdef double[::1] p, q, h, n, pi, evidence, tiny, centre, y
    cdef double[::1] prior, g, wg, wgg, r
    cdef double[:, ::1] delta
    cdef double[::1] shift, frequency           # in the order of the scores
    cdef double[3] sums                         # of the mass, times 1, at and at squared
    cdef double[2] slopes
    cdef bint[2] has_slope
    cdef double silent, middle, offset
    cdef double[::1] effect                     # mean effect of the categories of each class
    cdef double penalty                         # of these effects, in the square of the scores

    cdef int update(self, double[:, ::1] coef, double[::1] offset) noexcept
    cdef void probabilities(self, const double* f, bint stream, double* p) noexcept
    cdef int leverages(self) noexcept
    cdef void products(self) noexcept
    cdef double variance(self, Py_ssize_t k) noexcept
    cdef void compute_slope(self, bint stream) noexcept
    cdef double slope(self) noexcept
    cdef double count(self, Py_ssize_t i, Py_ssize_t j) noexcept
