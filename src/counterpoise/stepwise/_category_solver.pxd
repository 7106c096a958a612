from counterpoise.stepwise._step_solver cimport StepSolver


cdef extern from "category_series.h" nogil:
    enum:
        ORDERS
    ctypedef struct category_terms:
        const double* S
        const double* H
        const double* R
        const double* P
        double scale
        double q
        double[2] count


cdef class CategorySolver(StepSolver):
    cdef object moments
    cdef readonly Py_ssize_t size       # categories
    cdef readonly Py_ssize_t refreshes  # sums over all categories so far
    cdef double[:, ::1] count           # (2, capacity) weight of each category, by class
    cdef double[:, :, ::1] sums         # (2, capacity, d) of the features relative to the origin
    cdef double[::1] origin
    cdef double rows                    # that the ridge of the categories is worth; 0 if unknown
    cdef bint is_chosen                 # whether these were chosen, and are outdated one day
    cdef Py_ssize_t learned, wait       # events since then, and how many there must be
    cdef double next_weight             # of all rows
    cdef bint is_summed                 # whether the series is that of the categories
    cdef Py_ssize_t changes             # of categories since it was summed
    cdef Py_ssize_t[::1] waiting        # categories that changed since, which it does not contain
    cdef Py_ssize_t wait_count, unsolved
    cdef double[:, ::1] old_count       # (MAX_WAITING, 2) as the series contains them
    cdef double[:, :, ::1] old_sums     # (MAX_WAITING, 2, d)
    cdef Py_ssize_t entries             # 2 + d, and more up to a multiple of 4
    cdef double[::1] series, place      # place (d,): what features of the series are relative to
    cdef bint has_squares               # whether the sums for the link are kept, too
    cdef double[::1] products, squares
    cdef double[2] total_count          # weight of the rows of each class with a category
    cdef double now, share              # the change t of the last solve, and the common factor
    cdef double[:, ::1] terms           # (8, entries) of two categories
    cdef double[:, ::1] work            # (5, entries)
    cdef double[2] alpha, first_alpha   # weight of a row of each class, now and in the series
    cdef double[2] y                    # target of each class
    cdef double ridge, first_ridge      # of the categories
    cdef double[2] rate                 # of the weights per change t, relative to their first value
    cdef double ridge_rate
    cdef double at_origin               # score of features at the origin

    cpdef use(self, categories)
    cdef void learn_category(
        self, const double* x, Py_ssize_t k, Py_ssize_t at, double omega
    ) noexcept
    cdef double effect(self, Py_ssize_t at, const double* coef) noexcept nogil
    cdef void score_origin(self, const double* coef, double offset) noexcept nogil
    cdef void move_origin(self) noexcept nogil
    cdef bint is_outdated(self) noexcept nogil
    cdef int weigh_rows(self) noexcept nogil
    cdef double change(self, double* share) noexcept nogil
    cdef void sum_categories(self) noexcept nogil
    cdef void keep(self, Py_ssize_t at) noexcept nogil
    cdef void change_series(self) noexcept nogil
    cdef void add_terms(self, const category_terms* one) noexcept nogil
    cdef int sum_squares(
        self, const double* centre, double[:, :, ::1] T, double[:, :, ::1] F
    ) except -1
    cdef void lay_out_category(
        self, Py_ssize_t at, double* work, category_terms* found
    ) noexcept nogil
    cdef void lay_out(
        self, const double* count, Py_ssize_t stride, const double* sums, const double* others,
        double sign, double* work, category_terms* found
    ) noexcept nogil
