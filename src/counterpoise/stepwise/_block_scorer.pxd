from counterpoise.stepwise._step_solver cimport StepSolver


cdef class BlockScorer(StepSolver):
    cdef readonly list counts
    cdef Py_ssize_t room
    cdef bint begun, held, late
    cdef int m_
    cdef double least, extra, b_c, b_n, most
    cdef double a_[2]
    cdef double past[2]
    cdef double faded[256]
    cdef int open_[256]
    cdef const double* X
    cdef const double* scored
    cdef const Py_ssize_t* codes
    cdef double[:, ::1] own         # anchor, centre, 1 / s, q, nu_0, nu_1, and workspace
    cdef double[:, ::1] simulated   # means (2), diagonals (2), m, v
    cdef double[:, ::1] P, A, N_, B, V, G, E, dq, rho, y, next, w, Nw, T, g, z, t
    cdef double[:, ::1] lanes, inverse, root, side, steps, weight, K, deltas, sums, first
    cdef double[::1] ones
    cdef Py_ssize_t[::1] rows

    cdef bint outdated(self) noexcept nogil
    cdef void weigh_steps(self) noexcept nogil
    cdef void simulate(self, int until, bint ridges) noexcept nogil
    cdef void place(self) noexcept nogil
    cdef int invert(self) noexcept nogil
    cdef int solve_all(self, double tolerance) noexcept nogil
    cdef double residual(self, int i, const double* u, double length, double* out) noexcept nogil
    cdef void sum_up(self, int count) noexcept nogil
    cdef void scale_rows(self, const double* X, int first) noexcept nogil
    cdef int close(self, int count, double tolerance) noexcept nogil
    cdef void absorb(self, int first, int count) noexcept nogil
    cdef void apply(self, int count) noexcept nogil
    cdef double inverse_residual(self) noexcept nogil
    cdef int keep_inverse(self) noexcept nogil
    cdef void learn_block(self) noexcept nogil
