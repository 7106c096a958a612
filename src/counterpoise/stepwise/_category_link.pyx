# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""The link of single events with a column of many categories: ``solver/category_classes.py``.

All sums over categories that it needs are those of the solver. With W = Q/D of a category, its
effects on the score and on the solutions R^-1 M of the classes are linear forms of W.
"""

from libc.math cimport sqrt
from libc.string cimport memset

from counterpoise.stepwise._category_solver cimport CategorySolver
from counterpoise.stepwise._link cimport EventLink
from counterpoise.stepwise._refine cimport inner, symmetric_add, symmetric_more, symmetric_times

cdef extern from "link.h" nogil:
    double trace_of_product(
        const double* P, Py_ssize_t stride, const double* C, Py_ssize_t stride_C, Py_ssize_t d
    )
    int sweep(
        double* A, Py_ssize_t d, Py_ssize_t stride, double* tiny, double* W, double* K
    )

cdef double EPS = 2.220446049250313e-16
cdef double MIN_RIDGE = 1e-15  # over the trace: with less, ``category_classes`` takes another


cdef class CategoryLink(EventLink):
    """A link of two classes whose scores contain the effects of categories."""

    def __init__(self, CategorySolver scorer, double[::1] at, double[::1] mass):
        import numpy as np

        super().__init__(scorer, at, mass)
        cdef Py_ssize_t d = self.d
        self.solver = scorer
        self.T = np.zeros((3, d + 2, scorer.entries))
        self.F = np.zeros((2, d + 2, scorer.entries))
        self.L = np.zeros((2, scorer.entries))
        self.form, self.product = np.zeros((2, scorer.entries))
        self.x = np.zeros((2, d))
        self.E = np.zeros((d, d))
        self.gram, self.left, self.own = np.zeros((3, 2, 2))

    cdef double bilinear(self, const double* one, const double* M, const double* two) noexcept:
        """Return the product of two forms with a matrix (2 + d, .)."""
        cdef Py_ssize_t i, width = self.solver.entries
        cdef double total = 0.0
        for i in range(self.d + 2):
            if one[i] != 0.0:
                total += one[i] * inner(M + i * width, two, width)
        return total

    cdef double variance(self, Py_ssize_t k) noexcept:
        return 0.25 * self.variances[k]

    cdef int leverages(self) noexcept:
        """Compute q_k as ``WithinClasses.traces``, and the moments of the effects."""
        cdef CategorySolver s = self.solver
        cdef Py_ssize_t k
        for k in range(2):
            if s.spec.factor[k] != 1.0:  # the pooled classes have no factors
                return 1
        try:
            s.sum_squares(&self.centre[0], self.T, self.F)
        except MemoryError:
            return 1
        return self.invert() or self.measure_effects()

    cdef int invert(self) noexcept:
        """Compute q_k; return whether the matrix that is left is nearly singular."""
        cdef CategorySolver s = self.solver
        cdef Py_ssize_t d = self.d, stride = self.V.shape[1], i, j, k, p, q, l
        cdef double total = 0.0, trace = 0.0, determinant, root, n, found
        cdef double* V = &self.V[0, 0]
        cdef double* T
        memset(V, 0, d * stride * sizeof(double))
        for i in range(2):
            k = s.spec.order[i]
            total += s.a[0, k]
            symmetric_more(s.s.C + k * s.s.size, s.s.stride, s.a[0, k] / s.n[k], d, V, stride)
            symmetric_add(s.a[0, k], &self.delta[i, 0], d, V, stride)
        for j in range(d):
            for l in range(j, d):
                V[j * stride + l] -= self.T[0, j + 1, l + 1]
            trace += V[j * stride + j] / s.v[j]
        if not s.b >= MIN_RIDGE * trace:
            return 1
        for j in range(d):
            V[j * stride + j] += s.b * s.v[j]
            self.tiny[j] = d * EPS
        if sweep(V, d, stride, &self.tiny[0], &self.W[0, 0], &self.K[0, 0]):
            return 1
        for i in range(2):  # x = R^-1 M, and the form of W that is the rest of it
            k = s.spec.order[i]
            root = sqrt(s.a[0, k])
            for j in range(d):
                self.y[j] = -root * (self.delta[i, j] - self.T[1 + k, 0, j + 1] / s.n[k])
            symmetric_times(V, d, stride, &self.y[0], &self.x[i, 0])
            self.L[i, 0] = 0.5 / root
            self.L[i, d + 1] = s.y[k] * self.L[i, 0]
            for j in range(d):
                self.L[i, j + 1] = -self.x[i, j]
        for i in range(2):
            k = s.spec.order[i]
            for q in range(2):
                self.gram[i, q] = sqrt(s.a[0, k]) * (
                    inner(&self.delta[i, 0], &self.x[q, 0], d)
                    + inner(&self.T[1 + k, 0, 0], &self.L[q, 0], s.entries) / s.n[k]
                )
        determinant = (
            (1.0 - self.gram[0, 0]) * (1.0 - self.gram[1, 1]) - self.gram[0, 1] * self.gram[1, 0]
        )
        if not determinant > 0.0:
            return 1
        self.left[0, 0] = (1.0 - self.gram[1, 1]) / determinant
        self.left[1, 1] = (1.0 - self.gram[0, 0]) / determinant
        self.left[0, 1] = self.gram[0, 1] / determinant
        self.left[1, 0] = self.gram[1, 0] / determinant
        trace = 0.0
        for i in range(2):
            k = s.spec.order[i]
            n, T = s.n[k], &self.T[1 + k, 0, 0]
            memset(&self.E[0, 0], 0, d * d * sizeof(double))
            symmetric_more(s.s.C + k * s.s.size, s.s.stride, 1.0 / n, d, &self.E[0, 0], d)
            symmetric_add(1.0, &self.delta[i, 0], d, &self.E[0, 0], d)
            for j in range(d):
                for l in range(j, d):
                    self.E[j, l] += (
                        self.F[k, j + 1, l + 1]
                        - self.T[1 + k, j + 1, l + 1] - self.T[1 + k, l + 1, j + 1]
                    ) / n
            found = (s.total_count[k] - T[0]) / s.ridge / n
            found -= trace_of_product(V, stride, &self.E[0, 0], d, d)
            found -= self.gram[i, i] / s.a[0, k]
            for p in range(2):
                self.form[0] = inner(T, &self.L[p, 0], s.entries) / n  # mean of u
                for j in range(d):
                    self.product[j] = (
                        inner(T + (j + 1) * s.entries, &self.L[p, 0], s.entries) / n
                        - self.form[0] * self.delta[i, j]
                    )
                symmetric_times(
                    s.s.C + k * s.s.size, d, s.s.stride, &self.x[p, 0], &self.y[0]
                )
                for q in range(2):
                    root = inner(T, &self.L[q, 0], s.entries) / n
                    found += self.left[p, q] * (
                        inner(&self.y[0], &self.x[q, 0], d) / n
                        + self.bilinear(&self.L[p, 0], &self.F[k, 0, 0], &self.L[q, 0]) / n
                        - self.form[0] * root
                    )
                    found += (self.left[p, q] + self.left[q, p]) * inner(
                        &self.product[0], &self.x[q, 0], d
                    )
            self.q[i] = found * total
            trace += self.p[i] * self.q[i]
        for i in range(2):
            self.q[i] += trace / self.n[i]
        return 0

    cdef int measure_effects(self) noexcept:
        """Compute mean effects, variances of the score and the penalty of the effects."""
        cdef CategorySolver s = self.solver
        cdef Py_ssize_t d = self.d, i, j, k
        cdef double total = 0.0, n, square
        cdef double* w = &self.x[0, 0]
        cdef double* T
        self.form[0], self.form[d + 1] = -self.offset, 1.0
        for j in range(d):
            w[j] = 2.0 * self.A[1, j]
            self.form[0] -= w[j] * self.centre[j]
            self.form[j + 1] = -w[j]
        self.penalty = self.bilinear(&self.form[0], &self.T[0, 0, 0], &self.form[0])
        for i in range(2):
            k = s.spec.order[i]
            n, T = s.n[k], &self.T[1 + k, 0, 0]
            total += s.a[0, k]
            square = self.bilinear(&self.form[0], &self.F[k, 0, 0], &self.form[0])
            self.penalty -= s.alpha[k] * square
            self.effect[i] = inner(T, &self.form[0], s.entries) / n
            symmetric_times(s.s.C + k * s.s.size, d, s.s.stride, w, &self.y[0])
            self.variances[k] = (inner(w, &self.y[0], d) + square) / n
            self.variances[k] -= self.effect[i] * self.effect[i]
            for j in range(d):
                self.variances[k] += 2.0 * w[j] * (
                    inner(T + (j + 1) * s.entries, &self.form[0], s.entries) / n
                    - self.effect[i] * self.delta[i, j]
                )
        self.penalty *= 0.5 / total
        return 0
