from counterpoise.stepwise._category_solver cimport CategorySolver
from counterpoise.stepwise._link cimport EventLink


cdef class CategoryLink(EventLink):
    cdef CategorySolver solver
    cdef double[:, :, ::1] T, F         # sums over the categories: CategorySolver.sum_squares
    cdef double[:, ::1] L, x            # R^-1 M of the classes, as forms of W and of the features
    cdef double[::1] form, product
    cdef double[:, ::1] E, gram, left, own
    cdef double[2] variances

    cdef double bilinear(self, const double* one, const double* M, const double* two) noexcept
    cdef int invert(self) noexcept
    cdef int measure_effects(self) noexcept
