from counterpoise.stepwise._step_solver cimport StepSolver

cdef extern from "symmetric.h" nogil:
    double inner(const double* a, const double* b, Py_ssize_t d)
    void symmetric_times(
        const double* A, Py_ssize_t d, Py_ssize_t stride, const double* x, double* y
    )
    void symmetric_times_two(
        const double* A, Py_ssize_t d, Py_ssize_t stride, const double* x, const double* v,
        double* y, double* z
    )
    void symmetric_add(
        double factor, const double* g, Py_ssize_t d, double* A, Py_ssize_t stride
    )
    void symmetric_of_two(
        const double* C0, const double* C1, Py_ssize_t stride_C, double alpha0, double alpha1,
        double factor, const double* g, double kappa, const double* h, const double* w,
        Py_ssize_t d, double* A, Py_ssize_t stride, double* y
    )
    void symmetric_more(
        const double* C, Py_ssize_t stride_C, double alpha, Py_ssize_t d, double* A,
        Py_ssize_t stride
    )


cdef int invert_scaled(
    double* A, int d, int stride, double* e, double min_pivot
) noexcept nogil


cdef class RefinedSolver:
    cdef StepSolver scorer
    cdef Py_ssize_t d, c, systems, columns, pending, slot, skips
    cdef readonly Py_ssize_t steps, factors
    cdef double[:, ::1] A           # the matrix of the problem that is solved, upper triangle
    cdef double[:, :, ::1] P        # a kept inverse of each problem's, upper triangle
    cdef double[:, ::1] W           # the last solutions
    cdef double[:, ::1] alpha, N    # what the inverse was made for: weights, clocks and ridges
    cdef double[:, ::1] ridge
    cdef double[::1] constant       # 1 - kappa h'Ph of each inverse; 0 where there is none
    cdef Py_ssize_t[::1] spent, solves
    cdef double[::1] row, centre, h, z, r, p, u, Au, e
    cdef double a, t, kappa

    cdef void learned(self, Py_ssize_t k, bint first) noexcept
    cdef void discard(self) noexcept
    cdef int weights(self, Py_ssize_t q, double* coef, double* offset) noexcept
    cdef int all_weights(self, double[:, ::1] coef, double[::1] offset) noexcept
    cdef void lay_out(self, Py_ssize_t q) noexcept
    cdef void lay_out_all(self) noexcept
    cdef void add_ridge(self) noexcept
    cdef double kept(self, Py_ssize_t q) noexcept
    cdef void precondition(self, Py_ssize_t q) noexcept
    cdef int factorise(self, Py_ssize_t q) noexcept
    cdef int ready(self, Py_ssize_t q, double* theta) noexcept
    cdef int refine(self, Py_ssize_t q, Py_ssize_t column, double* theta) noexcept
    cdef Py_ssize_t gradients(self, Py_ssize_t q, Py_ssize_t column, double theta) noexcept
